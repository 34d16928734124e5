"""The part of a session that runs: one run at a time, beside the untouched program."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._errors import PanelError, UnderWayError, one_line
from taxpr_jupyter._runs.clock import OnPhase
from taxpr_jupyter._runs.devices import devices
from taxpr_jupyter._runs.execute import Executor
from taxpr_jupyter._runs.gradients import is_loss
from taxpr_jupyter._runs.released import Released, summary_of, trimmed
from taxpr_jupyter._runs.run import LEFT, PHASES, Phase, Run
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._runs.switches import calls_out
from taxpr_jupyter._session.kept_runs import KeptRuns
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._session.trials import Trials
from taxpr_jupyter._stoppable import CancelledError, stoppable
from taxpr_jupyter._store.states import States
from taxpr_jupyter._store.store import Store

T = TypeVar("T")

_KEPT = 50  # runs without a name
_SOON = 0.05  # seconds until a caller that waits for a live run looks again
_WHOLE = 10  # runs that keep arrays, as far as there is room for them


@dataclasses.dataclass(eq=False, repr=False)
class Runner:
    """Runs the program, and keeps the last runs.

    Attributes:
        kept: The last runs, oldest first.
        count: The number of the last run.
    """

    _store: Store
    _trials: Trials
    _states: States
    _renderer: Renderer
    _executor: Executor
    _device: str | None
    _kept_bytes: float
    kept: tuple[Run, ...] = dataclasses.field(default=(), init=False)
    count: int = dataclasses.field(default=0, init=False)
    _ran_on: str | None = dataclasses.field(default=None, init=False)
    _under_way: threading.Lock = dataclasses.field(default_factory=threading.Lock, init=False)
    _follows: bool = dataclasses.field(default=False, init=False)  # whether that is a live run
    _runs_on: int = dataclasses.field(default=0, init=False)  # the thread

    def __post_init__(self) -> None:
        self._ran_on = self._device
        _checked_bytes(self._kept_bytes)

    def devices(self) -> list[str]:
        """Where `run` can run, the default first."""
        return sorted(devices(), key=lambda name: name != self._device)

    @property
    def runs(self) -> KeptRuns:
        """The runs that are kept, oldest first: to be compared, named, restored, and exported.

        All with a name, and the last 50; see `kept_bytes` for the values that older ones keep. A
        run is ``session.runs["run 3"]``, or ``session.runs[-1]``; see `KeptRuns`.
        """
        return KeptRuns(self.kept, self._store, self._rename)

    @property
    def last(self) -> Run | None:
        """The last run, or None."""
        runs = self.kept
        return runs[-1] if runs else None

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._under_way.locked()

    @property
    def changes_values(self) -> bool:
        """Whether something changes what is computed: a line, or an injector that does."""
        attached = self._store.edits.attached.values()
        rewritten = self._store.program is not self._store.untouched
        return rewritten or any(not (one.idle or one.injector.observes) for one in attached)

    @property
    def differentiable(self) -> bool:
        """Whether `run` compares gradients, too, unless told otherwise."""
        program = self._store.program
        rewritten = program is not self._store.untouched
        return rewritten and is_loss(self._store.untouched) and not calls_out(program)

    @property
    def compiled(self) -> Any:
        """The key of the program that a live run would run; None if it would compile anything."""
        with self._store.lock:
            if not self._trials.settled:
                return None
            return self._executor.compiled(self._plan(again=True), self._ran_on)

    @property
    def stale(self) -> bool:
        """Whether tags, injectors, their values or states were changed after the last run began."""
        last = self.last
        return last is not None and last.edition != self._store.edition

    @property
    def kept_bytes(self) -> float:
        """How large the results of the runs before the last one may be, together.

        The last run that came to its end keeps all, every run its texts, statistics and
        differences, and the last 10 runs arrays of up to 16 KiB. The other arrays of earlier runs
        are released, the oldest first: a placeholder then says how to get them again. A `Run` that
        you hold yourself stays unchanged.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(jnp.sin, (jnp.ones((100, 100)),), kept_bytes=0)
            >>> attached = session.attach("0:sin", "scale", factor=0.5)
            >>> first, second = session.run(), session.run()
            >>> session.runs[0].outputs
            <f32[100,100] of run 1, released: print(run.code) shows how to have it again>
        """
        return self._kept_bytes

    @kept_bytes.setter
    def kept_bytes(self, number: float) -> None:
        with self._store.change("values"):
            self._kept_bytes = _checked_bytes(number)
            self._trim()

    def release(self) -> None:
        """Frees large arrays of all runs, cached results and compiled programs.

        The next run makes them again. A cell that is run again does this to its old session.
        """
        with self._store.lock:
            self._executor.release()
            self.kept = tuple(trimmed(self.kept, -1, keep_last=False))
        self._store.tell("live")

    def run(
        self,
        device: str | None = None,
        on_phase: OnPhase | None = None,
        cancel: threading.Event | None = None,
        live: bool = False,
        gradients: bool | None = None,
    ) -> Run:
        """Runs the program with the injectors, beside the untouched program.

        The untouched program runs once per device, with its debug prints and callbacks, since
        the arguments of a session never change; later runs compare with those outputs. It runs
        again where they were let go of, see `kept_bytes` and `release`. With nothing attached one
        program runs, which records its tags and is the untouched one, too.

        An error in the program or in an injector does not raise: it is in `Run.error`, and
        `Run.exception` is the exception itself.

        Args:
            device: One of `devices`; by default where JAX would run it, and with ``live`` where the
                run before ran.
            on_phase: Called before each phase.
            cancel: Set it from another thread to stop within a second. XLA goes on with a
                program that it runs, and what comes of that is thrown away; see `Run.left`. So it
                is with the kernel's interrupt, which raises `KeyboardInterrupt`.
            live: Only glance at the results, for an answer at once: no records, no code, and no
                comparison of arrays; `Run.whole` makes up for it. Such a run takes the place and
                the number of the live one before it.
            gradients: Whether to compare the gradients of the first result that is a single float,
                by all arguments that are floats, too. Both programs are compiled and run once more
                for that. None does so where the source was changed, the program returns such a
                result alone, as a loss does, and calls nothing on the host. Never with ``live``.

        Returns:
            Outputs with and without the injectors, differences, records of the tags, times, what
            became of states. The user's own states stay as they are, see `write_states`.

        Raises:
            PanelError: A run is under way. One that only follows a new value is waited for.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.0,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> run = session.run()
            >>> print(run.baseline, run.outputs)
            1.0 3.0
        """
        if not live:
            self._store.steps.end()
        with self._alone(live, cancel):
            last = self.last
            again = live and last is not None and last.live and not last.name
            left = self._settled(on_phase, cancel)
            plan = dataclasses.replace(
                self._plan(again),
                gradients=not live and (self.differentiable if gradients is None else gradients),
            )
            self._ran_on = device or (self._ran_on if live else self._device)
            run = self._executor.run(plan, self._ran_on, on_phase, cancel, live)
            run = dataclasses.replace(run, left=run.left or left)
        with self._store.change("run"):
            if again and self.kept[-1].name:  # it got one meanwhile
                again, self.count = False, self.count + 1
                run = dataclasses.replace(run, number=self.count)
            self.kept = (*(self.kept[:-1] if again else self.kept), run)
            if not again:  # else those before it are trimmed
                self._trim()
        divided = {one.address: one.division for one in run.divided}
        if run.ok and self._renderer.note_results(plan.program, divided):
            self._store.tell("divided")
        return run

    def asked(
        self,
        question: Callable[[Plan], Callable[..., T]],
        device: str | None,
        cancel: threading.Event | None,
    ) -> T:
        """The answer of a question for the states and arguments.

        Args:
            question: Gives a function of these.
            device: One of `devices`; by default where JAX would run it.
            cancel: As for `run`.

        Raises:
            PanelError: A run is under way, or the question cannot be asked.
            CancelledError: ``cancel`` was set.
        """

        def ask() -> T:
            return self._executor.asked(plan, device or self._device, question(plan))

        with self._alone(cancel=cancel):
            plan = self._plan(again=True)
            try:
                return stoppable(ask, cancel and cancel.is_set, python=False)
            except taxpr.TaxprError as error:
                raise PanelError(one_line(error)) from error

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The states and arguments of the program as it is, for a question that runs nothing."""
        return self._executor.given(self._plan(again=True))

    def finish(self, run: Run) -> Run:
        """Adds all records and differences to a live run, and keeps it in its place; see `run`.

        Args:
            run: One that ``run(live=True)`` returned.
        """
        whole = run.whole()
        with self._store.change("run"):
            if whole is not run and self.last is run:
                self.kept = (*self.kept[:-1], whole)
                self._trim()
        return whole

    def write_states(self) -> dict[str, Any]:
        """Sets the user's own states to the final states of the last run, with injectors.

        A run itself never changes them.

        Returns:
            The values, by name.

        Raises:
            PanelError: If there is no run that came to its end, or nothing that holds the states.
        """
        with self._store.change("states"):
            last = self.last
            if last is None or not last.ok or not last.states:
                raise PanelError("There is no run with states whose values could be written")
            pure = self._states.pure
            assert pure is not None
            if pure.write is None:
                raise PanelError(
                    f"States of {pure.library} are in no object that could be written to: "
                    "use `session.last.final_states`"
                )
            values = dict(last.final_states)
            if any(isinstance(leaf, Released) for leaf in jax.tree.leaves(values)):
                raise PanelError("The last values of the states were released: run again first")
            pure.write(values)
            return values

    # ---- within ------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self, live: bool = False, cancel: threading.Event | None = None) -> Iterator[None]:
        free, here = self._under_way.acquire(blocking=False), threading.get_ident()
        while not free:
            # Nobody asked for a live run, and it is short: who asks for another waits for it.
            stopped = cancel is not None and cancel.is_set()
            if live or stopped or not self._follows or self._runs_on == here:
                raise UnderWayError("A run is under way: wait for it, or cancel it")
            free = self._under_way.acquire(timeout=_SOON)
        self._follows, self._runs_on = live, here
        try:
            yield
        finally:
            self._under_way.release()

    def _trim(self) -> None:
        kept = self._executor.trimmed(self._kept_bytes)
        few = [run for run in self.kept[:-_KEPT] if run.name] + list(self.kept[-_KEPT:])
        new = trimmed(few[-_WHOLE:], self._kept_bytes, kept)
        self.kept = (*map(summary_of, few[:-_WHOLE]), *new)

    def _rename(self, run: Run, name: str) -> None:
        with self._store.change("named"):
            self.kept = tuple(
                dataclasses.replace(one.whole(), name=name) if one.number == run.number else one
                for one in self.kept
            )

    def _settled(self, on_phase: OnPhase | None, cancel: threading.Event | None) -> str:
        """Tries out attached injectors; if cancelled, returns the work that goes on, in words."""
        self._trials.refresh()

        def on_trial(attached: Attached) -> None:
            del attached
            if on_phase is not None:
                on_phase(Phase("injected", "trace", 1, len(PHASES)))

        try:
            self._trials.settle(cancel, on_trial)
        except CancelledError as stopped:
            return LEFT["trace"] if stopped.left else ""
        return ""

    def _plan(self, again: bool) -> Plan:
        with self._store.lock:
            self.count += not again
            return Plan(
                number=self.count,
                edition=self._store.edition,
                untouched=self._store.untouched,
                program=self._store.program,
                edits=self._store.edits,
                edited=self._store.edited.program,
                sites=self._store.edited.acting,
                write_code=self._renderer.coding(),
                states=self._states.initial_states,
            )


def _checked_bytes(number: float) -> float:
    """The number itself.

    Raises:
        PanelError: It is no number of bytes.
    """
    if isinstance(number, bool) or not isinstance(number, numbers.Real) or not number >= 0:
        raise PanelError(
            f"kept_bytes is a number of bytes, such as 2**28, 0, or math.inf: not {number!r}"
        )
    return number
