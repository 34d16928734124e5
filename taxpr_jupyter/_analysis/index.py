"""`Index`: all places of a program: equations, nested jaxprs, inputs, constants, outputs, values.

Everything that needs all places uses this index. `taxpr.find_values` of the core walks by itself,
and in another order: that in which values are made, inner ones before the result.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import taxpr
from taxpr_jupyter._analysis.graph import Graph
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._text.elements import Row, place_of, row_of


@dataclasses.dataclass(eq=False)
class Home:
    """One jaxpr of a program.

    Attributes:
        address: The address of a nested jaxpr such as ``3:scan/body``; empty at the top.
        jaxpr: Something with eqns, invars, outvars and constvars.
        nested: What the equation around it says of it; None at the top.
        steps: The equations around it, outermost first.
        refused: Why no injector can work in there; None where it can.
        start: The number of the first place in it.
        stop: The number behind all that is in it.
    """

    address: taxpr.Address
    jaxpr: Any
    nested: taxpr.Nested | None
    steps: tuple[Place, ...]
    refused: str | None
    start: int
    stop: int = 0

    @property
    def title(self) -> str:
        """Its name for people; empty at the top."""
        return self.nested.title if self.nested else ""

    @property
    def consts(self) -> range:
        """The numbers of its constants."""
        return range(self.start, self.start + len(self.jaxpr.constvars))

    @property
    def ins(self) -> range:
        """The numbers of its inputs."""
        return range(self.consts.stop, self.consts.stop + len(self.jaxpr.invars))

    @property
    def outs(self) -> range:
        """The numbers of its outputs."""
        return range(self.stop - len(self.jaxpr.outvars), self.stop)

    @functools.cached_property
    def graph(self) -> Graph:
        """Where its values are made and used."""
        return Graph(self.jaxpr)


@dataclasses.dataclass(eq=False, slots=True)
class Place:
    """An equation, input, constant or output; also what selectors of taxpr choose from.

    Attributes:
        local: Its own part of its address.
        home: The jaxpr that holds it.
        eqn: The equation; None for all else.
        made: The variables that it makes, or of an input or constant is; none for an output.
        number: Its number in the order of the program. The results of an equation have the next
            ones, then comes what is in its jaxprs.
        stop: The number behind all of that.
    """

    local: str
    home: Home
    eqn: Any
    made: Sequence[Any]
    number: int
    stop: int

    @property
    def address(self) -> taxpr.Address:
        """Its address, which is made when it is asked for: of most places none is needed."""
        return self.home.address / self.local

    @property
    def steps(self) -> Any:
        """The equations around it, outermost first."""
        return self.home.steps

    @property
    def results(self) -> range:
        """The numbers of an equation's results."""
        return range(self.number + 1, self.number + 1 + len(self.made))

    @property
    def is_leaf(self) -> bool:
        """Whether an equation has nothing in it."""
        return self.stop == self.results.stop


