"""`Canvas`: collects the nodes, clusters and edges of a picture while it is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from taxpr_jupyter._drawing.roles import Role, joined
from taxpr_jupyter._drawing.scope import Carried, CarriedValue, Origin, Scope, ValueUse
from taxpr_jupyter._model.enclosing import Around
from taxpr_jupyter._model.kinds import COMPUTING, EdgeKind
from taxpr_jupyter._model.model import Cluster, Edge, Node
from taxpr_jupyter._text import paths, short, titles
from taxpr_jupyter._text.elements import literal_of
from taxpr_jupyter._tree import labels

_MANY_KEPT = 3  # as many edges from one cluster to one node of the backward pass become one
_MANY_ALIKE = 6  # as many edges between the same two nodes become one
_TOLD = 24  # as many operands or results in a bundle are called by their names
_NAMED = 3  # values that are named where they are used far from where they are made
_LITERALS = 6  # lines on a node for several literals


class Canvas:
    """The parts of a picture, in the order of adding them."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.clusters: list[Cluster] = []
        self._edge_ids: Counter[str] = Counter()
        self._stubs: set[str] = set()
        self._merging: dict[str, Node] = {}
        # By the item that uses them and the ids of the literals.
        self._literal_nodes: dict[tuple[Any, ...], str] = {}
        self._forward: set[str] = set()  # nodes that compute outside of a backward pass
        self._backward: set[str] = set()
        self._states: set[str] = set()
        self._nameless: dict[str, str | None] = {}  # constants, each with the frame of its jaxpr
        self._same: dict[str, str] = {}  # by the address of an input of a call the operand's
        self._kept: set[str] = set()  # the nodes of `Edge.also`, and the first of each such edge
        self._titles: dict[str, str] = {}
        self._carried: dict[str, Carried] = {}  # by the id of an edge

    def add(self, node: Node, *, merging: bool = False) -> Node:
        """Add a node. If it is `merging`, all values between it and another node share one edge."""
        self.nodes.append(node)
        self._titles[node.id] = " ".join(node.lines[: node.titled])
        if node.kind == "state":
            self._states.add(node.id)
        if node.kind in COMPUTING:
            (self._backward if "backward" in node.marks else self._forward).add(node.id)
        if merging:
            self._merging[node.id] = node
        return node

    def nameless(self, node: Node) -> None:
        """Register a constant without a name: it is drawn beside its only use, like a literal."""
        self._nameless[node.id] = node.cluster

    def bundle(self, node: Node) -> None:
        """Register a bundle of inputs that is not drawn: each use of it has a stub."""
        self._merging[node.id] = node

    def edge(
        self,
        source: str,
        target: str,
        kind: EdgeKind = "value",
        *,
        carried: Carried | None = None,
        **more: Any,
    ) -> None:
        """Add an edge, with the values that go along it if they have names."""
        if kind == "value" and target in self._backward and source in self._forward:
            kind = "residual"
        if kind == "value" and source in self._states:
            kind = "read"
            if not more.get("head", "").isdigit():  # the name of the state says more
                more.pop("head", None)
        name = f"{source}->{target}"
        self._edge_ids[name] += 1
        number = self._edge_ids[name]
        edge_id = name if number == 1 else f"{name}#{number}"
        self.edges.append(Edge(edge_id, source, target, kind, **more))
        if carried:
            self._carried[edge_id] = carried

    def hands(self, value: str, to: str) -> None:
        """Register that an input of a nested jaxpr is a value of the jaxpr around it."""
        if value:
            self._same[to] = self._same.get(value, value)

    def keeps_nothing(self, node: str) -> None:
        """Register that no value of a node is kept for the backward pass."""
        self._forward.discard(node)

    def belongs(self, nodes: Collection[str], backward: bool) -> None:
        """Register the pass of nodes that do not compute themselves."""
        mine, other = self._forward, self._backward
        if backward:
            mine, other = other, mine
        mine.update(nodes)
        other.difference_update(nodes)

    def connect(self, scope: Scope) -> None:
        """Draw the edges of a jaxpr, with nodes for its literals and stubs for far uses."""
        far = scope.far_uses()
        early = scope.early_outs([n.id for n in self._merging.values() if n.kind == "output"])
        # The values that a stub stands for: names, and lines of its tooltip.
        names: dict[tuple[str, str], dict[str, str]] = {}
        for (source, target, *_), uses in scope.bundles.items():
            known = names.setdefault((source, target), {})
            for index in uses if uses[0] in far else [one for one in uses if one in early]:
                use, origin = scope.uses[index], scope.sources[index]
                if index in early:
                    known[use.name] = _named(use, origin)
                else:
                    known[origin.name] = origin.tooltip
        merged: dict[tuple[str, str], list[CarriedValue]] = {}
        single: dict[tuple[str, str], list[CarriedValue]] = {}
        literals: dict[str, list[ValueUse]] = {}
        merging = self._merging
        for use in scope.literals:
            literals.setdefault(use.node, []).append(use)
        for uses in self._alike(scope, far, early, names):
            parts = [CarriedValue(scope.sources[index], scope.uses[index]) for index in uses]
            origin, use = parts[0]
            source, target = origin.node, use.node
            if uses[0] in early:
                target = self._output_stub(origin, use, names[source, target])
            if uses[0] in far:
                source = self._stub(scope, origin, use, names[source, use.node])
            found = merged if source in merging or target in merging else single
            found.setdefault((source, target), []).extend(parts)
        for ends, parts in single.items():
            if len(parts) < _MANY_ALIKE:
                for part in parts:
                    self._value(scope, part, *ends)
            else:
                merged[ends] = parts
        for uses in literals.values():
            self._literals(uses)
        bundled = self._residuals(merged)
        for (source, target), parts in merged.items():
            if (source, target) not in bundled:
                self._merged(scope, parts, source, target)

    def _alike(
        self,
        scope: Scope,
        far: Set[int],
        early: Set[int],
        names: Mapping[tuple[str, str], Mapping[str, str]],
    ) -> list[list[int]]:
        """The uses of variables in program order; those between two bundles together."""
        found: list[list[int]] = []
        for (source, target, *_), uses in scope.bundles.items():
            alike = source in self._merging and target in self._merging
            if uses[0] in far:  # else each has a stub of its own
                alike = alike and len(names[source, target]) > 1
            alike = alike and early.isdisjoint(uses)
            found += [uses] if alike else [[index] for index in uses]
        return sorted(found)

    def _residuals(
        self, merged: Mapping[tuple[str, str], list[CarriedValue]]
    ) -> set[tuple[str, str]]:
        """Draw residuals from many nodes of one cluster to the same node as one edge.

        Returns the ends of the edges that it replaces.
        """
        around = Around(self.nodes, self.clusters)
        by_cluster: dict[tuple[str, str], list[str]] = {}
        for source, target in merged:
            if target in self._backward and source in self._forward:
                outermost = around.apart(source, target)
                if outermost is not None:
                    by_cluster.setdefault((outermost, target), []).append(source)
        done: set[tuple[str, str]] = set()
        for (_, target), sources in by_cluster.items():
            if len(sources) < _MANY_KEPT:
                continue
            parts = [part for source in sources for part in merged[source, target]]
            distinct = _distinct(parts)
            tip = short.tooltip(distinct, _tooltip)
            self.edge(
                sources[-1],
                target,
                tooltip=tip,
                tail=f"×{len(distinct)}",
                head=joined(_heads(parts)),
                out_of=around.common(sources),
                also=tuple(sources[:-1]),
            )
            self._kept.update(sources)
            done.update((source, target) for source in sources)
        return done

    def finished_nodes(self) -> list[Node]:
        """All nodes; those in `Edge.also`, whose values share an edge, are marked as kept.

        A literal without an edge, a result of a jaxpr that is not used outside, is left out.
        """
        ends = {end for edge in self.edges for end in (edge.source, edge.target)}
        room = Counter(node.cluster for node in self.nodes)
        beside = self._beside_uses()
        nodes = []
        for node in self.nodes:
            node = replace(node, cluster=beside[node.id]) if node.id in beside else node
            if node.kind == "literal" and node.id not in ends and room[node.cluster] > 1:
                room[node.cluster] -= 1
            else:
                nodes.append(node)
        return [
            replace(
                node,
                lines=titles.signed(node.lines, node.titled, ["kept"]),
                tooltip=f"{node.tooltip}\nkept for the backward pass",
                marks=(*node.marks, "kept"),
            )
            if node.id in self._kept
            else node
            for node in nodes
        ]

    def _beside_uses(self) -> dict[str, str | None]:
        """The frames for constants without names that one node takes, if it is in a group."""
        targets: dict[str, list[str]] = {}
        for edge in self.edges if self._nameless else ():
            if edge.source in self._nameless:
                targets.setdefault(edge.source, []).append(edge.target)
        groups = {one.id: one.parent for one in self.clusters if one.kind == "group"}
        clusters = {node.id: node.cluster for node in self.nodes if node.kind in COMPUTING}
        found: dict[str, str | None] = {}
        for source, ends in targets.items():
            frame = around = clusters.get(ends[0]) if len(ends) == 1 else None
            while around in groups:
                around = groups[around]
            if frame is not None and around == self._nameless[source]:
                found[source] = frame
        return found

    def finished_edges(self) -> list[Edge]:
        """All edges. Those of several values with one name have its number: `h #2`."""
        rows = {node.id: row for row, node in enumerate(self.nodes)}
        values: dict[str, dict[str, int]] = {}  # by name; for each where it is made
        for edge in self.edges:
            if edge.name:
                found, row = values.setdefault(edge.name, {}), rows.get(edge.source, 0)
                value = self._value_of(edge)
                found[value] = min(row, found.get(value, row))
        order = {name: sorted(found, key=found.__getitem__) for name, found in values.items()}
        numbered = [
            replace(edge, name=f"{edge.name} #{k + 1}")
            if edge.name and (k := order[edge.name].index(self._value_of(edge)))
            else edge
            for edge in self.edges
        ]
        told = self._told_apart()
        return [replace(edge, **told.get(edge.id, {})) for edge in numbered]

    def _told_apart(self) -> dict[str, dict[str, str]]:
        """New texts at the ends of lines, by edge, if a node has several values on its lines.

        Without them a reader cannot tell two values from one that goes to two nodes. A result has
        its name at the beginning of its line. A part of a bundle has it at the end, since the lines
        of a bundle often begin as one.
        """
        nodes = {node.id: node for node in self.nodes}
        leaving: dict[str, list[Edge]] = {}
        for edge in self.edges:
            # What a backward pass takes is named there.
            if edge.id in self._carried and edge.kind == "value":
                leaving.setdefault(edge.source, []).append(edge)
        found: dict[str, dict[str, str]] = {}
        for source, edges in leaving.items():
            node = nodes.get(source) or self._merging[source]
            computes = node.kind in COMPUTING
            if not computes and source not in self._merging:
                continue  # it is one value
            lines = [self._carried[edge.id] for edge in edges]
            values = [self._values_of(line) for line in lines]
            if len(set(values)) < 2:
                continue
            told: dict[frozenset[str], str] = {}
            for edge, line, value in zip(edges, lines, values, strict=True):
                name = told.get(value) or line.called(*([node.cluster] if computes else ()))
                if not name and computes:
                    is_role = edge.tail and (node.kind == "eqn" or not edge.tail.isdigit())
                    name = edge.tail if is_role else line.type
                told[value] = name
            every = frozenset[str]().union(*values)
            for edge, value in zip(edges, values, strict=True):
                name = _numbered(told, value)
                if computes and not edge.head.endswith(name):
                    found[edge.id] = {"tail": name}
                elif not computes:
                    count = f"×{len(value)}" if len(value) > 1 else ""
                    found[edge.id] = {"tail": count}
                    name = name.removesuffix(f" {count}") if name != count else ""
                    target = nodes[edge.target]
                    given = target.kind not in COMPUTING or titles.says(
                        self._titles[target.id], name
                    )
                    if value != every and not given:
                        found[edge.id]["head"] = edge.head or name
        return found

    def _values_of(self, line: Carried) -> frozenset[str]:
        values = (part.origin.value for part in line.parts)
        return frozenset(self._same.get(value, value) for value in values)

    def _value_of(self, edge: Edge) -> str:
        """The address of the value that goes along an edge, or of the maker of several."""
        value = edge.made or edge.value or edge.source
        return self._same.get(value, value)

    def output_literal(self, address: str, literal: Any, cluster: str | None) -> Origin:
        """Draw a node for an output that is a literal."""
        text = short.literal_text(literal)
        tip = short.tooltip([address, f"{text}:{short.aval_text(literal.aval)}"])
        self.add(Node(address, address, "literal", (text,), tip, cluster))
        return Origin(address, "", text)

    def back(self, outs: Sequence[Origin], ins: Sequence[str]) -> None:
        """Draw the edges of carries back to the next iteration."""
        pairs: dict[tuple[str, str], list[Origin]] = {}
        for out, target in zip(outs, ins, strict=True):
            pairs.setdefault((out.node, target), []).append(out)
        # All share one line, which says how many they are.
        tail = f"×{len(outs)}" if len(outs) > 1 else ""
        for (source, target), origins in pairs.items():
            tip = "to the next iteration: " + ", ".join(o.tooltip for o in origins)
            self.edge(source, target, "back", tooltip=short.tooltip([tip]), tail=tail)
            tail = ""

    def _value(self, scope: Scope, part: CarriedValue, source: str, target: str) -> None:
        origin, head = part.origin, part.use.head
        tail, name = _told(scope, part, origin.tail), _shared_name(scope, [part])
        self.edge(
            source,
            target,
            value=origin.value,
            tooltip=_tooltip(part),
            tail=tail.name if tail else "",
            head=self._head(head.name, target, name) if head else "",
            name=name,
            made=origin.made,
            carried=Carried(scope, [part]),
        )

    def _merged(
        self, scope: Scope, parts: Sequence[CarriedValue], source: str, target: str
    ) -> None:
        distinct = _distinct(parts)
        heads, tails = _heads(parts), [one.origin.tail for one in distinct if one.origin.tail]
        if len(distinct) <= _TOLD:
            if target in self._merging:
                told = (_told(scope, part, part.use.head) for part in parts)
                heads = [role for role in told if role]
            tails = [role for part in distinct if (role := _told(scope, part, part.origin.tail))]
        head, first, name = joined(heads), distinct[0], _shared_name(scope, distinct)
        head = self._head(head, target, name) if len(distinct) == 1 else head
        numbered = first.use.head and first.use.head.name.isdigit()
        if numbered and first.origin.name and head == name:
            head = ""  # its source says it
        made = ""
        if len(distinct) == 1:
            tail, value, tip = joined(tails), first.origin.value, _tooltip(first)
            made = first.origin.made
        else:
            numbers = all(role.name.isdigit() for role in tails)
            tail = joined(tails) if len(tails) == len(distinct) and not numbers else ""
            tail = tail or f"×{len(distinct)}"
            value, tip = "", short.tooltip(distinct, _tooltip)
        self.edge(
            source,
            target,
            value=value,
            tooltip=tip,
            tail=tail,
            head=head,
            name=name,
            made=made,
            carried=Carried(scope, distinct),
        )

    def _head(self, head: str, target: str, name: str) -> str:
        """The name of an operand in place of its number, where the title of its node has it."""
        return name if head.isdigit() and titles.says(self._titles.get(target, ""), name) else head

    def _literals(self, uses: Sequence[ValueUse]) -> None:
        """Draw the literals that one node takes; a merging node has one node for all of them."""
        target, together = uses[0].node, uses[0].node in self._merging
        for number, part in enumerate([uses] if together else [[use] for use in uses]):
            texts = [short.literal_text(use.atom) for use in part]
            types = [short.aval_text(use.atom.aval) for use in part]
            tips = [f"{text}:{kind}" for text, kind in zip(texts, types, strict=True)]
            heads = [use.head for use in part]
            if len(part) > 1:
                named = zip(texts, heads, strict=True)
                texts = [f"{head.name} = {text}" if head else text for text, head in named]
            if len(texts) > _LITERALS:
                texts[_LITERALS - 1 :] = [f"{len(texts) - _LITERALS + 1} more"]
            # Two jaxprs of one equation may take the same literal.
            shared = (part[0].item, *(id(use.atom) for use in part))
            if target != part[0].item and shared in self._literal_nodes:
                self.edge(self._literal_nodes[shared], target, tooltip=short.tooltip(tips))
                continue
            tip, name = short.tooltip(tips), literal_of(target, number)
            self._literal_nodes[shared] = name
            lines = tuple(short.shortened(text, short.LINE) for text in texts)
            self.add(Node(name, name, "literal", lines, tip, part[0].cluster))
            head = heads[0].name if len(part) == 1 and heads[0] else ""
            self.edge(name, target, tooltip=tip, head=head)

    def _output_stub(self, origin: Origin, use: ValueUse, names: Mapping[str, str]) -> str:
        """The id of a stub for outputs, next to the node that makes them."""
        node = self._merging[use.node]
        name = f"{node.id}@{origin.node}"
        if name not in self._stubs:
            self._stubs.add(name)
            line = labels.short_path(paths.shared_title(list(names)))
            cluster = next(n.cluster for n in self.nodes if n.id == origin.node)
            marks = (*node.marks, "stub")
            tip = short.tooltip([node.address, *names.values()])
            stub = replace(node, id=name, lines=(line,), tooltip=tip, cluster=cluster, marks=marks)
            self.add(stub, merging=True)
        return name

    def _stub(self, scope: Scope, origin: Origin, use: ValueUse, names: Mapping[str, str]) -> str:
        """The id of a stub for a value at a use, which is drawn if it does not exist yet.

        A merging node that takes several values of one node has one stub for all of them.
        """
        node = origin.stub
        assert node is not None, "only uses of values with a stub are far"
        bundle = len(names) > 1 and use.node in self._merging and origin.node in self._merging
        if bundle:
            node = self._merging[origin.node]
        name = f"{node.id}@{use.node}"
        if name not in self._stubs:
            self._stubs.add(name)
            lines, tip, marks = node.lines[:1], node.tooltip, (*node.marks, "stub")
            if bundle:
                title = paths.shared_title(list(names))
                some = paths.some_of(list(names), scope.beside(origin.node, title))
                lines = (labels.short_path(title), *titles.list_lines(some, most=2))
                tip = short.tooltip([node.address, *names.values()])
            stub = replace(
                node, id=name, lines=lines, tooltip=tip, cluster=use.cluster, marks=marks
            )
            self.add(stub, merging=node.id in self._merging)
        return name


