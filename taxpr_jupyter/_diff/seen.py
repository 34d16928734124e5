"""`Seen`: the def-use graph of one jaxpr for a comparison, to which tags are transparent."""

from __future__ import annotations

from typing import Any

import taxpr
from taxpr_jupyter._analysis.graph import LITERAL, Graph, Source
from taxpr_jupyter._analysis.structural_hash import EqnKeys, Keys


class Seen(Graph):
    """A graph with the structural hashes of its equations and literals.

    Args:
        jaxpr: The jaxpr.
        keys: The structural hashes.

    Attributes:
        names: The last part of the address of each equation.
        keys: The numbers of each equation.
        is_tag: Whether each equation is a tag.
        operands: For each equation the source of each operand, before any tags.
        through: For each equation the tags that each operand goes through, last first.
        outs: The source of each output, before any tags.
        out_through: The tags that each output goes through, last first.
        uses: For each source the equations that use it, without tags, and the operand's number.
        ends: For each source the outputs with this value.
    """

    def __init__(self, jaxpr: Any, keys: Keys) -> None:
        super().__init__(jaxpr)
        self._keys = keys
        self.names = list(self.positions)
        self.is_tag = [taxpr.is_tag(eqn) for eqn in self.eqns]
        self.keys: list[EqnKeys] = [keys.eqn(eqn) for eqn in self.eqns]
        found = [[self.behind(atom) for atom in eqn.invars] for eqn in self.eqns]
        self.operands = [[source for source, _ in one] for one in found]
        self.through = [[tags for _, tags in one] for one in found]
        self.uses: dict[Source, list[tuple[int, int]]] = {}
        for i, operands in enumerate(self.operands):
            for k, source in enumerate(() if self.is_tag[i] else operands):
                if source[0] != LITERAL:
                    self.uses.setdefault(source, []).append((i, k))
        outs = [self.behind(atom) for atom in jaxpr.outvars]
        self.outs, self.out_through = [source for source, _ in outs], [tags for _, tags in outs]
        self.ends: dict[Source, list[int]] = {}
        for k, source in enumerate(self.outs):
            self.ends.setdefault(source, []).append(k)

    def literal(self, atom: Any) -> int:
        return self._keys.literal(atom)

    def results(self, i: int) -> int:
        """The number of results of an equation."""
        return len(self.eqns[i].outvars)

    def is_hop(self, i: int) -> bool:
        """Whether an equation has nested jaxprs."""
        return taxpr.is_hop(self.eqns[i])
