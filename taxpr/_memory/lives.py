"""The values in each place of the memory, by the steps of the program."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from taxpr._buffers.assignment import BufferPlace, Defined
from taxpr._buffers.contents_of import Contents
from taxpr._buffers.live import Interval
from taxpr._memory.held import Holding


class Life(NamedTuple):
    """Bytes from the step after which they are there to the last one.

    Attributes:
        begin: The number of the first of these steps.
        end: That of the last.
        held: The bytes with their content.
    """

    begin: int
    end: int
    held: Holding


def lives_of(
    intervals: Sequence[Interval], places: Mapping[Defined, BufferPlace], contents: Contents
) -> Iterator[Life]:
    """The values in each place of the memory; of several at a time the one that says the most."""
    at: dict[BufferPlace, list[Interval]] = {}
    for one in intervals:
        at.setdefault(places[one.defined], []).append(one)
    for place, values in at.items():
        for value, begin, end in _runs(values, contents):
            yield Life(begin, end, Holding(place.size, contents.of(value.defined)))


def _runs(values: Sequence[Interval], contents: Contents) -> Iterator[tuple[Interval, int, int]]:
    """For each time which of some values is told, from its first such time to its last."""
    times = sorted({time for one in values for time in (one.begin, one.end + 1)})
    waiting = sorted(values, key=lambda one: -one.begin)
    alive: list[Interval] = []
    told: tuple[Interval, int, int] | None = None
    for begin, after in itertools.pairwise(times):
        alive = [value for value in alive if value.end >= begin]
        while waiting and waiting[-1].begin == begin:
            alive.append(waiting.pop())
        if not alive:
            continue
        best: Interval = max(
            alive, key=lambda value: (contents.of(value.defined).exact, value.begin)
        )
        if told is not None and told[0] is best and told[2] == begin - 1:
            told = best, told[1], after - 1
            continue
        if told is not None:
            yield told
        told = best, begin, after - 1
    if told is not None:
        yield told
