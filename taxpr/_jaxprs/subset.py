"""Some equations of a jaxpr as a jaxpr of their own."""

from collections.abc import Sequence
from typing import Any

from taxpr import _compat
from taxpr._compat import Jaxpr, JaxprEqn, Var


def subset(jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]) -> Jaxpr:
    """Some equations of a jaxpr as a jaxpr, whose inputs are their operands from other equations.

    It returns what the other equations use, or all where they use none.

    Args:
        jaxpr: An open jaxpr.
        eqns: Some of its equations, in order.
    """
    made: dict[Var, None] = {}
    needed: dict[Any, None] = {}
    for eqn in eqns:
        atoms: list[Any] = [atom for atom in eqn.invars if not _compat.is_literal(atom)]
        needed.update((x, None) for x in atoms if x not in made)
        made.update((x, None) for x in eqn.outvars if not _compat.is_dropped(x))
    chosen = set(map(id, eqns))
    others = [one for one in jaxpr.eqns if id(one) not in chosen]
    atoms = [*jaxpr.outvars, *(atom for one in others for atom in one.invars)]
    used = {atom for atom in atoms if not _compat.is_literal(atom)}
    results = [x for x in made if x in used] or list(made)
    return _compat.rebuilt(
        jaxpr, eqns=eqns, invars=list(needed), outvars=results, constvars=(), consts=()
    )
