"""How many equations there are in a part of a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import taxpr


class Size(NamedTuple):
    """How much there is in a part of a program, nested jaxprs included.

    Attributes:
        eqns: How many equations, tags left out.
        tags: How many tags.
        others: How many nested jaxprs, and inputs, constants and outputs of jaxprs.
    """

    eqns: int = 0
    tags: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        """How many equations, tags included."""
        return self.eqns + self.tags


_NOTHING, _EQN, _TAG = Size(), Size(eqns=1), Size(tags=1)


class Sizes:
    """Counts equations; each jaxpr and equation is looked at once."""

    def __init__(self) -> None:
        # By id; what was counted is kept, so that its id stays its own.
        self._known: dict[int, tuple[Any, Size]] = {}

    def of_jaxpr(self, jaxpr: Any) -> Size:
        """The size of a jaxpr."""
        known = self._known.get(id(jaxpr))
        if known is None:
            ends = len(jaxpr.constvars) + len(jaxpr.invars) + len(jaxpr.outvars)
            size = total([Size(others=ends), *map(self.of_eqn, jaxpr.eqns)])
            known = self._known[id(jaxpr)] = jaxpr, size
        return known[1]

    def of_eqn(self, eqn: Any) -> Size:
        """The size of an equation, itself included."""
        known = self._known.get(id(eqn))
        if known is None:
            inside, size = self.inside(eqn), _TAG if taxpr.is_tag(eqn) else _EQN
            size = size if inside is _NOTHING else total([size, inside])
            known = self._known[id(eqn)] = eqn, size
        return known[1]

    def inside(self, eqn: Any) -> Size:
        """The size of its nested jaxprs."""
        nested = taxpr.nested_jaxprs(eqn)
        if not nested:
            return _NOTHING
        return total([Size(others=len(nested)), *(self.of_jaxpr(one.jaxpr) for one in nested)])


def total(sizes: Iterable[Size]) -> Size:
    """Several sizes together."""
    eqns, tags, others = zip(*sizes, strict=True)
    return Size(sum(eqns), sum(tags), sum(others))
