"""Statistics of many finite numbers by NumPy, in blocks that stay in the processor's caches."""

from __future__ import annotations

import math
from typing import Any

import numpy

np: Any = numpy  # which leaves types of arrays unknown

MANY = 1 << 12  # fewer numbers are done as quickly as a whole, together with other rows
_BLOCK = 1 << 14
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
    about = float(row[:_BLOCK].mean(dtype=np.float64))
    total = squares = 0.0
    zeros, width = 0, (high - low if high > low else 1.0) / bins
    counts = np.zeros(bins + 1, np.int64)
    held = np.empty(min(_BLOCK, row.size), np.float64)
    for begin in range(0, row.size, _BLOCK):
        block = row[begin : begin + _BLOCK]
        apart = np.subtract(block, about, out=held[: block.size], dtype=np.float64)
        total += float(apart.sum())
        squares += float(np.einsum("i,i->", apart, apart))  # without threads, for which it is short
        if low <= 0 <= high:
            zeros += int(np.count_nonzero(block == 0))
        part = np.subtract(block, low, out=apart, dtype=np.float64)
        part /= width
        counts += np.bincount(part.astype(np.intp), minlength=bins + 1)
    counts[bins - 1] += counts[bins]  # the greatest
    # Both are of numbers near ``about``, so that little is lost where the mean is large.
    mean = about + total / row.size
    variance = max(squares - total * total / row.size, 0.0) / row.size
    norm = math.sqrt(max(squares + 2 * about * total + row.size * about * about, 0.0))
    return [mean, math.sqrt(variance), low, high, norm, zeros / row.size, *counts[:bins].tolist()]
