"""Draw only the content of one folded place, with its neighbours.

A saved page has a picture of each folded place. To draw one takes time in proportion to the part,
not to the whole program.
"""

import bisect
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.folded import Folded
from taxpr_jupyter._drawing.program import ProgramDrawing
from taxpr_jupyter._drawing.scope import Origin, Scope, ValueUse
from taxpr_jupyter._model.kinds import EdgeKind
from taxpr_jupyter._model.model import Marked
from taxpr_jupyter._tree.fold import Fold
from taxpr_jupyter._tree.tree import Block, BlockEnd, Item

NOWHERE = Origin("", "", "")  # the origin of values that are not drawn


@dataclasses.dataclass(frozen=True)
class Touched:
    """The neighbours of a part in the jaxpr around it.

    Attributes:
        wanted: The variables that go into or out of the part; others in it may be among them.
        graph: The graph of the jaxpr.
        at: The positions of the equations that make or take one of these variables.
    """

    wanted: Collection[Any]
    graph: DefUse
    at: Sequence[int]

    def has(self, item: Item) -> bool:
        """Whether an item is the part, contains it, or is a neighbour."""
        ends = [item.eqns[0], item.eqns[-1]] if item.eqns else []
        ends += [tag.eqns[0] for tag in item.tags]
        positions = [self.graph.positions[address.local] for address, _ in ends]
        at = bisect.bisect_left(self.at, min(positions))
        return at < len(self.at) and self.at[at] <= max(positions)


class PartScope(Scope):
    """The values that go into or out of a part of a jaxpr."""

    def __init__(self, wanted: Collection[Any], inside: Collection[str], many: Collection[str]):
        super().__init__(_Origins())
        self._wanted = wanted
        self._inside = inside
        self._many = many

    def wants(self, var: introspect.Atom) -> bool:
        return var in self._wanted

    def use_all(self, uses: Sequence[ValueUse]) -> None:
        super().use_all([use for use in uses if self.wants(use.atom)])

    def define_all(self, origins: Mapping[Any, Origin]) -> None:
        super().define_all({var: one for var, one in origins.items() if self.wants(var)})

    def far_uses(self) -> set[int]:
        """Also uses of the node of a bundle of inputs, as only few of these are used here."""
        few = {
            index
            for index, (use, origin) in enumerate(zip(self.uses, self.sources, strict=True))
            if use.item in self._inside and origin.stub is not None and origin.node in self._many
        }
        return super().far_uses() | few

    def early_outs(self, bundles: Collection[str]) -> set[int]:
        """Also uses by the node of a bundle of outputs."""
        few = {
            index
            for (_, node, maker, _), uses in self.bundles.items()
            if node in bundles and maker in self._inside
            for index in uses
        }
        return super().early_outs(bundles) | few


class PartCanvas(Canvas):
    """A canvas that leaves out edges from values that are not drawn."""

    def connect(self, scope: Scope) -> None:
        scope.uses = [use for use in scope.uses if use.atom in scope.origins]
        super().connect(scope)

    def edge(self, source: str, target: str, kind: EdgeKind = "value", **more: Any) -> None:
        if source:
            super().edge(source, target, kind, **more)


class _Origins(dict[Any, Origin]):
    def __missing__(self, var: introspect.Var) -> Origin:
        return NOWHERE


class PartDrawing(ProgramDrawing):
    """Draws the open content of one address, and its neighbours in the jaxprs around it.

    Args:
        fold: The open nodes: only the part and the way to it.
        folded: Writes closed nodes.
        marked: The tags that look different.
        around: The neighbours in each jaxpr around the part, by its address.
        inside: The addresses of the items in the part.
    """

    def __init__(
        self,
        fold: Fold,
        folded: Folded,
        marked: Marked,
        around: Mapping[str, Touched],
        inside: Collection[str],
    ) -> None:
        super().__init__(fold, folded, marked)
        self._touched = around
        self._inside = inside

    def _canvas(self) -> Canvas:
        return PartCanvas()

    def scope(self, block: Block) -> Scope:
        touched, whole = self._touched.get(block.address), super().scope(block)
        if touched is None:
            return whole
        many = {end.address for end in _every(block.ends) if end.children}
        part = PartScope(touched.wanted, self._inside, many)
        part.words = whole.words
        return part

    def items(self, scope: Scope, block: Block, items: Sequence[Item], cluster: str | None) -> None:
        touched = self._touched.get(block.address)
        if touched is not None:
            items = [item for item in items if item.open or touched.has(item)]
        super().items(scope, block, items, cluster)


