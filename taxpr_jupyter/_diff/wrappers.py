"""Equations that only wrap one jaxpr, such as `jit` and `remat`: find out which to look through.

A wrapper that only one program has is opened: its equations are compared as if they stood in its
place. Each round opens those that the last one left alone; the comparison with the fewest added
and removed equations is the result.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from taxpr import introspect
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff.status import Part, Side

ROUNDS = 8  # of opening wrappers in wrappers
_ROOM = 20_000  # equations in opened wrappers, beside as many as there are without them
LIKE = 3  # one equation of so many has to be found on the other side

Opened = tuple[Collection[str], Collection[str]]  # the names of wrappers before and after


def wrapped(eqn: introspect.JaxprEqn) -> introspect.Nested | None:
    """The jaxpr of an equation that does nothing but evaluate it once; None for other equations."""
    nested = introspect.nested_jaxprs(eqn)
    if len(nested) != 1:
        return None
    (one,) = nested
    if (one.operands, one.results) != (*map(tuple, _all(eqn)),):
        return None
    if one.back or one.trips != 1 or one.conditional or one.rule or one.idle:
        return None
    atoms = (eqn.invars, one.jaxpr.invars), (eqn.outvars, one.jaxpr.outvars)
    same = all(
        np.shape(a.aval) == np.shape(b.aval)
        for outer, inner in atoms
        for a, b in zip(outer, inner, strict=True)
    )
    return one if same else None


def _all(eqn: introspect.JaxprEqn) -> tuple[range, range]:
    return range(len(eqn.invars)), range(len(eqn.outvars))


class EqnContents:
    """The primitives that equations consist of, kept for each jaxpr."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._known: introspect.ByIdentity[tuple[Counter[int], frozenset[int]]] = (
            introspect.ByIdentity()
        )
        self._outlines: introspect.ByIdentity[Counter[int]] = introspect.ByIdentity()

    def of(self, eqn: introspect.JaxprEqn) -> tuple[Counter[int], frozenset[int]]:
        """The equations in place of an equation when all wrappers are opened.

        Returns:
            The keys of the equations, and the kinds of the wrappers in it.
        """
        nested = wrapped(eqn)
        if nested is not None:
            return self._known.of(nested.jaxpr, self._all)
        keys = self.keys.eqn(eqn)
        own = (
            () if introspect.is_tag(eqn) else (keys.kind if introspect.is_hop(eqn) else keys.loose,)
        )
        return Counter(own), frozenset()

    def _all(self, jaxpr: Any) -> tuple[Counter[int], frozenset[int]]:
        found, kinds = Counter[int](), set[int]()
        for eqn in jaxpr.eqns:
            more, inside = self.of(eqn)
            found.update(more)
            kinds |= inside
            if introspect.is_hop(eqn):
                kinds.add(self.keys.eqn(eqn).kind)
        return found, frozenset(kinds)

    def are_like(self, before: Any, after: Any) -> bool:
        """Whether the jaxprs of two equations have much in common."""
        ours, theirs = (self._outlines.of(eqn, self._outline) for eqn in (before, after))
        return LIKE * (ours & theirs).total() >= max(ours.total(), theirs.total())

    def is_within(self, before: Any, after: Any) -> bool:
        """Whether of two wrappers of one kind one may be in the other, and they share nothing."""
        kind = self.keys.eqn(before).kind
        if (kind in self.of(before)[1]) == (kind in self.of(after)[1]):
            return False
        ours, theirs = (self._outlines.of(eqn, self._outline) for eqn in (before, after))
        return not ours & theirs

    def _outline(self, eqn: introspect.JaxprEqn) -> Counter[int]:
        """The equations of its jaxprs, wrappers not opened."""
        inside = (inner for nested in introspect.nested_jaxprs(eqn) for inner in nested.jaxpr.eqns)
        return Counter(
            self.keys.eqn(one).kind if introspect.is_hop(one) else self.keys.eqn(one).loose
            for one in inside
            if not introspect.is_tag(one)
        )


