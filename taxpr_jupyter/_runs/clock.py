"""`Clock`: measure the phases of a run, report them, and stop on request."""

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from taxpr_jupyter._runs.run import PHASES, Phase
from taxpr_jupyter._stoppable import CancelledError, stoppable

OnPhase = Callable[[Phase], None]
T = TypeVar("T")


class Clock:
    """Measures phases, reports them, and stops them on request."""

    def __init__(self, on_phase: OnPhase | None, cancel: threading.Event | None) -> None:
        self.times: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.reused = True
        self.program = "untouched"
        self.name = PHASES[0]
        self._on_phase = on_phase
        self._cancel = cancel
        self._step, self._steps = 0, len(PHASES)

    def expects(self, steps: int, program: str) -> None:
        """Announce more phases, which are of this program."""
        self._steps += steps
        self.program = program

    def phase(self, name: str, work: Callable[[], T]) -> T:
        """Run and time the work of a phase; returns its result."""
        self.check()
        self._step += 1
        if self._on_phase is not None:
            self._on_phase(Phase(self.program, name, self._step, self._steps))
        start = time.perf_counter()
        try:
            return self.stoppable(name, work)
        finally:
            self.times[name] += time.perf_counter() - start

    def stoppable(self, name: str, work: Callable[[], T]) -> T:
        """Like `phase`, but `cancel` stops the work."""
        self.name = name
        stopped = self._cancel and self._cancel.is_set
        return stoppable(work, stopped, python=name not in ("compile", "run"))

    def check(self) -> None:
        """Raises if `cancel` is set."""
        if self._cancel is not None and self._cancel.is_set():
            raise CancelledError

    def computed(self, compiled: Callable[..., Any], *args: Any) -> Any:
        """The results of a compiled program, once they are computed."""
        return self.phase("run", functools.partial(_computed, compiled, args))


def _computed(compiled: Callable[..., Any], args: Sequence[Any]) -> Any:
    return jax.block_until_ready(compiled(*args))
