"""Arrays of two runs as arrays of NumPy that can be compared."""

from typing import Any

import jax
import jax.numpy as jnp

from taxpr._untyped import np


def numbers(x: Any) -> Any:
    """An array of NumPy that can be compared; keys as their words."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def apart(a: Any, b: Any) -> Any:
    """How far two arrays of numbers are apart; exactly for integers."""
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        left, right = (x.astype(np.uint64) for x in (a, b))  # differences are right modulo 2**64
        return np.where(a > b, left - right, right - left)
    return np.abs(np.subtract(a, b, dtype=np.result_type(a, b, np.float64)))
