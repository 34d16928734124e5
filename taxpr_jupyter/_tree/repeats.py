"""Find repetitions in a sequence, such as equal layers of a model."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_CANDIDATES = 8  # distances to try as the length of a period
_LEAST = 3  # repetitions


class Repeat(NamedTuple):
    """A part of a sequence: from `start`, `period` elements, `times` times."""

    start: int
    period: int
    times: int

    @property
    def stop(self) -> int:
        """The position after its last element."""
        return self.start + self.period * self.times


def repeat_in(keys: Sequence[int]) -> Repeat | None:
    """The repeat that covers most of a sequence; None if nothing comes three times in a row.

    If several cover about the same, it is the one with the shortest period. Takes linear time.
    """
    if len(keys) < _LEAST:
        return None
    values = np.asarray(keys)
    # A period is a frequent distance between equal elements.
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, key in enumerate(keys):
        if key in last:
            distances[i - last[key]] += 1
        last[key] = i
    best: Repeat | None = None
    for period, _ in distances.most_common(_CANDIDATES):
        start, length = _longest_true(values[:-period] == values[period:])
        found = Repeat(start, period, (length + period) // period)
        if found.times < _LEAST:
            continue
        covered, known = found.times * period, best.times * best.period if best else 0
        shorter = best is not None and period < best.period
        if covered > 1.05 * known or (shorter and covered > 0.95 * known):
            best = found
    return best


def _longest_true(values: np.ndarray) -> tuple[int, int]:
    """The start and the length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], values, [False])).astype(np.int8)))
    if not edges.size:
        return 0, 0
    starts, stops = edges[::2], edges[1::2]
    longest = int(np.argmax(stops - starts))
    return int(starts[longest]), int(stops[longest] - starts[longest])
