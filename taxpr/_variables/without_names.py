"""Find the values of a program traced with names in the same program traced without.

When JAX takes a derivative, it drops unused equations, unless a mark reads them. So the program
with names has all equations of the other one, in the same order, and maybe more of them, and more
inputs and results of nested jaxprs. Both are gone through side by side.
"""

import enum
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from taxpr import _compat
from taxpr._address import Address
from taxpr._hops.places import numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag

_PROGRAM = Address()
_DATA = (bool, int, float, complex, str, type(None), np.dtype, np.generic, enum.Enum)


def places_without(named: Any, plain: Any) -> dict[Address, Address] | None:
    """The addresses of values and equations in the plain program, by those in the other one.

    Args:
        named: The jaxpr of the program with names, without its marks.
        plain: That of the same program traced without names.

    Returns:
        The addresses that both have; None if one does not contain the other.
    """
    both = _Both()
    ours, theirs = map(_compat.open_jaxpr, (named, plain))
    same = len(ours.invars) == len(theirs.invars) and len(ours.outvars) == len(theirs.outvars)
    pairs = list(zip(ours.invars, theirs.invars, strict=True)) if same else []
    ends = both.within(named, plain, pairs, _PROGRAM, _PROGRAM) if same else None
    return both.places if ends == {k: k for k in range(len(theirs.outvars))} else None


class _Both:
    """Two jaxprs side by side.

    Attributes:
        places: The addresses in the second one, by those in the first.
    """

    def __init__(self) -> None:
        self.places: dict[Address, Address] = {}

    def within(
        self,
        named: Any,
        plain: Any,
        pairs: Sequence[tuple[Any, Any]],
        home: Address,
        there: Address,
    ) -> dict[int, int] | None:
        """Goes through two jaxprs whose inputs are paired.

        Returns:
            For each result of the plain one its number among the other's results; None if it has
            something that the other one lacks.
        """
        ours, theirs = map(_compat.open_jaxpr, (named, plain))
        at, at_plain = _begin(ours, home), _begin(theirs, there)
        if len(ours.constvars) == len(theirs.constvars):
            pairs = [*pairs, *zip(ours.constvars, theirs.constvars, strict=True)]
        now: dict[Any, Any] = dict(pairs)
        rest = iter(numbered(named))
        for local, eqn in numbered(plain):
            for own_local, own in rest:
                found = self._results(own, eqn, now, home / own_local, there / local)
                if found is not None:
                    break
                self._name(own, at, home / own_local)
            else:
                return None
            self._name(own, at, home / own_local)
            self._name(eqn, at_plain, there / local)
            self.places[home / own_local] = there / local
            now.update((own.outvars[a], eqn.outvars[b]) for b, a in found.items())
        for own_local, own in rest:
            self._name(own, at, home / own_local)
        self.places.update((at[a], at_plain[b]) for a, b in now.items() if a in at)
        return _picked(ours.outvars, theirs.outvars, now)

    def _results(
        self, own: Any, eqn: Any, now: dict[Any, Any], home: Address, there: Address
    ) -> dict[int, int] | None:
        """For each result of the plain equation its number in the other; None if it is no such."""
        if own.primitive is not eqn.primitive:
            return None
        inner = nested_jaxprs(own), nested_jaxprs(eqn)
        if [one.label for one in inner[0]] != [one.label for one in inner[1]]:
            return None
        every = {k: k for k in range(len(eqn.outvars))}
        if not inner[0]:
            operands = _picked(own.invars, eqn.invars, now)
            alike = len(own.invars) == len(eqn.invars) and _types(own) == _types(eqn)
            alike = alike and _numbers(own) == _numbers(eqn)
            return every if alike and operands is not None else None
        for operands in (
            _picked(own.invars, eqn.invars, now),
            _picked(own.invars, eqn.invars, now, from_end=True),
        ):
            if operands is None:
                return None
            results = self._through(zip(*inner, strict=True), operands, home, there)
            if results is not None:
                return {b: results.get(b, b) for b in every}
        return None

    def _through(
        self,
        inner: Iterator[tuple[Any, Any]],
        operands: dict[int, int],
        home: Address,
        there: Address,
    ) -> dict[int, int] | None:
        """Goes through the nested jaxprs of two equations whose operands are paired."""
        results: dict[int, int] = {}
        for a, b in inner:
            feeds = {operand: k for k, operand in enumerate(a.operands) if operand is not None}
            pairs = [
                (a.jaxpr.invars[feeds[operands[operand]]], b.jaxpr.invars[k])
                for k, operand in enumerate(b.operands)
                if operand is not None and operands.get(operand) in feeds
            ]
            if len(a.operands) == len(b.operands):  # with those that no operand feeds
                pairs = list(zip(a.jaxpr.invars, b.jaxpr.invars, strict=True))
            ends = self.within(a.stored, b.stored, pairs, home / a.label, there / b.label)
            if ends is None:
                return None
            for k, m in ends.items():
                to, own = b.results[k], a.results[m]
                if to is not None and own is not None and results.setdefault(to, own) != own:
                    return None
        return results

    @staticmethod
    def _name(eqn: Any, at: dict[Any, Address], address: Address) -> None:
        if is_tag(eqn):  # what it returns is no other value
            pairs = zip(eqn.invars, eqn.outvars, strict=True)
            at.update((b, at[a]) for a, b in pairs if not _compat.is_literal(a) and a in at)
        else:
            at.update((var, address.value(k)) for k, var in enumerate(eqn.outvars))


def _begin(jaxpr: Any, home: Address) -> dict[Any, Address]:
    ins = {var: home / f"in{k}" for k, var in enumerate(jaxpr.invars)}
    return {**ins, **{var: home / f"const{k}" for k, var in enumerate(jaxpr.constvars)}}


def _types(eqn: Any) -> list[str]:
    return [str(_compat.aval_of(var)) for var in eqn.outvars]


def _numbers(eqn: Any) -> dict[str, Any]:
    """The params that two traces of a function have alike, such as where a slice begins."""
    return {name: value for name, value in eqn.params.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_data, cast("tuple[Any, ...]", value)))
    return isinstance(value, _DATA)


def _picked(
    ours: Sequence[Any], theirs: Sequence[Any], now: dict[Any, Any], from_end: bool = False
) -> dict[int, int] | None:
    """For each of their atoms, in order, the number of our equal atom; None if one has no equal."""
    found: dict[int, int] = {}
    numbers = iter(range(len(ours))[::-1] if from_end else range(len(ours)))
    for k in range(len(theirs))[::-1] if from_end else range(len(theirs)):
        own = next((n for n in numbers if _is(ours[n], theirs[k], now)), None)
        if own is None:
            return None
        found[k] = own
    return found


def _is(own: Any, atom: Any, now: dict[Any, Any]) -> bool:
    if _compat.is_literal(own) or _compat.is_literal(atom):
        alike = _compat.is_literal(own) and _compat.is_literal(atom)
        return alike and str(own) == str(atom)
    return now.get(own) is atom
