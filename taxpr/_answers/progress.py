"""The progress of a question, and how it stops early."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from taxpr._errors import ArgumentError, a_type

_Item = TypeVar("_Item")

# A function (done, total), or False for nothing; None writes to stderr what takes longer than a
# second.
Tells = Callable[[int, int], object] | bool | None


_STAGES = contextvars.ContextVar[Callable[[str, float | None], object] | None](
    "stages", default=None
)


@contextlib.contextmanager
def stages_to(take: Callable[[str, float | None], object]) -> Generator[None, None, None]:
    """While this context is open, tell a function what a question does at the moment.

    For front ends: it hears of all questions, also of those whose ``progress`` tells another one.

    Args:
        take: Called with a few words, and with the share that is done, between 0 and 1. That is
            None where it is not known: a compiled program says nothing while it runs.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> said = []
        >>> with taxpr.introspect.stages_to(lambda words, done: said.append((words, done))):
        ...     found = taxpr.find_nan(lambda x: jnp.log(x) * 2)(0.0)
        >>> said[0]
        ('compiling and running with 3 values', None)
    """
    before = _STAGES.set(take)
    try:
        yield
    finally:
        _STAGES.reset(before)


def stage(words: str) -> None:
    """Tells `stages_to` what begins."""
    if take := _STAGES.get():
        take(words, None)


class Progress:
    """The steps of a question, which can be stopped between them.

    In its ``with``, a `KeyboardInterrupt` ends the steps; finished steps stay.

    Attributes:
        done: How many steps are done.
        stopped: Whether they were stopped.

    Example:
        >>> from taxpr._answers.progress import Progress
        >>> squares = []
        >>> with Progress("squares", 3, lambda done, total: print(done, "of", total)) as steps:
        ...     for k in steps.over(range(3)):
        ...         squares.append(k * k)
        1 of 3
        2 of 3
        3 of 3
        >>> steps.note
        ''
    """

    def __init__(self, what: str, total: int, tells: Tells = None) -> None:
        if not (tells is None or isinstance(tells, bool) or callable(tells)):
            raise ArgumentError(
                f"{what}: progress={tells!r} is {a_type(tells)}. Give a function (done, "
                "total), False for nothing, or None."
            )
        self._what, self._total, self._tells = what, total, tells
        self._begun = self._told = time.monotonic()
        self.done, self.stopped = 0, False

    @property
    def note(self) -> str:
        """A note for the answer: "" where all was done."""
        if not self.stopped:
            return ""
        return f"Stopped: {self.done} of {self._total} steps are done."

    def over(self, items: Iterable[_Item], steps: int = 1) -> Iterator[_Item]:
        """The items, each of so many steps, which are done when the next item is asked for."""
        for item in items:
            yield item
            self.done = min(self.done + steps, self._total)
            self._tell()

    def _tell(self) -> None:
        if (take := _STAGES.get()) and self._total > 1:
            take(f"{self._what}: {self.done} of {self._total}", self.done / self._total)
        if callable(self._tells):
            self._tells(self.done, self._total)
            return
        now = time.monotonic()
        if self._tells is not False and now - self._told > 1 and self.done < self._total:
            left = (now - self._begun) / self.done * (self._total - self.done)
            text = f"{self._what}: {self.done} of {self._total}, about {left:.0f} s left"
            print(text, file=sys.stderr, flush=True)
            self._told = now

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        del error, traceback
        self.stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        return self.stopped
