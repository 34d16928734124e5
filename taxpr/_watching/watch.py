"""Leaves a mark wherever a running function binds a variable.

Before a line runs, when it goes on after an assignment, and when a function returns, its variables
are compared with their former values: the line that ran last has bound the changed ones.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import linecache
import re
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat
from taxpr._jaxprs.trees import named_leaves
from taxpr._primitives.cotangent import hidden_mark
from taxpr._source.files import is_users
from taxpr._source.own_modules import OwnModules
from taxpr._source.parsed import Parsed, another_text
from taxpr._source.unnoticed import is_unnoticed
from taxpr._watching.assigned import goes_on
from taxpr._watching.changes import LineEffects, Log, keeps, lines_of
from taxpr._watching.codes import of_code
from taxpr._watching.comprehensions import function_of, is_comprehension, own_names
from taxpr._watching.handed import HandedValue, handed
from taxpr._watching.held import HeldTracers, holds_none, is_tracer
from taxpr._watching.mark import Binding, Untraced, mark_p, with_axis

_append = vars(list)["append"]
_unbound = object()
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_KNOWN: Any = (np.ndarray, np.generic, jax.Array)


class Watch:
    """The frames of one trace.

    Attributes:
        marks: How many times marks were left.
        untraced: The variables that held numbers or known arrays.
        again: Variables that were handed the same large value as in an earlier call: of the number
            of marks before, the `id` of the code and the name the number of its first binding.

    Args:
        told_of_calls: Whether somebody calls `called`.
        cotangents: Whether the cotangents of the values are to be found, too.
        said: The edits of variables of a frame, by their names.
        own: Libraries whose functions count as the user's.
    """

    of_calls = True

    def __init__(
        self,
        told_of_calls: bool,
        cotangents: bool = False,
        said: Callable[[types.FrameType], Mapping[str, str]] = lambda _: {},
        own: OwnModules | None = None,
    ) -> None:
        self.marks = 0
        self.untraced: Untraced = {}
        self.again: dict[tuple[int, int, str], int] = {}
        self._is_large = False  # what some variable holds
        self._frames: dict[int, _WatchedFrame] = {}
        self._told_of_calls = told_of_calls
        self._log = Log()
        self._edits = said
        self._own = own
        self._tangents = _compat.Tangents(hidden_mark) if cotangents else None

    def wants(self, code: types.CodeType) -> bool:
        """Whether it looks at a function: only the user's."""
        return is_users(code.co_filename, self._own)

    def offsets(self, code: types.CodeType) -> frozenset[int]:
        """The instructions before which it looks at variables, besides the first ones of lines."""
        return goes_on(code)

    def started(self, frame: types.FrameType) -> None:
        """To be called where a function begins."""
        if self._tangents is not None:
            self._tangents.look()
        code = frame.f_code
        if is_comprehension(code) or is_unnoticed():
            return
        trace = _compat.innermost_jaxpr_trace()
        within = trace is not None and any(one.trace() is trace for one in self._frames.values())
        began = _nothing if trace is None else weakref.ref(trace)
        bound = set(_variables_of(code)[0])
        self._frames[id(frame)] = _WatchedFrame(line_of_def(code), began, within, bound)

    def line(self, frame: types.FrameType, line: int) -> None:
        """To be called before a line of a function runs."""
        self.assigned(frame)
        if (seen := self._frames.get(id(function_of(frame)))) is not None:
            seen.line = line

    def instruction(self, frame: types.FrameType, offset: int) -> None:
        """To be called before one of `offsets` runs."""
        del offset
        self.assigned(frame)

    def assigned(self, frame: types.FrameType) -> None:
        """To be called where a line goes on after it assigned something."""
        self.yielded(frame)
        if self._tangents is not None:
            self._tangents.look()

    def called(self, function: object, first: Any) -> None:
        """To be called before a function calls another one, with the first argument."""
        if function is _append and issubclass(type(first), list):
            self._log.place(first, len(first))
        elif not keeps(function):
            self._log.anything()

    def returned(self, frame: types.FrameType) -> None:
        """To be called where a function returns."""
        self.yielded(frame)
        self._frames.pop(id(frame), None)
        if is_comprehension(frame.f_code):
            around = function_of(frame)
            if (seen := self._frames.get(id(around))) is not None:
                seen.line = around.f_lineno  # which goes on there, and does not begin a line

    def said(self, frame: types.FrameType) -> Mapping[str, str]:
        """It changes no variable."""
        del frame
        return {}

    def yielded(self, frame: types.FrameType) -> None:
        """To be called where a function yields."""
        function = function_of(frame)
        if function is not frame:
            self._log.anything()  # what the lines of a comprehension do is in another code
        seen = self._frames.get(id(function))
        if seen is not None:
            self._look(function, seen)

    def raised(self, frame: types.FrameType) -> None:
        """To be called where a function ends by an error."""
        if self._frames.pop(id(frame), None) is not None:  # nobody has looked at its last line
            self._log.anything()

    def _note_changes(self, does: LineEffects, variables: Mapping[str, Any]) -> None:
        """Note the possible changes of containers by a line itself, without its calls."""
        in_place = map(variables.get, does.in_place)
        if (
            does.changes
            or (does.calls and not self._told_of_calls)
            or any(not holds_none(value) and not is_tracer(value) for value in in_place)
        ):
            self._log.anything()
        elif does.place is not None:
            does.place.note(self._log, variables)

    def _look(self, frame: types.FrameType, seen: _WatchedFrame) -> None:
        code, held, variables = frame.f_code, seen.held, frame.f_locals
        does = lines_of(code)(seen.line)
        self._note_changes(does, variables)
        seen.bound.update(does.binds)
        trace = _compat.innermost_jaxpr_trace()
        if trace is None:
            return
        new: list[tuple[str, str, Any]] = []
        own = own_names(code, frame.f_lasti)  # the function's are put aside, and as they were
        for name in _looked_at(code, seen, variables):
            value = _unbound if name in own else variables.get(name, _unbound)
            if value is _unbound:
                continue
            if holds_none(value):
                self._note_untraced(code, seen.line, name, value)
                held.pop(name, None)
                seen.open.discard(name)
                continue
            before = held.get(name)
            try:
                if before is None and (handed := self._handed(frame, seen, name, value)):
                    before = self._as_before(handed, code, name)
                    if before is not None:
                        held[name] = before
                else:
                    handed = None
                found = before.changes(value, self._log) if before is not None else None
                if found is None:
                    now = held[name] = HeldTracers(value, self._log)
                    found = now.unlike(before)
                    self._is_large = self._is_large or now.is_large
                    if handed is not None:
                        handed.keep(now, self.marks + 1)
                new += ((name, path, leaf) for path, leaf in found)
            except Exception:  # of a class of the user's; looking must not cost anything
                held.pop(name, None)
            is_fixed = name in held and held[name].is_fixed
            (seen.open.discard if is_fixed else seen.open.add)(name)
        seen.bound.intersection_update(own)
        if new:
            place = code.co_qualname, code.co_filename, code.co_firstlineno, seen.line, seen.within
            self._mark(trace, place, new, self._edited(frame, seen.line))

    def _handed(
        self, frame: types.FrameType, seen: _WatchedFrame, name: str, value: object
    ) -> HandedValue | None:
        """Who holds a large value that a variable gets as its first; None if nobody."""
        # A generator may run beside another one from the same place.
        if not self._is_large or is_tracer(value) or frame.f_code.co_flags & _SUSPENDED:
            return None

        def held_in(frame: types.FrameType) -> Iterable[HeldTracers]:
            known = self._frames.get(id(frame))
            return known.held.values() if known is not None else ()

        return handed(frame, held_in, value, name, seen.line, seen.within)

    def _as_before(
        self, handed: HandedValue, code: types.CodeType, name: str
    ) -> HeldTracers | None:
        """The tracers of a variable in the last call from the same place."""
        if (last := handed.last) is None:
            return None
        if handed.may_change:
            self._log.anything()
        self.again[self.marks, id(code), name] = last.number
        return last.held

    def _edited(self, frame: types.FrameType, line: int) -> Mapping[str, str]:
        """The edits of a line: of variables by their names; "" means the whole line."""
        other = _other_text(frame.f_code)
        new = other.lines[line - 1].strip() if other is not None else ""
        old = linecache.getline(frame.f_code.co_filename, line).strip() if new else ""
        return {**({"": new} if new != old else {}), **self._edits(frame)}

    def _note_untraced(self, code: types.CodeType, line: int, name: str, value: Any) -> None:
        """Note a scalar or a known array that is not in the program."""
        if isinstance(value, (bool, int, float, complex)):
            said = f"the Python {type(value).__name__} {value!r}"
        elif isinstance(value, _KNOWN):
            said = f"an array that is known while tracing, {value.dtype}{list(value.shape)}"
        else:
            return
        self.untraced[code.co_qualname, name] = code.co_filename, line, said

    def tagged(self, name: Any, tree: _compat.TreeDef, values: Sequence[Any]) -> None:
        """Called when a tag is made whose cotangent is to be found."""
        trace = _compat.innermost_jaxpr_trace()
        paths = [path for path, _ in named_leaves("", jax.tree.unflatten(tree, values))]
        if trace is not None and values:
            self._mark(trace, (), [(name, *row) for row in zip(paths, values, strict=True)])

    def _mark(
        self,
        innermost: Any,
        place: tuple[Any, ...],
        new: Sequence[tuple[Any, str, Any]],
        edited: Mapping[str, str] = types.MappingProxyType({}),
    ) -> None:
        """Leave marks in the trace, and in those around it for values that are of these."""
        self.marks += 1
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
                    "binding": Binding(names, *place, number=self.marks, edited=edited),
                    "mapped": mapped,
                    "differentiated": differentiated,
                }
                if self._tangents is not None:
                    params["cotangents"] = tokens
                _compat.record(trace, mark_p, values, params, {_compat.tag_effect})

    def _token(self, value: Any) -> _compat.Token | bool:
        if self._tangents is None or not jnp.issubdtype(value.dtype, jnp.inexact):
            return False
        return self._tangents.mark(value)


