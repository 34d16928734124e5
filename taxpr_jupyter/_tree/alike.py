"""Find the open parts of a tree again in the tree of a changed program."""

import collections
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from taxpr_jupyter._text.elements import row_of
from taxpr_jupyter._tree.tree import Block, Item

_NUMBER = re.compile(r"\d+")


def alike(
    before: Block, after: Block, opened: Collection[str], inside: Callable[[Item], object]
) -> dict[str, str]:
    """The open addresses of a program, each with its own in the program after.

    Items of two rows belong together if they are of one kind and have one title, each in its
    turn; then by kind alone, if as many are left: a statement that was typed over.

    Returns:
        The address of each in the program after, as far as it is there.
    """
    found: dict[str, str] = {}

    def rows(ones: Sequence[Item], others: Sequence[Item]) -> None:
        for one, other in _pairs(ones, others):
            if one.lift and one.lift.address in opened:
                inside(other)
                if other.lift:
                    found[one.lift.address] = other.lift.address
                    rows(*([call.item for call in lift.calls] for lift in (one.lift, other.lift)))
            if one.address not in opened:
                continue
            found[one.address] = other.address
            rows(one.children, other.children)
            inside(other)
            there = {block.address.local: block for block, _ in other.blocks}
            for block, _ in one.blocks:
                if block.address.local in there:
                    rows_of(block, there[block.address.local])

    def rows_of(block: Block, other: Block) -> None:
        rows(block.items, other.items)
        for address in opened:
            if (row := row_of(address)) and row.word and row.home == block.address:
                found[address] = row._replace(home=other.address).address

    rows_of(before, after)
    return found


def _pairs(ones: Sequence[Item], others: Sequence[Item]) -> Iterator[tuple[Item, Item]]:
    for key in _title, _kind:
        rows: tuple[dict[object, list[Item]], ...] = tuple(
            collections.defaultdict(list) for _ in range(2)
        )
        for row, items in zip(rows, (ones, others), strict=True):
            for item in items:
                row[key(item)].append(item)
        paired = [
            pair
            for kind, several in rows[0].items()
            if key is _title or len(several) == len(rows[1].get(kind, ()))
            for pair in zip(several, rows[1].get(kind, ()), strict=False)
        ]
        yield from paired
        taken = {id(item) for pair in paired for item in pair}
        ones, others = ([x for x in items if id(x) not in taken] for items in (ones, others))


def _title(item: Item) -> object:
    return _kind(item), _NUMBER.sub("#", item.title)


def _kind(item: Item) -> object:
    return item.kind or item.eqn.primitive