class Index:
    """The places of one program.

    Args:
        program: The program.

    Attributes:
        program: The same.
        homes: The jaxprs by address, the outermost first.
        places: The places in program order: of a jaxpr its constants, inputs, equations, each
            with what is in it, and outputs.
        size: How many numbers there are.
    """

    def __init__(self, program: taxpr.Program) -> None:
        self.program = program
        self.homes: dict[str, Home] = {}
        self.places: list[Place] = []
        self.size = 0
        self._add(Home(taxpr.Address(), program, None, (), None, 0))

    def _add(self, home: Home) -> None:
        self.homes[home.address] = home
        self._add_ends(home, "const", home.jaxpr.constvars)
        self._add_ends(home, "in", home.jaxpr.invars)
        for local, eqn in taxpr.numbered(home.jaxpr):
            number, self.size = self.size, self.size + 1 + len(eqn.outvars)
            place = Place(local, home, eqn, eqn.outvars, number, self.size)
            self.places.append(place)
            for nested in taxpr.nested_jaxprs(eqn):
                address, steps = place.address / nested.label, (*home.steps, place)
                refused = home.refused or _refusal(eqn, nested)
                self._add(Home(address, nested.jaxpr, nested, steps, refused, self.size))
                place.stop = self.size
        self._add_ends(home, "out", home.jaxpr.outvars)
        home.stop = self.size

    def _add_ends(self, home: Home, word: str, atoms: Sequence[Any]) -> None:
        for k, atom in enumerate(atoms):
            number, self.size = self.size, self.size + 1
            made = () if word == "out" else (atom,)
            self.places.append(Place(f"{word}{k}", home, None, made, number, self.size))

    @functools.cached_property
    def at(self) -> dict[str, Place]:
        """The places by address."""
        return {place.address: place for place in self.places}

    @functools.cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the places begin and end, by their numbers."""
        starts = np.fromiter((place.number for place in self.places), int, len(self.places))
        return starts, np.fromiter((place.stop for place in self.places), int, len(self.places))

    def eqns(self) -> Iterator[Place]:
        """The equations, in program order."""
        return (place for place in self.places if place.eqn is not None)

    def eqn(self, address: str) -> Place | None:
        """The equation at an address; None where there is none."""
        place = self.at.get(address)
        return place if place is not None and place.eqn is not None else None

    def span(self, address: str) -> tuple[int, int]:
        """The numbers that a place, value, nested jaxpr or row has with all in it.

        Raises:
            PanelError: There is no such place.
        """
        value, row = taxpr.Address(address), row_of(address)
        span = self._row_span(row) if row else self._span(value) or self._span(place_of(address))
        if span is None:
            raise PanelError(f"There is no {address!r} in the program")
        return span

    def _span(self, address: taxpr.Address) -> tuple[int, int] | None:
        known = self.at.get(address) or (self.homes.get(address) if address else None)
        if known is not None:
            return known.number if isinstance(known, Place) else known.start, known.stop
        owner = self.eqn(address.eqn)
        if owner is None or address.result is None or address.result >= len(owner.made):
            return None
        number = owner.results[address.result]
        return number, number + 1

    def _row_span(self, row: Row) -> tuple[int, int] | None:
        known = self._rows.get(row.home, {})
        first, last = (known.get(f"{row.word}{end}") for end in (row.first, row.last))
        return (first[0], last[1]) if first and last else None

    @functools.cached_property
    def _rows(self) -> dict[str, dict[str, tuple[int, int]]]:
        """In each jaxpr the spans of its places, by the numbers with which rows name them."""
        rows: dict[str, dict[str, tuple[int, int]]] = {address: {} for address in self.homes}
        units: dict[str, str] = {}
        for place in self.places:
            home, short = place.home.address, taxpr.Address(place.local).short
            rows[home][short] = place.number, place.stop
            if place.eqn is None:
                continue
            if not taxpr.is_tag(place.eqn):
                units[home] = short
            elif unit := units.get(home):  # tags belong to the equation before them
                rows[home][unit] = rows[home][unit][0], place.stop
        return rows

    def values(self, address: str) -> list[tuple[taxpr.Address, Any]]:
        """The values that an address stands for, with their variables.

        Those of an equation are its results, those of a nested jaxpr its inputs.
        """
        value, home = taxpr.Address(address), self.homes.get(address)
        if home is not None:
            ends = ("in", home.jaxpr.invars), ("const", home.jaxpr.constvars)
            return [(value / f"{word}{k}", var) for word, own in ends for k, var in enumerate(own)]
        place = self.at.get(value.eqn)
        if place is None or place.eqn is None:
            return [(value, var) for var in place.made] if place else []
        results = [(place.address.value(k), var) for k, var in enumerate(place.made)]
        return results if value.result is None else results[value.result :][:1]

    def variable(self, address: str) -> Any | None:
        """The variable of a value address; None where there is no such value."""
        return dict(self.values(address)).get(taxpr.Address(address))

    def home_of(self, address: str) -> Home | None:
        """The jaxpr in which an equation, value, input or output stands."""
        value = taxpr.Address(address)
        place = self.at.get(value.eqn)
        return place.home if place is not None else self.homes.get(value.home)

    def one_value(self, address: str, otherwise: str = "") -> str:
        """The address of the value that ``address`` names.

        Args:
            address: Of the value, or of an equation with one result.
            otherwise: What to say besides where it names none.

        Raises:
            PanelError: It names none, or several.
        """
        if address not in self.homes:
            values = self.values(address)
            if len(values) == 1:
                return values[0][0]
            if values:
                names = ", ".join(value for value, _ in values)
                raise PanelError(f"{address} has {len(values)} results: say which, of {names}")
            if self.eqn(address) is not None:
                raise PanelError(f"{address} has no results, so there is no value to tag")
        raise PanelError(". ".join(filter(None, [self.unknown(address), otherwise])))

    def unknown(self, address: str) -> str:
        """A message for an address that names no value."""
        known = [place.address for place in self.places if place.made or place.eqn is not None]
        close = difflib.get_close_matches(address, known, n=3, cutoff=0.4)
        near = f"; near it are {', '.join(close)}" if close else ""
        return f"There is no value {address!r} in the program{near}"


def _refusal(eqn: Any, nested: taxpr.Nested) -> str | None:
    reason = taxpr.injectable(eqn, nested)
    return None if reason is None else f"{eqn.primitive.name}: {reason}"
