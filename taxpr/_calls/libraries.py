"""The table of libraries whose objects hold states, and how their calls are made pure."""

# What others give is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import contextlib
import dataclasses
import functools
import importlib
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax

from taxpr._calls.model import Opened
from taxpr._errors import ArgumentError, a_type, name_of
from taxpr._given import refuse_no_text
from taxpr._untyped import jax as _jax

_R = TypeVar("_R")


def _nothing(_: Any) -> None:
    return None


def _never(_: Any) -> bool:
    return False


@dataclasses.dataclass(frozen=True)
class Library:
    """A library whose objects hold states, for `taxpr.register_library`.

    Attributes:
        open: Takes a function, its positional arguments, a tuple, and its keyword arguments, a
            dict. It returns the call as a call of a pure function, or None if the call uses no
            state of the library. `objects` makes this for objects among the arguments.
        is_object: Whether a value is an object of the library; ``open`` takes these out of the
            arguments.
        keeps_numbers: Whether Python scalars in an object, such as the rate of a dropout layer, are
            static.
        takes_numbers: Whether Python scalars among the arguments of a function are static.
        told: Takes an error of a function. It returns the error to raise in its place, or None.
        noticing: For a library whose ``open`` has to run the function: makes a context for tracing
            the function unchanged. The context gives a function that says whether states were used.
            If not, ``open`` is not called, so a function without states runs once.
        attributes: Takes a value that the library gave `jax.jit` in place of its objects. It
            returns their attributes by name, such as ``".layers[0].kernel"``; None for any other
            value.
        checkpoint: Its own `jax.checkpoint`, for functions that take its objects: the name, and
            the function, which takes a ``policy``.
        transformed: Takes a function. If a transformation of the library returned it with a name or
            parameters of its own, it returns the user's function in it; else None.
    """

    open: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Opened | None]
    is_object: Callable[[Any], bool] = _never
    keeps_numbers: Callable[[Any], bool] = _never
    takes_numbers: Callable[[Any], bool] = _never
    told: Callable[[Exception], Exception | None] = _nothing
    noticing: Callable[[], AbstractContextManager[Callable[[], bool]]] | None = None
    attributes: Callable[[Any], Mapping[str, Any] | None] = _nothing
    checkpoint: tuple[str, Callable[..., Any]] | None = None
    transformed: Callable[[Any], Callable[..., Any] | None] = _nothing

    def is_own(self, x: Any) -> bool:
        """Whether something is an object or a model of the library."""
        return self.is_object(x) or self.keeps_numbers(x)


# For each library our module, which has a `LIBRARY`. To look here does not import the library.
# Those that have to trace the function come last.
_OWN: Mapping[str, str] = {
    "flax.nnx": "taxpr._libraries._nnx",
    "equinox": "taxpr._libraries._equinox",
    "brainstate": "taxpr._libraries._brainstate",
    "haiku": "taxpr._libraries._haiku",
}
_registered: dict[str, Library] = {}
# Functions that are known to use states of a library with `noticing`.
_users: weakref.WeakSet[Any] = weakref.WeakSet()


def register_library(name: str, library: Library) -> None:
    """Teach taxpr a library whose objects hold arrays that functions change in place.

    Then all functions of taxpr take its objects as arguments. A transformed function, such as one
    of `inject`, changes them as the function does; a question leaves them unchanged. The library
    registers itself once. Registering again replaces what was registered.

    A library whose models are PyTrees, and whose functions return new values, needs no
    registration.

    Args:
        name: The name of the library, for messages.
        library: A `taxpr.libraries.Library`, such as `taxpr.libraries.objects` returns.

    Raises:
        ArgumentError: If it is something else, or taxpr knows the library by itself.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> class Counter:
        ...     def __init__(self):
        ...         self.total = jnp.zeros(())
        >>> def split(objects):
        ...     return None, {label: {"total": one.total} for label, one in objects.items()}
        >>> def update(objects, states):
        ...     for label, arrays in states.items():
        ...         objects[label].total = arrays["total"]
        >>> def merge(static, states):
        ...     objects = {label: Counter() for label in states}
        ...     update(objects, states)
        ...     return objects
        >>> counters = taxpr.libraries.objects("counters", Counter, split, merge, update)
        >>> taxpr.register_library("counters", counters)
        >>> def add(counter, x):
        ...     counter.total += taxpr.tag(x, name="x")
        >>> counter, doubled = Counter(), taxpr.inject(add, taxpr.scale(2.0))
        >>> _ = doubled(doubled.init(counter, 3.0), counter, 3.0)
        >>> float(counter.total)
        6.0
        >>> taxpr.watch(add)(counter, 1.0)["add.counter.total#1"].value, float(counter.total)
        (Array(7., dtype=float32), 6.0)
    """
    refuse_no_text("register_library", name, "the name of a library")
    if not isinstance(library, Library):
        raise ArgumentError(
            f"register_library: {library!r} is {a_type(library)}. Give a name, and the "
            "result of taxpr.libraries.objects, or a taxpr.libraries.Library."
        )
    if name in _OWN:
        raise ArgumentError(f"register_library: {name} is a library that taxpr knows by itself.")
    _registered[name] = library


