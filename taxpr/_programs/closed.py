"""Which variables of the source hold the arrays that a function closes over."""

from __future__ import annotations

import functools
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from taxpr._source.files import is_user_file

Closed = Mapping[int, tuple[str, Callable[[], Any]]]


def closed_over(fun: Any) -> Closed:
    """By the id of each array that one variable holds its name, and a reference to it.

    A variable is a global of the user's functions, or one of a function around them.
    """
    names: dict[int, set[str]] = defaultdict(set)
    found: dict[int, Callable[[], Any]] = {}
    seen: set[int] = set()
    todo = [fun]
    while todo:
        for name, value in _around(todo.pop()):
            if isinstance(value, jax.Array):
                names[id(value)].add(name)
                found[id(value)] = weakref.ref(value)
            elif _is_function(value) and id(value) not in seen:
                seen.add(id(value))
                todo.append(value)
    return {at: (names[at].pop(), found[at]) for at in found if len(names[at]) == 1}


def _around(fun: Any) -> Iterator[tuple[str, Any]]:
    """The values around a function, by name; "" for those that it is made of."""
    if isinstance(fun, functools.partial):
        yield "", fun.func
    elif isinstance(fun, types.MethodType):
        yield "", fun.__func__
    elif _is_function(fun):
        yield "", getattr(fun, "__wrapped__", None)
    if not isinstance(fun, types.FunctionType) or not is_user_file(fun.__code__.co_filename):
        return
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in _names(fun.__code__):
        if name in fun.__globals__:
            yield name, fun.__globals__[name]


def _is_function(value: object) -> bool:
    """Whether it is a function, or one that `functools` or JAX made, such as by `jax.jit`."""
    kinds = types.FunctionType, types.MethodType, functools.partial
    of_jax = type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
    return isinstance(value, kinds) or (of_jax and callable(value))


def _names(code: types.CodeType) -> Iterator[str]:
    """The globals that a function and those inside of it may use, and attributes."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names(one)
