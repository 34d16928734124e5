"""Carry tags over to a program whose source was edited: find the values of the old one again.

A value is identified by the equation that makes it: primitive, nested jaxpr, function, and the text
of the source line. If equally many equations share all of these in both programs, they correspond
in order. If the line was changed, the neighbours decide: the producers of the operands and the
users of the results. If two places fit equally well, the tag is dropped, because the user notices a
lost tag but not one at a wrong value.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import INPUT
from taxpr_jupyter._analysis.index import ElementPlace, Index
from taxpr_jupyter._tracing.sources import source_line

_NUMBER = re.compile(r"\d+:")


class EqnIdentity(NamedTuple):
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
    maker = index.eqn(taxpr.Address(key).eqn)
    return _squeezed(introspect.source_of(maker.eqn)) if maker is not None else ""


def carried(old: Index, new: Index, key: str, text: str) -> str | None:
    """The address in the new program of a value of the old one; None if it is ambiguous or gone."""
    owner, result = old.eqn(taxpr.Address(key).eqn), taxpr.Address(key).result
    if owner is None or result is None:
        return _input(old, new, key)
    known = _known(owner)._replace(text=text)
    before = [at for at, one in _alike(old, known) if one.line == known.line]
    places = list(_alike(new, known))
    after = [at for at, one in places if one.text == text]
    if after and len(after) == len(before):
        return after[before.index(owner)].address.value(result)
    if after or not text:  # the numbers differ, so order does not decide
        found = _nearest(owner, after)
    else:
        texts = {_squeezed(introspect.source_of(one.eqn)) for one in old.eqns()}
        found = _nearest(owner, [at for at, one in places if one.text not in texts])
    return found.address.value(result) if found else None


def _squeezed(source: introspect.Source | None) -> str:
    return "".join(source_line(source).split())


def _known(place: ElementPlace) -> EqnIdentity:
    source = introspect.source_of(place.eqn)
    home = _NUMBER.sub("", place.home.address)
    types = tuple(str(getattr(var.aval, "dtype", "")) for var in place.made)
    kind = place.eqn.primitive, home, source.function if source else "", types
    return EqnIdentity(kind, (source.file, source.line) if source else None, _squeezed(source))


def _alike(index: Index, known: EqnIdentity) -> Iterator[tuple[ElementPlace, EqnIdentity]]:
    for place in index.eqns():
        if place.eqn.primitive is known.kind[0]:
            one = _known(place)
            if one.kind == known.kind:
                yield place, one


def _input(old: Index, new: Index, key: str) -> str | None:
    """Find an input: the program's own by name, others and constants by address."""
    names, others = _inputs(old), _inputs(new)
    if key in names:
        return next((at for at, name in others.items() if name == names[key]), None)
    variable, there = old.variable(key), new.variable(key)
    if variable is None or there is None or variable.aval.dtype != there.aval.dtype:
        return None
    homes = [one.home_of(key) for one in (old, new)]
    counts = {len(home.jaxpr.invars) for home in homes if home}  # else they have moved
    return key if len(counts) == 1 else None


def _inputs(index: Index) -> dict[str, str]:
    return {f"in{k}": name for k, name in enumerate(index.program.in_names)}


class _Surroundings(NamedTuple):
    operands: Sequence[str]  # the producer of each
    users: Sequence[str]  # in no order


def _nearest(owner: ElementPlace, candidates: Sequence[ElementPlace]) -> ElementPlace | None:
    """The candidate with the most similar neighbours; None if tied."""
    own = _around(owner)
    found = [(_likeness(own, _around(place)), place) for place in candidates]
    best = max((likeness for likeness, _ in found), default=0)
    at_best = [place for likeness, place in found if likeness == best]
    return at_best[0] if best and len(at_best) == 1 else None


def _likeness(one: _Surroundings, other: _Surroundings) -> int:
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


def _around(place: ElementPlace) -> _Surroundings:
    graph = place.home.graph
    names = getattr(graph.jaxpr, "in_names", None)

    def maker(atom: introspect.Atom) -> str:
        (i, k), _ = graph.behind(atom)
        if i >= 0:
            return graph.eqns[i].primitive.name
        if i == INPUT:
            return f"in {names[k] if names else k}"
        return str(atom) if introspect.is_literal(atom) else "const"

    users = {user for var in place.made for user in graph.users(var)}
    taking = ["out" if i == len(graph.eqns) else graph.eqns[i].primitive.name for i in users]
    return _Surroundings([maker(atom) for atom in place.eqn.invars], sorted(taking))
