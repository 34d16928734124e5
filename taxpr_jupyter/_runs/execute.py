"""`Executor`: compile and run the untouched program and the one with injectors, phase by phase."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

import taxpr
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._edits.attach import noted_already
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._runs.callback_errors import callback_message
from taxpr_jupyter._runs.clock import Clock, OnPhase
from taxpr_jupyter._runs.devices import device_named, devices, placed_on
from taxpr_jupyter._runs.gradients import Slopes, slopes_of
from taxpr_jupyter._runs.looked import Computed, looked_at
from taxpr_jupyter._runs.ready import Of, ReadyPrograms
from taxpr_jupyter._runs.run import LEFT, PHASES, Run
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._runs.switches import calls_out, switched_off, with_switch
from taxpr_jupyter._runs.totals import Compiled
from taxpr_jupyter._stoppable import STOPPING, CancelledError, InterruptedWait
from taxpr_jupyter._text.hints import hint
from taxpr_jupyter._tracing.closure_key import reads

T = TypeVar("T")

_WRITES = 256  # the most values to keep of a state that is written in a while loop,
_WRITTEN_BYTES = 2**26  # and the most bytes of them
_KEPT_CTX = 2**20  # the most bytes of a first context that is kept between runs


class Executor:
    """Runs one call. Compiled programs are cached, so that new parameter values compile nothing."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._inputs = jax.tree.map(_own_copy, (tuple(args), dict(kwargs)))
        # The outputs and totals of the untouched program by device, the most recent last.
        self._baselines: dict[Any, tuple[Any, Compiled | None]] = {}
        self._seconds: dict[Any, float] = {}  # that the untouched program took, if it ran alone
        self._slopes: dict[Any, list[Any]] = {}  # the gradients of the untouched program
        self._states: Mapping[str, Any] = {}  # of these outputs
        self._programs = ReadyPrograms()
        self._recorders: dict[Any, _Recorder] = {}  # of the tags of the last run

    def run(
        self,
        plan: Plan,
        device: str | None,
        on_phase: OnPhase | None,
        cancel: threading.Event | None,
        live: bool = False,
    ) -> Run:
        """Runs both programs. Errors of programs and injectors are stored in the run.

        ``live`` postpones the comparison of results to `Run.whole`.
        """
        clock = Clock(on_phase, cancel)
        run = Run(
            plan.number,
            device or next(iter(devices())),
            "" if live else plan.write_code(),
            plan.attached,
            _names(plan.sites),
            program=plan.program,
            edits=plan.edits,
            edition=plan.edition,
            write_code=plan.write_code if live else None,
        )
        try:
            clock.check()
            computed = self._computed(plan, device, clock)
            look = functools.partial(looked_at, plan, run, computed)

            def whole() -> Run:
                return dataclasses.replace(look(), code=plan.write_code(), write_code=None)

            run = clock.stoppable("look", lambda: look(live=True, finish=whole) if live else look())
        except CancelledError as stopped:
            left = LEFT[clock.name] if stopped.left else ""
            run = dataclasses.replace(run, cancelled=True, left=left)
        except InterruptedWait as stopped:
            words = [LEFT[clock.name]] if stopped.left else []
            raise KeyboardInterrupt(*words) from None
        except STOPPING:
            raise
        except BaseException as error:  # a function may call `exit()`
            message = callback_message(error, plan.sites) or _message(error)
            run = dataclasses.replace(run, error=message, exception=error)
        if run.finish is None and not run.code:  # a live run that was not completed
            run = dataclasses.replace(run, code=plan.write_code())
        return dataclasses.replace(run, times=clock.times, reused=clock.reused)

    def asked(self, plan: Plan, device: str | None, question: Callable[..., T]) -> T:
        """The answer of a question such as ``taxpr.watch(f)`` for the states and arguments."""
        self._refuse_shapes()
        target = self._target(device)
        with jax.default_device(target) if target else contextlib.nullcontext():
            inputs = self._inputs_with(plan)
            args, kwargs = jax.device_put(inputs, target) if target else inputs
            return question(*args, **kwargs, **plan.numbers)

    def trimmed(self, kept_bytes: float) -> list[Any]:
        """Keep untouched outputs of the last device, and of others up to a size. Returns them."""
        for target, (outputs, _) in list(self._baselines.items())[-2::-1]:
            kept_bytes -= sum(leaf.nbytes for leaf in jax.tree.leaves(outputs))
            if kept_bytes < 0:
                self._baselines.pop(target, None)
        return [outputs for outputs, _ in self._baselines.values()]

    def release(self) -> None:
        """Drop everything that another run can make again."""
        self._baselines, self._slopes, self._programs = {}, {}, ReadyPrograms()
        self._recorders = {}

    def _computed(self, plan: Plan, device: str | None, clock: Clock) -> Computed:
        broken = next((a for a in plan.attached.values() if a.error), None)
        if broken is not None:
            raise PanelError(f"Nothing was run. {broken.error}")
        self._refuse_shapes()
        target = self._target(device)
        # Use the site itself: the name of a tag may equal the address of another one.
        written_at = {key for pairs in plan.edits.watched.values() for _, key in pairs}
        rows = [row for row in plan.sites if not row.refused]
        recorders = self._recorders = {
            row.site: self._recorder(row.site, _slots(row) if row.key in written_at else None)
            for row in rows
        }
        own = {row.site: _own_injectors(row) for row in rows}
        watched = {site: [*own[site], one.injector] for site, one in recorders.items()}
        ctx = {
            site.address: (*(each.initial([site]) for each in own[site]), one.ctx())
            for site, one in recorders.items()
        }
        with jax.default_device(target) if target else contextlib.nullcontext():
            inputs = self._inputs_with(plan)
            args, kwargs = jax.device_put(inputs, target) if target else inputs
            found = self._baselines.pop(target, None)
            if found is not None:
                self._baselines[target] = found  # the most recent is the last
            if not watched and not plan.rewritten:
                if found is None:
                    found = self._untouched(plan, target, (args, kwargs), clock)
                    self._seconds[target] = clock.times["run"]
                self._baselines[target] = found
                outputs, of_untouched = found
                slopes = self._gradients(plan, target, (args, kwargs), clock)
                xla = {"untouched": of_untouched}
                own, called = self._seconds.get(target, 0.0), calls_out(plan.program)
                given = args, kwargs
                return Computed(given, outputs, outputs, {}, {}, xla, slopes, own, called)
            changes = bool(plan.attached) or plan.rewritten
            clock.program = "injected" if changes else "untouched"
            ctx = jax.device_put(ctx, target) if target else ctx
            numbers = jax.device_put(plan.numbers, target) if target else plan.numbers
            given = {**kwargs, **numbers}
            key = (target, id(plan.program), plan.tags, _structure(plan.attached, ctx))
            whole = functools.partial(
                self._programs.ready,
                program=lambda: _injected(plan, watched),
                inputs=(args, given, ctx),
                clock=clock,
                alive=(plan.attached, plan.program),
            )
            injected = whole(("injected", *key))
            if found is None and (
                plan.rewritten or any(not one.injector.observes for one in plan.attached.values())
            ):
                attached = {site.address: site.injector for site in plan.sites if site.injector}
                # While they are off, injectors still compute: a call to the host would be made.
                computes = injected.calls_out == calls_out(plan.program) and not plan.rewritten
                off = switched_off(ctx, attached) if computes else None
                if off is None:
                    clock.expects(len(PHASES), "untouched")
                    found = self._untouched(plan, target, (args, kwargs), clock)
                else:
                    clock.expects(1, "untouched")
                    found = clock.computed(injected.call, args, kwargs, off)[0], None
                clock.program = "injected"
            start, ran = ctx, clock.times["run"]
            outputs, ctx = clock.computed(injected.call, args, given, ctx)
            own = clock.times["run"] - ran
            # Without an injector that changes values, these are the untouched outputs, too.
            found = found or (outputs, None if changes else injected.totals)
            self._baselines[target] = found
            slopes = self._gradients(
                plan,
                target,
                (args, kwargs),
                clock,
                lambda of: clock.computed(
                    whole(("gradient", *key), of=of).call, args, given, start
                ),
            )
        baseline, of_untouched = found
        xla = {"untouched": of_untouched}
        if changes:
            xla["injected"] = injected.totals
        called = injected.calls_out
        return Computed((args, given), baseline, outputs, ctx, watched, xla, slopes, own, called)

    def _untouched(
        self, plan: Plan, target: Any, inputs: tuple[Any, ...], clock: Clock
    ) -> tuple[Any, Compiled | None]:
        """The outputs and totals of a program of its own, without tags and injectors."""
        ready = self._programs.ready(("untouched", target), lambda: plan.untouched, inputs, clock)
        return clock.computed(ready.call, *inputs), ready.totals

    def _gradients(
        self,
        plan: Plan,
        target: Any,
        inputs: tuple[Any, ...],
        clock: Clock,
        changed: Callable[[Of], list[Any]] | None = None,
    ) -> Slopes:
        """The gradients of the untouched program, and of the program with injectors and changes.

        Args:
            plan: The plan of the run.
            target: The device.
            inputs: The positional and keyword arguments.
            clock: Measures it.
            changed: Computes the gradients of the program with injectors and changes; None without
                any.
        """
        if not plan.gradients:
            return Slopes()
        found = slopes_of(plan.untouched, plan.program)
        if found.note:
            return found
        try:
            clock.expects(len(PHASES) * (1 + (changed is not None)), "gradient")
            if target not in self._slopes:
                key, of = ("gradient", target), found.of(found.number)
                ready = self._programs.ready(key, lambda: plan.untouched, inputs, clock, of=of)
                self._slopes[target] = clock.computed(ready.call, *inputs)
            before = after = self._slopes[target]
            if changed is not None:
                after = changed(found.of(found.changed))
        except (CancelledError, InterruptedWait, *STOPPING):
            raise
        except Exception as error:  # JAX has no derivative of a while loop, say
            return Slopes(note=one_line(error))
        return dataclasses.replace(found, before=before, after=after)

    def _recorder(self, site: taxpr.program.Site, slots: int | None) -> _Recorder:
        """The recorder of a tag, if possible the one from the last run."""
        found = self._recorders.get(site)
        return found if found is not None and found.slots == slots else _Recorder(site, slots)

    def _refuse_shapes(self) -> None:
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(self._inputs)):
            raise PanelError(
                "Nothing was run: some arguments are only shapes (jax.ShapeDtypeStruct)"
            )

    def given(self, plan: Plan) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The states and the arguments, for a question that runs nothing."""
        args, kwargs = self._inputs
        states = (dict(plan.states),) if states_of(plan.program) else ()
        return (*states, *args), {**kwargs, **plan.numbers}

    def _inputs_with(self, plan: Plan) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The states and the arguments. Forgets untouched outputs if the states have changed."""
        args, kwargs = self._inputs
        if not states_of(plan.program):
            return args, kwargs
        now, before = jax.tree.leaves(plan.states), jax.tree.leaves(dict(self._states))
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            self._baselines.clear()
            self._slopes.clear()
            self._states = plan.states
        return (dict(plan.states), *args), kwargs

    def _target(self, device: str | None) -> Any:
        """The device to move everything to; None to leave everything where it is."""
        if device is None:
            return None
        found = device_named(device)
        spread = any(len(placed_on(leaf)) > 1 for leaf in jax.tree.leaves(self._inputs))
        return None if spread and device == next(iter(devices())) else found


