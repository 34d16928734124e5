"""Finds places for the texts at the ends of edges, where they cover nothing.

Layout engines put such a text at a fixed distance from the end of its edge, whatever else is there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from taxpr_jupyter._svg.geometry import Box, Lines, Point

# How far from its end a text may be along the edge, in points; the nearest free place is taken.
_ALONG = (5.0, 8.0, 11.0, 14.0, 18.0, 22.0, 27.0, 32.0, 38.0, 45.0, 52.0, 60.0, 70.0, 85.0, 100.0)
# What a place costs
_OVER = 4.0  # for each square point that is something else's
_FAR = 0.2  # for each point of that distance
_LINE = 8.0  # for each line through it
_REACH = 120.0  # what is farther from an end cannot be in the way


class Places:
    """Gives out places.

    Args:
        taken: What is there already.
        bounds: The picture.
        height: Of a text.
        lines: What a text should not lie on, where there is another place nearby.
    """

    def __init__(self, taken: Sequence[Box], bounds: Box, height: float, lines: Lines):
        self._taken = list(taken)
        self._bounds = bounds
        self._height = height
        self._lines = lines

    def take(self, path: Sequence[Point], width: float, number: int) -> Point:
        """The middle of a free place for a text this wide, near the first point of a path.

        Where there is none, the place that covers least.

        Args:
            path: Of the edge.
            width: Of the text.
            number: That of the edge among the lines.
        """
        x, y = path[0]
        near = [
            box
            for box in self._taken
            if box[0] - _REACH < x < box[2] + _REACH and box[1] - _REACH < y < box[3] + _REACH
        ]
        best, least = path[0], math.inf
        for distance, middle in self._candidates(path, width):
            far = _FAR * distance
            if far >= least:
                break
            box = self._box(middle, width)
            over = sum(_overlap(box, other) for other in near) + self._outside(box)
            cost = far + _OVER * over
            if cost < least:
                cost += _LINE * len(self._lines.through(box) - {number})
            if cost < least:
                best, least = middle, cost
        self._taken.append(self._box(best, width))
        return best

    def _candidates(self, path: Sequence[Point], width: float) -> Iterator[tuple[float, Point]]:
        for distance in _ALONG:
            found = _at(path, distance)
            if found is None:
                return
            (x, y), (dx, dy) = found
            # Beside the line: as far as the text reaches in that direction.
            aside = 1.5 + abs(dy) * width / 2 + abs(dx) * self._height / 2
            for side in (aside, -aside):
                yield distance, (x - dy * side, y + dx * side)

    def _box(self, middle: Point, width: float) -> Box:
        x, y = middle
        wide = width / 2 + 1  # not to touch each other
        return x - wide, y - self._height / 2, x + wide, y + self._height / 2

    def _outside(self, box: Box) -> float:
        return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, self._bounds)


def _at(path: Sequence[Point], distance: float) -> tuple[Point, Point] | None:
    """The point so far along a path, and the direction there; None where it is not that long."""
    for (x, y), (to_x, to_y) in itertools.pairwise(path):
        length = math.hypot(to_x - x, to_y - y)
        if length and distance <= length:
            dx, dy = (to_x - x) / length, (to_y - y) / length
            return (x + dx * distance, y + dy * distance), (dx, dy)
        distance -= length
    return None


def _overlap(a: Box, b: Box) -> float:
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    return across * down if across > 0 and down > 0 else 0.0
