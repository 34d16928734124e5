"""Count the equations in a part of a program."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from taxpr import introspect

_FIRST = 8  # loops that a size has one by one


class Loop(NamedTuple):
    """A loop in a part of a program.

    Attributes:
        eqn: Its equation.
        loops: The number of loops in it that are in no other one.
        first: The first of these.
    """

    eqn: introspect.JaxprEqn
    loops: int = 0
    first: "tuple[Loop, ...]" = ()


class Size(NamedTuple):
    """How large a part of a program is, nested jaxprs included.

    Attributes:
        eqns: The number of equations without tags.
        tags: The number of tags.
        others: The number of nested jaxprs, and of inputs, constants and outputs of jaxprs.
        loops: The number of loops that are in no other loop of it.
        first: The first of these.
    """

    eqns: int = 0
    tags: int = 0
    others: int = 0
    loops: int = 0
    first: tuple[Loop, ...] = ()

    @property
    def total(self) -> int:
        """The number of equations with tags."""
        return self.eqns + self.tags

    def without(self, part: "Size") -> "Size":
        """The size of the rest of it, without a part that is inside."""
        return self._replace(eqns=self.eqns - part.eqns, tags=self.tags - part.tags)


NOTHING, _EQN, _TAG = Size(), Size(eqns=1), Size(tags=1)


class Sizes:
    """Counts equations, each jaxpr and equation once."""

    def __init__(self) -> None:
        self._known: introspect.ByIdentity[Size] = introspect.ByIdentity()

    def of_jaxpr(self, jaxpr: Any) -> Size:
        """The size of a jaxpr."""
        return self._known.of(jaxpr, self._count_jaxpr)

    def of_eqn(self, eqn: introspect.JaxprEqn) -> Size:
        """The size of an equation, itself included."""
        return self._known.of(eqn, self._count_eqn)

    def inside(self, eqn: introspect.JaxprEqn) -> Size:
        """The size of its nested jaxprs."""
        nested = introspect.nested_jaxprs(eqn)
        if not nested:
            return NOTHING
        return total([Size(others=len(nested)), *(self.of_jaxpr(one.jaxpr) for one in nested)])

    def of_eqns(self, eqns: Iterable[Any]) -> Size:
        """The size of several equations."""
        every = list(map(self.of_eqn, eqns))
        others = [size for size in every if size is not _EQN]
        return total([Size(eqns=len(every) - len(others)), *others])

    def _count_jaxpr(self, jaxpr: Any) -> Size:
        ends = len(jaxpr.constvars) + len(jaxpr.invars) + len(jaxpr.outvars)
        return total([Size(others=ends), self.of_eqns(jaxpr.eqns)])

    def _count_eqn(self, eqn: introspect.JaxprEqn) -> Size:
        inside, size = self.inside(eqn), _TAG if introspect.is_tag(eqn) else _EQN
        if inside is NOTHING:
            return size
        size = total([size, inside])
        if not is_loop(eqn):
            return size
        return size._replace(loops=1, first=(Loop(eqn, inside.loops, inside.first),))


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    eqns, tags, others, loops, firsts = zip(*sizes, strict=True)
    first = itertools.islice(itertools.chain.from_iterable(firsts), _FIRST)
    return Size(sum(eqns), sum(tags), sum(others), sum(loops), tuple(first))


def is_loop(eqn: introspect.JaxprEqn) -> bool:
    """Whether an equation is a scan or a while loop, or another that says so of its jaxprs."""
    return any(nested.back or "length" in nested.facts for nested in introspect.nested_jaxprs(eqn))
