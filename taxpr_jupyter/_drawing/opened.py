"""Draw an open equation: a cluster for each nested jaxpr, and one around them.

The outer one is left out if it would hold a single cluster. A while has only its body's, with the
condition in it. The branches of a choice have a bar of their operands above them, with each operand
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from taxpr import introspect
from taxpr_jupyter._analysis.names import argument_names
from taxpr_jupyter._drawing.borders import SEEN, Borders, DrawnEnds, DrawnInputs, Then
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.roles import SAME, Role
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.kinds import ClusterKind
from taxpr_jupyter._model.model import Cluster, Node
from taxpr_jupyter._text import paths, short, titles
from taxpr_jupyter._text.elements import operands_of
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.ports import ends_of
from taxpr_jupyter._tree.tree import Block, BlockEnd, Item


class DrawsNested(Protocol):
    """The part of `program.Drawing` that this needs; it draws nested equations by this again."""

    canvas: Canvas
    tips: short.Tooltips
    borders: Borders
    drawn: set[str]
    unfolded: set[str]
    foldable: set[str]

    def nested(
        self, block: Block, nested: introspect.Nested, seen: DrawnInputs, then: Then | None
    ) -> DrawnEnds:
        """Draw a nested jaxpr in its cluster."""
        ...

    def results(self, scope: Scope, item: Item, origins: Sequence[Origin]) -> None:
        """Register the origins of an equation's results."""
        ...


class _Operand(NamedTuple):
    """An operand in the bar above branches: the id of its node, and its name."""

    node: str
    name: str


