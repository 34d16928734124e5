"""Find the temporaries that lie in the memory of results which are not yet written."""

import bisect
from collections.abc import Iterable, Sequence

_MOST = 16  # results that are looked at, the largest ones
_SMALL = 0.001  # of the peak: the temporaries below it do not matter


class _Room:
    """The memory of a result until it is written, and when something else is there."""

    def __init__(self, size: int, end: int) -> None:
        self.bytes, self._end = size, end
        self._begins, self._ends = list[int](), list[int]()

    def takes(self, begin: int, end: int) -> bool:
        """Whether the time is free, which is then taken."""
        k = bisect.bisect(self._begins, begin)
        before = k == 0 or self._ends[k - 1] <= begin
        behind = k == len(self._begins) or end <= self._begins[k]
        if end > self._end or not (before and behind):
            return False
        self._begins.insert(k, begin)
        self._ends.insert(k, end)
        return True


def in_results(
    lives: Sequence[tuple[int, int, int]], results: Iterable[tuple[int, int]], peak: int
) -> set[int]:
    """The numbers of temporaries that lie in the memory of a result until it is written.

    XLA places large ones first, each in the smallest result that is free.

    Args:
        lives: The bytes of temporaries, and when each begins and ends.
        results: The bytes of results, and when each is written.
        peak: The most bytes of temporaries at a time.

    Example:
        >>> in_results([(8, 0, 2), (8, 1, 3), (8, 2, 4)], [(8, 4)], 16)
        {0, 2}
    """
    every = [_Room(size, written) for size, written in sorted(results)[-_MOST:]]
    found = set[int]()
    for k in sorted(range(len(lives)), key=lambda k: -lives[k][0]) if every else ():
        size, begin, end = lives[k]
        if size < _SMALL * peak:
            break
        if any(size <= room.bytes and room.takes(begin, end) for room in every):
            found.add(k)
    return found
