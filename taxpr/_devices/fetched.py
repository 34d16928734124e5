"""Fetch arrays into NumPy, also if other processes have parts of them; nothing else does so."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from taxpr._devices.agreed import agreed
from taxpr._devices.devices_of import processes_of
from taxpr._errors import ArgumentError
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_AT_ONCE = 1 << 26  # bytes that a device has of an array beside its part, while it is fetched


def is_shared(x: object) -> bool:
    """Whether other processes have parts of an array that this one has not."""
    return isinstance(x, jax.Array) and not (x.is_fully_addressable or x.is_fully_replicated)


def refuse_closed_over(name: str, arrays: Iterable[Any]) -> None:
    """Raise if a function closes over an array of several processes; JAX compiles no such function.

    Args:
        name: The name of the function.
        arrays: The arrays that it closes over.

    Raises:
        ArgumentError: If other processes have parts of one.
    """
    for x in arrays:
        if is_shared(x):
            raise ArgumentError(
                f"{name} closes over an array, {x.dtype}{list(x.shape)}, of which other processes "
                "have parts. JAX compiles a function with it only if it is an argument, as in "
                "lambda w, x: loss(w, x)."
            )


def fetched(x: Any) -> Any:
    """An array of NumPy with all elements, on each process that has a part; keys as their words.

    All processes that share an array must ask for it. It comes in pieces, so that no device
    needs memory for the whole.
    """
    if isinstance(x, jax.Array) and _jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    if not is_shared(x):
        return np.asarray(x)
    agreed(processes_of(x.sharding.device_set), f"the value of an array {x.dtype}{list(x.shape)}")
    part = x.sharding.shard_shape(x.shape)
    # Along an axis that is not divided a piece is taken on each device.
    whole = [k for k, n in enumerate(x.shape) if part[k] == n]
    axis = max(whole, key=lambda k: x.shape[k], default=0)
    long = x.shape[axis] if whole else 1
    size = max(_AT_ONCE * long // max(x.nbytes, 1), 1)
    if size >= long:
        return np.asarray(on_all_devices(_same, [x])[0])
    found = np.empty(x.shape, x.dtype)
    for start in range(0, long, size):
        start = min(start, long - size)
        [piece] = on_all_devices(_piece(axis, size), [x], np.int32(start))
        found[(*(slice(None),) * axis, slice(start, start + size))] = np.asarray(piece)
    return found


def block_at(x: Any, index: Sequence[int]) -> Any:
    """The part of an array at an index of its first axes; nothing else is fetched."""
    if not isinstance(x, jax.Array):
        return x[tuple(index)]
    [found] = on_all_devices(_block, [x], tuple(np.int32(k) for k in index))
    return found if _jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(found)


def fetched_together(arrays: Sequence[Any]) -> list[Any]:
    """Small arrays of one run, as `fetched` gives them; processes wait for each other once."""
    shared = [x for x in arrays if is_shared(x)]
    if shared:
        processes = processes_of(shared[0].sharding.device_set)
        agreed(processes, f"the values of {len(shared)} arrays")
    whole = iter(on_all_devices(_same, shared) if shared else ())
    return [np.asarray(next(whole) if is_shared(x) else x) for x in arrays]


def on_all_devices(
    fun: Callable[..., list[Any]], arrays: Sequence[jax.Array], *rest: Any
) -> list[Any]:
    """The results of a function of a list of shared arrays, whole on each of their devices.

    XLA computes them where the parts are. All arrays belong to one program. JAX keeps
    the compiled function, so `fun` must live on.
    """
    given = [_on_automatic_axes(x) for x in arrays]
    meshes = [x.sharding.mesh for x in given if isinstance(x.sharding, NamedSharding)]
    first: Any = given[0]
    mesh = meshes[0] if meshes else _line(first)
    with _jax.set_mesh(mesh):
        return _compiled(fun, mesh)(given, *rest)


@functools.lru_cache(maxsize=256)
def _compiled(fun: Callable[..., list[Any]], mesh: Mesh) -> Any:
    return _jax.jit(fun, out_shardings=NamedSharding(mesh, PartitionSpec()))


def _line(x: Any) -> Mesh:
    """The devices of an array without a known mesh, in their order."""
    return Mesh(np.array(list(x.sharding.devices_indices_map(x.shape))), ("device",))


def _on_automatic_axes(x: Any) -> Any:
    """The same array, of the same buffers, for a function that knows nothing of explicit axes."""
    old = x.sharding
    if not isinstance(old, NamedSharding) or AxisType.Explicit not in old.mesh.axis_types:
        return x
    mesh: Any = old.mesh
    automatic = Mesh(mesh.devices, mesh.axis_names)
    new = NamedSharding(automatic, old.spec, memory_kind=old.memory_kind)
    parts = [one.data for one in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, new, parts)


def _same(arrays: list[Any]) -> list[Any]:
    return arrays


def _block(arrays: list[Any], index: tuple[Any, ...]) -> list[Any]:
    return [x[index] for x in arrays]


@functools.cache
def _piece(axis: int, size: int) -> Callable[..., list[Any]]:
    def run(arrays: list[Any], start: Any) -> list[Any]:
        return [lax.dynamic_slice_in_dim(x, start, size, axis) for x in arrays]

    return run


def put(x: Any, sharding: Any) -> Any:
    """A NumPy array that each process has whole, with a sharding."""
    if sharding.is_fully_addressable:
        return _jax.device_put(x, sharding)
    return jax.make_array_from_callback(x.shape, sharding, lambda at: x[at])


def lies_on(x: Any, index: Sequence[int], was: Any = None) -> tuple[str, int | None]:
    """The device that has an element of an array, and its process if there are several.

    The device is told by its place on the axes of the mesh along which the array is divided, such
    as ``"d=5"``, or by its number; it is empty where all devices have the element.

    Args:
        x: The array.
        index: The place of the element.
        was: The sharding that it had, if it is an array of NumPy now.
    """
    sharding: Any = x.sharding if isinstance(x, jax.Array) and was is None else was
    if sharding is None or len(sharding.device_set) == 1 or sharding.is_fully_replicated:
        return "", None
    devices = [
        device
        for device, parts in sharding.devices_indices_map(x.shape).items()
        if all(_is_in(k, part, n) for k, part, n in zip(index, parts, x.shape, strict=True))
    ]
    first = devices[0]
    process = first.process_index if jax.process_count() > 1 else None
    if not isinstance(sharding, NamedSharding):
        return f"{first.platform}:{first.id}", process
    mesh: Any = sharding.mesh
    at = [np.argwhere(mesh.devices == one)[0] for one in devices]
    same = [
        f"{name}={at[0][k]}"
        for k, name in enumerate(mesh.axis_names)
        if math.prod(mesh.devices.shape[k : k + 1]) > 1 and len({int(one[k]) for one in at}) == 1
    ]
    return ", ".join(same), process


def _is_in(index: int, part: slice, size: int) -> bool:
    start, stop, _ = part.indices(size)
    return start <= index < stop
