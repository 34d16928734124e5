"""Draw a program on a canvas.

Equations are nodes and values are edges. A jaxpr is drawn in two steps: first its nodes, which
register the origin of each value, then the edges to all uses. In between, open equations are drawn
in the same way, inside clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jax.extend.core.primitives import cond_p

import taxpr
from taxpr import introspect
from taxpr_jupyter._closed.branches import NAMELESS, Called
from taxpr_jupyter._drawing import backward, state_nodes
from taxpr_jupyter._drawing import roles as _roles
from taxpr_jupyter._drawing.borders import SEEN, Borders, DrawnEnds, DrawnInputs, Then
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.folded import Folded, Lists
from taxpr_jupyter._drawing.lifted_calls import LiftedCalls
from taxpr_jupyter._drawing.opened import Opened
from taxpr_jupyter._drawing.roles import Role
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.kinds import NodeKind
from taxpr_jupyter._model.model import Cluster, Marked, Node, count_of
from taxpr_jupyter._text import short, titles
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.source_frames import SourceFrame
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.fold import Fold
from taxpr_jupyter._tree.tree import Block, Item, own_outputs

_UNUSED = "nothing uses what it makes"


class ProgramDrawing:
    """Draws a program, and counts its equations.

    Attributes:
        canvas: The elements of the picture.
        tips: Writes tooltips.
        borders: Draws inputs and outputs.
        drawn: Addresses of the equations that have a node or a cluster.
        folded: The number of equations hidden in a node, by its address.
        unfolded: Open addresses.
        foldable: Addresses that are open or can be opened.
        hidden: The addresses of the contents of a folded group, by its address.
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
        self._lists = Lists()
        self.tips = folded.tips
        self.borders = Borders(self.canvas, folded)
        self._marked = marked

    def _canvas(self) -> Canvas:
        return Canvas()

    # --- jaxprs -----------------------------------------------------------------------------------

    def program(self, program: taxpr.Program) -> None:
        """Draw the whole program."""
        root = self._fold.root
        own = [True] * len(program.out_names)
        box = state_nodes.around_function(self.canvas, root, program.name, self._fold.visible)
        self._jaxpr(root, own, program.consts, box)
        self.unfolded |= self.borders.unfolded
        self.foldable |= self.borders.foldable
        self.hidden |= self.borders.hidden

    def nested(
        self, block: Block, nested: introspect.Nested, seen: DrawnInputs, then: Then | None
    ) -> DrawnEnds:
        """Draw a nested jaxpr in its cluster."""
        ends = self._jaxpr(block, own_outputs(nested), nested.consts, block.address, seen, then)
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
        seen: DrawnInputs = SEEN,
        then: Then | None = None,
    ) -> DrawnEnds:
        scope, start = self.scope(block), len(self.canvas.nodes)
        self.borders.consts(scope, block, consts, cluster)
        ins = self.borders.inputs(scope, block, cluster, seen)
        if then:
            then(scope, ins)
        self.items(scope, block, block.items, cluster)
        outs = self.borders.outputs(scope, block, own_outs, cluster)
        self.canvas.connect(scope)
        backward.draw(self.canvas, scope)
        if block.nested is None:
            state_nodes.draw_writes(self.canvas, self.tips, scope, block, ins)
        if len(self.canvas.nodes) == start:
            # Graphviz draws no cluster without a node, and no empty graph.
            address = block.address / "empty"
            self.canvas.add(Node(address, address, "empty", ("nothing",), "", cluster))
        return DrawnEnds(self.canvas.nodes[start].id, ins, outs)

    def scope(self, block: Block) -> Scope:
        """The values of a jaxpr."""
        words, scope = self._folded.words(block), Scope()

        def at(cluster: str | None) -> SourceFrame | None:
            group = scope.groups.get(cluster)
            return self._folded.frame(group) if group else None

        scope.words = lambda var, cluster: words.of(var, at(cluster))
        scope.held = lambda var, cluster: words.held_in(var, at(cluster))
        scope.typed = self.tips.label_type
        return scope

    # --- equations --------------------------------------------------------------------------------

    def items(self, scope: Scope, block: Block, items: Sequence[Item], cluster: str | None) -> None:
        """Draw equations and groups."""
        for item in items:
            if all(_is_left_over(eqn) for _, eqn in item.eqns):
                self.drawn |= {address for address, _ in item.eqns}
                continue
            at = len(self.canvas.nodes)
            if item.lift:
                self.foldable.add(item.lift.address)
                self.unfolded |= {item.lift.address} if item.lift.open else set()
            if item.lifted:
                LiftedCalls(self, scope, block, item, cluster).draw()
            else:
                self.item(scope, block, item, cluster)
            if not item.open and block.flow.is_between(item.eqns):
                self.canvas.keeps_nothing(self.canvas.nodes[at].id)
            scope.turn += backward.nodes(scope, block, item, self.canvas.nodes[at].id)

    def item(self, scope: Scope, block: Block, item: Item, cluster: str | None) -> None:
        """Draw an equation or a group, open or closed, without the calls lifted out of it."""
        if item.is_group:
            self._group(scope, block, item, cluster)
        elif item.open:
            Opened(self, scope, item, cluster).draw()
        else:
            self._eqn(scope, block, item, cluster)

    def _eqn(self, scope: Scope, block: Block, item: Item, cluster: str | None) -> None:
        """Draw an equation as one node: a tag, a first-order equation, or a folded one."""
        address, eqn = item.address, item.eqn
        self.drawn.add(address)
        kind: NodeKind = "eqn"
        marks, fold = (), None
        name = self.tips.results(address, eqn)
        if item.title and not (len(eqn.outvars) == 1 and _is_part(name, item.title)):
            name = ""  # a statement names its target itself
        if introspect.is_tag(eqn):
            kind = "injected" if address in self._marked.injected else "tag"
            marks = ("added",) if address in self._marked.added else ()
            lines = labels.tag_lines(eqn, self.tips.label_type)
            lines += ["injected"] if kind == "injected" else []
        elif introspect.is_hop(eqn):
            kind, fold = "hop", item.opens
            inside = self._fold.sizes.inside(eqn).without(self._fold.lifted(item))
            self.foldable.add(address)
            self.folded[address] = inside.total
            typed = self.tips.label_type
            said = self._folded.inside(block, item)
            named = self._called(scope, item, cluster) if eqn.primitive is cond_p else NAMELESS
            lines = labels.hop_lines(eqn, inside, typed, item.title, name, item.rest, said, named)
            lines = self._lists.once(item, lines, cluster)
        else:
            lines = labels.eqn_lines(eqn, item.title, name, self.tips.label_type)
            marks += ("plumbing",) if len(lines) == 1 and labels.is_plumbing(eqn) else ()
        tip = self.tips.eqn(address, eqn)
        marks += marks_of(item)
        if failure := introspect.failure_of(eqn):
            lines, marks = labels.failure_lines(failure), (*marks, "failed")
        titled, sign = titles.titled(lines, item.title), []
        if block.loss and block.loss.eqn is eqn:
            sign, tip = ["loss"], f"{tip}\n{backward.LOSS}"
        if block.flow.is_unused([eqn]):
            sign, tip = [*sign, "unused"], f"{tip}\n{_UNUSED}"
        notes = [item.note] if item.note else []
        lines, marks = titles.signed(lines, titled, [*sign, *notes]), (*marks, *sign)
        node = Node(address, address, kind, lines, tip, cluster, marks, fold, titled=titled)
        tagged = scope.tagged(eqn) if kind in ("tag", "injected") else []
        if tagged:
            self.canvas.add(replace(node, on=tagged[-1].node))
            for k, var in enumerate(eqn.outvars):
                shown, name = self.tips.value(var), tagged[k].name
                shown = f"{name} = {shown}" if name else shown
                made = tagged[k].made or tagged[k].value
                origin = tagged[k]._replace(value=address.value(k), tooltip=shown, made=made)
                scope.define(var, origin, origin.by)  # what makes the value
            return
        # All values from one node to a folded equation share an edge.
        self.canvas.add(node, merging=kind == "hop")
        heads = _heads(eqn, self._fold.names_in(item) if kind == "hop" else None)
        for k, atom in enumerate(eqn.invars):
            if kind == "eqn" and introspect.is_literal(atom):
                continue  # it stands in the label
            scope.use(atom, address, address, cluster, heads[k])
        tails = _roles.result_roles(eqn) if kind == "hop" and len(eqn.outvars) > 1 else []
        origins = [Origin(address, "", "", tail) for tail in tails]
        self.results(scope, item, origins or [Origin(address, "", "")] * len(eqn.outvars))

    def _called(self, scope: Scope, item: Item, cluster: str | None) -> Called:
        """The names of the operands and results of a conditional."""
        values = map(item.address.value, range(len(item.eqn.outvars)))
        operands = (scope.called(atom, item.address, cluster) for atom in item.eqn.invars)
        return Called([*operands], [*map(self.tips.held, values)])

    def results(self, scope: Scope, item: Item, origins: Sequence[Origin]) -> None:
        """Register the origins of an equation's results, numbered if they share a node."""
        sharing = Counter(origin.node for origin in origins)
        for k, (origin, var) in enumerate(zip(origins, item.eqn.outvars, strict=True)):
            tail = origin.tail or (Role("", str(k)) if sharing[origin.node] > 1 else None)
            value, tip = item.address.value(k), self.tips.value(var)
            self.canvas.hands(origin.value, value)
            made = Origin(origin.node, value, tip, tail, inside=origin.inside)
            scope.define(var, made, item.address)

    def _group(self, scope: Scope, block: Block, item: Item, cluster: str | None) -> None:
        """Draw a group of equations, as one node or as a cluster."""
        address = item.address
        self.foldable.add(address)
        size = self._fold.of_item(item).without(self._fold.lifted(item))
        marks = marks_of(item)
        if item.open:
            self.unfolded.add(address)
            title = labels.frame_lines(item)
            tip = short.tooltip([address, *title, labels.content(size)])
            frame = Cluster(address, "group", title, tip, cluster, address, marks, item.forward)
            self.canvas.clusters.append(replace(frame, titled=len(title)))
            scope.groups[address] = item
            self.items(scope, block, item.children, address)
            return
        self.folded[address] = size.total
        self.hidden[address] = self._fold.addresses(item)
        ends = block.flow.ends(item.eqns, item.stop, [tag.eqn for tag in item.tags])
        lines, tip, outs = self._folded.group(block, item, size, ends)
        lines = tuple(self._lists.once(item, lines, cluster))
        titled = titles.titled(lines, item.title)
        if block.flow.is_unused(eqn for _, eqn in item.eqns):
            if all(labels.fills(eqn) for _, eqn in item.eqns):  # which JAX has left over
                lines, titled, marks = (count_of(size.total, "constant"),), 1, (*marks, "plumbing")
            lines, marks = titles.signed(lines, titled, ["unused"]), (*marks, "unused")
            tip = f"{tip}\n{_UNUSED}"
        node = Node(
            *(address, address, "group", lines, tip, cluster, marks, item.opens, item.forward),
            titled=titled,
        )
        self.canvas.add(node, merging=True)
        scope.use_all(self._folded.uses(item, ends.ins, outs, cluster))
        scope.define_all(outs)
        self.items(scope, block, item.tags, cluster)


