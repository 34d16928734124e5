"""Arrays of two runs as arrays of NumPy that can be compared."""

from typing import Any

import jax

from taxpr import _compat
from taxpr._untyped import np


def words(x: Any) -> Any:
    """The words of keys; another array as it is."""
    return jax.random.key_data(x) if _compat.is_extended(x.dtype) else x


def comparable(x: Any) -> Any:
    """An array of NumPy in a type that can be compared."""
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def apart(a: Any, b: Any) -> Any:
    """How far two arrays of numbers are apart; exactly for integers."""
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        left, right = (x.astype(np.uint64) for x in (a, b))  # differences are right modulo 2**64
        return np.where(a > b, left - right, right - left)
    return np.abs(np.subtract(a, b, dtype=np.result_type(a, b, np.float64)))
