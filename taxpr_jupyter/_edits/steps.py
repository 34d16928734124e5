"""The edits of a session in order, to undo and redo them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._errors import PanelError

_KEPT = 100  # steps


@dataclasses.dataclass(frozen=True)
class EditStep:
    """A program with its edits, and the next step, in words."""

    program: taxpr.Program
    edits: Edits
    text: str


class Steps:
    """The steps to undo and redo.

    Attributes:
        undone: The steps to redo, the next one last.
    """

    def __init__(self) -> None:
        self._done: list[EditStep] = []
        self.undone: list[EditStep] = []
        self._kind: Hashable = None

    @property
    def undoes(self) -> str:
        """The next step to undo, in words; empty without one."""
        return self._done[-1].text if self._done else ""

    @property
    def redoes(self) -> str:
        """The next step to redo, in words; empty without one."""
        return self.undone[-1].text if self.undone else ""

    def note(self, before: Edited, after: Edited, kind: Hashable = None, text: str = "") -> None:
        """Notes that edits were made, if they are others than before.

        Args:
            before: The program with its earlier edits.
            after: The program with its present edits.
            kind: Steps of one kind in a row become a single step; None for a step of its own.
            text: The step in words; empty to use the first difference.
        """
        if _known(before.edits) == _known(after.edits):
            return
        text = text or _text(before.edits, after.edits)
        goes_on = kind is not None and kind == self._kind and self._done
        start = self._done.pop() if goes_on else EditStep(before.base, before.edits, text)
        self.undone = []
        if goes_on and start.program is after.base and _known(start.edits) == _known(after.edits):
            self._kind = None  # all is as it was: there is nothing to undo
            return
        self._done = [*self._done, dataclasses.replace(start, text=text)][-_KEPT:]
        self._kind = kind

    def end(self) -> None:
        """Ends the last step: what comes next is another one, also of the same kind."""
        self._kind = None

    def forget(self, edited: Edited) -> None:
        """Forgets the last step if it was taken back, and all is as before."""
        if self._done and _known(self._done[-1].edits) == _known(edited.edits):
            self._done.pop()

    def undo(self, now: Edited) -> EditStep:
        """The program and the edits before the last step."""
        return self._gone(self._done, self.undone, now, "undo")

    def redo(self, now: Edited) -> EditStep:
        """The program and the edits after the step that was undone last."""
        return self._gone(self.undone, self._done, now, "redo")

    def _gone(self, of: list[EditStep], to: list[EditStep], now: Edited, what: str) -> EditStep:
        if not of:
            raise PanelError(f"There is nothing to {what}")
        step = of.pop()
        to.append(EditStep(now.base, now.edits, step.text))
        self._kind = None
        return step


def _known(edits: Edits) -> Any:
    """The parts of edits that can be undone, in a form to compare."""
    return (
        {key: id(params) for key, params in edits.tags.items()},
        {key: _injector(one) for key, one in edits.attached.items()},
        {name: id(value) for name, value in edits.states.items()},
        dict(edits.watched),
        edits.written,
        edits.expressions,
    )


def _injector(one: Attached) -> Any:
    """An injector; the same for a ready one that is attached again with the same numbers."""
    if one.is_ready and one.values.keys() == one.injector.values.keys():
        return one.name, dict(one.values), repr(one.injector.options), one.off
    return id(one.injector), one.off


def _text(before: Edits, after: Edits) -> str:
    """The first difference, in words."""
    kinds = _lines(before, after), _injectors(before, after), _tags(before, after)
    return next((text for kind in kinds for text in kind), "") or _states(before, after)


def _lines(before: Edits, after: Edits) -> Iterator[str]:
    old, new = ({one.place: one for one in edits.written} for edits in (before, after))
    for place, one in new.items():
        if old.get(place) != one:
            yield f"{place.place}: {one.line}"
    for place in old:
        if place not in new:
            yield f"{place.place} as in the source"


def _injectors(before: Edits, after: Edits) -> Iterator[str]:
    old, new = (_by_name(edits) for edits in (before, after))
    for name, one in new.items():
        was = old.get(name)
        if was is not None and (several := _in_order(was, one)):
            yield f"{several[0]} at {name}{several[1]}"
        elif (
            was is None
            or (was.name, was.source) != (one.name, one.source)
            or was.values.keys() != one.values.keys()  # by `switched` or its like
        ):
            yield f"{one.name} at {name}"
        elif was.off != one.off:
            yield f"{one.name} at {name} {'off' if one.off else 'on'}"
        elif was.injector is not one.injector:
            values = ", ".join(
                f"{key}={value}" for key, value in one.values.items() if was.values[key] != value
            )
            yield f"{one.name}({values}) at {name}"
    for name in old:
        if name not in new and name in {_name(after, key) for key in after.tags}:
            yield f"no injector at {name}"


def _in_order(was: Attached, one: Attached) -> tuple[str, str] | None:
    """A change of the order or of a switch of several injectors; None for other changes."""
    old, new = dict(was.parts), dict(one.parts)
    if len(old) > 1 and not new:  # a single one has no label
        every = list(old.values())
        kept = next((k for k, part in enumerate(every) if part.source is one.source), None)
        if kept is None:  # another one was attached in their place
            return None
        return f"no {', '.join(part.name for part in every if part is not every[kept])}", ""
    if gone := [part.name for label, part in old.items() if label not in new]:
        return f"no {', '.join(gone)}", ""
    if old.keys() == new.keys() and list(old) != list(new):
        return one.name, " in another order"
    for label, part in new.items():
        if label in old and old[label].off != part.off:
            return part.name, " off" if part.off else " on"
    return None


def _by_name(edits: Edits) -> dict[str, Attached]:
    return {_name(edits, key): one for key, one in edits.attached.items()}


def _name(edits: Edits, key: str) -> str:
    return str(edits.tags.get(key, {}).get("name") or key.removeprefix("tag:"))


def _tags(before: Edits, after: Edits) -> Iterator[str]:
    old, new = ({_name(edits, key): key for key in edits.tags} for edits in (before, after))
    gone, come = ([name for name in a if name not in b] for a, b in ((old, new), (new, old)))
    if len(gone) == len(come) == 1:
        yield f"tag {gone[0]} is {come[0]}"
    yield from (f"tag {name}" for name in come)
    yield from (f"no tag {name}" for name in gone)


def _states(before: Edits, after: Edits) -> str:
    names = _changed(before.states, after.states)
    if names:
        return f"initial value of {', '.join(names)}"
    return f"writes to {', '.join(_changed(before.watched, after.watched))}"


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [name for name in {**old, **new} if old.get(name) is not new.get(name)]
