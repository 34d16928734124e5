"""`by_numpy`: a function of a value, which NumPy computes while a compiled program runs on a CPU.

XLA compiles statistics of a value for as long as dozens of equations. A call of NumPy compiles in
the time of one, and the value is gone after it.
"""

import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
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
    if _tasks() is None:
        return _by_jax(of, x)
    made = by_numpy_p.bind(x, of=of, shape=aval.shape, dtype=aval.dtype)
    return lax.bitcast_convert_type(made, aval.dtype) if _is_wide(aval.dtype) else made


def _is_wide(dtype: Any) -> bool:
    """Whether results come as pairs of 32 bits.

    JAX narrows results of a callback in a thread of XLA, where `jax.enable_x64` is not in force.
    """
    return np.dtype(dtype).itemsize == 8


@functools.cache
def _tasks() -> queue.SimpleQueue[Any] | None:
    """The tasks of a thread for NumPy: in XLA's own threads the least numbers are taken for zeros.

    None if Python is exiting and starts no more threads, as 3.12 does. A thread begins with the
    mode of its maker, so the first call comes before a program runs. A `ThreadPoolExecutor` takes
    no tasks while Python exits, and a program may run then, too.
    """
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        threading.Thread(target=_serve, args=(tasks,), name="by_numpy", daemon=True).start()
    except RuntimeError:
        return None
    return tasks


def _serve(tasks: queue.SimpleQueue[Any]) -> None:
    while True:
        of, x, answer = tasks.get()
        try:
            answer.set_result(of(x, np))
        except BaseException as error:  # raised where the answer is waited for
            answer.set_exception(error)
        del of, x, answer  # the value may be large, and the next task come late


def _by_host(x: Any, *, of: Callable[[Any, Any], Any], shape: tuple[int, ...], dtype: Any) -> Any:
    answer: Future[Any] = Future()
    tasks = _tasks()
    assert tasks is not None  # there was one when the program was traced
    tasks.put((of, np.asarray(x), answer))
    found = answer.result()
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
