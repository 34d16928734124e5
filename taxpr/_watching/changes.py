"""Whether running code may change a container that somebody holds.

Looking at all leaves of a large one before each line is slow, and needed only if something may have
changed it: an instruction that stores into an object, or a call of a function that is not watched
and does not hand out new containers, as JAX does.
"""

import dataclasses
import dis
import functools
import operator
import os
import types
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from taxpr._source.files import is_user_file
from taxpr._watching.codes import instructions_of, of_code
from taxpr._watching.contents import SOMEWHERE

_STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_ATTR"}
# Whoever has one of these methods and functions at hand may call it, or have it called.
_CHANGING = {
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"),
    *("setdefault", "popitem", "setattr", "delattr", "getattr", "exec", "eval", "vars"),
    *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__", "__ior__"),
    *("__imul__", "__dict__", "__getattribute__"),
}
_LOADS = ("LOAD_FAST", "LOAD_DEREF")
_LOOPS = ("FOR_ITER", "SEND")
# What a key is computed by that does nothing else.
_OF_KEYS = (
    *("LOAD_FAST", "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_DEREF", "BINARY_OP"),
    *("UNARY_NEG", "FORMAT_", "CONVERT_VALUE", "BUILD_STRING", "BUILD_TUPLE"),
)
_operators: Any = operator  # some of which declare no types
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add,  # of ints and of strings, the others of ints
    "-": operator.sub,
    "*": operator.mul,
    "//": _operators.floordiv,
    "%": operator.mod,
}
_AT_THE_END = ("JUMP", "RETURN", "LOAD_CONST", "NOP")  # of a line, where nothing is done
_FOLDERS = tuple(os.path.dirname(str(one.__file__)) + os.sep for one in (jax, np))
_MODULES = {"jax", "jaxlib", "numpy", "builtins", "math", "itertools"}
_class: Any = type  # which leaves types of classes unknown
_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


class Log:
    """The changes of containers: the container and the place, if known."""

    def __init__(self) -> None:
        self._unknown = 0
        self._places: list[tuple[int, Any]] = []

    @property
    def length(self) -> tuple[int, int]:
        """The present end of the log."""
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

    def attribute(self, owner: Any, name: str) -> None:
        """Note that this attribute of an object may have changed, and nothing else."""
        kind = _class(owner)
        if _is_plain_attribute(kind, name):
            self.place(object.__getattribute__(owner, "__dict__"), name)
        else:
            self.anything()

    def since(self, before: tuple[int, int]) -> list[tuple[int, Any]] | None:
        """The places, each by the `id` of its container; None where others may have changed."""
        unknown, number = before
        return self._places[number:] if unknown == self._unknown else None


@functools.lru_cache(maxsize=4096)
def _is_plain_attribute(kind: type, name: str) -> bool:
    """Whether setting an attribute of an object of this class changes its ``__dict__`` alone."""
    if kind.__setattr__ is not object.__setattr__ or kind.__dictoffset__ == 0:
        return False
    return not hasattr(_class(_found(kind, name)), "__set__")


def _found(kind: type, name: str) -> Any:
    """An attribute of a class or of one of its bases; None without one."""
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)


class Name(NamedTuple):
    """A variable in the expression of a key."""

    name: str


class ChangedPlace(NamedTuple):
    """The place that an assignment such as ``rows[k - 1] = y`` changes.

    Attributes:
        container: The variable.
        key: What computes the key: a stack machine pushes ints, strings and the values of a `Name`,
            and calls functions with what it has pushed. None for a key that is computed otherwise.
        of_attributes: Whether it is an attribute, and the key its name.
    """

    container: str
    key: tuple[Any, ...] | None
    of_attributes: bool = False

    @property
    def reads(self) -> set[str]:
        """The variables that tell what it is."""
        names = (one.name for one in self.key or () if isinstance(one, Name))
        return {self.container, *names}

    def note(self, log: Log, variables: Mapping[str, Any]) -> None:
        """Note the change, after the line has run."""
        container = variables.get(self.container)
        if self.of_attributes:
            log.attribute(container, self.key[0] if self.key else "")
        else:
            log.place(container, _computed(self.key, variables))


def _computed(key: tuple[Any, ...] | None, variables: Mapping[str, Any]) -> Any:
    """The key; `SOMEWHERE` where it is not known."""
    stack: list[Any] = []
    for one in key or ():
        if not callable(one):
            stack.append(variables.get(one.name) if isinstance(one, Name) else one)
            continue
        number = 1 if one is operator.neg else 2
        operands = stack[-number:]
        if {_class(value) for value in operands} not in _OPERANDS.get(one, _OF_INTS):
            return SOMEWHERE
        try:
            stack[-number:] = [one(*operands)]
        except ArithmeticError:
            return SOMEWHERE
    return stack[0] if stack else SOMEWHERE


_OF_INTS: tuple[set[type], ...] = ({int},)
_OPERANDS: dict[Any, tuple[set[type], ...]] = {operator.add: ({int}, {str})}


@dataclasses.dataclass(frozen=True)
class LineEffects:
    """The effects that a line of a function may have.

    Attributes:
        binds: The variables that it binds.
        changes: Whether it may change any container by itself.
        in_place: The variables that it changes in place, as ``x += y`` does.
        place: The place, if the only change is an assignment at the end of the line, such as
            ``rows[k] = y`` or ``self.h = y``.
        calls: Whether it calls something.
    """

    binds: frozenset[str] = frozenset()
    changes: bool = False
    in_place: frozenset[str] = frozenset()
    place: ChangedPlace | None = None
    calls: bool = False


