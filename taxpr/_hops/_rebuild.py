"""What several entries need in order to rebuild an equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._rules import Emission, nested_jaxprs, replace_nested
from taxpr._splice import rewired, substituted
from taxpr._tag import is_tag
from taxpr._zeros import zeros


def counted(emission: Emission) -> Emission:
    """The emission with its count written out."""
    fired = jnp.int32(1) if emission.fired is None else emission.fired
    return Emission(list(emission.value), fired)


def never(emission: Emission) -> Emission:
    """The emission, given as avals, of a run in which the tag did not fire."""
    shape = () if emission.fired is None else emission.fired.shape
    return Emission(
        [zeros(aval.shape, aval.dtype) for aval in emission.value], jnp.zeros(shape, jnp.int32)
    )


def later(old: Emission, new: Emission) -> Emission:
    """The emission of two runs one after the other: the last value, the sum of counts."""
    new = counted(new)
    fired = new.fired > 0
    return Emission(select(fired, new.value, old.value), old.fired + new.fired)


def select(pred: Any, on_true: Sequence[Any], on_false: Sequence[Any]) -> list[Any]:
    """Choose element by element; ``pred`` has the leading axes of the values."""

    def one(true: Any, false: Any) -> Any:
        wide = pred.reshape(pred.shape + (1,) * (true.ndim - pred.ndim))
        out = jnp.where(wide, true, false)
        return _compat.with_weak_type(out, jax.typeof(false).weak_type)

    return [one(true, false) for true, false in zip(on_true, on_false, strict=True)]


def untagged(eqn: _compat.JaxprEqn) -> _compat.JaxprEqn:
    """The equation without the tags in its jaxprs, for a derivative, which they do not mark."""
    replaceable = [nested for nested in nested_jaxprs(eqn) if nested.param is not None]
    new = {nested.label: _without_tags(nested.stored) for nested in replaceable}
    changed = any(new[nested.label] is not nested.stored for nested in replaceable)
    return replace_nested(eqn, new) if changed else eqn


def _without_tags(stored: Any) -> Any:
    inner = _compat.open_jaxpr(stored)
    now: dict[Any, Any] = {}
    eqns = []
    for eqn in inner.eqns:
        if is_tag(eqn):
            now.update(zip(eqn.outvars, substituted(eqn.invars, now), strict=True))
        else:
            eqns.append(rewired(untagged(eqn), now))
    same = len(eqns) == len(inner.eqns) and all(
        new is old for new, old in zip(eqns, inner.eqns, strict=True)
    )
    if same:
        return stored
    return _compat.rebuilt(stored, eqns=eqns, outvars=substituted(inner.outvars, now))
