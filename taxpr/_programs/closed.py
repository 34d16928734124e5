"""The names in the source of the arrays that a function closes over.

An array may be a variable's own, or in an object that a variable holds: `env.sys.gravity`.
"""

import functools
import itertools
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from taxpr._source.files import is_users
from taxpr._source.own_modules import OwnModules

Closed = Mapping[Hashable, tuple[str, Callable[[], Any]]]

# Tracing a function that can reach a whole application must not wait for all of its objects.
_MOST, _MOST_PARTS = 5_000, 500
_HOLDS_NOTHING = (str, bytes, int, float, complex, types.ModuleType, types.CodeType, np.dtype)


class _ConstantName(NamedTuple):
    """A name of an array; the least one is the best.

    Attributes:
        rank: 0 of a variable of the user's, 1 of a part of one, 2 of a variable in a library.
        length: How long the text is.
        text: The name, as the source has it.
    """

    rank: int
    length: int
    text: str


def closed_over(fun: Any, own: OwnModules | None = None) -> Closed:
    """By the `identity` of each array that a function can reach its name, and a reference to it.

    The name has the variable outside of the function, a global or one of a function around it,
    the user's before a library's. If two variables hold the array, it has no name.

    Args:
        fun: The function.
        own: Libraries whose functions count as the user's.
    """
    names: dict[Hashable, set[_ConstantName]] = defaultdict(set)
    found: dict[Hashable, Callable[[], Any]] = {}
    seen: set[int] = set()
    todo = deque([(_ConstantName(0, 0, ""), fun)])
    while todo and len(seen) < _MOST:
        name, value = todo.popleft()
        try:
            if _is_array(value):
                names[identity(value)].add(name)
                found[identity(value)] = weakref.ref(value)
            elif not isinstance(value, _HOLDS_NOTHING) and id(value) not in seen:
                seen.add(id(value))
                todo += _within(name, value, own)
        except Exception:  # such as a proxy with nothing behind it: a name is not worth an error
            continue
    best = {at: _best(known) for at, known in names.items()}
    return {at: (name, found[at]) for at, name in best.items() if name}


def identity(array: Any) -> Hashable:
    """The key of an array: the same for one of NumPy and the constant of a jaxpr that it becomes.

    An array without elements has a key that no other has.
    """
    # JAX makes an object of its own that has the memory of the user's: a view from 0.11 on.
    host: Any = getattr(array, "val", array)
    if _is_array(host) and not isinstance(host, jax.Array) and host.size:
        return host.__array_interface__["data"][0], host.shape, host.strides, host.dtype.str
    return id(array)


def _is_array(value: object) -> bool:
    return isinstance(value, jax.Array | np.ndarray)


def _best(names: Iterable[_ConstantName]) -> str:
    """The best of an array's names; "" if two variables hold it."""
    best = min(names)
    variables = [one for one in names if one.rank == best.rank != 1]
    return best.text if len(variables) < 2 else ""


def _within(
    name: _ConstantName, value: Any, own: OwnModules | None
) -> Iterator[tuple[_ConstantName, Any]]:
    """The values inside and around a function, or the parts of an object."""
    if _is_function(value):
        for text, one in _around(value, own):
            rank = 0 if not text or _is_users(value, own) else 2
            yield (_ConstantName(rank, len(text), text) if text else name), one
        return
    for text, one in itertools.islice(_parts(value), _MOST_PARTS):
        text = name.text + text
        yield _ConstantName(max(1, name.rank), len(text), text), one


def _around(fun: Any, own: OwnModules | None) -> Iterator[tuple[str, Any]]:
    """The values around a function, by name; "" for those that it is made of."""
    if isinstance(fun, functools.partial):
        yield "", fun.func
        yield from zip(_parameters(fun.func), fun.args, strict=False)
        yield from fun.keywords.items()
    elif isinstance(fun, types.MethodType):
        yield "self", fun.__self__
        yield "", fun.__func__
    elif not isinstance(fun, types.FunctionType):
        yield "", getattr(fun, "__wrapped__", None)
        return
    if not isinstance(fun, types.FunctionType):
        return
    yield "", getattr(fun, "__wrapped__", None)
    given = fun.__defaults__ or ()
    yield from zip(_parameters(fun)[-len(given) :], given, strict=False)
    yield from (fun.__kwdefaults__ or {}).items()
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in _names(fun.__code__) if _is_users(fun, own) else ():
        if name in fun.__globals__:
            yield name, fun.__globals__[name]


def _parameters(fun: Any) -> Sequence[str]:
    """The names of what a function of Python takes by position."""
    bound = isinstance(fun, types.MethodType)
    fun = fun.__func__ if bound else fun
    if not isinstance(fun, types.FunctionType):
        return ()
    return fun.__code__.co_varnames[bound : fun.__code__.co_argcount]


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """The parts of an object, by the text that selects each."""
    if isinstance(value, dict):
        # A class of the user's may load what its own method `items` gives.
        items: Iterable[tuple[Any, Any]] = cast(Any, dict).items(value)
        return ((f"[{key!r}]", one) for key, one in items if isinstance(key, str | int))
    if isinstance(value, list | tuple):
        parts = cast(Sequence[Any], value)
        fields: Sequence[str] = getattr(type(parts), "_fields", ())
        texts = [f".{field}" for field in fields] or (f"[{k}]" for k in itertools.count())
        return zip(texts, parts, strict=False)
    return _attributes(value)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, also those in slots, and its class; of a class its arrays."""
    if isinstance(value, type):
        for kind in value.__mro__:
            for field, one in vars(kind).items():
                if _is_array(one):
                    yield f".{field}", one
        return
    own = getattr(value, "__dict__", None)
    for field, one in cast(dict[str, Any], own).items() if isinstance(own, dict) else ():
        yield f".{field}", one
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for field in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, field) and field not in ("__dict__", "__weakref__"):
                yield f".{field}", getattr(value, field)
    yield "", type(value)


def _is_users(fun: Any, own: OwnModules | None) -> bool:
    fun = fun.func if isinstance(fun, functools.partial) else fun
    fun = fun.__func__ if isinstance(fun, types.MethodType) else fun
    return isinstance(fun, types.FunctionType) and is_users(fun.__code__.co_filename, own)


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
