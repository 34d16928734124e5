"""Remember the session of each cell, so that a cell that runs again finds its old one."""

import threading
import weakref
from typing import Any

from taxpr_jupyter._session.session import Session


class Cells:
    """The sessions by cell, and by their order within the cell, as long as somebody has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: weakref.WeakValueDictionary[tuple[str, int], Session]
        self._sessions = weakref.WeakValueDictionary()
        self._execution: tuple[str, str] | None = None
        self._count = 0

    def enter(self, session: Session, shell: Any) -> None:
        """Files a new session; the one that it replaces hands over its state and closes.

        That one may live on among the outputs that IPython keeps, so it lets go of what is large.
        """
        cell, message = _running_cell(shell)
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

    def clear(self) -> None:
        """Forgets all sessions; they stay open."""
        with self._lock:
            self._sessions.clear()
            self._execution = None


CELLS = Cells()


def _running_cell(shell: Any) -> tuple[str | None, str]:
    """The id of the cell that runs and of the message that runs it; (None, "") outside Jupyter."""
    get_parent = getattr(shell, "get_parent", None)
    parent = (get_parent() if get_parent else getattr(shell, "parent_header", None)) or {}
    metadata = parent.get("metadata") or {}
    cell = metadata.get("cellId") or (metadata.get("colab") or {}).get("cell_id")
    message = (parent.get("header") or {}).get("msg_id", "")
    return (str(cell) if cell else None), str(message)
