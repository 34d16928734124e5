"""Find positions for the texts at the ends of edges: next to their own line, covering nothing.

A layout engine puts such a text at a fixed distance from the end, over whatever is there. A reader
assigns a text to the nearest line. So a position is allowed only if its own line is the nearest; a
text without such a position is left out.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taxpr_jupyter._layout.dot import text_width
from taxpr_jupyter._layout.geometry import (
    Box,
    BoxGrid,
    LineGrid,
    Point,
    any_within,
    away_from,
    centred,
    grown,
    middle_of,
)

# How far from its end a text may be along the edge, in points; the nearest free place is taken.
_ALONG = (1.0, 4.0, 8.0, 11.0, 14.0, 18.0, 22.0, 27.0, 32.0, 38.0, 45.0, 52.0, 60.0, 80.0, 110.0)
_ASIDE = 1.0  # points between a text and its line
_OWN = 0.4  # points more, for a line that bends
_CLEAR = 2.5  # points between a text and other lines
_COVERED = 0.02  # the largest share of a text that may lie on something else
_TOGETHER = 8.0  # points: nearer ends look like one, and the reader follows the lines
_REACH = 120.0  # points from an end: nothing farther away can be in the way
_ENOUGH = 12  # places to choose from
_UPON = 45.0  # points from its end: up to there a text on the line is that of the line's end
# The cost of a place:
_OVER = 4.0  # for each square point that covers something else
_FAR = 0.2  # for each point along the edge
_TURNED = 1.0  # if the text is left or right of a line that runs across
_ON_LINE = 6.0  # if the text is on its own line
_TIP = 8.0  # points between a text on the line and its end, where the arrow and borders are


class Text(NamedTuple):
    """A text at an end of an edge.

    Attributes:
        text: The text.
        edge: The number of the edge.
        path: The points on its line, beginning at that end.
        edges: The numbers of all edges that it belongs to, if they begin as one line.
    """

    text: str
    edge: int
    path: Sequence[Point]
    edges: Sequence[int] = ()

    @property
    def own(self) -> Sequence[int]:
        """The numbers of its edges."""
        return self.edges or (self.edge,)


class _LabelPlace(NamedTuple):
    cost: float
    box: Box
    upon: bool = False  # whether it is on the line


class Places:
    """Assigns positions to texts.

    Args:
        taken: Boxes that are occupied already.
        bounds: The box of the picture.
        size: The font size.
        paths: The points on each line, up to the tip of its arrow.

    Attributes:
        lines: The lines.
    """

    def __init__(
        self, taken: Sequence[Box], bounds: Box, size: float, paths: Sequence[Sequence[Point]]
    ):
        self._taken = BoxGrid(taken)
        self._bounds = bounds
        self._size = size
        self.lines = LineGrid(paths)
        self._ends: defaultdict[tuple[int, int], list[tuple[int, Point]]] = defaultdict(list)
        for k, path in enumerate(paths):
            for end in (*path[:1], *path[-1:]):
                self._ends[_square(end)].append((k, end))

    def of(self, texts: Sequence[Text], more: Sequence[Text] = ()) -> list[Point | None]:
        """The middle of each text; None if it has no position.

        Args:
            texts: The texts.
            more: Further texts, which get what place these leave.
        """
        needed, texts = len(texts), [*texts, *more]
        good = [list(itertools.islice(self._good(text), _ENOUGH)) for text in texts]
        found: list[Point | None] = [None] * len(texts)
        taken = BoxGrid()
        # Greedy: texts with the fewest possible positions first.
        for k in sorted(range(len(texts)), key=lambda k: (k >= needed, len(good[k]))):
            free = [place for place in good[k] if not taken.meeting(grown(place.box, 1, 1))]
            if free:
                box = min(free, key=lambda place: place.cost).box
                taken.add(box)
                found[k] = middle_of(box)
        return found

    def _good(self, text: Text) -> Iterator[_LabelPlace]:
        """Positions where a reader assigns the text to its own edge, the nearest first."""
        end = text.path[0]
        others = [
            point
            for k, point in self._near(end)
            if k not in text.own and _TOGETHER < math.dist(point, end) < _REACH
        ]
        others.append(text.path[-1])
        for place in self._candidates(text):
            box = place.box
            outside = _area(box) - _overlap(box, self._bounds)
            over = sum(_overlap(box, other) for other in self._taken.meeting(box)) + outside
            if over > _COVERED * _area(box):
                continue
            if not place.upon and any_within(box, others, away_from(box, end)):
                continue
            beside = self.lines.alone(text.own, box, _CLEAR)
            if beside is not None and beside <= _ASIDE + _OWN:
                yield place._replace(cost=place.cost + _OVER * over)

    def _near(self, point: Point) -> Iterator[tuple[int, Point]]:
        """The ends of lines about a point, with the numbers of the lines."""
        across, down = _square(point)
        for one in itertools.product(range(across - 1, across + 2), range(down - 1, down + 2)):
            yield from self._ends.get(one, ())

    def _candidates(self, text: Text) -> Iterator[_LabelPlace]:
        path, width = text.path, text_width(text.text, self._size)
        half = sum(itertools.starmap(math.dist, itertools.pairwise(path))) / 2
        for distance in _ALONG:
            if distance > half:
                return
            (x, y), (dx, dy) = _at(path, distance)
            if self.lines.alone(text.own, (x, y, x, y), _ASIDE) is None:
                continue  # nor is it alone beside a text
            cost = _FAR * distance
            # Beside the line, at a distance that depends on the direction of the line.
            aside = _ASIDE + abs(dy) * width / 2 + abs(dx) * self._size / 2
            for side in (aside, -aside):
                yield _LabelPlace(cost, self._box((x - dy * side, y + dx * side), width))
            # Left or right of the point, and on a line that leads there only if that is short.
            onto = abs(dx) > abs(dy) and half > _TIP + width
            for side in (1, -1):
                for down in (0.5, -0.5) if onto else (0.0, 0.5, -0.5):
                    across = side * (_ASIDE + width / 2)
                    middle = x + across, y + down * self._size
                    yield _LabelPlace(cost + _TURNED, self._box(middle, width))
            if distance >= _TIP + abs(dx) * width / 2 + abs(dy) * self._size / 2:
                box = self._box((x, y), width)
                yield _LabelPlace(cost + _ON_LINE, box, distance <= _UPON)

    def _box(self, middle: Point, width: float) -> Box:
        return centred(middle, width, self._size)


def _square(point: Point) -> tuple[int, int]:
    """The square of the picture, as wide and high as `_REACH`, that a point is in."""
    return int(point[0] // _REACH), int(point[1] // _REACH)


def _at(path: Sequence[Point], distance: float) -> tuple[Point, Point]:
    """The point at a distance along a path, and the direction there."""
    for (x, y), (to_x, to_y) in itertools.pairwise(path):
        length = math.hypot(to_x - x, to_y - y)
        if length and distance <= length:
            dx, dy = (to_x - x) / length, (to_y - y) / length
            return (x + dx * distance, y + dy * distance), (dx, dy)
        distance -= length
    raise ValueError("the path is shorter")


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _overlap(a: Box, b: Box) -> float:
    if a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]:
        return 0.0
    return (min(a[2], b[2]) - max(a[0], b[0])) * (min(a[3], b[3]) - max(a[1], b[1]))