def _names(sites: Iterable[SiteRow]) -> dict[str, str]:
    """The names of the tags that have an injector, by key; with the key where two have one."""
    names = {site.key: site.name or site.key for site in sites if site.injector}
    times = collections.Counter(names.values())
    return {key: name if times[name] == 1 else f"{name}, {key}" for key, name in names.items()}


def _own_copy(leaf: Any) -> Any:
    """A copy, so that later writes to a NumPy array of the notebook do not change an argument."""
    return leaf.copy() if isinstance(leaf, np.ndarray) and leaf.flags.writeable else leaf


def _injected(plan: Plan, watched: Any) -> taxpr.Program:
    with noted_already():
        return dataclasses.replace(plan.edited, arranged=None).inject(watched)


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


class _Recorder:
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


def _structure(attached: Mapping[str, Attached], ctx: Any) -> Any:
    """The part of the injectors that is fixed when tracing: everything but their values."""
    makers = tuple(
        (key, id(a.source), reads(a.source), tuple(sorted(a.injector.options.items())))
        for key, a in attached.items()
    )
    leaves, tree = jax.tree.flatten(ctx)
    return makers, tree, tuple(jax.typeof(leaf) for leaf in leaves)


def _message(error: BaseException) -> str:
    fix = hint(error)
    return f"{one_line(error)} Hint: {fix}" if fix else one_line(error)
