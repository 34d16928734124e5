"""`Graph`: the widget whose traits are the state that the browser draws."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

import anywidget
import traitlets

from taxpr_jupyter._messages.panel_traits import Goes, Traits
from taxpr_jupyter._messages.recorded_values import RecordedValues
from taxpr_jupyter._messages.run_results import Idle, Progress, Results, RunStrip, Said, StatesTab
from taxpr_jupyter._messages.selected import Controls, Empty, SelectedNode, Several
from taxpr_jupyter._messages.source_tab import SourceEdits, SourceHeat, SourceText
from taxpr_jupyter._messages.tabs import (
    Answer,
    ComparisonTab,
    Flows,
    History,
    LitSlice,
    SearchHits,
    TextRows,
    Timeline,
)
from taxpr_jupyter._model.legend import legend_rows
from taxpr_jupyter._model.questions import question_buttons
from taxpr_jupyter._output.modules import linked
from taxpr_jupyter._search.grammar import examples
from taxpr_jupyter._search.typed import EXAMPLE

STATIC = pathlib.Path(__file__).parent / "static"
VIEWS = get_args(get_type_hints(Traits)["view"])

if TYPE_CHECKING:
    T = TypeVar("T")
    Shown = traitlets.TraitType[T, T]


def _dict(start: dict[str, Any] | None = None) -> Any:
    return traitlets.Dict(start or {}).tag(sync=True)


class Graph(anywidget.AnyWidget):
    """Picture, inspector and results in the browser; `static/panel.js` says what it draws of them.

    `Traits` declares their types. The browser changes `selected`, `chosen`, `place`, `view`,
    `live` and `gradients`, and sends messages; all else goes from Python to the browser. The
    picture is sent only when it is another one, and the other views only while they are looked at.
    `saved` is the
    class of the picture that is saved with the notebook in place of this.

    Args:
        guard: Held while a change from the browser is taken in, since that may happen on another
            thread than the session's changes.
    """

    _esm = linked(STATIC / "panel.js")
    _css = STATIC / "panel.css"
    _ipython_display_ = None  # ipywidgets 7 has one, which would keep the picture out of the output

    _legend = traitlets.List(legend_rows()).tag(sync=True)
    _criteria = traitlets.List([*examples(), EXAMPLE]).tag(sync=True)
    _questions = traitlets.List(question_buttons()).tag(sync=True)
    svg = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    call = traitlets.Unicode().tag(sync=True)
    counts = traitlets.Unicode().tag(sync=True)
    view = traitlets.Enum(VIEWS, "picture").tag(sync=True)
    rows: Shown[TextRows | Empty] = _dict()
    heat = traitlets.Unicode().tag(sync=True)
    marks = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.List().tag(sync=True)
    several: Shown[Several | Empty] = _dict()
    place = traitlets.Dict().tag(sync=True)
    views = traitlets.List().tag(sync=True)
    goes: Shown[Goes | Empty] = _dict()
    inspection: Shown[SelectedNode | Empty] = _dict()
    controls: Shown[Controls | Empty] = _dict()
    devices = traitlets.List().tag(sync=True)
    handled = traitlets.Dict().tag(sync=True)  # the number of a page's last message, see `Inbox`
    found: Shown[SearchHits] = _dict()
    slice: Shown[LitSlice] = _dict()
    comparison: Shown[ComparisonTab] = _dict()
    source: Shown[SourceText | Empty] = _dict()
    source_of = traitlets.Dict().tag(sync=True)
    source_run = traitlets.Dict().tag(sync=True)
    recorded: Shown[RecordedValues | Empty] = _dict()
    curves = traitlets.Dict().tag(sync=True)
    expressions = traitlets.List().tag(sync=True)
    cotangents = traitlets.Bool(False).tag(sync=True)
    held = traitlets.Dict().tag(sync=True)
    source_heat: Shown[SourceHeat | Empty] = _dict()
    timeline: Shown[Timeline | Empty] = _dict()
    source_edits: Shown[SourceEdits | Empty] = _dict()
    answer: Shown[Answer | Empty] = _dict()
    flows: Shown[Flows | Empty] = _dict()
    states: Shown[StatesTab | Empty] = _dict()
    tags = traitlets.List().tag(sync=True)
    history: Shown[History | Empty] = _dict()
    message: Shown[Said | Empty] = _dict()
    progress: Shown[Progress | Idle] = _dict({"running": False})
    results: Shown[Results | Empty] = _dict()
    runs: Shown[RunStrip | Empty] = _dict()
    live = traitlets.Bool(False).tag(sync=True)
    gradients = traitlets.Enum(("", "off", "on"), "").tag(sync=True)
    stale = traitlets.Bool(False).tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    saved = traitlets.Unicode().tag(sync=True)

    def __init__(self, guard: threading.RLock, **kwargs: Any) -> None:
        self._guard = guard
        self._unsent: set[str] | None = None  # what `wait` keeps back
        super().__init__(**kwargs)

    def show(self, **traits: Any) -> None:
        """Sets several traits."""
        for name, value in traits.items():
            setattr(self, name, value)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Sends what changes meanwhile in one message: a notebook takes long for each."""
        with self._guard, self.hold_sync():
            yield

    def wait(self) -> None:
        """Sends nothing until `go_on`, which sends what has changed meanwhile in one message."""
        with self._guard:
            self._unsent = set() if self._unsent is None else self._unsent

    def go_on(self) -> None:
        """Ends what `wait` began, if anything did."""
        with self._guard:
            unsent, self._unsent = self._unsent, None
            if unsent:
                self.send_state(unsent)

    def send_state(self, key: Any = None) -> None:
        """Sends some traits, or all."""
        with self._guard:
            if self._unsent is None:
                super().send_state(key)
            else:
                names = self.keys if key is None else [key] if isinstance(key, str) else key
                self._unsent.update(names)

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The state to send, as plain JSON: marimo would send an `Address` as ``{}``."""
        return plain(super().get_state(*args, **kwargs))

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take in the browser's changes; a value that does not fit a trait is refused."""
        with self._guard:
            try:
                super().set_state(sync_data)
            except traitlets.TraitError as error:  # which the kernel would only log
                self.message = {"text": str(error), "error": True}
                self.send_state([name for name in sync_data if name in self.keys])


def plain(value: Any) -> Any:
    """The same with texts for classes of texts, and lists for tuples.

    >>> import taxpr
    >>> plain({"at": (taxpr.Address("0:sin"), 1.0)})
    {'at': ['0:sin', 1.0]}
    >>> type(plain(taxpr.Address("0:sin")))
    <class 'str'>
    """
    if isinstance(value, str):
        return str(value) if type(value) is not str else value
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
