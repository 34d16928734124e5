"""`Task`: long work on a thread of its own, so that the kernel stays responsive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TICK = 0.25  # seconds between two reports of the elapsed time


class Task:
    """One piece of work on a daemon thread, with a second thread that reports while it goes on.

    Args:
        work: Called with this task. It looks at `cancelled` when it can and sets `label` and
            `fraction` as it gets on.
        report: Called with this task every `TICK` seconds until the work has ended.
        label: The present work of the task, in a word or two.

    Attributes:
        cancelled: An event that `cancel` sets.
        fraction: How much is done, between 0 and 1, or None when unknown.
    """

    def __init__(
        self, work: Callable[[Task], None], report: Callable[[Task], None], label: str
    ) -> None:
        self.cancelled = threading.Event()
        self.label = label
        self.fraction: float | None = None
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._work = work
        self._report = report

    @property
    def elapsed(self) -> float:
        """Seconds since the task was made."""
        return time.monotonic() - self._started

    @property
    def running(self) -> bool:
        """Whether the work still goes on."""
        return not self._ended.is_set()

    def start(self) -> None:
        """Starts both threads and returns."""
        threading.Thread(target=self._run, name=f"taxpr {self.label}", daemon=True).start()
        threading.Thread(target=self._tick, name="taxpr progress", daemon=True).start()

    def cancel(self) -> None:
        """Asks the work to stop at the next point where it can."""
        self.cancelled.set()

    def tell(self, label: str, fraction: float | None) -> None:
        """Says what the work is now, and how much of it is done."""
        self.label, self.fraction = label, fraction

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end of the work. Returns whether it has ended."""
        return self._ended.wait(timeout)

    def _run(self) -> None:
        try:
            self._work(self)
        finally:
            self._ended.set()

    def _tick(self) -> None:
        while not self._ended.wait(TICK):
            self._report(self)
