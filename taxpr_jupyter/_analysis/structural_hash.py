"""Structural hashing: numbers for equations, jaxprs and values that are equal iff these are.

The idea is hash consing: a dictionary maps each structure, built from the numbers of its parts, to
a number. Invariants: within one `Keys`, equal numbers mean equal structure, without collisions;
variable letters, source lines and the trace do not matter. Functions among params, such as
callbacks and rules of `jax.custom_jvp`, are compared by name and code.

Each equation is read once and reduced to a form, which ignores where its operands come from. Large
programs have few different forms, so all further work is done once for each form.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.extend.core.primitives as p
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

import taxpr
from taxpr_jupyter._analysis.graph import Graph
from taxpr_jupyter._text.short import literal_text

LARGE = 2**26  # bytes; the values of larger arrays are not compared

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (type(None), bool, int, str, bytes)
_PLAIN_TYPES = frozenset(_PLAIN)
# Params with the position of a slice in an array, not its size. The transpose of a slice is a pad.
_WHERE = {
    (p.slice_p, "start_indices"),
    (p.slice_p, "limit_indices"),
    (p.pad_p, "padding_config"),
}


class EqnKeys(NamedTuple):
    """Three numbers of an equation, from strict to loose. None covers the origin of operands.

    Attributes:
        own: Primitive, params, literals, types, and the content of its jaxprs.
        loose: The same without types and without the content of its jaxprs.
        kind: Only the primitive; for a jit also the name.
    """

    own: int
    loose: int
    kind: int


class _Plain(tuple[Any, Any]):
    """A param without a jaxpr: its type, or the types of its items, and the value."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Held:
    """A jaxpr among the params: the number of its object."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Function:
    """A function among the params: its name and code."""

    known: Any


@dataclasses.dataclass(eq=False, slots=True)
class _Form:
    """The form of an equation: everything but the origin of its operands.

    Attributes:
        eqn: The first of these equations.
        operands: Numbers of types, of literals those of `Keys.literal`.
        results: Numbers of types.
        params: Names and keys, those of jaxprs that are hidden in them as well, by name.
        effects: Kinds of effects.
        keys: The numbers of these equations, once they are known.
        alike: The one of `Keys.alike`.
    """

    eqn: Any
    operands: tuple[int, ...]
    results: tuple[int, ...]
    params: tuple[tuple[str, Any], ...]
    effects: tuple[str, ...]
    keys: EqnKeys | None = None
    alike: int | None = None


class Keys:
    """Assigns the numbers. To compare two programs, use the same object for both."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        # By id; what was numbered is kept, so that its id stays its own.
        self._avals: dict[int, tuple[Any, int]] = {}
        self._eqns: dict[int, tuple[Any, _Form]] = {}
        self._objects: dict[int, Any] = {}
        self._forms: dict[Any, _Form] = {}
        # By the ids of jaxprs: their own numbers, and those of all that is alike.
        self._own: dict[int, int] = {}
        self._alike: dict[int, int] = {}

    def number(self, key: Any) -> int:
        """The number of anything hashable."""
        return self._numbers.setdefault(key, len(self._numbers))

    def aval(self, aval: Any) -> int:
        """The number of a type."""
        known = self._avals.get(id(aval))
        if known is None:
            known = self._avals[id(aval)] = (aval, self.number(("aval", self._hashable(aval))))
        return known[1]

    def literal(self, literal: Any) -> int:
        """The number of a literal: type and value."""
        return self.number(("literal", self.aval(literal.aval), self.value(literal.val)))

    def value(self, value: Any) -> int:
        """The number of an array or scalar; of what cannot be read, that of the object."""
        known = _contents(value)
        if known is None:
            return self.number(("object", self._object(value)))
        array, data = known
        digest = data if len(data) <= 64 else hashlib.blake2b(data).digest()
        return self.number(("value", str(array.dtype), array.shape, digest))

    def eqn(self, eqn: Any) -> EqnKeys:
        """The numbers of an equation."""
        form = self._form(eqn)
        if form.keys is None:
            form.keys = self._of_form(form)
        return form.keys

    def alike(self, eqn: Any) -> int:
        """A number that equations share which compute the same way.

        The same are primitive, types, literals, params and nested jaxprs. Functions among the
        params are left out, and so is which slice of an array is taken: that of a layer, of
        weights that are stacked.
        """
        form = self._form(eqn)
        if form.alike is None:
            params = tuple(
                (name, _filled(key, self._alike_jaxpr, functions=False))
                for name, key in form.params
                if (eqn.primitive, name) not in _WHERE
            )
            parts = form.operands, form.results, params, form.effects
            form.alike = self.number(("alike", eqn.primitive, *parts))
        return form.alike

    def jaxpr(self, jaxpr: Any) -> int:
        """The number of a jaxpr, open or closed, with the values that it closes over."""
        return self._own_jaxpr(self._object(jaxpr))

    def param(self, value: Any) -> Any:
        """A param as something hashable, equal where two params mean the same."""
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return _Plain((kind, value))
        if kind is tuple:
            kinds = tuple(map(type, value))
            if _PLAIN_TYPES.issuperset(kinds):
                return _Plain((kinds, value))
        if isinstance(value, _PLAIN):
            return kind.__name__, value
        if isinstance(value, (float, complex)):
            return kind.__name__, repr(value)  # which tells -0.0 from 0.0, and nan is nan
        if is_jaxpr(value):
            return _Held(self._object(value))
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
            return _Function(("partial", *map(self.param, parts)))
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return self._function(value)
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, f.name, None) for f in dataclasses.fields(value) if f.compare]
            known = kind.__qualname__, tuple(map(self.param, fields))
            return _Function(known) if callable(value) else known
        known = self._hashable(value)
        return _Function(known) if callable(value) else known

    # --- inside -----------------------------------------------------------------------------------

    def _form(self, eqn: Any) -> _Form:
        known = self._eqns.get(id(eqn))
        if known is None:
            known = self._eqns[id(eqn)] = (eqn, self._read(eqn))
        return known[1]

    def _read(self, eqn: Any) -> _Form:
        operands = tuple(
            [self.literal(a) if taxpr.is_literal(a) else self.aval(a.aval) for a in eqn.invars]
        )
        results = tuple([self.aval(var.aval) for var in eqn.outvars])
        params = [(name, self.param(value)) for name, value in eqn.params.items()]
        if not all(type(key) is _Plain for _, key in params):  # these hide no jaxpr
            params += [
                (nested.label, _Held(self._object(nested.stored)))
                for nested in taxpr.nested_jaxprs(eqn)
                if nested.param is None
            ]
        effects = _effects(eqn) if eqn.effects else ()
        parts = operands, results, tuple(sorted(params, key=_first)), effects
        form = self._forms.get((eqn.primitive, *parts))
        if form is None:
            form = self._forms[eqn.primitive, *parts] = _Form(eqn, *parts)
        return form

    def _of_form(self, form: _Form) -> EqnKeys:
        eqn = form.eqn
        deep = tuple(param for param in form.params if holds_jaxpr(param[1]))
        flat = tuple(param for param in form.params if not holds_jaxpr(param[1]))
        # Without their type, which may follow from another operand.
        values = tuple(
            (k, literal_text(a)) for k, a in enumerate(eqn.invars) if taxpr.is_literal(a)
        )
        name = eqn.params.get("name") if deep else None
        kind = self.number(("kind", eqn.primitive, name if isinstance(name, str) else None))
        loose = self.number(("loose", kind, flat, values))
        inside = _filled(deep, self._own_jaxpr, functions=True)
        own = self.number(("own", loose, form.operands, form.results, inside, form.effects))
        return EqnKeys(own, loose, kind)

    def _own_jaxpr(self, number: int) -> int:
        if number not in self._own:
            self._own[number] = self._of_jaxpr(self._objects[number])
        return self._own[number]

    def _alike_jaxpr(self, number: int) -> int:
        if number not in self._alike:
            graph = Graph(open_jaxpr(self._objects[number]))
            eqns = tuple((self.alike(eqn), graph.sources(eqn.invars)) for eqn in graph.eqns)
            outs = graph.sources(graph.jaxpr.outvars)
            self._alike[number] = self.number(("alike", eqns, outs))
        return self._alike[number]

    def _of_jaxpr(self, jaxpr: Any) -> int:
        inner, consts = open_jaxpr(jaxpr), getattr(jaxpr, "consts", None) or ()
        graph = Graph(inner)
        parts: list[Any] = [
            tuple(self.aval(var.aval) for var in (*inner.constvars, *inner.invars)),
            len(inner.invars),
            tuple(map(self.value, consts)),
        ]
        parts += [(self.eqn(eqn).own, graph.sources(eqn.invars)) for eqn in inner.eqns]
        literals = [self.literal(a) for a in inner.outvars if taxpr.is_literal(a)]
        parts += [graph.sources(inner.outvars), tuple(literals)]
        return self.number(("jaxpr", tuple(parts)))

    def _function(self, function: Any) -> Any:
        name = function.__module__, function.__qualname__
        function = getattr(function, "__func__", function)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        told = [cell for cell in cells if isinstance(cell, _PLAIN)]
        return _Function((name, _code(function.__code__), tuple(map(self.param, told))))

    def _hashable(self, value: Any) -> Any:
        # Wrapped functions, and treedefs with functions in them, are equal within a trace only.
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
        return type(value).__qualname__, _ADDRESS.sub("", repr(value))

    def _object(self, value: Any) -> int:
        """The number of this very object, and no other."""
        self._objects[id(value)] = value  # kept, so that its id stays its own
        return id(value)


