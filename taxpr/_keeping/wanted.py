"""The values that a recording is to keep, and their names in the source."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from taxpr._compat import Jaxpr, StoredJaxpr, is_literal, open_jaxpr, shard_map_p
from taxpr._compat import Var as JaxprVar
from taxpr._errors import RefusedError, SelectorError
from taxpr._hops.places import numbered
from taxpr._jaxprs.trees import named_leaves
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._sites.criteria import Every, Maybe, Selector, is_list
from taxpr._sites.locate import Located
from taxpr._sites.site import Site, home_of
from taxpr._sites.skipped import Skipped, refusal_of, skipped
from taxpr._sites.values import Value, values_of
from taxpr._variables.cotangent import Cotangent, FoundCotangent, cotangents
from taxpr._variables.select import Var, labels, var
from taxpr._variables.variable import Variable
from taxpr._where.meaning import said, variables_of
from taxpr._where.select import select

_Slot = tuple[
    str, str, int, int | None
]  # the local address, and kind, number, result as in a `Located`
EVERY_VARIABLE = var("*")
NOTHING = "watch: nothing that was selected can be read: {}."


@dataclasses.dataclass(frozen=True, eq=False)
class Wanted:
    """A value to keep.

    Attributes:
        name: Its name in the recording: a variable, a tag's name, or an address.
        path: Its path in the value of a tag.
        value: The value.
        variable: The variable that held it; None if unknown.
        read: The value to read: the same one, nearer to the outside.
        cotangent: Whether it is the cotangent of the variable's value.
        of: The address of that value, if the cotangent is in the gradient of its program.
    """

    name: str
    value: Value
    read: Value
    variable: Variable | None = None
    path: str = ""
    cotangent: bool = False
    of: str = ""


def wanted(program: Program, where: Selector) -> tuple[list[Wanted], tuple[Skipped, ...]]:
    """The values that a selector chooses, in program order, and those that cannot be read.

    Raises:
        SelectorError: If nothing is selected.
        RefusedError: If nothing that is selected can be read.
    """
    found = _selected(program, where)
    over = [(one.value, why) for one in found if (why := refusal_of(one.value)) is not None]
    gone = {id(value) for value, _ in over}
    kept = [one for one in found if id(one.value) not in gone]
    passed = skipped(over)
    if not kept:
        raise RefusedError(NOTHING.format("; ".join(map(str, passed))))
    return kept, passed


def every_value(program: Program) -> tuple[list[Wanted], tuple[Skipped, ...]]:
    """All values that can be read, with inputs and constants, and those that cannot.

    Those of jaxprs that never run are neither.
    """
    make = _Wanting(program)
    over = [(value, why) for value in make.values if (why := refusal_of(value)) is not None]
    gone = {id(value) for value, _ in over}
    kept = make.of_values([one for one in make.values if id(one) not in gone])
    idle = {id(one) for one, _ in over if any(step.nested.idle for step in one.steps)}
    return kept, skipped((one, why) for one, why in over if id(one) not in idle)


def _selected(program: Program, where: Selector) -> list[Wanted]:
    make = _Wanting(program)
    if where == EVERY_VARIABLE and not make.variables:
        raise SelectorError(
            "watch: the program knows no variables: it was traced without names=True, or it "
            'has no function of your own. where="*" keeps what every equation makes.'
        )
    found: dict[tuple[str, str], Wanted] = {}
    where = said(program, where, Value)
    for item in where if is_list(where) and where else [where]:
        for one in _of_one(make, item, may_be_empty=False):
            found.setdefault((one.name + one.path, one.value.address), one)
    if not found:
        raise SelectorError(f"watch: where={where!r} selects nothing.")
    return _told_apart(list(found.values()))


def _told_apart(found: list[Wanted]) -> list[Wanted]:
    """Variables that are called as a tag is, by the names that they have with their function."""
    tags = {one.name for one in found if one.value.eqn is not None and is_tag(one.value.eqn)}
    return [
        dataclasses.replace(one, name=one.variable.short)
        if one.variable is not None and one.name in tags
        else one
        for one in found
    ]


def _of_one(make: _Wanting, where: Any, may_be_empty: bool) -> list[Wanted]:
    """Find the values of one selector: each variable for itself, else values."""
    if isinstance(where, Maybe):
        return _of_one(make, where.where, may_be_empty=True)
    if is_list(where) and where:
        return [found for one in where for found in _of_one(make, one, may_be_empty)]
    if isinstance(where, Cotangent):
        return make.of_cotangents(cotangents(make.program.named, where, may_be_empty))
    if isinstance(where, Var):
        return make.of_variables(variables_of(make.program, where, may_be_empty))
    all_of_them = where is None or isinstance(where, Every)
    values = select(make.program, Maybe(where) if may_be_empty else where, Value).found
    # Arguments and constants would take as much memory again, and nothing computes them.
    return make.of_values([one for one in values if one.eqn or not all_of_them])


class _Wanting:
    """Makes `Wanted` of the values, variables and tags of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variables = program.variables()
        self.values = values_of(program.jaxpr)
        self._at = {value.address: value for value in self.values}
        self._homes: dict[int, tuple[Jaxpr, dict[JaxprVar, _Slot]]] = {}
        names = labels(self.variables)
        self._names = dict(zip(self.variables, names, strict=True))

    def of_variables(self, variables: Sequence[Variable]) -> list[Wanted]:
        """The values of variables."""
        every = [(one, self._at[one.address]) for one in variables if one.address in self._at]
        return [Wanted(self._names[one], value, self._outside(value), one) for one, value in every]

    def of_values(self, values: Sequence[Value]) -> list[Wanted]:
        """Values, each with the first variable that held it."""
        first: dict[str, Variable] = {}
        for one in self.variables:
            first.setdefault(one.address, one)
        out: list[Wanted] = []
        for value in values:
            if value.tag is not None:
                out.append(_of_tag(value, value.tag))
                continue
            variable = first.get(value.address)
            name = self._names[variable] if variable else value.address
            out.append(Wanted(name, value, self._outside(value), variable))
        return out

    def of_cotangents(self, found: Sequence[FoundCotangent]) -> list[Wanted]:
        """The cotangents of variables, and of the tokens of tags."""
        every = [(one, self._at[one.address]) for one in found]
        return [Wanted(one.name, x, x, one.variable, cotangent=True) for one, x in every]

    def _outside(self, value: Value) -> Value:
        """The same value nearer to the outside: the operand that is an input of a nested jaxpr.

        So a value that is only handed to a loop or a call is read once.
        """
        while value.place.kind == "in" and value.steps:
            step, k = value.steps[-1], value.place.number
            nested, trips = step.nested, step.nested.trips
            same = trips == 1 and not (nested.conditional or nested.idle or step.is_loop)
            fixed = isinstance(trips, int) and trips > 0 and nested.in_roles[k] == "const"
            operand = nested.operands[k]
            if operand is None or not (same or fixed) or step.eqn.primitive is shard_map_p:
                break
            atom = step.eqn.invars[operand]
            known = None if is_literal(atom) else self._home(step.home).get(atom)
            if known is None or _shape(atom.aval) != _shape(value.aval):
                break
            local, kind, number, out = known
            place = Located(value.steps[:-1], step.home, kind, number, out)
            eqn = open_jaxpr(step.home).eqns[number] if kind == "eqn" else None
            value = Value(home_of(place.steps) / local, atom.aval, eqn, place.steps, place)
        return value

    def _home(self, stored: StoredJaxpr) -> dict[JaxprVar, _Slot]:
        """Where the values of a jaxpr are made."""
        inner = open_jaxpr(stored)
        if id(inner) not in self._homes:
            at: dict[JaxprVar, _Slot] = {}
            for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
                at.update((one, (f"{kind}{k}", kind, k, None)) for k, one in enumerate(variables))
            for position, (local, eqn) in enumerate(numbered(inner)):
                if is_tag(eqn):
                    continue
                for k, one in enumerate(eqn.outvars):
                    at[one] = f"{local}.{k}", "eqn", position, k
            self._homes[id(inner)] = inner, at
        return self._homes[id(inner)][1]


def _of_tag(value: Value, site: Site) -> Wanted:
    """A leaf of the token of a tag."""
    name = str(site.name) if site.name is not None else site.address
    path, _ = list(named_leaves("", site.avals))[value.place.out or 0]
    return Wanted(name, value, value, path=path)


def _shape(aval: Any) -> tuple[int, ...]:
    return aval.shape
