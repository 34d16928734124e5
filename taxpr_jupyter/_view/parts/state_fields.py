"""States in the panel: the data and the actions of `static/states.js`."""

from collections.abc import Mapping
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.run_results import Leaf, State, StatesTab, WrittenValue
from taxpr_jupyter._messages.selected import Empty
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.state_runs import StateRun
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._store.state_rows import StateRow
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import Jobs

MOST_LEAVES = 12  # arrays of one state; the others are in Python
LONGEST = 2000  # characters of one value


class StateFields:
    """Takes typed values of states. A text that does not fit is shown until another one comes."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        # What was typed, and what is wrong with it, by the name of the array.
        self._refused: dict[str, tuple[str, str]] = {}

    def refresh(self) -> None:
        """Shows the states as they are now."""
        self._graph.states = states_state(self._session, self._refused)

    def handle(self, message: Message) -> bool:
        """Does what the browser asks for, to the state or array of this name, if it is for this."""
        match message:
            case {"do": "state", "address": name, "value": value}:
                self._set(name, value)
            case {"do": "keepState", "address": name}:
                self._keep(name)
            case {"do": "resetState", "address": name}:
                self._session.reset_state(name)
            case {"do": "watch", "address": name}:
                self._session.watch_state(name)
            case {"do": "unwatch", "address": name}:
                self._session.unwatch_state(name)
            case {"do": "writeStates"}:
                self._session.write_states()
            case _:
                return False
        return True

    def _set(self, name: str, text: str) -> None:
        """Sets an initial value, or keeps the text with the reason why it does not fit."""
        self._refused.pop(name, None)
        try:
            self._session.set_state(name, text)
        except PanelError as error:
            self._refused[name] = text, str(error)
        self._shown_there()

    def _keep(self, name: str) -> None:
        """Goes back to the value that a run begins with."""
        self._refused.pop(name, None)
        self._shown_there()

    def _shown_there(self) -> None:
        """Show errors next to the field, without a message."""
        self.refresh()
        self._jobs.say("")


def states_state(
    session: Session, refused: Mapping[str, tuple[str, str]] | None = None
) -> StatesTab | Empty:
    """The states with their values after the last run, for `static/states.js`.

    Args:
        session: The session.
        refused: Typed texts that do not fit, and why, by the name of the array.
    """
    rows, last = session.states(), session.last
    if not rows:
        return {}
    runs = {run.name: run for run in last.states} if last is not None else {}
    return {
        "run": f"Run {last.number}" if last is not None and runs else "",
        "states": [_state(row, runs.get(row.name), refused or {}) for row in rows],
    }


def _state(row: StateRow, run: StateRun | None, refused: Mapping[str, tuple[str, str]]) -> State:
    finals = {leaf.final.name: leaf.final for leaf in run.leaves} if run else {}
    left = len(row.leaves) - MOST_LEAVES
    leaves: list[Leaf] = []
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
                "notFinite": final.not_finite if final else "",
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


def _writes(run: StateRun, leaf: str) -> list[WrittenValue]:
    """The values written to one array, by place."""
    found: list[WrittenValue] = []
    for write in run.writes:
        if write.leaf == leaf:
            lines = write.lines()
            text = (", " if all(line[:1] != "[" for line in lines) else "\n").join(lines)
            note = f"first {len(lines)} of {write.note}" if _is_cut(write, lines) else write.note
            found.append({"address": write.address, "text": text[:LONGEST], "note": note})
    return found


def _is_cut(write: Any, lines: list[str]) -> bool:
    return write.stacked and write.values is not None and len(lines) < len(write.values)
