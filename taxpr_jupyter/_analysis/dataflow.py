"""The dataflow graph of a whole program, across the borders of nested jaxprs.

The nodes are the numbers of an `Index`: places of the program and results of equations. An edge
means that a value flows. `introspect.nested_jaxprs` says how values enter and leave a nested jaxpr.
Control dependences are edges, too: the predicate of a while, and the index of a cond, flow into
everything inside. If it is unknown which operands matter, all do.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taxpr import introspect
from taxpr_jupyter._analysis.index import ElementPlace, Home, Index

# An adjacency list: the neighbours of node i are the second list from first[i] to first[i + 1].
Edges = tuple[list[int], list[int]]


class Dataflow:
    """The graph of one program.

    Attributes:
        index: The places of the program.
        unsure: Equations whose results may depend on fewer operands than the graph says.
        forth: From values to their dependents.
        back: From values to their sources.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.unsure: list[ElementPlace] = []
        self._sources: list[int] = []
        self._targets: list[int] = []
        # By the address of a jaxpr: the node that decides whether it runs, the nodes of variables.
        self._control: dict[str, int | None] = {"": None}
        self._nodes: dict[str, dict[Any, int]] = {address: {} for address in index.homes}
        for place in index.places:
            self._place(place)
        self._refs()
        sources, targets = np.asarray(self._sources, int), np.asarray(self._targets, int)
        self.forth = self._adjacent(sources, targets)
        self.back = self._adjacent(targets, sources)
        del self._sources, self._targets, self._control, self._nodes

    def _adjacent(self, froms: np.ndarray, tos: np.ndarray) -> Edges:
        counts = np.bincount(froms, minlength=self.index.size)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return starts.tolist(), tos[np.argsort(froms, kind="stable")].tolist()

    def _edge(self, source: int, target: int) -> None:
        self._sources.append(source)
        self._targets.append(target)

    def _place(self, place: ElementPlace) -> None:
        home, node = place.home, place.number
        nodes, control = self._nodes[home.address], self._control[home.address]
        if place.eqn is None and not place.made:  # an output
            atom = home.jaxpr.outvars[node - home.outs.start]
            if not introspect.is_literal(atom):
                self._edge(nodes[atom], node)
            return
        if control is not None:  # without it, no value gets here
            self._edge(control, node)
        if place.eqn is None:
            nodes[place.made[0]] = node
            return
        operands = [
            None if introspect.is_literal(atom) else nodes[atom] for atom in place.eqn.invars
        ]
        (self._leaf if place.is_leaf else self._hop)(place, operands)
        nodes |= zip(place.made, place.results, strict=True)

    def _refs(self) -> None:
        """Connects the constants that are the same Ref, in both directions."""
        known: dict[int, int] = {}
        for home in self.index.homes.values():
            values = (home.nested or home.jaxpr).consts
            for node, var, value in zip(home.consts, home.jaxpr.constvars, values, strict=False):
                if introspect.is_ref(var.aval):
                    other = known.setdefault(id(value), node)
                    self._edge(node, other)
                    self._edge(other, node)

    def _leaf(self, place: ElementPlace, operands: Sequence[int | None]) -> None:
        for atom, operand in zip(place.eqn.invars, operands, strict=True):
            if operand is not None:
                self._edge(operand, place.number)
                if introspect.is_ref(atom.aval):  # it may be written to
                    self._edge(place.number, operand)
        for result in place.results:
            self._edge(place.number, result)

    def _hop(self, place: ElementPlace, operands: Sequence[int | None]) -> None:
        """Adds how values go through an equation with nested jaxprs."""
        eqn, node, results = place.eqn, place.number, place.results
        inside = [
            (nested, self.index.homes[place.address / nested.label])
            for nested in introspect.nested_jaxprs(eqn)
        ]
        entered = {k for nested, _ in inside for k in nested.operands}
        returned = {k for nested, _ in inside for k in nested.results}
        bare = [op for k, op in enumerate(operands) if k not in entered and op is not None]
        bare_results = any(k not in returned for k in range(len(results)))
        opaque = any(None in nested.operands for nested, _ in inside)
        # A predicate, an index, or an operand of unknown use decides what runs inside.
        decides = bool(bare) or bare_results or opaque or None in returned
        unsure = opaque
        for operand in bare:
            self._edge(operand, node)
        entering: dict[int | None, list[int]] = {}  # by the operand
        for nested, home in inside:
            for k, inner in zip(nested.operands, home.ins, strict=True):
                entering.setdefault(k, []).append(inner)
        for nested, home in inside:
            self._control[home.address] = node if decides else self._control[place.home.address]
            self._enter(place, operands, nested, home)
            if len(nested.consts) < len(home.consts):  # operands enter as constants
                unsure = True
                for inner in home.consts:
                    self._edge(node, inner)
            for k, out in zip(nested.results, home.outs, strict=True):
                self._edge(out, node if k is None else results[k])
            if bare_results:  # Refs that are written to may come out
                for inner in home.ins:
                    self._edge(inner, node)
            for j, i in nested.back:  # in the next iteration, also in the condition of a while
                for inner in entering[nested.operands[i]]:
                    self._edge(home.outs[j], inner)
        if unsure:
            # Not worth a note for a scatter with its jaxpr of one `add`: it does need all operands.
            if len(results) > 1 or any(len(home.jaxpr.eqns) > 1 for _, home in inside):
                self.unsure.append(place)
            for operand in operands:
                if operand is not None:
                    self._edge(operand, node)
        if decides or unsure:
            for result in results:
                self._edge(node, result)

    def _enter(
        self,
        place: ElementPlace,
        operands: Sequence[int | None],
        nested: introspect.Nested,
        home: Home,
    ) -> None:
        for k, inner in zip(nested.operands, home.ins, strict=True):
            if k is None:
                self._edge(place.number, inner)
            elif (outer := operands[k]) is not None:
                self._edge(outer, inner)
                if introspect.is_ref(place.eqn.invars[k].aval):
                    self._edge(inner, outer)
