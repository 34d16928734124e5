"""Draw one side of a comparison: open the changed parts and mark the changes."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from taxpr import Address
from taxpr_jupyter._diff.diff import Diff
from taxpr_jupyter._diff.status import QUIET, Status
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Cluster, Node, Picture
from taxpr_jupyter._text import short
from taxpr_jupyter._text.elements import place_of, row_of
from taxpr_jupyter._tree.tree import Block, Item

# "added" is the mark of tags that were added interactively.
_MARKS: Mapping[str, str] = {"added": "new", "removed": "gone"}
_ROWS = 2  # lines of a label that describe the changes


class ComparedSide:
    """One side of a comparison: decides what is open, and marks the changes.

    Args:
        found: The comparison.
        side: 0 for the program before, 1 for the one after.
        closed: Addresses that stay folded, as their partner does.
        opened: Addresses of the contents of open groups, as the other side shows them.
    """

    def __init__(
        self,
        found: Diff,
        side: int,
        closed: Collection[str] = frozenset(),
        opened: Collection[str] = frozenset(),
    ) -> None:
        self._found, self._side, self._closed, self._opened = found, side, closed, opened
        self._status = (found.before, found.after)[side]

    def wants(self, item: Item) -> bool:
        """Whether something in an item changed, or is next to something that only one side has."""
        if item.address in self._closed:
            return False
        if item.is_group:
            return any(self._is_loud(a) or a in self._opened for a, _ in item.eqns)
        return self._found.opens(self._side, item.address)

    def marked(self, picture: Picture, root: Block) -> Picture:
        """The picture with marks, signs and partners."""
        groups: dict[str, Item] = {item.address: item for item in _groups(root)}
        return replace(
            picture,
            nodes=tuple(self._node(node, groups, picture.hidden) for node in picture.nodes),
            clusters=tuple(self._cluster(cluster, groups) for cluster in picture.clusters),
        )

    def _is_loud(self, address: str) -> bool:
        return self._status[address] not in QUIET or self._found.is_near(self._side, address)

    def _node(
        self, node: Node, groups: Mapping[str, Item], hidden: Mapping[str, Sequence[str]]
    ) -> Node:
        if node.kind == "empty":
            return node
        if node.address in groups:
            return self._several(node, [address for address, _ in groups[node.address].eqns])
        if row_of(node.address):
            return self._several(node, hidden[node.address])
        # A literal has the status of the equation that uses it; so do the operands of an open one.
        status, partner, what = self._found.look(self._side, place_of(node.address))
        if node.kind == "literal":
            status, what = (status if status in _MARKS else "same"), ()
        return self._shown(node, status, what, partner)

    def _several(self, node: Node, addresses: Sequence[str]) -> Node:
        found: list[Status] = [self._status[address] for address in addresses]
        return self._shown(node, _of_many(found), _counted(found), None)

    def _shown(
        self, node: Node, status: Status, what: tuple[str, ...], partner: str | None
    ) -> Node:
        if status == "inside":
            # A folded node hides the changes inside; elsewhere these have elements of their own.
            status, what = ("changed", ("inside",)) if node.fold else ("same", ())
        mark = _MARKS.get(status, status)
        lines = [f"{theme.CHANGES[mark].sign} {node.lines[0]}".strip(), *node.lines[1:]]
        tooltip = node.tooltip
        if what and status not in QUIET:
            if "stub" not in node.marks:
                lines += [short.shortened(text, short.LINE) for text in what[:_ROWS]]
            tooltip = "\n".join([tooltip, *what])
        marks = (*node.marks, mark)
        return replace(node, lines=tuple(lines), tooltip=tooltip, marks=marks, pair=partner or "")

    def _cluster(self, cluster: Cluster, groups: Mapping[str, Item]) -> Cluster:
        if not cluster.fold or cluster.address in groups or row_of(cluster.address):
            return cluster
        status, partner, what = self._found.look(self._side, cluster.fold)
        if cluster.kind == "jaxpr":
            label = Address(cluster.address).local
            partner = self._found.partner_of_nested(self._side, cluster.fold, label)
            if partner is None:
                status, what = ("removed", "added")[self._side], ()
        if status in QUIET or status == "inside":
            return replace(cluster, pair=partner or "")
        mark = _MARKS.get(status, status)
        sign = theme.CHANGES[mark].sign
        tooltip = "\n".join([cluster.tooltip, *what])
        lines = (f"{sign} {cluster.lines[0]}", *cluster.lines[1:])
        return replace(cluster, lines=lines, tooltip=tooltip, marks=(mark,), pair=partner or "")


def _of_many(found: Sequence[Status]) -> Status:
    """The common status of several equations."""
    distinct = set(found)
    if len(distinct) == 1:
        return found[0]
    return "follows" if distinct <= QUIET else "changed"


def _counted(found: Sequence[Status]) -> tuple[str, ...]:
    """`+1 ~2`: the number of equations by status, without unchanged ones."""
    counts: Counter[str] = Counter(_MARKS.get(status, status) for status in found)
    counts["changed"] += counts["inside"]
    texts = [
        f"{change.sign}{counts[mark]}"
        for mark, change in theme.CHANGES.items()
        if change.sign and counts[mark]
    ]
    return (" ".join(texts),) if texts else ()


def _groups(block: Any) -> Iterator[Item]:
    """The groups of equations that a picture can show."""
    todo = list(block.items)
    while todo:
        item = todo.pop()
        if item.is_group:
            yield item
        todo += item.children
        for inner, _ in item.blocks if item.open else ():
            todo += inner.items
