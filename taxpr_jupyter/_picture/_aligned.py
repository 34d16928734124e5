"""Which nodes of a picture stand in one row: the inputs of a nested jaxpr, and its outputs.

So each box reads from its inputs at the top to its outputs at the bottom; and what it takes and
gives stands above and below it, where a layout would leave the whole height of a box beside it
empty for an input that is used at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from taxpr_jupyter._picture._columns import Size, rows_of
from taxpr_jupyter._picture._model import Picture

_BROAD = 1500.0  # points; what takes more is not put into one row
_NEAR = 2  # rows


def aligned(
    picture: Picture,
    sizes: Mapping[str, Size],
    loose: Collection[str],
    apart: Collection[str],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The ids of a cluster and of the nodes in it that stand in one row.

    Args:
        picture: The picture.
        sizes: Of its nodes, by id.
        loose: The ids of the edges that put nothing below anything.
        apart: The ids of the edges whose ends are more than a row apart.
    """
    cut = _cut(picture, loose)
    elsewhere = {
        end for edge in picture.edges if edge.id in apart for end in (edge.source, edge.target)
    }
    rows: dict[tuple[str, str], list[str]] = {}
    jaxprs = {cluster.id for cluster in picture.clusters if cluster.kind == "jaxpr"} - cut
    for node in picture.nodes:
        if (
            node.cluster in jaxprs
            and node.kind in ("input", "output")
            and "stub" not in node.marks
            and node.id not in elsewhere
        ):
            rows.setdefault((node.cluster, node.kind), []).append(node.id)
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
    edges = [edge for edge in picture.edges if edge.kind not in ("back", "write", "read")]
    found, _ = rows_of([node.id for node in picture.nodes], edges)
    lowest = {node: max(found[other] for other in row) for row in rows for node in row}
    down = {
        edge.id: 1 + lowest.get(edge.target, found[edge.target])
        for edge in picture.edges
        if edge.kind == "read"
    }
    return {edge: row for edge, row in down.items() if row == _NEAR}


def _cut(picture: Picture, loose: Collection[str]) -> set[str]:
    """The clusters that are cut into columns."""
    parents = {cluster.id: cluster.parent for cluster in picture.clusters}
    homes = {node.id: node.cluster for node in picture.nodes}

    def around(node: str) -> set[str]:
        found: set[str] = set()
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