def _numbered(told: Mapping[frozenset[str], str], value: frozenset[str]) -> str:
    """The name of values, with a number where others have the same: `f32[3] #2`."""
    alike = [one for one, name in told.items() if name and name == told[value]]
    number = alike.index(value) + 1 if len(alike) > 1 and len(value) == 1 else 1
    return f"{told[value]} #{number}" if number > 1 else told[value]


def _tooltip(part: CarriedValue) -> str:
    return _named(part.use, part.origin)


def _named(use: ValueUse, origin: Origin) -> str:
    """The value for people, with the name of the output that it becomes."""
    return f"{use.name} = {origin.tooltip}" if use.name else origin.tooltip


def _shared_name(scope: Scope, parts: Sequence[CarriedValue]) -> str:
    """The common part of the names of inputs, or the words for a few other values, or ""."""
    names = [part.origin.name for part in parts]
    if all(names):
        return labels.short_path(paths.shared_title(names))
    if len(parts) > _NAMED:
        return ""
    words = [part.origin.name or scope.words(part.use.atom, part.use.cluster) for part in parts]
    together = ", ".join(words)
    return together if all(words) and len(together) <= short.LINE else ""


def _told(scope: Scope, part: CarriedValue, role: Role | None) -> Role | None:
    """The role of an operand or result, with its name where the role has but a number."""
    start, _, number = role.name.rpartition(" ") if role else ("", "", "")
    if not number.isdigit():
        return role
    atom, cluster = part.use.atom, part.use.cluster
    name = scope.words(atom, cluster) or scope.held(atom, cluster)
    name = name or part.origin.name  # without its role
    return replace(role, name=f"{start} {name}".strip()) if name and role else role


def _heads(parts: Sequence[CarriedValue]) -> list[Role]:
    return [part.use.head for part in parts if part.use.head]


def _distinct(parts: Sequence[CarriedValue]) -> list[CarriedValue]:
    """Each value once, by the identity of its `Origin`: comparing these takes long."""
    found: dict[int, CarriedValue] = {}
    for part in parts:
        found.setdefault(id(part.origin), part)
    return list(found.values())
