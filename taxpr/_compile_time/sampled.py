"""Find the functions that are slow to trace: a thread looks every few milliseconds."""

import collections
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from taxpr._compile_time.parts import function_name
from taxpr._source.files import is_library_file

_T = TypeVar("_T")
_EVERY = 0.002  # seconds

# The file and the qualified name of a function of the user's; None where none was running.
Function = tuple[str, str] | None


class Sampled(NamedTuple):
    """How long something took, and which functions of the user's were running.

    Attributes:
        seconds: How long it took.
        counts: How often each function was the innermost one of the user's.
    """

    seconds: float
    counts: collections.Counter[Function]

    def of(self, file: str, function: str) -> float:
        """The seconds of a function, with the libraries that it called."""
        total = sum(self.counts.values())
        return self.seconds * self.counts[file, function] / total if total else 0.0


NOTHING = Sampled(0.0, collections.Counter())


def sampled(run: Callable[[], _T]) -> tuple[_T, Sampled]:
    """Run something, and look which functions of the user's are running."""
    counts: collections.Counter[Function] = collections.Counter()
    over = threading.Event()
    here, own = threading.get_ident(), sys._getframe()  # pyright: ignore[reportPrivateUsage]

    def look() -> None:
        while not over.wait(_EVERY):
            frames: Any = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
            counts[_function(frames.get(here), own)] += 1

    thread = threading.Thread(target=look, name="taxpr samples", daemon=True)
    thread.start()
    begun = time.perf_counter()
    try:
        result = run()
    finally:
        seconds = time.perf_counter() - begun
        over.set()
        thread.join()
    return result, Sampled(seconds, counts)


def _function(frame: FrameType | None, until: FrameType) -> Function:
    """The innermost function of the user's that is running, of those that were called since."""
    while frame is not None and frame is not until:
        if not is_library_file(frame.f_code.co_filename):
            return frame.f_code.co_filename, function_name(frame.f_code.co_qualname)
        frame = frame.f_back
    return None
