"""Structural hashing: number equations, jaxprs and values, so that equal ones get equal numbers.

The idea is hash consing: a dictionary maps each structure, built from the numbers of its parts, to
a number. Invariants: within one `Keys`, equal numbers mean equal structure, without collisions;
variable letters, source lines and the trace do not matter. Functions among params, such as
callbacks and rules of `jax.custom_jvp`, are compared by name and code.

Each equation is read once and reduced to a form, which ignores where its operands come from. Large
programs have few different forms, so all further work is done once for each form.
"""

import dataclasses
import functools
import hashlib
import operator
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.extend.core.primitives as p
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._text.short import literal_text, without_places

LARGE = 2**26  # bytes; the values of larger arrays are not compared

_PLAIN = (type(None), bool, int, str, bytes)
_PLAIN_TYPES = frozenset(_PLAIN)
# Params that say where a slice is in an array, not how large it is. A slice's transpose is a pad.
_WHERE = {
    (p.slice_p, "start_indices"),
    (p.slice_p, "limit_indices"),
    (p.pad_p, "padding_config"),
}


_by_name = operator.itemgetter(0)


class EqnKeys(NamedTuple):
    """Three numbers of an equation, from strict to loose. They ignore where operands come from.

    Attributes:
        own: Primitive, params, literals, types, and the content of its jaxprs.
        loose: The same without types and without the content of its jaxprs.
        kind: Only the primitive; for a jit also the name.
    """

    own: int
    loose: int
    kind: int


class _HashedParam(tuple[Any, Any]):
    """A param without a jaxpr: its type, or the types of its items, and the value."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _HashedHeld:
    """A jaxpr among the params: the number of its object."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class _HashedFunction:
    """A function among the params: its name and code."""

    known: Any


@dataclasses.dataclass(eq=False, slots=True)
class _Form:
    """The form of an equation: everything except where its operands come from.

    Attributes:
        eqn: The first equation of this form.
        operands: The number of each operand's type, or of a literal (`Keys.literal`).
        results: The number of each result's type.
        params: The names and keys of the params, sorted; also of jaxprs hidden in them.
        effects: The kinds of effects.
        keys: The result of `Keys.eqn`, once it is known.
        alike: The result of `Keys.alike`, once it is known.
        unnamed: The result of `Keys.unnamed`, once it is known.
    """

    eqn: introspect.JaxprEqn
    operands: tuple[int, ...]
    results: tuple[int, ...]
    params: tuple[tuple[str, Any], ...]
    effects: tuple[str, ...]
    keys: EqnKeys | None = None
    alike: int | None = None
    unnamed: int | None = None


