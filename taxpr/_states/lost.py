"""Find derivatives that a program with states would lose, so that they can be refused.

A state may be written inside a function with a derivative rule, such as a custom_vjp. The rule
gives no derivative for the written value, so a gradient through the state would silently be zero.
`uncurry` looks for such losses once: it marks the lost values in a copy of the program, and JAX's
forward mode carries the marks to the results. `taxpr._engine.underived` then refuses to
differentiate the marked results.
"""

from collections.abc import Sequence

from taxpr._compat import ClosedJaxpr, Primitive
from taxpr._jaxprs.derived import derivatives, inexact, needed, tangents_of, used_by
from taxpr._primitives.guard import refused_p, underived_p
from taxpr._sites.walk import find_sites


def lost(marked: ClosedJaxpr) -> dict[tuple[int, int], set[int]]:
    """The lost derivatives of a program.

    Args:
        marked: A closed jaxpr without consts, threaded with ``marks_lost``.

    Returns:
        For each pair ``(result, input)`` that lost a derivative, the context leaves that lost it.
    """
    every = inexact(marked.in_avals)
    if not every or _lost_by(marked, every) == {}:
        return {}
    # One forward pass serves all inputs on which the same results have a derivative.
    derived = derivatives(marked)
    alike: dict[object, list[int]] = {}
    for i in every:
        alike.setdefault(tuple(i in inputs for inputs in derived), []).append(i)
    found: dict[tuple[int, int], set[int]] = {}
    for group in alike.values():
        of_group = _lost_by(marked, group)
        for one in [group] if of_group is not None else [[i] for i in group]:
            of_one = of_group if of_group is not None else _lost_by(marked, one)
            if of_one is None:
                of_one = {j: _marks(marked, underived_p) for j in _dependent(marked, one[0])}
            found |= {(j, i): leaves for j, leaves in of_one.items() for i in one}
    return found


def _lost_by(marked: ClosedJaxpr, group: Sequence[int]) -> dict[int, set[int]] | None:
    """For each result, the leaves that lose its derivative with respect to the group.

    None if JAX cannot differentiate the program with respect to the whole group.
    """
    try:
        tangents = tangents_of(marked, group)
    except Exception:  # whatever a primitive or a rule raises
        return None
    if not _marks(tangents, refused_p):
        return {}
    each = {j: _marks(needed(tangents, j)[0], refused_p) for j in range(len(marked.out_avals))}
    return {j: leaves for j, leaves in each.items() if leaves}


def _dependent(jaxpr: ClosedJaxpr, i: int) -> list[int]:
    return [j for j in range(len(jaxpr.out_avals)) if i in used_by(jaxpr, j)]


def _marks(jaxpr: ClosedJaxpr, primitive: Primitive) -> set[int]:
    sites = find_sites(jaxpr, rules=False, of=lambda eqn: eqn.primitive is primitive)
    return {int(site.eqn.params["message"]) for site in sites}
