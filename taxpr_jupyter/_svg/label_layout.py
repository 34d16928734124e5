"""Where the texts of a laid-out picture go, and the lines that leave room for them.

Layout engines put the title of a cluster, and a text at the end of an edge, where edges run through
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

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


class Label(NamedTuple):
    """A text at an end of an edge.

    Attributes:
        end: Which one.
        text: The text.
        middle: Where it stands; None where it would be read as another edge's.
    """

    end: Literal["head", "tail"]
    text: str
    middle: Point | None

    @property
    def box(self) -> Box | None:
        """The room that it takes."""
        if self.middle is None:
            return None
        (x, y), half = self.middle, (text_width(self.text, EDGE_FONT) / 2, EDGE_FONT / 2)
        return x - half[0], y - half[1], x + half[0], y + half[1]


class Placed(NamedTuple):
    """Positions that the layout engine does not decide.

    Attributes:
        titles: For each cluster the boxes of the lines of its title.
        labels: For each edge its texts.
        lines: For each edge the parts of its line to draw.
    """

    titles: dict[str, list[Box]]
    labels: dict[str, list[Label]]
    lines: dict[str, list[Curves]]


def placed(picture: Picture, raw: Raw) -> Placed:
    """Place the texts, and interrupt the lines that run through them.

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
    labels = _labels(picture, Places([*nodes, *across], _inner(raw), EDGE_FONT, paths), paths)
    taken = [(name, label.box) for name, its in labels.items() for label in its if label.box]
    # A text is beside its own line, or on it.
    lines = {
        edge.id: broken(
            curves[number],
            [_with_room(box) for box in across]
            + [box if name == edge.id else _with_room(box) for name, box in taken],
        )
        for number, edge in enumerate(picture.edges)
    }
    return Placed(titles, labels, lines)


def _labels(
    picture: Picture, places: Places, paths: Sequence[Sequence[Point]]
) -> dict[str, list[Label]]:
    """The texts of each edge that has some."""
    found = []
    for number, edge in enumerate(picture.edges):
        if edge.head:
            found.append((edge.id, "head", Text(edge.head, number, paths[number][::-1])))
        if edge.tail:
            found.append((edge.id, "tail", Text(edge.tail, number, paths[number])))
    middles = places.of([text for _, _, text in found])
    labels: dict[str, list[Label]] = {}
    for (name, end, text), middle in zip(found, middles, strict=True):
        labels.setdefault(name, []).append(Label(end, text.text, middle))
    return labels


def _titles(
    picture: Picture, raw: Raw, paths: Sequence[Sequence[Point]], nodes: Sequence[Box]
) -> dict[str, list[Box]]:
    """The boxes of the title lines of each cluster."""
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
    """A path extended to the tip of its arrow."""
    end = path[-1]
    return [*path, *(max(tip, key=lambda point: math.dist(point, end)) for tip in tips[:1])]


def _inner(raw: Raw) -> Box:
    """The box of the picture, in the coordinates of its content."""
    left, top, width, height = raw.view
    x, y = left - raw.shift[0], top - raw.shift[1]
    return x, y, x + width, y + height


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _with_room(box: Box) -> Box:
    across, down = _ROOM
    return box[0] - across, box[1] - down, box[2] + across, box[3] + down
