"""Replace functions by others while an edited function runs.

Other code may hold a function by any name, so its code object is exchanged. The new code checks its
thread, and whether an edit of the function is on; if not, it calls the original function. While a
replacement runs, the function's name means the function that the replacement was made of.
"""

import contextlib
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, cast

from taxpr import _compat
from taxpr._errors import ArgumentError, name_of
from taxpr._watching.frames import keyed, within_jax
from taxpr._watching.listener import now as told

Function = Callable[..., Any]


def is_generator(function: Any) -> bool:
    kinds = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
    return any(one(function) for one in kinds)


def refuse_generator(function: Any, text: str) -> None:
    if is_generator(function):
        raise ArgumentError(
            f"edit: {text}: {name_of(function)} is a generator, and cannot be replaced. Edit its "
            "variables."
        )


class _Exchanges(threading.local):
    """The replacements of functions in this thread.

    Attributes:
        changed: For each function what makes another one of it, innermost edit first.
        meant: While another one runs in the place of a function, what its name means.
    """

    changed: tuple[Mapping[int, Callable[[Function], Function]], ...] = ()
    meant: Mapping[int, Function] = types.MappingProxyType({})


_now = _Exchanges()
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
    """A context that replaces functions, in this thread.

    Args:
        changes: Makes the replacement of each function.
    """
    before = _now.changed
    by_id = {id(function): change for function, change in changes.items()}
    with contextlib.ExitStack() as stack:
        for function in changes:
            stack.enter_context(_with_another_code(function))
        in_jax = any(_compat.is_jax_file(own_code(function).co_filename) for function in changes)
        stack.enter_context(within_jax(told.in_jax or in_jax))
        stack.callback(setattr, _now, "changed", before)
        _now.changed = (by_id, *before)
        yield


@contextlib.contextmanager
def _with_another_code(function: types.FunctionType) -> Generator[None, None, None]:
    with _lock:
        count, code = _exchanged.get(id(function), (0, function.__code__))
        if not count:
            refuse_generator(function, function.__qualname__)
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


def is_exchanging() -> bool:
    """Whether another function takes the place of one in this thread."""
    return any(_now.changed) or bool(_now.meant)


def own_code(function: types.FunctionType) -> types.CodeType:
    """The code of a function, whether or not another one is in its place for now."""
    return _exchanged.get(id(function), (0, function.__code__))[1]


class _Within(NamedTuple):
    """In the keys of JAX's caches: that another function runs in the place of one.

    Attributes:
        number: The `id` of the function.
        which: The other one; no part of it, since JAX keeps the keys.
    """

    number: int
    which: object


def in_place_of(
    function: types.FunctionType, now: Function, make: Callable[[Function], Function]
) -> Function:
    """The function that ``make`` makes of another, to run in its place.

    Args:
        function: The function whose place it takes.
        now: The function that runs in its place so far; its name means that while the new one runs.
        make: Makes another function.
    """
    number, token = id(function), object()
    before = _as_it_was(number, now) if now in made_here else now
    new = make(before)

    @functools.wraps(new, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        with _meaning({**_now.meant, number: before}), keyed(_Within(number, token)):
            return new(*args, **kwargs)

    return run


def _as_it_was(number: int, function: Function) -> Function:
    """A function; while it runs, its name means what takes its place: it may call itself."""

    @functools.wraps(function)
    def before(*args: Any, **kwargs: Any) -> Any:
        meant = {k: one for k, one in _now.meant.items() if k != number}
        with _meaning(meant), keyed(without=lambda key: _is_within(key, number)):
            return function(*args, **kwargs)

    return before


def _is_within(key: object, number: int) -> bool:
    return isinstance(key, _Within) and key.number == number


@contextlib.contextmanager
def _meaning(meant: Mapping[int, Function]) -> Generator[None, None, None]:
    before, _now.meant = _now.meant, meant
    try:
        yield
    finally:
        _now.meant = before


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
        if (meant := _now.meant.get(number)) is not None:
            return meant(*args, **kwargs)
        now: Function = _as_before[cast(types.FunctionType, alive())]
        for one in _now.changed:
            now = one[number](now) if number in one else now
        return now(*args, **kwargs)

    code = _template.__code__
    consts = tuple(
        call if isinstance(one, str) and "is called" in one else one for one in code.co_consts
    )
    return code.replace(co_consts=consts, co_freevars=function.__code__.co_freevars)
