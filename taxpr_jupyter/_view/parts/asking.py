"""The Ask tab: questions about the program, and their answers, for `static/ask.js`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.measured import asked_for
from taxpr_jupyter._lines.source import HOW_NAMES
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.tabs import Answer, AnswerRow, Flows, TabName
from taxpr_jupyter._model.kinds import MEASURED_KINDS, MeasuredKind
from taxpr_jupyter._model.questions import question_of
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._text.short import visible
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import ASKING, Jobs

# What changes the answer of a question: states that of all that run, edits that of one.
_OF_INJECTORS = ("tags", "injectors", "tried", "values")
SINCE = "The injectors or states have changed since."
SINCE_BARE = "This is about the program without its injectors, which have changed since."
BARE = "This is about the program without the attached injectors."
EDITED = "This is about the program with {} at {}: its source is edited there."
NO_LOSS = (
    "Sizes and gradients are of a loss, and no result here is a single number of floats: trace the "
    "function that returns the loss, as %%taxpr loss(params, batch), and ask there."
)
MOST_RESULTS = 12  # of which gradients are offered


class AskView:
    """Asks what somebody wants to know, on a thread, and shows the answer."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs

    def handle(self, message: Message) -> bool:
        """Asks a question, in the place of the one before."""
        match message:
            case {"do": "ask", "question": question, "of": of}:
                self._start(question, of)
            case {"do": "ask", "question": question}:
                self._start(question, "")
            case {"do": "heat", "address": kind}:
                self._colour(kind)
            case _:
                return False
        return True

    def _colour(self, kind: str) -> None:
        """Colours nodes by a quantity, which is measured if it was not yet."""
        missing: MeasuredKind | None = next((one for one in MEASURED_KINDS if one == kind), None)
        if missing is not None and missing not in self._session.measured:
            self._start(asked_for(missing), "", kind)
        else:
            setattr(self._session, "heat", kind or None)  # noqa: B010 - it checks

    def _start(self, question: str, of: str, colour: str = "") -> None:
        self._jobs.say("")
        self._graph.answer = _empty(question, of)

        def show(answer: Answer | None, cancelled: bool) -> None:
            self._graph.answer = {} if cancelled or answer is None else answer
            self._warm(question, colour)

        work = functools.partial(self._shown, question, of)
        self._jobs.do(ASKING, work, "asking", show, said=True)

    def look(self, view: TabName) -> None:
        """Says which tab is looked at; if it is this, the tab says what can be asked."""
        seen = view == "ask"
        if seen and not self._graph.flows:
            self._graph.flows = _flows(self._session)

    def changed(self, change: str) -> None:
        """Says that the answer is about an earlier edition of the program, if it is."""
        shown = self._graph.answer
        edited = any(one.edits for one in self._session.injectors.values())
        if "question" in shown and (
            stale := _stale(shown["question"], change, edited) or shown["stale"]
        ):
            answer: Answer = {**shown, "stale": stale}
            self._graph.answer = answer

    def _warm(self, question: str, colour: str) -> None:
        """Colours nodes by the numbers of the answer."""
        session = self._session
        found: list[MeasuredKind] = [k for k in session.measured if asked_for(k) == question]
        if found:
            wanted = colour or session.heat or ""
            session.heat = found[found.index(wanted) if wanted in found else 0]
        else:
            self._graph.send_state("heat")  # the choice is as it was

    def _shown(self, question: str, of: str, task: Task) -> Answer:
        """The answer, or why it is missing."""
        try:
            with introspect.stages_to(task.tell):
                answer = self._session.ask(question, cancel=task.cancelled, of=of)
        except PanelError as error:
            return {**_empty(question, of), "error": str(error)}
        return self._state(question, of, answer)

    def _state(self, question: str, of: str, answer: taxpr.questions.Answer) -> Answer:
        one = question_of(question)
        about = self._about() if one.runs and one.needs != "injectors" else []
        # It may be false and have rows, as of a type whose rounding is all that differs.
        columns, *rows = answer.texts() if answer.rows else [[]]
        shown = [k for k, name in enumerate(columns) if name != "address"]
        return {
            **_empty(question, of),
            "headline": visible(answer.headline),
            "columns": [columns[k] for k in shown],
            "rows": [
                self._row(row, [visible(cells[k]) for k in shown])
                for row, cells in zip(answer.listed(), rows, strict=False)
            ],
            "more": len(answer.listed()) - len(rows),
            "notes": [*about, *(visible(note) for note in answer.notes)],
            "code": self._session.code(question, of),
        }

    def _about(self) -> list[str]:
        """Which of the attached injectors the program of a question has."""
        attached = self._session.injectors
        notes = [
            EDITED.format(one.name, self._session.inspect(key).title)
            for key, one in attached.items()
            if one.edits
        ]
        return notes if len(notes) == len(attached) else [*notes, BARE]

    def _row(self, row: Any, cells: list[str]) -> AnswerRow:
        """A row, a dataclass or a dict, with its addresses, if there is something to select."""
        fields: Mapping[str, Any] = row if isinstance(row, Mapping) else vars(row)
        found: AnswerRow = {"address": self._known(fields.get("address", "")), "cells": cells}
        others = [self._known(one) for one in fields.get("addresses", ())[1:]]
        return {**found, "others": others} if any(others) else found

    def _known(self, address: Any) -> str:
        return str(address) if self._session.inspect(str(address)).kind != "unknown" else ""


def _empty(question: str, of: str) -> Answer:
    """Stands in the place of an answer until that is there."""
    return {
        "question": question,
        "of": of,
        "headline": "",
        "columns": [],
        "rows": [],
        "more": 0,
        "notes": [],
        "code": "",
        "stale": "",
        "error": "",
    }


def _stale(question: str, change: str, edited: bool) -> str:
    """Why an answer no longer fits the shown program, after a change.

    Args:
        question: The question.
        change: The kind of the change.
        edited: Whether an injector edits the source: a question then has it in its program.
    """
    one = question_of(question)
    if not one.runs:
        return ""
    if change == "states":
        return SINCE
    of_injectors = one.needs == "injectors"
    if change not in _OF_INJECTORS or (change == "tags" and not of_injectors):
        return ""
    return SINCE if of_injectors or edited else SINCE_BARE


def _flows(session: Session) -> Flows:
    """The results that the question about gradients can be asked of."""
    if not session.program.variables():
        return {"first": False, "results": [], "note": HOW_NAMES}
    results = session.losses()
    # What differentiates a loss takes the result, or the first of several.
    first = results[:1] == ["out"] or (results[:1] == ["out[0]"] and not session.states())
    shown = results[:1] if first else results[:MOST_RESULTS]
    return {"first": first, "results": shown, "note": "" if results else NO_LOSS}
