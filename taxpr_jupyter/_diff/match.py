"""Match the equations of two jaxprs: find for each equation its partner in the other jaxpr.

Three steps, from the strongest evidence to the weakest:

1. Dataflow. Each equation gets two numbers, as in value numbering of compilers: "up" covers the
   equation and everything that feeds it, "down" the equation and everything that it feeds. A change
   alters "up" of all equations after it and "down" of all before it, so an unchanged equation
   usually keeps one of the two. Equations with equal, unique numbers are partners.
2. Neighbours. From pairs already found, matching spreads to users of the same value and to
   producers of the same operand.
3. Position. Equations between the same paired neighbours are matched in order, as in a text diff.

Steps 2 and 3 run with weaker and weaker keys (`EqnKeys`). Invariants: a pair, once made, is never
undone, so stronger evidence wins; partners always have equal `kind` keys; `partner` and `back` are
inverse to each other. Tags are transparent: they are matched last, by the value that they tag.
Each step takes about linear time in the number of equations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from taxpr_jupyter._analysis.graph import INPUT, LITERAL, Source
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff.pairing import Pairs, in_order
from taxpr_jupyter._diff.seen import Seen

_OWN, _LOOSE, _KIND = range(3)  # the field of `EqnKeys` that must be equal; later ones are weaker


class Matching:
    """The pairs of equations of two jaxprs.

    Args:
        before: The def-use graph of the jaxpr before.
        after: The graph of the jaxpr after.
        ins: Pairs of inputs.
        consts: Pairs of constants.
        outs: Pairs of outputs.
        keys: Assigns equal numbers to equal structures.

    Attributes:
        partner: For each equation of `before` the index of its partner, or -1.
        back: The same for each equation of `after`.
    """

    def __init__(
        self, before: Seen, after: Seen, ins: Pairs, consts: Pairs, outs: Pairs, keys: Keys
    ) -> None:
        self.partner = [-1] * len(before.eqns)
        self.back = [-1] * len(after.eqns)
        self._before, self._after = before, after
        self._ends = (ins, consts)
        self._outs = outs
        self._keys = keys
        self._seen: deque[tuple[int, int]] = deque()
        self._levels = [
            [key[level] for key in side.keys] for side in (before, after) for level in range(3)
        ]
        self._by_numbers(outs)
        for level in (_OWN, _LOOSE, _KIND):
            self._spread(level)
            self._between(level)
            self._spread(level)
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

    # --- step 1: dataflow -------------------------------------------------------------------------

    def _by_numbers(self, outs: Pairs) -> None:
        ups = [self._up(self._before, False), self._up(self._after, True)]
        downs = [
            self._down(self._before, {a: a for a in outs}),
            self._down(self._after, {b: a for a, b in outs.items()}),
        ]
        both = [list(zip(up, down, strict=True)) for up, down in zip(ups, downs, strict=True)]
        self._equal(ups[0], ups[1], alone=True)
        # Spread from these pairs before the weaker "down" numbers may claim their neighbours.
        self._spread(_OWN)
        self._equal(both[0], both[1], alone=False)
        self._equal(downs[0], downs[1], alone=True)

    def _up(self, flow: Seen, after: bool) -> list[int]:
        """The "up" number of each equation: it and everything that feeds it."""
        # Partners on both sides share the index of the one before.
        partners = [{(b if after else a): a for a, b in pairs.items()} for pairs in self._ends]
        ups: list[int] = []

        def of(source: Source) -> tuple[object, ...]:
            kind, k = source
            if kind >= 0:
                return ups[kind], k
            if kind == LITERAL:
                return source
            shared = partners[kind != INPUT].get(k)
            return (kind, shared) if shared is not None else (kind, after, k)

        for i, sources in enumerate(flow.operands):
            key = ("up", flow.keys[i].own, tuple(map(of, sources)))
            ups.append(self._keys.number(key))
        return ups

    def _down(self, flow: Seen, outs: Pairs) -> list[int]:
        """The "down" number of each equation: it and everything that it feeds."""
        downs = [0] * len(flow.eqns)
        for i in range(len(flow.eqns) - 1, -1, -1):
            if flow.is_tag[i]:
                continue
            users = []
            for k in range(flow.results(i)):
                # Include the operand position, so that `a - b` differs from `b - a`.
                found = sorted((downs[j], p) for j, p in flow.uses.get((i, k), ()))
                ends = sorted(outs.get(o, -2 - o) for o in flow.ends.get((i, k), ()))
                users.append((tuple(found), tuple(ends)))
            downs[i] = self._keys.number(("down", flow.keys[i].own, tuple(users)))
        return downs

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
                if partner[i] < 0 and not flow.is_tag[i]:
                    groups.setdefault(number, ([], []))[side].append(i)
        for ours, theirs in groups.values():
            if len(ours) != len(theirs) or (alone and len(ours) > 1):
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
        return self._levels[level][i] == self._levels[3 + level][j]

    def _users(self, before: Source, after: Source, level: int) -> None:
        """Pair the users of a value that are alike, if there are equally many on both sides."""
        ours = self._free_users(self._before.uses.get(before, ()), self.partner, level)
        if not ours:
            return
        theirs = self._free_users(self._after.uses.get(after, ()), self.back, 3 + level)
        for key, users in ours.items():
            others = theirs.get(key, ())
            if len(users) == len(others):
                for i, j in zip(users, others, strict=True):
                    if self.partner[i] < 0 and self.back[j] < 0:
                        self._pair(i, j)

    def _free_users(
        self, uses: Iterable[tuple[int, int]], partner: Sequence[int], level: int
    ) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for i, k in uses:
            if partner[i] < 0:
                found.setdefault((self._levels[level][i], k), []).append(i)
        return found

    # --- step 3: position -------------------------------------------------------------------------

    def _between(self, level: int) -> None:
        """Pair in order the equations between the same paired neighbours."""
        for ours, theirs in self._gaps():
            keys = [self._levels[level][i] for i in ours]
            others = [self._levels[3 + level][j] for j in theirs]
            for a, b in in_order(keys, others).items():
                i, j = ours[a], theirs[b]
                alone = keys.count(keys[a]) == others.count(others[b]) == 1
                is_lone_hop = alone and self._before.is_hop(i)
                if level == _OWN or is_lone_hop or self._agree(i, j):
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

    def _gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """Runs of unpaired equations, each with the run between the partners of its neighbours."""
        here, there = _runs(self.partner, self._before), _runs(self.back, self._after)
        after_it = {run.left: run for run in there}
        before_it = {run.right: run for run in there}
        for run in here:
            left = -1 if run.left < 0 else self.partner[run.left]
            right = len(self.back) if run.right >= len(self.partner) else self.partner[run.right]
            follows, precedes = after_it.get(left), before_it.get(right)
            if follows is not None:
                yield run.eqns, follows.eqns
            if precedes is not None and precedes is not follows:
                # The caller has paired some equations of the first yield.
                ours = [i for i in run.eqns if self.partner[i] < 0]
                yield ours, [j for j in precedes.eqns if self.back[j] < 0]

    # --- tags -------------------------------------------------------------------------------------

    def _tags(self) -> None:
        """Pair tags of the same values: first those with equal params, then any."""
        for level in (_OWN, _KIND):
            found: dict[object, list[int]] = {}
            for j, is_tag in enumerate(self._after.is_tag):
                if is_tag and self.back[j] < 0:
                    key = self._levels[3 + level][j], tuple(self._after.operands[j])
                    found.setdefault(key, []).append(j)
            for i, is_tag in enumerate(self._before.is_tag):
                if not is_tag or self.partner[i] >= 0:
                    continue
                sources = tuple(map(self.there, self._before.operands[i]))
                others = found.get((self._levels[level][i], sources))
                if others:
                    self._pair(i, others.pop(0))


class _Run:
    """Adjacent equations without partners, and the paired neighbours on the left and right."""

    def __init__(self, left: int) -> None:
        self.left, self.right = left, left
        self.eqns: list[int] = []


def _runs(partner: Sequence[int], flow: Seen) -> list[_Run]:
    runs, run = [], _Run(-1)
    for i, other in enumerate(partner):
        if flow.is_tag[i]:
            continue
        if other < 0:
            run.eqns.append(i)
            continue
        run.right = i
        runs.append(run)
        run = _Run(i)
    run.right = len(partner)
    return [*runs, run]
