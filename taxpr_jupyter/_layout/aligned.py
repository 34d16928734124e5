"""Choose nodes to align in a row: the inputs of a nested jaxpr, and its outputs.

Then each box reads from inputs at the top to outputs at the bottom, and its operands and results
are above and below it. Without this, a layout puts a late input beside the box.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from taxpr_jupyter._layout.columns import Columns, Size, in_order
from taxpr_jupyter._model.model import NodeKind, Picture

_BROAD = 1500.0  # points; what takes more is not put into one row
_NEAR = 2  # rows


def aligned(
    picture: Picture, sizes: Mapping[str, Size], cut: Columns, apart: Collection[str]
) -> Iterator[tuple[str | None, tuple[str, ...]]]:
    """The id of a cluster, or None outside of all, and of the nodes in it that stand in one row.

    Args:
        picture: The picture.
        sizes: Of its nodes, by id.
        cut: How it is cut; what is cut has several columns, so it has no such rows, which would
            draw the end of one column to that of another.
        apart: The ids of the edges whose ends are more than a row apart.
    """
    elsewhere = {
        end for edge in picture.edges if edge.id in apart for end in (edge.source, edge.target)
    }
    torn = _torn(picture, cut.loose)
    wanted: set[tuple[str | None, NodeKind]] = set() if None in torn else {(None, "output")}
    for cluster in picture.clusters:
        if cluster.id in torn:
            continue
        if cluster.kind == "jaxpr":
            wanted.add((cluster.id, "input"))
        if cluster.kind in ("jaxpr", "function"):
            wanted.add((cluster.id, "output"))
    rows: dict[tuple[str | None, NodeKind], list[str]] = {}
    for node in picture.nodes:
        place = node.cluster, node.kind
        if place in wanted and "stub" not in node.marks and node.id not in elsewhere:
            rows.setdefault(place, []).append(node.id)
    for (cluster, _), nodes in rows.items():
        if len(nodes) > 1 and sum(sizes[node][0] for node in nodes) < _BROAD:
            yield cluster, tuple(nodes)


def lifted(picture: Picture, rows: Collection[Sequence[str]]) -> dict[str, int]:
    """How many rows lie between the ends of an edge from a state, by its id, where it is not one.

    So many that the state is above the box of the function, where that is near.

    Args:
        picture: The picture.
        rows: The ids of nodes that stand in one row.
    """
    sources: dict[str, list[str]] = {node.id: [] for node in picture.nodes}
    for edge in picture.edges:
        if edge.kind not in ("back", "write", "read"):
            sources[edge.target].append(edge.source)
    found: dict[str, int] = {}
    for node in in_order(list(sources), sources):
        found[node] = max((found.get(source, 0) + 1 for source in sources[node]), default=0)
    lowest = {node: max(found[other] for other in row) for row in rows for node in row}
    down = {
        edge.id: 1 + lowest.get(edge.target, found[edge.target])
        for edge in picture.edges
        if edge.kind == "read"
    }
    return {edge: row for edge, row in down.items() if row == _NEAR}


def _torn(picture: Picture, loose: Collection[str]) -> set[str | None]:
    """The clusters that are cut into columns; None, that what is outside of all is."""
    parents = {cluster.id: cluster.parent for cluster in picture.clusters}
    homes = {node.id: node.cluster for node in picture.nodes}

    def around(node: str) -> set[str | None]:
        found: set[str | None] = {None}
        home = homes[node]
        while home is not None:
            found.add(home)
            home = parents[home]
        return found

    return {
        cluster
        for edge in picture.edges
        if edge.id in loose and edge.kind not in ("back", "write")
        for cluster in around(edge.source) & around(edge.target)
    }
