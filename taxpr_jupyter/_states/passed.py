"""Find the outputs of a jaxpr that are its inputs unchanged, to tell which states are written."""

from collections.abc import Mapping
from typing import Any

import jax

from taxpr import introspect


def written(jaxpr: Any, states: Mapping[str, Any]) -> frozenset[str]:
    """The names of the states that ``(states, ...) -> (..., states)`` does not return unchanged."""
    number = len(jax.tree.leaves(dict(states)))
    first = len(jaxpr.jaxpr.outvars) - number
    same = [into == k for k, into in enumerate(passed(jaxpr)[first:])]
    leaves = jax.tree.unflatten(jax.tree.structure(dict(states)), same)
    return frozenset(name for name in states if not all(jax.tree.leaves(leaves[name])))


def passed(jaxpr: Any) -> list[int | None]:
    """For each output of a jaxpr, the position of the input that it equals, or None.

    Libraries pass the whole state of a model through their own `jit` and `scan`, and each output is
    a new variable there. So this follows values through calls, branches and carries.

    Example:
        >>> import jax
        >>> passed(jax.make_jaxpr(jax.jit(lambda x, y: (y, x + 1)))(1.0, 2.0))
        [1, None]
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    place = {var: k for k, var in enumerate(inner.invars)}
    for eqn in inner.eqns:
        for result, operand in _passed_by(eqn).items():
            atom = eqn.invars[operand]
            if not introspect.is_literal(atom) and atom in place:
                place[eqn.outvars[result]] = place[atom]
    return [None if introspect.is_literal(atom) else place.get(atom) for atom in inner.outvars]


def _passed_by(eqn: Any) -> dict[int, int]:
    """For each result of an equation that equals an operand, the positions of both."""
    found: dict[int, set[int | None]] = {}
    for nested in introspect.nested_jaxprs(eqn):
        if nested.rule or nested.idle:
            continue
        for out, into in enumerate(passed(nested.stored)):
            result, role = nested.results[out], nested.out_roles[out]
            if result is None:
                continue
            same = into is not None and (
                (out, into) in nested.back if role == "carry" else role == "out"
            )
            operand = nested.operands[into] if same and into is not None else None
            found.setdefault(result, set()).add(operand)
    return {
        result: operand
        for result, operands in found.items()
        for operand in operands
        if len(operands) == 1
        and operand is not None
        and eqn.outvars[result].aval == eqn.invars[operand].aval
    }
