"""Two compilations compared, statement by statement."""

from __future__ import annotations

import dataclasses
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.tables import size_text


@dataclasses.dataclass(frozen=True)
class ChangeRow:
    """What a statement became in two compilations; a row of `CompiledChanges`.

    Attributes:
        kind: ``"kernels"``, or the collective, such as ``"all-gather"``.
        variable: The variables of the statement, of several that became one kernel those of all.
        line: The lines.
        code: The statements; "" of what XLA has added.
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
    """What differs between two compilations, largest change first; see `Compiled.compare`.

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
    """What differs between two answers of `compiled`."""
    sides = [_by_statement(one) for one in (before, after)]
    rows: list[ChangeRow] = []
    for key in dict.fromkeys(key for side in sides for key in side):
        found = [side.get(key, []) for side in sides]
        old, new = (sum(row.bytes for row in rows) for rows in found)
        counts = len(found[0]), len(found[1])
        first = (found[0] or found[1])[0]
        if old != new or counts[0] != counts[1]:
            kind, variable, code = key
            at = first.line, code, old, new, new - old, counts, first.address
            rows.append(ChangeRow(kind, variable, *at))
    rows.sort(key=lambda row: (-abs(row.change), -abs(row.kernels[1] - row.kernels[0])))
    totals = [sum(row.bytes for row in one.rows) for one in (before, after)]
    kernels = " and ".join(str(len(one.rows)) for one in (before, after))
    moved = " and ".join(size_text(one.collectives.bytes) for one in (before, after))
    headline = (
        f"compiled twice: {len(rows)} statements differ; {kernels} kernels write "
        f"{size_text(totals[0])} and {size_text(totals[1])}"
    )
    headline += f", collectives move {moved}" if before.collectives or after.collectives else ""
    versions = [one.version for one in (before, after)]
    notes = ("Compiled by jax {} and {}.".format(*versions),) if len(set(versions)) > 1 else ()
    return CompiledChanges(headline, rows, notes)


def _by_statement(compiled: Any) -> dict[tuple[str, str, str], list[Any]]:
    """The kernels and collectives of each statement; lines may have moved between the two."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    moving = {row.instruction for row in compiled.collectives.rows}
    for row in compiled.rows:
        if row.instruction not in moving:
            what = row.code or ("" if row.equations else row.kind)
            found.setdefault(("kernels", row.variable, what), []).append(row)
    for row in compiled.collectives.rows:
        found.setdefault((row.kind, row.variable, row.code), []).append(row)
    return found
