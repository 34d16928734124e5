"""The user's source, each line with its equations and its share of the costs."""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.traits import precision_change
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._lines.assignments import Assignment, assignments, in_one_line
from taxpr_jupyter._messages import source_tab
from taxpr_jupyter._text.short import visible

LEAST = 0.01  # of all operations; lines with less are quiet
MOST_LINES = 2000  # that a page gets
MOST_PATHS = 32  # arrays of one variable on a line that can be unfolded
MOST_VALUES = 64  # of one variable on a line
HOW_NAMES = (
    "The variables are not known: the program was traced before, or beside a debugger, or its "
    "derivative would keep more for them. %%taxpr --names, panel(f, names=True)(x) and "
    "taxpr.trace(f, names=True)(x) note them even so."
)
NO_SHARES = "No shares of FLOPs and bytes: nobody knows how often a loop runs."


@dataclasses.dataclass(frozen=True)
class SourceRow:
    """A line of the user's source, with its equations and costs.

    Attributes:
        file: The file, or Python's name of a cell.
        line: The line, its equations and variables.
        flops: The share of its equations in the operations of the program, 0 to 1; None where
            nobody knows.
        bytes: The same, of the bytes that they move.
        marks: What is special about it, in short words: that it costs most, or that it makes wider
            floats.
    """

    file: str
    line: taxpr.program.SourceLine
    flops: float | None = None
    bytes: float | None = None
    marks: tuple[str, ...] = ()


class SourceRows:
    """The source of a program, with its costs.

    Args:
        program: The program as traced; with names its variables are known.
        divided: How its values are divided among devices, as far as that is known.

    Attributes:
        program: The program.
        divided: How its values are divided.
        rows: The lines, function by function in the order of calls.
        breaks: The numbers of the rows where a function begins.
        rest: A sentence on all other equations; may be empty.
        note: Missing facts about the lines, and how to get them; may be empty.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y
        >>> source = SourceRows(taxpr.trace(f, names=True)(jnp.ones(3)))
        >>> [(row.line.number, row.flops, row.marks) for row in source.rows if row.flops]
        [(2, 1.0, ('most FLOPs', 'most bytes'))]
    """

    def __init__(self, program: taxpr.Program, divided: introspect.Divisions | None = None) -> None:
        self.program = program
        self.divided = divided or introspect.divisions(program)
        with without_collection():
            self.listing = listing = program.listing()
        costs = introspect.Costs()
        whole = [_cost(costs, listing.unknown)]
        rows: list[SourceRow] = []
        self.breaks: list[int] = []
        for part in listing.parts:
            self.breaks.append(len(rows))
            for line in part.lines:
                whole.append(_cost(costs, line.equations))
                rows.append(SourceRow(part.file, line, marks=_wider(line)))
        flops, moved = (sum(one) for one in zip(*whole, strict=True))
        shares = [
            (_share(a, flops), _share(b, moved)) if row.line.equations else (None, None)
            for row, (a, b) in zip(rows, whole[1:], strict=True)
        ]
        most = [_most([one[k] for one in shares]) for k in range(2)]
        words = "most FLOPs", "most bytes"
        self.rows = tuple(
            dataclasses.replace(
                row,
                flops=a,
                bytes=b,
                marks=(*(words[k] for k in range(2) if most[k] == number), *row.marks),
            )
            for number, (row, (a, b)) in enumerate(zip(rows, shares, strict=True))
        )
        self.rest = listing.rest
        notes = [] if program.variables() or not rows else [HOW_NAMES]
        self.note = " ".join(notes + ([NO_SHARES] if math.isnan(flops) else []))

    def text(self) -> str:
        """The text of `Program.source`, with each line's share of all operations.

        Without shares where a loop runs nobody knows how often.
        """
        flops = {id(row.line.equations): row.flops for row in self.rows}

        def said(found: list[Any]) -> str:
            share = flops.get(id(found)) or 0.0
            return f"{share:.0%} of FLOPs" if share >= LEAST else ""

        return self.listing.text(said, self.divided.typed)

    def at(self, place: str) -> SourceRow:
        """The line at a place such as ``"model.py:12"`` or ``"cell 3:12"``.

        Raises:
            PanelError: There is no such line.
        """
        file, _, number = place.rpartition(":")
        found = [row for row in self.rows if str(row.line.number) == number]
        own = [row for row in found if row.file == file]
        ends = [row for row in found if row.file.endswith(f"/{file}")]
        if rows := own or ends or [row for row in found if introspect.file_text(row.file) == file]:
            return rows[0]
        raise PanelError(f"The program went through no line {place!r}")

    def typed(self, row: SourceRow) -> Assignment | None:
        """The assignment of a line, which can be typed over, or None."""
        return assignments(row.file).get(row.line.number)

    def state(self) -> source_tab.SourceText:
        """The state for a browser."""
        parts: list[source_tab.SourcePart] = []
        for number, row in enumerate(self.rows[:MOST_LINES]):
            if number in self.breaks:
                title = visible(introspect.file_text(row.file))
                parts.append({"file": row.file, "title": title, "lines": []})
            typed = self.typed(row)
            right = in_one_line(typed.text) if typed else ""
            left = typed.head if typed else ""
            parts[-1]["lines"].append(_line_state(row, left, right, self.divided))
        return {
            "note": self.note,
            "rest": self.rest,
            "more": max(0, len(self.rows) - MOST_LINES),
            "parts": parts,
        }


