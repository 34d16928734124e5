"""Two compilations compared, statement by statement."""

import dataclasses
import itertools
import re
from collections.abc import Iterable
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.count_of import count_of
from taxpr._answers.tables import size_text


@dataclasses.dataclass(frozen=True)
class ChangeRow:
    """A statement whose kernels differ between two compilations; a row of `CompiledChanges`.

    Attributes:
        kind: ``"kernels"``, or the collective, such as ``"all-gather"``.
        variable: The variables of the statement, or of all statements that became one kernel.
        line: The lines.
        code: The statements; "" if XLA has added the kernel.
        before: The bytes that its kernels write in the first compilation.
        after: The same in the other.
        change: The difference.
        kernels: How many kernels that are, before and after.
        address: The first equation, in the first compilation that has it.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     return x * 2
        >>> made = taxpr.compiled(f)(jnp.ones(50))
        >>> made.compare(made).rows
        []
    """

    kind: str
    variable: str
    line: str
    code: str
    before: int
    after: int
    change: int
    kernels: tuple[int, int]
    address: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CompiledChanges(Answer):
    """The differences of two compilations, largest change first; see `Compiled.compare`.

    Attributes:
        rows: The statements that became other kernels, as `ChangeRow`.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = x @ x
        ...     return y @ x
        >>> small, large = (taxpr.compiled(f)(jnp.ones((n, n))) for n in (8, 16))
        >>> [(row.variable, row.before, row.after) for row in small.compare(large).rows]
        [('y', 256, 1024), ('', 256, 1024)]
    """

    _columns = "kind", "variable", "line", "code", "before", "after", "change", "kernels"


def changes(before: Any, after: Any) -> CompiledChanges:
    """The differences of two answers of `compiled`."""
    sides = [_by_statement(one) for one in (before, after)]
    rows: list[ChangeRow] = []
    for key in dict.fromkeys(key for side in sides for key in side):
        kind, variable, code = key
        for old, new in _pairs(*(side.get(key, {}) for side in sides)):
            sizes = [sum(row.bytes for row in one) for one in (old, new)]
            counts = len(old), len(new)
            first = (old or new)[0]
            if sizes[0] != sizes[1] or counts[0] != counts[1]:
                said = kind, variable, first.line, code
                change = sizes[1] - sizes[0]
                rows.append(ChangeRow(*said, sizes[0], sizes[1], change, counts, first.address))
    rows.sort(key=lambda row: (-abs(row.change), -abs(row.kernels[1] - row.kernels[0])))
    totals = [sum(row.bytes for row in one.rows) for one in (before, after)]
    kernels = " and ".join(str(len(one.rows)) for one in (before, after))
    moved = " and ".join(size_text(one.collectives.bytes) for one in (before, after))
    headline = (
        f"compiled twice: {count_of(len(rows), 'statement')} changed; {kernels} kernels write "
        f"{size_text(totals[0])} and {size_text(totals[1])}"
    )
    headline += f", collectives move {moved}" if before.collectives or after.collectives else ""
    versions = [one.version for one in (before, after)]
    notes = ("Compiled by jax {} and {}.".format(*versions),) if len(set(versions)) > 1 else ()
    return CompiledChanges(headline, rows, notes)


# The kernels or collectives of a statement by its place, such as ``"model.py:12"``.
_Places = dict[str, list[Any]]


def _by_statement(compiled: Any) -> dict[tuple[str, str, str], _Places]:
    """The kernels and collectives by kind, variable and text of their statements."""
    found: dict[tuple[str, str, str], _Places] = {}
    moving = {row.instruction for row in compiled.collectives.rows}
    told = [
        (("kernels", row.variable, row.code or ("" if row.equations else row.kind)), row)
        for row in compiled.rows
        if row.instruction not in moving
    ]
    told += [((row.kind, row.variable, row.code), row) for row in compiled.collectives.rows]
    for key, row in told:
        found.setdefault(key, {}).setdefault(row.line, []).append(row)
    return found


def _pairs(before: _Places, after: _Places) -> list[tuple[list[Any], list[Any]]]:
    """The places of one text in two compilations: lines may have moved, and cells of a notebook.

    If a file has the text as often in both, its lines are paired in order, else by line number. All
    other lines are paired in order.
    """
    found: list[tuple[str | None, str | None]] = []
    for file in dict.fromkeys(map(_file, before)):
        both = [
            [line for line in _ordered(side) if _file(line) == file] for side in (before, after)
        ]
        if len(both[0]) == len(both[1]):
            found += zip(*both, strict=True)
        else:
            found += [(line, line) for line in both[0] if line in both[1]]
    paired = [{pair[k] for pair in found} for k in (0, 1)]
    old, new = (
        [line for line in _ordered(side) if line not in known]
        for side, known in zip((before, after), paired, strict=True)
    )
    found += [*itertools.zip_longest(old, new)]
    return [
        (before[old] if old is not None else [], after[new] if new is not None else [])
        for old, new in found
    ]


def _file(line: str) -> str:
    return re.sub(r":\d+", "", line)


def _ordered(lines: Iterable[str]) -> list[str]:
    return sorted(lines, key=lambda line: [int(one) for one in re.findall(r":(\d+)", line)])
