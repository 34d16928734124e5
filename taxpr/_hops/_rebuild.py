"""What several entries need in order to rebuild an equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._rules import Emission
from taxpr._zeros import zeros


def counted(emission: Emission) -> Emission:
    """The emission with its count written out."""
    fired = jnp.int32(1) if emission.fired is None else emission.fired
    return Emission(list(emission.value), fired)


def never(emission: Emission) -> Emission:
    """The emission, given as avals, of a run in which the tag did not fire."""
    fired = _like(emission.fired) if emission.fired is not None else jnp.int32(0)
    return Emission([_like(aval) for aval in emission.value], fired)


def _like(aval: Any) -> Any:
    """Zeros of a type; in a shard_map that includes the mesh axes over which it varies."""
    return _compat.pvary(zeros(aval.shape, aval.dtype), sorted(_compat.varying(aval)))


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
