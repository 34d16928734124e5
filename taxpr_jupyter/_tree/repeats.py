"""Find repetitions in a sequence, such as equal layers of a model."""

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
    # A period is a frequent distance between equal elements.
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, key in enumerate(keys):
        if key in last:
            distances[i - last[key]] += 1
        last[key] = i
    best: Repeat | None = None
    for period, _ in distances.most_common(_CANDIDATES):
        start, length = _longest_true(map(operator.eq, keys, keys[period:]))
        found = Repeat(start, period, (length + period) // period)
        if found.times < _LEAST:
            continue
        covered, known = found.times * period, best.times * best.period if best else 0
        shorter = best is not None and period < best.period
        if covered > 1.05 * known or (shorter and covered > 0.95 * known):
            best = found
    return best


def _longest_true(values: Iterable[bool]) -> tuple[int, int]:
    """The start and the length of the longest run of True."""
    start = longest = at = 0
    for value, run in itertools.groupby(values):
        length = len(list(run))
        if value and length > longest:
            start, longest = at, length
        at += length
    return start, longest
