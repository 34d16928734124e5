"""What flows through a program from its inputs on, in jaxprs at any depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.protocol import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._sites.walk import addresses_of, numbered

T = TypeVar("T")


class Flow(Protocol[T]):
    """What is known of values: of each it follows from what is known of those it is made of."""

    def join(self, given: Sequence[T | None]) -> T | None:
        """Of several; None of what nothing is known of, such as a literal."""
        ...

    def made(self, eqn: JaxprEqn, of: T | None) -> T | None:
        """What an equation makes of what its operands have; not asked for one with a jaxpr."""
        ...

    def held(self, address: Address, var: Any, of: T | None) -> T | None:
        """What a value has, after it is known where it is."""
        ...

    def back(self, loop: Address, of: T | None) -> T | None:
        """What the next iteration of a loop gets."""
        ...


def flowing(jaxpr: StoredJaxpr, flow: Flow[T]) -> list[T | None]:
    """What the results of a program have."""
    return _walk(jaxpr, Address(), [None] * len(_compat.open_jaxpr(jaxpr).invars), flow)


def _walk(
    stored: StoredJaxpr, home: Address, given: Sequence[T | None], flow: Flow[T]
) -> list[T | None]:
    inner, at = _compat.open_jaxpr(stored), addresses_of(stored, home)
    known: dict[int, T | None] = {}

    def put(var: Any, of: T | None) -> None:
        known[id(var)] = flow.held(at[id(var)], var, of) if id(var) in at else of

    for var in inner.constvars:
        put(var, None)
    for var, of in zip(inner.invars, given, strict=True):
        put(var, of)
    for local, eqn in numbered(inner):
        ins = [known.get(id(atom)) for atom in eqn.invars]
        every = flow.join(ins)
        nested = nested_jaxprs(eqn)
        handed: dict[int, T | None] = {}
        for one in nested:
            begun = [every if k is None else ins[k] for k in one.operands]
            results = _turned(one, home / local, begun, flow)
            for to, of in zip(one.results, results, strict=True):
                if to is not None:
                    handed[to] = flow.join([handed.get(to), of])
        made = every if nested else flow.made(eqn, every)
        for k, var in enumerate(eqn.outvars):
            put(var, handed.get(k, made))
    return [known.get(id(atom)) for atom in inner.outvars]


def _turned(nested: Nested, loop: Address, given: list[T | None], flow: Flow[T]) -> list[T | None]:
    """The same of a nested jaxpr, whose next iteration begins with what this one hands on."""
    while True:
        results = _walk(nested.stored, loop / nested.label, given, flow)
        now = list(given)
        for out, k in nested.back:
            now[k] = flow.join([given[k], flow.back(loop, results[out])])
        if now == given:
            return results
        given = now
