"""Compare two jaxprs: give each equation, input and output a status and a partner.

`Matching` pairs the equations first. Then each pair is compared in program order. Invariants:

* When a pair is compared, `Wiring.results` has the pairs of results of all earlier equations, so
  that "the operand comes from the partner" can be decided.
* A difference is reported once, at its origin. A changed type that only follows from changed
  operand types gets the status "follows"; an operand from an added or removed equation is reported
  at that equation.
* An equation with an equal structural hash is not entered: its nested jaxprs are equal.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import Source
from taxpr_jupyter._analysis.sizes import Sizes
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff import pairing
from taxpr_jupyter._diff.changes import EqnDifference, different
from taxpr_jupyter._diff.match import Matching
from taxpr_jupyter._diff.pairing import Pairs
from taxpr_jupyter._diff.seen import HashedGraph
from taxpr_jupyter._diff.status import EndStatus, InnerPart, Part, Side, Status
from taxpr_jupyter._diff.wiring import Wiring
from taxpr_jupyter._diff.wrappers import EqnContents, Opened


class Recurse(Protocol):
    """The callbacks that `Comparing` uses for nested jaxprs; see `Differ`."""

    keys: Keys
    sizes: Sizes
    contents: EqnContents

    def nested(self, before: introspect.Nested, after: introspect.Nested, operands: Pairs) -> Part:
        """Compare two nested jaxprs."""
        ...


_ALONE: tuple[Status, Status] = "removed", "added"  # by the side that has it


class Comparing:
    """The comparison of two jaxprs.

    Args:
        recurse: Compares nested jaxprs.
        jaxprs: Before and after.
        consts: The values of their constants, as far as these are known.
        ins: Pairs of inputs.
        outs: A first guess for the pairs of outputs.
        fixed_outs: Pairs of outputs that must stay, such as a carry's.
        top: Whether the jaxprs are whole programs.
        opened: The wrappers on both sides that are looked through.
    """

    def __init__(
        self,
        recurse: Recurse,
        jaxprs: tuple[Any, Any],
        consts: tuple[Sequence[Any], Sequence[Any]],
        ins: Pairs,
        outs: Pairs,
        fixed_outs: Pairs,
        top: bool,
        opened: Opened,
    ) -> None:
        self._recurse, self._keys = recurse, recurse.keys
        before = HashedGraph(jaxprs[0], consts[0], self._keys, opened[0])
        after = HashedGraph(jaxprs[1], consts[1], self._keys, opened[1])
        self._flows = before, after
        const_types = [self._keys.types(var for _, var, _ in flow.consts) for flow in self._flows]
        values = [[value for _, _, value in flow.consts] for flow in self._flows]
        held = pairing.ends(const_types, values)
        match = Matching(before, after, ins, held, outs, self._keys, recurse.contents)
        self._wiring = Wiring(self._flows, (ins, held), match, self._keys)
        sides = [
            Side(flow.jaxpr, flow.names, flow.eqns, ["same"] * len(flow.eqns), partner)
            for flow, partner in zip(self._flows, (match.partner, match.back), strict=True)
        ]
        self.part = Part((sides[0], sides[1]))
        self._eqns()
        input_status: Status = "changed" if top else "follows"
        ins_types = [self._keys.types(jaxpr.invars) for jaxpr in jaxprs]
        self._pair_ends("in", ins, ins_types, input_status)
        known = all(None not in side for side in values)
        self._pair_ends("const", held, values if known else const_types, "changed")
        self._outs(outs, fixed_outs)
        for side, flow, status in zip(self.part.sides, self._flows, _ALONE, strict=True):
            self._borders(side, flow, status)

    # --- equations --------------------------------------------------------------------------------

    def _eqns(self) -> None:
        part, (before, after) = self.part, self.part.sides
        for side, flow, status in zip(part.sides, self._flows, _ALONE, strict=True):
            for i, partner in enumerate(side.partner):
                if partner < 0:
                    side.status[i] = status
                    size = self._recurse.sizes.of_eqn(side.eqns[i])
                    part.counts[status] += 1 if i in flow.opened else size.total
        for i, j in enumerate(before.partner):
            if j < 0:
                continue
            status = self._pair(i, j)
            before.status[i] = after.status[j] = status
            part.counts[status] += 1
            if i not in part.inside:
                part.counts["same"] += self._recurse.sizes.of_eqn(before.eqns[i]).total - 1
                continue
            for nested, inner in zip(self._nested(i, j), part.inside[i], strict=True):
                if inner.part is not None:
                    part.counts.update(inner.part.counts)
                else:
                    ours, theirs = nested
                    held = ours or theirs
                    assert held is not None, "a pair has at least one"
                    name = "same" if ours and theirs else "removed" if ours else "added"
                    part.counts[name] += self._recurse.sizes.of_jaxpr(held.jaxpr).total

    def _pair(self, i: int, j: int) -> Status:
        """The status of a pair of equations. Records the differences in `part`."""
        flow, other = self._flows
        eqn, eqn_after = flow.eqns[i], other.eqns[j]
        operands = self._wiring.operands(i, j)
        rewired = [
            text
            for k, m in operands.items()
            if (text := self._wiring.rewired((i, k), (j, m))) is not None
        ]
        is_same = flow.keys[i].own == other.keys[j].own
        inside: tuple[InnerPart, ...] = ()
        if not is_same:
            inside = tuple(
                self._inner(ours, theirs, operands) for ours, theirs in self._nested(i, j)
            )
            if any(inner.part or None in inner.labels for inner in inside):
                self.part.inside[i] = inside
        self._wiring.results[i] = self._result_pairs(i, j, inside)
        if is_same and not rewired:
            return "same"
        found = (
            EqnDifference()
            if is_same
            else different(eqn, eqn_after, operands, self._wiring.results[i], self._keys)
        )
        found.hard += rewired
        inner_quiet = all(
            None not in inner.labels and (inner.part is None or inner.part.is_quiet)
            for inner in inside
        )
        mixed = any(
            introspect.is_literal(eqn.invars[k]) != introspect.is_literal(eqn_after.invars[m])
            for k, m in operands.items()
        )
        if mixed and not (found.hard or found.soft or inside):
            return "same"  # a literal that a wrapper takes as its operand
        self.part.what[i] = (*found.hard, *found.soft)
        if found.hard:
            return "changed"
        if not inner_quiet:
            return "inside"
        if found.typed:
            return "follows"
        # Result types differ although operand types do not: this is the change itself.
        if not found.soft:
            self.part.what[i] = ("in a way that has no text",)
        return "changed"

    # --- nested jaxprs ----------------------------------------------------------------------------

    def _nested(
        self, i: int, j: int
    ) -> list[tuple[introspect.Nested | None, introspect.Nested | None]]:
        """Pair the nested jaxprs of two partners: equal ones first, then by label."""
        ours = introspect.nested_jaxprs(self._flows[0].eqns[i])
        theirs = introspect.nested_jaxprs(self._flows[1].eqns[j])
        labels = [[nested.label for nested in side] for side in (ours, theirs)]
        if labels[0] == labels[1]:
            return list(zip(ours, theirs, strict=True))
        numbers = [[self._keys.jaxpr(n.stored) for n in side] for side in (ours, theirs)]
        known = pairing.in_order(numbers[0], numbers[1])
        pairs = pairing.ends(numbers, labels, known)
        taken = set(pairs.values())
        found = [(n, theirs[pairs[k]] if k in pairs else None) for k, n in enumerate(ours)]
        return [*found, *((None, n) for k, n in enumerate(theirs) if k not in taken)]

    def _inner(
        self, ours: introspect.Nested | None, theirs: introspect.Nested | None, operands: Pairs
    ) -> InnerPart:
        if ours is None or theirs is None:
            return InnerPart((ours and ours.label, theirs and theirs.label), None)
        labels = ours.label, theirs.label
        if self._keys.jaxpr(ours.stored) == self._keys.jaxpr(theirs.stored):
            return InnerPart(labels, None)
        return InnerPart(labels, self._recurse.nested(ours, theirs, operands))

    def _result_pairs(self, i: int, j: int, inside: Sequence[InnerPart]) -> Pairs:
        eqns = self._flows[0].eqns[i], self._flows[1].eqns[j]
        number = len(eqns[0].outvars)
        if number == len(eqns[1].outvars):
            return {k: k for k in range(number)}
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
        return pairing.in_order(*(self._keys.types(eqn.outvars) for eqn in eqns))

    # --- inputs and outputs -----------------------------------------------------------------------

    def _pair_ends(
        self, word: str, pairs: Pairs, keys: Sequence[Sequence[Any]], status: Status
    ) -> None:
        before, after = self.part.sides
        taken = set(pairs.values())
        names, others = (
            [name for name, *_ in flow.consts]
            if word == "const"
            else [f"{word}{k}" for k in range(len(side))]
            for flow, side in zip(self._flows, keys, strict=True)
        )
        for a, key in enumerate(keys[0]):
            b = pairs.get(a)
            if b is None:
                before.ends[names[a]] = EndStatus("removed", None)
                continue
            became: Status = "same" if key == keys[1][b] else status
            before.ends[names[a]] = EndStatus(became, others[b])
            after.ends[others[b]] = EndStatus(became, names[a])
        for b in range(len(keys[1])):
            if b not in taken:
                after.ends[others[b]] = EndStatus("added", None)

    def _borders(self, side: Side, flow: HashedGraph, status: Status) -> None:
        """Say of the opened wrappers what is in them, and that their inputs and outputs go."""
        side.held = {name: var for name, var, _ in flow.consts}
        for i, nested in flow.opened.items():
            home = f"{flow.names[i]}/{nested.label}/"
            for word, atoms in (("in", nested.jaxpr.invars), ("out", nested.jaxpr.outvars)):
                for k in range(len(atoms)):
                    side.ends[f"{home}{word}{k}"] = EndStatus(status, None)
            for k in range(len(nested.jaxpr.constvars)):
                side.ends.setdefault(f"{home}const{k}", EndStatus(status, None))
            inside = {
                status
                for status, name in zip(side.status[i + 1 :], flow.names[i + 1 :], strict=True)
                if name.startswith(home)
            }
            side.opened[i] = "compared" if inside - {"same"} else "the same"
        side.converts = frozenset(flow.converts)
        side.again = frozenset(i for i, again in enumerate(flow.again) if again)

    def _outs(self, outs: Pairs, fixed: Pairs) -> None:
        """Pair the outputs that are not fixed again, first those that are the same value."""
        flow, other = self._flows
        pairs = {
            a: b
            for a, b in outs.items()
            if a not in fixed and self._wiring.there(flow.outs[a]) == other.outs[b]
        }
        taken = {*pairs.values(), *fixed.values()}
        free: dict[Source, list[int]] = {}
        for b, source in enumerate(other.outs):
            if b not in taken:
                free.setdefault(source, []).append(b)
        for a, source in enumerate(flow.outs):
            there = self._wiring.there(source)
            if a not in pairs and a not in fixed and there is not None and free.get(there):
                pairs[a] = free[there].pop(0)
        taken = set(pairs.values())
        types = [self._keys.types(side.jaxpr.outvars) for side in self._flows]
        moved: dict[int, str] = {}
        for a, b in outs.items():
            if a in pairs or b in taken:
                continue
            tags = flow.out_through[a], other.out_through[b]
            text = self._wiring.moved(f"out{a}", flow.outs[a], other.outs[b], tags)
            if text is not None and a not in fixed and types[0][a] != types[1][b]:
                continue  # neither value nor type agree: one was removed, one added
            pairs[a] = b
            if text is not None:
                moved[a] = text
        self._pair_ends("out", pairs, types, "follows")
        before, after = self.part.sides
        for a, text in moved.items():
            b = pairs[a]
            before.ends[f"out{a}"] = EndStatus("changed", f"out{b}", text)
            after.ends[f"out{b}"] = EndStatus("changed", f"out{a}", text)
