"""What a function reaches by the names in its code: closures, globals, defaults, its object."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from taxpr_jupyter._states._objects import argument_names


def reached(fn: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Pairs of a name and what the function finds by it, also in functions that it calls.

    What `functools.partial` binds has no name, nor has the object of a bound method: "".

    Example:
        >>> total = [0]
        >>> def add(x):
        ...     total[0] += x
        >>> dict(reached(lambda x: add(x)))["total"]
        [0]
    """
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", fn)]
    while waiting:
        name, thing = waiting.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        given = getattr(thing, "bound_statics", None)  # see `_traced.without_statics`
        if isinstance(thing, functools.partial):
            waiting += [("", thing.func), *(("", arg) for arg in thing.args)]
            waiting += list(thing.keywords.items())
        elif isinstance(thing, types.MethodType):
            waiting += [("", thing.__self__), ("", thing.__func__)]
        elif given is not None:
            inner, args, kwargs, _ = given
            waiting += [*zip(argument_names(inner, len(args)), args, strict=True)]
            waiting += [*kwargs.items(), ("", inner)]
        elif isinstance(thing, types.FunctionType):
            variables = inspect.getclosurevars(thing) if _is_readable(thing) else None
            if variables is not None:
                waiting += [*variables.nonlocals.items(), *variables.globals.items()]
            waiting += [("", value) for value in thing.__defaults__ or ()]
            for code in _inner(thing.__code__):
                waiting += [
                    (name, thing.__globals__[name])
                    for name in code.co_names
                    if name in thing.__globals__
                ]
        elif not isinstance(thing, (type, types.ModuleType)):
            yield name, thing
        if given is None and callable(wrapped := getattr(thing, "__wrapped__", None)):
            waiting.append((name, wrapped))


def _is_readable(fn: types.FunctionType) -> bool:
    try:
        inspect.getclosurevars(fn)
    except (TypeError, ValueError):  # a cell that is empty still
        return False
    return True


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of functions that are defined in a function."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _inner(const)
