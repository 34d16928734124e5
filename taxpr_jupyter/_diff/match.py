"""Match the equations of two jaxprs: find for each equation its partner in the other jaxpr.

Three steps, from the strongest evidence to the weakest:

1. Dataflow. Each equation gets two numbers, as in value numbering of compilers: "up" covers the
   equation and everything that feeds it, "down" the equation and everything that it feeds. A change
   alters "up" of all equations after it and "down" of all before it, so an unchanged equation
   usually keeps one of the two. Equations with equal, unique numbers are partners.
2. Neighbours. From pairs already found, matching spreads to users of the same value and to
   producers of the same operand.
3. Position. Equations between the same paired neighbours are matched in order, as in a text diff.

Steps 2 and 3 run with weaker and weaker keys (`EqnKeys`). Names of functions are evidence: only
where they leave equations alone, all steps also run without names (`Keys.unnamed`), and at last
calls of functions with other names are matched if their jaxprs have much in common (`EqnContents`).

Invariants: a pair, once made, is never undone, so stronger evidence wins; partners always have the
same primitive; `partner` and `back` are inverse to each other. Tags are transparent: they are
matched last, by the value that they tag. Each step takes about linear time in the number of
equations.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import INPUT, LITERAL, Source
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff import numbering
from taxpr_jupyter._diff.gaps import gaps
from taxpr_jupyter._diff.pairing import Pairs, in_order
from taxpr_jupyter._diff.seen import HashedGraph
from taxpr_jupyter._diff.wrappers import EqnContents

# What must be equal: a field of `EqnKeys`; `Keys.unnamed`; the primitive of what has jaxprs.
_OWN, _LOOSE, _KIND, _UNNAMED, _PRIMITIVE = range(5)


class Matching:
    """The pairs of equations of two jaxprs.

    Attributes:
        partner: For each equation of `before` the index of its partner, or -1.
        back: The same for each equation of `after`.
    """

    def __init__(
        self,
        before: HashedGraph,
        after: HashedGraph,
        ins: Pairs,
        consts: Pairs,
        outs: Pairs,
        keys: Keys,
        contents: EqnContents,
    ) -> None:
        self.partner = [-1] * len(before.eqns)
        self.back = [-1] * len(after.eqns)
        self._before, self._after = before, after
        self._ends = (ins, consts)
        self._outs = outs
        self._keys = keys
        self._seen: deque[tuple[int, int]] = deque()
        self._sides = (before, self.partner), (after, self.back)
        self._levels = {
            level: [[key[level] for key in side.keys] for side in (before, after)]
            for level in (_OWN, _LOOSE, _KIND)
        }
        self._contents = contents
        self._by_numbers(_OWN)
        if all(self._named(*side) for side in self._sides):
            self._levels[_UNNAMED] = [list(map(keys.unnamed, flow.eqns)) for flow, _ in self._sides]
            self._levels[_PRIMITIVE] = [self._primitives(flow) for flow, _ in self._sides]
            self._by_numbers(_UNNAMED)
            self._near(_OWN, _UNNAMED, _LOOSE, _KIND, _PRIMITIVE)
        self._near(_OWN, _LOOSE, _KIND)
        self._tags()

    def same_source(self, before: Source, after: Source) -> bool:
        """Whether two values are partners. Results of partner equations match by position."""
        if before[0] < 0 or after[0] < 0:
            return self.there(before) == after
        return self.partner[before[0]] == after[0] and self._result(before, after)

    def there(self, source: Source) -> Source | None:
        """The partner of a value; None if it has none. Results are paired by position."""
        kind, k = source
        if kind == LITERAL:
            return source
        if kind < 0:
            other = self._ends[kind != INPUT].get(k)
            return None if other is None else (kind, other)
        return None if self.partner[kind] < 0 else (self.partner[kind], k)

    def _result(self, before: Source, after: Source) -> bool:
        counts = self._before.results(before[0]), self._after.results(after[0])
        return before[1] == after[1] or counts[0] != counts[1]

    # --- names ------------------------------------------------------------------------------------

    def _named(self, flow: HashedGraph, partner: Sequence[int]) -> bool:
        """Whether only the name of a function distinguishes an equation."""
        return any(
            other < 0 and not skip and self._keys.unnamed(eqn) != key.own
            for eqn, key, other, skip in zip(flow.eqns, flow.keys, partner, flow.skip, strict=True)
        )

    def _primitives(self, flow: HashedGraph) -> list[int]:
        """The number of the primitive of each equation that has jaxprs."""
        return [
            self._keys.number(("primitive", eqn.primitive)) if introspect.is_hop(eqn) else key.own
            for eqn, key in zip(flow.eqns, flow.keys, strict=True)
        ]

    def _can(self, i: int, j: int, level: int) -> bool:
        """Whether equations with equal keys may be partners; the weakest keys need more."""
        eqns = self._before.eqns[i], self._after.eqns[j]
        if level in (_LOOSE, _KIND) and self._before.is_hop(i):
            return not self._contents.is_within(*eqns)
        return level != _PRIMITIVE or self._contents.are_like(*eqns)

    # --- step 1: dataflow -------------------------------------------------------------------------

    def _by_numbers(self, level: int) -> None:
        flows, keys, outs = (self._before, self._after), self._levels[level], self._outs
        shared = {a: a for a in outs}, {b: a for a, b in outs.items()}
        ups, downs = [], []
        for side in (0, 1):
            own = flows[side], keys[side]
            ups.append(numbering.ups(*own, self._ends, bool(side), self._keys))
            downs.append(numbering.downs(*own, shared[side], self._keys))
        both = [list(zip(up, down, strict=True)) for up, down in zip(ups, downs, strict=True)]
        self._equal(ups[0], ups[1], alone=True)
        # Spread from these pairs before the weaker "down" numbers may claim their neighbours.
        self._spread(level)
        self._equal(both[0], both[1], alone=False)
        self._equal(downs[0], downs[1], alone=True)

    def _equal(self, before: Sequence[object], after: Sequence[object], alone: bool) -> None:
        """Pair equations with the same number, if equally many on both sides have it.

        With `alone`, pair only unique ones. Position decides later between several.
        """
        groups: dict[object, tuple[list[int], list[int]]] = {}
        for side, numbers, flow, partner in (
            (0, before, self._before, self.partner),
            (1, after, self._after, self.back),
        ):
            for i, number in enumerate(numbers):
                if partner[i] < 0 and not flow.skip[i]:
                    groups.setdefault(number, ([], []))[side].append(i)
        for ours, theirs in groups.values():
            if len(ours) != len(theirs):  # what is computed again comes after what it repeats
                ours = [i for i in ours if not self._before.again[i]]
                theirs = [j for j in theirs if not self._after.again[j]]
            if not ours or len(ours) != len(theirs) or (alone and len(ours) > 1):
                continue
            # The "up" number of an equation without operands is no evidence.
            if alone and not self._before.operands[ours[0]]:
                continue
            for i, j in zip(ours, theirs, strict=True):
                self._pair(i, j)

    def _pair(self, i: int, j: int) -> None:
        self.partner[i], self.back[j] = j, i
        self._seen.append((i, j))

    # --- step 2: neighbours -----------------------------------------------------------------------

    def _near(self, *levels: int) -> None:
        for level in levels:
            if not all(self._left(*side) for side in self._sides):
                return  # where only tags were added, after the first step
            self._spread(level)
            self._between(level)
            self._spread(level)

    def _left(self, flow: HashedGraph, partner: Sequence[int]) -> bool:
        """Whether an equation has no partner yet."""
        return any(other < 0 and not skip for other, skip in zip(partner, flow.skip, strict=True))

    def _spread(self, level: int) -> None:
        """Pair the users of partner values, and the producers of operands of partners."""
        todo: deque[tuple[int, int]] = deque(
            (i, j) for i, j in enumerate(self.partner) if j >= 0 and not self._before.is_tag[i]
        )
        self._seen = todo
        for kind, pairs in enumerate(self._ends):
            for a, b in pairs.items():
                self._users((-1 - kind, a), (-1 - kind, b), level)
        while todo:
            i, j = todo.popleft()
            if self._before.results(i) == self._after.results(j):
                for k in range(self._before.results(i)):
                    self._users((i, k), (j, k), level)
            if len(self._before.operands[i]) == len(self._after.operands[j]):
                sources = zip(self._before.operands[i], self._after.operands[j], strict=True)
                for (a, k), (b, m) in sources:
                    free = a >= 0 and b >= 0 and self.partner[a] < 0 and self.back[b] < 0
                    if free and k == m and self._alike(a, b, level):
                        self._pair(a, b)

    def _alike(self, i: int, j: int, level: int) -> bool:
        keys = self._levels[level]
        return keys[0][i] == keys[1][j] and self._can(i, j, level)

    def _users(self, before: Source, after: Source, level: int) -> None:
        """Pair the users of a value that are alike, if there are equally many on both sides."""
        keys = self._levels[level]
        ours = self._free_users(self._before.uses.get(before, ()), self.partner, keys[0])
        if not ours:
            return
        theirs = self._free_users(self._after.uses.get(after, ()), self.back, keys[1])
        for key, users in ours.items():
            others = theirs.get(key, ())
            if len(users) == len(others):
                for i, j in zip(users, others, strict=True):
                    if self.partner[i] < 0 and self.back[j] < 0 and self._can(i, j, level):
                        self._pair(i, j)

    def _free_users(
        self, uses: Iterable[tuple[int, int]], partner: Sequence[int], keys: Sequence[int]
    ) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for i, k in uses:
            if partner[i] < 0:
                found.setdefault((keys[i], k), []).append(i)
        return found

    # --- step 3: position -------------------------------------------------------------------------

    def _between(self, level: int) -> None:
        """Pair in order the equations between the same paired neighbours."""
        for ours, theirs in gaps(self.partner, self.back, self._before.skip, self._after.skip):
            keys = [self._levels[level][0][i] for i in ours]
            others = [self._levels[level][1][j] for j in theirs]
            for a, b in in_order(keys, others).items():
                i, j = ours[a], theirs[b]
                alone = keys.count(keys[a]) == others.count(others[b]) == 1
                is_lone_hop = alone and self._before.is_hop(i)
                evident = level == _OWN or is_lone_hop or self._agree(i, j)
                if evident and self._can(i, j, level):
                    self._pair(i, j)

    def _agree(self, i: int, j: int) -> bool:
        """Whether two equations share an operand, a user or an output: evidence for a pair."""
        ours, theirs = self._before.operands[i], self._after.operands[j]
        if len(ours) == len(theirs):
            if any(self.same_source(a, b) for a, b in zip(ours, theirs, strict=True)):
                return True
        else:  # for example a loop with a further carry
            there = {self.there(a) for a in ours if a[0] != LITERAL}
            if any(b in there for b in theirs):
                return True
        ends = {
            self._outs.get(end)
            for k in range(self._before.results(i))
            for end in self._before.ends.get((i, k), ())
        }
        others = range(self._after.results(j))
        if any(end in ends for k in others for end in self._after.ends.get((j, k), ())):
            return True
        users = {
            self.partner[u]
            for k in range(self._before.results(i))
            for u, _ in self._before.uses.get((i, k), ())
        }
        return any(u in users for k in others for u, _ in self._after.uses.get((j, k), ()))

    # --- tags -------------------------------------------------------------------------------------

    def _tags(self) -> None:
        """Pair tags of the same values: first those with equal params, then any."""
        for level in (_OWN, _KIND):
            found: dict[object, list[int]] = {}
            for j, is_tag in enumerate(self._after.is_tag):
                if is_tag and self.back[j] < 0:
                    key = self._levels[level][1][j], tuple(self._after.operands[j])
                    found.setdefault(key, []).append(j)
            for i, is_tag in enumerate(self._before.is_tag):
                if not is_tag or self.partner[i] >= 0:
                    continue
                sources = tuple(map(self.there, self._before.operands[i]))
                others = found.get((self._levels[level][0][i], sources))
                if others:
                    self._pair(i, others.pop(0))
