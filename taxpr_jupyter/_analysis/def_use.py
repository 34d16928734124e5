"""The def-use graph of one jaxpr: where its values are made and used.

Everything that follows values within a jaxpr uses this graph. `dataflow` crosses the borders of
nested jaxprs and connects the places of an index; a `Scope` of a drawing connects drawn elements.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from taxpr import introspect

# Where a value comes from: the position of an equation, or one of these, and a number.
INPUT, CONST, LITERAL = -1, -2, -3
Source = tuple[int, int]


class DefUse:
    """The graph of one jaxpr. Each part is computed when it is first needed.

    Args:
        jaxpr: An open jaxpr or a program: it has eqns, invars, outvars and constvars.
        wanted: Gives the numbers of the outputs that are used where the jaxpr is nested; None if
            all are.
    """

    def __init__(self, jaxpr: Any, wanted: Callable[[], Collection[int]] | None = None) -> None:
        self.jaxpr = jaxpr
        self.eqns = jaxpr.eqns
        self._wanted = wanted

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
        """As `used`, but looking through tags: users of a tagged value are its users."""
        if not any(map(introspect.is_tag, self.eqns)):
            return self.used
        return {var: sorted(self.users(var)) for var in self.used}

    @property
    def is_unfinished(self) -> bool:
        """Whether an error ended the tracing in it."""
        return bool(self.eqns) and introspect.is_unfinished(self.eqns[-1])

    @functools.cached_property
    def needed(self) -> frozenset[Any]:
        """The variables that used outputs and effects depend on.

        If tracing failed, later uses are unknown: then these are all variables that something
        reads.
        """
        if self.is_unfinished:
            return frozenset(self.used)
        outs = range(len(self.jaxpr.outvars)) if self._wanted is None else self._wanted()
        return frozenset(self.needed_for(outs))

    def needed_for(self, outs: Iterable[int]) -> set[Any]:
        """The variables that these outputs, and effects, depend on."""
        atoms = (self.jaxpr.outvars[j] for j in outs)
        needed = {atom for atom in atoms if not introspect.is_literal(atom)}
        for eqn in reversed(self.eqns):
            # A tag hands a value on; one whose result nothing takes is there to be looked at.
            watched = introspect.is_tag(eqn) and self.used.keys().isdisjoint(eqn.outvars)
            if watched or eqn.effects or not eqn.outvars or not needed.isdisjoint(eqn.outvars):
                needed.update(atom for atom in eqn.invars if not introspect.is_literal(atom))
        return needed

    def wanted_of(self, at: int, nested: introspect.Nested) -> set[int]:
        """The numbers of the outputs of a nested jaxpr that are used, now or in a later iteration.

        Args:
            at: The position of its equation.
            nested: The nested jaxpr.
        """
        eqn = self.eqns[at]
        read: set[int | None] = set()  # by the condition of a while
        for one in introspect.nested_jaxprs(eqn) if nested.back else ():
            if one.label != nested.label:
                needed = DefUse(one.jaxpr).needed
                ends = zip(one.jaxpr.invars, one.operands, strict=True)
                read |= {k for var, k in ends if var in needed}
        wanted = {
            j for j, k in enumerate(nested.results) if k is None or eqn.outvars[k] in self.needed
        }
        wanted |= {j for j, i in nested.back if nested.operands[i] in read}
        inside, before = DefUse(nested.jaxpr), -1
        while nested.back and len(wanted) > before:  # until no iteration needs more
            before = len(wanted)
            needed = inside.needed_for(wanted)
            wanted |= {j for j, i in nested.back if nested.jaxpr.invars[i] in needed}
        return wanted

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
