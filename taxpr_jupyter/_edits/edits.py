"""`Edits`: the user's changes as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._lines.assignments import Assignment, assignments
from taxpr_jupyter._tracing.changed import SourceChange
from taxpr_jupyter._tree.focus import Only


@dataclasses.dataclass(frozen=True)
class Written:
    """A line of the source that was typed over.

    Attributes:
        place: The line it was typed over, with its file.
        text: The new right-hand side.
    """

    place: Assignment
    text: str

    @property
    def where(self) -> Any:
        """The variable that the line binds."""
        return taxpr.var(self.place.variable, line=self.place.line)

    @property
    def elsewhere(self) -> Any:
        """The same for code that may run where lines are others: without the line, if it can be."""
        return taxpr.var(self.place.variable) if self.place.alone else self.where

    @property
    def line(self) -> str:
        """The new line."""
        return f"{self.place.head}{self.text}"

    def among(self, files: Iterable[str]) -> Written | None:
        """The same line in files that may have changed; None if it is not there, or twice."""
        old = self.place.variable, self.place.text
        every = [one for file in files for one in assignments(file).values()]
        found = [one for one in every if (one.variable, one.text) == old]
        return Written(found[0], self.text) if len(found) == 1 else None


@dataclasses.dataclass(frozen=True)
class Edits:
    """The changes. Addresses belong to the program as traced.

    Attributes:
        tags: The params of the added tags, by value address.
        attached: The injectors, by the key of their site.
        unfolded: The addresses drawn open; None if the picture chooses.
        by_hand: Those of them that the user unfolded.
        only: The part that is drawn; None for all.
        note: A remark for the user about the last change of the picture.
        states: The initial values that were set, by the name of the state.
        lines: The source line that makes a tagged value, by the key of its tag, to find the value
            again after the user has edited the source.
        watched: For each state the places that write to it: the array of its value, such as
            `norm['mean']`, and the key of the tag there.
        written: The lines of the source that were typed over.
        expressions: The expressions over recorded values that are watched.
    """

    tags: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    attached: Mapping[str, Attached] = dataclasses.field(default_factory=dict)
    unfolded: frozenset[str] | None = None
    by_hand: frozenset[str] = frozenset()
    only: Only | None = None
    note: str = ""
    states: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    watched: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(default_factory=dict)
    written: tuple[Written, ...] = ()
    expressions: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[SourceChange, ...]:
        """The changes of the source for tracing the program."""
        typed = (SourceChange(one.where, one.line) for one in self.written)
        edits = (one for one in self.attached.values() if one.edits and not one.idle)
        return (*typed, *(SourceChange(one.variable, one.injector) for one in edits))

    def runs_as(self, other: Edits) -> bool:
        """Whether a run gives the same results with other edits, which may differ in folding."""
        return (
            self.tags is other.tags
            and self.states is other.states
            and self.watched == other.watched
            and self.written == other.written
            and self._injectors() == other._injectors()
        )

    def change_from(self, before: Edits) -> str:
        """``"values"`` or ``"states"`` if nothing else is different from other edits; else ""."""
        same = {"attached": before.attached, "states": before.states, "lines": before.lines}
        kinds = [
            {key: _kind(one) for key, one in edits.attached.items()} for edits in (before, self)
        ]
        if dataclasses.replace(self, **same) != before or kinds[0] != kinds[1]:
            return ""
        return "states" if self.states is not before.states else "values"

    def _injectors(self) -> dict[str, int]:
        return {key: id(one.injector) for key, one in self.attached.items() if not one.idle}


def _kind(one: Attached) -> Any:
    """All of an injector but its values, and whether it is on."""
    parts = [(name, _kind(part)) for name, part in one.parts]
    return one.name, one.kind, id(one.source), one.error, one.edits, parts
