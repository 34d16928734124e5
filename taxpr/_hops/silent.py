"""Jaxprs without what happens beside their results."""

from __future__ import annotations

from typing import Any

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs, replace_nested


def silent(stored: Any) -> Any:
    """A jaxpr without equations that have effects and no result that is used.

    Such as `jax.debug.print`, also in nested jaxprs. What writes to a reference stays.
    """
    inner = _compat.open_jaxpr(stored)
    if not inner.effects:
        return stored
    # What JAX marks as dropped is not all that nothing uses; see `is_dropped`.
    atoms = [*inner.outvars, *(atom for eqn in inner.eqns for atom in eqn.invars)]
    used = {atom for atom in atoms if not _compat.is_literal(atom)}
    eqns = [_silent_inside(eqn) for eqn in inner.eqns if not _only_effects(eqn, used)]
    return _compat.rebuilt(stored, eqns=eqns)


def _only_effects(eqn: _compat.JaxprEqn, used: set[Any]) -> bool:
    unused = used.isdisjoint(eqn.outvars)
    return bool(eqn.effects) and unused and not any(map(_compat.is_ref_effect, eqn.effects))


def _silent_inside(eqn: _compat.JaxprEqn) -> _compat.JaxprEqn:
    nested = nested_jaxprs(eqn)
    if not eqn.effects or not nested or any(one.param is None for one in nested):
        return eqn
    new = replace_nested(eqn, {one.label: silent(one.stored) for one in nested})
    left = {effect for one in nested_jaxprs(new) for effect in one.jaxpr.effects}
    effects = {e for e in new.effects if e in left or _compat.is_ref_effect(e)}
    return new.replace(effects=effects)