class Opened:
    """Draws one open equation."""

    def __init__(self, drawing: DrawsNested, scope: Scope, item: Item, cluster: str | None) -> None:
        self._drawing, self._canvas, self._tips = drawing, drawing.canvas, drawing.tips
        self._scope, self._item, self._around = scope, item, cluster
        eqn = item.eqn
        self._loop = _while_of(eqn, item.blocks)
        entered = {k for _, nested in item.blocks for k in nested.operands}
        returned = {k for _, nested in item.blocks for k in nested.results}
        self._bare_operands = [k for k in range(len(eqn.invars)) if k not in entered]
        self._bare_results = [k for k in range(len(eqn.outvars)) if k not in returned]
        self._bare = bool(self._bare_operands or self._bare_results)
        several = len(item.blocks) > 1
        # Whether its operand chooses one of its jaxprs.
        self._chooses = several and bool(self._bare_operands) and not self._bare_results
        self._outer = item.address if self._bare or (several and not self._loop) else cluster
        self._ends: dict[str, DrawnEnds] = {}

    def draw(self) -> None:
        """Draw it, and register where its results come from."""
        item, eqn = self._item, self._item.eqn
        for addresses in (self._drawing.drawn, self._drawing.unfolded, self._drawing.foldable):
            addresses.add(item.address)
        if self._outer != self._around:
            title = labels.open_title(eqn, item.title)
            self._cluster(item.address, "hop", title, self._around)
        if self._bare:
            self._bare_node()
        bar = self._bar()
        for block, nested in item.blocks:
            if self._loop is None or block.address != self._loop.condition:
                self._enter(block, nested, bar)
        for block, nested in item.blocks:
            for i, (k, role) in enumerate(zip(nested.operands, nested.in_roles, strict=True)):
                if role == "ref" and k in self._bare_results:  # its last value has its number
                    source, target = self._ends[block.address].ins[i], operands_of(item.address)
                    tip = "the last value of the Ref"
                    self._canvas.edge(source, target, tooltip=tip, head=str(k))
        for address, drawn in self._ends.items() if self._chooses else ():
            self._canvas.edge(operands_of(item.address), drawn.first, "control", into=address)
        joined = self._joined()
        origins = [joined.get(k) or self._result(k) for k in range(len(eqn.outvars))]
        self._drawing.results(self._scope, item, origins)

    def _enter(self, block: Block, nested: introspect.Nested, bar: Mapping[int, _Operand]) -> None:
        """Draw a nested jaxpr, and register what it takes of the jaxpr around the equation."""
        item, loop = self._item, self._loop
        then, seen = None, SEEN
        first, *facts = labels.block_lines(nested)
        told = titles.source_lines(item.title)
        title = (labels.with_functions(first, item.eqn, [nested], told), *facts)
        if loop:
            inside = [nested for _, nested in item.blocks]
            title = labels.open_title(item.eqn, item.title, inside)
            then = self._condition(loop, block)
        elif item.title and self._outer == self._around:
            failure = introspect.failure_of(item.eqn)
            title = (*labels.failure_lines(failure), *title[-1:]) if failure else (*told, *title)
        if bar:
            used = block.flow.graph.used
            unused = (i for i, var in enumerate(block.jaxpr.invars) if var not in used)
            own = argument_names(nested)  # JAX forgets some if other branches close over more
            again = {
                i: bar[k].name if bar[k].name == name or not own[i] else f"{name} = {bar[k].name}"
                for i, (k, name) in enumerate(zip(nested.operands, block.names.ins, strict=True))
                if k is not None
            }
            seen = DrawnInputs(frozenset(unused), again=again)
        if block.all_of_it:
            atoms = (item.eqn.invars[k] for k in nested.operands if k is not None)
            given = {i: self._scope.origins[atom] for i, atom in enumerate(atoms)}
            seen = DrawnInputs(frozenset(given), given)
        self._cluster(block.address, "jaxpr", title, self._outer)
        for i, (k, role) in enumerate(zip(nested.operands, nested.in_roles, strict=True)):
            if k is not None and role in SAME and not introspect.is_literal(item.eqn.invars[k]):
                origin = self._scope.origins.get(item.eqn.invars[k])
                value = origin.made or origin.value if origin else ""
                self._canvas.hands(value, block.address / f"in{i}")
        drawn = self._nested(block, nested, seen, then)
        for i, k in enumerate(nested.operands):
            if k is not None and k in bar:
                self._stands_for(bar[k].node, block, i, drawn)
            elif k is not None and i in seen.given:
                self._stands_for(seen.given[i].node, block, i, drawn)
            elif k is not None and drawn.ins[i]:
                self._scope.use(item.eqn.invars[k], drawn.ins[i], item.address, self._around)

    def _nested(
        self, block: Block, nested: introspect.Nested, seen: DrawnInputs, then: Then | None = None
    ) -> DrawnEnds:
        drawn = self._ends[block.address] = self._drawing.nested(block, nested, seen, then)
        inner = {*filter(None, drawn.ins), *(origin.node for origin in drawn.outs)}
        self._canvas.belongs(inner, self._item.is_backward)
        return drawn

    def _stands_for(self, node: str, block: Block, i: int, drawn: DrawnEnds) -> None:
        """Join an input to its node outside; that node gets its address if it is not drawn."""
        if drawn.ins[i]:
            tip = f"{block.names.ins[i]} = {self._tips.value(block.jaxpr.invars[i])}"
            self._canvas.edge(node, drawn.ins[i], tooltip=tip)
        else:
            hidden = self._drawing.borders.hidden
            hidden[node] = (*hidden.get(node, (node,)), block.address / f"in{i}")

    def _condition(self, loop: _While, body: Block) -> Then:
        """Draws the condition of a while when the inputs of its body are there."""
        item = self._item
        block, nested = next(one for one in item.blocks if one[0].address == loop.condition)

        def draw(scope: Scope, ins: Sequence[str]) -> None:
            # A tag in the condition tags its value alone: so this has a node of its own.
            without = frozenset(i for i in loop.shared if not _is_tagged(block, i))
            given = {
                i: origin
                for i in without
                if (origin := scope.origins.get(body.jaxpr.invars[loop.shared[i]]))
            }
            self._cluster(block.address, "jaxpr", tuple(labels.block_lines(nested)), body.address)
            drawn = self._nested(block, nested, DrawnInputs(without, given))
            for i, k in enumerate(nested.operands):
                if i in loop.shared:
                    self._stands_for(ins[loop.shared[i]], block, i, drawn)
                elif k is not None:
                    self._scope.use(item.eqn.invars[k], drawn.ins[i], item.address, self._around)

        return draw

    def _cluster(
        self, address: str, kind: ClusterKind, title: tuple[str, ...], parent: str | None
    ) -> None:
        eqn, item = self._item.eqn, self._item
        ended = ("unfinished",) if introspect.is_unfinished(eqn) else ()
        ended = ("failed",) if introspect.failure_of(eqn) else ended
        tip, titled = self._tips.eqn(item.address, eqn), titles.titled(title, item.title)
        self._canvas.clusters.append(
            Cluster(address, kind, title, tip, parent, item.address, ended, titled=titled)
        )

    def _bare_node(self) -> None:
        """Draw a node for operands and results that no nested jaxpr has.

        Such as the index of a cond, which chooses a branch, or all operands of a scatter.
        """
        address, eqn, operands = self._item.address, self._item.eqn, self._bare_operands
        lines = (
            ("which?",)
            if self._chooses
            else tuple(labels.eqn_lines(eqn, typed=self._tips.label_type))
        )
        marks = ("choice",) if self._chooses else ()
        tip, name = self._tips.eqn(address, eqn), operands_of(address)
        self._canvas.add(Node(name, address, "eqn", lines, tip, self._outer, marks))
        for k in operands:
            if not self._chooses and introspect.is_literal(eqn.invars[k]):
                continue  # it stands in the label
            head = Role("", str(k)) if len(operands) > 1 else None
            self._scope.use(eqn.invars[k], name, address, self._outer, head)

    def _bar(self) -> dict[int, _Operand]:
        """Draw the operands of the branches of a choice, each one once. Returns them by number.

        One operand alone leads into all branches by lines that do not cross, and needs no bar.
        """
        groups = _shared_operands(self._item.blocks) if self._chooses else []
        if sum(map(len, groups)) < 2:
            return {}
        names: dict[int, str] = {}
        used: set[int] = set()
        for block, nested in self._item.blocks:
            for i, k in enumerate(nested.operands):
                if k is None:
                    continue
                if block.jaxpr.invars[i] in block.flow.graph.used and k not in used:
                    used.add(k)
                    names[k] = block.names.ins[i]
                names.setdefault(k, block.names.ins[i])
        return {
            k: _Operand(node, names[k])
            for group in groups
            for node in [self._operands(group, names, used)]
            for k in group
        }

    def _operands(self, group: Sequence[int], names: Mapping[int, str], used: set[int]) -> str:
        """Draw operands in one node. Returns its id."""
        item, atoms = self._item, [self._item.eqn.invars[k] for k in group]
        address, first = item.address, names[group[0]]
        if len(group) == 1:
            lines = labels.end_lines(first, "operand", self._tips.label_type(atoms[0]))
            origin = None if introspect.is_literal(atoms[0]) else self._scope.origins.get(atoms[0])
            address, marks = origin.value if origin else address, ("bar",)
        else:
            together = [names[k] for k in group]
            lines = labels.bundle_lines(paths.shared_title(together), together)
            marks = ("bar", "many")
        if used.isdisjoint(group):
            lines, marks = titles.signed(lines, 1, ["unused"]), (*marks, "unused")
        texts = [f"{names[k]} = {self._tips.value(item.eqn.invars[k])}" for k in group]
        tip, name = short.tooltip([address, *texts]), operands_of(item.address, group[0])
        node = Node(name, address, "input", tuple(lines), tip, self._outer, marks)
        self._canvas.add(node, merging=len(group) > 1)
        for atom in atoms:
            self._scope.use(atom, name, item.address, self._outer)
        return name

    def _joined(self) -> dict[int, Origin]:
        """Draw the results of the branches of a choice that belong together, each group as a node.

        Returns their origins by number.
        """
        outs = range(len(self._item.eqn.outvars)) if self._chooses else ()
        names = [self._result_name(k) for k in outs]
        groups = [end.indices for end in ends_of(names, "out", self._item.address, nested=True)]
        found: dict[int, Origin] = {}
        for group in groups:
            if len(group) > 1:
                found |= dict.fromkeys(group, Origin(self._meeting(group), "", ""))
        return found

    def _meeting(self, group: Sequence[int]) -> str:
        """Draw the node of results of several branches. Returns its id."""
        item, made = self._item, self._made
        values = [item.address.value(k) for k in group]
        names = [self._result_name(k) for k in group]
        texts = [self._tips.value(item.eqn.outvars[k]) for k in group]
        tip = short.tooltip([values[0], *texts])
        if len(group) > 1:
            lines, marks = labels.bundle_lines(paths.shared_title(names), names), ("many",)
            self._drawing.borders.hidden[values[0]] = tuple(values)
        else:
            kind = self._tips.label_type(item.eqn.outvars[group[0]])
            lines, marks = [f"{names[0]} {kind}"], ()
        node = Node(values[0], values[0], "result", tuple(lines), tip, self._outer, marks)
        self._canvas.add(node, merging=len(group) > 1)
        along: dict[tuple[str, str], list[Origin]] = {}
        for k in group:
            for origin in made(k):
                tail = origin.tail.name if origin.tail and len(group) == 1 else ""
                along.setdefault((origin.node, tail), []).append(origin)
        for (source, tail), origins in along.items():
            tip = short.tooltip([origin.tooltip for origin in origins])
            tail = f"×{len(origins)}" if len(origins) > 1 else tail
            self._canvas.edge(source, values[0], tooltip=tip, tail=tail)
        return values[0]

    def _result_name(self, k: int) -> str:
        held = self._tips.held(self._item.address.value(k))
        return held or (f"out {k}" if len(self._item.eqn.outvars) > 1 else "out")

    def _made(self, k: int) -> list[Origin]:
        """The origins of a result: one for each jaxpr that makes it."""
        return [
            self._ends[block.address].outs[j]
            for block, nested in self._item.blocks
            for j, result in enumerate(nested.results)
            if result == k
        ]

    def _result(self, k: int) -> Origin:
        """The origin of a result. If branches meet there, it gets a node."""
        if k in self._bare_results:
            return Origin(operands_of(self._item.address), "", "")
        origins = self._made(k)
        return origins[0] if len(origins) == 1 else Origin(self._meeting([k]), "", "")


