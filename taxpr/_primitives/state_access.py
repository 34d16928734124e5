"""The primitives that read and write a state, and the check whether an access is safe.

Using a `taxpr.State` during tracing leaves one of these equations. `taxpr.uncurry` replaces them by
the values of the states; they cannot run or compile.

A JAX transformation inside the uncurried function may move, repeat or drop equations that do not
depend on its inputs, and a state access has no visible dependence on earlier ones. So each access
records the transformations around it, and is refused if the result could be wrong.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NoReturn

import jax
from jax.interpreters import ad
from jax.tree_util import treedef_is_leaf

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, Aval, Dims, Effects, PyTree, Tangent, TreeDef
from taxpr._errors import StateError
from taxpr._primitives.handed_out import Handed, lost


class _Primitive(_compat.ManyResults):
    """A primitive that checks its surroundings whenever it is bound.

    A jaxpr may be traced in one place, as by `jax.closure_convert`, and evaluated in another.
    """

    def bind(self, *args: ArrayLike, access: Access, **params: Any) -> list[Array]:
        return super().bind(*args, access=_placed(access), **params)


read_p = _Primitive("state_read")
write_p = _Primitive("state_write")

# Params of both: `access`; of a read also `avals`, a tuple. A write takes the new leaves.

WRAP = (
    "Wrap the function that you transform: pure, states = taxpr.uncurry(fun, *args), and "
    "out, states = pure(states, *args) in its place"
)
_WRAP_GRAD = (
    "Wrap the function that is differentiated, and not what calls it: pure, states = "
    "taxpr.uncurry(loss, *args), jax.value_and_grad(pure, argnums=1, has_aux=True)(states, *args)"
    ", and pure.write(states) to set the states to what it returned"
)
_WRAP_VMAP = (
    "Wrap the function that is mapped, and not what calls it: pure, states = taxpr.uncurry(fun, "
    "*args), and jax.vmap(pure, in_axes=(None, 0)), or states with a batch axis of their own"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Access:
    """One place where a state is read or written; a param of its equation.

    Attributes:
        state: The `taxpr.State`.
        op: ``"read"`` or ``"write"``.
        tree: The treedef of the value.
        source: The line of the user's code.
        place: The kinds of transformations around it, and the names of the functions traced inside
            them; None before it is bound.
        region: The number of the outermost differentiation around it, or None.
        loose: Whether that differentiation may move or repeat it.
        ruled: Whether it is in the forward rule of a custom_vjp, which is not differentiated.
    """

    state: Any
    op: str
    tree: TreeDef
    source: _compat.Source | None
    place: tuple[frozenset[str], frozenset[str]] | None = None
    region: int | None = None
    loose: bool = False
    ruled: bool = False

    def __repr__(self) -> str:
        return f"<{self.op} of {self.state.shown}>"

    def __str__(self) -> str:
        return f"{self.op} of {self.state.shown}{_compat.source_note(self.source)}"


def is_access(eqn: _compat.JaxprEqn) -> bool:
    """Whether an equation reads or writes a state."""
    return eqn.primitive is read_p or eqn.primitive is write_p


def access_of(eqn: _compat.JaxprEqn) -> Access:
    """The `Access` of an equation that reads or writes a state."""
    return eqn.params["access"]


def bind_read(state: object, tree: TreeDef, avals: Sequence[Aval]) -> PyTree:
    """Read a state during tracing."""
    avals = tuple(_here.avals[-1].get(state, avals) if _here.avals else avals)
    access = Access(state, "read", tree, _compat.source_here())
    # The mesh axes here may have other types than where the state was created.
    leaves = map(_compat.moved_here, read_p.bind(access=access, avals=avals))
    value = jax.tree.unflatten(tree, leaves)
    # Remember the value to detect in-place changes. A single array cannot change, and JAX's leak
    # checker would report a remembered tracer.
    if _here.handed and not (treedef_is_leaf(tree) or jax.config.jax_check_tracer_leaks):
        _here.handed[-1].append((access, Handed(value)))
    return value


def bind_write(state: object, tree: TreeDef, value: PyTree, leaves: Sequence[Array]) -> None:
    """Write a state during tracing. ``leaves`` are the converted leaves of ``value``."""
    write_p.bind(*leaves, access=Access(state, "write", tree, _compat.source_here()))
    for access, handed in _here.handed[-1] if _here.handed else ():
        if access.state is state:
            handed.written(value)


# ---- where an access stands --------------------------------------------------

# Functions that may be between a differentiation or vmap and a write: JAX keeps their equations in
# order and runs them once. Under vmap a cond runs all branches, and a while loop may run too often.
_KEPT_BY = {"ad": {"jit", "cond", "switch"}, "batch": {"jit", "scan"}}


_WHILE = {"while_cond", "while_body", "fori_loop"}


class _Here(threading.local):
    """The uncurry traces in progress in this thread; in each list the innermost is last."""

    def __init__(self) -> None:
        self.roots: list[Any] = []
        self.avals: list[Mapping[Any, Sequence[Aval]]] = []
        self.handed: list[list[tuple[Access, Handed]]] = []
        self.numbers: list[int] = []  # a unique number for each trace
        self.key: tuple[int, int] = (next(_threads), 0)
        # The number of traces in progress when a backward rule began to run.
        self.barred: int | None = None


_threads = itertools.count()
_trace_numbers = itertools.count()
_here = _Here()
_regions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_region_numbers = itertools.count()
_made_anew: weakref.WeakSet[Any] = weakref.WeakSet()
# JAX includes this value in the keys of its tracing caches.
_cache_key = _compat.user_context()


@contextlib.contextmanager
def tracing(avals: Mapping[Any, Sequence[Aval]]) -> Generator[None, None, None]:
    """The context in which `uncurry` traces a function.

    JAX must not reuse a cached trace that has an access: whether the access is allowed depends on
    its surroundings, and its types on the current ``avals``. So the context changes the cache key.

    Args:
        avals: The types of the leaves of a state, where they differ from the state's own.

    Raises:
        StateError: If a value that was read has been changed in place.
    """
    _here.roots.append(_compat.current_trace())
    _here.avals.append(avals)
    _here.handed.append([])
    _here.numbers.append(next(_trace_numbers))
    try:
        with _cache_key(_here.key):
            yield
        for access, handed in _here.handed[-1]:
            if handed.changed:
                raise lost(str(access))
    finally:
        _here.roots.pop()
        _here.avals.pop()
        _here.handed.pop()
        _here.numbers.pop()
        if _here.roots:
            _cache_key(_here.key).__enter__()


@contextlib.contextmanager
def in_backward_rule() -> Generator[None, None, None]:
    """The context in which a backward rule of an uncurried function runs."""
    before, _here.barred = _here.barred, len(_here.roots)
    try:
        yield
    finally:
        _here.barred = before


def is_uncurrying() -> bool:
    """Whether `uncurry` is tracing a function in this thread."""
    return bool(_here.roots)


def trace_number() -> int | None:
    """The number of the current trace of `uncurry`; None outside of one."""
    return _here.numbers[-1] if _here.numbers else None


def is_eager() -> bool:
    """Whether plain Python uses the state: no jaxpr is being traced."""
    if _here.roots or _here.barred is not None:
        return False
    return all(layer.kind in ("ad", "batch") for layer in _layers())


def _layers() -> list[_compat.Layer]:
    """The active transformations, innermost first; inside `tracing` only those begun since."""
    return _compat.layers(_here.roots[-1] if _here.roots else None)


def _placed(access: Access) -> Access:
    """The access with its surroundings recorded. Raises if its result could be wrong here."""
    layers = _layers()
    if access.place is None:
        _refuse_out_of_time(access, layers)
    kinds = [layer.kind for layer in layers]
    makers = [layer.trace for layer in layers if layer.kind == "jaxpr"]
    if _here.roots and len(makers) > 1 and makers[0] not in _made_anew:
        # Change the cache key, so that JAX traces this function again at every use: its cached
        # trace has the old key. The outer `tracing` context restores the key.
        _made_anew.add(makers[0])
        _here.key = _here.key[0], _here.key[1] + 1
        _cache_key(_here.key).__enter__()
    around = [k for k, kind in enumerate(kinds) if kind in ("ad", "batch", "other")]
    within = layers[: around[-1]] if around else []
    inside = frozenset(layer.name for layer in within if layer.kind == "jaxpr")
    transformed = frozenset(kinds) - {"jaxpr"}
    if access.place is not None:
        before, inside_before = access.place
        # JAX itself binds the equation again: within transformations already recorded, or with
        # an "other" one while it evaluates a part of a jaxpr.
        if (transformed <= before and inside <= inside_before) or "other" in transformed - before:
            return access
    if access.op == "write":
        _refuse_misplaced_write(access, set(inside), layers)
    access = dataclasses.replace(access, place=(transformed, inside))
    differentiated = [layer.trace for layer in layers if layer.kind in ("ad", "other")]
    if not differentiated:
        return access
    if any("remat" in name for name in inside) and inside & _WHILE:
        raise StateError(
            f"{access} is in a while loop in a jax.checkpoint inside of jax.grad, or the like, "
            f"which would run it twice. {_WRAP_GRAD}."
        )
    region = access.region
    if region is None:
        region = _regions.setdefault(differentiated[-1], next(_region_numbers))
    loose = access.loose or not inside <= _KEPT_BY["ad"]
    ruled = access.ruled or _compat.in_forward_rule()
    return dataclasses.replace(access, region=region, loose=loose, ruled=ruled)


def _refuse_out_of_time(access: Access, layers: Sequence[_compat.Layer]) -> None:
    if _here.barred == len(_here.roots):
        raise StateError(
            f"{access}: the backward rule of a jax.custom_vjp runs after the function that was "
            "uncurried, when its states are gone. Read the state in the function, and hand the "
            "value to the rule among the residuals."
        )
    if not layers:
        raise StateError(
            f"{access}: while the function is traced there is code that JAX runs at once, as in "
            "jax.ensure_compile_time_eval, and the state has no value yet. Use it outside of that."
        )
    if access.state.made_in is not None and access.state.made_in == trace_number():
        raise StateError(
            f"{access}: the state was made while the function is traced. It would be one state, "
            "where Python makes a new one in each call and each iteration. Make states before; "
            "an object that makes its own in its first call needs one outside of uncurry."
        )


def _refuse_misplaced_write(
    access: Access, inside: set[str], layers: Sequence[_compat.Layer]
) -> None:
    kinds = {layer.kind for layer in layers}
    if "other" in kinds:
        names = ", ".join(layer.name for layer in layers if layer.kind == "other")
        raise StateError(f"{access}: inside of {names} it is not known what it would do. {WRAP}.")
    for kind, what, cure in (
        ("ad", "jax.grad, or the like, of", _WRAP_GRAD),
        ("batch", "jax.vmap of", _WRAP_VMAP),
    ):
        if kind in kinds and (bad := sorted(inside - _KEPT_BY[kind])):
            raise StateError(
                f"{access} is inside of {what} {' and '.join(bad)}, which may move it, repeat it, "
                f"or run it where it should not. {cure}."
            )


def refuse_conflicts(accesses: Sequence[Access], is_used: Callable[[int], bool]) -> None:
    """Raise if a derivative could reorder or lose accesses of one state.

    Two cases: a read that the derivative may move, with a write in the same derivative; and a read
    after a write in the forward rule of a custom_vjp, whose derivative would be lost.

    Args:
        accesses: The accesses in program order.
        is_used: For the index of a read, whether anything but a write depends on it.
    """
    by_rules: dict[tuple[int | None, object], Access] = {}
    for k, one in enumerate(accesses):
        inexact = (jax.numpy.issubdtype(aval.dtype, jax.numpy.inexact) for aval in one.state.avals)
        if one.op == "write" and one.ruled and any(inexact):
            by_rules[one.region, one.state] = one
        elif one.op == "write":
            by_rules.pop((one.region, one.state), None)
        elif (write := by_rules.get((one.region, one.state))) and (not one.ruled or is_used(k)):
            raise StateError(
                f"{one}: in the same derivative there is the {write}, in the forward rule of a "
                "jax.custom_vjp, and the derivative of the value would be lost. Return the value "
                f"from the function in place of writing it, or wrap what is differentiated: "
                f"{_WRAP_GRAD}."
            )
    written = {(one.region, one.state): one for one in accesses if one.op == "write"}
    for one in accesses:
        write = written.get((one.region, one.state))
        if one.op == "read" and one.loose and one.region is not None and write is not None:
            raise StateError(
                f"{one} is in a loop, or the like, inside of jax.grad, which may move it; and "
                f"there is the {write} in the same derivative. {_WRAP_GRAD}."
            )


# ---- the primitives ----------------------------------------------------------


def _leaked(*_: object, access: Access, **__: object) -> NoReturn:
    raise StateError(
        f"{access}: it is run or compiled by itself, where a state has no value that could be "
        f"read or set. {WRAP}."
    )


def _differentiated(
    primals: Sequence[Array], tangents: Sequence[Tangent], *, access: Access
) -> tuple[list[Array], list[Tangent]]:
    if all(isinstance(tangent, ad.Zero) for tangent in tangents):
        return write_p.bind(*primals, access=access), []
    _refuse_derivative(access=access)


def _refuse_derivative(*_: object, access: Access) -> NoReturn:
    raise StateError(
        f"{access}: the value depends on what jax.grad, or the like, differentiates with respect "
        f"to, and a derivative does not go through a state. {_WRAP_GRAD}. Or write "
        "jax.lax.stop_gradient(value), where no gradient is meant to go that way."
    )


def _batched(args: Sequence[Array], dims: Dims, *, access: Access) -> NoReturn:
    del args, dims
    raise StateError(
        f"{access}: the value has a batch axis of jax.vmap, one for each lane, and the state has "
        f"not. {_WRAP_VMAP}. Or write a value without that axis, such as a mean by jax.lax.pmean "
        "over the axis_name of the vmap."
    )


def _read_avals(*, access: Access, avals: Sequence[Aval]) -> tuple[list[Aval], Effects]:
    del access
    return list(avals), {_compat.tag_effect}


def _written_avals(*avals: Aval, access: Access) -> tuple[list[Aval], Effects]:
    del avals, access
    return [], {_compat.tag_effect}


_compat.define(read_p, impl=_leaked, forwards=_leaked, effectful_types=_read_avals)
_compat.define(
    write_p,
    impl=_leaked,
    forwards=_leaked,
    effectful_types=_written_avals,
    jvp=_differentiated,
    jet=_refuse_derivative,
    batch=_batched,
)
