"""The functions that a text means, and functions whose results are changed."""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax

from taxpr._editing.alteration import Bound
from taxpr._editing.exchange import Function, is_generator, own_code, refuse_generator
from taxpr._editing.lines import returned_name
from taxpr._editing.spelled import owners_of
from taxpr._errors import ArgumentError, RefusedError, name_of
from taxpr._source.files import is_user_file


def with_result(function: Any, altered: Callable[[Bound], Any], text: str, place: str) -> Any:
    """A function whose result is changed."""
    if not callable(function):
        raise ArgumentError(f"edit: {text} ({place}): {function!r} is no function.")
    inner = inspect.unwrap(function)
    refuse_generator(inner, text)

    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)

        def names() -> Mapping[str, Any]:
            own = {name: result} if (name := returned_name(inner)) else {}
            return {**getattr(inner, "__globals__", {}), **own, "result": result}

        return altered(Bound(result, text, place, 0, names))

    return changed


def found_at(text: str, fun: Function) -> Iterator[types.FunctionType]:
    """The functions of modules and classes that a text may mean, the user's first.

    Args:
        text: Such as ``"block"``, ``"Block.__call__"`` or with the module before it.
        fun: The function that is edited, whose module is looked into first.

    Raises:
        RefusedError: If it has a derivative rule of its own.
    """
    first, *rest = text.split(".")
    found: dict[int, types.FunctionType] = {}
    modules = [one for one in list(sys.modules.values()) if hasattr(one, "__dict__")]
    users = [one for one in modules if is_user_file(getattr(one, "__file__", None) or "")]
    scopes = [getattr(inspect.unwrap(fun), "__globals__", {}), *map(vars, users)]
    if "__main__" in sys.modules:
        scopes.append(vars(sys.modules["__main__"]))
    refused: list[RefusedError] = []

    def look(thing: Any, names: Sequence[str]) -> None:
        try:
            found.update(_within(thing, names))
        except RefusedError as why:
            refused.append(why)

    look(scopes[0].get(first), rest)
    if refused:
        raise refused[0]
    for scope in scopes[1:]:  # one of that name in another module may be another function
        look(scope.get(first), rest)
    if not found:
        look(*_module_of(text))
    if not found and rest:
        for module in modules:
            look(vars(module).get(first), rest)
    if refused and not found:
        raise refused[0]
    # Another module may have a generator of that name, for which no other function can be put. It
    # is refused only if it may be meant.
    others = [one for one in found.values() if not is_generator(one)]
    return iter(others or (found.values() if rest or first in scopes[0] else ()))


def full_path(text: str) -> types.FunctionType | None:
    """The function at a path that begins with its module, or None."""
    thing, rest = _module_of(text)
    return next(iter(dict(_within(thing, rest)).values()), None) if rest else None


def in_module(text: str) -> tuple[str, str] | None:
    """Read a text that begins with a module and names a variable of a function in it.

    Returns:
        The file of the function, and the text from the function on; None if it means none.
    """
    thing, rest = _module_of(text)
    for k in range(1, len(rest)):
        try:
            function = next(iter(dict(_within(thing, rest[:k])).values()), None)
        except RefusedError:  # it has rules, which may have that variable, too
            return None
        if function is not None:
            code = own_code(function)
            return code.co_filename, ".".join([*owners_of(code.co_qualname), *rest[k:]])
    return None


def _module_of(text: str) -> tuple[Any, list[str]]:
    parts = text.split(".")
    for k in range(len(parts) - 1, 0, -1):
        if (module := sys.modules.get(".".join(parts[:k]))) is not None:
            return module, parts[k:]
    return None, []


def _within(thing: Any, rest: Iterable[str]) -> Iterator[tuple[int, types.FunctionType]]:
    for name in rest:
        # As a class has it, and not bound.
        classes: tuple[Any, ...] = thing.__mro__ if isinstance(thing, type) else ()
        scopes = (thing,) if isinstance(thing, types.ModuleType) else classes
        thing = next((vars(one)[name] for one in scopes if name in vars(one)), None)
    if (function := plain(thing)) is not None:
        yield id(function), function


_RULED: Any = (jax.custom_jvp, jax.custom_vjp)
_METHODS: Any = (staticmethod, classmethod, types.MethodType)


def plain(thing: Any) -> types.FunctionType | None:
    """The Python function below decorators; else None."""
    for _ in range(100):
        if isinstance(thing, types.FunctionType):
            inner = getattr(thing, "__wrapped__", None)
            if inner is None:
                return thing
            thing = inner
        elif isinstance(thing, _METHODS):
            thing = thing.__func__
        elif isinstance(thing, property):
            thing = thing.fget
        elif isinstance(thing, functools.partial):
            thing = thing.func
        elif isinstance(thing, (type, types.ModuleType)) or thing is None:
            return None
        elif isinstance(thing, _RULED):
            raise RefusedError(
                f"edit: {name_of(thing)} has a derivative rule of its own, which would stay as for "
                "the function as it was. Edit the variable that holds its result, or the line that "
                "calls it: edit(fun, 'f.y', 'y = jnp.tanh(x)')."
            )
        else:
            thing = getattr(thing, "__wrapped__", None) or getattr(thing, "method", None)
    return None