def _is_tagged(block: Block, i: int) -> bool:
    """Whether a tag takes an input."""
    graph = block.flow.graph
    used = graph.used.get(block.jaxpr.invars[i], ())
    return any(at < len(graph.eqns) and introspect.is_tag(graph.eqns[at]) for at in used)


def _shared_operands(blocks: Sequence[tuple[Block, introspect.Nested]]) -> list[list[int]]:
    """The numbers of the operands of all branches: those together that share a node in one."""
    groups: list[list[int]] = []
    for block, nested in blocks:
        for end in _closed(block.ins):
            found = {k for i in end.indices if (k := nested.operands[i]) is not None}
            touched = [group for group in groups if not found.isdisjoint(group)]
            if found:
                groups = [group for group in groups if group not in touched]
                groups.append(sorted(found.union(*touched)))
    return sorted(groups)


def _closed(ends: Sequence[BlockEnd]) -> Iterator[BlockEnd]:
    """Inputs that have a node each."""
    for end in ends:
        if end.open:
            yield from _closed(end.children)
        else:
            yield end


class _While(NamedTuple):
    """The two jaxprs of a loop with a condition.

    Attributes:
        condition: The address of the condition.
        body: The address of the body.
        shared: For the number of each input of the condition that the body has too, its number
            there: all of the state, and constants that both take.
    """

    condition: str
    body: str
    shared: Mapping[int, int]


def _while_of(
    eqn: introspect.JaxprEqn, blocks: Sequence[tuple[Block, introspect.Nested]]
) -> _While | None:
    """The two jaxprs of an equation that is a loop with a condition, or None."""
    bodies = [(block, nested) for block, nested in blocks if nested.back]
    others = [(block, nested) for block, nested in blocks if not nested.back]
    if len(bodies) != 1 or len(others) != 1:
        return None
    (body, looping), (condition, reads) = *bodies, *others
    carried = {i for _, i in looping.back}
    states: dict[int, int] = {}
    constants: dict[int, int] = {}  # by the identity of the operand
    for i, k in enumerate(looping.operands):
        if k is not None and i in carried:
            states[k] = i
        elif k is not None and not introspect.is_literal(eqn.invars[k]):
            constants[id(eqn.invars[k])] = i
    shared = {
        i: states[k] if k in states else constants[id(eqn.invars[k])]
        for i, k in enumerate(reads.operands)
        if k is not None and (k in states or id(eqn.invars[k]) in constants)
    }
    return _While(condition.address, body.address, shared)
