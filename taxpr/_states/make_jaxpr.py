"""`make_jaxpr`: the jaxpr of a function that uses states, and the states."""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, a_type
from taxpr._programs.trace import called_as, trace
from taxpr._states.stateful import stateful


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    axis_env: Sequence[tuple[Hashable, int]] | None = None,
    return_shape: bool = False,
    return_only_write: bool = False,
) -> Callable[..., Any]:
    """Like `jax.make_jaxpr`, for a function that uses states.

    Signature and results match ``brainstate.transform.make_jaxpr``. States may be used inside
    `jax.lax.scan`, `jax.lax.while_loop`, `jax.lax.cond`, `jax.jit` and so on.

    Args:
        fun: A function of PyTrees of arrays, which may use any `State`.
        static_argnums: As for `jax.jit`.
        static_argnames: As for `jax.jit`.
        axis_env: Pairs ``(name, size)`` of axes for collectives.
        return_shape: Whether to return the shapes of the results, too.
        return_only_write: Whether the jaxpr returns only the states that it writes. It always
            takes all states as inputs.

    Returns:
        A function of the arguments of ``fun`` that returns ``(closed_jaxpr, states)``, and with
        ``return_shape`` the PyTree of `jax.ShapeDtypeStruct` of the results as a third item. The
        jaxpr goes from ``[*args, *states]`` to ``[*results, *states]``, all of them flat;
        ``states`` is a tuple of the `State` objects in the order of their use.

    Raises:
        StateError: If the result of a use of a state could be wrong.
        RefusedError: If a state is used in an equation that cannot be injected.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import State, make_jaxpr
        >>> state = State(jnp.asarray([1.0, 2.0]))
        >>> def f(x):
        ...     state.value += x
        ...     return state.value.sum()
        >>> jaxpr, states = make_jaxpr(f)(jnp.asarray([0.5, 0.5]))
        >>> print(*jaxpr.in_avals, "->", *jaxpr.out_avals, states)
        float32[2] float32[2] -> float32[] float32[2] (State(float32[2]),)
    """
    if not callable(fun):
        raise ArgumentError(f"make_jaxpr: {fun!r} is {a_type(fun)}, not a function.")
    traced = functools.partial(
        trace, static_argnums=static_argnums, static_argnames=static_argnames
    )

    @called_as(fun)
    def made(*args: PyTree, **kwargs: PyTree) -> Any:
        with _compat.with_axes(axis_env or ()):
            done, states = stateful(fun, args, kwargs, traced)
            inner = _compat.open_jaxpr(done.jaxpr)
            written = {access.state for access in done.accesses if access.op == "write"}
            leaves = [state in written for state in states for _ in state.avals]
            n_out = done.program.out_tree.num_leaves
            outs = list(inner.outvars[:n_out])
            outs += [
                atom
                for atom, is_written in zip(inner.outvars[n_out:], leaves, strict=True)
                if is_written or not return_only_write
            ]
            invars = [*inner.invars[len(leaves) :], *inner.invars[: len(leaves)]]
            jaxpr = _compat.rebuilt(done.jaxpr, eqns=inner.eqns, invars=invars, outvars=outs)
        if not return_shape:
            return jaxpr, tuple(states)
        avals = done.program.out_avals
        shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        return jaxpr, tuple(states), jax.tree.unflatten(done.program.out_tree, shapes)

    return made
