"""What a function reads besides its arguments: globals and the cells of closures.

A notebook changes these between two runs, and what was compiled holds their old values.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import taxpr
from taxpr_jupyter._tracing.tracebacks import is_ours

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class _Same:
    """Equal to itself on the same object only, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def reads(source: Any) -> tuple[Any, ...]:
    """Something hashable that is another one after a change of what ``source`` reads.

    Numbers and strings count by value, everything else by identity: what is changed within a
    list, a dict or an object goes unnoticed. Functions that it reads are followed where they
    are of the same module, or in a cell. Those of taxpr and JAX read nothing of the user's.

    Args:
        source: A function, anything else that can be called, or an injector.

    Example:
        >>> step = 1
        >>> before = reads(lambda x: x + step)
        >>> step = 2
        >>> reads(lambda x: x + step) == before
        False
    """
    found: list[Any] = []
    todo, seen = list(functions_of(source)), set()
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for name, value, near in _outer(function):
            found.append((name, _token(value)))
            if near or getattr(value, "__globals__", None) is function.__globals__:
                todo += functions_of(value)
    return tuple(found)


def functions_of(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions that run when this is called."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from functions_of(part)
    elif isinstance(value, types.MethodType):
        yield from functions_of(value.__func__)
    elif isinstance(value, (taxpr.Injector, taxpr.InjectorKind)):
        for part in vars(value).values():
            yield from functions_of(part)
    elif callable(value) and not isinstance(value, type):
        own = vars(type(value)).get("__call__")
        yield from functions_of(own) if isinstance(own, types.FunctionType) else ()


def _outer(function: types.FunctionType) -> Iterator[tuple[str, Any, bool]]:
    """Name and value of each cell and global that is read, and whether it is a cell.

    `inspect.getclosurevars` leaves out what the functions written inside it read.
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents, True
        except ValueError:  # empty so far
            continue
    if not is_ours(function.__code__.co_filename):
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield name, function.__globals__[name], False


def _names(code: types.CodeType) -> frozenset[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return frozenset(code.co_names).union(*inner)


def _token(value: Any) -> Any:
    # By `repr`, since -0.0 equals 0.0 and nan does not equal itself.
    return (type(value), repr(value)) if type(value) in _PLAIN else _Same(value)
