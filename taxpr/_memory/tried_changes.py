"""Changes of the source for `what_if`: each is a function that is changed, and how it is told."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy

from taxpr import _compat
from taxpr._calls.door import door_of
from taxpr._calls.libraries import checkpoint_of, is_object
from taxpr._calls.static import is_traced
from taxpr._compat import Jaxpr, JaxprEqn, PyTree, StoredJaxpr, map_leaves
from taxpr._compile_time.loop_body import LoopBody
from taxpr._compile_time.parts import MadeBy
from taxpr._compile_time.rolled import with_scans
from taxpr._compile_time.unrolled import unrolled
from taxpr._costs.costs import Cost, Costs
from taxpr._editing.edited import edit
from taxpr._errors import ArgumentError, RefusedError, name_of, signature_of
from taxpr._hops.table import nested_jaxprs
from taxpr._programs.trace import called_as
from taxpr._source.statements import statements_of
from taxpr._untyped import jax as _jax

_LOOPS = 3  # functions with loops that are tried


class Needs(NamedTuple):
    """The needs of a call.

    Attributes:
        ends: The bytes of arguments, and of results without those that lie in donated arguments.
        temporaries: The bytes of all else.
        jaxpr: Its program.
    """

    ends: int
    temporaries: int
    jaxpr: StoredJaxpr

    @property
    def cost(self) -> Cost:
        """Its operations, by the table of costs."""
        return Costs().of_jaxpr(_compat.open_jaxpr(self.jaxpr))

    @property
    def equations(self) -> int:
        """How many equations it has, those in a loop once."""
        return sum(1 for eqn, _ in _eqns_in(self.jaxpr) if not nested_jaxprs(eqn))

    @property
    def total(self) -> int:
        """The bytes in all."""
        return self.ends + self.temporaries


class Asked(NamedTuple):
    """A call whose memory was asked for.

    Attributes:
        fun: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        needs: Takes another function of these arguments, and whether to compile it: returns its
            needs.
        now: The needs of this function.
        compiled: Whether they come from XLA, and are not estimated.
        parts: The user's functions that make residuals, by their names, and how many bytes.
        devices: How many devices the call uses.
    """

    fun: Any
    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]
    needs: Callable[[Any, bool], Needs]
    now: Needs
    compiled: bool
    parts: Sequence[tuple[str, int]]
    devices: int


def _eqns_in(stored: StoredJaxpr) -> Iterator[tuple[JaxprEqn, Jaxpr]]:
    """The equations of a jaxpr and of those that run in it, each with the jaxpr that has it."""
    inner = _compat.open_jaxpr(stored)
    for eqn in inner.eqns:
        yield eqn, inner
        for nested in nested_jaxprs(eqn):
            if not (nested.rule or nested.idle):
                yield from _eqns_in(nested.stored)


class Trial(NamedTuple):
    """A function with a change, and how it is told."""

    fun: Any
    what: str
    code: Callable[[], str]  # known when it was traced
    notes: Callable[[], Sequence[str]] = tuple


def checkpointed(fun: Any, where: Any, policy: Any) -> Trial:
    if policy is not None and not callable(policy):
        raise ArgumentError(
            f"what_if: policy={policy!r} is no function such as "
            "jax.checkpoint_policies.dots_saveable."
        )
    told = where if isinstance(where, str) else name_of(where)
    parts = told.split(".")
    short = ".".join(parts[-2:] if parts[-1].startswith("__") else parts[-1:])
    policies = _jax.checkpoint_policies
    known = [name for name in dir(policies) if getattr(policies, name) is policy]  # and old names
    named = "" if policy is None else max(known, default=getattr(policy, "__name__", "policy"))
    more = f", policy={'jax.checkpoint_policies.' if known else ''}{named}" if named else ""
    code = [f"{short} = jax.checkpoint({short}{more})"]

    def wrap(one: Any) -> Any:
        if not callable(one):
            raise ArgumentError(
                f"what_if: checkpoint={told!r} is a variable and no function. Give the name of the "
                "function that computes it."
            )

        @functools.wraps(one, updated=())
        def run(*args: Any, **kwargs: Any) -> Any:
            name, checkpoint = checkpoint_of(args, kwargs)
            if "static_argnums" not in inspect.signature(checkpoint).parameters:
                code[0] = f"{short} = {name}({short}{more})"
                return checkpoint(one, policy=policy)(*args, **kwargs)
            signature = signature_of(one)
            if checkpoint is not _jax.checkpoint and signature is not None:
                every = signature.bind(*args, **kwargs)  # as flax nnx does
                every.apply_defaults()
                args, kwargs = every.args, every.kwargs
            numbers = tuple(k for k, x in enumerate(args) if _is_fixed(x))
            fixed = {name: x for name, x in kwargs.items() if _is_fixed(x)}
            rest = {name: x for name, x in kwargs.items() if name not in fixed}
            words = "".join(f", {x}=..." for x in fixed)
            bound = f"functools.partial({short}{words})" if fixed else short
            static = f", static_argnums={numbers}" if numbers else ""
            code[0] = f"{short} = {name}({bound}{static}{more})"
            part = functools.partial(one, **fixed) if fixed else one
            made = checkpoint(part, policy=policy, static_argnums=numbers)
            return made(*args, **rest)

        return run

    with_policy = f" with {named}" if named else ""
    return Trial(
        edit(fun, where, wrap),
        f"{told} is computed again in the backward pass{with_policy}",
        lambda: code[0],
    )


def scanned(fun: Any, where: Any) -> Trial:
    told = where if isinstance(where, str) else name_of(where)
    found: list[LoopBody] = []

    def notes() -> list[str]:
        return [
            f"`body` does one iteration of `{one.loop.code}` ({one.loop.place}). Stack where the "
            "parameters are made: then there is no copy of them."
            for one in found
        ]

    return Trial(
        with_scans(fun, where, found),
        f"the loop in {told} is a scan",
        lambda: "; ".join(one.code for one in found),
        notes,
    )


def with_loops(asked: Asked) -> list[str]:
    """The functions that have Python loops, most equations first."""
    sizes: dict[str, int] = {}
    made = [MadeBy(eqn, statements_of(eqn), home) for eqn, home in _eqns_in(asked.now.jaxpr)]
    for loop in unrolled(made):
        sizes[loop.name] = sizes.get(loop.name, 0) + len(loop.eqns)
    return sorted(sizes, key=sizes.__getitem__, reverse=True)[:_LOOPS]


def _is_fixed(x: Any) -> bool:
    """Whether an argument holds what no array can, or a flag."""
    leaves = jax.tree.leaves(x, is_leaf=is_object)
    return any(isinstance(one, bool) or not (is_object(one) or is_traced(one)) for one in leaves)


def halved(fun: Any, where: Any) -> Trial:
    bfloat16: Any = jax.numpy.bfloat16
    told = str(where)
    short = told.rpartition(".")[2]
    code = [f"{short} = {short}.astype(jnp.bfloat16)"]

    def is_float(leaf: Any) -> bool:
        return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)

    def cast(x: Any) -> Any:
        leaves = jax.tree.leaves(x)
        if not any(map(is_float, leaves)):
            kinds = dict.fromkeys(str(getattr(x, "dtype", type(x).__name__)) for x in leaves)
            raise ArgumentError(
                f"what_if: bfloat16={told!r} holds {', '.join(kinds)} and no floats, so there is "
                "nothing to cast."
            )
        if len(leaves) != 1 or leaves[0] is not x:
            code[0] = f"{short} = jax.tree.map(lambda x: x.astype(jnp.bfloat16), {short})"
        return map_leaves(lambda leaf: leaf.astype(bfloat16) if is_float(leaf) else leaf, x)

    return Trial(edit(fun, where, cast), f"{told} is kept in bfloat16", lambda: code[0])


def argument_names(asked: Asked) -> list[str]:
    signature = signature_of(asked.fun)
    if signature is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [one.name for one in signature.parameters.values() if one.kind in kinds]
    return given[: len(asked.args)]


def donated(asked: Asked, which: Any) -> Trial:
    names = argument_names(asked)
    number = names.index(which) if which in names else which
    if not isinstance(number, int) or not 0 <= number < len(asked.args):
        raise ArgumentError(
            f"what_if: donate={which!r} is no argument of {name_of(asked.fun)} that was given by "
            f"position. There are {', '.join(names) or len(asked.args)}."
        )
    told = names[number] if number < len(names) else f"argument {number}"
    leaves = jax.tree.leaves((asked.args, asked.kwargs), is_leaf=is_object)
    if other := [one for one in leaves if is_object(one) or not is_traced(one)]:
        raise RefusedError(
            f"what_if: donate= is tried by jax.jit, which takes arrays, and {name_of(asked.fun)} "
            f"also takes a {type(other[0]).__name__}. Donate by the jit of its library, and ask "
            "memory of that."
        )
    if door_of(asked.fun, asked.args, asked.kwargs, unseen=False) is not None:
        raise RefusedError(
            "what_if: donate= is tried by jax.jit, which makes arrays of a model's Python "
            f"scalars, and {name_of(asked.fun)} takes them as they are. Donate by the jit of its "
            'library, such as eqx.filter_jit(..., donate="all"), and ask memory of that.'
        )

    @called_as(asked.fun)
    def called(*args: Any, **kwargs: Any) -> Any:  # as `jax.jit` takes no object without a hash
        return asked.fun(*args, **kwargs)

    return Trial(
        _jax.jit(called, donate_argnums=number),
        f"{told} is donated",
        lambda: f"jax.jit(..., donate_argnums={number})",
    )
