"""States in the panel: what `static/states.js` shows of them, and what its messages do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.state_runs import StateRun
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._session.state_rows import StateRow

MOST_LEAVES = 12  # arrays of one state; the others are in Python
LONGEST = 2000  # characters of one value


class Refused:
    """Values that were typed and do not fit, until there is another one.

    Args:
        session: The session.

    Attributes:
        texts: What was typed, and what is wrong with it, by the name of the array.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.texts: dict[str, tuple[str, str]] = {}

    def set(self, name: str, text: str) -> None:
        """Sets an initial value, or keeps the text with what is wrong with it."""
        self.texts.pop(name, None)
        try:
            self._session.set_state(name, text)
        except PanelError as error:
            self.texts[name] = text, str(error)

    def forget(self, name: str) -> None:
        """Goes back to the value that a run begins with."""
        self.texts.pop(name, None)


def actions(
    session: Session, content: Mapping[str, Any], refused: Refused
) -> dict[str, Callable[[str], Any]]:
    """What the messages of the browser do, each with the name of a state or of an array of it."""
    return {
        "state": lambda name: refused.set(name, str(content.get("value", ""))),
        "keepState": refused.forget,
        "resetState": session.reset_state,
        "watch": session.watch_state,
        "unwatch": session.unwatch_state,
        "writeStates": lambda _: session.write_states(),
    }


def states_state(
    session: Session, refused: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, Any]:
    """The states with what the last run made of them, as `static/states.js` takes them.

    Args:
        session: The session.
        refused: See `Refused.texts`.
    """
    rows, last = session.states(), session.last
    if not rows:
        return {}
    runs = {run.name: run for run in last.states} if last is not None else {}
    return {
        "run": f"Run {last.number}" if last is not None and runs else "",
        "states": [_state(row, runs.get(row.name), refused or {}) for row in rows],
    }


def _state(
    row: StateRow, run: StateRun | None, refused: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    finals = {leaf.final.name: leaf.final for leaf in run.leaves} if run else {}
    left = len(row.leaves) - MOST_LEAVES
    leaves = []
    for leaf in row.leaves[:MOST_LEAVES]:
        final = finals.get(leaf.name)
        typed, error = refused.get(leaf.name, ("", ""))
        leaves.append(
            {
                "name": leaf.name,
                "type": leaf.aval,
                "text": leaf.text[:LONGEST],
                "editable": leaf.editable,
                "edited": leaf.edited,
                "typed": typed[:LONGEST],
                "error": error,
                "before": final.before if final else "",
                "after": final.after if final else "",
                "same": final.equal if final else True,
                "writes": _writes(run, leaf.name) if run else [],
            }
        )
    return {
        "name": row.name,
        "address": row.address,
        "written": row.written,
        "edited": any(leaf.edited for leaf in row.leaves),
        "watched": bool(row.watched),
        "more": f"and {count_of(left, 'more array')}: session.states()" if left > 0 else "",
        "leaves": leaves,
    }


def _writes(run: StateRun, leaf: str) -> list[dict[str, str]]:
    """What was written to one array, by place."""
    found = []
    for write in run.writes:
        if write.leaf == leaf:
            lines = write.lines()
            text = (", " if all(line[:1] != "[" for line in lines) else "\n").join(lines)
            note = f"first {len(lines)} of {write.note}" if _is_cut(write, lines) else write.note
            found.append({"address": write.address, "text": text[:LONGEST], "note": note})
    return found


def _is_cut(write: Any, lines: list[str]) -> bool:
    return write.stacked and write.values is not None and len(lines) < len(write.values)
