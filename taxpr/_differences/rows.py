"""The rows of an answer: a value that differs, and where it does so most."""

import dataclasses
import linecache
from collections.abc import Mapping
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._devices.fetched import lies_on
from taxpr._differences.rounding import Key
from taxpr._places import place_text
from taxpr._recordings.part import Part


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value that differs between two runs.

    Attributes:
        variable: The variable, or the address of the value; ``out`` is the result.
        iteration: The first iteration of the loops around it with a difference.
        line: The line that made it.
        index: The index of the greatest difference.
        a: The number there in the first run.
        b: The number there in the second run.
        difference: The greatest difference, in that iteration; None without numbers to compare.
        what: The difference in words, if it is not a number, as of random keys.
        statement: The text of the line.
        file: The file.
        address: The address in the first run.
        device: The device that has this number: its place along each axis of the mesh that divides
            the value, such as ``"d=5"``; empty where all have the same.
        process: The number of the process that the device belongs to; None if there are no others.
    """

    variable: str
    iteration: tuple[int, ...] | None
    line: str
    index: tuple[int, ...]
    a: Any
    b: Any
    difference: float | None
    what: str
    statement: str
    file: str
    address: str
    device: str = ""
    process: int | None = None


class Worst(NamedTuple):
    """The place of the greatest difference, both numbers, and the difference."""

    place: tuple[int, ...] = ()
    a: Any = None
    b: Any = None
    size: float | None = None


_NOTHING = Worst()


def without_copies(found: Mapping[Key, Difference]) -> list[Difference]:
    """One row for each value, whatever names it has."""
    first: dict[str, Difference] = {}
    for row in found.values():
        first.setdefault(row.address, row)
    return list(first.values())


def row_of_result(name: str, x: Any, eqn: Any, what: str, most: Worst = _NOTHING) -> Difference:
    """How two results differ.

    Args:
        name: Its name.
        x: The first one.
        eqn: The equation that made it, and has its line; None for no line.
        what: The difference in words, if it is not a number.
        most: The place of the greatest difference.
    """
    source = None if eqn is None else _compat.source_of(eqn)
    file, number = (source.file, source.line) if source else ("", 0)
    line, text = place_text(file, number), linecache.getline(file, number).strip()
    on = ("", None) if most.size is None else lies_on(x, most.place)
    return Difference(name, None, line, *most, what, text, file, name, *on)


def row_of(
    pair: tuple[Part, Part], at: tuple[int, ...], what: str, most: Worst = _NOTHING
) -> Difference:
    """How two values differ, at the line of the first; it says what was edited there in either."""
    part = pair[0]
    file = part.file or ""
    edits = [one.variable for one in pair if one.variable and one.variable.edited]
    text = linecache.getline(file, part.line or 0).strip() if file else ""
    each = dict(zip(part.kept.axes, at, strict=False))
    batch = tuple(k for axis, k in each.items() if axis.startswith("vmap "))
    place = None if most.size is None else (*at, *most.place)
    iteration = tuple(k for axis, k in each.items() if not axis.startswith(("vmap ", "mesh ")))
    return Difference(
        part.name + part.path,
        iteration or None,
        part.place,
        (*batch, *most.place),
        *most[1:],
        what,
        edits[-1].quoted(text) if edits else text,
        file,
        str(part.address),
        *part.kept.lies_on(each, place),
    )