@dataclasses.dataclass
class _WatchedFrame:
    """The function that runs in one frame.

    Attributes:
        line: The line that runs.
        trace: Gives the trace that was open when it began, and stays open while it runs.
        within: Whether another watched function was running then, in the same trace.
        bound: The variables that were bound since somebody looked last, or may have been.
        held: The value of each variable.
        open: The variables that may change although nothing binds them.
    """

    line: int
    trace: Callable[[], Any]
    within: bool
    bound: set[str]
    held: dict[str, HeldTracers] = dataclasses.field(default_factory=dict[str, HeldTracers])
    open: set[str] = dataclasses.field(default_factory=set[str])


def _looked_at(
    code: types.CodeType, seen: _WatchedFrame, variables: Mapping[str, Any]
) -> Iterable[str]:
    """The variables that may hold something else than before, in the order of the function's."""
    own, free, of_others = _variables_of(code)
    if not code.co_flags & inspect.CO_OPTIMIZED:  # of a class, say
        return [name for name in variables if name not in free]
    names = [name for name in seen.bound.union(seen.open, of_others) if name in own]
    return sorted(names, key=own.__getitem__) if len(names) > 1 else names


@of_code
def _variables_of(code: types.CodeType) -> tuple[dict[str, int], set[str], set[str]]:
    """A function's own variables in order; those from around it; those that others may bind.

    A free variable has its name where it was bound.
    """
    own = dict.fromkeys((*code.co_varnames, *code.co_cellvars))
    places = {name: k for k, name in enumerate(own)}
    return places, set(code.co_freevars), set(code.co_cellvars)


@of_code
def _other_text(code: types.CodeType) -> Parsed | None:
    """The text that code was made of, if an edit has changed its file's text."""
    return another_text(code)


def _nothing() -> None:
    return None


@of_code
def line_of_def(code: types.CodeType) -> int:
    """The line where the parameters of a function are; decorators come before it."""
    first, begins = code.co_firstlineno, re.compile(rf"\s*(async\s+)?def\s+{code.co_name}\b")
    lines = linecache.getlines(code.co_filename)[first - 1 :]
    if lines and lines[0].lstrip().startswith("@"):
        found = (first + k for k, line in enumerate(lines) if begins.match(line))
        return next(found, first)
    return first
