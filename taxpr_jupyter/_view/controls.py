"""The ipywidgets of the panel: which injector, its parameters, and Run.

Only what is the same in ipywidgets 7.7 and 8 is used. Names that come from a program are shown
by `Label` and as options, which put text into the page; ipywidgets 7 puts a `description` there
as HTML.
"""

from __future__ import annotations

import numbers
import threading
from collections.abc import Callable
from typing import Any

import ipywidgets

from taxpr_jupyter._edits.attach import noted_already
from taxpr_jupyter._edits.inspect import Inspection
from taxpr_jupyter._session.session import Attached, Session
from taxpr_jupyter._view.params import ParamRow, close_all, display, show_text

Attempt = Callable[..., Any]  # calls a method of the session; a mistake becomes a message


class InjectorControls:
    """Attaches an injector to the selected value and sets its parameters.

    Args:
        session: Where the injectors are.
        guard: Held while what the browser sends is handled.
        attempt: Calls a method of the session and shows the mistake if there is one.
    """

    def __init__(self, session: Session, guard: threading.RLock, attempt: Attempt) -> None:
        self._session = session
        self._guard = guard
        self._attempt = attempt
        self._updating = False
        self._rows: dict[str, ParamRow] = {}
        self._shown: tuple[str, ...] = ()  # of what injector the rows are
        self._place = ipywidgets.Dropdown(options=(), description="Value")
        self._injector = ipywidgets.Dropdown(options=(), description="Injector")
        self._note = ipywidgets.Label().add_class("taxpr-note")
        self._remark = ipywidgets.Label().add_class("taxpr-note")
        self._failure = ipywidgets.Label().add_class("taxpr-failed")
        self._params = ipywidgets.VBox()
        self._place.observe(self._on_place, "value")
        self._injector.observe(self._on_injector, "value")
        texts = [self._note, self._remark, self._failure]
        rows = [self._place, self._injector, *texts, self._params]
        self.box = ipywidgets.VBox(rows).add_class("taxpr-controls")
        self.show(None)

    def show(self, node: Inspection | None) -> None:
        """Shows the controls for this node; hides them where no injector can go."""
        places = _places(node) if node else []
        before = self._place.value
        addresses = [address for _, address in places]
        self._set(self._place, places, before if before in addresses else None)
        display(self._place, len(places) > 1)
        display(self.box, bool(places))
        self._show_injector()

    def refresh_values(self) -> None:
        """Takes the values of the parameters over from the session."""
        attached = self._attached()
        for name, row in self._rows.items():
            if attached and name in attached.values:
                row.show(attached.values[name])

    @property
    def _address(self) -> str | None:
        return self._place.value

    def _attached(self) -> Attached | None:
        return self._session.injectors.get(self._address) if self._address else None

    def _show_injector(self) -> None:
        attached = self._attached()
        choices = self._session.choices() if self._address else {}
        options = [("none", ""), *((name, name) for name in choices)]
        if attached and attached.name not in choices:  # an injector that was made in Python
            options.append((attached.name, attached.name))
        self._set(self._injector, options, attached.name if attached else "")
        choice = choices.get(attached.name) if attached else None
        show_text(self._note, choice.doc if choice else "")
        show_text(self._remark, attached.note if attached else "")
        show_text(self._failure, attached.error or "" if attached else "")
        shown = (attached.key, attached.name, *attached.values) if attached else ()
        if shown == self._shown:
            self.refresh_values()
            return
        self._shown = shown
        old = self._params.children
        values, params = (attached.values, attached.params) if attached else ({}, {})
        self._rows = {
            name: ParamRow(name, params.get(name), value, self._on_value)
            for name, value in values.items()
            if isinstance(value, numbers.Real)
        }
        self._params.children = [row.box for row in self._rows.values()]
        for box in old:
            close_all(box)

    def _set(self, dropdown: ipywidgets.Dropdown, options: list, value: Any) -> None:
        """Sets options and value without calling the session."""
        self._updating = True
        try:
            if dropdown.options != tuple(options):
                dropdown.options = options
            dropdown.value = value if value is not None or not options else options[0][1]
        finally:
            self._updating = False

    def _on_place(self, change: Any) -> None:
        with self._guard:
            if not self._updating:
                self._show_injector()

    def _on_injector(self, change: Any) -> None:
        with self._guard:
            if self._updating:
                return
            if change.new:
                with noted_already():  # which `_show_injector` shows
                    self._attempt(self._session.attach, self._address, change.new)
            else:
                self._attempt(self._session.detach, self._address)
            self._show_injector()  # also after a mistake: then it shows what is there still

    def _on_value(self, name: str, value: Any) -> None:
        with self._guard:
            self._attempt(self._session.set_value, self._address, name, value)
            self.refresh_values()


class RunControls:
    """The devices and the Run button.

    Args:
        devices: Their names, the default first.
        run: Called with the name of the chosen device.
    """

    def __init__(self, devices: list[str], run: Callable[[str | None], Any]) -> None:
        device = ipywidgets.Dropdown(options=devices).add_class("taxpr-device")
        self.button = ipywidgets.Button(description="Run", icon="play", button_style="primary")
        self.button.on_click(lambda _: run(device.value))
        self.box = ipywidgets.HBox([device, self.button]).add_class("taxpr-run")


def _places(node: Inspection) -> list[tuple[str, str]]:
    """Where an injector could go: the tag that the node is, or each value that can have one."""
    if node.site:
        return [] if node.site.refused else [(node.site.name or node.site.key, node.site.key)]
    return [
        (row.text, row.tag.key if row.tag else row.address)
        for row in node.values
        if not (row.refused or (row.tag and row.tag.refused))
    ]
