"""Interrupt the lines of edges behind texts, so that the texts can be read.

A halo around a text would need the background colour, which a static picture does not know.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

from taxpr_jupyter._layout.geometry import Box, Curves, Point, around, meet, point_on, split

_STEP = 1.5  # points between two samples of a curve
_STEPS = 400  # the most samples of one curve
_ENDS = 6.0  # points at both ends of a line that always stay
_SHORTEST = 3.0  # points: shorter pieces of a line are removed too


def broken(curves: Curves, boxes: Sequence[Box]) -> list[Curves]:
    """The pieces of a line that are outside of some boxes. Both ends of the line always stay.

    Args:
        curves: A start, and three points for each Bézier curve.
        boxes: Left, top, right and bottom of each.
    """
    if not curves:
        return []
    bounds = around(curves)
    near = [box for box in boxes if meet(box, bounds)]
    if not near:
        return [curves]
    first, last = curves[0], curves[-1]
    parts: list[Curves] = []
    is_open = False
    for k in range(0, len(curves) - 3, 3):
        curve = curves[k : k + 4]
        for begin, end in _outside(curve, near, (first, last)):
            piece = _piece(curve, begin, end)
            if is_open and begin == 0:
                parts[-1] += piece[1:]
            else:
                parts.append(piece)
            is_open = end == 1
        if not parts or parts[-1][-1] != curve[-1]:
            is_open = False
    kept = [part for part in parts if math.dist(part[0], part[-1]) >= _SHORTEST or len(part) > 4]
    # The first and the last part touch the nodes.
    return [part for part in parts if part in kept or part[0] == first or part[-1] == last]


def finer(curves: Curves) -> Curves:
    """The same line with each Bézier curve split in two."""
    made = curves[:1]
    for k in range(0, len(curves) - 3, 3):
        first, second = split(curves[k : k + 4], 0.5)
        made += [*first[1:], *second[1:]]
    return made


def _outside(
    curve: Curves, boxes: Sequence[Box], ends: tuple[Point, Point]
) -> Iterator[tuple[float, float]]:
    """The parameter intervals, from 0 to 1, of a curve outside of all boxes."""
    bounds = around(curve)
    near = [box for box in boxes if meet(box, bounds)]
    if not near:
        yield 0.0, 1.0
        return
    length = sum(math.dist(a, b) for a, b in itertools.pairwise(curve))
    steps = max(2, min(_STEPS, math.ceil(length / _STEP)))
    begin: float | None = None
    for step in range(steps + 1):
        t = step / steps
        point = point_on(curve, t)
        free = not any(_holds(box, point) for box in near) or any(
            math.dist(point, end) < _ENDS for end in ends
        )
        if free and begin is None:
            begin = t
        if not free and begin is not None:
            if begin < (step - 1) / steps:
                yield begin, (step - 1) / steps
            begin = None
    if begin is not None and begin < 1:
        yield begin, 1.0


def _piece(curve: Curves, begin: float, end: float) -> Curves:
    """A part of a Bézier curve, as a Bézier curve."""
    if (begin, end) == (0, 1):
        return list(curve)
    part = curve
    if end < 1:
        part = split(part, end)[0]
    if begin > 0:
        part = split(part, begin / end)[1]
    return part


def _holds(box: Box, point: Point) -> bool:
    return box[0] < point[0] < box[2] and box[1] < point[1] < box[3]
