"""Whether what runs may change a container that somebody holds.

Looking at all leaves of a large one before each line is slow, and of use only where something may
have changed it: an instruction that stores into an object, or a call of what is neither watched
itself nor hands functions new containers, as JAX does.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import os
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from taxpr._source.files import is_user_file
from taxpr._variables.codes import instructions_of, of_code
from taxpr._variables.contents import SOMEWHERE

_STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_ATTR"}
# Whoever has one of these methods and functions at hand may call it, or have it called.
_CHANGING = {
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"),
    *("setdefault", "popitem", "setattr", "delattr", "getattr", "exec", "eval", "vars"),
    *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__", "__ior__"),
    *("__imul__", "__dict__", "__getattribute__"),
}
_LOOPS = ("FOR_ITER", "SEND")
# What a key is computed by that does nothing else.
_OF_KEYS = (
    *("LOAD_FAST", "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_DEREF", "BINARY_OP"),
    *("UNARY_NEG", "FORMAT_", "CONVERT_VALUE", "BUILD_STRING", "BUILD_TUPLE"),
)
_AT_THE_END = ("JUMP", "RETURN", "LOAD_CONST", "NOP")  # of a line, where nothing is done
_FOLDERS = tuple(os.path.dirname(str(one.__file__)) + os.sep for one in (jax, np))
_MODULES = {"jax", "jaxlib", "numpy", "builtins", "math", "itertools"}
_class: Any = type  # which leaves types of classes unknown
_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


class Log:
    """The changes of containers: which place of which one, where that is known."""

    def __init__(self) -> None:
        self._unknown = 0
        self._places: list[tuple[int, Any]] = []

    @property
    def length(self) -> tuple[int, int]:
        """Where it ends now."""
        return self._unknown, len(self._places)

    def anything(self) -> None:
        """Note that any container may have changed."""
        self._unknown += 1
        self._places = []

    def place(self, container: Any, key: Any) -> None:
        """Note that this place of a container may have changed, and nothing else."""
        if key is SOMEWHERE and _class(container) in (list, dict):
            self._places.append((id(container), key))
        elif _class(container) is list and _class(key) is int:
            self._places.append((id(container), key + len(container) if key < 0 else key))
        elif _class(container) is dict and _class(key) in (int, str):
            self._places.append((id(container), key))
        else:
            self.anything()

    def since(self, before: tuple[int, int]) -> list[tuple[int, Any]] | None:
        """The places, each by the `id` of its container; None where others may have changed."""
        unknown, number = before
        return self._places[number:] if unknown == self._unknown else None


class Name(NamedTuple):
    """A variable that holds a key."""

    name: str


@dataclasses.dataclass(frozen=True)
class Line:
    """The effects that a line of a function may have.

    Attributes:
        binds: The variables that it binds.
        changes: Whether it may change any container by itself.
        in_place: The variables that it changes in place, as ``x += y`` does.
        place: The variable and the key, or its variable, where the only change is one assignment
            at the end of the line, such as ``rows[k] = y``; `SOMEWHERE` for a key that is computed.
        calls: Whether it calls something.
    """

    binds: frozenset[str] = frozenset()
    changes: bool = False
    in_place: frozenset[str] = frozenset()
    place: tuple[str, Any] | None = None
    calls: bool = False


@of_code
def lines_of(code: types.CodeType) -> Callable[[int], Line]:
    """The effects that each line of a function may have, by its number."""
    by_line: dict[int | None, list[dis.Instruction]] = defaultdict(list)
    escapes = False  # so that another line may have it called
    for one in instructions_of(code):
        by_line[one.positions.lineno if one.positions else None].append(one)
        escapes = escapes or _lets_escape(one)
    anywhere = by_line.pop(None, [])  # as where a handler of errors forgets its error
    lines = {line: _line([*anywhere, *own], escapes) for line, own in by_line.items()}
    return functools.partial(_at, lines, _line(anywhere, escapes))


def _at(lines: dict[int | None, Line], other: Line, line: int) -> Line:
    return lines.get(line, other)


def _lets_escape(one: dis.Instruction) -> bool:
    """Whether a method that changes containers is taken, and not called at once."""
    is_called = one.opname == "LOAD_METHOD" or "NULL|self" in one.argrepr  # up to 3.11, and since
    return one.opcode in dis.hasname and one.argval in _CHANGING and not is_called


def _line(instructions: list[dis.Instruction], escapes: bool) -> Line:
    binds: set[str] = set()
    in_place: set[str] = set()
    stores = [k for k, one in enumerate(instructions) if one.opname in _STORES]
    place = _place(instructions, stores[0]) if len(stores) == 1 else None
    changes = escapes or bool(stores and not place)
    was_in_place = False
    for one in instructions:
        # Python 3.13 has instructions that store one variable and load another.
        names: Any = one.argval if one.opname.startswith(("STORE_FAST", "STORE_DEREF")) else ()
        names = (names,) if isinstance(names, str) else names
        binds.update(names)
        if was_in_place:  # and now comes the store of `x += y` into `x`
            changes = changes or not names
            in_place.update(names)
        was_in_place = one.opname == "BINARY_OP" and one.argrepr.endswith("=")
    if place is not None and (not binds.isdisjoint(place) or (binds and SOMEWHERE in place)):
        changes, place = True, None
    calls = any(one.opname.startswith("CALL") for one in instructions)
    return Line(frozenset(binds), changes, frozenset(in_place), place, calls)


def _place(instructions: list[dis.Instruction], at: int) -> tuple[str, Any] | None:
    """The container and the key of an assignment with which a line ends; None of any other."""
    ends = (one.opname.startswith(_AT_THE_END) for one in instructions[at + 1 :])
    if instructions[at].opname != "STORE_SUBSCR" or not all(ends):
        return None
    loaded: list[Any] = []
    k = at
    while len(loaded) < 2:
        # Where one of two is chosen, what comes before in the code need not have run before.
        if k == 0 or instructions[k].is_jump_target:
            return None
        k -= 1
        one, value = instructions[k], instructions[k].argval
        if one.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(value) in (int, str):
            loaded[:0] = [value]
        elif one.opname.startswith("LOAD_FAST"):
            loaded[:0] = map(Name, (value,) if isinstance(value, str) else value)
        else:
            return _somewhere(instructions, at)
    container, key = loaded[-2:]
    return (container.name, key) if isinstance(container, Name) else None


def _somewhere(instructions: list[dis.Instruction], at: int) -> tuple[str, Any] | None:
    """The container of an assignment whose key is computed, and nothing else in its line jumps."""
    on_stack, k = 0, at
    while on_stack < 1:
        k -= 1
        if k < 1 or not instructions[k].opname.startswith(_OF_KEYS):
            return None
        on_stack += dis.stack_effect(instructions[k].opcode, instructions[k].arg)
    loads: Any = instructions[k if on_stack > 1 else k - 1]
    may_jump = any("JUMP" in one.opname or one.opname in _LOOPS for one in instructions[:at])
    if may_jump or not loads.opname.startswith("LOAD_FAST") or "CLEAR" in loads.opname:
        return None
    names = (loads.argval,) if isinstance(loads.argval, str) else loads.argval
    return names[0] if len(names) == on_stack > 1 else names[-1], SOMEWHERE


def keeps(called: Any) -> bool:
    """Whether a call leaves containers as they are, or is watched itself."""
    kind = _class(called)
    while kind in (functools.partial, types.MethodType):
        called = called.func if kind is functools.partial else called.__func__
        kind = _class(called)
    if kind is types.FunctionType:
        file = called.__code__.co_filename
        return is_user_file(file) or file.startswith(_FOLDERS)
    if isinstance(called, _IN_C):
        return called.__name__ not in _CHANGING and _of_these(called)
    return _of_these(called if kind is type else kind)


def _of_these(one: Any) -> bool:
    one = getattr(one, "__objclass__", one)  # the class of a method that is written in C
    return str(getattr(one, "__module__", "")).partition(".")[0] in _MODULES
