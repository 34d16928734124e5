"""Compute with points, boxes and lines; find the lines that cross a box, with a grid index."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom
Curves = list[Point]  # a start, and three points for each Bézier curve

_CELL = 40.0  # points
_OFF = 0.3  # points: how far a flattened curve may be from the curve


class LineGrid:
    """A grid index of lines, to find those that run through a box."""

    def __init__(self, paths: Sequence[Sequence[Point]]):
        # By cell; of each part of a line also its bounds, which tell most of them apart from a box.
        found: defaultdict[tuple[int, int], list[tuple[int, Point, Point, Box]]]
        found = defaultdict(list)
        for number, path in enumerate(paths):
            for start, end in itertools.pairwise(path):
                bounds = _bounds(start, end)
                part = number, start, end, bounds
                for cell in _cells(bounds):
                    found[cell].append(part)
        self._cells = dict(found)

    def through(self, box: Box) -> set[int]:
        """The numbers of the lines that run through a box."""
        found: set[int] = set()
        for cell in _cells(box):
            for number, start, end, _ in self._cells.get(cell, ()):
                if number not in found and enters(start, end, box):
                    found.add(number)
        return found

    def alone(self, numbers: Collection[int], box: Box, reach: float) -> float | None:
        """How far a line, or the nearest of several, is from a box, if no other is in reach."""
        found: float | None = None
        left, top, right, bottom = around_it = grown(box, reach, reach)
        for cell in _cells(around_it):
            for one, start, end, (first, high, last, low) in self._cells.get(cell, ()):
                if last <= left or first >= right or low <= top or high >= bottom:
                    continue
                if enters(start, end, around_it):
                    away = _apart(box, start, end)
                    if away <= reach and one not in numbers:
                        return None
                    if away <= (reach if found is None else found):
                        found = away
        return found


class BoxGrid:
    """A grid index of boxes, to find those that overlap a box."""

    def __init__(self, boxes: Iterable[Box] = ()):
        self._cells: defaultdict[tuple[int, int], list[tuple[int, Box]]] = defaultdict(list)
        self._number = 0
        for box in boxes:
            self.add(box)

    def add(self, box: Box) -> None:
        """Add a box."""
        part = self._number, box
        self._number += 1
        for cell in _cells(box):
            self._cells[cell].append(part)

    def meeting(self, box: Box) -> list[Box]:
        """The boxes that overlap a box, the first that was added first."""
        left, top, right, bottom = box
        found = {
            part
            for cell in _cells(box)
            for part in self._cells.get(cell, ())
            if left < part[1][2] and part[1][0] < right and top < part[1][3] and part[1][1] < bottom
        }
        return [one for _, one in sorted(found)]


def around(points: Sequence[Point]) -> Box:
    """The bounding box of some points."""
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _bounds(start: Point, end: Point) -> Box:
    """`around` both, in a third of the time."""
    (x, y), (to_x, to_y) = start, end
    left, right = (x, to_x) if x < to_x else (to_x, x)
    return (left, y, right, to_y) if y < to_y else (left, to_y, right, y)


def meet(a: Box, b: Box) -> bool:
    """Whether two boxes overlap; a common border does not count."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def grown(box: Box, across: float, down: float) -> Box:
    """A box with so much more room on the left and right, and above and below."""
    return box[0] - across, box[1] - down, box[2] + across, box[3] + down


def centred(middle: Point, width: float, height: float) -> Box:
    """The box of this size around a point."""
    return grown((*middle, *middle), width / 2, height / 2)