def _heads(
    eqn: introspect.JaxprEqn, inside: Sequence[Sequence[str]] | None
) -> Sequence[Role | None]:
    """The texts at the ends of the edges to an equation's operands.

    Args:
        eqn: The equation.
        inside: The names of the inputs of its nested jaxprs; None of an equation without any.
    """
    if inside is None:
        ordered = labels.ordered(eqn)
        return [Role("", str(k)) if ordered else None for k in range(len(eqn.invars))]
    roles = _roles.operand_roles(eqn, inside)
    # The only operand of a call needs no name.
    return [None] if len(roles) == 1 and roles[0].kind in ("", "arg") else roles


def _is_part(name: str, title: str) -> bool:
    """Whether a name is a part of a variable, such as `grads['b']`, which a title does not say."""
    return len(path_parts(name)) > 1 and name.replace('"', "'") not in title.replace('"', "'")


def _is_left_over(eqn: introspect.JaxprEqn) -> bool:
    """Whether an equation takes, makes and does nothing: a call whose content JAX has moved out."""
    ends = (*eqn.invars, *eqn.outvars, *eqn.effects)
    inside = introspect.nested_jaxprs(eqn)
    return not ends and bool(inside) and not any(nested.jaxpr.eqns for nested in inside)


def marks_of(item: Item) -> tuple[str, ...]:
    """The marks of an item in the backward pass, or of an item for left-out parts."""
    if item.kind == "rest":
        return ("rest",)
    return ("backward",) if item.is_backward else ()
