"""Long tables of values: the arrays of a tree share a row, and arguments come last."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from taxpr._answers.tables import MOST, alike

_KEY = re.compile(r"""\[(?:'[^']*'|"[^"]*"|[^\]]*)\]|\.[^.\[]+""")
_Row = TypeVar("_Row", bound=Any)

FOLDED = (
    "Arrays of one tree, and values of one line, share a row where the table would be too long: "
    ".rows has each."
)


def folded(
    rows: Sequence[_Row],
    is_argument: Callable[[_Row], bool],
    kind: Callable[[_Row], Hashable] = lambda row: None,
) -> list[tuple[str, list[_Row]]]:
    """The rows in groups, few enough to be shown; a table that is short stays as it is.

    Computed values come first and arguments last, each in the order of the rows. Arrays of one
    variable share a row if the paths to them begin alike, as in one layer or module. No more of
    them do than needed, first of arguments, then of computed values. If that is not enough, the
    values that one line made in several calls, so of several layers, share a row, too.

    Args:
        rows: Dataclasses with the fields ``variable`` and ``path``: its name, which contains the
            path to an array of a tree, and that path.
        is_argument: Whether a row is about an argument.
        kind: Rows of different kinds are not put together.

    Returns:
        The groups with their names: of a single row its own; of a tree the variable's with the
        beginning of the paths; of several calls the first and the last one's.
    """
    if len(rows) <= MOST:
        return [(row.variable, [row]) for row in rows]
    computed = [row for row in rows if not is_argument(row)]
    given = [row for row in rows if is_argument(row)]
    deepest = max(len(_keys(row)) for row in rows)
    found: list[tuple[str, list[_Row]]] = []
    for of_given in reversed(range(deepest + 1)):
        found = _at(computed, deepest, kind) + _at(given, of_given, kind)
        if len(found) <= MOST:
            return found
    for of_computed in reversed(range(deepest)):
        found = _at(computed, of_computed, kind) + _at(given, 0, kind)
        if len(found) <= MOST:
            return found
    return _of_calls(computed, kind) + _of_calls(given, kind)


def _at(
    rows: Sequence[_Row], depth: int, kind: Callable[[_Row], Hashable]
) -> list[tuple[str, list[_Row]]]:
    """The rows in groups whose variable and first keys of paths are the same."""

    def key(row: _Row) -> Hashable:
        return _with_path(row, ""), _keys(row)[:depth], kind(row)

    def named(group: list[_Row]) -> str:
        first = group[0]
        if len(group) == 1:
            return first.variable
        return _with_path(first, "".join(_keys(first)[:depth]))

    return [(named(group), group) for group in alike(rows, key)]


def _of_calls(
    rows: Sequence[_Row], kind: Callable[[_Row], Hashable]
) -> list[tuple[str, list[_Row]]]:
    """The rows in groups of one line each: an array of each call, or a whole tree."""

    def key(row: Any) -> Hashable:
        head, _, number = _with_path(row, "").partition("#")
        return head, row.line, (number, kind(row)) if row.path else (row.shape, kind(row))

    return [
        (
            _at(group, 0, kind)[0][0]
            if group[0].path or len(group) == 1
            else f"{group[0].variable} … #{group[-1].variable.rpartition('#')[2]}",
            group,
        )
        for group in alike(rows, key)
    ]


def _with_path(row: Any, path: str) -> str:
    """The name of a row's variable with another path to an array, before ``#2`` at its end."""
    if not row.path or row.path not in row.variable:
        return row.variable
    before, _, after = row.variable.rpartition(row.path)
    return f"{before}{path}{after}"


def _keys(row: Any) -> tuple[str, ...]:
    return _keys_of(row.path)


@functools.lru_cache(4096)
def _keys_of(path: str) -> tuple[str, ...]:
    return tuple(_KEY.findall(path))


def common(values: Sequence[Any], otherwise: Any) -> Any:
    """The value that all are, if they are the same."""
    return values[0] if all(one == values[0] for one in values) else otherwise
