"""The leading axes of kept values: loops, mesh axes, and batch axes of loops."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._devices.fetched import fetched
from taxpr._hops.places import addresses_of
from taxpr._hops.table import nested_jaxprs
from taxpr._recordings.part import KeptValue
from taxpr._sites.values import Value
from taxpr._untyped import jnp, np

# The loops and mesh axes around a jaxpr, outermost first, with their lengths.
Level = tuple[tuple[str, int], ...]

UNTOLD = (
    "In loops under jax.vmap, iterations that single examples did not run are not told apart in "
    "{names}."
)


def placed(array: Any, axes: Sequence[str], level: Level) -> Any:
    """An array with leading axes that are some of a level's, with all of them: 1 long if new.

    In a while loop it may have other iterations, as the condition has one more than the body.
    """
    for k, (name, length) in enumerate(level):
        if name not in axes:
            array = np.expand_dims(array, k)
        elif array.shape[k] > length:
            array = array.take(range(length), k)
        elif array.shape[k] < length:
            pads = [(0, 0)] * array.ndim
            pads[k] = 0, length - array.shape[k]
            array = np.pad(array, pads)
    return array


def batched_condition(eqn: Any, address: Address) -> str | None:
    """The address of the condition of a while loop that `jax.vmap` has batched; else None."""
    for nested in nested_jaxprs(eqn):
        if nested.out_roles == ("predicate",):
            [atom] = nested.jaxpr.outvars
            if getattr(atom.aval, "shape", ()):
                return addresses_of(nested.stored, address / nested.label).get(id(atom))
    return None


def conditions(values: Iterable[Value]) -> dict[str, str]:
    """The batched conditions of the loops around values, by address."""
    found: dict[str, str] = {}
    for value in values:
        home = Address()
        for step in value.steps:
            address = home / step.local
            if step.is_while and (condition := batched_condition(step.eqn, address)):
                found[address] = condition
            home = address / step.nested.label
    return found


def batch_axes_of(
    value: Value, mapped: Sequence[int] | None, batched: Mapping[str, Value]
) -> tuple[int, ...] | None:
    """The axes of a value that are batch axes of loops around it, the outermost first.

    Empty without such a loop, and None if they cannot be told.

    Args:
        value: The value.
        mapped: The axes that `jax.vmap` has put into it; None where that is not known.
        batched: By the addresses of loops, their batched conditions.
    """
    home, around = Address(), list[Value]()
    for step in value.steps:
        address = home / step.local
        around += [batched[address]] if address in batched else []
        home = address / step.nested.label
    if mapped is None and any(set(shape_of(one)) <= set(shape_of(value)) for one in around):
        return None
    if not around or not mapped:
        return ()
    # A condition has the axis of the outermost `jax.vmap` first, and ``mapped`` has it last.
    outer = tuple(reversed(mapped))
    sizes = tuple(shape_of(value)[k] for k in outer)
    return outer if all(shape_of(one) == sizes for one in around) else None


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a value."""
    aval: Any = value.aval
    return aval.shape


def with_batch_axes(
    kept: KeptValue,
    value: Value,
    outer: Sequence[int],
    batched: Mapping[str, tuple[str, KeptValue]],
) -> KeptValue:
    """A kept value with the batch axes of its loops among its leading axes.

    Args:
        kept: A kept value: all of it, or statistics of each batch element.
        value: The value.
        outer: Its batch axes, as `batch_axes_of` gives them.
        batched: By the address of a loop, the address of its condition and the condition's values.

    Returns:
        The same; values are zero if a batch element had ended.
    """
    around = [(name, *batched[name]) for name in kept.axes if name in batched]
    n = len(kept.axes)
    names = tuple(f"vmap {k}" for k in reversed(range(len(outer))))
    of = jnp if isinstance(kept.value, jax.Array) else np
    moved, lead = None, np.shape(kept.table)[:-1]
    if kept.value is not None:
        moved = of.moveaxis(kept.value, [n + k for k in outer], range(n, n + len(outer)))
        lead = moved.shape[: n + len(outer)]
    level = tuple(zip(kept.axes, lead, strict=False))
    fired = np.ones(lead, bool)
    if kept.fired is not None:
        fired &= kept.fired.reshape(kept.fired.shape + (1,) * len(outer))
    for name, condition, one in around:
        goes_on, axis = fetched(one.value), one.axes.index(name)
        if value.address.startswith(f"{Address(condition).home}/"):  # where it has ended, too
            goes_on = np.moveaxis(goes_on, axis, 0)
            goes_on = np.concatenate([np.ones_like(goes_on[:1]), goes_on[:-1]])
            goes_on = np.moveaxis(goes_on, 0, axis)
        fired &= placed(goes_on, one.axes, level)
    own = tuple(size for k, size in enumerate(kept.shape) if k not in outer)
    if moved is not None and not _compat.is_extended(kept.dtype):
        wide = fired.reshape(fired.shape + (1,) * len(own))
        moved = of.where(wide, moved, of.zeros((), moved.dtype))
    fired = None if fired.all() else fired
    return dataclasses.replace(kept, axes=kept.axes + names, shape=own, value=moved, fired=fired)
