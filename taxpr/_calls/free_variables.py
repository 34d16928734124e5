"""Find the objects that a function can reach: closures, globals, defaults, its own object."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from taxpr._calls.objects import argument_names


class Reached(NamedTuple):
    """An object that a function can reach.

    Attributes:
        name: The name of the variable or argument; "" for an argument of `functools.partial` and
            for the object of a method.
        thing: The object.
        text: Python that finds it, with ``fun`` for the function, and `inspect`; "" if there is
            none.
    """

    name: str
    thing: Any
    text: str


def reached(fun: Callable[..., Any], functions: bool = False) -> Iterator[Reached]:
    """The objects that a function, or a function that it calls, reaches by names in its code.

    Args:
        fun: The function.
        functions: Whether Python functions are among them.

    Example:
        >>> total = [0]
        >>> def add(x):
        ...     total[0] += x
        >>> {found.name: found.thing for found in reached(lambda x: add(x))}["total"]
        [0]
    """
    seen: set[int] = set()
    waiting = [Reached("", fun, "fun")]
    while waiting:
        name, thing, text = waiting.pop(0)
        known: Any = thing
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        given = getattr(known, "bound_statics", None)  # see `without_statics`
        if isinstance(thing, functools.partial):
            waiting.append(Reached("", thing.func, f"{text}.func"))
            waiting += [Reached("", x, f"{text}.args[{k}]") for k, x in enumerate(thing.args)]
            waiting += _items(thing.keywords, f"{text}.keywords")
        elif isinstance(thing, types.MethodType):
            waiting.append(Reached("", thing.__self__, f"{text}.__self__"))
            waiting.append(Reached("", thing.__func__, f"{text}.__func__"))
        elif given is not None:
            inner, args, kwargs, _ = given
            named = zip(argument_names(inner, len(args)), args, strict=True)
            waiting += [Reached(name, value, "") for name, value in [*named, *kwargs.items()]]
            waiting.append(Reached("", inner, ""))
        elif isinstance(thing, types.FunctionType):
            waiting += _of_function(thing, text)
            if functions and thing is not fun:
                yield Reached(name, thing, text)
        elif not isinstance(thing, (type, types.ModuleType)):
            yield Reached(name, thing, text)
        if given is None and callable(wrapped := getattr(known, "__wrapped__", None)):
            waiting.append(Reached(name, wrapped, f"{text}.__wrapped__" if text else ""))


def _of_function(fun: types.FunctionType, text: str) -> list[Reached]:
    found = list[Reached]()
    if _is_readable(fun):
        variables = inspect.getclosurevars(fun)
        found += _items(variables.nonlocals, f"inspect.getclosurevars({text}).nonlocals", text)
        found += _items(variables.globals, f"{text}.__globals__", text)
    defaults = enumerate(fun.__defaults__ or ())
    found += [Reached("", value, f"{text}.__defaults__[{k}]") for k, value in defaults]
    for code in _inner(fun.__code__):
        used = {name: fun.__globals__[name] for name in code.co_names if name in fun.__globals__}
        found += _items(used, f"{text}.__globals__", text)
    return found if text else [Reached(name, thing, "") for name, thing, _ in found]


def _items(items: Mapping[str, Any], text: str, known: str = "fun") -> list[Reached]:
    return [Reached(name, x, f"{text}[{name!r}]" if known else "") for name, x in items.items()]


def _is_readable(fun: types.FunctionType) -> bool:
    try:
        inspect.getclosurevars(fun)
    except (TypeError, ValueError):  # a closure cell that is still empty
        return False
    return True


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code objects of functions defined inside a function."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _inner(const)
