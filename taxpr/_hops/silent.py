"""Remove side effects that no result needs, so that an extra run of a jaxpr does not print."""

import jax

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._primitives.tag_equation import is_tag


def silent(stored: _compat.J) -> _compat.J:
    """The jaxpr without effectful equations whose results nothing uses, such as `jax.debug.print`.

    Applies to nested jaxprs too. Writes to Refs and tags stay. An equation that does nothing takes
    the place of each removed one, so that addresses stay valid.
    """
    inner = _compat.open_jaxpr(stored)
    if not inner.effects:
        return stored
    # JAX does not mark every unused result as dropped, see `is_dropped`.
    atoms = [*inner.outvars, *(atom for eqn in inner.eqns for atom in eqn.invars)]
    used = {atom for atom in atoms if not _compat.is_literal(atom)}
    return _compat.rebuilt(stored, eqns=[_silent(eqn, used) for eqn in inner.eqns])


def _silent(eqn: _compat.JaxprEqn, used: set[_compat.Var]) -> _compat.JaxprEqn:
    if not eqn.effects or is_tag(eqn):
        return eqn
    nested = nested_jaxprs(eqn)
    if nested and all(one.param is not None for one in nested):
        new = replace_nested(eqn, {one.label: silent(one.stored) for one in nested})
        left = {effect for one in nested_jaxprs(new) for effect in one.jaxpr.effects}
        effects = {e for e in new.effects if e in left or _compat.is_ref_effect(e)}
        return new.replace(effects=effects)
    if used.isdisjoint(eqn.outvars) and not any(map(_compat.is_ref_effect, eqn.effects)):
        with jax.disable_jit(False):
            [nothing] = _compat.open_jaxpr(_compat.make_jaxpr(_compat.jit(lambda: ()))()).eqns
        return nothing.replace(source_info=eqn.source_info, ctx=eqn.ctx)
    return eqn
