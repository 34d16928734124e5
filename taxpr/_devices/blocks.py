"""Arrays by the parts that each process has, and numbers of all of them together.

So nothing is gathered: each process fetches its own parts, and they tell each other few numbers.
"""

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from taxpr._devices.agreed import agreed
from taxpr._devices.devices_of import processes_of
from taxpr._devices.fetched import fetched, on_all_devices
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_K = TypeVar("_K", bound=Hashable)


class Block(NamedTuple):
    """A part of some arrays, at one place in all of them.

    Attributes:
        at: Where it begins and ends, on each axis of the first.
        parts: The part of each, as an array of NumPy.
    """

    at: tuple[slice, ...]
    parts: tuple[Any, ...]


class Processes:
    """The processes that have parts of some arrays; in most cases it is this one alone.

    All of them call its methods, and each gets the same result.

    Args:
        arrays: The arrays.
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        of_jax = (x for x in arrays if isinstance(x, jax.Array))
        found = processes_of(device for x in of_jax for device in x.devices())
        self._processes = tuple(sorted(found or {jax.process_index()}))

    def blocks(self, *arrays: Any) -> list[Block]:
        """The parts of arrays that this process compares; no two processes have the same.

        Arrays that XLA has divided in different ways are fetched whole.

        Args:
            arrays: Arrays of as many axes, of the same size where they are divided.
        """
        layouts = [_layout(x) for x in arrays]
        divided = [k for k, one in enumerate(layouts) if one is not None]
        if divided and all(layouts[k] == layouts[divided[0]] for k in divided):
            first = arrays[divided[0]]
            own = [one for one in first.addressable_shards if one.replica_id == 0]
            shards = [
                {one.device: one.data for one in x.addressable_shards}
                if k in divided
                else fetched(x)
                for k, x in enumerate(arrays)
            ]
            return [
                Block(
                    one.index,
                    tuple(
                        np.asarray(
                            of[one.device] if k in divided else of[_within(one.index, first)]
                        )
                        for k, of in enumerate(shards)
                    ),
                )
                for one in own
            ]
        whole = tuple(map(fetched, arrays))
        is_first = self._processes[0] == jax.process_index() or len(self._processes) == 1
        return [Block((slice(None),) * whole[0].ndim, whole)] if is_first else []

    def everyones(self, what: str, own: Mapping[_K, Any]) -> list[dict[_K, Any]]:
        """The small arrays that each process gives; all have the same keys, types and shapes."""
        if len(self._processes) == 1:
            return [dict(own)]
        arrays = {key: np.asarray(x) for key, x in own.items()}
        text = b"".join(x.tobytes() for x in arrays.values())
        agreed(self._processes, f"{what}, {len(arrays)} arrays of {len(text)} bytes")
        if not text:
            return [arrays] * len(self._processes)
        rows = by_process(np.frombuffer(text, np.uint8), self._processes)
        ends = list(itertools.accumulate((x.nbytes for x in arrays.values()), initial=0))
        return [
            {
                key: np.frombuffer(row[start:end].tobytes(), x.dtype).reshape(x.shape)
                for (key, x), start, end in zip(arrays.items(), ends, ends[1:], strict=False)
            }
            for row in np.asarray(on_all_devices(_same, [rows])[0])
        ]

    def joined(
        self, what: str, own: Mapping[_K, Any], how: Callable[[Any, Any], Any]
    ) -> dict[_K, Any]:
        """The numbers of all processes as one, such as their sums."""
        each = self.everyones(what, own)
        return {key: functools.reduce(how, (one[key] for one in each)) for key in own}

    def some(self, what: str, here: bool) -> bool:
        """Whether something is so on one of the processes."""
        return agreed(self._processes, what, 0 if here else 1) == 0


def by_process(own: Any, processes: Sequence[int]) -> jax.Array:
    """An array on a device of each of some processes, with a row for each; this one's is given."""
    mesh = _mesh_of_processes(tuple(processes))
    rows = NamedSharding(mesh, PartitionSpec("process"))
    [device] = mesh.local_devices
    part = _jax.device_put(own[None], device)
    return jax.make_array_from_single_device_arrays((mesh.size, *own.shape), rows, [part])


@functools.cache
def _mesh_of_processes(processes: tuple[int, ...]) -> Mesh:
    first: dict[int, Any] = {one.process_index: one for one in reversed(_jax.devices())}
    return Mesh(np.array([first[one] for one in processes]), ("process",))


def by_blocks(of: Callable[..., Any], x: Any, *others: Any) -> Any:
    """A new array, divided as another one; a function makes its parts.

    Args:
        of: A function of the place where a part begins, and the parts, arrays of NumPy. It may be
            called for a part on each device that has it, and must then return the same.
        x: The array.
        others: More that are divided alike.
    """
    if not isinstance(x, jax.Array):
        return of((0,) * np.ndim(x), x, *others)
    if len(x.devices()) == 1:
        new = of((0,) * x.ndim, *map(np.asarray, (x, *others)))
        return _jax.device_put(new, x.sharding) if x.committed else _jax.numpy.asarray(new)
    shards = [{one.device: one.data for one in each.addressable_shards} for each in (x, *others)]
    parts = [
        _jax.device_put(
            of(_begin(one.index, x), *(np.asarray(each[one.device]) for each in shards)), one.device
        )
        for one in x.addressable_shards
    ]
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, parts)


def _layout(x: Any) -> Any:
    """Which part of an array each device has; None where each has all."""
    if not isinstance(x, jax.Array) or len(x.devices()) == 1 or x.is_fully_replicated:
        return None
    each = x.sharding.devices_indices_map(x.shape)
    return {
        device: tuple(
            None if part.indices(n)[:2] == (0, n) else part.indices(n)[:2]
            for part, n in zip(index, x.shape, strict=True)
        )
        for device, index in each.items()
    }


def _within(at: tuple[slice, ...], of: Any) -> tuple[slice, ...]:
    """A place in an array, for one that may be longer on axes that are not divided."""
    return tuple(
        slice(None) if part.indices(n)[:2] == (0, n) else part
        for part, n in zip(at, of.shape, strict=True)
    )


def _begin(at: tuple[slice, ...], x: Any) -> tuple[int, ...]:
    return tuple(one.indices(n)[0] for one, n in zip(at, x.shape, strict=True))


def _same(arrays: list[Any]) -> list[Any]:
    return arrays
