"""The source tab: the user's lines with their equations and costs, for `static/source.js`.

The trait `source_run` has the marks of runs, see `line_marks`. The trait `source_values` has the
values of variables in a recorded run.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.line_heat import source_heat
from taxpr_jupyter._lines.values import LineValues
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.source_tab import SourceText
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import stoppable
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import EDITING, READING, RECORDING, Jobs
from taxpr_jupyter._view.parts.line_marks import line_marks

WITH, WITHOUT = "Values of a run with the changes.", "Values of a run without the changes."


class SourceView:
    """Shows the source once somebody looks at it, and which lines the nodes are of."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        self._seen = False
        self._kept: dict[bool, KeptRun] = {}  # by whether injectors took part
        self._with = False  # which of them is shown
        self._mistakes = 0
        if session.written:  # taken over from the session of the cell before
            self.edited()

    def look(self, seen: bool) -> None:
        """Says whether somebody looks; then what is not there is made, on a thread."""
        self._seen = seen
        if seen and not self._graph.source and self._jobs.of(READING) is None:
            self._read()
        self.refresh()

    def refresh(self, change: Any = None) -> None:
        """Shows the lines of the picture's elements, and the present tags."""
        del change
        if self._seen and self._graph.source:
            self._graph.source_of = self._session.lines_of(self._elements())
            self._warm()
            self.ran()

    def _warm(self) -> None:
        """Shows what was measured of lines, or their kernels, where nodes are coloured by that."""
        session, heat = self._session, self._session.picture().heat
        notes = heat.notes if heat and heat.kind == "compiled" else ()
        self._graph.source_heat = source_heat(
            session.heat, notes, session.line_heat(), session.line_kernels()
        )

    def _elements(self) -> list[str]:
        picture = self._session.picture()
        return [one.address for one in (*picture.nodes, *picture.clusters)]

    def ran(self) -> None:
        """Shows what the last run says of lines."""
        if self._seen and self._graph.source:
            values = self._kept[self._with].values if self._kept.get(self._with) else None
            held = (values.texts(), values.nonfinite) if values else ((), {})
            marks = self._jobs.attempt(line_marks, self._session, *held) or {}
            self._graph.source_run = {str(line): found for line, found in marks.items()}

    def handle(self, message: Message) -> bool:
        """Shows what variables held; the first time the program runs for it."""
        match message:
            case {"do": "record", "step": step, "injectors": injectors}:
                self._with = injectors and bool(self._session.injectors)
                if self._with in self._kept:
                    self._show(step)
                else:
                    self._record(self._with, step)
            case {"do": "edit", "address": place, "text": text}:
                self._edit(place, functools.partial(self._session.edit, place, text))
            case {"do": "unedit", "address": place}:
                self._edit(place, functools.partial(self._session.unedit, place))
            case _:
                return False
        return True

    def reread(self) -> None:
        """Shows the source again after a line has changed."""
        self._kept.clear()
        self._graph.source_values = {}
        self.edited()
        if self._seen:
            self._read()
        else:
            self._graph.source = {}

    def asked(self, change: Any) -> None:
        """Shows the source again with an answer's divisions of variables."""
        answer = change.new
        if answer.get("question") == "compiled" and answer["headline"]:
            if self._seen:
                self._read()
            else:
                self._graph.source = {}

    def edited(self, place: str = "", mistake: str = "") -> None:
        """Shows which lines were typed over, and a mistake in one."""
        written = self._session.written
        self._mistakes += bool(mistake)
        self._graph.source_edits = {
            "lines": {f"{one.place.file}:{one.place.line}": one.text for one in written},
            "diff": self._session.diff(),
            "place": place,
            "mistake": mistake,
            "number": self._mistakes,
        }

    def _edit(self, place: str, change: Callable[[], Any]) -> None:
        def work(task: Task) -> str:
            try:
                stoppable(change, task.cancelled.is_set)
            except PanelError as error:
                return str(error)
            with contextlib.suppress(PanelError):  # the line makes nothing, say
                self._session.reveal(line=place)
            return ""

        def show(mistake: str | None, cancelled: bool) -> None:
            if mistake:
                self._jobs.say("")  # it stands at the line
            self.edited(place if mistake else "", mistake or "")

        self._jobs.do(EDITING, work, "tracing the edited source", show, said=True)

    def forget(self, change: str) -> None:
        """Says that a run would have other values now: one with injectors, or any."""
        for with_them in (True, False) if change == "states" else (True,):
            if self._kept.pop(with_them, None) and with_them == self._with:
                self._graph.source_values = {}
                self.ran()

    def _record(self, injectors: bool, step: int) -> None:
        def work(task: Task) -> taxpr.questions.Recording:
            return self._session.watch(cancel=task.cancelled, injectors=injectors)

        def show(recording: taxpr.questions.Recording | None, cancelled: bool) -> None:
            if recording and not cancelled:
                skipped = len(recording.skipped)
                more = [f"{count_of(skipped, 'value')} could not be read."] if skipped else []
                notes = " ".join([WITH if injectors else WITHOUT, *recording.notes, *more])
                self._kept[injectors] = KeptRun(LineValues(recording), notes)
                self._with = injectors
                self._show(step)

        self._jobs.do(RECORDING, work, "recording", show, said=True)

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

    def _read(self) -> None:
        def work(task: Task) -> SourceText:
            self._session.lines_of(self._elements())  # takes long for the first time, too
            return self._session.source().state()

        def show(state: SourceText | None, cancelled: bool) -> None:
            if state:
                self._graph.source = state
                self.refresh()

        self._jobs.do(READING, work, "reading the source", show)


class KeptRun(NamedTuple):
    """A recorded run, and a note on it."""

    values: LineValues
    notes: str
