"""Tables as text and HTML, and rows as plain data."""

import dataclasses
import html
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from taxpr._answers.charts import Lines, number
from taxpr._untyped import np

MOST = 20  # rows that are shown, as many as fit on a screen
_INDEX = re.compile(r"(\[\d+\])")
_Row = TypeVar("_Row")
_WIDEST = 60  # characters of a cell of text


def as_dict(row: Any) -> dict[str, Any]:
    """The fields of a row by name."""
    if issubclass(type(row), Mapping):
        return dict(row)
    return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}


def plain(value: Any) -> Any:
    """A value for JSON: non-finite numbers and unknown objects become texts."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return str(value)
    if issubclass(type(value), Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        return plain(as_dict(value))
    if issubclass(type(value), (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind not in "biufc" and array.dtype.kind != "U":
            array = array.astype(np.float64)  # such as bfloat16
        return plain(array.tolist())
    return str(value)


def size_text(size: float) -> str:
    """A number of bytes for people.

    Example:
        >>> size_text(3 * 10**6), size_text(12)
        ('3 MB', '12 bytes')
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.5 or unit == "PB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def texts(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The names of columns, and the cells of each row that is shown."""
    names = _names(rows)
    return [names] + [[cell(row.get(name)) for name in names] for row in rows[:MOST]]


def once(rows: Sequence[Any], key: Callable[[Any], Hashable]) -> list[Any]:
    """For each key the first row whose variable is no part of a tree, else the first row.

    The arguments of a lambda, as `jax.tree.map` takes it, say less than the part of a tree does.
    """

    def is_part(row: Any) -> bool:
        return "[" in row.variable or "<lambda>" in getattr(row, "function", "")

    named: dict[Hashable, Any] = {}
    for row in sorted(rows, key=is_part):
        named.setdefault(key(row), row)
    chosen = set(map(id, named.values()))
    return [row for row in rows if id(row) in chosen]


def alike(rows: Iterable[_Row], key: Callable[[_Row], Hashable]) -> list[list[_Row]]:
    """The rows of each key together, in the order of the first ones."""
    found: dict[Hashable, list[_Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return list(found.values())


def of_any_index(name: str) -> str:
    """A name that the same parts of several layers share."""
    return _INDEX.sub("[…]", name)


def of_each(names: Iterable[str]) -> str:
    """One name for those that differ by an index, such as parts of several layers.

    Example:
        >>> of_each(["state[0].mu[3]['w1']", "state[0].mu[4]['w1']"])
        "state[0].mu[…]['w1']"
    """
    parts = zip(*map(_INDEX.split, names), strict=True)
    return "".join("[…]" if len(set(each)) > 1 else each[0] for each in parts)


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table in plain text: a line of names, and one for each row."""
    cells = texts(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)) for line in cells]
    return "\n".join([line.rstrip() for line in lines] + _more(rows))


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table in HTML; series of numbers become small pictures."""
    names = _names(rows)
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{_html_cell(row.get(n))}</td>" for n in names)
        + "</tr>"
        for row in rows[:MOST]
    )
    more = "".join(f"<div>{html.escape(line)}</div>" for line in _more(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def cell(value: Any) -> str:
    """A value in a cell of text."""
    if value is None:
        return ""
    if _is_series(value):
        return Lines({"": np.asarray(value)}).text().strip()
    if issubclass(type(value), (list, tuple)):
        return ", ".join(map(cell, value))
    if hasattr(value, "__array__") and np.ndim(value):
        return f"{np.asarray(value).dtype}{list(np.shape(value))}"
    if isinstance(value, (float, np.generic)) or hasattr(value, "__array__"):
        return number(value)
    text = " ".join(str(value).split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _html_cell(value: Any) -> str:
    if _is_series(value):
        return Lines({"": np.asarray(value)}).sparkline()
    return html.escape(cell(value))


def _is_series(value: Any) -> bool:
    return hasattr(value, "__array__") and np.ndim(value) == 1 and np.asarray(value).dtype != object


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that are not empty."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if any(cell(row.get(name)) for row in rows)]


def _more(rows: Sequence[Any]) -> list[str]:
    return [f"… and {len(rows) - MOST} more, in .rows"] if len(rows) > MOST else []
