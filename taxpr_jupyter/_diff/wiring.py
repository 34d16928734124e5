"""Check whether the operands of partner equations come from partners, and say so if not."""

from collections.abc import Sequence

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import INPUT, LITERAL, Source
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff import pairing
from taxpr_jupyter._diff.changes import literal_change, one_value
from taxpr_jupyter._diff.match import Matching
from taxpr_jupyter._diff.pairing import Pairs
from taxpr_jupyter._diff.seen import HashedGraph


class Wiring:
    """Maps the values of one jaxpr to their partners in the other.

    Attributes:
        results: The pairs of results for each equation of the first jaxpr that has a partner. The
            caller fills this in program order, before asking for operands of later equations.
    """

    def __init__(
        self,
        flows: tuple[HashedGraph, HashedGraph],
        ends: tuple[Pairs, Pairs],
        match: Matching,
        keys: Keys,
    ) -> None:
        self.results: dict[int, Pairs] = {}
        self._flows, self._ends, self._match, self._keys = flows, ends, match, keys

    def operands(self, i: int, j: int) -> Pairs:
        """The pairs of operands of two partners."""
        flow, other = self._flows
        ours, theirs = flow.operands[i], other.operands[j]
        if len(ours) == len(theirs):
            return {k: k for k in range(len(ours))}
        there = [self.there(source) for source in ours]
        known = pairing.in_order(there, theirs)
        types = [self._keys.types(eqn.invars) for eqn in (flow.eqns[i], other.eqns[j])]
        return pairing.ends(types, known=known)

    def there(self, source: Source) -> Source | None:
        """The partner of a value; None if it has none."""
        other = self._match.there(source)
        if other is None or source[0] < 0:
            return other
        result = self.results.get(source[0], {}).get(source[1])
        return None if result is None else (other[0], result)

    def _is_alone(self, source: Source, side: int) -> bool:
        """Whether a value exists on one side only."""
        kind, k = source
        if kind == LITERAL:
            return False
        if kind < 0:
            pairs = self._ends[kind != INPUT]
            return k not in (pairs if side == 0 else pairs.values())
        partner = (self._match.partner, self._match.back)[side][kind]
        if partner < 0:
            return True
        results = self.results.get(kind if side == 0 else partner, {})
        return k not in (results if side == 0 else results.values())

    def rewired(self, ours: tuple[int, int], theirs: tuple[int, int]) -> str | None:
        """A text if an operand does not come from its partner's value; else None.

        Also None if the value was added or removed, as that is reported at its own equation.
        """
        flow, other = self._flows
        (i, k), (j, m) = ours, theirs
        a, b = flow.operands[i][k], other.operands[j][m]
        if a[0] == b[0] == LITERAL:
            atoms = flow.eqns[i].invars[k], other.eqns[j].invars[m]
            if all(map(introspect.is_literal, atoms)):
                return None  # compared with the equation
            values = flow.literals[a[1]], other.literals[b[1]]
            same = one_value(*(literal.val for literal in values))
            return None if same else literal_change(k, *values)
        tags = flow.through[i][k], other.through[j][m]
        return self.moved(f"operand {k}", a, b, tags)

    def moved(
        self, what: str, a: Source, b: Source, tags: tuple[Sequence[int], Sequence[int]]
    ) -> str | None:
        """As `rewired`, for any value and the tags that it goes through."""
        if LITERAL not in (a[0], b[0]):
            if self._is_alone(a, 0) or self._is_alone(b, 1):
                return None
            if self.there(a) == b:
                partner, back = self._match.partner, self._match.back
                before = [partner[t] for t in tags[0] if partner[t] >= 0]
                after = [t for t in tags[1] if back[t] >= 0]
                return None if before == after else f"{what} goes through other tags"
        elif a == b:
            return None
        return f"{what} {self._value(0, a)} → {self._value(1, b)}"

    def _value(self, side: int, source: Source) -> str:
        kind, k = source
        if kind == LITERAL:
            return "a literal"
        if kind < 0:
            return f"in{k}" if kind == INPUT else self._flows[side].consts[k][0]
        return f"{self._flows[side].names[kind]}.{k}"
