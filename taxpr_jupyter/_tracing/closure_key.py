"""A key for the globals and closure cells that a function reads besides its arguments.

A notebook may change them between two runs, but a compiled program holds their old values. The key
tells whether to compile again.
"""

import functools
import types
from collections.abc import Iterator
from typing import Any

import taxpr
from taxpr_jupyter._tracing.tracebacks import is_ours

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class _Same:
    """Compares an object by identity, and keeps it alive."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def reads(source: Any) -> tuple[Any, ...]:
    """A hashable key that changes when a variable changes that a function or injector reads.

    Numbers and strings are compared by value, other objects by identity: a change inside a list,
    dict or object goes unnoticed. Includes the variables of functions that ``source`` calls, if
    they are in the same module or in a closure cell. Functions of taxpr and JAX are skipped.

    Example:
        >>> step = 1
        >>> before = reads(lambda x: x + step)
        >>> step = 2
        >>> reads(lambda x: x + step) == before
        False
    """
    return tuple((name, _token(value)) for _, name, value in _read(source))


def names_read(source: Any, namespace: Any) -> set[str]:
    """The names in a namespace that ``source``, or a function that it calls, reads."""
    return {name for function, name, _ in _read(source) if function.__globals__ is namespace}


def _read(source: Any) -> Iterator[tuple[types.FunctionType, str, Any]]:
    todo, seen = list(functions_of(source)), set()
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for name, value, near in _outer(function):
            yield function, name, value
            todo += [
                one
                for one in functions_of(value)
                if near or one.__globals__ is function.__globals__
            ]


def functions_of(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions that a call of ``value`` runs."""
    if isinstance(value, types.FunctionType):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from functions_of(part)
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from functions_of(part)
    elif isinstance(value, types.MethodType):
        yield from functions_of(value.__func__)
    elif isinstance(value, (taxpr.injectors.Injector, taxpr.injectors.InjectorKind)):
        for part in vars(value).values():
            yield from functions_of(part)
    elif callable(value) and not isinstance(value, type):
        # A jitted function is a C object with the Python function in `__wrapped__`.
        for own in (vars(type(value)).get("__call__"), getattr(value, "__wrapped__", None)):
            yield from functions_of(own) if isinstance(own, types.FunctionType) else ()


def _outer(function: types.FunctionType) -> Iterator[tuple[str, Any, bool]]:
    """Each cell and global that a function reads: name, value, and whether it is a cell.

    Unlike `inspect.getclosurevars`, this includes those that inner functions read.
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents, True
        except ValueError:  # the cell is still empty
            continue
    if not is_ours(function.__code__.co_filename):
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield name, function.__globals__[name], False


def _names(code: types.CodeType) -> frozenset[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return frozenset(code.co_names).union(*inner)


def _token(value: Any) -> Any:
    # Compare by `repr`, because -0.0 == 0.0 and nan != nan.
    return (type(value), repr(value)) if type(value) in _PLAIN else _Same(value)
