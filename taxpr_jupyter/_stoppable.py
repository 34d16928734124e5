"""`stoppable`: run work that an event or the kernel's interrupt can stop within a second.

Python code stops at its next step. Other work, such as an XLA program, cannot be stopped: then only
the wait for it ends, and its result is discarded.
"""

import contextvars
import ctypes
import functools
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from taxpr import introspect

POLL = 0.05  # seconds between two looks at who wants it to stop
GRACE = 0.7  # seconds in which it may end, once it is told to stop
AGAIN = 0.2  # seconds after which it is told once more, since code may pass over an exception

T = TypeVar("T")


class CancelledError(Exception):
    """The work was asked to stop.

    Attributes:
        left: Whether it goes on all the same, since nothing can stop it.
    """

    def __init__(self, left: bool = False) -> None:
        super().__init__("cancelled")
        self.left = left


class InterruptedWait(KeyboardInterrupt):
    """The interrupt that ended a wait.

    Attributes:
        left: As for `CancelledError`.
    """

    def __init__(self, left: bool) -> None:
        super().__init__()
        self.left = left


class _Stop(SystemExit):
    """Raised in the thread of the work. No error: threads end silently by this one."""


STOPPING = (KeyboardInterrupt, _Stop)  # no errors of what is stopped by them


def stoppable(
    work: Callable[[], T], stopped: Callable[[], bool] | None = None, *, python: bool = True
) -> T:
    """Run work, and return its result.

    The work runs on a thread of its own if that is needed to stop it: if ``stopped`` is given, or
    if it is not Python and would delay an interrupt of the main thread.

    Args:
        work: What to do.
        stopped: Asked again and again whether to stop.
        python: Whether it is Python all through.

    Raises:
        CancelledError: ``stopped`` said so.
        InterruptedWait: The kernel was interrupted while this waited.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if stopped is None and (python or not in_main):
        return work()
    worker = _Worker(work)
    try:
        worker.start()  # a busy machine takes its time, and an interrupt may come meanwhile
        while not worker.ended.wait(POLL):
            if stopped is not None and stopped():
                raise CancelledError(not worker.stop())
    except KeyboardInterrupt:
        raise InterruptedWait(not worker.stop()) from None
    return worker.result()


class _Worker(Generic[T]):
    """Work on a daemon thread, with the context and the settings of JAX of the one that asks."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.ended = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        run = functools.partial(contextvars.copy_context().run, self._run)
        # The work is an argument and in no closure: an error keeps its frames, and these, since
        # Python 3.13 also when they are cleared, their functions.
        self._thread = threading.Thread(
            target=run, args=(introspect.with_settings(_done), work), name="taxpr work", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def result(self) -> T:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._result[0]
        finally:
            del error  # else it would hold itself, by its traceback

    def stop(self) -> bool:
        """Tells the thread to stop; returns whether it has ended, or never began."""
        if self._thread.ident is None:
            return True
        end = time.monotonic() + GRACE
        while time.monotonic() < end and self._thread.is_alive():
            _raise_in(self._thread, _Stop)
            self.ended.wait(AGAIN)
        return self.ended.is_set()

    def _run(self, done: Callable[[Callable[[], T]], T], work: Callable[[], T]) -> None:
        try:
            self._result.append(done(work))
        except BaseException as error:  # it is raised where it was asked for
            self._error = error
        finally:
            self.ended.set()


def _done(work: Callable[[], T]) -> T:
    return work()


def _raise_in(thread: threading.Thread, kind: type[BaseException]) -> None:
    """Raises an exception in another thread, before its next step of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(kind)
    )
