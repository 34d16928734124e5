"""Zeros of any dtype, including PRNG keys and float0."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat
from taxpr._compat import Array, Aval, DType
from taxpr._untyped import jax as _jax

_LARGE, _ALIGNED = 2**20, 64  # bytes


def zeros(shape: tuple[int, ...], dtype: DType) -> Array:
    """An array of zeros; for a PRNG key dtype, keys whose data is zero.

    For float0, the dtype of tangents of integers, a NumPy array, as JAX itself uses.
    """
    if dtype == jax.dtypes.float0:
        none: Any = np.zeros(shape, dtype)
        return none
    if not _compat.is_extended(dtype):
        unread = _unread(shape, dtype)
        return jnp.zeros(shape, dtype) if unread is None else unread
    data = _jax.eval_shape(_jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
    impl = _compat.key_impl(dtype)
    return jax.random.wrap_key_data(jnp.zeros(data.shape, data.dtype), impl=impl)


def _unread(shape: tuple[int, ...], dtype: DType) -> Array | None:
    """Large zeros on the CPU, in memory that the system fills when something reads it.

    A buffer for values is written and never read, and to fill 200 MB takes longer than most
    programs. None for all else.
    """
    number = math.prod(shape) * np.dtype(dtype).itemsize
    if number < _LARGE or isinstance(one := jnp.zeros((), dtype), _jax.core.Tracer):
        return None
    if {device.platform for device in one.devices()} != {"cpu"}:
        return None
    # JAX takes over memory that begins at a multiple of 64 bytes, and copies other.
    memory = np.zeros(number + _ALIGNED, np.uint8)
    begin = -memory.ctypes.data % _ALIGNED
    return _jax.device_put(memory[begin : begin + number].view(one.dtype).reshape(shape))


def zeros_of(aval: Array | Aval, *leading: int) -> Array:
    """Zeros of the type of an aval or array, with leading axes of the sizes ``leading``.

    The type includes the mesh axes over which the value varies in a shard_map, and the sharding
    along explicit mesh axes.
    """
    out = zeros((*leading, *aval.shape), aval.dtype)
    if aval.dtype == jax.dtypes.float0:
        return out
    out = _compat.resharded(out, aval, len(leading))
    return _compat.pvary(out, sorted(_compat.varying(aval)))
