"""`Graph`: the widget whose traits are the state that the browser draws."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import anywidget
import traitlets

from taxpr_jupyter._model.legend import legend_rows
from taxpr_jupyter._output.modules import linked

STATIC = pathlib.Path(__file__).parent / "static"


class Graph(anywidget.AnyWidget):
    """Picture, inspector and results in the browser; `static/panel.js` says what it draws of them.

    The browser changes `selected`, `place` (of the picture in its window) and `view` ("picture",
    "text", "outline" or "compare") and `live`, and sends messages `{"do": action, "address": …}`;
    all else goes from Python to the browser. The picture is sent only when it is another one, and
    the other views only while they are looked at. `saved` is the class of the picture that is saved
    with the notebook, for which this stands.

    Args:
        guard: Held while a change from the browser is taken in, since that may happen on another
            thread than the session's changes.
    """

    _esm = linked(STATIC / "panel.js")
    _css = STATIC / "panel.css"
    _ipython_display_ = None  # ipywidgets 7 has one, which would keep the picture out of the output

    _legend = traitlets.List([list(row) for row in legend_rows()]).tag(sync=True)
    svg = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    call = traitlets.Unicode().tag(sync=True)
    counts = traitlets.Unicode().tag(sync=True)
    view = traitlets.Unicode("picture").tag(sync=True)
    rows = traitlets.Dict().tag(sync=True)
    heat = traitlets.Unicode().tag(sync=True)
    marks = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)
    inspection = traitlets.Dict().tag(sync=True)
    controls = traitlets.Dict().tag(sync=True)
    devices = traitlets.List().tag(sync=True)
    handled = traitlets.Dict().tag(sync=True)  # the number of a page's last message, see `Inbox`
    found = traitlets.Dict().tag(sync=True)
    slice = traitlets.Dict().tag(sync=True)
    comparison = traitlets.Dict().tag(sync=True)
    states = traitlets.Dict().tag(sync=True)
    tags = traitlets.List().tag(sync=True)
    message = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict({"running": False}).tag(sync=True)
    results = traitlets.Dict().tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)
    stale = traitlets.Bool(False).tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    saved = traitlets.Unicode().tag(sync=True)

    def __init__(self, guard: threading.RLock, **kwargs: Any) -> None:
        self._guard = guard
        super().__init__(**kwargs)

    def show(self, **traits: Any) -> None:
        """Sets several traits."""
        for name, value in traits.items():
            setattr(self, name, value)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Takes in what the browser changed."""
        with self._guard:
            super().set_state(sync_data)
