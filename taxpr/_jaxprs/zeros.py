"""Zeros of any dtype."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat


def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of zeros; for a PRNG key dtype, keys whose data is zero.

    Of float0, the dtype of tangents of integers, JAX itself takes NumPy arrays.
    """
    if dtype == jax.dtypes.float0:
        return np.zeros(shape, dtype)
    if not _compat.is_extended(dtype):
        return jnp.zeros(shape, dtype)
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
    impl = _compat.key_impl(dtype)
    return jax.random.wrap_key_data(jnp.zeros(data.shape, data.dtype), impl=impl)


def zeros_of(aval: Any, *leading: int) -> Any:
    """Zeros of the type of an aval, or of an array, with more axes in front.

    In a shard_map the mesh axes over which it varies belong to the type, and so does the sharding
    where mesh axes are explicit.
    """
    out = zeros((*leading, *aval.shape), aval.dtype)
    if aval.dtype == jax.dtypes.float0:
        return out
    out = _compat.resharded(out, aval, len(leading))
    return _compat.pvary(out, sorted(_compat.varying(aval)))
