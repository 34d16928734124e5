"""How often a value is kept, its axes of loops and devices, and how large all of it is."""

import math
from collections.abc import Sequence
from typing import Any

from taxpr import _compat
from taxpr._sites.values import Value
from taxpr._untyped import jnp, np

# Elements of a value, over all iterations, which an equation that XLA does not optimize makes in
# the milliseconds that it then compiles faster.
_FEW = 1 << 17
# So many calls of NumPy take as long as XLA does to compile statistics.
_CALLS = 256


def type_of(value: Value) -> Any:
    """The aval of a value, which is an array."""
    return value.aval


def whiles(value: Value) -> int:
    """How many while loops are around a value."""
    return sum(step.is_while for step in value.steps)


def axes_of(value: Value, mesh: Sequence[str]) -> tuple[str, ...]:
    """The loops around a value, by their addresses, and the mesh axes over which it differs."""
    axes: list[str] = []
    home = ""
    for step in value.steps:
        address = f"{home}{step.local}"
        axes += [address] if step.is_loop else []
        if step.eqn.primitive is _compat.shard_map_p:
            axes += [f"mesh {name}" for name in _compat.manual_sizes(step.eqn) if name in mesh]
        home = f"{address}/{step.nested.label}/"
    return tuple(axes)


def times_kept(value: Value, steps: int) -> int:
    """How often a value is kept, at most."""
    times = 1
    for step in value.steps:
        if step.is_loop:
            trips = step.nested.trips
            times *= trips if isinstance(trips, int) else steps
        if step.eqn.primitive is _compat.shard_map_p:
            times *= math.prod(_compat.manual_sizes(step.eqn).values())
    return times


def bytes_of(value: Value, steps: int) -> int:
    """How large what is kept of a value is, at most."""
    itemsize = 8 if _compat.is_extended(type_of(value).dtype) else type_of(value).dtype.itemsize
    return times_kept(value, steps) * math.prod(type_of(value).shape) * itemsize


def are_small(values: Sequence[Value], steps: int) -> bool:
    """Whether XLA saves more time by optimizing nothing than the run takes longer by it."""
    elements = (times_kept(one, steps) * math.prod(type_of(one).shape) for one in values)
    return sum(elements) <= _FEW * len(values)


def few_calls(value: Value) -> bool:
    """Whether NumPy may be called for a value whenever it is computed."""
    itself = np.dtype(type_of(value).dtype)
    is_known = itself.kind in "biufc" or itself == jnp.bfloat16
    is_some = math.prod(type_of(value).shape) > 0
    return is_known and is_some and not whiles(value) and times_kept(value, 1) <= _CALLS


def in_whiles(value: Value, axes: Sequence[str]) -> list[bool]:
    """For each axis whether it belongs to a while loop."""
    loops = iter([step.is_while for step in value.steps if step.is_loop])
    return [not name.startswith("mesh ") and next(loops) for name in axes]
