"""Runs and trials of a panel, on threads of their own, so that messages are still handled."""

import functools
import threading
from typing import Any

from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._errors import UnderWayError
from taxpr_jupyter._runs.run import LEFT, Run
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import CANCELLED, RUN, TRIAL, Jobs

QUICK = 0.05  # seconds of a live run that is shown together with the value that it follows
AGAIN = 0.2  # seconds until Live tries once more where the session records or answers
REST = 0.5  # seconds without another value, after which a live run is looked at as a whole


class Running:
    """Has injectors tried out, and the program run: once, or again and again while Live is on."""

    def __init__(self, graph: Graph, jobs: Jobs) -> None:
        self._graph = graph
        self._jobs = jobs
        self._device: str | None = None  # where it ran last
        self._wanted = False  # whether Live has to run once more
        self._live = False  # whether the run under way only follows a value
        self._asked = False  # whether one that was asked for comes after it

    @property
    def follows(self) -> bool:
        """Whether a live run follows each new value."""
        return self._jobs.session.live and bool(self._jobs.session.injectors)

    def try_out(self) -> None:
        """Traces what was attached."""
        jobs = self._jobs
        with jobs.lock:
            session = jobs.known()
            untried = session.untried if session else ()
            if session and untried and jobs.of(TRIAL) is None and not jobs.closed:
                work = functools.partial(self._settle, session)
                jobs.start(TRIAL, work, _tracing(session, untried[0]), said=True)

    def start(self, device: str | None = None) -> Task:
        """Runs the program; the run that is under way is not disturbed. Returns the task."""
        with self._jobs.lock:
            self._device = device
            if task := self._jobs.of(RUN):
                self._asked = self._live
                if not self._live:
                    self._jobs.say("A run is under way.")
                return task
            return self._start(live=False)

    def live(self) -> None:
        """Runs what is there now if Live is on; the run under way is followed by another one."""
        with self._jobs.lock:
            if self.follows:
                self._wanted = True
                if self._jobs.of(RUN) is None:
                    self._start(live=True)

    def another_ended(self) -> None:
        """Runs the live run that had to wait while a cell ran the session."""
        if self._wanted and self._jobs.of(RUN) is None and not self._jobs.closed:
            self.live()

    def _settle(self, session: Session, task: Task) -> None:
        def on_trial(one: Attached) -> None:
            task.label = _tracing(session, one)

        said = ""
        try:
            self._jobs.attempt(session.settle, task.cancelled, on_trial)
        except CancelledError as stopped:
            said = f"{CANCELLED} {LEFT['trace'] if stopped.left else ''}".strip()
        finally:
            with self._jobs.lock:
                current = self._jobs.end(task, self.try_out)  # what came meanwhile
                # Where a comparison traces it, there may be nothing left to stop here.
                if said or (current and task.cancelled.is_set()):
                    self._jobs.say(said or CANCELLED)

    def _start(self, live: bool) -> Task:
        self._jobs.say("")
        work = functools.partial(self._run, live)
        last = self._jobs.session.last
        if live and last is not None and last.ok and last.own < QUICK:
            # One message less: a page takes longer for each than such a run takes.
            self._graph.wait()
        # That a live run goes on could not be read before it is over.
        return self._jobs.start(RUN, work, "starting", said=not live)

    def _run(self, live: bool, task: Task) -> None:
        def on_phase(phase: Any) -> None:
            task.label = f"{phase.program} · {phase.name}"
            task.fraction = (phase.step - 1) / phase.steps

        def run_once() -> Run | None:
            try:
                asked = {"gradients": self._graph.gradients == "on"}
                more = {"live": True} if live else asked if self._graph.gradients else {}
                return self._jobs.session.run(
                    self._device, on_phase=on_phase, cancel=task.cancelled, **more
                )
            except UnderWayError:  # a cell's run
                if not live:
                    raise
                self._wanted = True
                again = threading.Timer(AGAIN, self.another_ended)
                again.daemon = True
                again.start()
                return None

        run = None
        try:
            while True:
                with self._jobs.lock:
                    self._wanted, self._live = False, live
                run = self._jobs.attempt(run_once)
                with self._jobs.lock:
                    if self._asked and not task.cancelled.is_set():
                        self._asked = live = False
                        continue
                    self._asked = False
                    wanted = self._wanted and self.follows and not task.cancelled.is_set()
                    if wanted and not self._jobs.session.running:
                        self._graph.go_on()
                        live = True
                        continue
                    self._wanted = wanted  # when the cell's run has ended
                    self._ended(task, run)
                    break
        finally:
            self._ended(task, run)
        if run is not None and run.finish:
            rest = threading.Timer(REST, self._finish, (run,))
            rest.daemon = True
            rest.start()

    def _ended(self, task: Task, run: Run | None) -> None:
        with self._jobs.lock:
            self._graph.go_on()
            if not self._jobs.end(task):
                return
            if task.cancelled.is_set() and not self._graph.message.get("error"):
                late = run is not None and not run.cancelled
                left = f"{CANCELLED} {run.left if run else ''}".strip()
                self._jobs.say("The run ended before it was cancelled." if late else left)

    def _finish(self, run: Run) -> None:
        """Shows all of a live run, unless another one has come since."""
        with self._jobs.lock:
            current = self._jobs.of(RUN) is None and not self._jobs.closed
        session = self._jobs.known()
        if current and session is not None and session.last is run:
            self._jobs.attempt(session.finish, run)


def _tracing(session: Session, one: Attached) -> str:
    names = {site.key: site.name for site in session.sites()}
    return f"tracing {one.name} at {names.get(one.key) or one.key}"
