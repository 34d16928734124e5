"""The strip of runs, and the results of the run that is looked at, for `static/runs.js`."""

import functools

from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.run_results import Results
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import stoppable
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import RUNS, Jobs
from taxpr_jupyter._view.wire import compared_state, results_state, runs_state


class RunStripView:
    """Shows the runs, compares two of them, and restores and renames them.

    Args:
        session: Where the runs are.
        graph: Shows them.
        jobs: Compares on threads: large arrays take a while.
    """

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        self._table = False  # whether the table is looked at
        self._against = 0  # the number of the run on the left; 0 for the untouched program

    def ran(self) -> None:
        """Shows the last run, next to what the one before was compared with."""
        runs = self._session.runs
        if runs:
            known = {run.number for run in runs[:-1] if run.ok}
            self._show(runs[-1].number, self._against if self._against in known else 0)
            self.refresh()

    def again(self) -> None:
        """Shows what it shows, by the names that runs have now."""
        shown = self._graph.results
        kept = {0, *(run.number for run in self._session.runs)}
        if "number" in shown and {shown["number"], shown["against"]} <= kept:
            self._show(shown["number"], shown["against"])

    def refresh(self) -> None:
        """Shows the runs, and which of them had what the session has."""
        if runs := self._session.runs:
            self._graph.runs = runs_state(runs, self._table)

    def handle(self, message: Message) -> bool:
        """Does what a message asks for, if it is about runs."""
        match message:
            case {"do": "showRun", "run": number, "against": against}:
                self._show(number, against)
            case {"do": "restoreRun", "run": number}:
                self._session.runs.restore(f"run {number}")
            case {"do": "nameRun", "run": number, "name": name}:
                self._session.runs.rename(f"run {number}", name)
            case {"do": "runTable", "open": is_open}:
                self._table = is_open
                self.refresh()
            case _:
                return False
        return True

    def _show(self, number: int, against: int) -> None:
        run = self._session.runs[f"run {number}"]
        self._against = against
        if task := self._jobs.of(RUNS):
            task.cancel()
            self._jobs.end(task)
        if against and run.ok:
            self._compare(self._session.runs[f"run {against}"], run)
        else:
            self._graph.results = results_state(run)

    def _compare(self, before: Run, run: Run) -> None:
        def work(task: Task) -> Results:
            compare = functools.partial(self._session.runs.compare, before, run)
            return compared_state(stoppable(compare, task.cancelled.is_set))

        def show(state: Results | None, cancelled: bool) -> None:
            if state:
                self._graph.results = state

        self._jobs.do(RUNS, work, "comparing runs", show)
