"""Draw two compared programs, with partners open on both sides or on neither."""

from collections.abc import Collection, Sequence
from typing import TypeAlias

from taxpr import introspect
from taxpr_jupyter._diff.diff import Diff
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._drawing.compared_side import ComparedSide
from taxpr_jupyter._model.model import Node, Picture
from taxpr_jupyter._tracing.sources import source_text
from taxpr_jupyter._tree.refold import refolded

# The addresses that are open on each side.
Unfolded: TypeAlias = tuple[frozenset[str], frozenset[str]]
_ROUNDS = 3  # of folding both sides alike


class BothSides:
    """Draws the two programs of a comparison.

    Args:
        diff: The difference of the two programs.
        divided: How their values are divided among devices.
        budget: About how many nodes to show on each side, as for `draw`.
        kept: The builder that has drawn one of them already: the first picture of a program
            takes much longer than the next ones.
    """

    def __init__(
        self,
        diff: Diff,
        divided: Sequence[introspect.Divisions],
        budget: int,
        kept: Builder | None = None,
    ) -> None:
        self._diff = diff
        sides = zip(diff.programs, divided, strict=True)
        # Kept, as both sides are drawn again and again: until they are folded alike, and by hand.
        self._builders = [
            kept
            if kept is not None and kept.draws(program, budget, source_text, one)
            else Builder(program, budget, source_text, one)
            for program, one in sides
        ]

    def pictures(self, unfolded: Unfolded | None) -> tuple[Picture, Picture]:
        """The two pictures; None leaves it to the changes what is open."""
        closed: list[set[str]] = [set(), set()]
        opened: list[set[str]] = [set(), set()]
        pictures = self._drawn(closed, opened, unfolded)
        if unfolded is not None:
            return pictures
        for _ in range(_ROUNDS):
            found = [self._open_alone(pictures, side) - closed[side] for side in (0, 1)]
            more = [self._folded_alone(pictures, side) - opened[side] for side in (0, 1)]
            if not any((*found, *more)):
                break
            closed = [held | new for held, new in zip(closed, found, strict=True)]
            opened = [held | new for held, new in zip(opened, more, strict=True)]
            pictures = self._drawn(closed, opened, None)
        return pictures

    def refolded(
        self, pictures: Sequence[Picture], address: str, at: int, opened: bool | None
    ) -> Unfolded:
        """The addresses that are open after opening or closing one on a side, and its partners.

        With None it is closed if it is open, else opened.
        """
        picture, other = pictures[at], pictures[1 - at]
        if opened is None:
            element = picture.find(address)
            place = address if address in picture.foldable else getattr(element, "fold", None)
            opened = place not in picture.unfolded
        own = refolded(picture, address, opened)
        changed = own ^ picture.unfolded
        theirs = set(other.unfolded)
        for one in changed:
            inside = _inside(picture, one)
            found = (self._partner(at, inner) for inner in inside or [one])
            partners = {partner for partner in found if partner is not None}
            places = partners & other.foldable if inside is None else _groups(other, partners)
            theirs = theirs | places if opened else theirs - places
        return (own, frozenset(theirs)) if at == 0 else (frozenset(theirs), own)

    def _partner(self, side: int, address: str) -> str | None:
        try:
            return self._diff.partner(side, address)
        except KeyError:
            return None

    def _drawn(
        self,
        closed: Sequence[set[str]],
        opened: Sequence[set[str]],
        unfolded: Unfolded | None,
    ) -> tuple[Picture, Picture]:
        before, after = (
            builder.picture(
                unfolded and unfolded[side],
                compared=ComparedSide(self._diff, side, closed[side], opened[side]),
            )
            for side, builder in enumerate(self._builders)
        )
        return before, after

    def _open_alone(self, pictures: Sequence[Picture], side: int) -> set[str]:
        """The equations that are open on one side, and whose partners are folded."""
        alone = set()
        for cluster in pictures[side].clusters:
            if cluster.kind in ("jaxpr", "hop"):
                partner = self._diff.partner(side, cluster.fold)
                if partner is not None and partner not in pictures[1 - side].unfolded:
                    alone.add(cluster.fold)
        return alone

    def _folded_alone(self, pictures: Sequence[Picture], side: int) -> set[str]:
        """The contents of groups that are folded on one side, and shown on the other."""
        other = pictures[1 - side]
        alone: set[str] = set()
        for node in pictures[side].nodes:
            if node.kind != "group" or node.fold is None:
                continue
            inside = pictures[side].hidden.get(node.fold, ())
            partners = (self._partner(side, one) for one in inside)
            if any(one is not None and other.find(one) is not None for one in partners):
                alone.update(inside)
        return alone


def _groups(picture: Picture, inside: Collection[str]) -> set[str]:
    """The groups that hold these for the most part; folded ones also that hold one of them."""
    found = {one: _inside(picture, one) or [] for one in picture.foldable}
    shares = {one: sum(inner in inside for inner in held) for one, held in found.items()}
    folded = picture.foldable - picture.unfolded
    return {one for one, n in shares.items() if n and (one in folded or 2 * n > len(found[one]))}


def _inside(picture: Picture, address: str) -> list[str] | None:
    """The addresses of the contents of a group, open or folded; None for an equation."""
    if address in picture.hidden:
        return list(picture.hidden[address])
    around = {cluster.id: cluster for cluster in picture.clusters}
    if address not in around or around[address].kind != "group":
        return None
    elements = [*picture.nodes, *picture.clusters]
    parent = {one.id: one.cluster if isinstance(one, Node) else one.parent for one in elements}

    def is_in(found: str | None) -> bool:
        while found is not None and found != address:
            found = parent.get(found)
        return found is not None

    within = [one.fold or one.address for one in elements if is_in(parent[one.id])]
    return [inner for one in within for inner in picture.hidden.get(one, (one,))]
