"""The interface of layout engines, their exceptions and the deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

# Takes graphs in the DOT language, and returns the SVG of each.
Engine = Callable[[Sequence[str]], Sequence[str]]
TOO_LONG = (
    "No picture: the layout took longer than {limit:g} s and was stopped. Fold parts of the "
    "program, or allow more time."
)
CANCELLED = "No picture: the layout was cancelled."
POLL = 0.02  # seconds between two checks of `cancel`


class LayoutStopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The time was up, or somebody cancelled. The message is for the user."""


class Unavailable(Exception):  # noqa: N818
    """An engine cannot draw this. The message says why, in a few words."""


class Deadline:
    """Tells the engines when to stop: when the time is up, or when `cancel` is set.

    Args:
        limit: Seconds from now.
        cancel: Set from another thread, it stops them at once.
    """

    def __init__(self, limit: float, cancel: threading.Event | None):
        self._limit = limit
        self._end = time.monotonic() + limit
        self._cancel = cancel

    def check(self) -> None:
        """Raises `LayoutStopped` when it is time to stop."""
        if self._cancel is not None and self._cancel.is_set():
            raise LayoutStopped(CANCELLED)
        if time.monotonic() >= self._end:
            raise LayoutStopped(TOO_LONG.format(limit=self._limit))
