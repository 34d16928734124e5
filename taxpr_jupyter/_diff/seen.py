"""One jaxpr as it is compared: its equations have numbers, and tags are seen through."""

from __future__ import annotations

from typing import Any

import taxpr
from taxpr_jupyter._analysis.graph import LITERAL, Graph, Source
from taxpr_jupyter._analysis.structural_hash import EqnKeys, Keys


class Seen(Graph):
    """The graph of a jaxpr, of which all is looked at.

    Args:
        jaxpr: The jaxpr.
        keys: Gives out numbers; that of a literal goes with its `LITERAL`.

    Attributes:
        names: The equations' own parts of their addresses.
        keys: Their numbers.
        is_tag: Which of them are tags.
        operands: For each equation where each operand comes from, whatever tags it goes through.
        through: For each equation the tags that each operand goes through, last first.
        outs: Where the outputs come from.
        out_through: The tags that they go through.
        uses: For each value that is used the equations, tags left out, and the operands.
        ends: For each value the outputs that it is.
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
        """How many results an equation has."""
        return len(self.eqns[i].outvars)

    def is_hop(self, i: int) -> bool:
        """Whether an equation holds jaxprs."""
        return taxpr.is_hop(self.eqns[i])
