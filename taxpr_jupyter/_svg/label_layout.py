"""Place the texts of a laid-out picture, and interrupt the lines that run through them.

Layout engines do not keep edges away from titles of clusters and texts at ends of edges.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from taxpr_jupyter._layout.arranged import Layout
from taxpr_jupyter._layout.dot import text_width
from taxpr_jupyter._layout.ends import texts_of
from taxpr_jupyter._layout.frame_dot import TAB
from taxpr_jupyter._layout.geometry import (
    Box,
    Curves,
    LineGrid,
    Point,
    around,
    centred,
    flattened,
    grown,
    meet,
    middle_of,
    tip_of,
)
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Node, Picture
from taxpr_jupyter._svg.interrupted_lines import broken
from taxpr_jupyter._svg.label_places import Places, Text
from taxpr_jupyter._svg.titles import Titles
from taxpr_jupyter._text.titles import says

_SCREEN = 600.0  # points: both ends of a longer line are seldom seen at once
BELOW = 2.0  # points of a line of text that are below its base
_ASIDE, _ROWS = 2.0, 3  # points between a node and the name of a badge, and places for it there
_ROOM = (1.5, 0.5)  # points left and right of a text, and above and below it, that are kept free


class Label(NamedTuple):
    """A text at an end of an edge.

    Attributes:
        end: Which end.
        text: The text.
        middle: Its middle; None if a reader would assign it to another edge everywhere.
        again: Whether it only says once more what a long line is, since its other end is far off.
    """

    end: Literal["head", "tail"]
    text: str
    middle: Point | None
    again: bool = False

    @property
    def box(self) -> Box | None:
        """The box that it fills; None if it has no position."""
        if self.middle is None:
            return None
        return centred(self.middle, text_width(self.text, theme.SMALL), theme.SMALL)


class Placed(NamedTuple):
    """Positions that the layout engine does not decide.

    Attributes:
        titles: For each cluster the boxes of the lines of its title.
        labels: For each edge its texts.
        lines: For each edge the parts of its line to draw.
        badges: For each badge the box of its name; left out if there is no room for it.
        view: Left, top, right and bottom of the whole: the names of badges may need more room.
    """

    titles: dict[str, list[Box]]
    labels: dict[str, list[Label]]
    lines: dict[str, list[Curves]]
    badges: dict[str, Box]
    view: Box


def placed(picture: Picture, layout: Layout) -> Placed:
    """Place the texts, and interrupt the lines that run through them."""
    curves = [layout.curves[edge.id] for edge in picture.edges]
    paths = [
        _to_the_tip(flattened(curves[k]), layout.tips.get(edge.id))
        for k, edge in enumerate(picture.edges)
    ]
    back: dict[tuple[Point, ...], str] = {}  # the carries of a loop share one line: the first one's
    for k, edge in enumerate(picture.edges):
        if edge.kind == "back" and back.setdefault(tuple(curves[k]), edge.id) != edge.id:
            paths[k] = []
    nodes = [_with_tab(node, layout.nodes[node.id]) for node in picture.nodes]
    nodes += [box for box, _ in layout.twins.values()]
    titles = _titles(picture, layout, paths, nodes)
    across = [box for boxes in titles.values() for box in boxes]
    places = Places([*nodes, *across], layout.view, theme.SMALL, paths)
    labels = _labels(picture, places, paths, layout.twins)
    taken = [(name, label.box) for name, its in labels.items() for label in its if label.box]
    badges = _badges(picture, layout, [*nodes, *across, *(box for _, box in taken)], places.lines)
    others = [grown(box, *_ROOM) for box in (*across, *badges.values())]
    texts = [(name, box, grown(box, *_ROOM)) for name, box in taken]
    # A text is beside its own line, or on it.
    lines = {
        edge.id: broken(
            curves[number],
            others + [box if name == edge.id else more for name, box, more in texts],
        )
        for number, edge in enumerate(picture.edges)
    }
    for number, edge in enumerate(picture.edges):
        if edge.kind == "back":
            lines[edge.id] = lines[back[tuple(curves[number])]]
    left, top, right, bottom = layout.view
    ends = [(box[2] + _ROOM[0], box[3] + _ROOM[1]) for box in badges.values()]
    right, bottom = map(max, zip((right, bottom), *ends, strict=True))
    return Placed(titles, labels, lines, badges, (left, top, right, bottom))


def _labels(
    picture: Picture, places: Places, paths: Sequence[Sequence[Point]], twins: Collection[str]
) -> dict[str, list[Label]]:
    """The placed texts of each edge, by its id."""
    found: list[tuple[str, Literal["head", "tail"], Text]] = []
    names: list[tuple[str, Literal["head", "tail"], Text]] = []  # of long lines
    labels: dict[str, list[Label]] = {}
    nodes = {node.id: node for node in picture.nodes}
    together: dict[tuple[str, str, Point], list[int]] = {}  # lines of one value that begin as one
    for number, edge in enumerate(picture.edges):
        if edge.value and edge.tail and paths[number] and edge.id not in twins:
            begin = edge.source, edge.tail, paths[number][0]
            together.setdefault(begin, []).append(number)
    for number, edge in enumerate(picture.edges):
        head, tail = texts_of(edge, nodes, edge.id in twins)
        if not paths[number]:
            ends = Label("head", head, None), Label("tail", tail, None)
            labels[edge.id] = [label for label in ends if label.text]
            continue
        if head:
            found.append((edge.id, "head", Text(head, number, paths[number][::-1])))
        if tail:
            begin = edge.source, tail, paths[number][0]
            first, *more = together.get(begin, [number])
            if first == number:
                found.append((edge.id, "tail", Text(tail, number, paths[number], (first, *more))))
            else:
                labels.setdefault(edge.id, []).append(Label("tail", tail, None))
        if edge.id not in twins and _length(paths[number]) > _SCREEN:
            both: tuple[tuple[Literal["head", "tail"], str, str, int], ...] = (
                ("head", head, edge.target, -1),
                ("tail", tail, edge.source, 1),
            )
            for end, text, node, step in both:
                title = " ".join(nodes[node].lines[: nodes[node].titled])
                if edge.name and not (text or says(title, edge.name)):
                    names.append((edge.id, end, Text(edge.name, number, paths[number][::step])))
    middles = places.of(*([text for _, _, text in some] for some in (found, names)))
    for k, ((name, end, text), middle) in enumerate(zip([*found, *names], middles, strict=True)):
        if middle or k < len(found):
            labels.setdefault(name, []).append(Label(end, text.text, middle, k >= len(found)))
    return labels


def _length(path: Sequence[Point]) -> float:
    return sum(itertools.starmap(math.dist, itertools.pairwise(path)))


def _badges(
    picture: Picture, layout: Layout, taken: Sequence[Box], lines: LineGrid
) -> dict[str, Box]:
    """The names of badges: each beside its node, if possible where no line and no border is."""
    found: dict[str, Box] = {}
    badges = [node for node in picture.nodes if node.on]
    several = Counter(node.on for node in badges)
    for node in badges:
        left, _, right, bottom = layout.nodes[node.on]
        (x, y), wide = middle_of(layout.nodes[node.id]), text_width(node.lines[0], theme.SMALL)
        rows = sorted(range(-several[node.on], _ROWS), key=abs)
        middles = [(right + _ASIDE + wide / 2, bottom - theme.SMALL * k) for k in rows]
        middles += [(x, y + 1.3 * theme.SMALL), (left - _ASIDE - wide / 2, bottom)]
        boxes = [centred(middle, wide, theme.SMALL) for middle in middles]
        others = [*taken, *found.values(), (-math.inf, -math.inf, layout.view[0], math.inf)]
        free = [box for box in boxes if not any(meet(box, other) for other in others)]

        def cost(box: Box) -> int:
            borders = (one for one in layout.clusters.values() if meet(one, box))
            return 2 * any(not _holds(one, box) for one in borders) + bool(lines.through(box))

        if free:
            found[node.id] = min(free, key=cost)
    return found


def _with_tab(node: Node, box: Box) -> Box:
    """The box of a node with the tab of a folder above it."""
    left, top, right, bottom = box
    return left, top - TAB * (theme.look_of(node).shape == "folder"), right, bottom


def _holds(box: Box, other: Box) -> bool:
    return box[0] <= other[0] and box[1] <= other[1] and other[2] <= box[2] and other[3] <= box[3]


def _titles(
    picture: Picture, layout: Layout, paths: Sequence[Sequence[Point]], nodes: Sequence[Box]
) -> dict[str, list[Box]]:
    """The boxes of the title lines of each cluster."""
    titles = Titles(paths, nodes)
    found = {}
    for cluster in picture.clusters:
        lines = []
        for (x, y), line in zip(layout.titles[cluster.id], cluster.lines, strict=True):
            wide = text_width(line, theme.FONT_SIZE)
            lines.append((x, y - 0.8 * theme.FONT_SIZE, x + wide, y + BELOW))
        # All lines move together.
        title = around([point for line in lines for point in (line[:2], line[2:])])
        by = titles.left_of(title, layout.clusters[cluster.id]) - title[0]
        found[cluster.id] = [(a + by, top, b + by, bottom) for a, top, b, bottom in lines]
    return found


def _to_the_tip(path: list[Point], tip: Sequence[Point] | None) -> list[Point]:
    """A path extended to the tip of its arrow."""
    return [*path, tip_of(tip, path[-1])] if tip else path
