"""Leaves a mark wherever a function that runs binds a variable.

Before a line runs, where one goes on after an assignment, and where a function returns, its
variables are compared with what they held before: what has changed was bound by the line that ran
last.
"""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._jaxprs.trees import named_leaves
from taxpr._primitives.cotangent import hidden_mark
from taxpr._variables.changes import keeps, stores
from taxpr._variables.comprehensions import function_of, is_comprehension, own_names
from taxpr._variables.held import Held, holds_none, is_tracer
from taxpr._variables.mark import Binding, mark_p, with_axis


class Watch:
    """The frames of one trace.

    Args:
        told_of_calls: Whether somebody calls `called`.
        cotangents: Whether the cotangents of the values are to be found, too.
    """

    def __init__(self, told_of_calls: bool, cotangents: bool = False) -> None:
        self._frames: dict[int, _Frame] = {}
        self._told_of_calls = told_of_calls
        self._changes = 0  # how often containers may have changed
        self._tangents = _compat.Tangents(hidden_mark) if cotangents else None

    def started(self, frame: types.FrameType) -> None:
        """To be called where a function begins."""
        if self._tangents is not None:
            self._tangents.look()
        if not is_comprehension(frame.f_code):
            line = _line_of_def(frame.f_code)
            self._frames[id(frame)] = _Frame(line, _trace_now())

    def line(self, frame: types.FrameType, line: int) -> None:
        """To be called before a line of a function runs."""
        self.assigned(frame)
        if (seen := self._frames.get(id(function_of(frame)))) is not None:
            seen.line = line

    def assigned(self, frame: types.FrameType) -> None:
        """To be called where a line goes on after it assigned something."""
        self.yielded(frame)
        if self._tangents is not None:
            self._tangents.look()

    def called(self, function: object) -> None:
        """To be called before a function calls another one."""
        self._changes += not keeps(function)

    def returned(self, frame: types.FrameType) -> None:
        """To be called where a function returns."""
        self.yielded(frame)
        self._frames.pop(id(frame), None)
        if is_comprehension(frame.f_code):
            around = function_of(frame)
            if (seen := self._frames.get(id(around))) is not None:
                seen.line = around.f_lineno  # which goes on there, and does not begin a line

    def yielded(self, frame: types.FrameType) -> None:
        """To be called where a function yields."""
        function = function_of(frame)
        seen = self._frames.get(id(function))
        if seen is not None:
            self._look(function, seen)

    def raised(self, frame: types.FrameType) -> None:
        """To be called where a function ends by an error."""
        self._frames.pop(id(frame), None)
        self._changes += 1

    def _may_have_changed(self, code: types.CodeType, variables: Mapping[str, Any]) -> bool:
        if not self._told_of_calls:
            return True
        anything, in_place = stores(code)
        return anything or any(
            not holds_none(value) and not is_tracer(value) for value in map(variables.get, in_place)
        )

    def _look(self, frame: types.FrameType, seen: _Frame) -> None:
        code, held, variables = frame.f_code, seen.held, frame.f_locals
        self._changes += self._may_have_changed(code, variables)
        trace = _compat.innermost_jaxpr_trace()
        if trace is None:
            return
        new: list[tuple[str, str, Any]] = []
        own = own_names(code, frame.f_lasti)  # the function's are put aside, and as they were
        for name, value in variables.items():
            if name in own:
                continue
            if holds_none(value):
                held.pop(name, None)
                continue
            before = held.get(name)
            # A free variable has its name where it was bound.
            if name in code.co_freevars:
                continue
            try:
                if before is not None and before.still(value, self._changes):
                    continue
                now = held[name] = Held(value, self._changes)
            except Exception:  # of a class of the user's; looking must not cost anything
                held.pop(name, None)
                continue
            new += ((name, path, leaf) for path, leaf in now.unlike(before))
        if new:
            place = code.co_qualname, code.co_filename, code.co_firstlineno, seen.line
            self._mark(trace, place, new)

    def tagged(self, name: Any, tree: _compat.TreeDef, values: Sequence[Any]) -> None:
        """To be called where a tag is made, of which the cotangent is to be found."""
        trace = _compat.innermost_jaxpr_trace()
        paths = [path for path, _ in named_leaves("", jax.tree.unflatten(tree, values))]
        if trace is not None and values:
            self._mark(trace, (), [(name, *row) for row in zip(paths, values, strict=True)])

    def _mark(
        self, innermost: Any, place: tuple[Any, ...], new: Sequence[tuple[Any, str, Any]]
    ) -> None:
        """Leave marks in the trace, and in those around it for values that are of these."""
        rows: dict[Any, list[tuple[Any, tuple[Any, str], tuple[int, ...], bool, Any]]] = {}
        for name, path, leaf in new:
            value, axes, differentiated = _compat.traced_value(leaf)
            if value is not None:
                mapped = functools.reduce(with_axis, axes, ())
                token = self._token(leaf)
                rows.setdefault(value._trace, []).append(
                    (value, (name, path), mapped, differentiated, token)
                )
        for trace, found in rows.items():
            if trace is innermost or any(trace is seen.trace() for seen in self._frames.values()):
                values, names, mapped, differentiated, tokens = zip(*found, strict=True)
                params = {
                    "binding": Binding(names, *place),
                    "mapped": mapped,
                    "differentiated": differentiated,
                }
                if self._tangents is not None:
                    params["cotangents"] = tokens
                _compat.record(trace, mark_p, values, params)

    def _token(self, value: Any) -> _compat.Token | bool:
        if self._tangents is None or not jnp.issubdtype(value.dtype, jnp.inexact):
            return False
        return self._tangents.mark(value)


@dataclasses.dataclass
class _Frame:
    """The function that runs in one frame.

    Attributes:
        line: The line that runs.
        trace: Gives what was traced when it began, which goes on while it runs.
        held: What each variable held.
    """

    line: int
    trace: Callable[[], Any]
    held: dict[str, Held] = dataclasses.field(default_factory=dict[str, Held])


def _trace_now() -> Callable[[], Any]:
    trace = _compat.innermost_jaxpr_trace()
    return _nothing if trace is None else weakref.ref(trace)


def _nothing() -> None:
    return None


@functools.lru_cache(maxsize=4096)
def _line_of_def(code: types.CodeType) -> int:
    """The line where the parameters of a function are; decorators come before it."""
    first, begins = code.co_firstlineno, re.compile(rf"\s*(async\s+)?def\s+{code.co_name}\b")
    lines = linecache.getlines(code.co_filename)[first - 1 :]
    if lines and lines[0].lstrip().startswith("@"):
        found = (first + k for k, line in enumerate(lines) if begins.match(line))
        return next(found, first)
    return first
