"""Divide the equations of a program by the function, or the statement, that made them."""

import collections
import dataclasses
import re
from collections.abc import Callable
from typing import NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr
from taxpr._hops.places import numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._places import place_text
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._sites.made_by import equations
from taxpr._source.statements import Statement

# What is in the jaxprs of these can be compiled without what is around them. In a `shard_map` or a
# kernel it cannot.
_OPEN = {
    _compat.jit_p,
    _compat.scan_p,
    _compat.while_p,
    _compat.cond_p,
    _compat.remat_p,
    _compat.closed_call_p,
    _compat.custom_jvp_call_p,
    _compat.custom_vjp_call_p,
}


_COMPREHENSION = re.compile(r"(\.<(genexpr|listcomp|dictcomp|setcomp)>)+$")


class PartOwner(NamedTuple):
    """A function or a statement of the user's.

    Attributes:
        file: Its file.
        function: The qualified name of the function; "" of equations whose source is not known.
        place: The line of a statement; "" of a function.
        code: The statement; "" of a function.
    """

    file: str
    function: str
    place: str = ""
    code: str = ""


class PieceOfPart(NamedTuple):
    """Equations of one jaxpr.

    Attributes:
        jaxpr: The jaxpr.
        eqns: Some of its equations, in order.
    """

    jaxpr: Jaxpr
    eqns: list[JaxprEqn]


@dataclasses.dataclass
class CompiledPart:
    """The part of a program that belongs to one owner.

    Attributes:
        owner: The function or statement.
        pieces: Its equations, by jaxpr.
        statements: How many equations each of its statements made, also nested ones.
    """

    owner: PartOwner
    pieces: list[PieceOfPart] = dataclasses.field(default_factory=list[PieceOfPart])
    statements: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter[tuple[str, str]]
    )

    @property
    def count(self) -> int:
        """The number of its equations."""
        return sum(self.statements.values())

    @property
    def slowest(self) -> tuple[str, str]:
        """The line and the code of the statement that made most equations."""
        return max(self.statements, key=self.statements.__getitem__, default=("", ""))


class MadeBy(NamedTuple):
    """An equation, and the statements that made it, innermost first.

    Attributes:
        eqn: The equation.
        statements: The statements.
        jaxpr: The jaxpr that has it.
    """

    eqn: JaxprEqn
    statements: tuple[Statement, ...]
    jaxpr: Jaxpr


def function_name(qualname: str) -> str:
    """The name of a function for people; a comprehension belongs to the one around it."""
    return _COMPREHENSION.sub("", qualname.replace(".<locals>", ""))


def function_of(statement: Statement | None) -> PartOwner:
    """The function of a statement as an owner."""
    if statement is None:
        return PartOwner("", "")
    return PartOwner(statement.file, function_name(statement.function))


def statement_of(statement: Statement | None) -> PartOwner:
    """A statement as an owner."""
    line, code = _told(statement)
    return function_of(statement)._replace(place=line, code=code)


def _told(statement: Statement | None) -> tuple[str, str]:
    if statement is None:
        return "", ""
    return place_text(statement.file, statement.line), statement.text


class Parts:
    """The parts of a program.

    Args:
        program: The program.
        owner: `function_of` or `statement_of`.

    Attributes:
        made: All equations that hold no others.
    """

    def __init__(self, program: Program, owner: Callable[[Statement | None], PartOwner]) -> None:
        self._owner = owner
        self._statements: dict[Address, tuple[Statement, ...]] = {
            one.address: statements for one, _, statements in equations(program)
        }
        self._parts: dict[PartOwner, CompiledPart] = {}
        self.made: list[MadeBy] = []
        self._walk(program.jaxpr, Address())

    @property
    def found(self) -> list[CompiledPart]:
        """The parts, in the order of the program."""
        return list(self._parts.values())

    def _first(self, address: Address) -> Statement | None:
        every = self._statements.get(address, ())
        return next((one for one in every if one.text), every[0] if every else None)

    def _walk(self, stored: StoredJaxpr, home: Address) -> None:
        """Divide the equations of a jaxpr, and of those in it that several owners have."""
        inner = _compat.open_jaxpr(stored)
        groups: dict[PartOwner, list[JaxprEqn]] = {}
        for local, eqn in numbered(inner):
            if is_tag(eqn):
                continue
            here = home / local
            within = self._within(eqn, here)
            if eqn.primitive in _OPEN and len({self._owner(one) for one in within}) > 1:
                for nested in nested_jaxprs(eqn):
                    if not (nested.rule or nested.idle):
                        self._walk(nested.stored, here / nested.label)
                continue
            owner = self._owner(self._first(here))
            groups.setdefault(owner, []).append(eqn)
            self._parts.setdefault(owner, CompiledPart(owner)).statements.update(map(_told, within))
            self.made.append(MadeBy(eqn, self._statements.get(here, ()), inner))
        for owner, eqns in groups.items():
            self._parts[owner].pieces.append(PieceOfPart(inner, eqns))

    def _within(self, eqn: JaxprEqn, here: Address) -> list[Statement | None]:
        """The statements of an equation and of all that are in it."""
        found = [self._first(here)]
        for nested in nested_jaxprs(eqn):
            if not (nested.rule or nested.idle):
                for local, one in numbered(nested.jaxpr):
                    if not is_tag(one):
                        found += self._within(one, here / nested.label / local)
        return found
