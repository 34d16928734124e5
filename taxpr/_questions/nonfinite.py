"""Find where non-finite values of a program begin, and which of them reach the results.

A value has bits for each iteration, device and element: whether it is NaN, +inf, -inf. A first
walk, in the order of execution, finds where they begin. A second walk goes from the results back to
the origins of their bits.
"""

import dataclasses
import math
from collections.abc import Container, Mapping
from typing import Any

from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._questions.begins import Begins, Order
from taxpr._questions.bits import INF, NAN, Seen, Values
from taxpr._questions.reaches import Reaches
from taxpr._untyped import np


@dataclasses.dataclass(eq=False)
class Origin:
    """A non-finite value whose operands are finite.

    Attributes:
        address: The value.
        eqn: The equation that makes it; None for an argument or a constant.
        index: The first iteration and device, by the names of the axes.
        elements: The bits of each element then; one for all, if they are not known.
        operands: The addresses of the operands; None for a literal.
        times: How often it begins, of how often the value is computed, in loops and on devices.
        share: How many elements these are, of all; one for all each time, if it is not known.
        reached: How many of these times reach a result.
        tested: Whether a comparison, or a test such as ``isfinite``, sees it.
    """

    address: str
    eqn: JaxprEqn | None
    index: dict[str, int]
    elements: Any
    operands: tuple[tuple[str | None, Any], ...] = ()
    times: tuple[int, int] = (1, 1)
    share: tuple[int, int] = (1, 1)
    reached: int = 1
    tested: bool = False

    @property
    def bits(self) -> int:
        """The elements that are not finite, as bits."""
        return _bits(self.elements)


class Nonfinite:
    """The non-finite values of a program, their origins, and their effects.

    Args:
        jaxpr: The program.
        seen: The bits of its values, by their addresses.
        fine: Whether to tell the elements of values apart, if they were kept.
        closed: The addresses of equations whose inside was not seen.

    Attributes:
        origins: The origins of the results' bits, in the order of execution.
        hidden: The addresses of origins that reach no result.
        places: The number of origins, in all values and iterations.
        guessed: The names of primitives whose dependencies of elements were guessed.
        results: The bits of the results that are not intended.
        decided: By address the bits that a test of such a value made non-finite, for a result.
    """

    def __init__(
        self,
        jaxpr: StoredJaxpr,
        seen: Mapping[str, Seen],
        fine: bool,
        closed: Container[str] = frozenset(),
    ) -> None:
        self._jaxpr, self._values = jaxpr, Values(seen, fine, closed)
        self._begins = Begins(jaxpr, self._values)
        self._made = self._begins.made
        # That a test of a NaN gave False is no NaN.
        results = [None if x is None else x & np.uint8(NAN | INF) for x in self._begins.results]
        reaches = Reaches(jaxpr, self._values, self._begins.bad, results, {})
        self._marked = reaches.marked
        self.decided = {one: _bits(self._begins.bad[one]) for one in reaches.decided}
        self.results = 0
        for one in results:
            self.results |= _bits(one)
        self.guessed = set(self._values.guessed)
        reached = {address: self._having(address, self._marked) for address in self._made}
        self.origins = self._in_order(reached, reached, set())
        self.places = sum(one.times[0] for one in self.origins)
        reaching = {origin.address for origin in self.origins}
        self.hidden = [address for address in self._made if address not in reaching]

    def everywhere(self, mapped: Mapping[str, tuple[int, ...]]) -> list[Origin]:
        """Where anything begins, whether or not a result has it, in the order of execution.

        Args:
            mapped: The axes that `jax.vmap` has put into values, by address.
        """
        begins, found = self._begins, dict[str, Any]()
        for address, one in self._made.items():
            found[address] = self._values.in_batch(one.bits, one.level, mapped.get(address, ()))
        none = [None] * len(begins.results)
        seen = Reaches(self._jaxpr, self._values, begins.bad, none, begins.tests)
        tested = {address for address in found if _any(self._having(address, seen.marked))}
        reached = {address: self._having(address, self._marked) for address in found}
        return self._in_order(found, reached, tested)

    def _having(self, address: str, marked: Mapping[str, Any]) -> Any:
        """The elements that begin at an address, of those that are marked there."""
        mark = marked.get(address)
        return None if mark is None else np.where(mark, self._made[address].bits, np.uint8(0))

    def _in_order(
        self, found: Mapping[str, Any], reached: Mapping[str, Any], tested: set[str]
    ) -> list[Origin]:
        origins = [
            origin
            for address, bits in found.items()
            if bits is not None and (origin := self._origin(address, bits, reached[address]))
        ]
        for _, origin in origins:
            origin.tested = origin.address in tested
        return [origin for _, origin in sorted(origins, key=lambda one: one[0])]

    def _origin(
        self, address: str, found: Any, reached: Any
    ) -> tuple[tuple[int, ...], Origin] | None:
        """Where of the program what is found at an address begins first, and how often."""
        made = self._made[address]
        n, names = len(made.level), [name for name, _ in made.level]
        places = np.argwhere(found.any(tuple(range(n, found.ndim))))
        if not len(places):
            return None
        each = [dict(zip(names, map(int, at), strict=True)) for at in places]
        key, k = min((_execution(made.order, index), k) for k, index in enumerate(each))
        seen = self._values.axes(address)
        index = {name: at for name, at in each[k].items() if name in seen}
        elements = found[tuple(places[k])]
        times = self._values.times(address)
        return key, Origin(
            address,
            made.eqn,
            index,
            elements,
            made.operands,
            times=(len(places), times),
            share=(int(np.count_nonzero(found)), times * math.prod(found.shape[n:])),
            reached=_times(reached, n),
        )


def _bits(found: Any) -> int:
    return 0 if found is None else int(np.bitwise_or.reduce(found, None))


def _any(found: Any) -> bool:
    return found is not None and bool(found.any())


def _times(found: Any, lead: int) -> int:
    """In how many places of the leading axes there is something."""
    return 0 if found is None else int(np.count_nonzero(found.any(tuple(range(lead, found.ndim)))))


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
