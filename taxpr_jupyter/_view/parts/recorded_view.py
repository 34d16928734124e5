"""The values of a recorded run: the chips that `static/held.js` draws everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._lines.values import Chip, ValuesAt
from taxpr_jupyter._messages.recorded_values import ValueChip, ValueCurve, WatchedExpression
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._model.model import Node, Picture, count_of
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import RECORDING, Jobs

PAST = "From a run before the last change."
WITH, WITHOUT = "Values of a run with the changes.", "Values of a run without the changes."


class RecordedView:
    """Records values on request, and shows the recorded values of the session at its cursor."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        # The values, whether they are of the session as it is, whether that has changes, and the
        # expressions that are watched.
        self._shown: tuple[ValuesAt | None, bool, bool, tuple[str, ...]] = None, False, False, ()
        self._of: tuple[str, ...] = ()  # the expressions whose curves are shown
        self.refresh()

    def handle(self, message: Message) -> bool:
        """Shows the values at another cursor; the first time the program runs for it."""
        match message:
            case {
                "do": "record",
                "iteration": iteration,
                "example": example,
                "injectors": injectors,
                "cotangents": grads,
            }:
                iteration, example = (None if k < 0 else k for k in (iteration, example))
                self._show(iteration, example, injectors and self._has_changes, grads)
            case {"do": "watchExpression", "address": text}:
                self._session.watch_expression(text)
            case {"do": "unwatchExpression", "address": text}:
                self._session.unwatch_expression(text)
            case _:
                return False
        return True

    @property
    def _has_changes(self) -> bool:
        return bool(self._session.injectors or self._session.written)

    def _show(self, iteration: int | None, example: int | None, changed: bool, grads: bool) -> None:
        if self._session.has_recorded(changed, grads):
            self._session.at(iteration, example, injectors=changed)
            return

        def work(task: Task) -> taxpr.questions.Recording:
            with introspect.stages_to(task.tell):
                return self._session.watch(cancel=task.cancelled, injectors=changed, grads=grads)

        def then(recording: taxpr.questions.Recording | None, cancelled: bool) -> None:
            del recording, cancelled  # the session has told of it

        self._jobs.do(RECORDING, work, "recording", then, said=True)

    def refresh(self) -> bool:
        """Shows the values that were recorded last, also if injectors have changed since.

        Those of another program are not shown.

        Returns:
            Whether these are of another recording than before.
        """
        self._graph.cotangents = self._session.has_cotangents
        values = self._session.recorded
        current, values = values is not None, values or self._session.recorded_before
        now = values, current, self._has_changes, self._session.expressions
        (before, was, *_), (_, _, has_changes, expressions) = self._shown, now
        if now == self._shown:
            return False
        self._shown = now
        results = self._session.watched_expressions()
        self._graph.expressions = [
            WatchedExpression(text=one, mistake=found if isinstance(found, str) else "")
            for one in expressions
            for found in (results.get(one),)
        ]
        if values is None:
            self._graph.show(recorded={}, curves={}, held={})
            return before is not None
        computed = {f"= {text}": one for text, one in results.items() if isinstance(one, Chip)}
        chips = {**values.chips, **computed}
        self._graph.recorded = {
            "iteration": _number(values.iteration),
            "iterations": values.iterations,
            "example": _number(values.example),
            "examples": values.examples,
            "chips": {
                address: ValueChip(name=one.name, words=one.words, wrong=one.wrong, span=one.span)
                for address, one in chips.items()
            },
            "note": _note(values, current),
            "past": not current,
            "injectors": values.changed if has_changes else None,
            "cotangents": values.with_cotangents,
        }
        if before is None or before.curves is not values.curves or expressions != self._of:
            self._of = expressions
            curves = {text: one.curve for text, one in computed.items() if one.curve}
            self._graph.curves = {
                address: ValueCurve(
                    points=list(one.points), wrong=list(one.wrong), iterations=one.iterations
                )
                for address, one in {**values.curves, **curves}.items()
            }
        if before is None or before.recording is not values.recording:
            self.drawn()
            return True
        return was != current

    def drawn(self, change: Any = None) -> None:
        """Shows which elements of the picture give the recorded values."""
        del change
        if values := self._shown[0]:
            self._graph.held = held_by(self._session.picture(), values.values())


def held_by(picture: Picture, addresses: Iterable[str]) -> dict[str, str]:
    """The recorded value that each node gives, by the node's address.

    That is its own value; of a group of statements it is the last one that a variable held.

    Args:
        picture: The picture.
        addresses: The addresses of recorded values, in the order of execution.
    """
    found: dict[str, str] = {}
    own = set[str]()
    for address in addresses:
        value = taxpr.Address(address)
        node = picture.element_of(address)
        if not isinstance(node, Node):
            continue
        if node.address in (address, value.eqn):
            if node.address not in own:  # of several results the first
                found[node.address] = address
                own.add(node.address)
        elif node.address not in own and taxpr.Address(node.address).home == value.home:
            found[node.address] = address
    return found


def _number(at: int | None) -> int:
    return -1 if at is None else at


def _note(values: ValuesAt, current: bool) -> str:
    if not current:
        return PAST
    skipped = len(values.recording.skipped)
    more = [f"{count_of(skipped, 'value')} could not be read."] if skipped else []
    return " ".join([WITH if values.changed else WITHOUT, *values.recording.notes, *more])
