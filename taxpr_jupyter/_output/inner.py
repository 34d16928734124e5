"""Make pictures of the folded nodes of a picture, from the outside in."""

import collections
import dataclasses
import time
from collections.abc import Callable, Collection, Iterator

from taxpr_jupyter._model.model import Counts, Node, Picture

NO_TIME = "there was no time to draw it"
NO_ROOM = "it would have made the file too large"
OUTSIDE = "outside"  # mark of a node that stands next to what a picture is about


@dataclasses.dataclass(frozen=True)
class Inner:
    """The picture of a folded equation or group.

    Attributes:
        address: The equation or group.
        outer: The address of the picture that has it folded; "" for the first one.
        title: Its title there.
        picture: The picture, or None.
        path: The nodes that must be open to see it, the outermost first, itself included.
        reason: Why there is no picture, in a few words.
    """

    address: str
    outer: str
    title: str
    picture: Picture | None
    path: tuple[str, ...]
    reason: str = ""


def walk(
    picture: Picture,
    part: Callable[[str, Collection[str]], Picture | None],
    levels: int,
    until: float,
    room: Callable[[], bool],
    start: str,
    level: dict[str, int],
) -> Iterator[Inner]:
    """The inside of all folded nodes of a picture, of the folded nodes in there, and so on.

    Args:
        picture: The picture.
        part: Draws at least the inside of an address and its neighbours, given the nodes that must
            be open; None if that is too large.
        levels: How deep to go.
        until: When to stop, by `time.monotonic`.
        room: Whether there is room for more.
        start: The address of the picture; "" for the whole program.
        level: The depths of addresses that were found before; these are left out. New ones are
            added.
    """
    waiting: collections.deque[Inner] = collections.deque([Inner(start, "", "", picture, ())])
    level[start] = 0
    while waiting:
        outer = waiting.popleft()
        assert outer.picture is not None
        for node in outer.picture.nodes:
            if node.fold is None or node.fold in level or OUTSIDE in node.marks:
                continue
            level[node.fold] = level[outer.address] + 1
            steps = (*outer.path, *_around(outer.picture, node), node.fold)
            path = tuple(dict.fromkeys(steps))
            found = None
            if level[node.fold] > levels:
                reason = "it is too deep inside"
            elif time.monotonic() > until:
                reason = NO_TIME
            elif not room():
                reason = NO_ROOM
            else:
                drawn = part(node.fold, path)
                total = outer.picture.counts.folded.get(node.id, 0)
                found = inside(drawn, node.fold, total) if drawn else None
                reason = "" if found else "it is too large to be drawn open"
            inner = Inner(node.fold, outer.address, node.lines[0], found, path, reason)
            yield inner
            if found:
                waiting.append(inner)


def _around(picture: Picture, node: Node) -> list[str]:
    """The open elements around a node, the outermost first."""
    clusters = {cluster.id: cluster for cluster in picture.clusters}
    folds: list[str] = []
    at = node.cluster
    while at in clusters:
        folds.insert(0, clusters[at].fold)
        at = clusters[at].parent
    return [fold for fold in folds if fold]


def inside(picture: Picture, address: str, total: int) -> Picture | None:
    """The part of a picture that shows an open address, and its neighbours."""
    ids: set[str] = set()
    for cluster in picture.clusters:  # outer ones come first
        if cluster.fold == address or cluster.parent in ids:
            ids.add(cluster.id)
    if not ids:
        return None
    own = {node.id for node in picture.nodes if node.cluster in ids}
    edges = [edge for edge in picture.edges if edge.source in own or edge.target in own]
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    beside = (ends | {node.on for node in picture.nodes if node.on and node.id in own}) - own
    nodes = [
        dataclasses.replace(node, cluster=None, marks=(*node.marks, OUTSIDE))
        if node.id in beside
        else node
        for node in picture.nodes
        if node.id in own or node.id in beside
    ]
    folded = {key: number for key, number in picture.counts.folded.items() if key in own}
    return dataclasses.replace(
        picture,
        nodes=tuple(nodes),
        edges=tuple(
            dataclasses.replace(
                edge,
                into=edge.into if edge.into in ids else None,
                out_of=edge.out_of if edge.out_of in ids else None,
            )
            for edge in edges
        ),
        clusters=tuple(
            cluster if cluster.parent in ids else dataclasses.replace(cluster, parent=None)
            for cluster in picture.clusters
            if cluster.id in ids
        ),
        counts=Counts(total - sum(folded.values()), folded, total, 0),
    )
