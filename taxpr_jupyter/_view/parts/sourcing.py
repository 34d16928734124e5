"""The source tab: the user's lines with what became of them, for `static/source.js`.

What a run says of lines is the trait `source_run`: that values are not finite. What the variables
of lines held in a recorded run is the trait `source_values`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import taxpr
from taxpr_jupyter._lines.values import LineValues
from taxpr_jupyter._model.messages import Message
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.array_diff import stats
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import CANCELLED, READING, RECORDING, Jobs

WITH, WITHOUT = "Values of a run with the injectors.", "Values of a run without injectors."


class SourceView:
    """Shows the source once somebody looks at it, and which lines the nodes are of."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        self._seen = False
        self._kept: dict[bool, Kept] = {}  # by whether injectors took part
        self._with = False  # which of them is shown

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
            recorded = self._kept[self._with].values.nonfinite if self._kept.get(self._with) else {}
            said = self._jobs.attempt(_not_finite, self._session, recorded) or {}
            self._graph.source_run = {str(line): words for line, words in said.items()}

    def handle(self, message: Message) -> bool:
        """Shows what variables held; the first time the program runs for it."""
        match message:
            case {"do": "record", "step": step, "injectors": injectors}:
                self._with = injectors and bool(self._session.injectors)
                if self._with in self._kept:
                    self._show(step)
                else:
                    work = functools.partial(self._record, self._with, step)
                    self._jobs.start(RECORDING, work, "recording", said=True)
            case _:
                return False
        return True

    def forget(self, change: str) -> None:
        """Says that a run would have other values now: one with injectors, or any."""
        for with_them in (True, False) if change == "states" else (True,):
            if self._kept.pop(with_them, None) and with_them == self._with:
                self._graph.source_values = {}
                self.ran()

    def _record(self, injectors: bool, step: int, task: Task) -> None:
        recording = None
        try:
            recording = self._jobs.attempt(
                self._session.watch, cancel=task.cancelled, injectors=injectors
            )
        except CancelledError:
            self._jobs.say(CANCELLED)
        with self._jobs.lock:
            if self._jobs.end(task) and recording and not task.cancelled.is_set():
                skipped = len(recording.skipped)
                more = [f"{count_of(skipped, 'value')} could not be read."] if skipped else []
                notes = " ".join([WITH if injectors else WITHOUT, *recording.notes, *more])
                self._kept[injectors] = Kept(LineValues(recording), notes)
                self._with = injectors
                self._show(step)

    def _show(self, step: int) -> None:
        values, notes = self._kept[self._with]
        step = min(step, values.steps - 1)
        self._graph.source_values = {
            "step": step,
            "steps": values.steps,
            "texts": values.texts(None if step < 0 else step),
            "note": notes,
            "injectors": self._with if self._session.injectors else None,
        }
        self.ran()

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


class Kept(NamedTuple):
    """A recorded run, and what is said of it."""

    values: LineValues
    notes: str


def _not_finite(session: Session, recorded: Mapping[str, int]) -> dict[int, str]:
    """The lines whose values are not finite in a recorded run, or the last one: words by line."""
    run, found = session.last, dict(recorded)
    if not (run is None or run.error or run.cancelled or run.live):
        found |= _at_tags(session, run)
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
