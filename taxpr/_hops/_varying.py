"""Over which mesh axes the results of a jaxpr differ, where JAX does not keep track of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taxpr import _compat
from taxpr._rules import nested_jaxprs

Axes = frozenset[str]


def varying_axes(jaxpr: Any, given: Sequence[Axes]) -> list[Axes]:
    """The axes over which each result may differ, given those of the arguments.

    An upper bound: what depends on something that differs counts as different, unless a
    collective has made it the same. With ``check_vma=True`` JAX knows it exactly.
    """
    inner = _compat.open_jaxpr(jaxpr)
    axes: dict[Any, Axes] = dict(zip(inner.invars, given, strict=True))

    def of(atoms: Sequence[Any]) -> Axes:
        known = [axes.get(a, frozenset()) for a in atoms if not _compat.is_literal(a)]
        return frozenset().union(*known)

    for eqn in inner.eqns:
        out = (of(eqn.invars) | _made_by(eqn)) - _compat.made_equal(eqn)
        axes.update(dict.fromkeys(eqn.outvars, out))
    return [of([atom]) for atom in inner.outvars]


def _made_by(eqn: _compat.JaxprEqn) -> Axes:
    """The axes along which an equation itself makes devices differ."""
    made = _compat.made_different(eqn)
    for nested in nested_jaxprs(eqn):
        made = made.union(*map(_made_by, nested.jaxpr.eqns))
    return made
