"""Compile programs ahead of time, and keep the last ones, so that new values compile nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

import taxpr
from taxpr import introspect
from taxpr_jupyter._runs.clock import Clock
from taxpr_jupyter._runs.switches import calls_out
from taxpr_jupyter._runs.totals import Compiled, compiled_totals

Of = Callable[[Callable[..., Any]], Callable[..., Any]]
_KEPT = 8  # compiled programs of one session


@dataclasses.dataclass(frozen=True)
class Ready:
    """A compiled program, XLA's totals, its calls to the host, and objects to keep alive."""

    call: Any
    totals: Compiled | None
    calls_out: int
    alive: Any


class ReadyPrograms:
    """The compiled programs of a session."""

    def __init__(self) -> None:
        self._kept = introspect.Recent[Ready](_KEPT)

    def ready(
        self,
        key: Any,
        program: Callable[[], taxpr.Program],
        inputs: tuple[Any, ...],
        clock: Clock,
        alive: Any = None,
        of: Of | None = None,
    ) -> Ready:
        """The program, or the result of ``of`` on it, compiled ahead of time for these inputs.

        ``alive`` is kept with it, because the key contains ids of its objects.
        """

        def make() -> Ready:
            clock.reused = False
            made, traced = clock.phase("trace", lambda: _traced(program(), inputs, of))
            lowered = clock.phase("lower", traced.lower)
            compiled = clock.phase("compile", lowered.compile)
            return Ready(compiled, compiled_totals(compiled), calls_out(made), alive)

        return self._kept.once(key, make)


def _traced(
    program: taxpr.Program, inputs: tuple[Any, ...], of: Of | None
) -> tuple[taxpr.Program, Any]:
    call = _called(program)
    return program, jax.jit(call if of is None else of(call)).trace(*inputs)


def _called(program: taxpr.Program) -> Callable[..., Any]:
    """The program as a function of (args, kwargs) or (args, kwargs, ctx), of arrays alone."""
    program = dataclasses.replace(program, arranged=None)

    def call(args: Any, kwargs: Any, *ctx: Any) -> Any:
        return program(*ctx, *args, **kwargs)

    call.__name__ = program.name
    return call
