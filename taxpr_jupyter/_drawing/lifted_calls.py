"""Draw a call of a library as a frame: the user's functions that it runs, and the rest of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import INPUT
from taxpr_jupyter._drawing import backward
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.roles import SAME, Role
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.model import Cluster
from taxpr_jupyter._text import short, titles
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.tree import Block, Item, Level, Lifted


class DrawsItems(Protocol):
    """The part of `program.ProgramDrawing` that this needs."""

    canvas: Canvas
    tips: short.Tooltips

    def scope(self, block: Block) -> Scope:
        """The values of a jaxpr."""
        ...

    def item(self, scope: Scope, block: Block, item: Item, cluster: str | None) -> None:
        """Draw an equation or a group."""
        ...

    def items(self, scope: Scope, block: Block, items: Sequence[Item], cluster: str | None) -> None:
        """Draw several."""
        ...


class LiftedCalls:
    """Draws one call of a library.

    A function's operands come from outside where no loop changes them, else from the node of the
    rest. Its results go back there.
    """

    def __init__(
        self, drawing: DrawsItems, scope: Scope, block: Block, item: Item, cluster: str | None
    ) -> None:
        self._drawing, self._canvas = drawing, drawing.canvas
        self._scope, self._block, self._item, self._around = scope, block, item, cluster

    def draw(self) -> None:
        """Draw it."""
        item, lift = self._item, self._item.lift
        assert lift is not None
        title = titles.source_lines(lift.title) or [labels.hop_title(item.eqn)]
        frames = (one.lines for one in self._canvas.clusters if one.address == self._around)
        if item.is_group and any([*lines] == titles.frame_lines(lift.title) for lines in frames):
            title = [*labels.frame_lines(item)]  # a part of the call whose frame is around it
        tip = short.tooltip([item.address, *title])
        self._canvas.clusters.append(
            Cluster(
                lift.address,
                "group",
                tuple(title),
                tip,
                self._around,
                lift.address,
                titled=len(title),
            )
        )
        self._drawing.item(self._scope, self._block, item, lift.address)
        together: dict[int, list[Lifted]] = {}
        for call in lift.calls:
            together.setdefault(id(call.block), []).append(call)
        for calls in together.values():
            self._calls(calls, lift.address)

    def _calls(self, calls: Sequence[Lifted], cluster: str) -> None:
        """Draw calls that are in one jaxpr."""
        block, way, rest = calls[0].block, calls[0].way, self._item.address
        scope = self._drawing.scope(block)
        self._drawing.items(scope, block, [call.item for call in calls], cluster)
        inside = {id(eqn) for call in calls for _, eqn in call.item.eqns}
        graph = block.flow.graph
        for call in calls:
            ends = block.flow.ends(call.item.eqns, call.item.stop, ())
            for value, var in ends.outs:
                users = graph.used.get(var, ())
                if all(i < len(graph.eqns) and id(graph.eqns[i]) in inside for i in users):
                    continue
                scope.use(var, rest, rest, cluster, self._named(value))
        taken, scope.uses = scope.uses, []
        for use in taken:
            if use.atom not in scope.origins:
                outer = _outside(use.atom, way)
                if outer is not None and self._is_outside(outer):
                    self._scope.use(outer, use.node, use.item, use.cluster, use.head)
                    continue
                assert not introspect.is_literal(use.atom)
                value = _address(block, use.atom)
                shown = self._drawing.tips.value(use.atom)
                scope.define(use.atom, Origin(rest, value, shown), rest)
            origin = scope.origins[use.atom]
            head = self._named(origin.value) if origin.node == rest else None
            scope.uses.append(use._replace(head=use.head or head))
        self._canvas.connect(scope)
        backward.draw(self._canvas, scope)

    def _named(self, value: str) -> Role | None:
        name = self._drawing.tips.held(value)
        return Role("", name) if name else None

    def _is_outside(self, atom: introspect.Atom) -> bool:
        """Whether a value of the jaxpr of the call is made outside of the call."""
        if introspect.is_literal(atom):
            return True
        made, _ = self._block.flow.graph.made[atom]
        eqns = self._block.flow.graph.eqns
        return made < 0 or all(eqns[made] is not eqn for _, eqn in self._item.eqns)


def _outside(atom: Any, way: Sequence[Level]) -> introspect.Atom | None:
    """The value around all these equations that is the same inside, or None."""
    for level in reversed(way):
        block = level.block
        at, i = block.flow.graph.made[atom]
        if at != INPUT or level.nested.operands[i] is None:
            return None
        if level.nested.in_roles[i] not in SAME and not _stays(block, level.nested, i):
            return None
        atom = level.item.eqn.invars[level.nested.operands[i]]
        if introspect.is_literal(atom):
            return atom if level is way[0] else None
    return atom


def _stays(block: Block, nested: introspect.Nested, i: int) -> bool:
    """Whether a loop hands an input on as it is."""
    return nested.in_roles[i] == "carry" and any(
        to == i and block.jaxpr.outvars[j] is block.jaxpr.invars[i] for j, to in nested.back
    )


def _address(block: Block, atom: Any) -> taxpr.Address:
    """The address of a value that a jaxpr is given or makes."""
    at, k = block.flow.graph.made[atom]
    if at >= 0:
        local = next(name for name, i in block.flow.graph.positions.items() if i == at)
        return (block.address / local).value(k)
    return block.address / (f"in{k}" if at == INPUT else f"const{k}")
