"""Sizes of values, and numbers with units such as `65.5 kFLOP`."""

import math
from typing import Any

from taxpr import _compat

_UNITS = ("", "k", "M", "G", "T", "P", "E")
_SMALL = ("", "m", "µ", "n")  # of seconds


def quantity(number: float, unit: str) -> str:
    """Write a number with three digits and a unit prefix.

    Args:
        number: The number.
        unit: The unit, such as ``"B"``.

    Example:
        >>> quantity(65536, "FLOP"), quantity(0.00123, "s")
        ('65.5 kFLOP', '1.23 ms')
    """
    if unit == "s":
        step = next((k for k in range(len(_SMALL)) if number * 1000**k >= 1), 0)
        return f"{number * 1000**step:.3g} {_SMALL[step]}s"
    step = 0
    while number >= 999.5 and step < len(_UNITS) - 1:
        number, step = number / 1000, step + 1
    return f"{number:.3g} {_UNITS[step]}{unit}".rstrip()


def size(aval: Any) -> int:
    """The number of elements of a value; 0 if it is no array.

    Raises:
        TypeError: If its shape is known only at run time.
    """
    shape = getattr(aval, "shape", None)
    number: Any = 0 if shape is None else math.prod(shape)
    if not isinstance(number, int):
        raise TypeError(f"the size of {aval} is not known before it runs")
    return number


def n_bytes(aval: Any) -> int:
    """The number of bytes of a value; 0 if it is no array or is a Ref.

    Args:
        aval: The type of the value.

    Raises:
        TypeError: If its shape is known only at run time.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import n_bytes, trace
        >>> n_bytes(trace(jnp.sin)(jnp.ones(3)).in_avals[0])
        12
    """
    dtype = getattr(aval, "dtype", None)
    if dtype is None or _compat.is_ref(aval):
        return 0
    return size(aval) * getattr(dtype, "itemsize", 0)
