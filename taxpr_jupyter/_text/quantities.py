"""Sizes of values, and numbers with their units, as people read them."""

from __future__ import annotations

import math
from typing import Any

_UNITS = ("", "k", "M", "G", "T", "P", "E")


def quantity(number: float, unit: str) -> str:
    """Three digits, and the unit with a prefix.

    Example:
        >>> quantity(65536, "FLOP")
        '65.5 kFLOP'
    """
    step = 0
    while number >= 999.5 and step < len(_UNITS) - 1:
        number, step = number / 1000, step + 1
    return f"{number:.3g} {_UNITS[step]}{unit}".rstrip()


def size(aval: Any) -> int:
    """How many elements a value has; 0 for what is no array.

    Raises:
        TypeError: Its shape is not known before it runs.
    """
    shape = getattr(aval, "shape", None)
    number = 0 if shape is None else math.prod(shape)
    if not isinstance(number, int):
        raise TypeError(f"the size of {aval} is not known before it runs")
    return number


def n_bytes(aval: Any) -> int:
    """How many bytes a value takes; 0 for what is no array, and for a Ref, which is a place.

    Raises:
        TypeError: Its shape is not known before it runs.
    """
    dtype = getattr(aval, "dtype", None)
    if dtype is None or is_ref(aval):
        return 0
    return size(aval) * getattr(dtype, "itemsize", 0)


def is_ref(aval: Any) -> bool:
    """Whether it is a Ref: memory that is read and written in place."""
    return hasattr(aval, "inner_aval")
