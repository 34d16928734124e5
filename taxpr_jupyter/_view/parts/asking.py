"""The Ask tab: questions about the program, and what they answer, for `static/ask.js`."""

from __future__ import annotations

import functools

import taxpr
from taxpr_jupyter._model.messages import Answer, Message, Question
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._text.short import visible
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import ASKING, CANCELLED, Jobs

# What changes the answer of a question: states that of all but `check`, edits that of one.
_OF_INJECTORS = ("tags", "injectors", "tried", "values")


class AskView:
    """Asks what somebody wants to know, on a thread, and shows the answer."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs

    def handle(self, message: Message) -> bool:
        """Asks a question, in the place of the one before."""
        match message:
            case {"do": "ask", "question": question}:
                work = functools.partial(self._ask, question)
                self._jobs.start(ASKING, work, "asking", said=True)
            case _:
                return False
        return True

    def changed(self, change: str) -> None:
        """Says that the answer is of an earlier edition of the program, where it is."""
        shown = self._graph.answer
        if "question" in shown:
            by_edits = shown["question"] == "injectors" and change in _OF_INJECTORS
            by_states = shown["question"] != "check" and change == "states"
            stale = shown["stale"] or by_edits or by_states
            answer: Answer = {**shown, "stale": stale}
            self._graph.answer = answer

    def _ask(self, question: Question, task: Task) -> None:
        answer, code = None, ""
        try:
            answer = self._jobs.attempt(self._answer, question, task)
            code = self._session.code(question)
        except CancelledError:
            self._jobs.say(CANCELLED)
        finally:
            with self._jobs.lock:
                if self._jobs.end(task) and answer is not None and not task.cancelled.is_set():
                    self._graph.answer = self._state(question, answer, code)

    def _answer(self, question: Question, task: Task) -> taxpr.Answer:
        session = self._session
        match question:
            case "check":
                return session.check()
            case "find_nan":
                return session.find_nan(cancel=task.cancelled)
            case "flow":
                return session.flow(cancel=task.cancelled)
            case _:
                other = None if question == "injectors" else question
                return session.first_difference(other, cancel=task.cancelled)

    def _state(self, question: Question, answer: taxpr.Answer, code: str) -> Answer:
        columns, *rows = answer.texts() if answer else [[]]
        shown = [k for k, name in enumerate(columns) if name != "address"]
        return {
            "question": question,
            "headline": visible(answer.headline),
            "columns": [columns[k] for k in shown],
            "rows": [
                {
                    "address": self._address(str(row.address)),
                    "cells": [visible(cells[k]) for k in shown],
                }
                for row, cells in zip(answer.rows, rows, strict=False)
            ],
            "more": len(answer) - len(rows),
            "notes": [visible(note) for note in answer.notes],
            "code": code,
            "stale": False,
        }

    def _address(self, address: str) -> str:
        """The address, if there is something to select."""
        return address if self._session.inspect(address).kind != "unknown" else ""
