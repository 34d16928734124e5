"""The memory over the steps of a program, for `static/timeline.js`."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import taxpr
from taxpr import introspect
from taxpr_jupyter._messages.selected import Empty
from taxpr_jupyter._messages.tabs import Timeline
from taxpr_jupyter._model.model import Picture

MOST_STEPS, MOST_LIVES = 1000, 1000  # that are sent


def timeline_state(use: taxpr.questions.MemoryUse, picture: Picture) -> Timeline:
    """The data of a timeline, with the elements of a picture that hold each array.

    Args:
        use: The memory of the program, not an estimate.
        picture: The picture of the same program.
    """
    size = len(use.line)
    stride = -(-size // MOST_STEPS)
    # Of several neighbours the step with the most bytes, so that the peak is there.
    chosen = [
        max(range(begin, min(begin + stride, size)), key=lambda step: int(use.line[step]))
        for begin in range(0, size, stride)
    ]
    numbers: dict[str, int] = {}

    def number(address: str) -> int | None:
        element = picture.element_of(address) if address else None
        return None if element is None else numbers.setdefault(element.address, len(numbers))

    there = [one for one in use.lives if one[2].why != "result"]  # its place is reserved before
    lives: list[tuple[int, int, int]] = []
    for begin, end, row in heapq.nlargest(MOST_LIVES, there, key=lambda one: one[2].bytes):
        element = number(row.address)
        if element is not None:
            lives.append((element, begin, end))
    steps = [
        sorted({k for at in use.steps[step].equations if (k := number(at)) is not None})
        for step in chosen
    ]
    words = [_words(use, step) for step in chosen]
    return {
        "at": chosen,
        "bytes": [int(use.line[step]) for step in chosen],
        "words": words,
        "steps": steps,
        "lives": lives,
        "loops": [(begin, end) for begin, end, _ in use.loops],
        "elements": list(numbers),
    }


def _words(use: taxpr.questions.MemoryUse, step: int) -> str:
    told = use.steps[step]
    size = introspect.quantity(int(use.line[step]), "B")
    if step == 0:
        code = ": nothing has run yet"
    else:
        code = (
            f": {told.line} {told.code}" if told.code else "" if told.equations else ": XLA's own"
        )
    return f"{size} after step {step} of {len(use.line) - 1}{code}"


def shown_timeline(
    use: taxpr.questions.MemoryUse | None, picture: Callable[[], Picture]
) -> Timeline | Empty:
    """The data of a timeline; empty without the memory of a compiled program."""
    if use is None or not use.lives or len(use.line) < 2:
        return {}
    return timeline_state(use, picture())
