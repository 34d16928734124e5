"""The comparison tab: the program before and after the changes, for `static/compare.js`."""

from collections.abc import Mapping

from taxpr_jupyter._diff.diff import Diff
from taxpr_jupyter._diff.status import Status
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.tabs import ComparisonTab, Count, TabName
from taxpr_jupyter._model import theme
from taxpr_jupyter._output.comparison import Comparison
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._tracing.sources import source_text
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import COMPARING, Jobs

CHANGES = 8  # that are said one by one
LINES = 400  # of the text that is shown where there is no picture
UNCHANGED = (
    "No tag was added, no injector is attached, and no line was edited: both sides are the same."
)
# The mark of each kind of difference, and what it is called where that is not its own name.
_KINDS: Mapping[Status, tuple[str, str]] = {
    "added": ("new", ""),
    "removed": ("gone", ""),
    "changed": ("changed", ""),
    "inside": ("changed", "changed inside"),
    "follows": ("follows", ""),
    "same": ("same", ""),
}


class CompareView:
    """Compares the session's program with its changes, whenever somebody looks at it."""

    def __init__(self, session: Session, graph: Graph, jobs: Jobs) -> None:
        self._session = session
        self._graph = graph
        self._jobs = jobs
        self._seen = False
        self._fresh = False
        self._found: Comparison | None = None  # as it is folded
        self._compiled = False  # whether it tells how values are divided

    def look(self, view: TabName) -> None:
        """Says which tab is looked at; if it is this, what is old is made again."""
        seen = view == "compare"
        self._seen = seen
        compiled = "compiled" in self._session.measured
        if seen and compiled != self._compiled:
            self._compiled = compiled
            self.changed()
        elif seen and not self._fresh:
            self._start()

    def changed(self) -> None:
        """Says that the program is another one now."""
        self._found = None
        self._again()

    def handle(self, message: Message) -> bool:
        """Opens or closes something on both sides, if a message asks for that."""
        match message:
            case {"do": "toggleBoth", "address": address, "side": side}:
                if self._found is not None:
                    self._found = self._found.toggled(address, side)
                    self._again()
            case _:
                return False
        return True

    def _again(self) -> None:
        self._fresh = False
        if task := self._jobs.of(COMPARING):
            task.cancel()
        if self._seen:
            self._start()

    def _start(self) -> None:
        self._fresh = True
        self._jobs.do(COMPARING, self._state, "comparing", self._show)

    def _show(self, state: ComparisonTab | None, cancelled: bool) -> None:
        if cancelled:
            self._fresh = False
        else:
            self._graph.comparison = state or {}

    def _state(self, task: Task) -> ComparisonTab:
        try:
            refolded = self._found is not None
            found = self._found or self._session.changes(task.cancelled)
            self._found = found
        except PanelError as error:  # an injector that cannot work
            return {"note": str(error)}
        except CancelledError:
            return {}
        svg = found.svg(task.cancelled) or ""
        lines = [] if svg else found.text().split("\n")
        if len(lines) > LINES:
            lines[LINES:] = [f"… {len(lines) - LINES:,} more lines"]
        edits = self._session.tags or self._session.injectors or self._session.edits()
        return {
            "svg": svg,
            "changes": _changes(found),
            "counts": _counts(found.diff),
            "refolded": refolded,
            "note": " ".join(filter(None, ["" if edits else UNCHANGED, found.note])),
            "text": "\n".join(lines),
        }


def _changes(found: Comparison) -> list[str]:
    """The changes by a person, and values that are divided otherwise, a line each."""
    said = [change.text(source_text) for change in found.diff.changes[:CHANGES]]
    more = len(found.diff.changes) - len(said)
    divided = list(map(str, found.redivided))
    return [
        *said,
        *([f"and {more:,} more"] if more else []),
        *divided[:CHANGES],
        *([f"and {len(divided) - CHANGES:,} more"] if len(divided) > CHANGES else []),
    ]


def _counts(diff: Diff) -> list[Count]:
    """How many equations became what, with the sign of each kind; "the same" comes always."""
    return [
        {
            "mark": mark,
            "sign": theme.CHANGES[mark].sign,
            "name": name or theme.CHANGES[mark].name,
            "count": diff.counts[status],
        }
        for status, (mark, name) in _KINDS.items()
        if diff.counts[status] or status == "same"
    ]
