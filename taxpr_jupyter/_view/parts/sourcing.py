"""The source tab: the user's lines with their equations and costs, for `static/source.js`.

The trait `source_run` has the marks of runs, see `line_marks`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.line_heat import source_heat
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.source_tab import SourceText
from taxpr_jupyter._messages.tabs import TabName
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import stoppable
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import EDITING, READING, Jobs
from taxpr_jupyter._view.parts.line_marks import line_marks


class SourceView:
    """Shows the source once somebody looks at it, and which lines the nodes are of."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        self._seen = False
        self._mistakes = 0
        if session.written:  # taken over from the session of the cell before
            self.edited()

    def look(self, view: TabName) -> None:
        """Says which tab is looked at; if it is this, what it lacks is made, on a thread."""
        seen = view == "source"
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
            values = self._session.recorded
            held = (values.values(), values.nonfinite) if values else ((), {})
            marks = self._jobs.attempt(line_marks, self._session, *held) or {}
            self._graph.source_run = {str(line): found for line, found in marks.items()}

    def handle(self, message: Message) -> bool:
        """Types over a line, or takes that back."""
        match message:
            case {"do": "edit", "address": place, "text": text}:
                self._edit(place, functools.partial(self._session.edit, place, text))
            case {"do": "unedit", "address": place}:
                self._edit(place, functools.partial(self._session.unedit, place))
            case _:
                return False
        return True

    def reread(self) -> None:
        """Shows the source again after a line has changed."""
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

    def _read(self) -> None:
        def work(task: Task) -> SourceText:
            self._session.lines_of(self._elements())  # takes long for the first time, too
            return self._session.source().state()

        def show(state: SourceText | None, cancelled: bool) -> None:
            if state:
                self._graph.source = state
                self.refresh()

        self._jobs.do(READING, work, "reading the source", show)
