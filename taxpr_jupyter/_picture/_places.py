"""Finds places for the texts at the ends of edges, where they cover nothing.

Layout engines put such a text at a fixed distance from the end of its edge, whatever else is there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom

# How far from its end a text may be along the edge, in points; the nearest free place is taken.
_ALONG = (5.0, 8.0, 11.0, 14.0, 18.0, 22.0, 27.0, 32.0, 38.0, 45.0, 52.0, 60.0, 70.0, 85.0, 100.0)
_STEPS = 6  # of each Bézier curve
_REACH = 120.0  # what is farther from an end cannot be in the way


class Places:
    """Gives out places.

    Args:
        taken: What is there already.
        bounds: The picture.
        height: Of a text.
    """

    def __init__(self, taken: Sequence[Box], bounds: Box, height: float):
        self._taken = list(taken)
        self._bounds = bounds
        self._height = height

    def take(self, path: Sequence[Point], width: float) -> Point:
        """The middle of a free place for a text this wide, near the first point of a path.

        Where there is none, the place that covers least.
        """
        x, y = path[0]
        near = [
            box
            for box in self._taken
            if box[0] - _REACH < x < box[2] + _REACH and box[1] - _REACH < y < box[3] + _REACH
        ]
        best, least = path[0], math.inf
        for middle in self._candidates(path, width):
            box = self._box(middle, width)
            covered = sum(_overlap(box, other) for other in near) + self._outside(box)
            if covered < least:
                best, least = middle, covered
            if not covered:
                break
        self._taken.append(self._box(best, width))
        return best

    def _candidates(self, path: Sequence[Point], width: float) -> Iterator[Point]:
        for distance in _ALONG:
            found = _at(path, distance)
            if found is None:
                return
            (x, y), (dx, dy) = found
            # Beside the line: as far as the text reaches in that direction.
            aside = 1.5 + abs(dy) * width / 2 + abs(dx) * self._height / 2
            for side in (aside, -aside):
                yield x - dy * side, y + dx * side

    def _box(self, middle: Point, width: float) -> Box:
        x, y = middle
        wide = width / 2 + 1  # not to touch each other
        return x - wide, y - self._height / 2, x + wide, y + self._height / 2

    def _outside(self, box: Box) -> float:
        return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, self._bounds)


def flattened(numbers: Sequence[float]) -> list[Point]:
    """The points on a row of Bézier curves, given by a start and three points for each curve."""
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    made = points[:1]
    for k in range(1, len(points) - 2, 3):
        start, (a, b, end) = points[k - 1], points[k : k + 3]
        for step in range(1, _STEPS + 1):
            t = step / _STEPS
            u = 1 - t
            weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
            corners = (start, a, b, end)
            made.append(
                (
                    sum(w * p[0] for w, p in zip(weights, corners, strict=True)),
                    sum(w * p[1] for w, p in zip(weights, corners, strict=True)),
                )
            )
    return made


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
