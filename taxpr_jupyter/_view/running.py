"""Runs and trials of a panel, on threads of their own, so that messages are still handled.

A run that was asked for and one that follows a new value are two jobs. Which of them is first is
the session's to say: see `Session.run`.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._errors import UnderWayError
from taxpr_jupyter._runs.run import LEFT, Run
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import CANCELLED, EDITING, LIVE, RUN, TRIAL, Jobs

QUICK = 0.05  # seconds of a live run that is shown together with the value that it follows
AGAIN = 0.2  # seconds until Live tries once more where the session records or answers
REST = 0.5  # seconds without another value, after which a live run is looked at as a whole


class Running:
    """Has injectors tried out, and the program run: once, or again and again while Live is on."""

    def __init__(self, graph: Graph, jobs: Jobs) -> None:
        self._graph = graph
        self._jobs = jobs
        self._wanted = False  # whether Live has to run once more
        self._handler: int | None = None  # the thread that handles a message
        self._due = False  # whether a quick live run begins when the message is handled

    @property
    def follows(self) -> bool:
        """Whether a live run follows each new value."""
        return self._jobs.session.live and bool(self._jobs.session.injectors)

    @property
    def following(self) -> bool:
        """Whether a live run is under way, or is about to be."""
        return self._due or self._jobs.of(LIVE) is not None

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """While a message is handled: a quick live run begins after that, and is waited for.

        Two threads of Python that compute at once take turns of 5 ms, which is longer than all that
        a step of a slider needs. One that is slower than it was goes on by itself.
        """
        self._handler = threading.get_ident()
        try:
            yield
        finally:
            self._handler, task = None, None
            with self._jobs.lock:
                if self._due:
                    self._due, task = False, self._begin()
            if task is not None:
                task.wait(QUICK)

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
            if task := self._jobs.of(RUN):
                self._jobs.say("A run is under way.")
                return task
            self._jobs.say("")
            return self._jobs.start(
                RUN, functools.partial(self._run, device), "starting", said=True
            )

    def live(self, follows: bool | None = None) -> None:
        """Runs what is there now if Live is on; the run under way is followed by another one.

        Args:
            follows: The value of `follows`, if the caller knows it: it takes a while to find out.
        """
        with self._jobs.lock:
            self._wanted = self.follows if follows is None else follows
            if self._wanted and not self._jobs.of(RUN) and not self.following:
                self._jobs.say("")
                last = self._jobs.session.last
                if last is not None and last.ok and last.own < QUICK:
                    # One message less: a page takes longer for each than such a run takes.
                    self._graph.wait()
                    self._due = self._handler == threading.get_ident()
                if not self._due:
                    self._begin()

    def _begin(self) -> Task:
        return self._jobs.start(LIVE, self._follow, "starting")

    def another_ended(self) -> None:
        """Runs the live run that had to wait for a run of a cell, or for one asked for here."""
        if self._wanted and not self._jobs.closed:
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

    def _run(self, device: str | None, task: Task) -> None:
        asked = {"gradients": self._graph.gradients == "on"} if self._graph.gradients else {}
        run = None
        try:
            # Who types a line and then presses Run wants to run that line, and no older one.
            if self._edited(task):
                run = self._jobs.attempt(self._once, task, device=device, **asked)
        finally:
            self._ended(task, run, self.another_ended)

    def _edited(self, task: Task) -> bool:
        """Waits for an edit of the source that is under way; whether there is no mistake in it."""
        waited = editing = self._jobs.of(EDITING)
        while editing is not None and not task.cancelled.is_set():
            task.label = "waiting for the edited source"
            if editing.wait(AGAIN):
                editing = self._jobs.of(EDITING)
        return not (waited and self._graph.source_edits.get("mistake"))

    def _follow(self, task: Task) -> None:
        late = False  # whether it has to wait for another run

        def once() -> Run | None:
            nonlocal late
            late = False
            try:
                return self._once(task, live=True)
            except UnderWayError:  # one that was asked for is first
                self._wanted = late = True
                later = threading.Timer(AGAIN, self.another_ended)
                later.daemon = True
                later.start()
                return None

        run, again = None, True
        try:
            while again:
                with self._jobs.lock:
                    self._wanted = False
                run = self._jobs.attempt(once)
                with self._jobs.lock:
                    self._wanted &= self.follows and not task.cancelled.is_set()
                    first = self._jobs.of(RUN) or self._jobs.session.running
                    again = self._wanted and not first
                    self._graph.go_on()
        finally:
            # Also what came after `again` was decided is run.
            self._ended(task, run, None if late else self.another_ended)
        if run is not None and run.finish:
            rest = threading.Timer(REST, self._finish, (run,))
            rest.daemon = True
            rest.start()

    def _once(self, task: Task, **choice: Any) -> Run:
        def on_phase(phase: Any) -> None:
            task.label = f"{phase.program} · {phase.name}"
            task.fraction = (phase.step - 1) / phase.steps

        return self._jobs.session.run(on_phase=on_phase, cancel=task.cancelled, **choice)

    def _ended(self, task: Task, run: Run | None, then: Callable[[], None] | None = None) -> None:
        with self._jobs.lock:
            self._graph.go_on()
            if not self._jobs.end(task, then):
                return
            if task.cancelled.is_set() and not self._graph.message.get("error"):
                late = run is not None and not run.cancelled
                left = f"{CANCELLED} {run.left if run else ''}".strip()
                self._jobs.say("The run ended before it was cancelled." if late else left)

    def _finish(self, run: Run) -> None:
        """Shows all of a live run, unless another one has come since."""
        with self._jobs.lock:
            busy = self._jobs.of(RUN) or self._jobs.of(LIVE)
            current = not busy and not self._jobs.closed
        session = self._jobs.known()
        if current and session is not None and session.last is run:
            self._jobs.attempt(session.finish, run)


def _tracing(session: Session, one: Attached) -> str:
    names = {site.key: site.name for site in session.sites()}
    return f"tracing {one.name} at {names.get(one.key) or one.key}"
