"""Every place of a program by its address: equations, nested jaxprs, values."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._errors import PanelError


@dataclasses.dataclass(frozen=True)
class Home:
    """One jaxpr of a program.

    Attributes:
        address: The address of a nested jaxpr such as ``3:scan/body``; empty at the top.
        jaxpr: Something with eqns, invars, outvars and constvars.
        nested: What the equation around it says of it; None at the top.
        owner: The address of that equation; None at the top.
        refused: Why no injector can work in there; None where it can.
    """

    address: taxpr.Address
    jaxpr: Any
    nested: taxpr.Nested | None
    owner: taxpr.Address | None
    refused: str | None

    @property
    def title(self) -> str:
        """Its name for people; empty at the top."""
        return self.nested.title if self.nested else ""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Short facts for people."""
        return self.nested.facts if self.nested else {}


class Index:
    """The places of one program.

    Attributes:
        homes: The jaxprs by address, the outermost first.
        eqns: The equations by address, in program order.
        inside: For each equation the jaxpr that holds it.
    """

    def __init__(self, program: taxpr.Program) -> None:
        self.homes: dict[str, Home] = {}
        self.eqns: dict[str, Any] = {}
        self.inside: dict[str, Home] = {}
        self._add(Home(taxpr.Address(), program, None, None, None))

    def _add(self, home: Home) -> None:
        self.homes[home.address] = home
        for local, eqn in taxpr.numbered(home.jaxpr):
            address = home.address / local
            self.eqns[address] = eqn
            self.inside[address] = home
            for nested in taxpr.nested_jaxprs(eqn):
                self._add(
                    Home(
                        address=address / nested.label,
                        jaxpr=nested.jaxpr,
                        nested=nested,
                        owner=address,
                        refused=home.refused or _refusal(eqn, nested),
                    )
                )

    def values(self, address: str) -> list[tuple[taxpr.Address, Any]]:
        """The values that an address stands for, with their variables.

        Those of an equation are its results, those of a nested jaxpr its inputs.
        """
        if address in self.eqns:
            eqn = self.eqns[address]
            return [(taxpr.Address(address).value(k), var) for k, var in enumerate(eqn.outvars)]
        if address in self.homes:
            return list(self._inputs(self.homes[address]))
        variable = self.variable(address)
        return [] if variable is None else [(taxpr.Address(address), variable)]

    def variable(self, address: str) -> Any | None:
        """The variable of a value address; None where there is no such value."""
        place = taxpr.Address(address)
        if place.result is not None and place.eqn in self.eqns:
            outvars = self.eqns[place.eqn].outvars
            return outvars[place.result] if place.result < len(outvars) else None
        home = self.homes.get(place.home)
        return dict(self._inputs(home)).get(place) if home is not None else None

    def home_of(self, address: str) -> Home | None:
        """The jaxpr in which an equation, value, input or output stands."""
        place = taxpr.Address(address)
        return self.inside.get(place.eqn) or self.homes.get(place.home)

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
            if address in self.eqns:
                raise PanelError(f"{address} has no results, so there is no value to tag")
        raise PanelError(". ".join(filter(None, [self.unknown(address), otherwise])))

    def unknown(self, address: str) -> str:
        """A message for an address that names no value."""
        known = [
            *self.eqns,
            *(value for home in self.homes.values() for value, _ in self._inputs(home)),
        ]
        close = difflib.get_close_matches(address, known, n=3, cutoff=0.4)
        near = f"; near it are {', '.join(close)}" if close else ""
        return f"There is no value {address!r} in the program{near}"

    @staticmethod
    def _inputs(home: Home) -> Iterator[tuple[taxpr.Address, Any]]:
        for kind, variables in (("in", home.jaxpr.invars), ("const", home.jaxpr.constvars)):
            for k, variable in enumerate(variables):
                yield home.address / f"{kind}{k}", variable


def _refusal(eqn: Any, nested: taxpr.Nested) -> str | None:
    reason = taxpr.injectable(eqn, nested)
    return None if reason is None else f"{eqn.primitive.name}: {reason}"