def _contents(value: Any) -> tuple[np.ndarray, bytes] | None:
    """An array and its bytes; None for what cannot be read, or takes too long to read."""
    if isinstance(value, Tracer):
        return None
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    if getattr(value, "nbytes", 0) > LARGE or not getattr(value, "is_fully_addressable", True):
        return None
    try:
        array = np.asarray(value)
        data = array.tobytes()
    except (TypeError, ValueError, RuntimeError):  # an array that was donated, a key of old
        return None
    return None if array.dtype.hasobject else (array, data)


def is_jaxpr(value: Any) -> bool:
    """Whether this is a jaxpr, open or closed."""
    # By what it has: importing `jax.extend.core` for its classes imports Pallas, from 0.12.
    return hasattr(value, "eqns") and hasattr(value, "effects")


def open_jaxpr(jaxpr: Any) -> Any:
    """The open view of a jaxpr."""
    return jaxpr if hasattr(jaxpr, "constvars") else jaxpr.jaxpr


def holds_jaxpr(key: Any) -> bool:
    """Whether there is a jaxpr in what `Keys.param` gave."""
    if isinstance(key, tuple):
        return any(map(holds_jaxpr, key))
    return isinstance(key, _Held) or (isinstance(key, _Function) and holds_jaxpr(key.known))


def _filled(key: Any, number: Callable[[int], int], functions: bool) -> Any:
    """A key with the numbers of jaxprs in place of those of their objects."""
    if isinstance(key, tuple):
        return tuple(_filled(part, number, functions) for part in key)
    if isinstance(key, _Held):
        return _Held(number(key.number))
    if isinstance(key, _Function):
        return _Function(_filled(key.known, number, functions)) if functions else None
    return key


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _effects(eqn: Any) -> tuple[str, ...]:
    return tuple(sorted(_ADDRESS.sub("", type(effect).__name__) for effect in eqn.effects))


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
