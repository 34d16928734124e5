"""The source tab: the user's lines with what became of them, for `static/source.js`.

What a run says of lines is the trait `source_run`: that values are not finite. What the variables
of lines held in a recorded run is the trait `source_values`.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import taxpr
from taxpr_jupyter._lines.values import LineValues
from taxpr_jupyter._model.messages import Message
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.array_diff import stats
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import READING, RECORDING, Jobs

WITHOUT = "Values of a run without injectors."


class SourceView:
    """Shows the source once somebody looks at it, and which lines the nodes are of."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        self._seen = False
        self._values: LineValues | None = None
        self._notes = ""

    def look(self, seen: bool) -> None:
        """Says whether somebody looks; then what is not there is made, on a thread."""
        self._seen = seen
        if seen and not self._graph.source and self._jobs.of(READING) is None:
            self._jobs.start(READING, self._read, "reading the source")
        self.refresh()
        self.ran()

    def refresh(self, change: Any = None) -> None:
        """Shows of which lines the elements of the picture are, as it is now."""
        del change
        if self._seen and self._graph.source:
            self._graph.source_of = self._session.lines_of(self._elements())

    def _elements(self) -> list[str]:
        picture = self._session.picture()
        return [one.address for one in (*picture.nodes, *picture.clusters)]

    def ran(self) -> None:
        """Shows what the last run says of lines."""
        if self._seen and self._graph.source:
            said = self._jobs.attempt(_not_finite, self._session) or {}
            self._graph.source_run = {str(line): words for line, words in said.items()}

    def handle(self, message: Message) -> bool:
        """Shows what variables held; the first time the program runs for it."""
        match message:
            case {"do": "record", "step": step}:
                if self._values is None:
                    self._jobs.start(RECORDING, self._record, "recording", said=True)
                else:
                    self._show(step)
            case _:
                return False
        return True

    def forget(self) -> None:
        """Says that a run would have other values now."""
        self._values, self._graph.source_values = None, {}

    def _record(self, task: Task) -> None:
        recording = self._jobs.attempt(self._session.watch)
        with self._jobs.lock:
            if self._jobs.end(task) and recording and not task.cancelled.is_set():
                self._values = LineValues(recording)
                skipped = len(recording.skipped)
                more = [f"{count_of(skipped, 'value')} could not be read."] if skipped else []
                self._notes = " ".join([WITHOUT, *recording.notes, *more])
                self._show(-1)

    def _show(self, step: int) -> None:
        assert self._values is not None
        self._graph.source_values = {
            "step": step,
            "steps": self._values.steps,
            "texts": self._values.texts(None if step < 0 else step),
            "note": self._notes,
        }

    def _read(self, task: Task) -> None:
        def read() -> Any:
            self._session.lines_of(self._elements())  # takes long for the first time, too
            return self._session.source().state()

        state = self._jobs.attempt(read)
        with self._jobs.lock:
            if self._jobs.end(task) and state:
                self._graph.source = state
                self.refresh()
                self.ran()


def _not_finite(session: Session) -> dict[int, str]:
    """The lines whose values are not finite, where the last run tells the values: words by line."""
    run = session.last
    if run is None or run.error or run.cancelled or run.live:
        return {}
    found = dict(_at_tags(session, run))
    for address, number in _at_outputs(session.program, run).items():
        found.setdefault(address, number)
    lines = session.lines_of(found)
    most: dict[int, int] = {}
    for address, numbers in lines.items():
        for line in numbers:
            most[line] = max(most.get(line, 0), found[address])
    return {line: f"not finite: {count_of(number, 'element')}" for line, number in most.items()}


def _at_tags(session: Session, run: Run) -> dict[str, int]:
    """How many elements at tags are not finite, by the address of the value."""
    sites = {site.key: site.site for site in session.sites()}
    return {
        sites[key].value_address or sites[key].address: int(number)
        for key, record in run.records.items()
        if (number := record.stats.get("nonfinite")) and key in sites
    }


def _at_outputs(program: taxpr.Program, run: Run) -> dict[str, int]:
    """The same of outputs."""
    wrong = {
        k: int(number)
        for k, leaf in enumerate(jax.tree.leaves(run.outputs))
        if isinstance(leaf, jax.Array | np.ndarray) and (number := stats(leaf).get("nonfinite"))
    }
    if not wrong:
        return {}
    made = {
        id(var): f"{local}.{k}"
        for local, eqn in taxpr.numbered(program)
        for k, var in enumerate(eqn.outvars)
    }
    outs = {k: made.get(id(program.outvars[k]), "") for k in wrong}
    return {address: wrong[k] for k, address in outs.items() if address}
