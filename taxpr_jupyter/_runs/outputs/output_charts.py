"""Small charts of the outputs of a run: what is in an array, before and after, at one glance."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from taxpr_jupyter._runs.outputs.array_diff import ArrayDifference, by_interest
from taxpr_jupyter._runs.outputs.distances import is_far, is_key

MOST = 5  # outputs that have a chart: these are shown at first
POINTS = 64  # of a line
BINS = 24
_SAMPLE = 2**16  # elements of a large array that are looked at, evenly spaced
_LEAST = 4  # elements that are worth a chart


class OutputChart(NamedTuple):
    """An array as a line (of one axis) or as a histogram, without and with the changes.

    Attributes:
        kind: ``"line"`` or ``"bars"``.
        before: Heights without the changes, 0 to 1; None where nothing of a line is finite.
        after: Heights with the changes, on the same scale.
        low: The least number: of the vertical axis of a line, of the horizontal one of bars.
        high: The greatest one.
    """

    kind: Literal["line", "bars"]
    before: list[float | None]
    after: list[float | None]
    low: float
    high: float


def output_charts(
    rows: Iterable[ArrayDifference], arrays: Mapping[str, tuple[Any, Any]]
) -> dict[str, OutputChart]:
    """Charts of the outputs that a user looks at first.

    Args:
        rows: The differences of the outputs.
        arrays: Each output without and with the changes, by name; None if one side has none.
    """
    shown = [row.name for row in by_interest(rows) if not row.scalar][:MOST]
    charts = {name: output_chart(*arrays[name]) for name in shown}
    return {name: chart for name, chart in charts.items() if chart is not None}


def output_chart(before: Any, after: Any) -> OutputChart | None:
    """The chart of one output; None if it holds no real numbers, or only few.

    Example:
        >>> chart = output_chart(np.arange(4.0), 2 * np.arange(4.0))
        >>> chart.kind, chart.before, chart.after, chart.high
        ('line', [0.0, 0.167, 0.333, 0.5], [0.0, 0.333, 0.667, 1.0], 6.0)
    """
    first, second = (_numbers(one) for one in (before, after))
    if first is None or second is None or min(first.size, second.size) < _LEAST:
        return None
    finite = np.concatenate([first[np.isfinite(first)], second[np.isfinite(second)]])
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    is_line = before.ndim == after.ndim == 1
    if is_line:
        old, new = _line(first, low, high), _line(second, low, high)
    else:
        old, new = _bars(first, second, low, high)
    return OutputChart("line" if is_line else "bars", old, new, low, high)


def _numbers(value: Any) -> np.ndarray | None:
    """Elements as float64, of a large array a sample; None without real numbers."""
    if value is None or is_key(value) or value.dtype == jax.dtypes.float0:
        return None
    every = max(1, value.size // _SAMPLE)
    array = np.asarray(value.reshape(-1)[::every] if is_far(value) else value)
    if array.dtype.kind not in "iufbV" or (array.dtype.kind == "V" and array.dtype.names):
        return None
    return array.reshape(-1)[:: 1 if is_far(value) else every].astype(np.float64)


def _line(numbers: np.ndarray, low: float, high: float) -> list[float | None]:
    """At most `POINTS` means of neighbours, from 0 to 1; None if no neighbour is finite."""
    parts = np.array_split(numbers, min(POINTS, numbers.size))
    known = [part[np.isfinite(part)] for part in parts]
    return [
        _rounded(_shares(np.array([part.mean()]), low, high))[0] if part.size else None
        for part in known
    ]


def _bars(
    before: np.ndarray, after: np.ndarray, low: float, high: float
) -> tuple[list[float | None], list[float | None]]:
    old, new = (
        np.histogram(_shares(one[np.isfinite(one)], low, high), BINS, (0, 1))[0] / max(1, one.size)
        for one in (before, after)
    )
    most = max(old.max(), new.max()) or 1.0
    return _rounded(old / most), _rounded(new / most)


def _shares(numbers: np.ndarray, low: float, high: float) -> np.ndarray:
    """Where numbers are between two others, 0 to 1; the width of these may exceed all floats."""
    width = high / 2 - low / 2
    return (numbers / 2 - low / 2) / width if width else np.full(numbers.shape, 0.5)


def _rounded(numbers: np.ndarray) -> list[float | None]:
    return [round(float(number), 3) for number in numbers]
