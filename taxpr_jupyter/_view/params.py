"""The sliders and fields of an injector's parameters."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import ipywidgets

import taxpr

FINER = 4  # digits that are kept of a slider's value, beyond those of its step
LARGEST = 10**300  # that a slider reaches, so that its length is a float, too
STEPS = 100  # of a slider, from end to end, before rounding to 1, 2 or 5 times a power of ten
WHOLE_STEPS = 10**6  # of a slider for integers, from end to end, each of them 1


class ParamRow:
    """A name, a slider, and a field that also takes values between and beyond the slider's.

    The field is text, which Python reads: the browser's number fields round large integers, cut
    1.5 to 1 for an integer and know no ``inf``. The slider counts its positions, since the one of
    ipywidgets 8 rounds whatever it is set to and sends that back; whole numbers stay as they are.

    Args:
        name: Of the parameter.
        param: What the injector declares about it, if anything.
        value: The present value, a real number or a bool.
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
        self._whole = isinstance(value, numbers.Integral)
        self._value = value
        self._slider: Any = None
        self._field: Any
        self._mistake = ipywidgets.Label().add_class("taxpr-failed")
        if isinstance(value, bool):
            self._field = ipywidgets.Checkbox(value=value, indent=False)
        else:
            self._scale = Scale(value, param)
            self._slider = ipywidgets.IntSlider(
                value=self._scale.position(value), min=0, max=self._scale.last, readout=False
            )
            self._field = ipywidgets.Text(value=str(value), continuous_update=False)
            self._slider.observe(self._moved, "value")
        self._field.observe(self._typed, "value")
        parts = [part for part in (self._slider, self._field) if part]
        line = ipywidgets.HBox([ipywidgets.Label(value=name), *parts])
        show_text(self._mistake, "")
        self.box = ipywidgets.VBox([line, self._mistake]).add_class("taxpr-param")
        if param and param.help:
            note = ipywidgets.Label(value=param.help).add_class("taxpr-note")
            self.box.children = [line, self._mistake, note]

    def show(self, value: Any) -> None:
        """Shows this value without telling anybody."""
        self._updating = True
        try:
            self._value = value
            show_text(self._mistake, "")
            if self._slider is None:
                self._field.value = value
                return
            self._slider.value = self._scale.position(value)
            if repr(_number(self._field.value, self._whole)) != repr(
                value
            ):  # else it stays as typed
                self._field.value = str(value)
        finally:
            self._updating = False

    def _moved(self, change: Any) -> None:
        if not self._updating:
            self._give(self._scale.value(change.new))

    def _typed(self, change: Any) -> None:
        if self._updating:
            return
        if self._slider is None:
            self._give(change.new)
            return
        number = _number(change.new, self._whole)
        if number is None:
            kind = "an integer" if self._whole else "a number"
            text = f"{change.new!r} is not {kind}: {self._name} is still {self._value}"
            show_text(self._mistake, text)
            return
        self._give(number)

    def _give(self, value: Any) -> None:
        self.show(value)
        self._on_value(self._name, value)


class Scale:
    """The positions of a slider, from 0 to `last`, and the values that they stand for.

    Args:
        value: The present value, a real number. Where it is an integer, all values are.
        param: What the injector declares about it, if anything.

    >>> scale = Scale(1.0, taxpr.Param(1.0, -2.0, 2.0))
    >>> scale.last, scale.value(50), scale.position(0.51), scale.position(math.inf)
    (80, 0.5, 50, 80)
    """

    def __init__(self, value: Any, param: taxpr.Param | None) -> None:
        self._low, self._high = slider_range(value, param)
        length = self._high - self._low
        self._step = slider_step(self._low, self._high)
        if isinstance(self._low, int):
            self._step = 1 if length <= WHOLE_STEPS else int(self._step)
        self._digits = FINER - math.floor(math.log10(self._step))
        self.last = max(1, math.ceil(round(length / self._step, FINER)))

    def value(self, position: int) -> Any:
        """What a position stands for, without noise such as that of 0.6000000000000001."""
        if position >= self.last:
            return self._high
        value = self._low + position * self._step
        return round(value, self._digits) if isinstance(value, float) else value

    def position(self, value: Any) -> int:
        """The position that is nearest to a value."""
        if value >= self._high:
            return self.last
        return round((value - self._low) / self._step) if value > self._low else 0


def slider_range(value: float, param: taxpr.Param | None) -> tuple[float, float]:
    """The ends of a slider: the declared ones, else those that `interact` takes; with the value.

    They are finite, also for a value that is not.

    >>> slider_range(2.0, None)
    (-2.0, 6.0)
    """
    kind = int if isinstance(value, numbers.Integral) else float
    finite = kind is int or math.isfinite(value)
    inside = kind(min(max(value, -LARGEST), LARGEST)) if finite else None
    low, high = sorted((-inside, 3 * inside)) if inside else (0, 1)
    if param and param.low is not None and math.isfinite(param.low):
        low = param.low
    if param and param.high is not None and math.isfinite(param.high):
        high = param.high
    among = (low, high) if inside is None else (low, high, inside)
    return kind(min(among)), kind(max(among))


def slider_step(low: float, high: float) -> float:
    """A round step, so that a slider takes about `STEPS` of them from end to end.

    >>> slider_step(-2.0, 2.0)
    0.05
    """
    raw = (high - low) / STEPS
    if raw <= 0 or not math.isfinite(raw):
        return 0.1
    power = math.floor(math.log10(raw))
    steps = (float(f"{k}e{power}") for k in (1, 2, 5, 10))
    return next(step for step in steps if step >= raw * (1 - 1e-9))


def _number(text: str, whole: bool) -> int | float | None:
    """The integer or the float that a text says; None where it says none."""
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return None


def close_all(widget: ipywidgets.Widget) -> None:
    """Closes a widget with all widgets in it."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


def show_text(label: ipywidgets.Label, text: str) -> None:
    label.value = text
    display(label, bool(text))


def display(widget: ipywidgets.DOMWidget, visible: bool) -> None:
    widget.layout.display = None if visible else "none"
