"""Choose nodes to align in a row: the inputs of a nested jaxpr, and its outputs.

So each box has its inputs at the top and its outputs at the bottom. Without this, Graphviz would
put an input that is first used late far below the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from taxpr_jupyter._layout.columns import Columns, Size, in_order
from taxpr_jupyter._model.enclosing import Around
from taxpr_jupyter._model.model import NodeKind, Picture

_BROAD = 1500.0  # points: the greatest width of a row
_NEAR = 2  # rows


def aligned(
    picture: Picture, sizes: Mapping[str, Size], cut: Columns, apart: Collection[str]
) -> Iterator[tuple[str | None, tuple[str, ...]]]:
    """The rows: the id of a cluster, or None for the whole picture, and the ids of aligned nodes.

    Args:
        picture: The picture.
        sizes: The sizes of nodes, by id.
        cut: How it is cut into columns. A cluster with several columns gets no rows, which would
            align the ends of the columns.
        apart: The ids of edges whose ends are more than one row apart.
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
    """The number of rows between the ends of an edge from a state, by its id, if it is not one.

    It moves a state that is used near the top of the function's box above this box.

    Args:
        picture: The picture.
        rows: The ids of the nodes in each row of `aligned`.
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
    """The ids of clusters that are cut into columns; None if the whole picture is cut."""
    around = Around(picture.nodes, picture.clusters)
    return {
        cluster
        for edge in picture.edges
        if edge.id in loose and edge.kind not in ("back", "write")
        for cluster in {None, *around.of(edge.source)} & {None, *around.of(edge.target)}
    }
