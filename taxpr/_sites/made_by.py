"""Each equation of a program in its place, with the statements that made it."""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.places import numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._source.files import of_library, own_of
from taxpr._source.statements import Statement, statements_in


class PlacedEquation(NamedTuple):
    """An equation in its place.

    Attributes:
        eqn: The equation.
        runs: How often it runs; None if unknown.
        derivative: Whether it computes a derivative of its line, in a backward pass.
        address: Its address.
        call: The address of the jaxpr that a call of its line's function became, as for a jitted
            function or the body of a loop; None if that is not sure.
    """

    eqn: Any
    runs: int | None
    derivative: bool
    address: Address
    call: Address | None = None


class Within(NamedTuple):
    """The calls and loops around the equations of a jaxpr.

    Attributes:
        home: Its address.
        runs: How often it runs.
        derivative: Whether it is in a backward pass.
        function: Where the function begins that it was traced from, if it is nested.
        call: As `PlacedEquation.call`, of the equation that holds it.
        statements: The statements of the call.
    """

    home: Address = Address()
    runs: int | None = 1
    derivative: bool = False
    function: tuple[str, int] | None = None
    call: Address | None = None
    statements: tuple[Statement, ...] = ()


PROGRAM = Within()


def equations(
    jaxpr: Any, within: Within = PROGRAM
) -> Iterator[tuple[PlacedEquation, bool, tuple[Statement, ...]]]:
    """The equations, whether they hold no others, and the statements that made them."""
    for local, eqn in numbered(jaxpr):
        if is_tag(eqn):
            continue
        found, statements = placed(eqn, local, within)
        nested = nested_jaxprs(eqn)
        yield found, not nested, statements
        for one in nested:
            yield from equations(one.jaxpr, inside(found, statements, one))


def files_of(jaxpr: StoredJaxpr) -> list[str]:
    """The files of the statements that made equations; of equations without any, of their line."""
    found: dict[str, None] = {}
    # There may be a hundred frames, and thousands of equations with the same ones.
    known = set[Hashable]()
    waiting = [_compat.open_jaxpr(jaxpr)]
    for inner in waiting:
        for eqn in inner.eqns:
            waiting += (one.jaxpr for one in nested_jaxprs(eqn))
            if (frames := _compat.frames_key(eqn)) in known:
                continue
            known.add(frames)
            files = dict.fromkeys(code.co_filename for code in _compat.frames_of(eqn)[0])
            own = own_of(eqn)
            of_user = [one for one in files if not of_library(one, own)]
            source = None if of_user else _compat.source_of(eqn)
            found.update(dict.fromkeys([source.file] if source else of_user))
    return list(found)


def placed(eqn: Any, local: str, within: Within) -> tuple[PlacedEquation, tuple[Statement, ...]]:
    """An equation in its place, and the statements that made it.

    Args:
        eqn: The equation.
        local: Its name in its jaxpr.
        within: The calls and loops around that jaxpr.
    """
    own = (within.derivative or _compat.is_transposed(eqn)) and not _compat.is_recomputed(eqn)
    own = own and not _compat.is_of_rule(eqn)  # of which the lines are the derivative
    call, statements = made_by(eqn, within)
    return PlacedEquation(eqn, within.runs, own, within.home / local, call), statements


def inside(found: PlacedEquation, statements: tuple[Statement, ...], nested: Nested) -> Within:
    """The calls and loops around the equations of a jaxpr that an equation holds.

    Args:
        found: The equation.
        statements: Those that made it.
        nested: The jaxpr.
    """
    trips = nested.trips if isinstance(nested.trips, int) else None
    runs = None if found.runs is None or trips is None else found.runs * trips
    home, function = found.address / nested.label, _compat.function_of(nested.jaxpr)
    return Within(home, runs, found.derivative, function, found.call, statements)


def made_by(eqn: Any, within: Within) -> tuple[Address | None, tuple[Statement, ...]]:
    """The call of its function that made an equation, if that is sure, and the statements.

    JAX traces a jitted function once, for all lines that call it: the frames of its equations end
    there, and the equations that hold them have the calls.
    """
    codes, instructions = _compat.frames_of(eqn)
    own = own_of(eqn)
    begins = ((code.co_filename, code.co_firstlineno) for code in codes)
    number = next((k for k, place in enumerate(begins) if place == within.function), None)
    if within.function is None or number is None:
        found = statements_in(codes, instructions, own=own)
        return (None, found) if found else (within.call, within.statements)
    found = statements_in(codes[:number], instructions[:number], own=own)
    if of_library(within.function[0], own):
        return None if found else within.call, (*found, *within.statements)
    last = slice(number, number + 1)
    here = statements_in(codes[last], instructions[last], own=own)
    call = None if found or _compat.is_recomputed(eqn) else within.home
    return call, (*found, *here, *within.statements)
