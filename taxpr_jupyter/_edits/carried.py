"""Carry tags over to a program whose source was edited: find the values of the old one again.

A value is identified by the equation that makes it: primitive, nested jaxpr, function, and the text
of the source line. If equally many equations share all of these in both programs, they correspond
in order. If the line was changed, the neighbours decide: the producers of the operands and the
users of the results. If two places fit equally well, the tag is dropped, because the user notices a
lost tag but not one at a wrong value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._tracing.sources import source_line

_NUMBER = re.compile(r"\d+:")


class Place(NamedTuple):
    """The properties that identify an equation.

    Attributes:
        kind: Its primitive, the nested jaxpr without numbers, the function, its results' dtypes.
        line: Where it was made: file and line number.
        text: The text of that line, without its spaces.
    """

    kind: tuple[Any, ...]
    line: tuple[str, int] | None
    text: str


def line_text(index: Index, key: str) -> str:
    """The text of the source line that makes a value, to remember before the user edits it."""
    eqn = index.eqns.get(taxpr.Address(key).eqn)
    return _squeezed(taxpr.source_of(eqn)) if eqn is not None else ""


def carried(old: Index, new: Index, key: str, text: str) -> str | None:
    """The address in the new program of a value of the old one; None if it is ambiguous or gone.

    Args:
        old: The places of the old program.
        new: The places of the new program.
        key: The address of the value in the old program.
        text: Its line, as `line_text` gave it.
    """
    owner, result = taxpr.Address(key).eqn, taxpr.Address(key).result
    eqn = old.eqns.get(owner)
    if eqn is None or result is None:
        return _input(old, new, key)
    place = _place(old, owner, eqn)._replace(text=text)
    before = [at for at, one in _alike(old, place) if one.line == place.line]
    places = list(_alike(new, place))
    after = [at for at, one in places if one.text == text]
    if after and len(after) == len(before):
        return after[before.index(owner)].value(result)
    if after or not text:  # the numbers differ, so order does not decide
        found = _nearest(old, new, owner, after)
    else:
        known = {_squeezed(taxpr.source_of(one)) for one in old.eqns.values()}
        found = _nearest(old, new, owner, [at for at, one in places if one.text not in known])
    return found.value(result) if found else None


def _squeezed(source: taxpr.Source | None) -> str:
    return "".join(source_line(source).split())


def _place(index: Index, address: str, eqn: Any) -> Place:
    source = taxpr.source_of(eqn)
    home = _NUMBER.sub("", index.inside[address].address)
    types = tuple(str(getattr(var.aval, "dtype", "")) for var in eqn.outvars)
    kind = eqn.primitive, home, source.function if source else "", types
    return Place(kind, (source.file, source.line) if source else None, _squeezed(source))


def _alike(index: Index, place: Place) -> Iterator[tuple[taxpr.Address, Place]]:
    for address, eqn in index.eqns.items():
        if eqn.primitive is place.kind[0]:
            one = _place(index, address, eqn)
            if one.kind == place.kind:
                yield taxpr.Address(address), one


def _input(old: Index, new: Index, key: str) -> str | None:
    """Find an input: those of the program by name, others and constants by address."""
    names, others = _inputs(old), _inputs(new)
    if key in names:
        return next((at for at, name in others.items() if name == names[key]), None)
    variable, there = old.variable(key), new.variable(key)
    same = variable is not None and there is not None and variable.aval.dtype == there.aval.dtype
    return key if same else None


def _inputs(index: Index) -> dict[str, str]:
    names = getattr(index.homes[""].jaxpr, "in_names", ())
    return {f"in{k}": name for k, name in enumerate(names)}


class _Around(NamedTuple):
    operands: Sequence[str]  # the producer of each
    users: Sequence[str]  # in no order


def _nearest(
    old: Index, new: Index, owner: str, candidates: Sequence[taxpr.Address]
) -> taxpr.Address | None:
    """The candidate whose neighbours are most similar to those of an equation; None if tied."""
    own = _around(old, owner)
    found = [(_likeness(own, _around(new, at)), at) for at in candidates]
    best = max((likeness for likeness, _ in found), default=0)
    at_best = [at for likeness, at in found if likeness == best]
    return at_best[0] if best and len(at_best) == 1 else None


def _likeness(one: _Around, other: _Around) -> int:
    """The similarity of neighbours; 0 if neither all users nor all operands are equal."""
    rest, shared = list(other.operands), 0
    for operand in one.operands:
        if operand in rest:
            rest.remove(operand)
            shared += 1
    users = one.users == other.users
    if not users and shared < len(one.operands):
        return 0
    return shared + 2 * users + 1


def _around(index: Index, address: str) -> _Around:
    jaxpr, eqn = index.inside[address].jaxpr, index.eqns[address]
    makers: dict[Any, str] = {}
    names = getattr(jaxpr, "in_names", None)
    for k, var in enumerate(jaxpr.invars):
        makers[var] = f"in {names[k] if names else k}"
    for one in jaxpr.eqns:
        seen = one.invars[0] if taxpr.is_tag(one) and len(one.invars) == 1 else None
        name = makers.get(seen, "") if _hashable(seen) else ""
        makers |= dict.fromkeys(one.outvars, name or one.primitive.name)
    results = _through_tags(jaxpr, eqn)
    users = [
        one.primitive.name
        for one in jaxpr.eqns
        if not taxpr.is_tag(one) and any(_hashable(v) and v in results for v in one.invars)
    ]
    users += ["out"] * any(_hashable(var) and var in results for var in jaxpr.outvars)
    operands = [makers.get(atom, "const") if _hashable(atom) else str(atom) for atom in eqn.invars]
    return _Around(operands, sorted(users))


def _through_tags(jaxpr: Any, eqn: Any) -> Mapping[Any, None]:
    """The results of an equation, and the results of tags on them."""
    results = dict.fromkeys(eqn.outvars)
    for one in jaxpr.eqns:
        if taxpr.is_tag(one) and any(_hashable(v) and v in results for v in one.invars):
            results |= dict.fromkeys(one.outvars)
    return results


def _hashable(atom: Any) -> bool:
    """Whether an operand is a variable: a literal has no hash in any JAX."""
    return atom is not None and not taxpr.is_literal(atom)
