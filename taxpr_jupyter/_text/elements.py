"""Addresses of what only pictures have: rows of equations or inputs, open equations, literals."""

from __future__ import annotations

import re
from typing import NamedTuple

from taxpr import Address

_ROW = re.compile(r"(group|rest):(in|out)?(t?\d+)-(t?\d+)")
_NO_PLACE = re.compile(r"@?~\d+$|@$|/empty$")


class Row(NamedTuple):
    """Several equations, inputs or outputs of one jaxpr, which one node stands for.

    Attributes:
        home: The address of the jaxpr.
        kind: ``"group"``, or ``"rest"`` for what was left out.
        word: ``"in"`` or ``"out"``; ``""`` for equations.
        first: The number of the first, as in `Address.short`.
        last: That of the last.
    """

    home: Address
    kind: str
    word: str
    first: str | int
    last: str | int

    @property
    def address(self) -> Address:
        """Its address, such as ``"3:scan/body/group:in0-7"``."""
        return self.home / f"{self.kind}:{self.word}{self.first}-{self.last}"


def row_of(address: str) -> Row | None:
    """The row that has this address; None where it is none of a row."""
    address = Address(address)
    match = _ROW.fullmatch(address.local)
    return Row(address.home, match[1], match[2] or "", match[3], match[4]) if match else None


def operands_of(address: str) -> Address:
    """The node of an open equation, for operands and results that no nested jaxpr has."""
    return Address(f"{address}@")


def literal_of(address: str, number: int) -> Address:
    """The node of a literal that another node takes."""
    return Address(f"{address}~{number}")


def place_of(address: str) -> Address:
    """The place of the program that such a node goes with; of others their own."""
    return Address(_NO_PLACE.sub("", address))
