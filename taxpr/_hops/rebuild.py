"""Helpers shared by the entries: emissions, their values by iteration, and refusals."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, Aval
from taxpr._errors import ArgumentError, RefusedError
from taxpr._hops.protocol import Emission, Thread
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._jaxprs.splice import without
from taxpr._jaxprs.zeros import zeros_of
from taxpr._primitives.tag_equation import is_tag


def wrong_entry(eqn: _compat.JaxprEqn, what: str) -> ArgumentError:
    """The error for a fault in the entry of another library."""
    where = _compat.source_note(_compat.source_of(eqn))
    return ArgumentError(f"register_hop: the entry of {eqn.primitive.name}{where}: {what}.")


def types_of(avals: Sequence[Aval]) -> list[tuple[object, object]]:
    """Shapes and dtypes, to be compared."""
    return [(getattr(a, "shape", None), getattr(a, "dtype", None)) for a in avals]


def shown(avals: Sequence[Aval]) -> str:
    """The types for people."""
    return ", ".join(aval.str_short() for aval in avals) or "nothing"


def tags_in(thread: Thread, label: str | None = None) -> str:
    """The first selected tags in a nested jaxpr, or in all of the equation, for messages."""
    tags = thread.selected(label)
    return ", ".join(tags[:3]) + (f" and {len(tags) - 3} more" if len(tags) > 3 else "")


def refuse_refs(what: str, thread: Thread, consts: Sequence[Array]) -> None:
    """Raise if an injector closes over a Ref, which is then among the hoisted consts.

    JAX cannot trace a custom_linear_solve whose solve writes to a Ref, nor compile such a
    custom_jvp. For a custom_vjp it would be possible, but is not implemented.
    """
    if any(_compat.is_ref(jax.typeof(x)) for x in consts):
        raise RefusedError(
            f"inject: an injector at {tags_in(thread) or 'a tag'}, in {thread.place}, closes over "
            f"a Ref, and {what} has a derivative rule, which does not cover the Ref. Carry the "
            'value in the ctx instead of the Ref, or give custom_rules="drop" to drop the rule.'
        )


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=("leaves", "fired"), meta_fields=("size",)
)
@dataclasses.dataclass(frozen=True)
class Slots:
    """The values of a tag for the first ``size`` iterations of while loops, not only the last.

    `Emission.value` has this instead of the leaves of the value. Each loop around the tag adds a
    leading axis: a scan of its length, a while loop of ``size``.

    Attributes:
        leaves: The leaves of the value, with the leading axes.
        fired: Bool, of the shape of the leading axes: whether the tag fired in each iteration.
        size: The number of iterations kept of each while loop.
    """

    leaves: list[Array]
    fired: Array
    size: int


def counted(emission: Emission) -> Emission:
    """The emission with an explicit count: one, if the tag fires on every run."""
    return emission._replace(value=list(emission.value), fired=_count(emission))


def _count(emission: Emission) -> Array:
    return jnp.int32(1) if emission.fired is None else emission.fired


def never(emission: Emission) -> Emission:
    """The emission if the tag does not fire: zeros. Takes and replaces avals."""
    fired = jnp.int32(0) if emission.fired is None else zeros_of(emission.fired)
    return emission._replace(value=jax.tree.map(zeros_of, emission.value), fired=fired)


def before_loop(emission: Emission) -> Emission:
    """The initial carry of a while loop for a body that emits these avals."""
    begun = never(emission)
    value = [_with_slots(x) if isinstance(x, Slots) else x for x in begun.value]
    return begun._replace(value=value)


def _with_slots(one: Slots) -> Slots:
    return _compat.map_leaves(lambda x: zeros_of(x, one.size), one)


def slotted(emission: Emission) -> bool:
    """Whether the emission keeps the values of single iterations."""
    return any(isinstance(x, Slots) for x in emission.value)


def later(old: Emission, new: Emission, index: Array | None) -> Emission:
    """Combine the emission of a while loop so far with the emission of iteration ``index``.

    Adds the counts. Keeps the last value that fired, or with `Slots` the value of each iteration.
    """
    fired = _count(new)
    count = _count(old) + fired
    if not slotted(new):
        return new._replace(value=select(fired > 0, new.value, old.value), fired=count)
    value = [_put(into, x, index) for into, x in zip(old.value, new.value, strict=True)]
    return new._replace(value=value, fired=count)


def _put(into: Slots, one: Slots, index: Array | None) -> Slots:
    # Drop iterations beyond the last slot.
    return _compat.map_pairs(lambda slots, x: slots.at[index].set(x, mode="drop"), into, one)


def select(pred: Array, on_true: Sequence[Array], on_false: Sequence[Array]) -> list[Array]:
    """Choose element by element; ``pred`` has the leading axes of the values."""

    def one(true: Array, false: Array) -> Array:
        wide = pred.reshape(pred.shape + (1,) * (true.ndim - pred.ndim))
        out = jnp.where(wide, true, false)
        return _compat.with_weak_type(out, jax.typeof(false).weak_type)

    return [one(true, false) for true, false in zip(on_true, on_false, strict=True)]


def untagged(eqn: _compat.JaxprEqn) -> _compat.JaxprEqn:
    """The equation without the tags in its jaxprs. Used for derivatives: a tag marks the primal."""

    def kept(position: int, inner: _compat.JaxprEqn) -> _compat.JaxprEqn | None:
        del position
        return None if is_tag(inner) else untagged(inner)

    replaceable = [nested for nested in nested_jaxprs(eqn) if nested.param is not None]
    new = {nested.label: without(nested.stored, kept) for nested in replaceable}
    changed = any(new[nested.label] is not nested.stored for nested in replaceable)
    return replace_nested(eqn, new) if changed else eqn