class Parts:
    """Draws parts of one program.

    Args:
        fold: The program as a tree. Its open nodes change.
        folded: Writes what is closed.
    """

    def __init__(self, fold: Fold, folded: Folded) -> None:
        self._fold = fold
        self._folded = folded

    def drawn(
        self,
        address: str,
        path: Collection[str],
        marked: Marked,
    ) -> ProgramDrawing | None:
        """The drawing of the open content of an address; None if it cannot be opened.

        ``path`` has the addresses to open in order to see its content, itself included.
        """
        self._fold.choose(path)
        way = _way(self._fold.root, address)
        if way is None or not _shows(way[-1][1]):
            return None
        drawing = PartDrawing(
            self._fold, self._folded, marked, self._around(way), _addresses_in(way[-1][1])
        )
        drawing.program(self._fold.root.jaxpr)
        return drawing

    def _around(self, way: Sequence[tuple[Block, Item | BlockEnd]]) -> dict[str, Touched]:
        found: dict[str, Touched] = {}
        in_ends = False  # whether the part before, one level deeper, was inputs or outputs
        for k, (block, part) in enumerate(reversed(way)):
            if isinstance(part, BlockEnd):
                wanted = _end_vars(block, part)
                in_ends = True
            elif k == 0 or in_ends or part.lifted:
                wanted = _vars(eqn for _, eqn in _eqns(part))
                in_ends = False
            else:
                wanted = dict.fromkeys(part.eqn.outvars)
            graph = block.flow.graph
            wanted = dict.fromkeys(var for one in wanted for var in graph.versions(one))
            found[block.address] = Touched(wanted, graph, graph.touching(wanted))
        return found


def _way(block: Block, address: str) -> list[tuple[Block, Item | BlockEnd]] | None:
    """The part at an address, after the open equations around it, each with its jaxpr."""
    end = next((e for e in _every(block.ends) if e.address == address), None)
    if end is not None:
        return [(block, end)]

    return _way_in(block, block.items, address)


def _way_in(
    block: Block, items: Sequence[Item], address: str
) -> list[tuple[Block, Item | BlockEnd]] | None:
    """The same, of some items of a jaxpr."""
    for item in items:
        if address in (item.address, item.lift and item.lift.address):
            return [(block, item)]
        for call in item.lifted:
            if below := _way_in(call.block, [call.item], address):
                return [(block, item), *below]
        if not item.open:
            continue
        found = _way_in(block, item.children, address)
        for inner, _ in item.blocks:
            below = None if found else _way(inner, address)
            found = [(block, item), *below] if below else found
        if found:
            return found
    return None


def _shows(part: Item | BlockEnd) -> bool:
    """Whether it is open, or calls are lifted out of it."""
    return part.open or (isinstance(part, Item) and bool(part.lifted))


def _every(ends: Sequence[BlockEnd]) -> Iterator[BlockEnd]:
    """Inputs, outputs or constants that have a node, and the open bundles around them."""
    for end in ends:
        yield end
        if end.open:
            yield from _every(end.children)


def _eqns(item: Item) -> Iterator[tuple[str, Any]]:
    yield from item.eqns
    for tag in item.tags:
        yield from tag.eqns


def _addresses_in(part: Item | BlockEnd) -> frozenset[str]:
    """A scope's addresses of the items of an open part."""
    if isinstance(part, BlockEnd):
        return frozenset()
    return frozenset(child.address for child in part.children) or frozenset([part.address])


def _vars(eqns: Any) -> dict[Any, None]:
    """The variables that some equations make or take."""
    return dict.fromkeys(
        atom
        for eqn in eqns
        for atom in (*eqn.invars, *eqn.outvars)
        if not introspect.is_literal(atom)
    )


def _end_vars(block: Block, end: BlockEnd) -> dict[Any, None]:
    jaxpr = block.jaxpr
    of_word = {"const": jaxpr.constvars, "in": jaxpr.invars, "out": jaxpr.outvars}
    ranges = [(of_word[end.word], end.indices)]
    if end.state:  # also has its final value as an output
        ranges += [(jaxpr.invars, end.state.ins), (jaxpr.outvars, end.state.outs)]
    atoms = [atoms[i] for atoms, indices in ranges for i in indices]
    return dict.fromkeys(atom for atom in atoms if not introspect.is_literal(atom))
