"""`by_parts`: each device reduces its own part of a value.

XLA decides after the trace which device has which part, if the mesh axes are automatic. So it asks
back when it knows that, and devices exchange nothing for the reduction.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from taxpr import _compat
from taxpr._compat import Array
from taxpr._untyped import jnp, lax, np

_DEVICE = "device"


def by_parts(
    of: Callable[[Array], Array], mesh: Mesh, batch: Sequence[int] = ()
) -> Callable[[Array], Array]:
    """A function of a value: its reductions on all devices, on a leading axis.

    If several devices have the same part, the first one has its reduction, the others have zeros.
    If the parts are not all of one size, XLA gathers the value.

    Args:
        of: The reduction; a zero means nothing to it.
        mesh: The mesh that the program runs on; the value is outside of a `jax.shard_map`.
        batch: The batch axes of the value. The reduction leaves them, and they come first in its
            result. A device has zeros for batch elements of which it has no part.
    """
    line = Mesh(mesh.devices.ravel(), (_DEVICE,))
    in_rows = NamedSharding(line, PartitionSpec(_DEVICE))

    def alone(x: Array) -> Array:
        first = of(x)[None]
        return jnp.concatenate([first, jnp.zeros((line.size - 1, *first.shape[1:]), first.dtype)])

    def partition(mesh: Any, given: Any, result: Any) -> Any:
        del mesh, result
        [value] = given
        sharding = _of_equal_parts(value) or NamedSharding(line, PartitionSpec())
        parts = [*sharding.devices_indices_map(value.shape).values()]
        places = list(map(str, parts))
        is_first = np.array([one not in places[:k] for k, one in enumerate(places)])
        begins = np.array([[one[k].start or 0 for k in batch] for one in parts], np.int32)

        def part(x: Array) -> Array:
            with _compat.under_no_mesh():
                device = lax.axis_index(_DEVICE)
                found = jnp.where(jnp.asarray(is_first)[device], of(x), 0)
                whole = [value.shape[k] for k in batch]
                if found.shape[: len(batch)] != (*whole,):
                    zeros = jnp.zeros((*whole, *found.shape[len(batch) :]), found.dtype)
                    at = [*jnp.asarray(begins)[device], *[np.int32(0)] * (found.ndim - len(batch))]
                    found = lax.dynamic_update_slice(zeros, found, at)
                return found[None]

        return line, part, in_rows, (sharding,)

    def rows_are_divided(mesh: Any, given: Any, result: Any) -> Any:
        del mesh, given, result
        return in_rows

    reduction: Any = custom_partitioning(alone)
    reduction.def_partition(
        partition,
        infer_sharding_from_operands=rows_are_divided,
        decode_shardings=False,
        sharding_rule=_no_common_axes,
    )

    def run(x: Array) -> Array:
        here = _compat.mesh_here()
        rows = NamedSharding(mesh if here.empty else here, PartitionSpec(mesh.axis_names))
        return lax.with_sharding_constraint(reduction(x), rows)

    return run


def _of_equal_parts(value: Any) -> Any:
    """The sharding of a value; None where its last part is smaller, or it is not known."""
    try:
        value.sharding.shard_shape(value.shape)
    except (ValueError, AttributeError):
        return None
    return value.sharding


def _no_common_axes(mesh: Any, given: Any, results: Any) -> str:
    """How axes of the value and of the result belong together: not at all."""
    del mesh, given
    return "... -> " + " ".join(f"own{k}" for k in range(len(results[0].shape)))
