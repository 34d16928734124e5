"""The def-use graph of one jaxpr: where its values are made and used.

Everything that follows values within a jaxpr uses this graph. `dataflow` crosses the borders of
nested jaxprs and connects the places of an index; a `Scope` of a drawing connects drawn elements.
"""

import functools
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from taxpr import introspect

# Where a value comes from: the position of an equation, or one of these, and a number.
INPUT, CONST, LITERAL = -1, -2, -3
Source = tuple[int, int]


class DefUse:
    """The graph of one jaxpr. Each part is computed when it is first needed.

    Args:
        jaxpr: An open jaxpr or a program: it has eqns, invars, outvars and constvars.
    """

    def __init__(self, jaxpr: Any) -> None:
        self.jaxpr = jaxpr
        self.eqns = jaxpr.eqns

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """The position of each equation, by the last part of its address."""
        return {local: i for i, (local, _) in enumerate(introspect.numbered(self.jaxpr))}

    @functools.cached_property
    def made(self) -> dict[Any, Source]:
        """The source of each variable."""
        made: dict[Any, Source] = {var: (INPUT, k) for k, var in enumerate(self.jaxpr.invars)}
        made |= {var: (CONST, k) for k, var in enumerate(self.jaxpr.constvars)}
        for i, eqn in enumerate(self.eqns):
            for k, var in enumerate(eqn.outvars):
                made[var] = i, k
        return made

    @functools.cached_property
    def used(self) -> dict[Any, list[int]]:
        """For each variable that is used, the positions of the equations that take it, in order.

        An output of the jaxpr is used at the position after the last equation.
        """
        used: dict[Any, list[int]] = {}
        for i, eqn in enumerate((*self.eqns, None)):
            for atom in eqn.invars if eqn is not None else self.jaxpr.outvars:
                if not introspect.is_literal(atom):
                    used.setdefault(atom, []).append(i)
        return used

    @functools.cached_property
    def taken(self) -> dict[Any, list[int]]:
        """As `used`, but tags hand on what they take: users of a tagged value are its users."""
        if not any(map(introspect.is_tag, self.eqns)):
            return self.used
        return {var: sorted(self.users(var)) for var in self.used}

    def sources(self, atoms: Iterable[Any]) -> tuple[Source, ...]:
        """The sources of some operands or outputs."""
        return tuple([self._source(atom) for atom in atoms])

    def behind(self, atom: introspect.Atom) -> tuple[Source, tuple[int, ...]]:
        """The source of a value before any tags, and the positions of these tags, last first."""
        source, tags = self._source(atom), ()
        while source[0] >= 0 and introspect.is_tag(self.eqns[source[0]]):
            tags = (*tags, source[0])
            source = self._source(self.eqns[source[0]].invars[source[1]])
        return source, tags

    def versions(self, var: introspect.Var) -> Iterator[Any]:
        """A variable, those before its tags, and its tagged versions."""
        first = var
        for tag in self.behind(var)[1]:
            eqn = self.eqns[tag]
            before = eqn.invars[[out is first for out in eqn.outvars].index(True)]
            first = first if introspect.is_literal(before) else before
        todo = [first]
        for one in todo:  # which grows
            yield one
            for i in self.used.get(one, ()):
                if i < len(self.eqns) and introspect.is_tag(self.eqns[i]):
                    pairs = zip(self.eqns[i].invars, self.eqns[i].outvars, strict=True)
                    todo += [tagged for atom, tagged in pairs if atom is one]

    def users(self, var: introspect.Var) -> Iterator[int]:
        """The positions of the equations that take a value, also its tagged versions."""
        for i in self.used.get(var, ()):
            if i == len(self.eqns) or not introspect.is_tag(self.eqns[i]):
                yield i
                continue
            for atom, tagged in zip(self.eqns[i].invars, self.eqns[i].outvars, strict=True):
                if atom is var:
                    yield from self.users(tagged)

    def touching(self, wanted: Collection[Any]) -> list[int]:
        """The positions of the equations that make or take one of these variables, in order."""
        last = len(self.eqns)
        found = {self.made[var][0] for var in wanted}
        found.update(i for var in wanted for i in self.used.get(var, ()) if i < last)
        return sorted(i for i in found if i >= 0)

    def _source(self, atom: introspect.Atom) -> Source:
        return (LITERAL, self.literal(atom)) if introspect.is_literal(atom) else self.made[atom]

    def literal(self, atom: introspect.Atom) -> int:
        """The number of a literal. A subclass may tell literals apart; here all have the same."""
        del atom
        return 0
