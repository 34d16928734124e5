"""How much two runs may differ, and how precise a program's values can be."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy
import numpy

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr
from taxpr._errors import ArgumentError
from taxpr._hops.protocol import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._sites.walk import addresses_of, numbered

np: Any = numpy  # which leaves types of arrays unknown
_jnp: Any = jax.numpy

EPS = 16  # times the precision of a type: what is tolerated without being asked


def coarsest(dtypes: Sequence[Any]) -> Any:
    """The type of floats with the least precision; None where there is none."""
    floats = [one for one in dtypes if one is not None and _jnp.issubdtype(one, _jnp.inexact)]
    return max(floats, key=lambda one: _jnp.finfo(one).eps, default=None)


def precisions(jaxpr: StoredJaxpr) -> tuple[dict[str, Any], list[Any]]:
    """The coarsest type among what each value was computed from, by address, and of each result.

    A sum in float32 of numbers that were rounded to bfloat16 is no more precise than these.
    """
    found: dict[str, Any] = {}
    inputs = len(_compat.open_jaxpr(jaxpr).invars)
    return found, _walk(jaxpr, Address(), [None] * inputs, found)


def _walk(
    stored: StoredJaxpr, home: Address, given: Sequence[Any], found: dict[str, Any]
) -> list[Any]:
    inner, at = _compat.open_jaxpr(stored), addresses_of(stored, home)
    known: dict[int, Any] = {}

    def put(var: Any, of: Any) -> None:
        known[id(var)] = one = coarsest([of, getattr(var.aval, "dtype", None)])
        if id(var) in at:
            found[at[id(var)]] = one

    for var, of in zip(
        (*inner.constvars, *inner.invars), (*[None] * len(inner.constvars), *given), strict=True
    ):
        put(var, of)
    for local, eqn in numbered(inner):
        ins = [known.get(id(atom)) for atom in eqn.invars]
        every, handed, covered = coarsest(ins), [None] * len(eqn.outvars), set[int]()
        for nested in nested_jaxprs(eqn):
            begun = [every if k is None else ins[k] for k in nested.operands]
            results = _turned(nested, home / local / nested.label, begun, found)
            for to, of in zip(nested.results, results, strict=True):
                if to is not None:
                    handed[to] = coarsest([handed[to], of])
                    covered.add(to)
        for k, var in enumerate(eqn.outvars):
            put(var, handed[k] if k in covered else every)
    return [known.get(id(atom)) for atom in inner.outvars]


def _turned(nested: Nested, home: Address, given: list[Any], found: dict[str, Any]) -> list[Any]:
    """The same of a nested jaxpr, whose next iteration begins with what this one hands on."""
    while True:
        results = _walk(nested.stored, home, given, found)
        now = list(given)
        for out, k in nested.back:
            now[k] = coarsest([given[k], results[out]])
        if now == given:
            return results
        given = now


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How much two runs may differ; None of both numbers means what precision does."""

    atol: float | None
    rtol: float | None

    def __post_init__(self) -> None:
        for name, given in (("atol", self.atol), ("rtol", self.rtol)):
            if given is not None and not (hasattr(given, "__float__") and given >= 0):
                raise ArgumentError(
                    f"first_difference: {name}={given!r} is no tolerance. Give a number from 0 on."
                )

    @property
    def asked(self) -> bool:
        """Whether one of both was given."""
        return self.atol is not None or self.rtol is not None

    def of(self, a: Any, b: Any, dtypes: Sequence[Any]) -> Any:
        """How much two arrays of numbers may differ, where they are finite."""
        if self.asked:
            return (self.atol or 0.0) + (self.rtol or 0.0) * np.abs(b)
        least = self.coarsest(dtypes)
        if least is None:
            return 0.0
        most = max((float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in (a, b)), default=0.0)
        return EPS * float(_jnp.finfo(least).eps) * most

    def coarsest(self, dtypes: Sequence[Any]) -> Any:
        """The type whose precision is tolerated; None where none is."""
        return None if self.asked else coarsest(dtypes)
