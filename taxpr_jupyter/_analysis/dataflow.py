"""How values flow through a program, as a graph: through the borders of nested jaxprs.

The values of a program, and the equations between them, are the nodes of a graph; a value goes from
one node to the next. How it goes into and out of a nested jaxpr is read from `taxpr.nested_jaxprs`.
What decides which jaxpr runs, or how often, goes into all that runs in there: the predicate of a
while, the index of a cond. Where it cannot be known which operands matter, all do.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._text.elements import Row, place_of, row_of
from taxpr_jupyter._text.quantities import is_ref

Edges = tuple[list[int], list[int]]  # for each node where its neighbours begin, and all neighbours


class Dataflow:
    """The graph of one program.

    Args:
        program: The program.

    Attributes:
        places: Equations, inputs, constants and outputs of all jaxprs in program order: the address
            and the range of the nodes, those of nested jaxprs included.
        nodes: How many nodes there are.
        unsure: Equations of which is not known which operands matter for which results, with
            their nodes.
        forth: From values to what depends on them.
        back: From values to what they depend on.
    """

    def __init__(self, program: Any) -> None:
        self.places: list[tuple[taxpr.Address, int, int]] = []
        self.unsure: list[tuple[taxpr.Address, int]] = []
        self.nodes = 0
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._refs: dict[int, int] = {}  # nodes of closed-over references
        self._results: dict[str, int] = {}  # of equations the node of the first result
        self._ranges: dict[str, tuple[int, int]] = {}
        self._jaxpr(taxpr.Address(), program, program.consts, None)
        self._ranges |= {address: (start, stop) for address, start, stop in self.places}
        sources, targets = np.asarray(self._sources, int), np.asarray(self._targets, int)
        self.forth = self._adjacent(sources, targets)
        self.back = self._adjacent(targets, sources)
        del self._sources, self._targets

    def nodes_of(self, address: str) -> tuple[int, int]:
        """The range of the nodes of a place.

        Raises:
            PanelError: There is no such place.
        """
        known = self._ranges.get(address)
        if known is not None:
            return known
        place = taxpr.Address(address)
        if place.result is not None and place.eqn in self._results:
            node = self._results[place.eqn] + place.result
            if node < self._ranges[place.eqn][1]:
                return node, node + 1
        row = row_of(address)
        known = self._row(row) if row else self._ranges.get(place_of(address))
        if known is None:
            raise PanelError(f"There is no {address!r} in the program")
        return known

    def _row(self, row: Row) -> tuple[int, int] | None:
        known = self._rows.get(row.home, {})
        first, last = (known.get(f"{row.word}{end}") for end in (row.first, row.last))
        return (first[0], last[1]) if first and last else None

    @functools.cached_property
    def _rows(self) -> dict[str, dict[str, tuple[int, int]]]:
        """In each jaxpr the nodes of its places, by the numbers with which rows name them."""
        rows: dict[str, dict[str, tuple[int, int]]] = {}
        units: dict[str, str] = {}
        for address, start, stop in self.places:
            row = rows.setdefault(address.home, {})
            row[address.short] = start, stop
            if address.kind == "eqn":
                units[address.home] = address.short
            elif address.kind == "tag" and (unit := units.get(address.home)):
                row[unit] = row[unit][0], stop  # tags belong to the equation before them
        return rows

    def is_eqn(self, address: str) -> bool:
        """Whether this is the address of an equation."""
        return address in self._results

    def _adjacent(self, froms: np.ndarray, tos: np.ndarray) -> Edges:
        counts = np.bincount(froms, minlength=self.nodes)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return starts.tolist(), tos[np.argsort(froms, kind="stable")].tolist()

    # --- making the graph -------------------------------------------------------------------------

    def _node(self) -> int:
        self.nodes += 1
        return self.nodes - 1

    def _edge(self, source: int, target: int) -> None:
        self._sources.append(source)
        self._targets.append(target)

    def _jaxpr(
        self, home: taxpr.Address, jaxpr: Any, consts: Sequence[Any], control: int | None
    ) -> tuple[list[int], list[int], list[int]]:
        """Adds a jaxpr that runs when ``control`` says so; returns consts, inputs, outputs."""
        start = self.nodes
        nodes: dict[Any, int] = {}

        def ends(word: str, variables: Sequence[Any]) -> list[int]:
            made = []
            for k, var in enumerate(variables):
                node = self._node()
                made.append(node)
                self.places.append((home / f"{word}{k}", node, node + 1))
                if word != "out":
                    nodes[var] = node
                    if control is not None:  # without it, no value gets here
                        self._edge(control, node)
                elif not taxpr.is_literal(var):
                    self._edge(nodes[var], node)
            return made

        const_nodes = ends("const", jaxpr.constvars)
        for node, var, value in zip(const_nodes, jaxpr.constvars, consts, strict=False):
            if is_ref(var.aval):  # the same one may be closed over elsewhere
                other = self._refs.setdefault(id(value), node)
                self._edge(node, other)
                self._edge(other, node)
        ins = ends("in", jaxpr.invars)
        for local, eqn in taxpr.numbered(jaxpr):
            address = home / local
            first = self._node()
            at = len(self.places)
            self.places.append((address, first, first))
            if control is not None:
                self._edge(control, first)
            operands = [None if taxpr.is_literal(atom) else nodes[atom] for atom in eqn.invars]
            results = self._eqn(address, eqn, first, operands, control)
            nodes |= zip(eqn.outvars, results, strict=True)
            self.places[at] = address, first, self.nodes
        outs = ends("out", jaxpr.outvars)
        if home:
            self._ranges[home] = start, self.nodes
        return const_nodes, ins, outs

    def _eqn(
        self,
        address: taxpr.Address,
        eqn: Any,
        node: int,
        operands: Sequence[int | None],
        control: int | None,
    ) -> list[int]:
        """Adds what an equation does; returns its results."""
        given = [k for k in operands if k is not None]
        nested_jaxprs = taxpr.nested_jaxprs(eqn)
        if not nested_jaxprs:
            for k, operand in enumerate(operands):
                if operand is not None:
                    self._edge(operand, node)
                    if is_ref(eqn.invars[k].aval):  # it may be written to
                        self._edge(node, operand)
            results = self._made(address, eqn)
            for result in results:
                self._edge(node, result)
            return results
        entered = {k for nested in nested_jaxprs for k in nested.operands}
        returned = {k for nested in nested_jaxprs for k in nested.results}
        bare = [op for k, op in enumerate(operands) if k not in entered and op is not None]
        bare_results = any(k not in returned for k in range(len(eqn.outvars)))
        opaque = any(None in nested.operands for nested in nested_jaxprs)
        # A predicate, an index, or what nobody knows: it decides what runs inside.
        decides = bool(bare) or bare_results or opaque or None in returned
        for operand in bare:
            self._edge(operand, node)
        returns: list[tuple[int, int]] = []
        unsure = opaque
        back: list[tuple[int, int | None]] = []
        entering: dict[int | None, list[int]] = {}  # by the operand
        for nested in nested_jaxprs:
            home = address / nested.label
            inside = node if decides else control
            consts, ins, outs = self._jaxpr(home, nested.jaxpr, nested.consts, inside)
            for k, inner in zip(nested.operands, ins, strict=True):
                if k is None:
                    self._edge(node, inner)
                elif (outer := operands[k]) is not None:
                    self._edge(outer, inner)
                    if is_ref(eqn.invars[k].aval):
                        self._edge(inner, outer)
            if len(nested.consts) < len(consts):  # operands enter as constants
                unsure = True
                for inner in consts:
                    self._edge(node, inner)
            for k, out in zip(nested.results, outs, strict=True):
                returns.append((out, -1 if k is None else k))
            back += [(outs[j], nested.operands[i]) for j, i in nested.back]
            for k, inner in zip(nested.operands, ins, strict=True):
                entering.setdefault(k, []).append(inner)
            if bare_results:  # what is written to references comes out
                for inner in ins:
                    self._edge(inner, node)
        for out, k in back:  # in the next iteration, also in the condition of a while
            for inner in entering[k]:
                self._edge(out, inner)
        if unsure:
            # That a scatter with its `add` needs all of its operands is no news.
            if len(eqn.outvars) > 1 or any(len(n.jaxpr.eqns) > 1 for n in nested_jaxprs):
                self.unsure.append((address, node))
            for operand in given:
                self._edge(operand, node)
        results = self._made(address, eqn)
        for out, k in returns:
            self._edge(out, node if k < 0 else results[k])
        if decides or unsure:
            for result in results:
                self._edge(node, result)
        return results

    def _made(self, address: str, eqn: Any) -> list[int]:
        self._results[address] = self.nodes
        return [self._node() for _ in eqn.outvars]
