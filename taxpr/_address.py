"""Addresses: stable names of the places in a program.

An address names a place. All but the tags' addresses stay the same when tags come and go:

===========================  ====================================================
``3:scan``                   the equation numbered 3, a scan; equations that are
                             tags are not counted
``t0``                       the first tag; tags are counted apart, so that only their
                             own addresses move
``3:scan/body``              the jaxpr of the scan that has this label
``3:scan/body/4:sin``        an equation of the scan's body
``3:scan/body/4:sin.0``      the value that it returns first
``in2``, ``3:scan/body/in2`` an input of the program, of the scan's body
``const0``                   a closed-over value
``out0``                     an output: a second name of the value that is returned
===========================  ====================================================
"""

from __future__ import annotations

import re

# Any character may be in the name of a primitive, also a dot.
_LOCAL = re.compile(
    r"(?:(?P<eqn>\d+):(?P<primitive>.+?)|t(?P<tag>\d+))(?:\.(?P<result>\d+))?"
    r"|in(?P<in>\d+)|const(?P<const>\d+)|out(?P<out>\d+)",
    re.DOTALL,
)
_KINDS = ("eqn", "tag", "in", "const", "out")


class Address(str):
    """The address of a place of a program: a string that knows its parts.

    The empty one is the program itself. ``/`` leads down: from a jaxpr to a place in it, and from
    an equation to its nested jaxpr of that label.

    Attributes:
        parts: The part of the address for each step down.
        home: The place that holds it: the jaxpr of an equation or value, the equation of a nested
            jaxpr.
        local: The last part.
        kind: ``"eqn"``, ``"tag"``, ``"in"``, ``"const"`` or ``"out"``; ``""`` for a jaxpr. A result
            has the kind of the equation or tag that returns it.
        number: Its number within its kind in its jaxpr; -1 for a jaxpr.
        primitive: The name of the equation's primitive; ``""`` for other places.
        short: The name of an equation or tag within its jaxpr: ``"3"``, ``"t0"``.
        result: The index of the result of an equation or tag; None for other places.
        eqn: The equation or tag, for the address of one of its results; else itself.
        is_argument: Whether it is an argument of the program.

    Example:
        >>> from taxpr import Address
        >>> body = Address("3:scan") / "body"
        >>> value = (body / "4:sin").value(0)
        >>> value
        '3:scan/body/4:sin.0'
        >>> value.home, value.local, value.home.home
        ('3:scan/body', '4:sin.0', '3:scan')
        >>> value.kind, value.eqn, value.number, value.primitive, value.result
        ('eqn', '3:scan/body/4:sin', 4, 'sin', 0)
        >>> (body / "in2").kind, (body / "in2").number, body.kind
        ('in', 2, '')
    """

    __slots__ = ()

    def __truediv__(self, part: str) -> Address:
        return Address("/".join((self, part)) if self and part else self + part)

    def value(self, number: int) -> Address:
        """The value that this equation or tag returns as its result of this number."""
        return Address(f"{self}.{number}")

    @property
    def parts(self) -> list[str]:
        """The part of the address for each step down."""
        return self.split("/")

    @property
    def home(self) -> Address:
        """The place that holds it: the jaxpr of an equation or value, the equation of a jaxpr."""
        return Address(self.rpartition("/")[0])

    @property
    def local(self) -> str:
        """The last part."""
        return self.rpartition("/")[2]

    @property
    def eqn(self) -> Address:
        """The equation or tag, for the address of one of its results; else itself."""
        return self if self.result is None else Address(self.rpartition(".")[0])

    @property
    def result(self) -> int | None:
        """The index of the result of an equation or tag; None for other places."""
        return self._number("result")

    @property
    def kind(self) -> str:
        """``"eqn"``, ``"tag"``, ``"in"``, ``"const"`` or ``"out"``; ``""`` for a jaxpr.

        A result has the kind of the equation or tag that returns it.
        """
        match = _LOCAL.fullmatch(self.local)
        return next(kind for kind in _KINDS if match[kind]) if match else ""

    @property
    def number(self) -> int:
        """Its number within its kind in its jaxpr; -1 for a jaxpr."""
        number = self._number(self.kind) if self.kind else None
        return -1 if number is None else number

    @property
    def is_argument(self) -> bool:
        """Whether it is an argument of the program, not an input of a jaxpr in it."""
        return self.kind == "in" and not self.home

    @property
    def short(self) -> str:
        """The name of an equation or tag within its jaxpr: ``"3"``, ``"t0"``."""
        number, colon, _ = self.local.partition(":")
        return number if colon else number.partition(".")[0]

    @property
    def primitive(self) -> str:
        """The name of the equation's primitive; ``""`` for other places."""
        match = _LOCAL.fullmatch(self.local)
        return (match and match["primitive"]) or ""

    def is_in(self, outer: str) -> bool:
        """Whether it is inside another place, at any depth."""
        return self.startswith(f"{outer}/")

    def _number(self, group: str) -> int | None:
        match = _LOCAL.fullmatch(self.local)
        return int(match[group]) if match and match[group] else None
