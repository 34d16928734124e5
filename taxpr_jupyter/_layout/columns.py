"""Fold a tall picture into columns, and a wide one into rows.

A layout puts the target of each edge below its source, so a long program becomes a long thread.
Here a tall picture is cut into columns, read like those of a newspaper: edges across a cut do not
constrain the layout, and a node of each column is placed left of one of the next. Many nodes side
by side become several rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taxpr_jupyter._model.model import Cluster, Edge, Picture

Size = tuple[float, float]  # width and height, in points

_GAP = (13.0, 22.0)  # between nodes of a row, and between rows
_BORDER = 14.0  # what the box of a cluster adds to the height
_SPREAD = 1.25  # rows are so much wider than their nodes, because of what passes between these
_SHORT = (500.0, 1.3)  # points, and height through width: below, passes stay above each other
_SCREENS = (1500.0, 2.0)  # the same: two screens; what is less high is not cut into columns
_WANTED = 0.9  # height through width, where there is a choice
_MOST = 6  # columns
_BROAD = 900.0  # points; nodes side by side that take less stay so
_WIDE = 3.0  # width through height of what is made of them
_ROWS = 6
_STEP = 0.12  # of the logarithm of the height: what a cut must be worth
_BUSY = 3  # edges across one cut, at most
_SLACK = 0.45  # of the height of a column: how far a cut may be from where it should be
_LEVEL = 1  # rows below the tops of two columns: how low what holds them side by side may be
_HELD = 0.85  # a cluster with less of the height than this is not cut


class Columns(NamedTuple):
    """How a picture is cut.

    Attributes:
        loose: The ids of the edges that put nothing below anything.
        beside: Pairs of nodes of one cluster, the id of it first: the one left of the other, and as
            high as it. Columns without such a pair are left to the layout, which begins each at the
            top.
    """

    loose: frozenset[str]
    beside: tuple[tuple[str | None, str, str], ...]


def columns(picture: Picture, sizes: Mapping[str, Size]) -> Columns:
    """Cuts a picture where that makes it better to read.

    Args:
        picture: The picture.
        sizes: Of its nodes, by id.
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
    """How many rows lie between the ends of an edge, by its id, where it is not one.

    Many nodes side by side that come from one node, or go to one node, are put into several rows.

    Args:
        picture: The picture.
        sizes: Of its nodes, by id.
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
    """A way to cut: how large the picture will be, about, and which edges are loose."""

    height: float
    width: float
    number: int
    loose: frozenset[str]
    beside: tuple[tuple[str | None, str, str], ...]

    def is_above(self, limit: tuple[float, float]) -> bool:
        """Whether it is higher than so many points, and than so many times its width."""
        return self.height > max(limit[0], limit[1] * self.width)

    @property
    def cost(self) -> float:
        return abs(math.log(self.height / self.width / _WANTED)) + _STEP * self.number


class _Rows:
    """The rows that a layout will have, about.

    Args:
        picture: The picture.
        sizes: Of its nodes, by id.
        loose: The ids of edges that do not matter.
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
                # What enters and leaves it, and its boxes, would be torn apart.
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
        parents = {cluster.id: cluster.parent for cluster in picture.clusters}
        spans: dict[str, tuple[int, int]] = {}
        for node in picture.nodes:
            row, around = self._row[node.id], node.cluster
            while around is not None:
                first, last = spans.get(around, (row, row))
                spans[around] = min(first, row), max(last, row)
                around = parents[around]
        return spans

    def _is_free(self, row: int) -> bool:
        """Whether few edges cross a cut above a row; more, if they come from one node."""
        edges = self._across[row]
        return len(edges) < _BUSY + (len({edge.source for edge in edges}) <= 1)

    def cuts(self) -> list[_Cut]:
        """The ways to cut into columns."""
        return [self.cut(number) for number in range(1, min(_MOST - 1, len(self._possible)) + 1)]

    def cut(self, number: int) -> _Cut:
        """Cuts so many times, where the columns become about equally high."""
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
        """The highest nodes of each column and of the next one that are in the same cluster."""
        tops: list[dict[str | None, tuple[int, str]]] = []
        made = {edge.target for edge in self._edges}
        for start, end in itertools.pairwise(starts):
            # What uses nothing may stand beside its column.
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
                # Two that are lower would draw their columns apart, which else begin at the top.
                if left[around][0] + right[around][0] <= _LEVEL:
                    yield around, left[around][1], right[around][1]


def _rows(nodes: Sequence[str], edges: Sequence[Edge]) -> tuple[dict[str, int], dict[str, int]]:
    """A row for each node: below what it uses; what uses nothing is just above its first use.

    And the same, but what uses nothing is in the row of its first use, so that no cut parts them.
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
        # Of a circle one edge leads up.
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
