"""Unfold a picture until an address is visible, and fold other parts to make room."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from taxpr import Address
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._text.elements import row_of
from taxpr_jupyter._tree.fold import HARD_LIMIT, Fold
from taxpr_jupyter._tree.tree import Block, BlockEnd, Item, Lift, Lifted

NO_ROOM = (
    "{what} cannot be shown: with it there would be about {nodes} nodes in the picture, and "
    "{limit} is the limit. Fold something first."
)


class Revealed(NamedTuple):
    """How something comes into the picture.

    Attributes:
        unfolded: The addresses to open.
        folded: The addresses to fold, to make room; without the contents of folded ones.
    """

    unfolded: frozenset[str]
    folded: tuple[str, ...]


Part = Item | BlockEnd | Lift  # what can be open


def path_to(fold: Fold, address: str) -> list[Part]:
    """The addresses to open so that an address is in the picture, outermost first.

    Raises:
        PanelError: There is no such address.
    """
    way: list[Part] = []
    block, parts = fold.root, Address(address).parts
    items: Sequence[Item] = block.items
    while len(parts) > 1:
        local, label, *below = parts
        found = _item_path(items, block.address / local)
        if lifted := _lifted_to(found or (), address):
            way += lifted[0]
            call = lifted[1]
            block, items = call.block, [call.item]
            parts = Address(address.removeprefix(f"{block.address}/")).parts
            continue
        if found:
            fold.unfolded_cost(found[-1])  # which makes its blocks
        blocks = found[-1].blocks if found else ()
        block = next((one for one, _ in blocks if one.address.local == label), None)
        if not found or block is None:
            raise PanelError(f"There is no {address!r} in the program")
        way += found
        items, parts = block.items, below
    return [*way, *_last_steps(block, items, block.address / parts[0])] if parts else way


def _lifted_to(found: Sequence[Item], address: str) -> tuple[list[Part], Lifted] | None:
    """The parts to open to see a call that is lifted out of one of some items, and the call."""
    for k, item in enumerate(found):
        for call in item.lifted:
            home = call.block.address
            local = Address(address.removeprefix(f"{home}/")).parts[0]
            if Address(address).is_in(home) and _item_path([call.item], (home / local).eqn):
                assert item.lift is not None
                return [*found[:k], item.lift], call
    return None


def _last_steps(
    block: Block, items: Sequence[Item], target: Address
) -> list[Item] | list[BlockEnd]:
    """The addresses to open in a jaxpr so that something in it is drawn."""
    ends = _end_path(block.ends, _drawn_end(block, target))
    if ends is not None:
        return ends
    for known in (target, target.eqn):
        path = _item_path(items, known)
        if path is not None:
            return [item for item in path if item.address != known]
    raise PanelError(f"There is no {target!r} in the program")


def _drawn_end(block: Block, target: str) -> str:
    """The final value of a state is drawn where the state is, which is an input."""
    for state in () if block.nested else states_of(block.jaxpr):
        for i, j in zip(state.ins, state.outs, strict=True):
            if target == block.address / f"out{j}":
                return block.address / f"in{i}"
    return target


def _end_path(ends: Sequence[BlockEnd], target: str) -> list[BlockEnd] | None:
    for end in ends:
        if end.address == target:
            return []
        if end.children:
            below = _end_path(end.children, target)
            if below is not None:
                return [end, *below]
    return None


def _item_path(items: Sequence[Item], target: str) -> list[Item] | None:
    """The groups down to an item, and the item itself unless it is drawn beside a folded group."""
    for item in items:
        if item.address == target:
            return [item]
        if not item.is_group:
            continue
        if any(tag.address == target for tag in item.tags):
            return []
        if row_of(target) or any(address == target for address, _ in item.eqns):
            below = _item_path(item.children, target)
            if below is not None:
                return [item, *below]
    return None


def reveal(
    fold: Fold,
    address: str,
    unfolded: Collection[str] | None,
    by_hand: Collection[str],
    extra: int,
) -> Revealed:
    """The addresses to unfold so that an address is in the picture, and to fold to make room.

    Where the picture would have more nodes than the budget, what is neither on the way nor in
    ``by_hand`` is folded, the farthest first.

    Args:
        fold: The program as a tree. Its open nodes change.
        address: The address.
        unfolded: The open addresses; None for the automatic choice.
        by_hand: The addresses that stay open.
        extra: As for `Fold.choose`.

    Raises:
        PanelError: There is no such address, or no room for it.
    """
    fold.choose(unfolded, extra=extra)
    way = path_to(fold, address)
    visible = fold.visible
    for part in way:
        if not part.open:
            if not isinstance(part, BlockEnd):
                visible += fold.unfolded_cost(part)
            fold.open(part)
    places = _PlacesToShow(fold, {id(part) for part in way}, frozenset(by_hand))
    folded: list[Item] = []
    for item in places.farthest():
        if visible <= fold.budget:
            break
        visible -= _open_nodes(item) - item.nodes
        item.open = False
        folded.append(item)
    limit = max(fold.budget, HARD_LIMIT)
    if visible > limit:
        raise PanelError(NO_ROOM.format(what=address, nodes=visible, limit=limit))
    outer = [item for item in folded if not any(_holds(other, item) for other in folded)]
    return Revealed(frozenset(_open_addresses(fold.root)), tuple(item.address for item in outer))


class _PlacesToShow:
    """Where the open items are, counted in equations."""

    def __init__(self, fold: Fold, way: set[int], by_hand: frozenset[str]) -> None:
        self._fold = fold
        self._way = way
        self._by_hand = by_hand
        self._count = 0
        self._target = 0
        # Item, how deep it is, where it begins and ends; those that may be folded.
        self._found: list[tuple[Item, int, int, int]] = []
        self._walk(fold.root.items, 0)

    def _walk(self, items: Sequence[Item], depth: int) -> bool:
        """Returns whether something in there must stay open."""
        stays = False
        for item in items:
            start = self._count
            self._count += 1
            on_way = id(item) in self._way
            if on_way:
                self._target = start
            if not item.open:
                self._count += self._fold.of_item(item).total
                stays |= self._walk([call.item for call in item.lifted], depth + 1)
                continue
            below = self._walk(item.children, depth + 1)
            for block, _ in item.blocks:
                below |= self._walk(block.items, depth + 1)
            below |= on_way or item.address in self._by_hand
            if not below:
                self._found.append((item, depth, start, self._count))
            stays |= below
        return stays

    def farthest(self) -> list[Item]:
        """The items that may be folded, the farthest first, and inner before outer ones."""

        def nearness(place: tuple[Item, int, int, int]) -> tuple[int, int]:
            _, depth, start, stop = place
            away = start - self._target if start > self._target else self._target - stop + 1
            return -away, -depth

        return [item for item, *_ in sorted(self._found, key=nearness)]


def _holds(outer: Item, inner: Item) -> bool:
    """Whether one item is inside of another."""
    if inner is outer:
        return False
    if inner.address.is_in(outer.address):
        return True
    return outer.is_group and any(
        inner is child or _holds(child, inner) for child in outer.children
    )


def _open_nodes(item: Item) -> int:
    """How many nodes there are of an item as it is now."""
    if not item.open:
        return item.nodes + sum(_open_nodes(call.item) for call in item.lifted)
    if item.is_group:
        return sum(map(_open_nodes, item.children))
    return sum(
        block.nodes - sum(inner.nodes - _open_nodes(inner) for inner in block.items)
        for block, _ in item.blocks
    )


def _open_addresses(block: Block) -> set[str]:
    found: set[str] = set()

    def ends(parts: Sequence[BlockEnd]) -> None:
        for end in parts:
            if end.open:
                found.add(end.address)
                ends(end.children)

    def walk(items: Sequence[Item]) -> None:
        for item in items:
            found.update([item.lift.address] if item.lift and item.lift.open else ())
            walk([call.item for call in item.lifted])
            if item.open:
                found.add(item.address)
                walk(item.children)
                for inner, _ in item.blocks:
                    found.update(_open_addresses(inner))

    ends(block.ends)
    walk(block.items)
    return found
