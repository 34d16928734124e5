"""`Builder`: make a `Picture` of a program, whole or in part."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._drawing.annotate import Annotator, Facts
from taxpr_jupyter._drawing.compared_side import ComparedSide
from taxpr_jupyter._drawing.folded import Folded
from taxpr_jupyter._drawing.program import ProgramDrawing
from taxpr_jupyter._drawing.subgraph import Parts
from taxpr_jupyter._heat.measured import Colours
from taxpr_jupyter._lines.line import ProgramLine, ProgramLines
from taxpr_jupyter._model.kinds import COMPUTING
from taxpr_jupyter._model.model import UNMARKED, Counts, Marked, Node, Picture
from taxpr_jupyter._text.short import Tooltips, Where, file_and_line, visible
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tree.alike import alike
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.fold import BUDGET, MORE_THAN, Fold
from taxpr_jupyter._tree.reveal import Revealed, path_to, reveal
from taxpr_jupyter._tree.tree import Item, room_of_ends


class Builder:
    """Draws one program, as often as its folding changes. Facts about the program are cached.

    Args:
        program: The program.
        budget: About how many nodes to show. Code too long for it is cut into groups, so the
            addresses of groups depend on it.
        where: Writes the source lines in tooltips; the default writes file and line.
        divided: How values are divided among devices, as far as that is known.
        types: Whether labels have the types of values.
        letters: Gives `introspect.var_names` of the program, if somebody keeps them.
    """

    def __init__(
        self,
        program: taxpr.Program,
        budget: int = BUDGET,
        where: Where | None = None,
        divided: introspect.Divisions | None = None,
        types: bool = True,
        letters: Callable[[], Mapping[Any, str]] | None = None,
    ) -> None:
        self.program = program
        self._types = types
        self._letters = letters
        self.divided = divided or introspect.divisions(program)
        self.budget = budget
        self.where: Where = where or file_and_line
        self._keys = Keys()
        self._facts = Facts(self._keys)
        self._folds: dict[Only | None, Fold] = {}
        self._parts: tuple[Fold, Parts] | None = None  # for the last fold in use
        # By focus and open addresses: the `extra` that a drawing needed, see `_within`.
        self._extras: dict[tuple[Only | None, frozenset[str] | None], int] = {}
        self._lock = threading.RLock()  # a drawing changes what is open in the tree

    def draws(
        self, program: taxpr.Program, budget: int, where: Where, divided: introspect.Divisions
    ) -> bool:
        """Whether it draws what a new builder with these arguments would."""
        same = self.program is program and self.budget == budget and self.where is where
        return same and self._types and self.divided.by_address == divided.by_address

    @functools.cached_property
    def _folded(self) -> Folded:
        held = HeldVariables(self.program)
        letters = self._letters() if self._letters else introspect.var_names(self.program)
        tips = Tooltips(letters, self.where, held.name, self.divided, self._types)
        return Folded(tips, held)

    def picture(
        self,
        unfolded: Collection[str] | None = None,
        marked: Marked = UNMARKED,
        heat: Colours = None,
        compared: ComparedSide | None = None,
        only: Only | None = None,
    ) -> Picture:
        """The picture: equal for equal programs, in every process.

        Args:
            unfolded: Addresses of the equations and groups that are open; None opens the most
                important ones, as far as the budget goes.
            marked: The tags that look different.
            heat: The quantity that colours nodes: a cost or measured numbers; None for their kind.
            compared: A comparison with another program, to open and mark the differences.
            only: The part to draw, with the rest of each row folded; None for everything.
        """
        with self._lock, without_collection():
            fold = self._fold(only)
            if compared:
                drawing, _ = self._within(fold, unfolded, marked, compared.wants)
                return compared.marked(self._finished(fold, drawing, unfolded, heat), fold.root)
            key = only, None if unfolded is None else frozenset(unfolded)
            extra = self._extras.get(key, 0)
            drawing, self._extras[key] = self._within(fold, unfolded, marked, extra=extra)
            return self._finished(fold, drawing, unfolded, heat)

    def part(
        self,
        address: str,
        path: Collection[str],
        marked: Marked = UNMARKED,
        heat: Colours = None,
        only: Only | None = None,
    ) -> Picture | None:
        """Draw the open content of an address and its neighbours, but not the whole program.

        The picture may have more than the neighbours. Its counts have no meaning.

        Args:
            address: The address of an equation, a group, or inputs or outputs that share a node.
            path: The addresses to open in order to see its content, itself included.
            marked: The tags that look different.
            heat: As for `picture`; the hottest node is in this part.
            only: As for `picture`.

        Returns:
            The picture; None if the part is too large to be drawn open.
        """
        with self._lock, without_collection():
            fold = self._fold(only)
            if self._parts is None or self._parts[0] is not fold:
                self._parts = fold, Parts(fold, self._folded)
            drawing = self._parts[1].drawn(address, path, marked)
            if drawing is None or len(drawing.canvas.nodes) > fold.limit(path):
                return None
            return self._pictured(fold, drawing, Counts(0, drawing.folded, 0, 0), heat)

    def _within(
        self,
        fold: Fold,
        unfolded: Collection[str] | None,
        marked: Marked,
        wants: Callable[[Item], bool] | None = None,
        extra: int = 0,
    ) -> tuple[ProgramDrawing, int]:
        """Draw no more nodes than the limit, stubs included.

        Returns:
            The drawing, and the `extra` that makes `Fold.choose` open the same again.
        """
        while True:
            fold.choose(unfolded, wants, extra)
            drawing = ProgramDrawing(fold, self._folded, marked)
            drawing.program(self.program)
            nodes = _room(drawing.canvas.nodes)
            if nodes <= fold.most or not fold.opens_items:
                return drawing, extra
            # Folding also removes stubs: about as large a part of them as of the others.
            fitting = round((fold.visible - extra) * fold.most / nodes)
            extra = max(extra + 1, int(fold.most) - fitting)

    def _finished(
        self,
        fold: Fold,
        drawing: ProgramDrawing,
        unfolded: Collection[str] | None,
        heat: Colours,
    ) -> Picture:
        size = fold.sizes.of_jaxpr(self.program)
        counts = Counts(len(drawing.drawn), drawing.folded, size.total, size.tags)
        assert counts.drawn + sum(counts.folded.values()) == counts.total, counts
        picture = self._pictured(fold, drawing, counts, heat)
        note, nodes = fold.note, sum(not node.on for node in picture.nodes)
        if unfolded is not None and _room(picture.nodes) > self.budget and not note:
            note = MORE_THAN.format(nodes=nodes, budget=self.budget)
        return replace(picture, note=note, hidden=drawing.hidden)

    def _pictured(
        self, fold: Fold, drawing: ProgramDrawing, counts: Counts, heat: Colours
    ) -> Picture:
        annotator = Annotator(fold.root, self._facts, heat, drawing.hidden)
        clusters = annotator.clusters(drawing.canvas.clusters)
        nodes, scale = annotator.nodes(drawing.canvas.finished_nodes())
        return Picture(
            name=visible(self.program.name),
            nodes=nodes,
            edges=tuple(drawing.canvas.finished_edges()),
            clusters=clusters,
            counts=counts,
            unfolded=frozenset(drawing.unfolded),
            foldable=frozenset(drawing.foldable),
            heat=scale,
        )

    def lines(
        self,
        unfolded: Collection[str] | None = None,
        marked: Marked = UNMARKED,
        only: Only | None = None,
    ) -> list[ProgramLine]:
        """The lines of `picture`; the arguments are the same."""
        with self._lock:
            fold = self._fold(only)
            fold.choose(unfolded, extra=self._extra(unfolded, only))
            lines = ProgramLines(self._folded.tips, fold, marked)
            return list(lines.folded(fold.root, self.program))

    def path_to(self, address: str, only: Only | None = None) -> list[str]:
        """The addresses to open so that an address is in the picture, outermost first.

        Raises:
            PanelError: There is no such address.
        """
        with self._lock:
            return [part.address for part in path_to(self._fold(only), address)]

    def whole(self, addresses: Sequence[str], only: Only | None = None) -> str:
        """The outermost group around the first of some equations that has no others, or that one.

        Raises:
            PanelError: There is no such equation.
        """
        with self._lock:
            way = path_to(self._fold(only), addresses[0])
        items = (one for one in way if isinstance(one, Item) and one.is_group)
        inside = (one for one in items if all(at in addresses for at, _ in one.eqns))
        return next((one.address for one in inside), addresses[0])

    def reveal(
        self,
        address: str,
        unfolded: Collection[str] | None,
        by_hand: Collection[str] = frozenset(),
        only: Only | None = None,
    ) -> Revealed:
        """The addresses to unfold, and to fold instead, so that an address is in the picture.

        Args:
            address: The address.
            unfolded: The open addresses.
            by_hand: Addresses that the user opened, which stay open.
            only: As for `picture`.

        Raises:
            PanelError: There is no such address, or no room for it.
        """
        with self._lock:
            extra = self._extra(unfolded, only)
            return reveal(self._fold(only), address, unfolded, by_hand, extra)

    def alike(self, after: Builder, opened: Collection[str]) -> dict[str, str]:
        """Addresses that are open in these pictures, each with its partner in another builder's.

        Args:
            after: The builder of the program as it is after a change.
            opened: The open addresses.
        """
        with self._lock:
            before = self._fold(None)
            before.choose(opened)
        with after._lock:
            there = after._fold(None)
            return alike(before.root, there.root, opened, there.look_into)

    def _extra(self, unfolded: Collection[str] | None, only: Only | None) -> int:
        """The `extra` that makes `Fold.choose` open the content of `picture`."""
        key = only, None if unfolded is None else frozenset(unfolded)
        if key not in self._extras:
            self.picture(unfolded, only=only)
        return self._extras[key]

    def _fold(self, only: Only | None) -> Fold:
        if only not in self._folds:  # keep the one of the whole program, and the last other one
            whole = {key: fold for key, fold in self._folds.items() if key is None}
            self._folds = {**whole, only: Fold(self.program, self.budget, self._keys, only)}
        return self._folds[only]


def _room(nodes: Sequence[Node]) -> int:
    """How many nodes there are, where several that only name a value count as one."""
    drawn = [node for node in nodes if not node.on]
    names = sum(node.kind not in COMPUTING for node in drawn)
    return len(drawn) - names + room_of_ends(names)


def build_picture(
    program: taxpr.Program,
    unfolded: Collection[str] | None = None,
    marked: Marked = UNMARKED,
    budget: int = BUDGET,
    where: Where | None = None,
    heat: Colours = None,
    compared: ComparedSide | None = None,
    divided: introspect.Divisions | None = None,
) -> Picture:
    """Draw a program once. The arguments are as for `Builder` and `Builder.picture`."""
    return Builder(program, budget, where, divided).picture(unfolded, marked, heat, compared)
