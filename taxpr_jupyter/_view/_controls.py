"""The ipywidgets of the panel: which injector, its parameters, and Run.

Only what is the same in ipywidgets 7.7 and 8 is used. Names that come from a program are shown
by `Label` and as options, which put text into the page; ipywidgets 7 puts a `description` there
as HTML.
"""

from __future__ import annotations

import math
import numbers
import threading
from collections.abc import Callable
from typing import Any

import ipywidgets

import taxpr
from taxpr_jupyter._session._attach import noted_already
from taxpr_jupyter._session._inspect import Inspection
from taxpr_jupyter._session._session import Attached, Session

FINER = 4  # digits that are kept of a slider's value, beyond those of its step
STEPS = 100  # of a slider, from end to end, before rounding to 1, 2 or 5 times a power of ten

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
        _display(self._place, len(places) > 1)
        _display(self.box, bool(places))
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
        _show_text(self._note, choice.doc if choice else "")
        _show_text(self._remark, attached.note if attached else "")
        _show_text(self._failure, attached.error or "" if attached else "")
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
            if isinstance(value, numbers.Real) and _has_end(value, params.get(name))
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


class ParamRow:
    """A name, a slider, and a field that also takes values beyond the slider's ends.

    Args:
        name: Of the parameter.
        param: What the injector declares about it, if anything.
        value: The present value, a real number or a bool. Of an infinite one, for which ``param``
            must declare the end, the slider stands at that end, and a text says what it is.
        on_value: Called with name and value when the user changes it.
    """

    def __init__(
        self,
        name: str,
        param: taxpr.Param | None,
        value: Any,
        on_value: Callable[[str, Any], None],
    ) -> None:
        self._name = name
        self._on_value = on_value
        self._updating = False
        self._slider: Any = None
        self._digits = 0  # after the point, of what the slider gives
        self._param = param
        self._infinite = ipywidgets.Label()
        _show_text(self._infinite, _infinite_text(value))
        value = _at_end(value, param)
        if isinstance(value, bool):
            self._field = ipywidgets.Checkbox(value=value, indent=False)
        else:
            whole = isinstance(value, int)
            Slider = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
            Field = ipywidgets.IntText if whole else ipywidgets.FloatText
            low, high = slider_range(value, param)
            step = 1 if whole else slider_step(low, high)
            self._digits = FINER - math.floor(math.log10(step))
            self._slider = Slider(value=value, min=low, max=high, step=step, readout=False)
            self._field = Field(value=value, step=step)
        parts = [part for part in (self._slider, self._field) if part]
        for part in parts:
            part.observe(self._changed, "value")
        line = ipywidgets.HBox([ipywidgets.Label(value=name), *parts, self._infinite])
        self.box = ipywidgets.VBox([line]).add_class("taxpr-param")
        if param and param.help:
            self.box.children = [line, ipywidgets.Label(value=param.help).add_class("taxpr-note")]

    def show(self, value: Any) -> None:
        """Shows this value without telling anybody."""
        self._updating = True
        try:
            _show_text(self._infinite, _infinite_text(value))
            if not math.isfinite(value := _at_end(value, self._param)):
                return  # JSON has no such numbers
            if self._slider:
                self._slider.min = min(self._slider.min, value)
                self._slider.max = max(self._slider.max, value)
                if self._rounded(self._slider.value) != value:  # else it would be moved back
                    self._slider.value = value
            self._field.value = value
        finally:
            self._updating = False

    def _changed(self, change: Any) -> None:
        if self._updating:
            return
        by_slider = change.owner is self._slider
        self._on_value(self._name, self._rounded(change.new) if by_slider else change.new)

    def _rounded(self, value: Any) -> Any:
        """A slider's value without noise: the browser adds up steps to 0.6000000000000001."""
        return round(value, self._digits) if isinstance(value, float) else value


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


def slider_range(value: float, param: taxpr.Param | None) -> tuple[float, float]:
    """The ends of a slider: the declared ones, else those that `interact` takes; with the value.

    >>> slider_range(2.0, None)
    (-2.0, 6.0)
    """
    kind = type(value)
    low, high = (0, 1) if value == 0 else sorted((-value, 3 * value))
    if param and param.low is not None:
        low = param.low
    if param and param.high is not None:
        high = param.high
    return kind(min(low, value)), kind(max(high, value))


def slider_step(low: float, high: float) -> float:
    """A round step, so that a slider takes about `STEPS` of them from end to end.

    >>> slider_step(-2.0, 2.0)
    0.05
    """
    raw = (high - low) / STEPS
    if raw <= 0 or not math.isfinite(raw):
        return 0.1
    power = 10.0 ** math.floor(math.log10(raw))
    return next(round(k * power, 12) for k in (1, 2, 5, 10) if k * power >= raw * (1 - 1e-9))


def _has_end(value: Any, param: taxpr.Param | None) -> bool:
    return math.isfinite(_at_end(value, param))


def _at_end(value: Any, param: taxpr.Param | None) -> Any:
    """The value, or of an infinite one the end that is declared on that side."""
    if param is None or not math.isinf(value):
        return value
    end = param.low if value < 0 else param.high
    return value if end is None else type(value)(end)


def _infinite_text(value: Any) -> str:
    return f"now {value}" if math.isinf(value) else ""


def _places(node: Inspection) -> list[tuple[str, str]]:
    """Where an injector could go: the tag that the node is, or each value that can have one."""
    if node.site:
        return [] if node.site.refused else [(node.site.name or node.site.key, node.site.key)]
    return [
        (row.text, row.tag.key if row.tag else row.address)
        for row in node.values
        if not (row.refused or (row.tag and row.tag.refused))
    ]


def close_all(widget: ipywidgets.Widget) -> None:
    """Closes a widget with all widgets in it."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


def _show_text(label: ipywidgets.Label, text: str) -> None:
    label.value = text
    _display(label, bool(text))


def _display(widget: ipywidgets.DOMWidget, visible: bool) -> None:
    widget.layout.display = None if visible else "none"
