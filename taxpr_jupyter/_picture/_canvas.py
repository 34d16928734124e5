"""Where the parts of a picture are put together: nodes, clusters, and edges from values to uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import taxpr
from taxpr_jupyter._picture import _labels, _text
from taxpr_jupyter._picture._model import Cluster, Edge, EdgeKind, Node

# Long edges make a layout slow and a picture a knot. An input or constant is drawn once more where
# it is used this many steps below its first use.
_FAR = 6


@dataclass(frozen=True)
class Origin:
    """Where a value comes from.

    Attributes:
        node: The id of a node.
        value: The address of the value.
        tooltip: The value for people.
        tail: Which output of the node it is, "" where it has one only.
        stub: What may be drawn again near a use far away, or None.
        name: Of an input its name.
    """

    node: str
    value: str
    tooltip: str
    tail: str = ""
    stub: Node | None = None
    name: str = ""


@dataclass(frozen=True)
class Use:
    """Where a value goes.

    Attributes:
        atom: The variable or literal.
        node: The id of the node that uses it.
        item: The address of the equation, group or output that uses it.
        cluster: Where a literal or a stub for it belongs.
        head: Which operand of the node it is, "" where the order means nothing.
    """

    atom: Any
    node: str
    item: str
    cluster: str | None
    head: str = ""


@dataclass
class Scope:
    """The values of one jaxpr in its place: where they come from and where they go."""

    origins: dict[Any, Origin] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    _made_by: dict[Any, str] = field(default_factory=dict)

    def define(self, var: Any, origin: Origin, item: str = "") -> None:
        """Says where a variable comes from, and which equation or group makes it, if any."""
        self.origins[var] = origin
        if item:
            self._made_by[var] = item

    def use(self, atom: Any, node: str, item: str, cluster: str | None, head: str = "") -> None:
        """Says where a value goes."""
        self.uses.append(Use(atom, node, item, cluster, head))

    def far_uses(self) -> set[int]:
        """Which uses of inputs and constants get a stub, as indices into `uses`."""
        steps = self._steps()
        by_node: dict[str, list[int]] = {}
        for index, use in enumerate(self.uses):
            if not taxpr.is_literal(use.atom) and self.origins[use.atom].stub is not None:
                by_node.setdefault(self.origins[use.atom].node, []).append(index)
        far: set[int] = set()
        for indices in by_node.values():
            first = min(steps[self.uses[i].item] for i in indices)
            far.update(i for i in indices if steps[self.uses[i].item] > first + _FAR)
        return far

    def _steps(self) -> dict[str, int]:
        """The latest step at which an item can be placed, counted from the inputs.

        The latest, because that is where a layout puts what only prepares an operand.
        """
        earliest: dict[str, int] = {}
        for use in self.uses:  # in program order, so that what is used is known
            maker = None if taxpr.is_literal(use.atom) else self._made_by.get(use.atom)
            step = 1 + earliest.get(maker, 0) if maker else 1
            earliest[use.item] = max(step, earliest.get(use.item, 0))
        latest = dict.fromkeys(earliest, max(earliest.values(), default=0))
        for use in reversed(self.uses):
            maker = None if taxpr.is_literal(use.atom) else self._made_by.get(use.atom)
            if maker in latest:
                latest[maker] = min(latest[maker], latest[use.item] - 1)
        return latest


class Canvas:
    """The parts of a picture, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.clusters: list[Cluster] = []
        self._edge_ids: Counter[str] = Counter()
        self._literals: Counter[str] = Counter()
        self._stubs: set[str] = set()
        self._merging: dict[str, Node] = {}
        self._forward: set[str] = set()  # what computes, before or outside of a backward pass
        self._backward: set[str] = set()

    def add(self, node: Node, *, merging: bool = False) -> Node:
        """Adds a node.

        With `merging`, it stands for many things, and all values between it and another node share
        one edge.
        """
        self.nodes.append(node)
        if node.kind in {"eqn", "hop", "group", "tag", "injected"}:
            (self._backward if "backward" in node.marks else self._forward).add(node.id)
        if merging:
            self._merging[node.id] = node
        return node

    def edge(self, source: str, target: str, kind: EdgeKind = "value", **more: Any) -> None:
        """Adds an edge."""
        if kind == "value" and target in self._backward and source in self._forward:
            kind = "residual"
        name = f"{source}->{target}"
        self._edge_ids[name] += 1
        number = self._edge_ids[name]
        edge_id = name if number == 1 else f"{name}#{number}"
        self.edges.append(Edge(edge_id, source, target, kind, **more))

    def connect(self, scope: Scope) -> None:
        """Draws the edges of a jaxpr, with its literals, and stubs of what is far away."""
        far = scope.far_uses()
        names: dict[tuple[str, str], list[str]] = {}  # of what a stub stands for
        for index in sorted(far):
            use = scope.uses[index]
            origin = scope.origins[use.atom]
            names.setdefault((origin.node, use.node), []).append(origin.name)
        merged: dict[tuple[str, str], list[Origin]] = {}
        for index, use in enumerate(scope.uses):
            if taxpr.is_literal(use.atom):
                self._literal(use)
                continue
            origin = scope.origins[use.atom]
            if index in far:
                node = self._stub(origin, use, names[origin.node, use.node])
                origin = replace(origin, node=node)
            if origin.node in self._merging or use.node in self._merging:
                merged.setdefault((origin.node, use.node), []).append(origin)
            else:
                self._value(origin, use.node, use.head)
        for (_, target), origins in merged.items():
            self._merged(origins, target)

    def back(self, outs: Sequence[Origin], ins: Sequence[str]) -> None:
        """Draws the way of carries back to the next iteration."""
        pairs: dict[tuple[str, str], list[Origin]] = {}
        for out, target in zip(outs, ins, strict=True):
            pairs.setdefault((out.node, target), []).append(out)
        for (source, target), origins in pairs.items():
            tip = "to the next iteration: " + ", ".join(o.tooltip for o in origins)
            self.edge(source, target, "back", tooltip=_text.tooltip([tip]))

    def _value(self, origin: Origin, target: str, head: str) -> None:
        tip, tail = origin.tooltip, origin.tail
        self.edge(origin.node, target, value=origin.value, tooltip=tip, tail=tail, head=head)

    def _merged(self, origins: list[Origin], target: str) -> None:
        distinct = list(dict.fromkeys(origins))
        if len(distinct) == 1:
            self._value(distinct[0], target, "")
            return
        tip = _text.tooltip(origin.tooltip for origin in distinct)
        self.edge(distinct[0].node, target, tooltip=tip, tail=f"×{len(distinct)}")

    def _literal(self, use: Use) -> None:
        text = _text.literal_text(use.atom)
        tip = f"{text}:{_text.aval_text(use.atom.aval)}"
        name = f"{use.node}~{self._literals[use.node]}"
        self._literals[use.node] += 1
        self.add(Node(name, name, "literal", (text,), tip, use.cluster))
        self.edge(name, use.node, tooltip=tip, head=use.head)

    def _stub(self, origin: Origin, use: Use, names: Sequence[str]) -> str:
        """The id of a stub for a value at a use; it is drawn if it is not there yet.

        What takes many values of one node takes them from one stub, which says what they share.
        """
        node = origin.stub
        assert node is not None, "only values with a stub are far"
        lines = node.lines[:1]
        if len(set(names)) > 1 and use.node in self._merging and origin.node in self._merging:
            node = self._merging[origin.node]
            lines = (_text.shortened(_labels.shared_title(list(dict.fromkeys(names))), _text.LINE),)
        name = f"{node.id}@{use.node}"
        if name not in self._stubs:
            self._stubs.add(name)
            stub = replace(
                node, id=name, lines=lines, cluster=use.cluster, marks=(*node.marks, "stub")
            )
            self.add(stub, merging=node.id in self._merging)
        return name
