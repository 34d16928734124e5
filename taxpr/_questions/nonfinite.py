"""Where what is not finite in a program begins, and what of it the results have.

What is known of a value are bits for each iteration, device and element: whether it is NaN, +inf,
-inf. A first walk, in the order of execution, finds where they begin, and a second one, from the
results back, what they have theirs from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from typing import Any

import numpy

from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._questions.begins import Begins, Order
from taxpr._questions.bits import INF, NAN, Seen, Values
from taxpr._questions.reaches import Reaches

np: Any = numpy  # which leaves types of arrays unknown


@dataclasses.dataclass(eq=False)
class Origin:
    """A value that is not finite while nothing that it is made of is.

    Attributes:
        address: The value.
        eqn: What makes it; None for an argument or a constant.
        index: The iterations and devices, by the names of the axes.
        elements: What is not finite of each element, as bits; one for all, where it is not known.
        operands: The addresses of the operands; None for a literal, which stands beside.
    """

    address: str
    eqn: JaxprEqn | None
    index: dict[str, int]
    elements: Any
    operands: tuple[tuple[str | None, Any], ...] = ()

    @property
    def bits(self) -> int:
        """What is not finite."""
        return int(np.bitwise_or.reduce(self.elements, None))


class Nonfinite:
    """What is not finite in a program.

    Args:
        jaxpr: The program.
        seen: What is known of its values, by their addresses.
        fine: Whether to tell the elements of values apart, where they were kept.
        closed: The addresses of equations whose inside was not seen.

    Attributes:
        origins: Where what the results have begins, in the order of execution.
        hidden: The addresses of what begins and reaches no result.
        places: How often these begin, in all values and iterations.
        guessed: The names of primitives of which it was guessed which elements depend on which.
    """

    def __init__(
        self,
        jaxpr: StoredJaxpr,
        seen: Mapping[str, Seen],
        fine: bool,
        closed: Container[str] = frozenset(),
    ) -> None:
        self._values = Values(seen, fine, closed)
        begins = Begins(jaxpr, self._values)
        self._made = begins.made
        # That a test of a NaN gave False is no NaN.
        results = [None if one is None else one & np.uint8(NAN | INF) for one in begins.results]
        self._marked = Reaches(jaxpr, self._values, begins.bad, results).marked
        self.guessed = self._values.guessed
        self.places = 0
        found = sorted(
            (one for one in map(self._origin, self._made) if one), key=lambda one: one[0]
        )
        self.origins = [origin for _, origin in found]
        reached = {origin.address for origin in self.origins}
        self.hidden = [address for address in self._made if address not in reached]

    def _origin(self, address: str) -> tuple[tuple[int, ...], Origin] | None:
        """Where of the program what is made there and marked begins."""
        made = self._made[address]
        mark = self._marked.get(address)
        if mark is None:
            return None
        found = np.where(mark, made.bits, 0)
        n, names = len(made.level), [name for name, _ in made.level]
        places = np.argwhere(found.any(tuple(range(n, found.ndim))))
        if not len(places):
            return None
        each = [dict(zip(names, map(int, at), strict=True)) for at in places]
        key, k = min((_execution(made.order, index), k) for k, index in enumerate(each))
        seen = self._values.axes(address)
        index = {name: at for name, at in each[k].items() if name in seen}
        elements = found[tuple(places[k])]
        self.places += len(places)
        return key, Origin(address, made.eqn, index, elements, made.operands)


def _execution(order: Order, index: Mapping[str, int]) -> tuple[int, ...]:
    """When a value is made: a number for each step down, and for each iteration."""
    key: list[int] = []
    for one in order:
        if isinstance(one, int):
            key.append(one)
        else:
            axis, backwards = one
            at = index.get(axis, 0)
            key.append(at if backwards is None else backwards - 1 - at)
    return tuple(key)
