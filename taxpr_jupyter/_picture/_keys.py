"""Numbers for equations, jaxprs and values, equal where two programs are equal.

Neither letters nor source lines matter, nor which trace an equation is from. What a function does
that is a param cannot be known: rules of `jax.custom_jvp` and callbacks are told apart by name and
code.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

import taxpr
from taxpr_jupyter._picture._text import literal_text

LARGE = 2**26  # bytes; of arrays beyond it the values are not looked at

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (type(None), bool, int, str, bytes)


class EqnKeys(NamedTuple):
    """Three numbers of one equation, from the strict to the loose.

    Attributes:
        own: All but where its operands come from: primitive, params, literals, types, and what its
            jaxprs hold.
        loose: Without types, and without what its jaxprs hold.
        kind: Only the primitive; of a jit also the name.
    """

    own: int
    loose: int
    kind: int


class Keys:
    """Gives out the numbers. Two programs are compared by those of one object."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        # By id; what was numbered is kept, so that its id stays its own.
        self._avals: dict[int, tuple[Any, int]] = {}
        self._jaxprs: dict[int, tuple[Any, int]] = {}
        self._eqns: dict[int, tuple[Any, EqnKeys]] = {}
        self._kept: list[Any] = []

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
        if isinstance(value, Tracer):
            return self._object(value)
        try:
            if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                value = jax.random.key_data(value)
        except AttributeError:  # a Python scalar
            pass
        if getattr(value, "nbytes", 0) > LARGE or not getattr(value, "is_fully_addressable", True):
            return self._object(value)
        try:
            array = np.asarray(value)
            data = array.tobytes()
        except (TypeError, ValueError, RuntimeError):  # an array that was donated, a key of old
            return self._object(value)
        if array.dtype.hasobject:
            return self._object(value)
        digest = data if len(data) <= 64 else hashlib.blake2b(data).digest()
        return self.number(("value", str(array.dtype), array.shape, digest))

    def eqn(self, eqn: Any) -> EqnKeys:
        """The numbers of an equation."""
        known = self._eqns.get(id(eqn))
        if known is None:
            known = self._eqns[id(eqn)] = (eqn, self._of_eqn(eqn))
        return known[1]

    def jaxpr(self, jaxpr: Any) -> int:
        """The number of a jaxpr, open or closed, with the values that it closes over."""
        known = self._jaxprs.get(id(jaxpr))
        if known is None:
            known = self._jaxprs[id(jaxpr)] = (jaxpr, self._of_jaxpr(jaxpr))
        return known[1]

    def param(self, value: Any) -> Any:
        """A param as something hashable, equal where two params mean the same."""
        if isinstance(value, _PLAIN):
            return type(value).__name__, value
        if isinstance(value, (float, complex)):
            return type(value).__name__, repr(value)  # which tells -0.0 from 0.0, and nan is nan
        if is_jaxpr(value):
            return "jaxpr", self.jaxpr(value)
        if isinstance(value, (tuple, list)):
            return type(value).__name__, tuple(map(self.param, value))
        if isinstance(value, (Mapping, types.MappingProxyType)):
            return "dict", tuple(sorted((repr(k), self.param(v)) for k, v in value.items()))
        if isinstance(value, (np.ndarray, np.generic, jax.Array)):
            return "array", self.value(value)
        if isinstance(value, (type, np.dtype)):
            return "type", value
        if isinstance(value, functools.partial):
            return "partial", *map(self.param, (value.func, value.args, value.keywords))
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return self._function(value)
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, f.name, None) for f in dataclasses.fields(value) if f.compare]
            return type(value).__qualname__, tuple(map(self.param, fields))
        return self._hashable(value)

    # --- inside -----------------------------------------------------------------------------------

    def _of_eqn(self, eqn: Any) -> EqnKeys:
        types_ = tuple(self.aval(a.aval) for a in (*eqn.invars, *eqn.outvars))
        literals = tuple(
            (k, self.literal(a)) for k, a in enumerate(eqn.invars) if taxpr.is_literal(a)
        )
        flat, deep = [], []
        for name, value in sorted(eqn.params.items()):
            key = self.param(value)
            (deep if holds_jaxpr(key) else flat).append((name, key))
        # Those that are in no param.
        deep += [
            (nested.label, self.jaxpr(nested.stored))
            for nested in taxpr.nested_jaxprs(eqn)
            if nested.param is None
        ]
        # Without their type, which may follow from another operand.
        values = tuple(
            (k, literal_text(a)) for k, a in enumerate(eqn.invars) if taxpr.is_literal(a)
        )
        name = eqn.params.get("name") if deep else None
        kind = self.number(("kind", eqn.primitive, name if isinstance(name, str) else None))
        loose = self.number(("loose", kind, tuple(flat), values))
        own = self.number(
            ("own", loose, types_, len(eqn.invars), literals, tuple(deep), _effects(eqn))
        )
        return EqnKeys(own, loose, kind)

    def _of_jaxpr(self, jaxpr: Any) -> int:
        inner, consts = open_jaxpr(jaxpr), getattr(jaxpr, "consts", None) or ()
        known = {var: i for i, var in enumerate((*inner.constvars, *inner.invars))}
        parts: list[Any] = [
            tuple(self.aval(var.aval) for var in (*inner.constvars, *inner.invars)),
            len(inner.invars),
            tuple(map(self.value, consts)),
        ]
        for eqn in inner.eqns:
            atoms = (-1 if taxpr.is_literal(a) else known[a] for a in eqn.invars)
            parts.append((self.eqn(eqn).own, tuple(atoms)))
            for var in eqn.outvars:
                known[var] = len(known)
        parts.append(
            tuple(
                ("literal", self.literal(a)) if taxpr.is_literal(a) else known[a]
                for a in inner.outvars
            )
        )
        return self.number(("jaxpr", tuple(parts)))

    def _function(self, function: Any) -> Any:
        name = function.__module__, function.__qualname__
        function = getattr(function, "__func__", function)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        told = [cell for cell in cells if isinstance(cell, _PLAIN)]
        return "function", name, _code(function.__code__), tuple(map(self.param, told))

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
        self._kept.append(value)
        return self.number(("object", id(value)))


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
        return bool(key) and (key[0] == "jaxpr" or any(map(holds_jaxpr, key)))
    return False


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