def libraries() -> Iterator[Library]:
    """The libraries whose packages are loaded; asking imports no package."""
    yield from _registered.values()
    for name, module in _OWN.items():
        if name in sys.modules:
            yield importlib.import_module(module).LIBRARY


def attributes_of(x: Any) -> Mapping[str, Any] | None:
    """The attributes of objects that a library gave `jax.jit` in another form; else None."""
    found = (library.attributes(x) for library in libraries())
    return next((one for one in found if one is not None), None)


def is_object(x: Any) -> bool:
    """Whether a value is a library's object, with arrays that functions change in place."""
    return any(library.is_object(x) for library in libraries())


def named_by_user(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the name and the parameters of the user's function in it.

    `jax.grad` keeps these; transformations of some libraries do not, such as `flax.nnx.grad`.
    """
    for library in libraries():
        if (inner := library.transformed(fun)) is not None:

            @functools.wraps(named_by_user(inner))
            def named(*args: Any, **kwargs: Any) -> Any:
                return fun(*args, **kwargs)

            named.__name__ = name_of(named_by_user(inner))  # a `functools.partial` has none
            return named
    return fun


def users_name_of(fun: Callable[..., Any]) -> str:
    """The name of a function; for a gradient of a library, of the user's function in it."""
    return name_of(named_by_user(fun))


def is_model(x: Any) -> bool:
    """Whether a value is a library's object, or a model that is a PyTree."""
    return any(library.is_own(x) for library in libraries())


def checkpoint_of(*given: Any) -> tuple[str, Callable[..., Any]]:
    """The `jax.checkpoint` to use for a function of these arguments, with its name."""
    for library in libraries():
        if library.checkpoint is not None:
            leaves = jax.tree.leaves(given, is_leaf=library.is_own)
            if any(map(library.is_own, leaves)):
                return library.checkpoint
    return "jax.checkpoint", _jax.checkpoint


def say_as_told(error: Exception) -> None:
    """Raise a library's own error in place of an error of a function, if it has one."""
    for library in libraries():
        if (told := library.told(error)) is not None:
            raise told from error


def _has_object(library: Library, *given: Any) -> bool:
    return any(map(library.is_object, jax.tree.leaves(given, is_leaf=library.is_object)))


def noticed(
    fun: Callable[..., Any], run: Callable[[], _R]
) -> tuple[_R | None, Exception | None, bool]:
    """Trace a function, and notice states of libraries that `opened` did not ask.

    Args:
        fun: The function.
        run: Traces it.

    Returns:
        The result of ``run``, or None; the error that it raised, or None; and whether some library
        has to be asked.
    """
    result, failed, each = None, None, list[Callable[[], bool]]()
    try:
        with contextlib.ExitStack() as stack:
            each = [stack.enter_context(one.noticing()) for one in libraries() if one.noticing]
            result = run()
    except Exception as error:
        failed = error
    used = any(one() for one in each)
    if used:
        with contextlib.suppress(TypeError):  # of what cannot be weakly referenced
            _users.add(fun)
    return result, failed, used


def _is_user(fun: Callable[..., Any]) -> bool:
    try:
        return fun in _users
    except TypeError:
        return False


def opened(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    pictures: bool = False,
    unseen: bool = True,
) -> Opened | None:
    """The call made pure by the first library whose states it uses; None if it uses no states.

    Args:
        fun: The function.
        args: Its positional arguments, with `Static` in place of values that are no arrays.
        kwargs: Its keyword arguments, likewise.
        pictures: Also take apart states that the function takes and returns.
        unseen: Whether to ask also the libraries that have to run the function, where nothing says
            yet that it uses their states. If not, it is traced by `noticed`.
    """
    is_user = unseen or _is_user(fun)
    for library in libraries():
        if library.noticing and not is_user and not _has_object(library, fun, args, kwargs):
            continue
        found = library.open(fun, args, kwargs)
        if found is not None and (pictures or not found.of_pictures):
            return found
    return None
