"""An injector at a site, with the values of its parameters."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._edits.functions import injector_of, is_function
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._text.short import shortened

_NOTHING = taxpr.from_function(lambda ctx, token, params: (token, ctx))


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """An injector is not tried out yet; this is the state to restore if the trial fails.

    Attributes:
        before: The previous injector, or None.
        tag: The params of the tag that was added with it; None if there was a tag already.
    """

    before: Attached | None
    tag: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Unread:
    """A ctx that is computed when its function is tried out, since that may take long.

    Attributes:
        read: Returns the ctx; raises `PanelError` without one.
    """

    read: Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Attached:
    """An injector at a site.

    Attributes:
        key: The key of the site.
        name: The injector's name.
        kind: ``"ready"``, ``"function"``, ``"injector"`` (given as an object), ``"typed"`` (a line
            of Python) or ``"several"``.
        values: The numbers among the values of its parameters.
        params: The parameters that it declares.
        error: Why it does not work at this site; None if it works.
        note: A remark for this site, such as a derivative that stays as it was.
        warned: The warnings behind the note.
        injector: The injector itself, values included.
        source: The kind, function or injector that it was made of.
        bound: The name of the source in the namespace; empty if it has none.
        asks_ctx: Whether the user must give its ctx, because their function uses it.
        trial: Set while it is not tried out yet, see `Session.settle`; else None.
        unread: Set while its next ctx is not computed yet; else None.
        variable: The variable that the user named; of an edit the one that is changed; else None.
        edits: Whether the source is edited there (`taxpr.edit`), and the program traced with it.
        off: Whether it is switched off: it stays here with its values, and does nothing.
        parts: If there are several injectors at the tag, these in order, each with the beginning
            of the names of its values; see `in_order`. `each` has them with their present values.
    """

    key: str
    name: str
    kind: str
    values: Mapping[str, Any]
    params: Mapping[str, taxpr.Param]
    error: str | None = None
    note: str = ""
    warned: tuple[Warning, ...] = dataclasses.field(default=(), repr=False, compare=False)
    injector: taxpr.injectors.Injector = dataclasses.field(
        default=_NOTHING, repr=False, compare=False
    )
    source: Any = dataclasses.field(default=None, repr=False, compare=False)
    bound: str = dataclasses.field(default="", repr=False, compare=False)
    asks_ctx: bool = False
    trial: Trial | None = dataclasses.field(default=None, repr=False, compare=False)
    unread: Unread | None = dataclasses.field(default=None, repr=False, compare=False)
    variable: Any = dataclasses.field(default=None, repr=False, compare=False)
    edits: bool = False
    off: bool = False
    parts: tuple[tuple[str, Attached], ...] = ()

    def __str__(self) -> str:
        """As a call: ``scale(factor=0.5)``; a line of Python as it was typed; whether it is off."""
        off = ", off" if self.off else ""
        if self.parts:
            return f"{', '.join(map(str, self.each))}{off}"
        if self.kind == "typed" and not self.values:
            return f"{self.name}{off}"
        values = ", ".join(f"{name}={_number(value)}" for name, value in self.values.items())
        name = f"({self.name})" if self.kind == "typed" else self.name
        return f"{name}({values}){off}"

    @property
    def each(self) -> list[Attached]:
        """The injectors of the tag in order, with their present values; mostly this one alone."""
        if not self.parts:
            return [self]
        now = []
        for label, part in self.parts:
            for name, before in part.values.items():
                value = self.values[f"{label}.{name}"]
                part = part if value == before else part.with_value(name, value)
            now.append(part)
        return now

    @property
    def idle(self) -> bool:
        """Whether it does nothing: it is off, or all of several injectors are."""
        return self.off or (bool(self.parts) and all(one.off for _, one in self.parts))

    @property
    def ctx(self) -> Any:
        """The first context of a function; ``()`` for other injectors; of several a list."""
        if self.parts:
            return [one.ctx for one in self.each]
        return self.injector.new_state(None) if is_function(self.source) else ()

    @property
    def is_ready(self) -> bool:
        """Whether it is an unchanged ready injector."""
        kind = taxpr.ready_injectors().get(self.injector.name)
        whole = type(self.injector) is taxpr.injectors.Injector
        return kind is not None and whole and is_made_by(self.injector, kind)

    def with_value(self, param: str, value: Any) -> Attached:
        """The same injector with another value of one parameter.

        Raises:
            PanelError: If there is no such parameter, or the value is no number.
        """
        if param not in self.values:
            known = ", ".join(self.values) or "no parameters"
            raise PanelError(f"{self.name} has {known}, and no parameter {param!r} to set")
        number = as_number(self.name, param, value, like=self.values[param])
        values = {**self.values, param: number}
        if is_function(self.source):
            made = injector_of(self.source, self.ctx, values)
        else:
            given = {**self.injector.values, param: number}
            made = dataclasses.replace(self.injector, values=given)
        return dataclasses.replace(self, values=values, injector=made)

    def with_ctx(self, ctx: Any) -> Attached:
        """The same function with another initial context.

        Raises:
            PanelError: If the injector is not made of a function.
        """
        if not is_function(self.source):
            raise PanelError(f"{self.name} has a context of its own, which is not set")
        if isinstance(ctx, Unread):
            return dataclasses.replace(self, unread=ctx)
        made = injector_of(self.source, ctx, self.values)
        return dataclasses.replace(self, injector=made, asks_ctx=True, unread=None)


def _number(value: Any) -> str:
    """A number in few digits; anything else as its `repr`, cut."""
    return f"{value:.6g}" if isinstance(value, float) else shortened(repr(value), 60)


def is_made_by(made: taxpr.injectors.Injector, kind: taxpr.injectors.InjectorKind) -> bool:
    """Whether an injector is of this kind, not only of a kind with this name.

    >>> @taxpr.injector(factor=taxpr.Param(2.0))
    ... def scale(token, factor):
    ...     return token + factor
    >>> is_made_by(taxpr.scale(0.5), taxpr.scale), is_made_by(scale(0.5), taxpr.scale)
    (True, False)
    """
    fire = getattr(made, "one", made).fire  # `one` is what `per="iteration"` repeats
    body = getattr(fire, "__wrapped__", None)
    return made.name == kind.name and body is kind.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number)


def as_number(injector: str, param: str, value: Any, *, like: Any) -> Any:
    """The value as a Python scalar: a float if the default is a float.

    Raises:
        PanelError: If it is no number.
    """
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if not is_number(value):
        raise PanelError(f"{injector}: {param} must be a number, not {value!r}")
    return float(value) if isinstance(like, float) and isinstance(value, int) else value
