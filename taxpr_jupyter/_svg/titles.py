"""Move the titles of clusters so that no edge runs through them."""

import itertools
import math
from collections.abc import Iterator, Sequence

from taxpr_jupyter._layout.geometry import Box, Point, around, meet

_INSIDE = 7.0  # points from the sides of the cluster
_AROUND = 3.0  # left and right of a title


class Titles:
    """Moves titles."""

    def __init__(self, paths: Sequence[Sequence[Point]], boxes: Sequence[Box]):
        self._paths = [(around(path), path) for path in paths if path]
        self._boxes = boxes

    def left_of(self, title: Box, cluster: Box) -> float:
        """The left end of a title: as far left as possible without crossing; else unchanged."""
        left, top, right, bottom = title
        width = right - left
        found = sorted(self._crossings(top, bottom, cluster[0], cluster[2]))
        first, last = cluster[0] + _INSIDE, cluster[2] - _INSIDE - width
        starts = [first, *(end + _AROUND + 0.01 for _, end in found)]
        before, reached = 0, -math.inf  # what begins left of a title's end, and where that ends
        for start in sorted(starts):
            while before < len(found) and found[before][0] < start + width + _AROUND:
                reached = max(reached, found[before][1])
                before += 1
            if first <= start <= last and reached <= start - _AROUND:
                return start
        return left

    def _crossings(
        self, top: float, bottom: float, left: float, right: float
    ) -> Iterator[tuple[float, float]]:
        """The intervals of a horizontal band that something crosses."""
        band = left, top, right, bottom
        for bounds, path in self._paths:
            if not meet(bounds, band):
                continue
            for (x, y), (to_x, to_y) in itertools.pairwise(path):
                if max(y, to_y) > top and min(y, to_y) < bottom:
                    yield min(x, to_x), max(x, to_x)
        for box in self._boxes:
            if meet(box, band):
                yield box[0], box[2]
