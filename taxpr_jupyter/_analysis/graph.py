"""One jaxpr as a graph of equations: what feeds each, and who uses it, seen through tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.structural_hash import EqnKeys, Keys

# Where a value comes from: the position of an equation, or one of these, and a number. Of a literal
# the number is that of `Keys`.
INPUT, CONST, LITERAL = -1, -2, -3
Source = tuple[int, int]


class Graph:
    """One jaxpr.

    Args:
        jaxpr: Something with eqns, invars, outvars and constvars.
        keys: Gives out numbers.

    Attributes:
        jaxpr: The same.
        names: The equations' own parts of their addresses.
        eqns: The equations.
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
        self.jaxpr = jaxpr
        named = taxpr.numbered(jaxpr)
        self.names = [name for name, _ in named]
        self.eqns = [eqn for _, eqn in named]
        self.is_tag = [taxpr.is_tag(eqn) for eqn in self.eqns]
        self.keys: list[EqnKeys] = [keys.eqn(eqn) for eqn in self.eqns]
        self._keys = keys
        self._made: dict[Any, tuple[Source, tuple[int, ...]]] = {
            var: ((INPUT, k), ()) for k, var in enumerate(jaxpr.invars)
        }
        self._made |= {var: ((CONST, k), ()) for k, var in enumerate(jaxpr.constvars)}
        self.operands: list[list[Source]] = []
        self.through: list[list[tuple[int, ...]]] = []
        self.uses: dict[Source, list[tuple[int, int]]] = {}
        for i, eqn in enumerate(self.eqns):
            operands, through = self._sources(eqn.invars)
            self.operands.append(operands)
            self.through.append(through)
            if self.is_tag[i]:
                for var, source, tags in zip(eqn.outvars, operands, through, strict=True):
                    self._made[var] = source, (i, *tags)
                continue
            for k, var in enumerate(eqn.outvars):
                self._made[var] = (i, k), ()
            for k, source in enumerate(operands):
                if source[0] != LITERAL:
                    self.uses.setdefault(source, []).append((i, k))
        self.outs, self.out_through = self._sources(jaxpr.outvars)
        self.ends: dict[Source, list[int]] = {}
        for k, source in enumerate(self.outs):
            self.ends.setdefault(source, []).append(k)

    def results(self, i: int) -> int:
        """How many results an equation has."""
        return len(self.eqns[i].outvars)

    def is_hop(self, i: int) -> bool:
        """Whether an equation holds jaxprs."""
        return taxpr.is_hop(self.eqns[i])

    def _sources(self, atoms: Sequence[Any]) -> tuple[list[Source], list[tuple[int, ...]]]:
        found = [
            ((LITERAL, self._keys.literal(atom)), ())
            if taxpr.is_literal(atom)
            else self._made[atom]
            for atom in atoms
        ]
        return [source for source, _ in found], [tags for _, tags in found]
