"""Count the equations in a part of a program."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._analysis.by_identity import ByIdentity


class Size(NamedTuple):
    """What a part of a program consists of, nested jaxprs included.

    Attributes:
        eqns: The number of equations without tags.
        tags: The number of tags.
        others: The number of nested jaxprs, and of inputs, constants and outputs of jaxprs.
    """

    eqns: int = 0
    tags: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        """The number of equations with tags."""
        return self.eqns + self.tags


_NOTHING, _EQN, _TAG = Size(), Size(eqns=1), Size(tags=1)


class Sizes:
    """Counts equations, each jaxpr and equation once."""

    def __init__(self) -> None:
        self._known: ByIdentity[Size] = ByIdentity()

    def of_jaxpr(self, jaxpr: Any) -> Size:
        """The size of a jaxpr."""
        return self._known.of(jaxpr, self._count_jaxpr)

    def of_eqn(self, eqn: Any) -> Size:
        """The size of an equation, itself included."""
        return self._known.of(eqn, self._count_eqn)

    def inside(self, eqn: Any) -> Size:
        """The size of its nested jaxprs."""
        nested = taxpr.nested_jaxprs(eqn)
        if not nested:
            return _NOTHING
        return total([Size(others=len(nested)), *(self.of_jaxpr(one.jaxpr) for one in nested)])

    def _count_jaxpr(self, jaxpr: Any) -> Size:
        ends = len(jaxpr.constvars) + len(jaxpr.invars) + len(jaxpr.outvars)
        return total([Size(others=ends), *map(self.of_eqn, jaxpr.eqns)])

    def _count_eqn(self, eqn: Any) -> Size:
        inside, size = self.inside(eqn), _TAG if taxpr.is_tag(eqn) else _EQN
        return size if inside is _NOTHING else total([size, inside])


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    eqns, tags, others = zip(*sizes, strict=True)
    return Size(sum(eqns), sum(tags), sum(others))
