"""Where the texts of a laid-out picture go, and the lines that leave room for them.

Layout engines put the title of a cluster, and a text at the end of an edge, where edges run through
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from taxpr_jupyter._layout.dot import text_width
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Picture
from taxpr_jupyter._model.stylesheet import EDGE_FONT
from taxpr_jupyter._svg.gaps import broken
from taxpr_jupyter._svg.geometry import Box, Curves, Point, flattened
from taxpr_jupyter._svg.label_places import Places, Text
from taxpr_jupyter._svg.raw import Raw
from taxpr_jupyter._svg.titles import Titles

BELOW = 2.0  # points of a line of text that are below its base
_ROOM = (1.5, 0.5)  # points left and right of a text, and above and below it, that are kept free


class Placed(NamedTuple):
    """Where the parts of a picture are that its layout leaves open.

    Attributes:
        titles: For each cluster the boxes of the lines of its title.
        labels: For each edge the texts at its head and tail, with their middles.
        lines: For each edge what is drawn of its line, in parts.
    """

    titles: dict[str, list[Box]]
    labels: dict[str, list[tuple[str, Point]]]
    lines: dict[str, list[Curves]]


def placed(picture: Picture, raw: Raw) -> Placed:
    """Finds the places of texts, and interrupts the lines that run through them.

    Args:
        picture: The picture.
        raw: Its layout.
    """
    curves = [raw.curves(edge) for edge in picture.edges]
    paths = [
        _to_the_tip(flattened(curves[k]), raw.tips(edge)) for k, edge in enumerate(picture.edges)
    ]
    nodes = [raw.bounds(node) for node in picture.nodes]
    titles = _titles(picture, raw, paths, nodes)
    across = [box for boxes in titles.values() for box in boxes]
    places = Places([*nodes, *across], _inner(raw), EDGE_FONT, paths)
    texts, named = [], []
    for number, edge in enumerate(picture.edges):
        for text, path in ((edge.head, paths[number][::-1]), (edge.tail, paths[number])):
            if text:
                texts.append(Text(text_width(text, EDGE_FONT), number, path))
                named.append((edge.id, text))
    labels: dict[str, list[tuple[str, Point]]] = {}
    taken: list[tuple[int, Box]] = []
    for (edge_id, name), text, middle in zip(named, texts, places.of(texts), strict=True):
        if middle:
            (x, y), half = middle, (text.width / 2, EDGE_FONT / 2)
            labels.setdefault(edge_id, []).append((name, middle))
            taken.append((text.edge, (x - half[0], y - half[1], x + half[0], y + half[1])))
    # A text stands beside its own line, or upon it.
    lines = {
        edge.id: broken(
            curves[number],
            [_with_room(box) for box in across]
            + [box if owner == number else _with_room(box) for owner, box in taken],
        )
        for number, edge in enumerate(picture.edges)
    }
    return Placed(titles, labels, lines)


def _titles(
    picture: Picture, raw: Raw, paths: Sequence[Sequence[Point]], nodes: Sequence[Box]
) -> dict[str, list[Box]]:
    """Where the lines of the titles of clusters are."""
    titles = Titles(paths, nodes)
    found = {}
    for cluster in picture.clusters:
        lines = []
        for (x, y, begins), line in zip(raw.texts(cluster), cluster.lines, strict=True):
            wide = text_width(line, theme.FONT_SIZE)
            left = x - (0 if begins else wide / 2)
            lines.append((left, y - 0.8 * theme.FONT_SIZE, left + wide, y + BELOW))
        # All lines move together.
        around = _around(lines)
        by = titles.left_of(around, raw.bounds(cluster)) - around[0]
        found[cluster.id] = [(a + by, top, b + by, bottom) for a, top, b, bottom in lines]
    return found


def _to_the_tip(path: list[Point], tips: Sequence[Sequence[Point]]) -> list[Point]:
    """A path with the point of its arrow."""
    end = path[-1]
    return [*path, *(max(tip, key=lambda point: math.dist(point, end)) for tip in tips[:1])]


def _inner(raw: Raw) -> Box:
    """The picture, in the coordinates of what is in it."""
    left, top, width, height = raw.view
    x, y = left - raw.shift[0], top - raw.shift[1]
    return x, y, x + width, y + height


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _with_room(box: Box) -> Box:
    across, down = _ROOM
    return box[0] - across, box[1] - down, box[2] + across, box[3] + down
