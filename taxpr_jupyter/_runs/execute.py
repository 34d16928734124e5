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
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._runs.callback_errors import callback_message
from taxpr_jupyter._runs.clock import Clock, OnPhase
from taxpr_jupyter._runs.devices import device_named, devices, placed_on
from taxpr_jupyter._runs.gradients import Slopes, slopes_of
from taxpr_jupyter._runs.looked import Computed, looked_at
from taxpr_jupyter._runs.ready import Of, Ready, ReadyPrograms, Recorders, Start, start_of
from taxpr_jupyter._runs.run import LEFT, PHASES, Run
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._runs.switches import calls_out, switched_off
from taxpr_jupyter._runs.totals import Compiled
from taxpr_jupyter._stoppable import STOPPING, CancelledError, InterruptedWait
from taxpr_jupyter._text.hints import hint

T = TypeVar("T")


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
        self._recorders: Recorders = {}  # of the tags of the last run

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
            self._refuse(plan)
            target = self._target(device)
            start = self._start(plan, target)
            run = dataclasses.replace(run, key=start.key)
            computed = self._computed(plan, start, target, clock)
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

    def compiled(self, plan: Plan, device: str | None) -> Any:
        """The key of the program that `run` would run; None if `run` would compile anything."""
        try:
            self._refuse(plan)
            target = self._target(device)
            start = self._start(plan, target)
        except Exception:  # as in `run`, which says it
            return None
        ready, untouched = self._programs.get(start.key), ("untouched", target)
        if ready is None and not (start.key == untouched and self._baseline(plan, target)):
            return None
        if ready is None or not _needs_untouched(plan) or self._baseline(plan, target):
            return start.key
        off = _off(plan, start.ctx, ready) is not None
        return start.key if off or self._programs.get(untouched) else None

    def asked(self, plan: Plan, device: str | None, question: Callable[..., T]) -> T:
        """The answer of a question such as ``taxpr.watch(f)`` for the states and arguments."""
        self._refuse_shapes()
        target = self._target(device)
        with _on(target):
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

    def _refuse(self, plan: Plan) -> None:
        broken = next((a for a in plan.attached.values() if a.error), None)
        if broken is not None:
            raise PanelError(f"Nothing was run. {broken.error}")
        self._refuse_shapes()

    def _start(self, plan: Plan, target: Any) -> Start:
        with _on(target):
            start = start_of(plan, target, self._recorders)
        self._recorders = start.recorders
        return start

    def _computed(self, plan: Plan, start: Start, target: Any, clock: Clock) -> Computed:
        watched, ctx = start.watched, start.ctx
        with _on(target):
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
            whole = functools.partial(
                self._programs.ready,
                program=lambda: _injected(plan, watched),
                inputs=(args, given, ctx),
                clock=clock,
                alive=(plan.attached, plan.program),
            )
            injected = whole(start.key)
            if found is None and _needs_untouched(plan):
                off = _off(plan, ctx, injected)
                if off is None:
                    clock.expects(len(PHASES), "untouched")
                    found = self._untouched(plan, target, (args, kwargs), clock)
                else:
                    clock.expects(1, "untouched")
                    found = clock.computed(injected.call, args, kwargs, off)[0], None
                clock.program = "injected"
            first, ran = ctx, clock.times["run"]
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
                    whole(("gradient", *start.key), of=of).call, args, given, first
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
        if not self._same_states(plan):
            self._baselines.clear()
            self._slopes.clear()
            self._states = plan.states
        return (dict(plan.states), *args), kwargs

    def _same_states(self, plan: Plan) -> bool:
        """Whether the last run had the same states."""
        now, before = jax.tree.leaves(plan.states), jax.tree.leaves(dict(self._states))
        return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))

    def _baseline(self, plan: Plan, target: Any) -> bool:
        """Whether the outputs of the untouched program are known."""
        return target in self._baselines and (
            not states_of(plan.program) or self._same_states(plan)
        )

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


def _needs_untouched(plan: Plan) -> bool:
    """Whether the outputs of the untouched program may be others than the run's own."""
    return plan.rewritten or any(not one.injector.observes for one in plan.attached.values())


def _off(plan: Plan, ctx: Any, injected: Ready) -> Any:
    """Contexts that switch all injectors off; None if one has no switch."""
    attached = {site.address: site.injector for site in plan.sites if site.injector}
    # While they are off, injectors still compute: a call to the host would be made.
    computes = injected.calls_out == calls_out(plan.program) and not plan.rewritten
    return switched_off(ctx, attached) if computes else None


def _on(target: Any) -> contextlib.AbstractContextManager[Any]:
    return jax.default_device(target) if target else contextlib.nullcontext()


def _own_copy(leaf: Any) -> Any:
    """A copy, so that later writes to a NumPy array of the notebook do not change an argument."""
    return leaf.copy() if isinstance(leaf, np.ndarray) and leaf.flags.writeable else leaf


def _injected(plan: Plan, watched: Any) -> taxpr.Program:
    with noted_already():
        return dataclasses.replace(plan.edited, arranged=None).inject(watched)


def _message(error: BaseException) -> str:
    fix = hint(error)
    return f"{one_line(error)} Hint: {fix}" if fix else one_line(error)