@of_code
def lines_of(code: types.CodeType) -> Callable[[int], LineEffects]:
    """The effects that each line of a function may have, by its number."""
    by_line: dict[int | None, list[dis.Instruction]] = defaultdict(list)
    escapes = False  # so that another line may have it called
    for one in instructions_of(code):
        by_line[one.positions.lineno if one.positions else None].append(one)
        escapes = escapes or _lets_escape(one)
    anywhere = by_line.pop(None, [])  # as where a handler of errors forgets its error
    lines = {line: _line([*anywhere, *own], escapes) for line, own in by_line.items()}
    return functools.partial(_at, lines, _line(anywhere, escapes))


def _at(lines: dict[int | None, LineEffects], other: LineEffects, line: int) -> LineEffects:
    return lines.get(line, other)


def _lets_escape(one: dis.Instruction) -> bool:
    """Whether a method that changes containers is taken, and not called at once."""
    is_called = one.opname == "LOAD_METHOD" or "NULL|self" in one.argrepr  # up to 3.11, and since
    return one.opcode in dis.hasname and one.argval in _CHANGING and not is_called


def _line(instructions: list[dis.Instruction], escapes: bool) -> LineEffects:
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
    if place is not None and (not binds.isdisjoint(place.reads) or (binds and not place.key)):
        changes, place = True, None
    calls = any(one.opname.startswith("CALL") for one in instructions)
    return LineEffects(frozenset(binds), changes, frozenset(in_place), place, calls)


def _place(instructions: Sequence[dis.Instruction], at: int) -> ChangedPlace | None:
    """The place of an assignment at the end of a line; else None."""
    ends = (one.opname.startswith(_AT_THE_END) for one in instructions[at + 1 :])
    stores = instructions[at]
    if stores.opname not in ("STORE_SUBSCR", "STORE_ATTR") or not all(ends):
        return None
    # Before these the stack has the value, the container and, unless that is a name, the key.
    wanted, k = 1 if stores.opname == "STORE_ATTR" else 2, at
    is_computed = False
    on_stack = 0
    while on_stack < wanted:
        # Where one of two is chosen, what comes before in the code need not have run before.
        if k == 0 or instructions[k].is_jump_target:
            return None
        k -= 1
        one = instructions[k]
        is_load = bool(_loaded(one)) or _is_constant(one)
        is_computed = is_computed or not is_load
        if not is_load and not one.opname.startswith(_OF_KEYS):
            return None
        on_stack += dis.stack_effect(one.opcode, one.arg)
    may_jump = any("JUMP" in one.opname or one.opname in _LOOPS for one in instructions[:at])
    if is_computed and may_jump:
        return None
    # The first one may load what comes before, too.
    loads, names = instructions[k], _loaded(instructions[k])
    if not names or "CLEAR" in loads.opname:
        return None
    container, *first = names[on_stack - wanted :]
    if stores.opname == "STORE_ATTR":
        return ChangedPlace(container, (stores.argval,), of_attributes=True)
    return ChangedPlace(container, _key([*map(Name, first)], instructions[k + 1 : at]))


def _is_constant(one: dis.Instruction) -> bool:
    return one.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(one.argval) in (int, str)


def _loaded(one: dis.Instruction) -> tuple[str, ...]:
    names: Any = one.argval if one.opname.startswith(_LOADS) else ()
    return (names,) if isinstance(names, str) else names


def _key(key: list[Any], instructions: Sequence[dis.Instruction]) -> tuple[Any, ...] | None:
    """The key that these compute, after what is loaded before; None if by anything else."""
    for one in instructions:
        if names := _loaded(one):
            key += map(Name, names)
        elif _is_constant(one):
            key.append(one.argval)
        elif one.opname == "BINARY_OP" and one.argrepr in _ARITHMETIC:
            key.append(_ARITHMETIC[one.argrepr])
        elif one.opname == "UNARY_NEGATIVE":
            key.append(operator.neg)
        else:
            return None
    return tuple(key)


def keeps(called: Any) -> bool:
    """Whether a call leaves containers as they are, or is watched itself."""
    kind = _class(called)
    while kind in (functools.partial, types.MethodType):
        called = called.func if kind is functools.partial else called.__func__
        kind = _class(called)
    if kind is types.FunctionType:
        file = called.__code__.co_filename
        return is_user_file(file) or is_of_jax(file)
    if isinstance(called, _IN_C):
        return called.__name__ not in _CHANGING and _of_these(called)
    if _of_these(called if kind is type else kind):
        return True
    if kind is type:
        return called.__new__ is object.__new__ and all(map(keeps, _makers(called)))
    call = _found(kind, "__call__")
    return _class(call) is types.FunctionType and keeps(call)


def _makers(kind: Any) -> list[Any]:
    """The functions that make an object of a class; what a dataclass generates only sets fields."""
    init, after = kind.__init__, getattr(kind, "__post_init__", None)
    file = getattr(getattr(init, "__code__", None), "co_filename", None)
    if not (dataclasses.is_dataclass(kind) and file == "<string>"):
        return [init]
    return [] if after is None else [after]


def is_of_jax(file: str) -> bool:
    """Whether a file is of JAX or NumPy, which change no containers of others."""
    return file.startswith(_FOLDERS)


def _of_these(one: Any) -> bool:
    one = getattr(one, "__objclass__", one)  # the class of a method that is written in C
    return str(getattr(one, "__module__", "")).partition(".")[0] in _MODULES
