"""`Differ`: compares two programs and recurses into their nested jaxprs."""

from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.sizes import Sizes
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff import pairing
from taxpr_jupyter._diff.align_jaxprs import Comparing
from taxpr_jupyter._diff.pairing import Pairs
from taxpr_jupyter._diff.status import Part
from taxpr_jupyter._diff.wrappers import EqnContents, Opened, looked_through


class Differ:
    """Compares jaxprs, and remembers the results."""

    def __init__(self) -> None:
        self.keys = Keys()
        self.sizes = Sizes()
        self.contents = EqnContents(self.keys)
        self._known: dict[Any, tuple[Any, Part]] = {}

    def programs(self, before: taxpr.Program, after: taxpr.Program) -> Part:
        """Compare two programs. Inputs and outputs are paired by name, then in order."""
        types = [
            [list(map(self.keys.aval, avals)) for avals in both]
            for both in ((before.in_avals, after.in_avals), (before.out_avals, after.out_avals))
        ]
        ins = pairing.ends(types[0], (before.in_names, after.in_names))
        outs = pairing.ends(types[1], (before.out_names, after.out_names))
        consts = before.consts, after.consts
        named = {a: b for a, b in outs.items() if before.out_names[a] == after.out_names[b]}
        return self._compared((before, after), consts, (ins, outs, named), top=True)

    def nested(self, before: introspect.Nested, after: introspect.Nested, operands: Pairs) -> Part:
        """Compare two nested jaxprs, given the pairs of operands of their equations."""
        ins = self._nested_ins(before, after, operands)
        back = {i: o for o, i in after.back}
        known = {o: back[ins[i]] for o, i in before.back if ins.get(i) in back}
        typed = [self._typed(one.out_roles, one.jaxpr.outvars) for one in (before, after)]
        outs = pairing.ends(typed, known=known)
        stored = before.stored, after.stored
        key = id(stored[0]), id(stored[1]), *(tuple(sorted(p.items())) for p in (ins, outs))
        if key not in self._known:
            jaxprs, consts = (before.jaxpr, after.jaxpr), (before.consts, after.consts)
            part = self._compared(jaxprs, consts, (ins, outs, known), top=False)
            self._known[key] = stored, part
        return self._known[key][1]

    def _compared(
        self,
        jaxprs: tuple[Any, Any],
        consts: tuple[Sequence[Any], Sequence[Any]],
        ends: tuple[Pairs, Pairs, Pairs],
        top: bool,
    ) -> Part:
        def compare(opened: Opened) -> Part:
            return Comparing(self, jaxprs, consts, *ends, top, opened).part

        return looked_through(compare, self.contents)

    def _nested_ins(
        self, before: introspect.Nested, after: introspect.Nested, operands: Pairs
    ) -> Pairs:
        fed = {k: i for i, k in enumerate(after.operands) if k is not None}
        known = {
            i: fed[operands[k]]
            for i, k in enumerate(before.operands)
            if k is not None and operands.get(k) in fed
        }
        typed = [self._typed(one.in_roles, one.jaxpr.invars) for one in (before, after)]
        return pairing.ends(typed, known=known)

    def _typed(self, roles: Sequence[str], atoms: Sequence[Any]) -> list[tuple[str, int]]:
        return list(zip(roles, self.keys.types(atoms), strict=True))