class Keys:
    """Assigns the numbers. Use one object for all programs that are compared."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._avals: introspect.ByIdentity[int] = introspect.ByIdentity()
        self._eqns: introspect.ByIdentity[_Form] = introspect.ByIdentity()
        self._objects: dict[int, Any] = {}  # by id
        self._forms: dict[Any, _Form] = {}
        # By the id of a jaxpr: its number, and those that it shares with jaxprs that are alike, or
        # that have other names.
        self._own: dict[int, int] = {}
        self._alike: dict[int, int] = {}
        self._unnamed: dict[int, int] = {}

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

    def eqn(self, eqn: introspect.JaxprEqn) -> EqnKeys:
        """The numbers of an equation."""
        form = self._eqns.of(eqn, self._read)
        if form.keys is None:
            form.keys = self._of_form(form)
        return form.keys

    def alike(self, eqn: introspect.JaxprEqn) -> int:
        """The number shared by equations that compute the same way, such as those of equal layers.

        They have the same primitive, types, literals, params and nested jaxprs. Functions among the
        params do not count, nor does which slice of an array is taken: each layer takes its own
        slice of stacked weights.
        """
        form = self._eqns.of(eqn, self._read)
        if form.alike is None:
            params = tuple(
                (name, _filled(key, self._alike_jaxpr, functions=False))
                for name, key in form.params
                if (eqn.primitive, name) not in _WHERE
            )
            parts = form.operands, form.results, params, form.effects
            form.alike = self.number(("alike", eqn.primitive, *parts))
        return form.alike

    def unnamed(self, eqn: introspect.JaxprEqn) -> int:
        """As ``own`` of `eqn`, but without the names of functions, here and in its jaxprs."""
        form = self._eqns.of(eqn, self._read)
        if form.unnamed is None:
            form.unnamed = self.eqn(eqn).own
            if any(holds_jaxpr(key) for _, key in form.params):
                params = tuple(
                    (name, _filled(key, self._unnamed_jaxpr, functions=True))
                    for name, key in form.params
                    if name != "name"
                )
                parts = form.operands, form.results, params, form.effects
                form.unnamed = self.number(("unnamed", eqn.primitive, *parts))
        return form.unnamed

    def jaxpr(self, jaxpr: Any) -> int:
        """The number of a jaxpr, open or closed, with the values of its constants."""
        return self._own_jaxpr(self._object(jaxpr))

    def param(self, value: Any) -> Any:
        """A hashable key for a param. Params that mean the same have equal keys."""
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return _HashedParam((kind, value))
        if kind is tuple:
            kinds = tuple(map(type, value))
            if _PLAIN_TYPES.issuperset(kinds):
                return _HashedParam((kinds, value))
        if isinstance(value, _PLAIN):
            return kind.__name__, value
        if isinstance(value, (float, complex)):
            return kind.__name__, repr(value)  # which tells -0.0 from 0.0, and nan is nan
        if is_jaxpr(value):
            return _HashedHeld(self._object(value))
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
            return _HashedFunction(("partial", *map(self.param, parts)))
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return self._function(value)
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, f.name, None) for f in dataclasses.fields(value) if f.compare]
            known = kind.__qualname__, tuple(map(self.param, fields))
            return _HashedFunction(known) if callable(value) else known
        known = self._hashable(value)
        return _HashedFunction(known) if callable(value) else known

    # --- inside -----------------------------------------------------------------------------------

    def _read(self, eqn: introspect.JaxprEqn) -> _Form:
        operands = tuple(
            [self.literal(a) if introspect.is_literal(a) else self.aval(a.aval) for a in eqn.invars]
        )
        results = self.types(eqn.outvars)
        params = [(name, self.param(value)) for name, value in eqn.params.items()]
        if not all(type(key) is _HashedParam for _, key in params):  # a plain param hides no jaxpr
            params += [
                (nested.label, _HashedHeld(self._object(nested.stored)))
                for nested in introspect.nested_jaxprs(eqn)
                if nested.param is None
            ]
        effects = sorted(type(effect).__name__ for effect in eqn.effects) if eqn.effects else ()
        parts = operands, results, tuple(sorted(params, key=_by_name)), tuple(effects)
        form = self._forms.get((eqn.primitive, *parts))
        if form is None:
            form = self._forms[eqn.primitive, *parts] = _Form(eqn, *parts)
        return form

    def _of_form(self, form: _Form) -> EqnKeys:
        eqn = form.eqn
        deep = tuple(param for param in form.params if holds_jaxpr(param[1]))
        flat = tuple(param for param in form.params if not holds_jaxpr(param[1]))
        # Without the types of literals, which may follow from another operand.
        values = tuple(
            (k, literal_text(a)) for k, a in enumerate(eqn.invars) if introspect.is_literal(a)
        )
        name = eqn.params.get("name") if deep else None
        kind = self.number(("kind", eqn.primitive, name if isinstance(name, str) else None))
        loose = self.number(("loose", kind, flat, values))
        inside = _filled(deep, self._own_jaxpr, functions=True)
        own = self.number(("own", loose, form.operands, form.results, inside, form.effects))
        return EqnKeys(own, loose, kind)

    def _own_jaxpr(self, number: int) -> int:
        if number not in self._own:
            own = self._of_jaxpr(self._objects[number], lambda eqn: self.eqn(eqn).own)
            self._own[number] = own
        return self._own[number]

    def _unnamed_jaxpr(self, number: int) -> int:
        if number not in self._unnamed:
            self._unnamed[number] = self._of_jaxpr(self._objects[number], self.unnamed)
        return self._unnamed[number]

    def _alike_jaxpr(self, number: int) -> int:
        if number not in self._alike:
            graph = DefUse(open_jaxpr(self._objects[number]))
            eqns = tuple((self.alike(eqn), graph.sources(eqn.invars)) for eqn in graph.eqns)
            outs = graph.sources(graph.jaxpr.outvars)
            self._alike[number] = self.number(("alike", eqns, outs))
        return self._alike[number]

    def _of_jaxpr(self, jaxpr: Any, of: Callable[[Any], int]) -> int:
        inner, consts = open_jaxpr(jaxpr), getattr(jaxpr, "consts", None) or ()
        graph = DefUse(inner)
        parts: list[Any] = [
            self.types((*inner.constvars, *inner.invars)),
            len(inner.invars),
            tuple(map(self.value, consts)),
        ]
        parts += [(of(eqn), graph.sources(eqn.invars)) for eqn in inner.eqns]
        literals = [self.literal(a) for a in inner.outvars if introspect.is_literal(a)]
        parts += [graph.sources(inner.outvars), tuple(literals)]
        return self.number(("jaxpr", tuple(parts)))

    def _function(self, function: Any) -> Any:
        name = function.__module__, function.__qualname__
        function = getattr(function, "__func__", function)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        told = [cell for cell in cells if isinstance(cell, _PLAIN)]
        return _HashedFunction((name, _code(function.__code__), tuple(map(self.param, told))))

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


def is_jaxpr(value: Any) -> bool:
    """Whether this is a jaxpr, open or closed."""
    # By attributes: from JAX 0.12, importing the classes from `jax.extend.core` imports Pallas.
    return hasattr(value, "eqns") and hasattr(value, "effects")


def open_jaxpr(jaxpr: Any) -> Any:
    """The open view of a jaxpr."""
    return jaxpr if hasattr(jaxpr, "constvars") else jaxpr.jaxpr


def holds_jaxpr(key: Any) -> bool:
    """Whether a key of `Keys.param` has a jaxpr in it."""
    if isinstance(key, tuple):
        return any(map(holds_jaxpr, key))
    return isinstance(key, _HashedHeld) or (
        isinstance(key, _HashedFunction) and holds_jaxpr(key.known)
    )


def _filled(key: Any, number: Callable[[int], int], functions: bool) -> Any:
    """A key in which each jaxpr has its own number instead of the id of its object."""
    if isinstance(key, tuple):
        return tuple(_filled(part, number, functions) for part in key)
    if isinstance(key, _HashedHeld):
        return _HashedHeld(number(key.number))
    if isinstance(key, _HashedFunction):
        return _HashedFunction(_filled(key.known, number, functions)) if functions else None
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
