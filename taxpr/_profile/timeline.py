"""Divide the time of a run among its kernels, so that no nanosecond counts twice."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taxpr._compat import Event
from taxpr._compiled.hlo import HloModule, Instruction

# Their time is that of what they hold.
_HOLDERS = ("while", "conditional", "call", "async-start")


class Span(NamedTuple):
    """The time of one run of a kernel.

    Attributes:
        kernel: The name of its instruction.
        begin: When it began, in nanoseconds.
        end: When it ended, or handed out the rest of its work to other threads.
        until: When this rest was done.
        thread: Where it ran.
    """

    kernel: str
    begin: float
    end: float
    until: float
    thread: str = ""


def spans(hlo: HloModule, events: Iterable[Event]) -> list[Span]:
    """The times of all runs of the kernels of a program.

    Work that is handed to other threads ends with an event of its own, which may come after the
    next kernel. So a span ends before a reader of its result begins, or another iteration, or
    another part of the program.

    Args:
        hlo: The program.
        events: The events of this program.
    """
    every = list(events)
    ends = {one.consumed: one.begin for one in every if one.consumed is not None}
    leaves = sorted((one for one in every if _is_leaf(hlo, one)), key=lambda one: one.begin)
    order = {name: k for c in hlo.computations.values() for k, name in enumerate(c.instructions)}
    found: list[Span] = []
    for k, one in enumerate(leaves):
        # The last events of a profile may be lost.
        until = one.end if one.produced is None else max(ends.get(one.produced, math.inf), one.end)
        if until > one.end:
            reading = _reading(hlo, one.op)
            mine = hlo.instructions[one.op]
            for other in leaves[k + 1 :]:
                if other.begin >= until:
                    break
                its = hlo.instructions[other.op]
                again = its.computation != mine.computation or order[its.name] <= order[mine.name]
                if other.op in reading or again:
                    until = max(other.begin, one.end)
                    break
        found.append(Span(one.op, one.begin, one.end, until, one.thread))
    return found


def _is_leaf(hlo: HloModule, event: Event) -> bool:
    known = hlo.instructions.get(event.op)
    return known is not None and known.opcode not in _HOLDERS


def _reading(hlo: HloModule, name: str) -> set[str]:
    """The instructions of a computation that need the result of one of them."""
    found: set[str] = set()
    waiting: list[Instruction] = list(hlo.users.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found.add(one.name)
            waiting += hlo.users.get(one.name, ())
    return found


def shares(found: Sequence[Span], begin: float, end: float) -> dict[str, float]:
    """How much of a time each kernel has: kernels that run at once share it equally.

    If no known kernel runs, the time belongs to unfinished work of other threads.

    Args:
        found: The spans.
        begin: When the time begins; what is outside of it does not count.
        end: When it ends.

    Returns:
        Nanoseconds by the names of instructions; with idle time they add up to the time.

    Example:
        >>> every = [Span("a", 0, 4, 4), Span("b", 2, 4, 4), Span("c", 5, 6, 9)]
        >>> shares(every, 0, 10)
        {'a': 3.0, 'b': 1.0, 'c': 4.0}
    """
    # At each moment something begins or ends: of what runs, or of what was handed out.
    moments: list[tuple[float, int, bool, str]] = []
    for one in found:
        for is_rest, first, last in ((False, one.begin, one.end), (True, one.end, one.until)):
            first, last = max(first, begin), min(last, end)
            if first < last:
                moments += [(first, 1, is_rest, one.kernel), (last, -1, is_rest, one.kernel)]
    moments.sort()
    running: tuple[dict[str, int], dict[str, int]] = {}, {}
    had: dict[str, float] = {}
    now = begin
    for at, change, is_rest, kernel in moments:
        active = running[0] or running[1]
        for name in active:
            had[name] = had.get(name, 0.0) + (at - now) / len(active)
        now = at
        counts = running[is_rest]
        counts[kernel] = counts.get(kernel, 0) + change
        if not counts[kernel]:
            del counts[kernel]
    return had
