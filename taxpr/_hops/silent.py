"""Jaxprs without what happens beside their results."""

from __future__ import annotations

from typing import Any

import jax

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._primitives.tag import is_tag


def silent(stored: Any) -> Any:
    """A jaxpr without equations that have effects and no result that is used.

    Such as `jax.debug.print`, also in nested jaxprs. What writes to a reference stays. So do tags,
    with their addresses: an equation that does nothing takes the place of each that goes.
    """
    inner = _compat.open_jaxpr(stored)
    if not inner.effects:
        return stored
    # What JAX marks as dropped is not all that nothing uses; see `is_dropped`.
    atoms = [*inner.outvars, *(atom for eqn in inner.eqns for atom in eqn.invars)]
    used = {atom for atom in atoms if not _compat.is_literal(atom)}
    return _compat.rebuilt(stored, eqns=[_silent(eqn, used) for eqn in inner.eqns])


def _silent(eqn: _compat.JaxprEqn, used: set[Any]) -> _compat.JaxprEqn:
    if not eqn.effects or is_tag(eqn):
        return eqn
    nested = nested_jaxprs(eqn)
    if nested and all(one.param is not None for one in nested):
        new = replace_nested(eqn, {one.label: silent(one.stored) for one in nested})
        left = {effect for one in nested_jaxprs(new) for effect in one.jaxpr.effects}
        effects = {e for e in new.effects if e in left or _compat.is_ref_effect(e)}
        return new.replace(effects=effects)
    if used.isdisjoint(eqn.outvars) and not any(map(_compat.is_ref_effect, eqn.effects)):
        [nothing] = _compat.open_jaxpr(jax.make_jaxpr(jax.jit(lambda: ()))()).eqns
        return nothing.replace(source_info=eqn.source_info, ctx=eqn.ctx)
    return eqn
