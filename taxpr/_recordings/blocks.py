"""Statistics of many finite numbers by NumPy, in blocks that stay in the processor's caches."""

from __future__ import annotations

import math
from typing import Any

import numpy

np: Any = numpy  # which leaves types of arrays unknown

MANY = 1 << 12  # fewer numbers are done as quickly as a whole, together with other rows
_BLOCK = 1 << 14
_SHORT = 1 << 13  # so few numbers NumPy multiplies without threads, for which they are too few
_LEAST, _MOST = 1e-140, 1e140  # whose squares and sums have no overflow
_READY = "float32", "float64"  # whose least and greatest number NumPy finds quickly


def numbers(row: Any, bins: int) -> list[float] | None:
    """Mean, standard deviation, least, greatest, norm, share of zeros, and the histogram.

    None where a number is not finite, or squares of them are not.

    Args:
        row: The numbers, which are real.
        bins: How many bins the histogram has.
    """
    row = row if row.dtype.name in _READY else row.astype(np.float64)
    low, high = float(row.min()), float(row.max())
    most = max(abs(low), abs(high))
    if not (most == 0 or _LEAST < most < _MOST):  # nor is NaN
        return None
    total = squares = 0.0
    zeros, width = 0, (high - low if high > low else 1.0) / bins
    counts = np.zeros(bins + 1, np.int64)
    pairs: Any = 0  # how often each two bins are those of two numbers side by side
    held = np.empty(min(_BLOCK, row.size), np.float64)
    at = np.empty(held.size, np.uint8)
    for begin in range(0, row.size, _BLOCK):
        block = row[begin : begin + _BLOCK]
        above = np.subtract(block, low, out=held[: block.size], dtype=np.float64)
        total += float(above.sum())
        for some in above[:_SHORT], above[_SHORT:]:
            squares += float(some.dot(some))
        if low <= 0 <= high:
            zeros += int(np.count_nonzero(block == 0))
        above /= width
        np.copyto(at[: block.size], above, casting="unsafe")
        if block.size == _BLOCK:
            pairs = pairs + np.bincount(at.view(np.uint16), minlength=256 * (bins + 1))
        else:
            counts += np.bincount(at[: block.size], minlength=bins + 1)
    if row.size >= _BLOCK:
        pairs = pairs.reshape(bins + 1, 256)
        counts += pairs.sum(1) + pairs.sum(0)[: bins + 1]
    counts[bins - 1] += counts[bins]  # the greatest
    # The least number is one of them, so that their variance and their norm are not small beside
    # its distance from the others, and little is lost.
    mean = low + total / row.size
    variance = max(squares - total * total / row.size, 0.0) / row.size
    norm = math.sqrt(max(squares + 2 * low * total + row.size * low * low, 0.0))
    return [mean, math.sqrt(variance), low, high, norm, zeros / row.size, *counts[:bins].tolist()]