def looked_through(compare: Callable[[Opened], Part], contents: EqnContents) -> Part:
    """The best comparison of two jaxprs, with some wrappers opened."""
    first = best = part = compare(((), ()))
    for _ in range(ROUNDS):
        more = _promising(part, contents)
        if not any(more):
            break
        part = compare(_joined(part, more))
        if alone(part) < alone(best):
            best = part
    gone = _needless(best, contents.keys)
    if any(gone):
        before, after = (_names(side) - names for side, names in zip(best.sides, gone, strict=True))
        part = compare((before, after))
        best = part if alone(part) <= alone(best) else best
    return best if alone(best) < alone(first) else first


def alone(part: Part) -> int:
    """The number of equations without partners, with those inside."""
    return part.counts["added"] + part.counts["removed"]


def _joined(part: Part, more: list[set[str]]) -> Opened:
    before, after = (_names(side) | new for side, new in zip(part.sides, more, strict=True))
    return before, after


def _names(side: Side) -> set[str]:
    """The names of the opened wrappers."""
    return {side.names[i] for i in side.opened}


def _promising(part: Part, contents: EqnContents) -> list[set[str]]:
    """The wrappers without partners whose equations the other side may have."""
    free = [[i for i, j in enumerate(s.partner) if j < 0 and i not in s.opened] for s in part.sides]
    if not all(free):
        return [set(), set()]
    pools: list[Counter[int]] = [Counter(), Counter()]
    inside: list[set[int]] = [set(), set()]  # the kinds of wrappers in wrappers
    for n, side in enumerate(part.sides):
        for i in free[n]:
            found, kinds = contents.of(side.eqns[i])
            pools[n].update(found)
            inside[n] |= kinds
    room = _ROOM + sum(len(side.eqns) for side in part.sides)
    every: list[set[str]] = [set(), set()]
    outermost: list[set[str]] = [set(), set()]
    for n, side in enumerate(part.sides):
        for i in free[n]:
            nested, (counter, _) = wrapped(side.eqns[i]), contents.of(side.eqns[i])
            size = counter.total()
            if nested is None or size > room:
                continue
            shared = sum(min(count, pools[1 - n][key]) for key, count in counter.items())
            if _is_enough(nested, shared, size):
                every[n].add(side.names[i])
                room -= size
                # One that is in a wrapper of the other side may find its partner there.
                if contents.keys.eqn(side.eqns[i]).kind not in inside[1 - n]:
                    outermost[n].add(side.names[i])
    return outermost if any(outermost) else every


def _needless(part: Part, keys: Keys) -> list[set[str]]:
    """The opened wrappers that are better closed.

    Too few equations in them have partners; or all have theirs in the same wrapper on the other
    side.
    """
    before, after = part.sides
    rows = [_rows(side) for side in part.sides]
    gone: list[set[str]] = [set(), set()]
    others: dict[Any, list[str]] = {}
    for name, found in rows[1].items():
        kind = keys.eqn(after.eqns[after.position[name]]).kind
        others.setdefault((kind, tuple(found)), []).append(name)
    for name, found in rows[0].items():
        kind = keys.eqn(before.eqns[before.position[name]]).kind
        there = others.get((kind, tuple(sorted(before.partner[i] for i in found))))
        if found and there:
            gone[0].add(name)
            gone[1].add(there.pop(0))
    for n, side in enumerate(part.sides):
        for name, found in rows[n].items():
            eqns = [side.partner[i] >= 0 for i in found if not introspect.is_tag(side.eqns[i])]
            nested = wrapped(side.eqns[side.position[name]])
            if not _is_enough(nested, sum(eqns), len(eqns)):
                gone[n].add(name)
    return gone


def _rows(side: Side) -> dict[str, list[int]]:
    """The positions of the equations in each opened wrapper, without wrappers."""
    found: dict[str, list[int]] = {side.names[i]: [] for i in side.opened}
    for i, name in enumerate(side.names if found else ()):
        parts = name.split("/") if i not in side.opened else [name]
        for n in range(1, len(parts) - 1, 2):
            found["/".join(parts[:n])].append(i)
    return found


def _is_enough(nested: introspect.Nested | None, shared: int, size: int) -> bool:
    """Whether so many equations of a wrapper say that the other side has what it wraps."""
    if nested is not None and nested.recomputed:
        return shared > 0  # the other side has no need of what is computed again
    return shared > 0 and LIKE * shared >= size
