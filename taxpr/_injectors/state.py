"""`state`: an injector that gives a program a state, which tags read and write."""

import jax

from taxpr._compat import Params, PyTree, TreeDef
from taxpr._errors import InjectorError
from taxpr._injectors.injector import Injector
from taxpr._jaxprs.trees import refuse_no_arrays


def state(initial: PyTree) -> Injector:
    """An injector that gives the program a state: some tags read it, others write it.

    A tag with the param ``op="get"`` returns the state in place of its value, and a tag with
    ``op="set"`` makes its value the state. All its tags share the state, in the order of execution.
    Attach one for each state, and tell their tags apart by name. A tag that reads must mark a value
    of the state's type, which is not used.

    Args:
        initial: The state before the run, a PyTree of arrays; it is ``ctx["state"]`` of
            the context to begin with, and may be set there, too.

    Raises:
        InjectorError: When it is attached to a tag without such an ``op``, or if the tagged value
            has not the structure, shape and dtype of the state.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import state, tag, trace
        >>> def running_sum(x):
        ...     total = tag(jnp.zeros(()), name="total", op="get")
        ...     return tag(total + x, name="total", op="set")
        >>> xs = jnp.arange(4.0)
        >>> sums = trace(lambda xs: jax.lax.map(running_sum, xs))(xs).inject(state(jnp.float32(10)))
        >>> out, ctx = sums(sums.ctx, xs)
        >>> out.tolist(), sums.report(ctx)
        ([10.0, 11.0, 13.0, 16.0], {'*': {'state': Array(16., dtype=float32)}})
    """
    refuse_no_arrays(f"state: {initial!r}", initial)

    def fire(
        values: dict[str, PyTree], held: PyTree, token: PyTree, params: Params
    ) -> tuple[PyTree, PyTree]:
        del values
        op = params.get("op")
        if op not in ("get", "set"):
            raise InjectorError(
                f"state: the tag has {f'op={op!r}' if 'op' in params else 'no op'}. A tag that "
                'reads the state has op="get", one that writes it op="set".'
            )
        if _shapes(held) != _shapes(token):
            expected, found = (jax.tree.unflatten(*_shapes(tree)) for tree in (held, token))
            raise InjectorError(
                f"state: the state is {expected} and the token is {found}. Begin with a state of "
                "the token's structure, shape and dtype."
            )
        return (held, held) if op == "get" else (token, token)

    return Injector(
        "state", {}, fire, lambda site: initial, lambda held: {"state": held}, shared=True
    )


def _shapes(tree: PyTree) -> tuple[TreeDef, list[str]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves]
