"""`Index`: all places of a program: equations, nested jaxprs, inputs, constants, outputs, values.

All code that needs all places uses this index. Only `taxpr.find_values` walks by itself: it gives
values in the order of execution, the values inside an equation before its results.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._text.elements import ElementRow, place_of, row_of


@dataclasses.dataclass(eq=False)
class Home:
    """One jaxpr of a program, at its place.

    Attributes:
        address: The address of a nested jaxpr, such as ``3:scan/body``; empty at the top.
        jaxpr: The open jaxpr, or the program: it has eqns, invars, outvars and constvars.
        nested: Its entry in `introspect.nested_jaxprs` of the equation around it; None at the top.
        steps: The equations around it, outermost first.
        refused: Why no injector can be inside; None if one can.
        start: The number of the first place in it.
        stop: The number after everything in it.
    """

    address: taxpr.Address
    jaxpr: Any
    nested: introspect.Nested | None
    steps: tuple[ElementPlace, ...]
    refused: str | None
    start: int
    stop: int = 0

    @property
    def title(self) -> str:
        """Its title for people; empty at the top."""
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
    def graph(self) -> DefUse:
        """Where its values are made and used."""
        return DefUse(self.jaxpr)


@dataclasses.dataclass(eq=False, slots=True)
class ElementPlace:
    """An equation, input, constant or output. Selectors of taxpr can choose from places.

    Attributes:
        local: The last part of its address.
        home: The jaxpr that it is in.
        eqn: The equation; None for an input, constant or output.
        made: The results of an equation, or the variable of an input or constant; () for an output.
        number: Its number, see `Index`.
        stop: The number after everything in it.
    """

    local: str
    home: Home
    eqn: Any
    made: Sequence[Any]
    number: int
    stop: int

    @property
    def address(self) -> taxpr.Address:
        """Its address, made on demand, as most places are never asked for theirs."""
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
        """Whether an equation has no nested jaxprs."""
        return self.stop == self.results.stop


class Index:
    """The places of one program.

    Places and results of equations are numbered in program order: in a jaxpr constants, inputs,
    equations, outputs; after an equation its results, then its nested jaxprs. So an element with
    everything in it is a range of numbers.

    Attributes:
        program: The program.
        homes: The jaxprs by address, the outermost first.
        places: The places in program order.
        size: The number of numbers.
    """

    def __init__(self, program: taxpr.Program) -> None:
        self.program = program
        self.homes: dict[str, Home] = {}
        self.places: list[ElementPlace] = []
        self.size = 0
        self._add(Home(taxpr.Address(), program, None, (), None, 0))

    def _add(self, home: Home) -> None:
        self.homes[home.address] = home
        self._add_ends(home, "const", home.jaxpr.constvars)
        self._add_ends(home, "in", home.jaxpr.invars)
        for local, eqn in introspect.numbered(home.jaxpr):
            number, self.size = self.size, self.size + 1 + len(eqn.outvars)
            place = ElementPlace(local, home, eqn, eqn.outvars, number, self.size)
            self.places.append(place)
            for nested in introspect.nested_jaxprs(eqn):
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
            self.places.append(ElementPlace(f"{word}{k}", home, None, made, number, self.size))

    @functools.cached_property
    def at(self) -> dict[str, ElementPlace]:
        """The places by address."""
        return {place.address: place for place in self.places}

    @functools.cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """The `number` of each place, and the `stop` of each."""
        starts = np.fromiter((place.number for place in self.places), int, len(self.places))
        return starts, np.fromiter((place.stop for place in self.places), int, len(self.places))

    def eqns(self) -> Iterator[ElementPlace]:
        """The equations, in program order."""
        return (place for place in self.places if place.eqn is not None)

    def eqn(self, address: str) -> ElementPlace | None:
        """The equation at an address; None without one."""
        place = self.at.get(address)
        return place if place is not None and place.eqn is not None else None

    def span(self, address: str) -> tuple[int, int]:
        """The range of numbers of a place, value, nested jaxpr or row, with everything in it.

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
            return known.number if isinstance(known, ElementPlace) else known.start, known.stop
        owner = self.eqn(address.eqn)
        if owner is None or address.result is None or address.result >= len(owner.made):
            return None
        number = owner.results[address.result]
        return number, number + 1

    def _row_span(self, row: ElementRow) -> tuple[int, int] | None:
        known = self._rows.get(row.home, {})
        first, last = (known.get(f"{row.word}{end}") for end in (row.first, row.last))
        return (first[0], last[1]) if first and last else None

    @functools.cached_property
    def _rows(self) -> dict[str, dict[str, tuple[int, int]]]:
        """For each jaxpr the spans of its places, by the names that addresses of rows contain."""
        rows: dict[str, dict[str, tuple[int, int]]] = {address: {} for address in self.homes}
        units: dict[str, str] = {}
        for place in self.places:
            home, short = place.home.address, taxpr.Address(place.local).short
            rows[home][short] = place.number, place.stop
            if place.eqn is None:
                continue
            if not introspect.is_tag(place.eqn):
                units[home] = short
            elif unit := units.get(home):  # tags belong to the equation before them
                rows[home][unit] = rows[home][unit][0], place.stop
        return rows

    def values(self, address: str) -> list[tuple[taxpr.Address, Any]]:
        """The addresses and variables of the values that an address means.

        An equation means its results, a nested jaxpr its inputs and constants.
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
        """The variable of the value at an address; None if there is no such value."""
        return dict(self.values(address)).get(taxpr.Address(address))

    def home_of(self, address: str) -> Home | None:
        """The jaxpr that contains an equation, value, input or output."""
        value = taxpr.Address(address)
        place = self.at.get(value.eqn)
        return place.home if place is not None else self.homes.get(value.home)

    def one_value(
        self, address: str, otherwise: str = "", names: Sequence[str] | None = None
    ) -> str:
        """The address of the value that ``address`` names.

        Args:
            address: The address of the value, or of an equation with one result.
            otherwise: A further sentence for the error if there is no such value.
            names: The names that can be meant, if it is no address but a name.

        Raises:
            PanelError: There is no such value, or the equation has several results.
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
        raise PanelError(". ".join(filter(None, [self.unknown(address, names), otherwise])))

    def unknown(self, address: str, names: Sequence[str] | None = None) -> str:
        """A message for an address, or a name, that names no value."""
        known = names
        if known is None:
            known = [place.address for place in self.places if place.made or place.eqn is not None]
        close = difflib.get_close_matches(address, known, n=3, cutoff=0.4)
        near = f"; near it are {', '.join(close)}" if close else ""
        return f"There is no value {address!r} in the program{near}"


def _refusal(eqn: introspect.JaxprEqn, nested: introspect.Nested) -> str | None:
    reason = introspect.injectable(eqn, nested)
    return None if reason is None else f"{eqn.primitive.name}: {reason}"
