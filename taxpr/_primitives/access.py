"""`Access`: a place where a state is read or written, and the check whether that is safe there.

A JAX transformation inside the uncurried function may move, repeat or drop equations that do not
depend on its inputs, and a state access has no visible dependence on earlier ones. So each access
records the transformations around it, and is refused if the result could be wrong.
"""

import dataclasses
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import TreeDef
from taxpr._errors import StateError
from taxpr._primitives.uncurrying import here, layers_here, trace_again, trace_number

WRAP = (
    "Wrap the function that you transform: pure, states = taxpr.uncurry(fun, *args), and "
    "out, states = pure(states, *args) in its place"
)
WRAP_GRAD = (
    "Wrap the function that is differentiated, and not its caller: pure, states = "
    "taxpr.uncurry(loss, *args), jax.value_and_grad(pure, argnums=1, has_aux=True)(states, "
    "*args), and pure.write(states) to set the states to its results"
)
WRAP_VMAP = (
    "Wrap the function that is mapped, and not its caller: pure, states = taxpr.uncurry(fun, "
    "*args), and jax.vmap(pure, in_axes=(None, 0)), or states with a batch axis of their own"
)


# Functions that may be between a differentiation or vmap and a write: JAX keeps their equations in
# order and runs them once. Under vmap a cond runs all branches, and a while loop may run too often.
_KEPT_BY = {"ad": {"jit", "cond", "switch"}, "batch": {"jit", "scan"}}


_WHILE = {"while_cond", "while_body", "fori_loop"}

_regions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_region_numbers = itertools.count()


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


def placed(access: Access) -> Access:
    """The access with its surroundings recorded. Raises if its result could be wrong here."""
    layers = layers_here()
    if access.place is None:
        _refuse_out_of_time(access, layers)
    kinds = [layer.kind for layer in layers]
    makers = [layer.trace for layer in layers if layer.kind == "jaxpr"]
    if len(makers) > 1:
        trace_again(makers[0])
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
            f"which would run it twice. {WRAP_GRAD}."
        )
    region = access.region
    if region is None:
        region = _regions.setdefault(differentiated[-1], next(_region_numbers))
    loose = access.loose or not inside <= _KEPT_BY["ad"]
    ruled = access.ruled or _compat.in_forward_rule()
    return dataclasses.replace(access, region=region, loose=loose, ruled=ruled)


def _refuse_out_of_time(access: Access, layers: Sequence[_compat.Layer]) -> None:
    if here.barred == len(here.roots):
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
    for kind, what, fix in (
        ("ad", "jax.grad, or the like, of", WRAP_GRAD),
        ("batch", "jax.vmap of", WRAP_VMAP),
    ):
        if kind in kinds and (bad := sorted(inside - _KEPT_BY[kind])):
            raise StateError(
                f"{access} is inside of {what} {' and '.join(bad)}, which may move it, repeat it, "
                f"or run it where it should not. {fix}."
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
                f"{WRAP_GRAD}."
            )
    written = {(one.region, one.state): one for one in accesses if one.op == "write"}
    for one in accesses:
        write = written.get((one.region, one.state))
        if one.op == "read" and one.loose and one.region is not None and write is not None:
            raise StateError(
                f"{one} is in a loop, or the like, inside of jax.grad, which may move it; and "
                f"there is the {write} in the same derivative. {WRAP_GRAD}."
            )
