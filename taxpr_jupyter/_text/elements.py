"""Addresses of nodes that only pictures have: rows, literals, operands of open equations."""

import re
from typing import NamedTuple

from taxpr import Address

_ROW = re.compile(r"(group|rest|lift):(in|out|const)?(t?\d+)-(t?\d+)")
_NO_PLACE = re.compile(r"(@\d*)?(~\d+)?$|/empty$")


class ElementRow(NamedTuple):
    """Several equations, inputs, outputs or constants of one jaxpr with one node in the picture.

    Attributes:
        home: The address of the jaxpr.
        kind: ``"group"``; ``"rest"`` for elements that were left out; or ``"lift"`` for a call of a
            library with the user's functions that it runs.
        word: ``"in"``, ``"out"`` or ``"const"``; ``""`` for equations.
        first: The number of the first element, as in `Address.short`.
        last: The number of the last element. Constants are in the order of their names.
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


def row_of(address: str) -> ElementRow | None:
    """Parse the address of a row; None for any other address."""
    address = Address(address)
    match = _ROW.fullmatch(address.local)
    return ElementRow(address.home, match[1], match[2] or "", match[3], match[4]) if match else None


def operands_of(address: str, first: int | None = None) -> Address:
    """The address of an open equation's node for operands that enter no nested jaxpr.

    Or, with the number of the first one, for operands that the branches of a choice share.
    """
    return Address(f"{address}@{'' if first is None else first}")


def literal_of(address: str, number: int) -> Address:
    """The address of the node of a literal operand."""
    return Address(f"{address}~{number}")


def place_of(address: str) -> Address:
    """The place in the program of a node with this address."""
    return Address(_NO_PLACE.sub("", address))
