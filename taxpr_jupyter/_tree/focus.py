"""Show only a part of a program: fold the rest, with one group for each gap."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import taxpr
from taxpr import introspect
from taxpr_jupyter._text.elements import ElementRow
from taxpr_jupyter._tree.labels import takes_part
from taxpr_jupyter._tree.tree import BlockEnd, Item


@dataclass(frozen=True)
class Only:
    """The part of a program that a picture shows.

    Attributes:
        places: Addresses of equations, inputs and outputs. Tags follow the values that they mark,
            so that tags can come and go.
        words: A description of the rest, such as "not on the path".
    """

    places: frozenset[taxpr.Address]
    words: str = "left out"

    def items(
        self, grouped: Sequence[Item], row: Sequence[Item], home: taxpr.Address
    ) -> list[Item]:
        """The items of a jaxpr, in groups and as they were, with left-out items in groups."""
        return _FocusRow(self, row, home).pruned(grouped)

    def ends(self, ends: Sequence[BlockEnd], home: taxpr.Address) -> list[BlockEnd]:
        """The inputs or outputs of a jaxpr, likewise."""
        made: list[BlockEnd] = []
        for kept, run in itertools.groupby(ends, lambda end: self._keeps_end(end, home)):
            found = [end for end in run if kept or not _is_final(end)]
            if not found:
                continue
            if kept or (len(found) == 1 and not found[0].children):
                made += found
                continue
            indices = [k for end in found for k in end.indices]
            address = ElementRow(home, "rest", found[0].word, indices[0], indices[-1]).address
            made.append(BlockEnd(address, indices, self.words, found, rest=True))
        return made

    def _keeps_end(self, end: BlockEnd, home: taxpr.Address) -> bool:
        finals = end.finals if end.state and not _is_final(end) else ()
        places = (*(home / f"{end.word}{i}" for i in end.indices), *finals)
        return not self.places.isdisjoint(places)

    def opens(self, item: Item) -> bool:
        """Whether an item is worth opening."""
        if item.is_group:
            return item.kind != "rest"
        return item.address in self._ways and any(
            map(takes_part, introspect.nested_jaxprs(item.eqn))
        )

    @functools.cached_property
    def _ways(self) -> frozenset[str]:
        """The equations with shown contents."""
        homes = {place.home for place in self.places if place.kind in ("eqn", "tag")}
        return frozenset(home.home for home in homes if home)


class _FocusRow:
    """The equations of one jaxpr."""

    def __init__(self, only: Only, row: Sequence[Item], home: taxpr.Address) -> None:
        self._only = only
        self._home = home
        self._position = {item.address: i for i, item in enumerate(row)}
        self._kept = self._found(row)

    def _found(self, row: Sequence[Item]) -> set[str]:
        places = self._only.places
        made, kept = set(), set()
        for item in row:
            used = not made.isdisjoint(a for a in item.eqn.invars if not introspect.is_literal(a))
            if used if introspect.is_tag(item.eqn) else item.address in places:
                kept.add(item.address)
                made.update(item.eqn.outvars)
        return kept

    def pruned(self, items: Sequence[Item]) -> list[Item]:
        """The items, with groups of left-out ones."""
        made: list[Item] = []
        for kept, run in itertools.groupby(items, self._keeps):
            if not kept:
                made.append(self._rest(list(run)))
                continue
            for item in run:
                if item.is_group:
                    pairs = _pairs(item)
                    item.tags = [tag for tag in item.tags if tag.address in self._kept]
                    shown = {tag.address for tag in item.tags}
                    item.eqns = [pair for pair in pairs if pair[0] not in shown]
                    item.children = self.pruned(item.children)
                made.append(item)
        return made

    def _keeps(self, item: Item) -> bool:
        return any(address in self._kept for address, _ in (*item.eqns, *_pairs_of(item.tags)))

    def _rest(self, items: list[Item]) -> Item:
        eqns = [pair for item in items for pair in _pairs(item)]
        first, last = (eqns[i][0].short for i in (0, -1))
        address = ElementRow(self._home, "rest", "", first, last).address
        stop = self._position[eqns[-1][0]] + 1
        within = items[0].within_backward
        return Item(
            address,
            eqns,
            "rest",
            self._only.words,
            children=items,
            stop=stop,
            within_backward=within,
        )


def _pairs(item: Item) -> list[tuple[taxpr.Address, object]]:
    """The equations of an item with its tags, in order."""
    return _pairs_of(item.children) if item.is_group else list(item.eqns)


def _pairs_of(items: Sequence[Item]) -> list[tuple[taxpr.Address, object]]:
    return [pair for item in items for pair in _pairs(item)]


def _is_final(end: BlockEnd) -> bool:
    """Whether it is the final value of a state, which has no node."""
    return end.state is not None and end.word == "out"