def middle_of(box: Box) -> Point:
    """The middle of a box."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def tip_of(corners: Sequence[Point], end: Point) -> Point:
    """The tip of an arrow: its corner that is farthest from the end of the line."""
    return max(corners, key=lambda corner: math.dist(corner, end))


def flattened(points: Curves) -> list[Point]:
    """Sample points on a sequence of Bézier curves, more of them where it bends."""
    made = list(points[:1])
    for k in range(1, len(points) - 2, 3):
        (x0, y0), ((x1, y1), (x2, y2), (x3, y3)) = points[k - 1], points[k : k + 3]
        bend = max(
            math.hypot(x0 - 2 * x1 + x2, y0 - 2 * y1 + y2),
            math.hypot(x1 - 2 * x2 + x3, y1 - 2 * y2 + y3),
        )
        # The second derivative is at most 6 bends, and a chord off by an eighth of it.
        steps = math.ceil(math.sqrt(0.75 * bend / _OFF))
        for v, w, p, q in _shares(steps):
            point = v * x0 + w * x1 + p * x2 + q * x3, v * y0 + w * y1 + p * y2 + q * y3
            made.append(point)
        made.append((x3, y3))
    return made


@functools.lru_cache(maxsize=256)
def _shares(steps: int) -> Sequence[tuple[float, float, float, float]]:
    """The shares of the four points of a Bézier curve in each point between so many steps."""
    found: list[tuple[float, float, float, float]] = []
    for step in range(1, steps):
        t = step / steps
        u = 1 - t
        found.append((u**3, 3 * u * u * t, 3 * u * t * t, t**3))
    return found


def away_from(box: Box, point: Point) -> float:
    """The distance from a point to a box; 0 inside."""
    x, y = point
    return math.hypot(max(box[0] - x, 0, x - box[2]), max(box[1] - y, 0, y - box[3]))


def any_within(box: Box, points: Iterable[Point], reach: float) -> bool:
    """Whether a point is nearer to a box than this: `away_from`, in a third of the time."""
    left, top, right, bottom = box
    square = reach * reach
    for x, y in points:
        across = left - x if x < left else x - right if x > right else 0.0
        down = top - y if y < top else y - bottom if y > bottom else 0.0
        if across * across + down * down < square:
            return True
    return False


def split(curve: Curves, t: float) -> tuple[Curves, Curves]:
    """Split a curve in two by De Casteljau's algorithm."""
    a, b, c, d = curve
    ab, bc, cd = _between(a, b, t), _between(b, c, t), _between(c, d, t)
    abc, bcd = _between(ab, bc, t), _between(bc, cd, t)
    middle = _between(abc, bcd, t)
    return [a, ab, abc, middle], [middle, bcd, cd, d]


def point_on(curve: Curves, t: float) -> Point:
    """Where `split` splits a curve."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = curve
    ax, ay, bx, by = ax + (bx - ax) * t, ay + (by - ay) * t, bx + (cx - bx) * t, by + (cy - by) * t
    cx, cy = cx + (dx - cx) * t, cy + (dy - cy) * t
    ax, ay, bx, by = ax + (bx - ax) * t, ay + (by - ay) * t, bx + (cx - bx) * t, by + (cy - by) * t
    return ax + (bx - ax) * t, ay + (by - ay) * t


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


def _cells(box: Box) -> Iterable[tuple[int, int]]:
    left, top, right, bottom = box
    first, last = int(left // _CELL), int(right // _CELL)
    high, low = int(top // _CELL), int(bottom // _CELL)
    if first == last and high == low:
        return ((first, high),)
    return itertools.product(range(first, last + 1), range(high, low + 1))


def enters(start: Point, end: Point, box: Box) -> bool:
    """Whether a straight line runs through a box."""
    (x, y), (to_x, to_y) = start, end
    if (x <= box[0] and to_x <= box[0]) or (x >= box[2] and to_x >= box[2]):
        return False
    if (y <= box[1] and to_y <= box[1]) or (y >= box[3] and to_y >= box[3]):
        return False
    first, last = 0.0, 1.0
    for k in (0, 1):
        low, high, at, by = box[k], box[k + 2], start[k], end[k] - start[k]
        if by == 0:
            if not low < at < high:
                return False
            continue
        near, far = sorted(((low - at) / by, (high - at) / by))
        first, last = max(first, near), min(last, far)
        if first >= last:
            return False
    return True


def crossing(paths: Sequence[Sequence[Point]]) -> list[tuple[int, int]]:
    """The numbers of the pairs of lines that cross; what only touches does not cross."""
    found: list[tuple[int, int]] = []
    bounds = [around(path) for path in paths]
    parts = [[(*ends, _bounds(*ends)) for ends in itertools.pairwise(path)] for path in paths]
    for one, other in itertools.combinations(range(len(paths)), 2):
        if not meet(bounds[one], bounds[other]):
            continue
        near, its = (
            [part for part in parts[k] if meet(part[2], bounds[to])]
            for k, to in ((one, other), (other, one))
        )
        if any(_cross(a, b, c, d) for a, b, box in near for c, d, at in its if meet(box, at)):
            found.append((one, other))
    return found


def _cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether two straight lines cross."""

    def side(a: Point, b: Point, c: Point) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def _apart(box: Box, start: Point, end: Point) -> float:
    """The distance from a straight line to a box; 0 if it runs through it."""
    if enters(start, end, box):
        return 0.0
    (x, y), across, down = start, end[0] - start[0], end[1] - start[1]
    length = across * across + down * down
    least = min(away_from(box, start), away_from(box, end))
    for corner in itertools.product((box[0], box[2]), (box[1], box[3])):
        share = ((corner[0] - x) * across + (corner[1] - y) * down) / length if length else 0.0
        if 0.0 < share < 1.0:  # else an end of the line is nearer to the box
            least = min(least, math.dist(corner, (x + across * share, y + down * share)))
    return least
