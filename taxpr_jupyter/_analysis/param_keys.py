"""Number types, values and params, so that equal ones get equal numbers, and with them keys.

Functions among params, such as callbacks and rules of `jax.custom_jvp`, are compared by name and
code.
"""

import dataclasses
import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from taxpr import introspect
from taxpr_jupyter._text.short import without_places

LARGE = 2**26  # bytes; the values of larger arrays are not compared

_PLAIN = (type(None), bool, int, str, bytes)
_PLAIN_TYPES = frozenset(_PLAIN)


class HashedParam(tuple[Any, Any]):
    """A param without a jaxpr: its type, or the types of its items, and the value."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class HashedHeld:
    """A jaxpr among the params: the number of its object."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class HashedFunction:
    """A function among the params: its name and code."""

    known: Any


class ValueKeys:
    """Assigns the numbers of types and values, and the keys of params."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._avals: introspect.ByIdentity[int] = introspect.ByIdentity()
        self._objects: dict[int, Any] = {}  # by id

    def number(self, key: Any) -> int:
        """The number of anything hashable."""
        return self._numbers.setdefault(key, len(self._numbers))

    def aval(self, aval: Any) -> int:
        """The number of a type."""
        return self._avals.of(aval, lambda aval: self.number(("aval", self._hashable(aval))))

    def types(self, atoms: Iterable[Any]) -> tuple[int, ...]:
        """The numbers of the types of some variables or literals."""
        return tuple([self.aval(atom.aval) for atom in atoms])

    def literal(self, literal: Any) -> int:
        """The number of a literal: type and value."""
        return self.number(("literal", self.aval(literal.aval), self.value(literal.val)))

    def value(self, value: Any) -> int:
        """The number of an array or scalar; if it cannot be read, only the same object has it."""
        known = _contents(value)
        if known is None:
            return self.number(("object", self._object(value)))
        array, data = known
        digest = data if len(data) <= 64 else hashlib.blake2b(data).digest()
        return self.number(("value", str(array.dtype), array.shape, digest))

    def param(self, value: Any) -> Any:
        """A hashable key for a param. Params that mean the same have equal keys."""
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return HashedParam((kind, value))
        if kind is tuple:
            kinds = tuple(map(type, value))
            if _PLAIN_TYPES.issuperset(kinds):
                return HashedParam((kinds, value))
        if isinstance(value, _PLAIN):
            return kind.__name__, value
        if isinstance(value, (float, complex)):
            return kind.__name__, repr(value)  # which tells -0.0 from 0.0, and nan is nan
        if introspect.is_jaxpr(value):
            return HashedHeld(self._object(value))
        if isinstance(value, (tuple, list)):
            return type(value).__name__, tuple(map(self.param, value))
        if isinstance(value, (Mapping, types.MappingProxyType)):
            return "dict", tuple(sorted((repr(k), self.param(v)) for k, v in value.items()))
        if isinstance(value, (np.ndarray, np.generic, jax.Array)):
            return "array", self.value(value)
        if isinstance(value, (type, np.dtype)):
            return "type", value
        if isinstance(value, functools.partial):
            parts = value.func, value.args, value.keywords
            return HashedFunction(("partial", *map(self.param, parts)))
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return self._function(value)
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, f.name, None) for f in dataclasses.fields(value) if f.compare]
            known = kind.__qualname__, tuple(map(self.param, fields))
            return HashedFunction(known) if callable(value) else known
        known = self._hashable(value)
        return HashedFunction(known) if callable(value) else known

    def _function(self, function: Any) -> Any:
        name = function.__module__, function.__qualname__
        function = getattr(function, "__func__", function)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        told = [cell for cell in cells if isinstance(cell, _PLAIN)]
        return HashedFunction((name, _code(function.__code__), tuple(map(self.param, told))))

    def _hashable(self, value: Any) -> Any:
        # Wrapped functions, and treedefs that hold functions, are equal only within one trace.
        in_trace = hasattr(value, "call_wrapped") or isinstance(value, jax.tree_util.PyTreeDef)
        if type(value).__eq__ is not object.__eq__ and not in_trace:
            try:
                hash(value)
            except TypeError:
                pass
            else:
                return type(value).__qualname__, value
        if hasattr(value, "call_wrapped") or callable(value):
            return type(value).__qualname__, getattr(value, "__name__", "")
        return type(value).__qualname__, without_places(repr(value))

    def _object(self, value: Any) -> int:
        """The id of an object, which is kept, so that no other object gets it."""
        self._objects[id(value)] = value
        return id(value)


def _contents(value: Any) -> tuple[np.ndarray, bytes] | None:
    """An array and its bytes; None if these cannot be read, or are too many."""
    if isinstance(value, Tracer):
        return None
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    if getattr(value, "nbytes", 0) > LARGE or not getattr(value, "is_fully_addressable", True):
        return None
    try:
        array = np.asarray(value)
        data = array.tobytes()
    except (TypeError, ValueError, RuntimeError):  # a donated array, or a key of an old JAX
        return None
    return None if array.dtype.hasobject else (array, data)


def holds_jaxpr(key: Any) -> bool:
    """Whether a key of `Keys.param` has a jaxpr in it."""
    if isinstance(key, tuple):
        return any(map(holds_jaxpr, key))
    return isinstance(key, HashedHeld) or (
        isinstance(key, HashedFunction) and holds_jaxpr(key.known)
    )


def filled(key: Any, number: Callable[[int], int], functions: bool) -> Any:
    """The key with a number for each jaxpr instead of the id of its object."""
    if isinstance(key, tuple):
        return tuple(filled(part, number, functions) for part in key)
    if isinstance(key, HashedHeld):
        return HashedHeld(number(key.number))
    if isinstance(key, HashedFunction):
        return HashedFunction(filled(key.known, number, functions)) if functions else None
    return key


def _code(code: types.CodeType) -> Any:
    consts = tuple(
        _code(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c))
        for c in code.co_consts
    )
    return code.co_code, code.co_names, consts


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None
