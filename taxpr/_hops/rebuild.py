"""What several entries need in order to rebuild an equation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._errors import RefusedError
from taxpr._hops.protocol import Emission, Thread, Threaded
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._jaxprs.splice import without
from taxpr._jaxprs.zeros import zeros_of
from taxpr._primitives.tag import is_tag


def tags_in(thread: Thread, label: str) -> str:
    """The selected tags in a nested jaxpr, the first ones, for messages."""
    tags = thread.selected(label)
    return ", ".join(tags[:3]) + (f" and {len(tags) - 3} more" if len(tags) > 3 else "")


def refuse_refs(what: str, thread: Thread, threaded: Threaded, eqn: _compat.JaxprEqn) -> None:
    """Raise where an injector in there closes over a Ref.

    JAX does not trace the solve of a custom_linear_solve that writes to a Ref, and does not compile
    a custom_jvp that does. In a custom_vjp it would be possible, and is not done.
    """
    if any(isinstance(jax.typeof(x), _compat.AbstractRef) for x in threaded.hoisted[1]):
        source = _compat.source_of(eqn)
        raise RefusedError(
            f"inject: an injector at a tag in {thread.address}"
            + (f" ({source})" if source else "")
            + f" closes over a Ref, and {what} has a rule of its own for derivatives, which knows "
            "nothing of the Ref. Carry the value in the ctx instead of the Ref, or give "
            'custom_rules="drop" to do without the rule.'
        )


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=("leaves", "fired"), meta_fields=("size",)
)
@dataclasses.dataclass(frozen=True)
class Slots:
    """A value emitted for the first iterations of while loops, not only for the last one.

    It stands in `Emission.value` in place of the leaves of the token. Each loop around the tag
    adds a leading axis: a scan one of its length, a while loop one of ``size``.

    Attributes:
        leaves: The leaves of the token, with those axes.
        fired: Bool, of the shape of those axes: where the tag fired.
        size: How many iterations of a while loop are kept.
    """

    leaves: list[Any]
    fired: Any
    size: int


def counted(emission: Emission) -> Emission:
    """The emission with its count written out."""
    fired = jnp.int32(1) if emission.fired is None else emission.fired
    return emission._replace(value=list(emission.value), fired=fired)


def never(emission: Emission) -> Emission:
    """The emission, given as avals, of a run in which the tag did not fire."""
    fired = jnp.int32(0) if emission.fired is None else zeros_of(emission.fired)
    return emission._replace(value=jax.tree.map(zeros_of, emission.value), fired=fired)


def before_loop(emission: Emission) -> Emission:
    """What a while loop begins with, for a body that emits these avals."""
    begun = never(emission)
    value = [_with_slots(x) if isinstance(x, Slots) else x for x in begun.value]
    return begun._replace(value=value)


def _with_slots(one: Slots) -> Slots:
    return jax.tree.map(lambda x: zeros_of(x, one.size), one)


def slotted(emission: Emission) -> bool:
    """Whether the values of iterations are kept apart."""
    return any(isinstance(x, Slots) for x in emission.value)


def later(old: Emission, new: Emission, index: Any) -> Emission:
    """The emission of a while loop after one more run, the one with the number ``index``.

    It is the last value, or all of those for which there are slots; and the sum of counts.
    """
    new = counted(new)
    count = old.fired + new.fired
    if not slotted(new):
        return new._replace(value=select(new.fired > 0, new.value, old.value), fired=count)
    value = [_put(into, x, index) for into, x in zip(old.value, new.value, strict=True)]
    return new._replace(value=value, fired=count)


def _put(into: Slots, one: Slots, index: Any) -> Slots:
    # Iterations for which there is no slot are dropped.
    return jax.tree.map(lambda slots, x: slots.at[index].set(x, mode="drop"), into, one)


def select(pred: Any, on_true: Sequence[Any], on_false: Sequence[Any]) -> list[Any]:
    """Choose element by element; ``pred`` has the leading axes of the values."""

    def one(true: Any, false: Any) -> Any:
        wide = pred.reshape(pred.shape + (1,) * (true.ndim - pred.ndim))
        out = jnp.where(wide, true, false)
        return _compat.with_weak_type(out, jax.typeof(false).weak_type)

    return [one(true, false) for true, false in zip(on_true, on_false, strict=True)]


def untagged(eqn: _compat.JaxprEqn) -> _compat.JaxprEqn:
    """The equation without the tags in its jaxprs, for a derivative, which they do not mark."""

    def kept(position: int, inner: _compat.JaxprEqn) -> _compat.JaxprEqn | None:
        del position
        return None if is_tag(inner) else untagged(inner)

    replaceable = [nested for nested in nested_jaxprs(eqn) if nested.param is not None]
    new = {nested.label: without(nested.stored, kept) for nested in replaceable}
    changed = any(new[nested.label] is not nested.stored for nested in replaceable)
    return replace_nested(eqn, new) if changed else eqn
