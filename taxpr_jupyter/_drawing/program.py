"""Draw a program on a canvas.

Equations are nodes and values are edges. A jaxpr is drawn in two steps: first its nodes, which
register the origin of each value, then the edges to all uses. In between, open equations are drawn
in the same way, inside clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import taxpr
from taxpr_jupyter._drawing import backward, state_nodes
from taxpr_jupyter._drawing import roles as _roles
from taxpr_jupyter._drawing.borders import Borders
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.folded import Folded
from taxpr_jupyter._drawing.loops import shown_in_the_body, ways_to_others
from taxpr_jupyter._drawing.roles import Role
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.model import Cluster, Marked, Node, NodeKind
from taxpr_jupyter._text import short
from taxpr_jupyter._text.elements import operands_of
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.fold import Fold
from taxpr_jupyter._tree.tree import Block, Item


@dataclass(frozen=True)
class _Ends:
    """The ends of a drawn jaxpr.

    Attributes:
        first: The id of some node in it.
        ins: The id of each input's node.
        outs: The origin of each output.
    """

    first: str
    ins: Sequence[str]
    outs: Sequence[Origin]


class Drawing:
    """Draws a program, and counts its equations.

    Attributes:
        canvas: The elements of the picture.
        drawn: Addresses of the equations that have a node or a cluster.
        folded: The number of equations hidden in a node, by its address.
        unfolded: Open addresses.
        foldable: Addresses that are open or can be opened.
        hidden: The addresses of what a folded group stands for, by its address.
    """

    def __init__(
        self,
        fold: Fold,
        folded: Folded,
        marked: Marked,
    ):
        self.canvas = self._canvas()
        self.drawn: set[str] = set()
        self.folded: dict[str, int] = {}
        self.unfolded: set[str] = set()
        self.foldable: set[str] = set()
        self.hidden: dict[str, tuple[str, ...]] = {}
        self._fold = fold
        self._folded = folded
        self._tips = folded.tips
        self._borders = Borders(self.canvas, folded)
        self._marked = marked

    def _canvas(self) -> Canvas:
        return Canvas()

    # --- jaxprs -----------------------------------------------------------------------------------

    def program(self, program: taxpr.Program) -> None:
        """Draw the whole program."""
        root = self._fold.root
        own = [True] * len(program.out_names)
        box = state_nodes.around_function(self.canvas, root, program.name, self._fold.visible)
        self._jaxpr(root, own, program.consts, box, frozenset())
        self.unfolded |= self._borders.unfolded
        self.foldable |= self._borders.foldable
        self.hidden |= self._borders.hidden

    def _nested(self, block: Block, nested: taxpr.Nested, without: Set[int]) -> _Ends:
        """Draw a nested jaxpr in its cluster, without some inputs that nothing uses."""
        # An output that is carried, stacked or not returned has a node of its own. The results of a
        # call come straight from where they are made.
        own = [
            result is None or role != "out"
            for result, role in zip(nested.results, nested.out_roles, strict=True)
        ]
        ends = self._jaxpr(block, own, nested.consts, block.address, without)
        self.canvas.back(
            [ends.outs[j] for j, _ in nested.back], [ends.ins[i] for _, i in nested.back]
        )
        return ends

    def _jaxpr(
        self,
        block: Block,
        own_outs: Sequence[bool],
        consts: Sequence[Any],
        cluster: str | None,
        without: Set[int],
    ) -> _Ends:
        scope, start = self._scope(block), len(self.canvas.nodes)
        self._borders.consts(scope, block, consts, cluster)
        ins = self._borders.inputs(scope, block, cluster, without)
        self._items(scope, block, block.items, cluster)
        outs = self._borders.outputs(scope, block, own_outs, cluster)
        self.canvas.connect(scope)
        backward.draw(self.canvas, scope)
        if block.nested is None:
            state_nodes.draw_writes(self.canvas, self._tips, scope, block, ins)
        if len(self.canvas.nodes) == start:
            # Graphviz draws no cluster without a node, and no empty graph.
            address = block.address / "empty"
            self.canvas.add(Node(address, address, "empty", ("nothing",), "", cluster))
        return _Ends(self.canvas.nodes[start].id, ins, outs)

    def _scope(self, block: Block) -> Scope:
        del block  # `PartDrawing` has other scopes around the part
        return Scope()

    # --- equations --------------------------------------------------------------------------------

    def _items(
        self, scope: Scope, block: Block, items: Sequence[Item], cluster: str | None
    ) -> None:
        for item in items:
            at = len(self.canvas.nodes)
            if item.is_group:
                self._group(scope, block, item, cluster)
            elif item.open:
                self._open_eqn(scope, item, cluster)
            else:
                self._eqn(scope, block, item, cluster)
            if not item.open and block.flow.is_between(item.eqns):
                self.canvas.keeps_nothing(self.canvas.nodes[at].id)
            scope.turn += backward.nodes(scope, block, item, self.canvas.nodes[at].id)

    def _eqn(self, scope: Scope, block: Block, item: Item, cluster: str | None) -> None:
        """Draw an equation as one node: a tag, a first-order equation, or a folded one."""
        address, eqn = item.address, item.eqn
        self.drawn.add(address)
        kind: NodeKind = "eqn"
        marks, fold = (), None
        # A statement names its target itself.
        name = "" if item.title else self._tips.results(address, eqn)
        if taxpr.is_tag(eqn):
            kind = "injected" if address in self._marked.injected else "tag"
            marks = ("added",) if address in self._marked.added else ()
            lines = labels.tag_lines(eqn)
            lines += ["injected"] if kind == "injected" else []
        elif taxpr.is_hop(eqn):
            kind, fold = "hop", address
            inside = self._fold.sizes.inside(eqn)
            self.foldable.add(address)
            self.folded[address] = inside.total
            lines = labels.hop_lines(eqn, inside, item.title, name)
        else:
            lines = labels.eqn_lines(eqn, item.title, name)
            marks += ("plumbing",) if len(lines) == 1 and labels.is_plumbing(eqn) else ()
        tip = self._tips.eqn(address, eqn)
        marks += _marks(item)
        if failure := taxpr.failure_of(eqn):
            lines, marks = labels.failure_lines(failure), (*marks, "failed")
        titled, sign = labels.titled(lines, item.title), []
        if block.loss and block.loss.eqn is eqn:
            sign, tip = ["loss"], f"{tip}\n{backward.LOSS}"
        elif kind in ("eqn", "hop") and block.flow.is_unused(eqn):
            sign, tip = ["unused"], f"{tip}\nnothing uses what it makes"
        lines, marks = labels.signed(lines, titled, sign), (*marks, *sign)
        node = Node(address, address, kind, lines, tip, cluster, marks, fold, titled=titled)
        tagged = scope.tagged(eqn) if kind in ("tag", "injected") else []
        if tagged:
            self.canvas.add(replace(node, on=tagged[-1].node))
            for k, (atom, var) in enumerate(zip(eqn.invars, eqn.outvars, strict=True)):
                shown, name = self._tips.value(var), tagged[k].name
                shown = f"{name} = {shown}" if name else shown
                made = tagged[k].made or tagged[k].value
                origin = tagged[k]._replace(value=address.value(k), tooltip=shown, made=made)
                scope.hand_on(atom, var, origin)
            return
        # All values from one node to a folded equation share an edge.
        self.canvas.add(node, merging=kind == "hop")
        heads = _heads(eqn, kind == "hop")
        for k, atom in enumerate(eqn.invars):
            if kind == "eqn" and taxpr.is_literal(atom):
                continue  # it stands in the label
            scope.use(atom, address, address, cluster, heads[k])
        tails = _roles.result_roles(eqn) if kind == "hop" and len(eqn.outvars) > 1 else []
        origins = [Origin(address, "", "", tail) for tail in tails]
        self._results(scope, item, origins or [Origin(address, "", "")] * len(eqn.outvars))

    def _results(self, scope: Scope, item: Item, origins: Sequence[Origin]) -> None:
        """Register the origins of an equation's results, numbered if they share a node."""
        sharing = Counter(origin.node for origin in origins)
        for k, (origin, var) in enumerate(zip(origins, item.eqn.outvars, strict=True)):
            tail = origin.tail or (Role("", str(k)) if sharing[origin.node] > 1 else None)
            value, tip = item.address.value(k), self._tips.value(var)
            scope.define(var, Origin(origin.node, value, tip, tail), item.address)

    def _group(self, scope: Scope, block: Block, item: Item, cluster: str | None) -> None:
        """Draw a group of equations, as one node or as a cluster."""
        address = item.address
        self.foldable.add(address)
        size = self._fold.of_item(item)
        marks = _marks(item)
        if item.open:
            self.unfolded.add(address)
            title = labels.group_title(item)
            tip = short.tooltip([address, title, labels.content(size)])
            self.canvas.clusters.append(
                Cluster(address, "group", (title,), tip, cluster, address, marks, item.pair)
            )
            self._items(scope, block, item.children, address)
            return
        self.folded[address] = size.total
        self.hidden[address] = self._fold.addresses(item)
        ends = block.flow.ends(item.eqns, item.stop, [tag.eqn for tag in item.tags])
        lines, tip, outs = self._folded.group(item, size, ends)
        node = Node(
            *(address, address, "group", lines, tip, cluster, marks, address, item.pair),
            titled=labels.titled(lines, item.title),
        )
        self.canvas.add(node, merging=True)
        tagged = {
            var: atom
            for tag in item.tags
            for atom, var in zip(tag.eqn.invars, tag.eqn.outvars, strict=True)
        }
        for atom in filter(scope.wants, ends.ins):
            before = atom
            while before in tagged and not taxpr.is_literal(tagged[before]):
                before = tagged[before]
            if before not in outs:
                scope.use(atom, address, address, cluster)
        for var, origin in outs.items():
            scope.define(var, origin, address)
        self._items(scope, block, item.tags, cluster)

    # --- open equations ---------------------------------------------------------------------------

    def _open_eqn(self, scope: Scope, item: Item, cluster: str | None) -> None:
        """Draw an equation as clusters: one for each nested jaxpr, and one around them.

        The outer one is left out if it would only hold one cluster.
        """
        address, eqn = item.address, item.eqn
        self.drawn.add(address)
        self.unfolded.add(address)
        self.foldable.add(address)
        tip = self._tips.eqn(address, eqn)
        entered = {k for _, nested in item.blocks for k in nested.operands}
        returned = {k for _, nested in item.blocks for k in nested.results}
        bare_operands = [k for k in range(len(eqn.invars)) if k not in entered]
        bare_results = [k for k in range(len(eqn.outvars)) if k not in returned]
        bare = bool(bare_operands or bare_results)
        failure = taxpr.failure_of(eqn)
        ended = ("failed",) if failure else ("unfinished",) if taxpr.is_unfinished(eqn) else ()
        outer = cluster
        if bare or len(item.blocks) > 1:
            outer = address
            title = labels.open_title(eqn, item.title)
            titled = labels.titled(title, item.title)
            self.canvas.clusters.append(
                Cluster(address, "hop", title, tip, cluster, address, ended, titled=titled)
            )
        made: list[list[Origin]] = [[] for _ in eqn.outvars]
        ends: dict[str, _Ends] = {}
        decides: list[str] = []
        again = {block.address: shown_in_the_body(block, item.blocks) for block, _ in item.blocks}
        if bare:
            node = self._bare(scope, item, bare_operands, bool(bare_results), outer)
            for k in bare_results:
                made[k].append(Origin(node.id, "", ""))
            decides += [node.id] if "choice" in node.marks else []
        for block, nested in item.blocks:
            title = tuple(labels.block_lines(nested))
            if item.title and outer == cluster:
                title = (*labels.source_lines(item.title), *title)
                title = (*labels.failure_lines(failure), *title[-1:]) if failure else title
            titled = labels.titled(title, item.title)
            self.canvas.clusters.append(
                Cluster(block.address, "jaxpr", title, tip, outer, address, ended, titled=titled)
            )
            drawn = ends[block.address] = self._nested(block, nested, {*again[block.address]})
            inner = {*filter(None, drawn.ins), *(origin.node for origin in drawn.outs)}
            self.canvas.belongs(inner, bool(_marks(item)))
            for i, k in enumerate(nested.operands):
                if k is not None and drawn.ins[i]:
                    scope.use(eqn.invars[k], drawn.ins[i], address, cluster)
            for j, k in enumerate(nested.results):
                if k is not None:
                    made[k].append(drawn.outs[j])
            for i, (k, role) in enumerate(zip(nested.operands, nested.in_roles, strict=True)):
                if role == "ref" and k in bare_results:  # its last value has its number
                    tip = "the last value of the Ref"
                    self.canvas.edge(drawn.ins[i], operands_of(address), tooltip=tip, head=str(k))
            outs = zip(drawn.outs, nested.out_roles, strict=True)
            decides += [origin.node for origin, role in outs if role == "predicate"]
        for block, _ in item.blocks:
            for i, (body, number) in again[block.address].items():
                node, hidden = ends[body].ins[number], self._borders.hidden
                if not ends[block.address].ins[i]:
                    hidden[node] = (*hidden.get(node, (node,)), block.address / f"in{i}")
        for way in ways_to_others(item.blocks):
            self.canvas.back([ends[way.source].outs[way.out]], [ends[way.target].ins[way.into]])
        for source in decides:
            for block_address, drawn in ends.items():
                if not taxpr.Address(source).is_in(block_address):
                    self.canvas.edge(source, drawn.first, "control", into=block_address)
        origins = [self._met(item, k, made[k], outer) for k in range(len(eqn.outvars))]
        self._results(scope, item, origins)

    def _bare(
        self,
        scope: Scope,
        item: Item,
        operands: Sequence[int],
        returns: bool,
        cluster: str | None,
    ) -> Node:
        """Draw a node for operands and results of an open equation that no nested jaxpr has.

        Such as the index of a cond, which chooses a branch, or all operands of a scatter.
        """
        address, eqn = item.address, item.eqn
        chooses = len(item.blocks) > 1 and not returns
        lines = ("which?",) if chooses else tuple(labels.eqn_lines(eqn))
        marks = ("choice",) if chooses else ()
        tip = self._tips.eqn(address, eqn)
        name = operands_of(address)
        node = self.canvas.add(Node(name, address, "eqn", lines, tip, cluster, marks))
        for k in operands:
            if not chooses and taxpr.is_literal(eqn.invars[k]):
                continue  # it stands in the label
            head = Role("", str(k)) if len(operands) > 1 else None
            scope.use(eqn.invars[k], node.id, address, cluster, head)
        return node

    def _met(self, item: Item, k: int, origins: Sequence[Origin], cluster: str | None) -> Origin:
        """The origin of an open equation's result. If branches meet there, it gets a node."""
        if len(origins) == 1:
            return origins[0]
        aval = short.aval_text(item.eqn.outvars[k].aval)
        name = f"out {k}" if len(item.eqn.outvars) > 1 else "out"
        address = item.address.value(k)
        tip = short.tooltip([address, self._tips.value(item.eqn.outvars[k])])
        self.canvas.add(Node(address, address, "result", (f"{name} {aval}",), tip, cluster))
        for origin in origins:
            tail = origin.tail.name if origin.tail else ""
            self.canvas.edge(origin.node, address, tooltip=origin.tooltip, tail=tail)
        return Origin(address, "", "")


def _heads(eqn: Any, is_hop: bool) -> Sequence[Role | None]:
    """The texts at the ends of the edges to an equation's operands."""
    if not is_hop:
        ordered = labels.ordered(eqn)
        return [Role("", str(k)) if ordered else None for k in range(len(eqn.invars))]
    roles = _roles.operand_roles(eqn)
    # The only operand of a call needs no name.
    return [None] if len(roles) == 1 and roles[0].kind in ("", "arg") else roles


def _marks(item: Item) -> tuple[str, ...]:
    """The marks of an item in the backward pass, or of one that stands for what is left out."""
    if item.kind == "rest":
        return ("rest",)
    return ("backward",) if item.is_backward else ()
