"""`Graph`: the widget whose traits are the state that the browser draws."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import typing
from collections.abc import Iterator
from typing import Any, Literal

import anywidget
import traitlets

from taxpr_jupyter._messages.panel_traits import Traits
from taxpr_jupyter._model.legend import legend_rows
from taxpr_jupyter._model.questions import question_buttons
from taxpr_jupyter._output.modules import linked
from taxpr_jupyter._search.grammar import examples
from taxpr_jupyter._search.typed import EXAMPLE

STATIC = pathlib.Path(__file__).parent / "static"
_SIMPLE = {str: traitlets.Unicode, bool: traitlets.Bool, list: traitlets.List}


def _trait(hint: Any) -> Any:
    """A trait for values of a type: empty at first, and of a choice the first."""
    if typing.get_origin(hint) is Literal:
        choice = typing.get_args(hint)
        return traitlets.Enum(choice, choice[0])
    return _SIMPLE.get(typing.get_origin(hint) or hint, traitlets.Dict)()


class Graph(anywidget.AnyWidget, Traits):
    """Picture, inspector and results in the browser; `static/panel.js` says what it draws of them.

    It has a trait for each that `Traits` declares. The browser changes `selected`, `chosen`,
    `place`, `view`, `live` and `gradients`, and sends messages; all else goes from Python to the
    browser. The picture is sent only when it is another one, and the other views only while they
    are looked at.

    Args:
        guard: Held while a change from the browser is taken in, since that may happen on another
            thread than the session's changes.
    """

    _esm = linked(STATIC / "panel.js")
    _css = STATIC / "panel.css"
    _ipython_display_ = None  # ipywidgets 7 has one, which would keep the picture out of the output

    vars().update({k: _trait(v).tag(sync=True) for k, v in typing.get_type_hints(Traits).items()})

    def __init__(self, guard: threading.RLock, **kwargs: Any) -> None:
        self._guard = guard
        self._unsent: set[str] | None = None  # what `wait` keeps back
        constant = {
            "_legend": legend_rows(),
            "_criteria": [*examples(), EXAMPLE],
            "_questions": question_buttons(),
        }
        super().__init__(progress={"running": False}, **constant, **kwargs)

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
