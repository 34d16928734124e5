"""Fold a tall picture into columns, and a wide one into rows.

Graphviz puts the target of each edge below its source, so a long program becomes a long thread.
Here a tall picture is cut into columns, read like those of a newspaper: edges across a cut do not
constrain the layout, and a node of each column is placed left of one of the next. Many nodes side
by side become several rows. All sizes are estimates: Graphviz lays out the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taxpr_jupyter._model.enclosing import Around
from taxpr_jupyter._model.model import Cluster, Edge, Picture

Size = tuple[float, float]  # width and height, in points

_GAP = (13.0, 22.0)  # between nodes of a row, and between rows
_BORDER = 14.0  # points that the box of a cluster adds to the height
_SPREAD = 1.25  # the width of a row over that of its nodes, as edges pass between these
# The height in points, and over the width, up to which ...
_SHORT = (500.0, 1.3)  # ... the backward pass stays below the forward pass
_SCREENS = (1500.0, 2.0)  # ... a picture is not cut into columns: about two screens
_WANTED = 0.9  # the best height over width
_MOST = 6  # columns
_BROAD = 900.0  # points: nodes side by side with less width stay in one row
_WIDE = 3.0  # the width over the height of several rows made of them
_ROWS = 6  # the most rows made of them
_STEP = 0.12  # the cost of one cut, on the scale of the logarithm of height over width
_BUSY = 3  # a cut crosses fewer edges than this
_SLACK = 0.45  # how far a cut may be from its ideal height, as a share of a column's height
_LEVEL = 1  # the most rows between the tops of two columns and the nodes placed side by side
_HELD = 0.85  # a cluster with a smaller share of the height is not cut


class Columns(NamedTuple):
    """How a picture is cut.

    Attributes:
        loose: The ids of edges that do not constrain the layout.
        beside: The ids of a cluster and of two of its nodes, the first to be placed left of the
            second in the same row. Columns without such a pair begin at the top anyway.
    """

    loose: frozenset[str]
    beside: tuple[tuple[str | None, str, str], ...]


def columns(picture: Picture, sizes: Mapping[str, Size]) -> Columns:
    """Cut a picture into columns if that makes it easier to read.

    Args:
        picture: The picture.
        sizes: The sizes of nodes, by id.
    """
    outermost = _outermost(picture.clusters)
    around = {node.id: outermost.get(node.cluster) for node in picture.nodes}
    back = {edge.id for edge in picture.edges if edge.kind == "back"}
    kept = {
        edge.id
        for edge in picture.edges
        if edge.kind in ("residual", "seed") and around[edge.source] != around[edge.target]
    }
    whole = _Rows(picture, sizes, back)
    cuts = [whole.cut(0)]
    if kept and cuts[0].is_above(_SHORT):
        apart = _Rows(picture, sizes, back | kept)
        cuts += [apart.cut(0), *(apart.cuts() if apart.cut(0).is_above(_SCREENS) else ())]
    if cuts[0].is_above(_SCREENS):
        cuts += whole.cuts()
    best = min(cuts, key=lambda cut: cut.cost)
    return Columns(best.loose, best.beside)


def steps(picture: Picture, sizes: Mapping[str, Size]) -> dict[str, int]:
    """The number of rows between the ends of an edge, by its id, if it is not one.

    Many nodes side by side that come from one node, or go to one node, are put into several rows.

    Args:
        picture: The picture.
        sizes: The sizes of nodes, by id.
    """
    sources: dict[str, list[Edge]] = {node.id: [] for node in picture.nodes}
    targets: dict[str, list[Edge]] = {node.id: [] for node in picture.nodes}
    for edge in picture.edges:
        sources[edge.target].append(edge)
        targets[edge.source].append(edge)
    alike: dict[tuple[str, str | None, str], list[Edge]] = {}
    for node in picture.nodes:
        ins, outs = sources[node.id], targets[node.id]
        if len(ins) == 1 and len(outs) <= 1:
            alike.setdefault(("from", node.cluster, ins[0].source), []).append(ins[0])
        elif not ins and len(outs) == 1:
            alike.setdefault(("to", node.cluster, outs[0].target), []).append(outs[0])
    found: dict[str, int] = {}
    for (way, _, _), edges in alike.items():
        nodes = [edge.target if way == "from" else edge.source for edge in edges]
        width = sum(sizes[node][0] + _GAP[0] for node in nodes)
        height = max(sizes[node][1] for node in nodes) + _GAP[1]
        rows = min(_ROWS, round(math.sqrt(width / height / _WIDE)))
        if width > _BROAD and rows > 1:
            found |= {edge.id: 1 + k % rows for k, edge in enumerate(edges)}
    return {edge: step for edge, step in found.items() if step > 1}


def _outermost(clusters: Sequence[Cluster]) -> dict[str | None, str]:
    found: dict[str | None, str] = {}
    for cluster in clusters:  # outer ones come first
        found[cluster.id] = found.get(cluster.parent, cluster.id)
    return found


@dataclass(frozen=True)
class _Cut:
    """A way to cut: the estimated size of the picture, the number of cuts, and `Columns`."""

    height: float
    width: float
    number: int
    loose: frozenset[str]
    beside: tuple[tuple[str | None, str, str], ...]

    def is_above(self, limit: tuple[float, float]) -> bool:
        """Whether it is higher than a number of points, and than a multiple of its width."""
        return self.height > max(limit[0], limit[1] * self.width)

    @property
    def cost(self) -> float:
        return abs(math.log(self.height / self.width / _WANTED)) + _STEP * self.number


class _Rows:
    """An estimate of the rows of a layout.

    Args:
        picture: The picture.
        sizes: The sizes of nodes, by id.
        loose: The ids of edges that do not constrain the layout.
    """

    def __init__(self, picture: Picture, sizes: Mapping[str, Size], loose: set[str]):
        self._loose = loose
        self._nodes = picture.nodes
        self._edges = [edge for edge in picture.edges if edge.id not in loose]
        self._row, side = _rows([node.id for node in picture.nodes], self._edges)
        number = 1 + max(self._row.values(), default=0)
        heights, self._widths = [0.0] * number, [0.0] * number
        for node, (width, height) in sizes.items():
            row = self._row[node]
            heights[row] = max(heights[row], height + _GAP[1])
            self._widths[row] += (width + _GAP[0]) * _SPREAD
        spans = self._spans(picture)
        for row in {first for first, _ in spans.values()}:
            heights[row] += _BORDER
        self._tops = [0.0, *itertools.accumulate(heights)]
        # The edges that a cut above a row would cross.
        self._across: list[list[Edge]] = [[] for _ in range(number)]
        for edge in self._edges:
            for row in range(side[edge.source] + 1, self._row[edge.target] + 1):
                self._across[row].append(edge)
        outer = {cluster.parent for cluster in picture.clusters}
        held = [
            span
            for cluster in picture.clusters
            if (span := spans.get(cluster.id))
            and (
                self._tops[span[1] + 1] - self._tops[span[0]] < _HELD * self._tops[-1]
                # A cut would separate its inputs, outputs and inner boxes.
                or (cluster.kind != "group" and cluster.id in outer)
            )
        ]
        self._possible = [
            row
            for row in range(1, number)
            if not any(first < row <= last for first, last in held) and self._is_free(row)
        ]

    def _spans(self, picture: Picture) -> dict[str, tuple[int, int]]:
        """The first and the last row of each cluster."""
        around = Around(picture.nodes, picture.clusters)
        spans: dict[str, tuple[int, int]] = {}
        for node in picture.nodes:
            row = self._row[node.id]
            for cluster in around.of(node.id):
                first, last = spans.get(cluster, (row, row))
                spans[cluster] = min(first, row), max(last, row)
        return spans

    def _is_free(self, row: int) -> bool:
        """Whether few edges cross a cut above a row; one more may if all come from one node."""
        edges = self._across[row]
        return len(edges) < _BUSY + (len({edge.source for edge in edges}) <= 1)

    def cuts(self) -> list[_Cut]:
        """The ways to cut into columns."""
        return [self.cut(number) for number in range(1, min(_MOST - 1, len(self._possible)) + 1)]

    def cut(self, number: int) -> _Cut:
        """Cut a number of times, so that the columns become about equally high."""
        rows: list[int] = []
        for k in range(1, number + 1):
            wanted = self._tops[-1] * k / (number + 1)
            room = _SLACK * self._tops[-1] / (number + 1)
            near = [
                row
                for row in self._possible
                if abs(self._tops[row] - wanted) <= room and row not in rows
            ]
            if near:
                rows.append(min(near, key=lambda row: abs(self._tops[row] - wanted)))
        rows.sort()
        parts = list(itertools.pairwise([0, *rows, len(self._widths)]))
        height = max(self._tops[end] - self._tops[start] for start, end in parts)
        width = sum(max(self._widths[start:end]) for start, end in parts)
        crossing = {edge.id for row in rows for edge in self._across[row]}
        beside = tuple(self._beside([0, *rows, len(self._widths)]))
        return _Cut(height, width, number, frozenset(self._loose | crossing), beside)

    def _beside(self, starts: Sequence[int]) -> Iterator[tuple[str | None, str, str]]:
        """The highest nodes of the same cluster in each column and the next one."""
        tops: list[dict[str | None, tuple[int, str]]] = []
        made = {edge.target for edge in self._edges}
        for start, end in itertools.pairwise(starts):
            # A node without sources is the last choice: it may be beside its column.
            order = sorted(
                (self._row[node.id] - start, node.id not in made, k)
                for k, node in enumerate(self._nodes)
                if start <= self._row[node.id] < end
            )
            top: dict[str | None, tuple[int, str]] = {}
            for row, _, k in order:
                top.setdefault(self._nodes[k].cluster, (row, self._nodes[k].id))
            tops.append(top)
        for left, right in itertools.pairwise(tops):
            both = [around for around in left if around in right]
            for around in sorted(both, key=lambda one: left[one][0] + right[one][0])[:1]:
                # A pair that is lower would move one of the columns down.
                if left[around][0] + right[around][0] <= _LEVEL:
                    yield around, left[around][1], right[around][1]


def _rows(nodes: Sequence[str], edges: Sequence[Edge]) -> tuple[dict[str, int], dict[str, int]]:
    """The row of each node: below its sources; a node without sources is just above its first use.

    The second result is the same, but a node without sources is in the row of its first use, so
    that no cut comes between the two.
    """
    sources: dict[str, list[str]] = {node: [] for node in nodes}
    targets: dict[str, list[str]] = {node: [] for node in nodes}
    for edge in edges:
        sources[edge.target].append(edge.source)
        targets[edge.source].append(edge.target)
    order = list(in_order(nodes, sources))
    row: dict[str, int] = {}
    movable: dict[str, bool] = {}
    for node in order:
        # In a cycle, one edge leads up.
        row[node] = max((row[source] + 1 for source in sources[node] if source in row), default=0)
        movable[node] = all(
            movable.get(source, False) and len(targets[source]) == 1 for source in sources[node]
        )
    side = dict(row)
    for node in reversed(order):
        below = [target for target in targets[node] if row[target] > row[node]]
        if movable[node] and below:
            use = min(row[target] for target in below)
            row[node] = use - 1
            side[node] = row[node] if sources[node] else use
    return row, side


def in_order(nodes: Sequence[str], sources: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Nodes in topological order: sources first. A cycle is entered anywhere.

    Args:
        nodes: The ids of the nodes.
        sources: For each node the ids of its sources.
    """
    entered: set[str] = set()
    done: set[str] = set()
    for start in nodes:
        todo = [start]
        while todo:
            node = todo[-1]
            if node not in entered:
                entered.add(node)
                todo += [source for source in reversed(sources[node]) if source not in entered]
            else:
                todo.pop()
                if node not in done:
                    done.add(node)
                    yield node
