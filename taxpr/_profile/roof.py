"""The most that a device can do: operations and bytes each second, measured once."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from taxpr._untyped import jax as _jax

_RUNS = 5  # of which the fastest counts
_SIDES = {"cpu": (256, 512, 1024)}  # of matrices
_LARGE_SIDES = 2048, 4096, 8192  # on other devices
_SIZES = {"cpu": (1 << 18, 1 << 20, 1 << 22, 1 << 24)}  # elements of arrays that are copied
_LARGE_SIZES = 1 << 22, 1 << 25, 1 << 28
_COPIED = 1 << 24  # elements at least that one measurement copies


class Roof(NamedTuple):
    """The most that a device can do.

    Attributes:
        flops: Operations each second in a matmul, by dtype.
        bytes: Bytes read and written each second by a copy, by how many it reads and writes: small
            arrays lie in a cache.
    """

    flops: Mapping[str, float]
    bytes: Mapping[int, float]

    def least(self, flops: Mapping[str, int], moved: int) -> float:
        """The seconds that so many operations and bytes take at least.

        Args:
            flops: The operations, by the type of the numbers.
            moved: The bytes.

        Example:
            >>> roof = Roof({"float32": 1e9}, {1000: 4e8, 10000: 1e8})
            >>> roof.least({"float32": 1000}, 1000), roof.least({"float32": 1000}, 10000)
            (2.5e-06, 0.0001)
        """
        computing = sum(number / self.flops[dtype] for dtype, number in flops.items())
        fitting = [size for size in self.bytes if size <= moved] or [min(self.bytes)]
        return max(computing, moved / self.bytes[max(fitting)])


def roof_of(device: Any, dtypes: tuple[str, ...]) -> Roof:
    """The roof of a device; what was measured in this process is not measured again.

    Args:
        device: The device.
        dtypes: The types of numbers of matrices.
    """
    return Roof({one: _peak(device, one) for one in dtypes}, _bandwidth(device))


@functools.cache
def _peak(device: Any, dtype: str) -> float:
    found: list[float] = []
    for side in _SIDES.get(device.platform, _LARGE_SIDES):
        x = _jax.device_put(_jax.numpy.ones((side, side), dtype), device)
        found.append(2 * side**3 / _fastest(_square, x))
    return max(found)


@functools.cache
def _bandwidth(device: Any) -> Mapping[int, float]:
    found: dict[int, float] = {}
    for size in _SIZES.get(device.platform, _LARGE_SIZES):
        x = _jax.device_put(_jax.numpy.ones(size, "float32"), device)
        times = max(4, _COPIED // size)
        seconds = _fastest(functools.partial(_copies, times=times), x)
        found[2 * x.nbytes] = 2 * x.nbytes * times / seconds
    # What a device does with a large array it can do with each part of it.
    sizes = list(found)
    return {size: max(found[one] for one in sizes[k:]) for k, size in enumerate(sizes)}


@_jax.jit
def _square(x: Any) -> Any:
    return x @ x


@functools.partial(_jax.jit, static_argnames="times")
def _copies(x: Any, times: int) -> Any:
    return _jax.lax.fori_loop(0, times, lambda _, x: -x, x)  # pyright: ignore


def _fastest(run: Callable[[Any], Any], x: Any) -> float:
    _jax.block_until_ready(run(x))
    times: list[float] = []
    for _ in range(_RUNS):
        begun = time.perf_counter()
        _jax.block_until_ready(run(x))
        times.append(time.perf_counter() - begun)
    return min(times)
