"""The background jobs of a panel: progress, messages, Cancel."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from taxpr_jupyter._errors import LOG, PanelError, one_line
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph

TRIAL, EDITING, RUN, LIVE = "trial", "editing", "run", "live run"
RECORDING, ASKING = "recording", "asking"
LAYOUT, COMPARING, READING, RUNS = "layout", "comparing", "reading", "runs"
KINDS = TRIAL, EDITING, RUN, LIVE, RECORDING, ASKING, LAYOUT, COMPARING, READING, RUNS
CANCELLING = "Cancelling."
CANCELLED = "Cancelled."
GONE = "The session of this panel is gone: run the cell again."


class Jobs:
    """The work under way in a panel, of each kind one at most.

    Progress is shown of the first one, in the order of `KINDS`.

    Args:
        session: The session, which this does not keep.
        graph: Shows progress and messages.
        lock: Held while something changes, which happens on several threads.

    Attributes:
        known: Gives the session, or None when it is gone.
        closed: Whether nothing is to be started any more.
    """

    def __init__(self, session: Session, graph: Graph, lock: threading.RLock) -> None:
        self.known = weakref.ref(session)
        self.lock = lock
        self.closed = False
        self._graph = graph
        self._tasks: dict[str, Task] = {}

    @property
    def session(self) -> Session:
        """The session.

        Raises:
            PanelError: It is gone.
        """
        session = self.known()
        if session is None:
            raise PanelError(GONE)
        return session

    def start(
        self, kind: str, work: Callable[[Task], None], label: str, *, said: bool = False
    ) -> Task:
        """Starts work, and cancels running work of its kind.

        Args:
            kind: One of `KINDS`.
            work: Called with its task; calls `end` when it has ended.
            label: A description of the work.
            said: Whether to show it at once, and not only when it takes a while.
        """
        with self.lock:
            if before := self.of(kind):
                before.cancel()
            task = self._tasks[kind] = Task(work, self.report, label)
            if said:
                self.report(task)
            task.start()
        return task

    def do(
        self,
        kind: str,
        work: Callable[[Task], Any],
        label: str,
        then: Callable[[Any, bool], None],
        *,
        said: bool = False,
    ) -> None:
        """Does work as `start`, and hands its result on if there is no newer one of its kind.

        Args:
            kind: As for `start`.
            work: Called with its task. A mistake becomes a message, and the result is None then.
            label: As for `start`.
            then: Called with the result, and whether it was cancelled.
            said: As for `start`.
        """

        def done(task: Task) -> None:
            result = None
            try:
                result = self.attempt(work, task)
            except CancelledError:
                self.say(CANCELLED)
            finally:
                with self._graph.together():
                    if self.end(task):
                        then(result, task.cancelled.is_set())

        self.start(kind, done, label, said=said)

    def end(self, task: Task, then: Callable[[], None] | None = None) -> bool:
        """Says that a task has ended, and calls ``then``.

        Returns:
            Whether there was no newer one of its kind; else nothing is done.
        """
        with self.lock:
            kind = next((kind for kind, one in self._tasks.items() if one is task), None)
            if kind is None:
                return False
            del self._tasks[kind]
            if then is not None:
                then()
            if tasks := self.tasks():
                self.report(tasks[0])
            else:
                self._graph.progress = {"running": False}
            return True

    def of(self, kind: str) -> Task | None:
        """The task of this kind that is under way."""
        return self._tasks.get(kind)

    def tasks(self) -> list[Task]:
        """The jobs in progress, in the order of `KINDS`."""
        return [self._tasks[kind] for kind in KINDS if kind in self._tasks]

    def cancel(self) -> None:
        """Stops running work. Untried injectors are given up."""
        with self.lock:
            for task in self.tasks():
                task.cancel()
                self.report(task)
            if session := self.known():
                session.give_up()
            if self.of(RUN) or self.of(LIVE) or self.of(TRIAL):
                self.say(CANCELLING)

    def close(self) -> None:
        """Stops what is under way for good; what is not tried out stays."""
        self.closed = True
        for task in self.tasks():
            task.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for running work. Returns whether it has ended."""
        return all(task.wait(timeout) for task in self.tasks())

    def attempt(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the session. A mistake becomes a message and gives None."""
        try:
            return method(*args, **kwargs)
        except PanelError as error:
            self.say(str(error), error=True)
        except CancelledError:
            raise
        except BaseException as error:  # in a message from the browser it would be seen by nobody
            in_main = threading.current_thread() is threading.main_thread()
            if in_main and isinstance(error, KeyboardInterrupt):
                raise
            LOG.warning("The panel of %r failed", self.known(), exc_info=True)
            self.say(one_line(error), error=True)
        return None

    def say(self, text: str, error: bool = False) -> None:
        """Shows a message in the place of the one before."""
        with self.lock:
            self._graph.message = {"text": text, "error": error}

    def report(self, task: Task) -> None:
        """Shows how far a task is, if it is the one that is shown."""
        with self.lock:
            self._graph.go_on()  # it takes longer than was thought
            if task in self.tasks()[:1]:
                self._graph.progress = {
                    "running": True,
                    "label": task.label,
                    "fraction": task.fraction,
                    "elapsed": task.elapsed,
                    "cancelling": task.cancelled.is_set(),
                }
