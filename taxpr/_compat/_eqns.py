"""Read and bind equations: their kind, params and effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from taxpr._compat._primitives import call_hi_primitive_p, hijax_bases
from taxpr._compat._private import private
from taxpr._compat._types import (
    Array,
    Atom,
    Effect,
    Effects,
    JaxprEqn,
    Params,
    Primitive,
    Var,
    is_tuple,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_effects = private("effects")
_sharding_impls = private("sharding_impls")
_source_info_util = private("source_info_util")

# The keys of the table of higher-order primitives.
Kind = Primitive | type


def kind_of(eqn: JaxprEqn) -> Kind:
    """The primitive of an equation, or its class if it is a hijax one."""
    if eqn.primitive is call_hi_primitive_p:
        held: object = eqn.params[HIDING_PARAM]
        return type(held)
    return eqn.primitive


def is_kind(thing: object) -> TypeIs[Kind]:
    """Whether ``thing`` is a primitive or a hijax class."""
    return isinstance(thing, Primitive) or (
        isinstance(thing, type) and issubclass(thing, hijax_bases)
    )


def unspecified() -> Any:
    """The sharding that a `jax.jit` notes for a value where the user gave none."""
    return _sharding_impls.UNSPECIFIED


# The param with the object of a hijax equation, which has what other equations have as params.
HIDING_PARAM = "_prim"


def hidden(eqn: JaxprEqn) -> dict[str, Any]:
    """The attributes of a hijax equation's object, which take the place of params.

    From 0.12 custom_root keeps its jaxpr there. Flags of JAX move remat, scan and the custom rules
    there too; these keep a traced function.
    """
    held = eqn.params.get(HIDING_PARAM)
    return {} if held is None else _held_by(held)


def _held_by(holder: object) -> dict[str, Any]:
    def shown(value: Any) -> Any:
        if isinstance(value, jax.stages.Traced):
            return value.jaxpr
        # Up to 0.11 the batched object holds the original one.
        return _held_by(value) if isinstance(value, hijax_bases) else value

    # The attribute `params` repeats the others.
    return {key: shown(value) for key, value in vars(holder).items() if key != "params"}


def scan_counts(eqn: JaxprEqn) -> tuple[int, int]:
    """``(num_consts, num_carry)`` of a scan."""
    params = eqn.params
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    # From 0.11 the split of the operands is a flat tree (consts, carry, xs).
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def scan_options(eqn: JaxprEqn) -> Params:
    """The keywords of `jax.lax.scan` that rebuild this scan.

    Leaves out ``linear``, a hint that JAX ignores and dropped after 0.9. ``_split_transpose``
    exists up to 0.9.
    """
    names = ("length", "reverse", "unroll", "_split_transpose")
    return {name: eqn.params[name] for name in names if name in eqn.params}


def bind(prim: Primitive, operands: Sequence[Array], params: Params) -> list[Array]:
    """Bind a primitive with the params of an equation. Always returns a list."""
    binds: Any = prim
    bound = binds.get_bind_params(params)
    # Up to 0.8 `get_bind_params` returns (subfuns, params), from 0.9 only params.
    subfuns, bind_params = bound if is_tuple(bound) else ((), bound)
    out = binds.bind(*subfuns, *operands, **bind_params)
    return list(out) if prim.multiple_results else [out]


class _TagEffect(Effect):
    """The effect of a tag made by `keep`, which stops dead code elimination from removing it."""

    def __repr__(self) -> str:
        return "taxpr.keep"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TagEffect)

    def __hash__(self) -> int:
        return hash(_TagEffect)


tag_effect = _TagEffect()

# Each set lists the effects that one part of JAX allows. Without it, that part refuses the effect.
for _part in ("lowerable", "control_flow_allowed", "custom_derivatives_allowed", "remat_allowed"):
    if _allowed := getattr(_effects, f"{_part}_effects", None):
        _allowed.add_type(_TagEffect)
if _kept := getattr(_effects, "partial_eval_kept_effects", None):
    _kept.add_type(_TagEffect)


def moved_effects(effects: Effects, now: Mapping[Var, Atom]) -> Effects:
    """The effects of an equation after its variables are replaced.

    From 0.10 an effect on a Ref has the variable of the Ref; before, its position.
    """

    def moved(effect: Any) -> Effect:
        var = getattr(effect, "input", None)
        return effect.replace(now[var]) if isinstance(var, Var) and var in now else effect

    return {moved(effect) for effect in effects} if effects else effects


def scoped(eqn: JaxprEqn, name: str) -> JaxprEqn:
    """The equation within one more scope, which is the innermost of its name stack."""
    source: Any = eqn.source_info
    return eqn.replace(source_info=source.replace(name_stack=source.name_stack.extend(name)))


@dataclasses.dataclass(frozen=True, slots=True)
class SaidOfAll:
    """In the name stack of an equation: a note of `trace` about the whole program.

    A name stack follows an equation through all transformations and into other programs.

    Attributes:
        said: The note; two that are equal say the same.
    """

    said: Hashable

    @property
    def name(self) -> str:
        """It has none, which scopes and transformations have."""
        return ""

    def wrap(self, stack: list[str]) -> None:
        """Written in a name stack, it is nothing."""


def with_said(eqn: JaxprEqn, said: Hashable) -> JaxprEqn:
    """The equation with a note of `trace` about its program, and without an earlier one."""
    source: Any = eqn.source_info
    kept = (one for one in source.name_stack.stack if type(one) is not SaidOfAll)
    stack = _source_info_util.NameStack((SaidOfAll(said), *kept))
    return eqn.replace(source_info=source.replace(name_stack=stack))


def said_of(eqn: JaxprEqn | None) -> Any:
    """The note of `trace` about the program of an equation; None without one."""
    if eqn is None:
        return None
    stack: Any = eqn.source_info.name_stack.stack
    return next((one.said for one in stack if type(one) is SaidOfAll), None) if stack else None


def is_ref_effect(effect: Effect) -> bool:
    """Whether an effect acts on a Ref among the operands."""
    # Only effects on Refs have an operand: `input` from 0.10, `input_index` before.
    return hasattr(effect, "input") or hasattr(effect, "input_index")
