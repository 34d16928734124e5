"""Draw only the content of one folded place, with its neighbours.

A page has a picture of each folded place. This takes time in proportion to the part, not to the
whole program.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.graph import Graph
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.program import Drawing
from taxpr_jupyter._drawing.roles import Role
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.model import EdgeKind
from taxpr_jupyter._text.short import Tooltips
from taxpr_jupyter._tree.fold import Fold
from taxpr_jupyter._tree.tree import Block, End, Item

NOWHERE = Origin("", "", "")  # of what is not drawn


@dataclasses.dataclass(frozen=True)
class Touched:
    """The neighbours of a part in the jaxpr around it.

    Attributes:
        wanted: Values that go in or out, and others that do no harm.
        graph: Of the jaxpr.
        at: The positions of the equations that touch one of these values.
    """

    wanted: Collection[Any]
    graph: Graph
    at: Sequence[int]

    def has(self, item: Item) -> bool:
        """Whether an item is, holds, or is next to the part."""
        ends = [item.eqns[0], item.eqns[-1]] if item.eqns else []
        ends += [tag.eqns[0] for tag in item.tags]
        positions = [self.graph.positions[address.local] for address, _ in ends]
        at = bisect.bisect_left(self.at, min(positions))
        return at < len(self.at) and self.at[at] <= max(positions)


class PartScope(Scope):
    """The values of a jaxpr, as far as they have to do with a part of it."""

    def __init__(self, wanted: Collection[Any], inside: Collection[str], many: Collection[str]):
        super().__init__(_Origins())
        self._wanted = wanted
        self._inside = inside
        self._many = many

    def wants(self, var: Any) -> bool:
        return var in self._wanted

    def define(self, var: Any, origin: Origin, item: str = "") -> None:
        if var in self._wanted and origin.node:
            super().define(var, origin, item)

    def use(
        self,
        atom: Any,
        node: str,
        item: str,
        cluster: str | None,
        head: Role | None = None,
        name: str = "",
    ) -> None:
        if taxpr.is_literal(atom) or atom in self._wanted:
            super().use(atom, node, item, cluster, head, name)

    def far_uses(self) -> set[int]:
        """Also what comes from a node for many inputs, which says nothing of the few here."""
        few = {
            index
            for index, use in enumerate(self.uses)
            if use.item in self._inside
            and not taxpr.is_literal(use.atom)
            and self.origins[use.atom].stub is not None
            and self.origins[use.atom].node in self._many
        }
        return super().far_uses() | few

    def early_outs(self, bundles: Collection[str]) -> set[int]:
        """Also what goes to a node for many outputs."""
        few = {
            index
            for index, use in enumerate(self.uses)
            if use.node in bundles and self._made_by.get(use.atom) in self._inside
        }
        return super().early_outs(bundles) | few


class PartCanvas(Canvas):
    """Without the edges from what is not drawn."""

    def connect(self, scope: Scope) -> None:
        scope.uses = [u for u in scope.uses if taxpr.is_literal(u.atom) or u.atom in scope.origins]
        super().connect(scope)

    def edge(self, source: str, target: str, kind: EdgeKind = "value", **more: Any) -> None:
        if source:
            super().edge(source, target, kind, **more)


class _Origins(dict[Any, Origin]):
    def __missing__(self, var: Any) -> Origin:
        return NOWHERE


class PartDrawing(Drawing):
    """Draws what is open at one address, and of all around it what it touches.

    Args:
        fold: What is open: nothing but what leads there, and it.
        tooltips: Writes tooltips.
        injected: Addresses of tags that have an injector.
        added: Addresses of tags that were added interactively.
        around: For each jaxpr around the part what has to do with it.
        inside: The addresses of what the part consists of.
    """

    def __init__(
        self,
        fold: Fold,
        tooltips: Tooltips,
        injected: Collection[str],
        added: Collection[str],
        around: Mapping[str, Touched],
        inside: Collection[str],
    ) -> None:
        super().__init__(fold, tooltips, injected, added)
        self._touched = around
        self._inside = inside

    def _canvas(self) -> Canvas:
        return PartCanvas()

    def _scope(self, block: Block) -> Scope:
        touched = self._touched.get(block.address)
        if touched is None:
            return Scope()
        ends = (*block.ins, *block.outs)
        many = {end.address for end in _every(ends) if end.children}
        return PartScope(touched.wanted, self._inside, many)

    def _items(
        self, scope: Scope, block: Block, items: Sequence[Item], cluster: str | None
    ) -> None:
        touched = self._touched.get(block.address)
        if touched is not None:
            items = [item for item in items if item.open or touched.has(item)]
        super()._items(scope, block, items, cluster)


class Parts:
    """Draws parts of one program.

    Args:
        fold: The program as a tree. What is open in it changes.
        tooltips: Writes tooltips.
    """

    def __init__(self, fold: Fold, tooltips: Tooltips) -> None:
        self._fold = fold
        self._tips = tooltips

    def drawn(
        self,
        address: str,
        path: Collection[str],
        injected: Collection[str],
        added: Collection[str],
    ) -> Drawing | None:
        """The drawing of what is open at an address; None where it cannot be open.

        Args:
            address: Of an equation, a group, or inputs or outputs that share a node.
            path: What must be open to see it, itself included.
            injected: Addresses of tags that have an injector.
            added: Addresses of tags that were added interactively.
        """
        self._fold.choose(path)
        way = _way(self._fold.root, address)
        if way is None or not way[-1][1].open:
            return None
        drawing = PartDrawing(
            self._fold, self._tips, injected, added, self._around(way), _addresses_in(way[-1][1])
        )
        drawing.program(self._fold.root.jaxpr)
        return drawing

    def _around(self, way: Sequence[tuple[Block, Item | End]]) -> dict[str, Touched]:
        found: dict[str, Touched] = {}
        in_ends = False  # whether the part is made of inputs of the jaxpr that is looked at
        for k, (block, part) in enumerate(reversed(way)):
            if isinstance(part, End):
                wanted = _end_vars(block, part)
                in_ends = True
            elif k == 0 or in_ends:
                wanted = _vars(eqn for _, eqn in _eqns(part))
                in_ends = False
            else:
                wanted = dict.fromkeys(part.eqn.outvars)
            graph = block.flow.graph
            found[block.address] = Touched(wanted, graph, graph.touching(wanted))
        return found


def _way(block: Block, address: str) -> list[tuple[Block, Item | End]] | None:
    """The part with this address and the open equations around it, each with its jaxpr."""
    end = next((e for e in _every((*block.ins, *block.outs)) if e.address == address), None)
    if end is not None:
        return [(block, end)]

    def search(items: Sequence[Item]) -> list[tuple[Block, Item | End]] | None:
        for item in items:
            if item.address == address:
                return [(block, item)]
            if not item.open:
                continue
            found = search(item.children)
            for inner, _ in item.blocks:
                below = None if found else _way(inner, address)
                found = [(block, item), *below] if below else found
            if found:
                return found
        return None

    return search(block.items)


def _every(ends: Sequence[End]) -> Iterator[End]:
    """The ends that have a node, and those that they stand in."""
    for end in ends:
        yield end
        if end.open:
            yield from _every(end.children)


def _eqns(item: Item) -> Iterator[tuple[str, Any]]:
    yield from item.eqns
    for tag in item.tags:
        yield from tag.eqns


def _addresses_in(part: Item | End) -> frozenset[str]:
    """The users and makers of values in an open part, by the names of its scope."""
    if isinstance(part, End):
        return frozenset()
    return frozenset(child.address for child in part.children) or frozenset([part.address])


def _vars(eqns: Any) -> dict[Any, None]:
    """The variables that these make or use."""
    return dict.fromkeys(
        atom for eqn in eqns for atom in (*eqn.invars, *eqn.outvars) if not taxpr.is_literal(atom)
    )


def _end_vars(block: Block, end: End) -> dict[Any, None]:
    jaxpr, ranges = block.jaxpr, []
    ranges.append((jaxpr.invars if end.word == "in" else jaxpr.outvars, end.indices))
    if end.state:  # which is where its last value goes, too
        ranges += [(jaxpr.invars, end.state.ins), (jaxpr.outvars, end.state.outs)]
    atoms = [atoms[i] for atoms, indices in ranges for i in indices]
    return dict.fromkeys(atom for atom in atoms if not taxpr.is_literal(atom))
