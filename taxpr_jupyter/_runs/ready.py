"""Compile programs ahead of time, and keep the last ones, so that new values compile nothing.

`start_of` gives the key of the program that a run is about to run. The run compiles only if no
program of this key is kept, and Live asks the same before it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax

import taxpr
from taxpr import introspect
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._runs.clock import Clock
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._runs.switches import calls_out, with_switch
from taxpr_jupyter._runs.totals import Compiled, compiled_totals
from taxpr_jupyter._tracing.closure_key import reads

Of = Callable[[Callable[..., Any]], Callable[..., Any]]
_KEPT = 8  # compiled programs of one session
_WRITES = 256  # the most values to keep of a state that is written in a while loop,
_WRITTEN_BYTES = 2**26  # and the most bytes of them
_KEPT_CTX = 2**20  # the most bytes of a first context that is kept between runs


class Recorder:
    """Records the value of a tag after its injector.

    Attributes:
        slots: How many values it keeps, as `taxpr.record` takes it.
        injector: Of `taxpr.record`.
    """

    def __init__(self, site: taxpr.program.Site, slots: int | None) -> None:
        self.slots = slots
        self.injector = taxpr.record(slots=slots)
        self._site = site
        self._ctx: Any = None

    def ctx(self) -> Any:
        """Its first context, which is always the same. Only a small one is kept."""
        if self._ctx is not None:
            return self._ctx
        made = self.injector.initial([self._site])
        if sum(leaf.nbytes for leaf in jax.tree.leaves(made)) <= _KEPT_CTX:
            self._ctx = made
        return made


Recorders = Mapping[taxpr.program.Site, Recorder]


@dataclasses.dataclass(frozen=True)
class Start:
    """The injectors and contexts at the start of a run, and the key of its program.

    Attributes:
        key: Equal for two runs of one compiled program. Numbers of injectors are not in it.
        recorders: The recorder of each tag. A tag is its `Site`, since the name of one may equal
            the address of another.
        watched: The injectors of each tag, its recorder last.
        ctx: Their first contexts, by address.
    """

    key: Any
    recorders: Recorders
    watched: Mapping[Any, list[taxpr.injectors.Injector]]
    ctx: Mapping[Any, tuple[Any, ...]]


def start_of(plan: Plan, target: Any, known: Recorders) -> Start:
    """The injectors and contexts for a run on a device, and the key of its program.

    Args:
        plan: The plan of the run.
        target: The device to move everything to; None to leave everything where it is.
        known: The recorders of the last run, whose contexts need not be made again.
    """
    written_at = {key for pairs in plan.edits.watched.values() for _, key in pairs}
    rows = [row for row in plan.sites if not row.refused]
    recorders: dict[taxpr.program.Site, Recorder] = {}
    for row in rows:
        slots, found = _slots(row) if row.key in written_at else None, known.get(row.site)
        if found is None or found.slots != slots:
            found = Recorder(row.site, slots)
        recorders[row.site] = found
    own = {row.site: _own_injectors(row) for row in rows}
    watched = {site: [*own[site], one.injector] for site, one in recorders.items()}
    ctx = {
        site.address: (*(each.initial([site]) for each in own[site]), one.ctx())
        for site, one in recorders.items()
    }
    if not watched and not plan.rewritten:
        return Start(("untouched", target), recorders, watched, ctx)
    of = target, id(plan.program), plan.tags, _structure(plan.attached, (ctx, plan.numbers))
    return Start(("injected", *of), recorders, watched, ctx)


def _slots(row: SiteRow) -> int | None:
    """The number of values of a state to keep; None for all, if their number is known."""
    if row.trips is not None:
        return None
    size = sum(x.size * getattr(x.dtype, "itemsize", 8) for x in jax.tree.leaves(row.site.avals))
    return max(1, min(_WRITES, _WRITTEN_BYTES // max(1, size)))


def _own_injectors(row: SiteRow) -> list[taxpr.injectors.Injector]:
    """The injector of a tag, if it has one that the traced program runs."""
    if row.injector is None or row.injector.edits:
        return []
    return [with_switch(row.injector, row.site)]


def _structure(attached: Mapping[str, Attached], inputs: Any) -> Any:
    """The part of the injectors that is fixed when tracing: everything but their values."""
    makers = tuple(
        (key, id(a.source), reads(a.source), tuple(sorted(a.injector.options.items())))
        for key, a in attached.items()
    )
    leaves, tree = jax.tree.flatten(inputs)
    return makers, tree, tuple(jax.typeof(leaf) for leaf in leaves)


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

    def get(self, key: Any) -> Ready | None:
        """The program of this key, if it is kept."""
        return self._kept.get(key)

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
