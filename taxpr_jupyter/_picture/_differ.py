"""Compares two jaxprs: finds partners, says what is different, goes into nested jaxprs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._picture import _pairing
from taxpr_jupyter._picture._flow import INPUT, LITERAL, Flow, Source
from taxpr_jupyter._picture._keys import Keys
from taxpr_jupyter._picture._match import Matching
from taxpr_jupyter._picture._pairing import Pairs
from taxpr_jupyter._picture._part import End, Inner, Part, Side, Status
from taxpr_jupyter._picture._what import Difference, different


class Differ:
    """Compares jaxprs; what was compared before is not compared again."""

    def __init__(self) -> None:
        self.keys = Keys()
        self._known: dict[Any, tuple[Any, Part]] = {}
        self._sizes: dict[int, tuple[Any, int]] = {}

    def programs(self, before: taxpr.Program, after: taxpr.Program) -> Part:
        """Two programs; inputs and outputs are paired by their names, then in order."""
        types = [
            [[self.keys.aval(a) for a in avals] for avals in (p.in_avals, p.out_avals)]
            for p in (before, after)
        ]
        ins = _pairing.ends(before.in_names, after.in_names, types[0][0], types[1][0])
        outs = _pairing.ends(before.out_names, after.out_names, types[0][1], types[1][1])
        consts = before.consts, after.consts
        named = {a: b for a, b in outs.items() if before.out_names[a] == after.out_names[b]}
        return _Comparison(self, (before, after), consts, ins, outs, named, top=True).part

    def nested(self, before: taxpr.Nested, after: taxpr.Nested, operands: Pairs) -> Part:
        """Two nested jaxprs, where it is known which operands of the equations are partners."""
        ins = self._nested_ins(before, after, operands)
        back = {i: o for o, i in after.back}
        known = {o: back[ins[i]] for o, i in before.back if ins.get(i) in back}
        outs = _pairing.ends(
            [None] * len(before.out_roles),
            [None] * len(after.out_roles),
            self._typed(before.out_roles, before.jaxpr.outvars),
            self._typed(after.out_roles, after.jaxpr.outvars),
            known,
        )
        stored = before.stored, after.stored
        key = *map(id, stored), tuple(sorted(ins.items())), tuple(sorted(outs.items()))
        if key not in self._known:
            jaxprs, consts = (before.jaxpr, after.jaxpr), (before.consts, after.consts)
            part = _Comparison(self, jaxprs, consts, ins, outs, known, top=False).part
            self._known[key] = stored, part
        return self._known[key][1]

    def size(self, eqn: Any) -> int:
        """How many equations an equation is, those inside included."""
        return 1 + sum(self.size_of(nested.jaxpr) for nested in taxpr.nested_jaxprs(eqn))

    def size_of(self, jaxpr: Any) -> int:
        """How many equations there are in a jaxpr and all inside."""
        known = self._sizes.get(id(jaxpr))
        if known is None:
            known = self._sizes[id(jaxpr)] = (jaxpr, sum(map(self.size, jaxpr.eqns)))
        return known[1]

    def _nested_ins(self, before: taxpr.Nested, after: taxpr.Nested, operands: Pairs) -> Pairs:
        fed = {k: i for i, k in enumerate(after.operands) if k is not None}
        known = {
            i: fed[operands[k]]
            for i, k in enumerate(before.operands)
            if k is not None and operands.get(k) in fed
        }
        return _pairing.ends(
            [None] * len(before.in_roles),
            [None] * len(after.in_roles),
            self._typed(before.in_roles, before.jaxpr.invars),
            self._typed(after.in_roles, after.jaxpr.invars),
            known,
        )

    def _typed(self, roles: Sequence[str], atoms: Sequence[Any]) -> list[tuple[str, int]]:
        return [(role, self.keys.aval(a.aval)) for role, a in zip(roles, atoms, strict=True)]


class _Comparison:
    """The comparison of two jaxprs; its result is `part`."""

    def __init__(
        self,
        differ: Differ,
        jaxprs: tuple[Any, Any],
        consts: tuple[Sequence[Any], Sequence[Any]],
        ins: Pairs,
        outs: Pairs,
        fixed_outs: Pairs,
        top: bool,
    ) -> None:
        self._differ, self._keys = differ, differ.keys
        self._flows = tuple(Flow(jaxpr, self._keys) for jaxpr in jaxprs)
        values = [[self._keys.value(value) for value in side] for side in consts]
        types = [[self._keys.aval(var.aval) for var in jaxpr.constvars] for jaxpr in jaxprs]
        # Operands of some equations enter as constvars; then there are no values.
        names = [(v if len(v) == len(t) else [None] * len(t)) for v, t in zip(values, types)]
        held = _pairing.ends(names[0], names[1], types[0], types[1])
        self._ends = ins, held
        self._match = Matching(*self._flows, ins, held, outs, self._keys)
        self._results: dict[int, Pairs] = {}
        sides = [
            Side(flow.jaxpr, flow.names, flow.eqns, ["same"] * len(flow.eqns), partner)
            for flow, partner in zip(
                self._flows, (self._match.partner, self._match.back), strict=True
            )
        ]
        self.part = Part((sides[0], sides[1]))
        self._eqns()
        input_status: Status = "changed" if top else "follows"
        self._pair_ends("in", ins, types_of(jaxprs, "invars", self._keys), input_status)
        self._pair_ends("const", held, names if all(names) else types, "changed")
        self._outs(outs, fixed_outs)

    # --- equations --------------------------------------------------------------------------------

    def _eqns(self) -> None:
        part, (before, after) = self.part, self.part.sides
        alone: tuple[tuple[Side, Status], ...] = ((before, "removed"), (after, "added"))
        for side, status in alone:
            for i, partner in enumerate(side.partner):
                if partner < 0:
                    side.status[i] = status
                    part.counts[status] += self._differ.size(side.eqns[i])
        for i, j in enumerate(before.partner):
            if j < 0:
                continue
            status = self._pair(i, j)
            before.status[i] = after.status[j] = status
            part.counts[status] += 1
            if i not in part.inside:
                part.counts["same"] += self._differ.size(before.eqns[i]) - 1
                continue
            for nested, inner in zip(self._nested(i, j), part.inside[i], strict=True):
                if inner.part is not None:
                    part.counts.update(inner.part.counts)
                else:
                    ours, theirs = nested
                    held = ours or theirs
                    assert held is not None, "a pair has at least one"
                    name = "same" if ours and theirs else "removed" if ours else "added"
                    part.counts[name] += self._differ.size_of(held.jaxpr)

    def _pair(self, i: int, j: int) -> Status:
        """What became of an equation; notes what is different."""
        flow, other = self._flows
        eqn, eqn_after = flow.eqns[i], other.eqns[j]
        operands = self._operands(i, j)
        rewired = [
            text for k, m in operands.items() if (text := self._rewired((i, k), (j, m))) is not None
        ]
        is_same = flow.keys[i].own == other.keys[j].own
        inside: tuple[Inner, ...] = ()
        if not is_same:
            inside = tuple(
                self._inner(ours, theirs, operands) for ours, theirs in self._nested(i, j)
            )
            if any(inner.part or None in inner.labels for inner in inside):
                self.part.inside[i] = inside
        self._results[i] = self._result_pairs(i, j, inside)
        if is_same and not rewired:
            return "same"
        found = Difference() if is_same else different(
            eqn, eqn_after, operands, self._results[i], self._keys
        )
        found.hard += rewired
        inner_quiet = all(
            None not in inner.labels and (inner.part is None or inner.part.is_quiet)
            for inner in inside
        )
        self.part.what[i] = tuple([*found.hard, *found.soft])
        if found.hard:
            return "changed"
        if not inner_quiet:
            return "inside"
        if found.typed:
            return "follows"
        # Types of results that are others for no reason are the reason.
        if not found.soft:
            self.part.what[i] = ("in a way that has no text",)
        return "changed"

    def _operands(self, i: int, j: int) -> Pairs:
        """Which operands of two partners are partners."""
        flow, other = self._flows
        ours, theirs = flow.operands[i], other.operands[j]
        if len(ours) == len(theirs):
            return {k: k for k in range(len(ours))}
        there = [self._there(source) for source in ours]
        known = _pairing.in_order(there, theirs)
        types = [
            [self._keys.aval(a.aval) for a in f.eqns[n].invars]
            for f, n in ((flow, i), (other, j))
        ]
        return _pairing.ends([None] * len(ours), [None] * len(theirs), *types, known)

    def _there(self, source: Source) -> Source | None:
        kind, k = source
        if kind == LITERAL:
            return source
        if kind < 0:
            end = self._ends[kind != INPUT].get(k)
            return None if end is None else (kind, end)
        partner = self._match.partner[kind]
        result = self._results.get(kind, {}).get(k)
        return None if partner < 0 or result is None else (partner, result)

    def _is_alone(self, source: Source, side: int) -> bool:
        """Whether a value has no partner because nothing like it is on the other side."""
        kind, k = source
        if kind == LITERAL:
            return False
        if kind < 0:
            pairs = self._ends[kind != INPUT]
            return k not in (pairs if side == 0 else pairs.values())
        partner = (self._match.partner, self._match.back)[side][kind]
        if partner < 0:
            return True
        results = self._results.get(kind if side == 0 else partner, {})
        return k not in (results if side == 0 else results.values())

    def _rewired(self, ours: tuple[int, int], theirs: tuple[int, int]) -> str | None:
        """A text where an operand comes from elsewhere; None where it comes from the partner.

        And None where it comes from something that was added, or came from something that was
        removed: that is told there.
        """
        flow, other = self._flows
        (i, k), (j, m) = ours, theirs
        a, b = flow.operands[i][k], other.operands[j][m]
        if a[0] == b[0] == LITERAL:
            return None  # compared with the equation
        tags = flow.through[i][k], other.through[j][m]
        return self._moved(f"operand {k}", a, b, tags)

    def _moved(
        self, what: str, a: Source, b: Source, tags: tuple[Sequence[int], Sequence[int]]
    ) -> str | None:
        if LITERAL not in (a[0], b[0]):
            if self._is_alone(a, 0) or self._is_alone(b, 1):
                return None
            if self._there(a) == b:
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
            return f"{'in' if kind == INPUT else 'const'}{k}"
        return f"{self._flows[side].names[kind]}.{k}"

    # --- nested jaxprs ----------------------------------------------------------------------------

    def _nested(self, i: int, j: int) -> list[tuple[taxpr.Nested | None, taxpr.Nested | None]]:
        """Which nested jaxprs of two partners are partners: equal ones, or those of one label."""
        ours = taxpr.nested_jaxprs(self._flows[0].eqns[i])
        theirs = taxpr.nested_jaxprs(self._flows[1].eqns[j])
        labels = [[nested.label for nested in side] for side in (ours, theirs)]
        if labels[0] == labels[1]:
            return list(zip(ours, theirs, strict=True))
        numbers = [[self._keys.jaxpr(n.stored) for n in side] for side in (ours, theirs)]
        pairs = _pairing.ends(*labels, *numbers, _pairing.in_order(*numbers))
        taken = set(pairs.values())
        found = [(n, theirs[pairs[k]] if k in pairs else None) for k, n in enumerate(ours)]
        return [*found, *((None, n) for k, n in enumerate(theirs) if k not in taken)]

    def _inner(
        self, ours: taxpr.Nested | None, theirs: taxpr.Nested | None, operands: Pairs
    ) -> Inner:
        if ours is None or theirs is None:
            return Inner((ours and ours.label, theirs and theirs.label), None)
        labels = ours.label, theirs.label
        if self._keys.jaxpr(ours.stored) == self._keys.jaxpr(theirs.stored):
            return Inner(labels, None)
        return Inner(labels, self._differ.nested(ours, theirs, operands))

    def _result_pairs(self, i: int, j: int, inside: Sequence[Inner]) -> Pairs:
        flow, other = self._flows
        counts = flow.results(i), other.results(j)
        if counts[0] == counts[1]:
            return {k: k for k in range(counts[0])}
        pairs: Pairs = {}
        for (ours, theirs), inner in zip(self._nested(i, j), inside, strict=True):
            if inner.part is None or ours is None or theirs is None:
                continue
            for k, name in inner.part.sides[0].ends.items():
                if k.startswith("out") and name.partner is not None:
                    a, b = int(k[3:]), int(name.partner[3:])
                    result = ours.results[a], theirs.results[b]
                    if result[0] is not None and result[1] is not None:
                        pairs[result[0]] = result[1]
        if pairs:
            return pairs
        types = [
            [self._keys.aval(v.aval) for v in f.eqns[n].outvars]
            for f, n in ((flow, i), (other, j))
        ]
        return _pairing.in_order(*types)

    # --- inputs and outputs -----------------------------------------------------------------------

    def _pair_ends(
        self, word: str, pairs: Pairs, keys: Sequence[Sequence[Any]], status: Status
    ) -> None:
        before, after = self.part.sides
        taken = set(pairs.values())
        for a, key in enumerate(keys[0]):
            b = pairs.get(a)
            if b is None:
                before.ends[f"{word}{a}"] = End("removed", None)
                continue
            became: Status = "same" if key == keys[1][b] else status
            before.ends[f"{word}{a}"] = End(became, f"{word}{b}")
            after.ends[f"{word}{b}"] = End(became, f"{word}{a}")
        for b in range(len(keys[1])):
            if b not in taken:
                after.ends[f"{word}{b}"] = End("added", None)

    def _outs(self, outs: Pairs, fixed: Pairs) -> None:
        """Pairs the outputs that are not fixed again, first those that are the same value."""
        flow, other = self._flows
        pairs = {
            a: b
            for a, b in outs.items()
            if a not in fixed and self._there(flow.outs[a]) == other.outs[b]
        }
        taken = {*pairs.values(), *fixed.values()}
        free: dict[Source, list[int]] = {}
        for b, source in enumerate(other.outs):
            if b not in taken:
                free.setdefault(source, []).append(b)
        for a, source in enumerate(flow.outs):
            there = self._there(source)
            if a not in pairs and a not in fixed and there is not None and free.get(there):
                pairs[a] = free[there].pop(0)
        taken = set(pairs.values())
        types = types_of((flow.jaxpr, other.jaxpr), "outvars", self._keys)
        moved: dict[int, str] = {}
        for a, b in outs.items():
            if a in pairs or b in taken:
                continue
            tags = flow.out_through[a], other.out_through[b]
            text = self._moved(f"out{a}", flow.outs[a], other.outs[b], tags)
            if text is not None and a not in fixed and types[0][a] != types[1][b]:
                continue  # another value of another type: one is gone, and one is new
            pairs[a] = b
            if text is not None:
                moved[a] = text
        self._pair_ends("out", pairs, types, "follows")
        before, after = self.part.sides
        for a, text in moved.items():
            b = pairs[a]
            before.ends[f"out{a}"] = End("changed", f"out{b}", text)
            after.ends[f"out{b}"] = End("changed", f"out{a}", text)


def types_of(jaxprs: Sequence[Any], what: str, keys: Keys) -> list[list[int]]:
    """The types of the inputs or outputs of jaxprs."""
    return [[keys.aval(atom.aval) for atom in getattr(jaxpr, what)] for jaxpr in jaxprs]
