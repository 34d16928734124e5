"""`by_numpy`: a function of a value, which NumPy computes while a compiled program runs on a CPU.

XLA compiles statistics of a value for as long as dozens of equations. A call of NumPy compiles in
the time of one, and the value is gone after it.
"""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._compat import Array, OneResult
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp, np

by_numpy_p = OneResult("by_numpy")


def by_numpy(of: Callable[[Any, Any], Any], x: Array) -> Array:
    """The result of a function of a value: by NumPy on a CPU, by XLA elsewhere.

    Args:
        of: The function, of an array and of NumPy or `jax.numpy`. The shape and dtype are those of
            `jax.numpy`.
        x: The value.
    """
    aval = _jax.eval_shape(functools.partial(_by_jax, of), x)
    _worker()
    made = by_numpy_p.bind(x, of=of, shape=aval.shape, dtype=aval.dtype)
    return lax.bitcast_convert_type(made, aval.dtype) if _is_wide(aval.dtype) else made


def _is_wide(dtype: Any) -> bool:
    """Whether results come as pairs of 32 bits.

    JAX narrows results of a callback in a thread of XLA, where `jax.enable_x64` is not in force.
    """
    return np.dtype(dtype).itemsize == 8


@functools.cache
def _worker() -> ThreadPoolExecutor:
    """A thread of NumPy's own: XLA takes the least numbers for zeros in its threads.

    A thread begins with the mode of its maker, so the first call comes before a program runs.
    """
    pool = ThreadPoolExecutor(1, "by_numpy")
    pool.submit(int).result()
    return pool


def _by_host(x: Any, *, of: Callable[[Any, Any], Any], shape: tuple[int, ...], dtype: Any) -> Any:
    found = _worker().submit(of, np.asarray(x), np).result()
    with np.errstate(over="ignore"):  # of a norm, in float32
        found = np.asarray(found, dtype).reshape(shape)
    return found[..., None].view(np.uint32) if _is_wide(dtype) else found


def _by_jax(of: Callable[[Any, Any], Any], x: Array) -> Array:
    return of(x, jnp)


def _by_xla(x: Array, *, of: Callable[[Any, Any], Any], shape: tuple[int, ...], dtype: Any) -> Any:
    del shape
    found = _by_jax(of, x)
    return lax.bitcast_convert_type(found, np.uint32) if _is_wide(dtype) else found


def _types(x: Any, *, of: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    del x, of
    pairs = _is_wide(dtype)
    return _compat.ShapedArray((*shape, 2) if pairs else shape, np.uint32 if pairs else dtype)


_compat.define(by_numpy_p, impl=_by_xla, types=_types)
_compat.run_by_host(by_numpy_p, _by_host)
