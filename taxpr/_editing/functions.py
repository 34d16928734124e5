"""Functions that another one takes the place of, for the time in which an edited function runs.

Other code may hold a function by any name, so it is its code that is exchanged: for one that looks
in which thread it runs and whether an edit of the function is on, and calls the function as it was
otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import types
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import jax

from taxpr._editing.alteration import Alteration, Bound
from taxpr._errors import ArgumentError, RefusedError, name_of
from taxpr._source.files import is_user_file

Function = Callable[..., Any]


def with_result(function: Any, alteration: Alteration, text: str, place: str) -> Any:
    """A function whose result is changed."""
    if not callable(function):
        raise ArgumentError(f"edit: {text} ({place}): {function!r} is no function.")
    inner = inspect.unwrap(function)
    _refuse_generator(inner, text)

    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)

        def names() -> Mapping[str, Any]:
            return {**getattr(inner, "__globals__", {}), "result": result}

        return alteration.of(Bound(result, text, place, 0, names))

    return changed


def _is_generator(function: Any) -> bool:
    kinds = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
    return any(one(function) for one in kinds)


def _refuse_generator(function: Any, text: str) -> None:
    if _is_generator(function):
        raise ArgumentError(
            f"edit: {text}: {name_of(function)} is a generator, for which no other function can be "
            "put. Edit its variables."
        )


def found_at(text: str, fun: Function) -> Iterator[types.FunctionType]:
    """The functions of modules and classes that a text may mean, those of the user first.

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
    # Another module may have a generator of that name, for which no other function can be put.
    return iter([one for one in found.values() if not _is_generator(one)] or found.values())


def full_path(text: str) -> types.FunctionType | None:
    """The function at a path that begins with its module; None if there is none."""
    thing, rest = _module_of(text)
    return next(iter(dict(_within(thing, rest)).values()), None) if rest else None


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
    """The function of Python below decorators; None of anything else."""
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


class _Now(threading.local):
    """What takes the place of functions in this thread: for each one, innermost edit first."""

    changed: tuple[Mapping[int, Callable[[Function], Function]], ...] = ()


_now = _Now()
_lock = threading.Lock()
_exchanged: dict[int, tuple[int, types.CodeType]] = {}
# Functions that are copies of others.
made_here: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()
# The same function each time, so that JAX knows again what is made of it.
_as_before: weakref.WeakKeyDictionary[types.FunctionType, types.FunctionType] = (
    weakref.WeakKeyDictionary()
)


@contextlib.contextmanager
def exchanged(
    changes: Mapping[types.FunctionType, Callable[[Function], Function]],
) -> Generator[None, None, None]:
    """For the time in which others take the place of functions, in this thread.

    Args:
        changes: What makes another function of each one.
    """
    before = _now.changed
    by_id = {id(function): change for function, change in changes.items()}
    with contextlib.ExitStack() as stack:
        for function in changes:
            stack.enter_context(_with_another_code(function))
        stack.callback(setattr, _now, "changed", before)
        _now.changed = (by_id, *before)
        yield


@contextlib.contextmanager
def _with_another_code(function: types.FunctionType) -> Generator[None, None, None]:
    with _lock:
        count, code = _exchanged.get(id(function), (0, function.__code__))
        if not count:
            _refuse_generator(function, function.__qualname__)
            if function not in _as_before or _as_before[function].__code__ is not code:
                _as_before[function] = with_code(function, code)
            _with_defaults(_as_before[function], function)
            vars(function).setdefault("__signature__", _Signature(inspect.signature(function)))
            function.__code__ = _leading_to(function)
        _exchanged[id(function)] = count + 1, code
    try:
        yield
    finally:
        with _lock:
            count, code = _exchanged.pop(id(function))
            if count > 1:
                _exchanged[id(function)] = count - 1, code
            else:
                function.__code__ = code
                if isinstance(vars(function).get("__signature__"), _Signature):
                    del vars(function)["__signature__"]


def own_code(function: types.FunctionType) -> types.CodeType:
    """The code of a function, whether or not another one is in its place for now."""
    return _exchanged.get(id(function), (0, function.__code__))[1]


class _Signature(inspect.Signature):
    """The signature of a function whose code is exchanged; it goes when the code comes back."""

    def __init__(self, of: inspect.Signature) -> None:
        super().__init__(list(of.parameters.values()), return_annotation=of.return_annotation)


def with_code(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """The same function with other code, which may have fewer free variables.

    Raises:
        KeyError: If it has others.
    """
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cell_of = dict(cells)
    closure = tuple(cell_of[name] for name in code.co_freevars)
    same = types.FunctionType(code, function.__globals__, function.__name__, closure=closure)
    _with_defaults(same, function)
    same.__qualname__, same.__module__ = function.__qualname__, function.__module__
    same.__doc__ = function.__doc__
    made_here.add(same)
    return same


def _with_defaults(same: types.FunctionType, function: types.FunctionType) -> None:
    same.__defaults__, same.__kwdefaults__ = function.__defaults__, function.__kwdefaults__


def _template(*args: Any, **kwargs: Any) -> Any:
    call: Any = "the function that is called"
    return call(*args, **kwargs)


def _leading_to(function: types.FunctionType) -> types.CodeType:
    """Code that calls what takes the place of a function, with as many free variables.

    JAX keeps the code for its tracebacks. So it does not hold the function, nor what that holds.
    """
    number, alive = id(function), weakref.ref(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        now: Function = _as_before[cast(types.FunctionType, alive())]
        for one in _now.changed:
            now = one[number](now) if number in one else now
        return now(*args, **kwargs)

    code = _template.__code__
    consts = tuple(
        call if isinstance(one, str) and "is called" in one else one for one in code.co_consts
    )
    return code.replace(co_consts=consts, co_freevars=function.__code__.co_freevars)