class LinesOf:
    """Finds the lines of source that made the value at an address, or that hold it.

    Args:
        index: The places of the program, which may have tags by now.
        source: The source of the program.
    """

    def __init__(self, index: Index, source: SourceRows) -> None:
        self._index = index
        pairs = [
            (place, number)
            for number, row in enumerate(source.rows)
            for place in self._places(row.line)
        ]
        found = np.array(sorted(set(pairs)), int).reshape(-1, 2)
        self._places_of, self._lines = found[:, 0], found[:, 1]

    def of(self, address: str) -> list[int]:
        """The numbers of the rows; none where nothing is at the address."""
        try:
            start, stop = self._index.span(address)
        except PanelError:
            return []
        return self._between(start, stop) or self._of_maker(address)

    def _between(self, start: int, stop: int) -> list[int]:
        first, last = np.searchsorted(self._places_of, [start, stop])
        return np.unique(self._lines[first:last]).tolist()

    def _of_maker(self, address: str) -> list[int]:
        """For a result that no variable holds: the lines of its equation, without nested ones."""
        eqn = taxpr.Address(address).eqn
        place = self._index.eqn(eqn) if eqn != address else None
        return [] if place is None else self._between(place.number, place.number + 1)

    def of_all(self, addresses: Iterable[str]) -> dict[str, list[int]]:
        """The same of many, without those that have none."""
        found = {address: self.of(address) for address in dict.fromkeys(addresses)}
        return {address: lines for address, lines in found.items() if lines}

    def _places(self, line: taxpr.program.SourceLine) -> Iterator[int]:
        for found in (*line.equations, *line.holding):
            if (place := self._index.eqn(found.address)) is not None:
                yield place.number
        for one in line.variables:
            with contextlib.suppress(PanelError):
                yield self._index.span(one.address)[0]


def _cost(costs: introspect.Costs, found: Sequence[Any]) -> tuple[float, float]:
    """Operations and bytes of all runs of equations; nan where nobody knows how often they run."""
    flops = moved = 0.0
    for one in found:
        runs = math.nan if one.runs is None else one.runs
        cost = costs.of_eqn(one.eqn)
        flops, moved = flops + runs * cost.operations, moved + runs * cost.bytes
    return flops, moved


def _share(part: float, whole: float) -> float | None:
    return None if math.isnan(whole) else part / whole if whole else 0.0


def _most(shares: Sequence[float | None]) -> int | None:
    """The number of the greatest share; None if all are too small."""
    known = [share or 0.0 for share in shares]
    best = max(range(len(known)), key=known.__getitem__, default=None)
    return best if best is not None and known[best] >= LEAST else None


def _wider(line: taxpr.program.SourceLine) -> tuple[str, ...]:
    """The conversions of floats to wider ones in a line."""
    words: dict[str, None] = {}
    for found in line.equations:
        if change := precision_change(found.eqn):
            old, new = (atom.aval.dtype for atom in (*found.eqn.invars, *found.eqn.outvars))
            if new.itemsize > old.itemsize:
                words["→".join(change)] = None
    return tuple(words)


def _line_state(
    row: SourceRow, left: str, right: str, divided: introspect.Divisions
) -> source_tab.SourceLine:
    line = row.line
    number, derived = line.counted
    looping = len({found.runs for found in line.equations}) == 1 and line.runs != 1
    return {
        "number": line.number,
        "text": visible(line.text.expandtabs()),
        "variables": [
            one for name, held in line.held.items() for one in _held(name, held, divided)
        ],
        "equations": number,
        "derivative": derived,
        "holds": bool(line.holding),
        "runs": "" if not looping else "in a loop" if line.runs is None else f"×{line.runs:,}",
        "flops": row.flops,
        "bytes": row.bytes,
        "marks": list(row.marks),
        "left": left,
        "right": right,
    }


def _held(
    name: str, held: Any, divided: introspect.Divisions
) -> Iterator[source_tab.SourceVariable]:
    """A variable, or the arrays in it one by one: these fold into one chip."""
    tree = f"{visible(name)}: {len(held):,} arrays" if len(held) > 1 else ""
    for path, values in list(held.items())[:MOST_PATHS]:
        found = [divided.at(one.address) for one in values]
        types = list(dict.fromkeys(divided.typed(one.address, one.aval) for one in values))
        words = list(dict.fromkeys(at.words for at in found if at))
        yield {
            "name": visible(name + path),
            "type": " | ".join(types[:2]) + (" | …" if len(types) > 2 else ""),
            "devices": " | ".join(words[:2]) + (" | …" if len(words) > 2 else ""),
            "addresses": [str(one.address) for one in values[:MOST_VALUES]],
            "tree": tree,
        }
    if (more := len(held) - MOST_PATHS) > 0:
        yield {
            "name": visible(name),
            "type": f"{more:,} more arrays",
            "devices": "",
            "addresses": [],
            "tree": tree,
        }
