"""Program slices: the equations that a value depends on, or that depend on it.

Slices cross the borders of nested jaxprs. If `dataflow` does not know which operands of an equation
matter, all do, and `Slice.unsure` names the equation. Values that host callbacks pass to each other
are not seen.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from taxpr import Address
from taxpr_jupyter._analysis.dataflow import Dataflow, Edges
from taxpr_jupyter._analysis.index import ElementPlace, Index


@dataclass(frozen=True, eq=False)
class Slice:
    """A part of a program: everything upstream or downstream of some place, or between two.

    Attributes:
        addresses: Its equations, and its inputs, constants and outputs of the program, in program
            order. An equation is in the slice if anything in its nested jaxprs is.
        unsure: Its equations whose results may depend on fewer operands than the slice assumes. So
            the slice may be too large, but never too small.
    """

    addresses: tuple[Address, ...]
    unsure: tuple[Address, ...]
    _index: Index = field(repr=False)
    _before: np.ndarray = field(repr=False)  # for each number, how many smaller ones are in it

    def touches(self, address: str) -> bool:
        """Whether any part of a place, value, nested jaxpr or row is in the slice."""
        start, stop = self._index.span(address)
        return bool(self._before[stop] > self._before[start])

    def places(self) -> frozenset[Address]:
        """Everything in it, also the inputs, constants and outputs of nested jaxprs."""
        return frozenset(place.address for place in _touched(self._index, self._before))

    def __len__(self) -> int:
        return len(self.addresses)


class Slices:
    """Finds slices of one program, whose dataflow graph it builds once.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> program = taxpr.trace(lambda x, y: jnp.sin(x) * jnp.cos(y) + x)(1.0, 2.0)
        >>> slices = Slices(Index(program))
        >>> slices.upstream("1:cos").addresses
        ('in1', '1:cos')
        >>> slices.downstream("in1").addresses
        ('in1', '1:cos', '2:mul', '3:add', 'out0')
        >>> slices.between("0:sin", "2:mul").addresses
        ('0:sin', '2:mul')
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._flow = Dataflow(index)

    def downstream(self, address: str) -> Slice:
        """The forward slice: everything that depends on a value, equation, nested jaxpr or group.

        Raises:
            PanelError: There is no such place.
        """
        return self._slice(self._reached(address, self._flow.forth))

    def upstream(self, address: str) -> Slice:
        """The backward slice: everything that a value, equation, nested jaxpr or group depends on.

        Raises:
            PanelError: There is no such place.
        """
        return self._slice(self._reached(address, self._flow.back))

    def between(self, start: str, stop: str) -> Slice:
        """All paths from one place to another; empty without one.

        Raises:
            PanelError: There is no such place.
        """
        after = self._reached(start, self._flow.forth)
        return self._slice(after & self._reached(stop, self._flow.back))

    def of(self, addresses: Iterable[str]) -> Slice:
        """Some places with everything in them.

        Raises:
            PanelError: There is no such place.
        """
        reached = np.zeros(self._index.size, bool)
        for address in addresses:
            start, stop = self._index.span(address)
            reached[start:stop] = True
        return self._slice(reached)

    def _reached(self, address: str, edges: Edges) -> np.ndarray:
        starts, neighbours = edges
        seen = bytearray(self._index.size)
        todo = list(range(*self._index.span(address)))
        for node in todo:
            seen[node] = 1
        while todo:
            node = todo.pop()
            for other in neighbours[starts[node] : starts[node + 1]]:
                if not seen[other]:
                    seen[other] = 1
                    todo.append(other)
        return np.frombuffer(seen, bool)

    def _slice(self, reached: np.ndarray) -> Slice:
        before = np.concatenate(([0], np.cumsum(reached)))
        addresses = tuple(
            place.address
            for place in _touched(self._index, before)
            if place.eqn is not None or not place.home.address
        )
        unsure = tuple(place.address for place in self._flow.unsure if reached[place.number])
        return Slice(addresses, unsure, self._index, before)


def _touched(index: Index, before: np.ndarray) -> Iterator[ElementPlace]:
    """The places that are in a slice, at least in part."""
    starts, stops = index.spans
    return itertools.compress(index.places, before[stops] > before[starts])
