"""The rows of an answer: a value that differs, and where it does so most."""

import dataclasses
import linecache
from collections.abc import Mapping
from typing import Any

from taxpr import _compat
from taxpr._differences.numbers import apart
from taxpr._differences.rounding import Key
from taxpr._places import place_text
from taxpr._recordings.part import Part
from taxpr._untyped import np


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
        what: The difference in words, if it is not a number.
        statement: The text of the line.
        file: The file.
        address: The address in the first run.
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


def without_copies(found: Mapping[Key, Difference]) -> list[Difference]:
    """One row for each value, whatever names it has."""
    first: dict[str, Difference] = {}
    for row in found.values():
        first.setdefault(row.address, row)
    return list(first.values())


def row_of_result(name: str, eqn: Any, a: Any, b: Any, at: tuple[int, ...] = ()) -> Difference:
    """How two results differ, at the line of the equation that made the first one."""
    del at  # it is in no loop
    index, left, right, size = worst(a, b, a != b)
    source = _compat.source_of(eqn)
    file, number = (source.file, source.line) if source else ("", 0)
    line, text = place_text(file, number), linecache.getline(file, number).strip()
    return Difference(name, None, line, index, left, right, size, "", text, file, name)


def row_of(pair: tuple[Part, Part], at: tuple[int, ...], what: str, *numbers: Any) -> Difference:
    """How two values differ, at the line of the first; it says what was edited there in either."""
    part = pair[0]
    index, left, right, size = worst(*numbers) if numbers else ((), None, None, None)
    file = part.file or ""
    edits = [one.variable for one in pair if one.variable and one.variable.edited]
    text = linecache.getline(file, part.line or 0).strip() if file else ""
    each = list(zip(part.kept.axes, at, strict=False))
    lanes = tuple(k for axis, k in each if axis.startswith("vmap "))
    return Difference(
        part.name + part.path,
        tuple(k for axis, k in each if not axis.startswith("vmap ")) or None,
        part.place,
        (*lanes, *index),
        left,
        right,
        size,
        what,
        edits[-1].quoted(text) if edits else text,
        file,
        str(part.address),
    )


def worst(a: Any, b: Any, wrong: Any) -> tuple[tuple[int, ...], Any, Any, float]:
    """The index where two arrays differ most, both numbers, and the difference."""
    with np.errstate(all="ignore"):
        size = apart(a, b)
    size = np.where(wrong, np.where(np.isnan(size), np.inf, size), 0.0)
    at = np.unravel_index(int(np.argmax(size)), size.shape)
    return tuple(map(int, at)), a[at].item(), b[at].item(), float(size[at])
