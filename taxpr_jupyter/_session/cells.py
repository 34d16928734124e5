"""Remember the session of each cell, so that a cell that runs again finds its old one."""

import re
import threading
import weakref
from typing import Any

from taxpr_jupyter._session.session import Session

_LAST = ("_", "__", "___")
_NUMBERED = re.compile(r"_\d+")


class Replaced:
    """Replaces, among a notebook's outputs, a session whose cell was run again.

    Args:
        what: A description of the session.
    """

    _what = ""  # also of one that is being copied

    def __init__(self, what: str) -> None:
        self._what = what

    def __repr__(self) -> str:
        return (
            f"<taxpr {self._what}: its cell was run again, and the new session has taken its place>"
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self!r} has no {name!r}. Give a session a name, as by %taxpr --name, to keep it."
        )


class Cells:
    """The sessions by cell, and by their order within the cell, as long as somebody has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: weakref.WeakValueDictionary[tuple[str, int], Session]
        self._sessions = weakref.WeakValueDictionary()
        self._execution: tuple[str, str] | None = None
        self._count = 0
        self._last: weakref.ref[Session] | None = None

    @property
    def last(self) -> Session | None:
        """The session that a cell opened last, as long as somebody has it."""
        return self._last() if self._last else None

    def enter(self, session: Session, shell: Any) -> None:
        """Files a new session; the one that it replaces hands over its state and closes.

        IPython keeps each output for ever, so another object takes its place there. If somebody has
        a name for it, it lives on, and releases large arrays.
        """
        cell, message = _running_cell(shell)
        self._last = weakref.ref(session)
        if cell is None:
            return
        with self._lock:
            if self._execution != (cell, message):
                self._execution, self._count = (cell, message), 0
            key = (cell, self._count)
            self._count += 1
            old = self._sessions.get(key)
        if old is not None:
            session.take_over(old)  # an interrupt in there leaves the cell its old session
        with self._lock:
            self._sessions[key] = session
        if old is not None:
            old.close()
            old.release()
            _replace_output(shell, old, Replaced(f"session {old.call}"))

    def clear(self) -> None:
        """Forgets all sessions; they stay open."""
        with self._lock:
            self._sessions.clear()
            self._execution = self._last = None


CELLS = Cells()


def _replace_output(shell: Any, old: Any, new: Any) -> None:
    """Puts an object in the place of another one among the outputs that IPython keeps."""
    names = getattr(shell, "user_ns", {})
    outputs = names.get("_oh", {})
    # The hidden names are those that `%who` does not show, with their values.
    for kept in (outputs, names, getattr(shell, "user_ns_hidden", {})):
        for key, value in list(kept.items()):
            by_ipython = kept is outputs or key in _LAST or _NUMBERED.fullmatch(key)
            if value is old and by_ipython:
                kept[key] = new
    hook = getattr(shell, "displayhook", None)  # which compares its own with the names
    for name in _LAST:
        if getattr(hook, name, None) is old:
            setattr(hook, name, new)


def _running_cell(shell: Any) -> tuple[str | None, str]:
    """The id of the cell that runs and of the message that runs it; (None, "") outside Jupyter."""
    get_parent = getattr(shell, "get_parent", None)
    parent = (get_parent() if get_parent else getattr(shell, "parent_header", None)) or {}
    metadata = parent.get("metadata") or {}
    cell = metadata.get("cellId") or (metadata.get("colab") or {}).get("cell_id")
    message = (parent.get("header") or {}).get("msg_id", "")
    return (str(cell) if cell else None), str(message)
