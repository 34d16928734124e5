"""The sliders and fields of an injector's parameters."""

import functools
import math
import numbers
from collections.abc import Callable
from typing import Any

import taxpr
from taxpr_jupyter._edits.functions import is_empty
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.selected import Param
from taxpr_jupyter._stoppable import STOPPING

FINER = 4  # digits that are kept of a slider's value, beyond those of its step
LARGEST = 10**300  # that a slider reaches, so that its length is a float, too
STEPS = 100  # of a slider, from end to end, before rounding to 1, 2 or 5 times a power of ten
WHOLE_STEPS = 10**6  # of a slider for integers, from end to end, each of them 1


class ParamField:
    """A parameter as the panel shows it: a slider, and a field that takes any number.

    The field is text, which Python reads: the browser's number fields round large integers, cut
    1.5 to 1 for an integer and know no ``inf``. Typed text stays unchanged. The slider counts its
    positions, so that whole numbers stay whole.

    Args:
        name: The name of the parameter.
        param: The injector's declaration of it, or None.
        value: The present value, a real number or a bool.
    """

    def __init__(self, name: str, param: taxpr.Param | None, value: Any) -> None:
        self.name = name
        self._help = param.help if param else ""
        self._flag = isinstance(value, bool)
        self._whole = isinstance(value, numbers.Integral)
        self._scale = None if self._flag else Scale(value, param)
        self._value = value
        self._text = str(value)
        self.mistake = ""

    def show(self, value: Any) -> None:
        """Shows another value."""
        if repr(value) != repr(self._value):
            self._value = value
            if repr(self._read(self._text)) != repr(value):  # else it stays as it was typed
                self._text, self.mistake = str(value), ""

    def typed(self, text: str) -> Any:
        """The typed value; if it is no number, None, and the field says so."""
        self._text, self.mistake = text, ""
        value = self._read(text)
        if value is None:
            self.refuse(f"{text!r} is not {'an integer' if self._whole else 'a number'}")
        return value

    def moved(self, position: int) -> Any:
        """The value at a position of the slider."""
        value = self._scale.value(position) if self._scale else self._value
        self._text, self.mistake = str(value), ""
        return value

    def refuse(self, why: str) -> None:
        """Says why a typed text is wrong."""
        self.mistake = f"{why}: {self.name} is still {self._value}"

    def _read(self, text: str) -> Any:
        if self._flag:
            return {"True": True, "False": False}.get(text)
        return _number(text, self._whole)

    def state(self) -> Param:
        """The data that `static/controls.js` draws."""
        return {
            "name": self.name,
            "help": self._help,
            "text": self._text,
            "mistake": self.mistake,
            "flag": self._flag,
            "position": self._scale.position(self._value) if self._scale else 0,
            "last": self._scale.last if self._scale else 0,
        }


class CtxField:
    """The first context of a function as the panel asks for it: Python, read in the notebook."""

    name = "ctx"
    _help = "The first context, in Python: 0.0, or jnp.zeros(3)."

    def __init__(self, ctx: Any) -> None:
        self._now = self._text = _ctx_text(ctx)
        self._known: str | None = self._text  # what `_text` gives; None while it is not known
        self.mistake = ""

    def show(self, ctx: Any) -> None:
        """Shows another one; what was typed stays if it gives this one, or is a mistake."""
        now = _ctx_text(ctx)
        if now != self._known and (now != self._now or not self.mistake):
            self._known = self._text = now
            self.mistake = ""
        self._now = now

    def typed(self, text: str, names: dict[str, Any], where: str) -> Callable[[], Any]:
        """A function that returns the value of the typed expression.

        If it has no value, it raises `PanelError`, and the field says so, too.
        """
        self._text, self._known, self.mistake = text, None, ""

        @functools.cache
        def read() -> Any:
            try:
                ctx = eval(text, names)
            except STOPPING:
                raise
            except BaseException as error:  # it may be `exit()`
                mistake = f"{type(error).__name__}: {error}"
                if self._text == text:
                    self.refuse(mistake)
                raise PanelError(f"{where}: {mistake}") from None
            if self._text == text:  # else something else was typed meanwhile
                self._known = _ctx_text(ctx)
            return ctx

        return read

    def refuse(self, why: str) -> None:
        """Says why a typed text is wrong."""
        self.mistake = why

    def state(self) -> Param:
        """The data that `static/controls.js` draws."""
        shown = {"name": self.name, "help": self._help, "text": self._text}
        return Param(**shown, mistake=self.mistake, flag=False, position=0, last=0)


def _ctx_text(ctx: Any) -> str:
    return "" if is_empty(ctx) else " ".join(str(ctx).split())


class Scale:
    """The positions of a slider, from 0 to `last`, and their values.

    Args:
        value: The present value, a real number. If it is an integer, all values are.
        param: The injector's declaration of it, or None.

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
        """The value of a slider position, without rounding noise such as 0.6000000000000001."""
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
