"""Let the kernel's interrupt stop the work of panels while no cell runs."""

import _thread
import signal
import threading
from collections.abc import Callable
from typing import Any

from taxpr_jupyter._output.shell import running_shell


class _InterruptHandler:
    """Of SIGINT, beside the one that was there before."""

    def __init__(self, stop: Callable[[], None], before: Any) -> None:
        self._stop = stop
        self.before = before

    def __call__(self, number: int, frame: Any) -> None:
        # It may come in the middle of anything, such as with a lock held that `stop` takes.
        _thread.start_new_thread(self._stop, ())
        if callable(self.before):
            self.before(number, frame)


def listen(stop: Callable[[], None]) -> None:
    """Calls ``stop``, in a thread of its own, when the kernel is interrupted between two cells.

    ipykernel takes interrupts for itself while a cell runs, puts back then what it has found, which
    ignores them, and keeps that in `saved_sigint_handler` meanwhile.
    """
    kernel: Any = getattr(running_shell(), "kernel", None)
    before = getattr(kernel, "saved_sigint_handler", None)
    if before is not None and not isinstance(before, _InterruptHandler):
        kernel.saved_sigint_handler = _InterruptHandler(stop, before)


def forget() -> None:
    """Leaves interrupts to the kernel again."""
    kernel: Any = getattr(running_shell(), "kernel", None)
    found = getattr(kernel, "saved_sigint_handler", None)
    if isinstance(found, _InterruptHandler):
        kernel.saved_sigint_handler = found.before
    now = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()  # else Python refuses
    if isinstance(now, _InterruptHandler) and in_main:
        signal.signal(signal.SIGINT, now.before)
