"""The ready injectors.

Each parameter is a traced leaf of the context: changing it never compiles again. To
write one's own, see `taxpr.injector`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._errors import InjectorError
from taxpr._injector import InjectorKind, Param, injector
from taxpr._walk import Site
from taxpr._zeros import zeros

# A buffer that holds every firing is made when it takes no more than this; else `record`
# keeps the last one.
_RECORD_BYTES = 64 * 2**20


def _each(name: str, token: Any, fn: Callable[[Any], Any]) -> Any:
    def one(x: Any) -> Any:
        if _compat.is_extended(x.dtype) or x.dtype == bool:
            raise InjectorError(
                f"{name}: the token is a {x.dtype}, on which there is no arithmetic."
            )
        return fn(x)

    return jax.tree.map(one, token)


def _fitted(name: str, parameter: str, value: Any, x: Any) -> Any:
    """A parameter in the token's dtype; refused where that could change its value.

    An integer that the token cannot hold was refused when it was given; one that came into
    the context later is brought into the token's range.
    """
    value = jnp.asarray(value)
    if _rank(value.dtype) > max(_rank(x.dtype), 1):
        raise InjectorError(
            f"{name}: {parameter} is {value.dtype} and the token is {x.dtype}. Converting would "
            f"change its value: give {parameter} in a dtype that the token can hold."
        )
    if jnp.issubdtype(value.dtype, jnp.integer) and jnp.issubdtype(x.dtype, jnp.integer):
        held, given = jnp.iinfo(x.dtype), jnp.iinfo(value.dtype)
        low, high = max(held.min, given.min), min(held.max, given.max)
        value = jnp.clip(value, jnp.asarray(low, value.dtype), jnp.asarray(high, value.dtype))
    return value.astype(x.dtype)


def _rank(dtype: Any) -> int:
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return next(i for i, kind in enumerate(kinds) if jnp.issubdtype(dtype, kind))


@injector(value=Param(0.0, -10.0, 10.0, "What takes the place of the token."))
def replace(token: Any, value: Any) -> Any:
    """Put a value in the token's place: a scalar, or a tree of the token's structure."""
    single = jax.tree.structure(value) == jax.tree.structure(0)
    values = jax.tree.map(lambda _: value, token) if single else value

    def one(x: Any, new: Any) -> Any:
        if _compat.is_extended(x.dtype):
            return jnp.broadcast_to(new, x.shape)
        new = _fitted("replace", "value", new, x)
        try:
            return jnp.broadcast_to(new, x.shape)
        except ValueError:
            raise InjectorError(
                f"replace: the value has shape {new.shape} and the token {x.shape}."
            ) from None

    return jax.tree.map(one, token, values)


@injector(factor=Param(1.0, -2.0, 2.0, "What the token is multiplied by."))
def scale(token: Any, factor: Any) -> Any:
    """Multiply the token."""
    return _each("scale", token, lambda x: x * _fitted("scale", "factor", factor, x))


@injector(value=Param(0.0, -10.0, 10.0, "What is added to the token."))
def add(token: Any, value: Any) -> Any:
    """Add to the token."""
    return _each("add", token, lambda x: x + _fitted("add", "value", value, x))


@injector()
def zero(token: Any) -> Any:
    """Replace the token by zeros."""
    return jax.tree.map(lambda x: zeros(x.shape, x.dtype), token)


@injector(
    low=Param(-1.0, -10.0, 10.0, "The smallest value let through."),
    high=Param(1.0, -10.0, 10.0, "The largest value let through."),
)
def clip(token: Any, low: Any, high: Any) -> Any:
    """Hold the token between two bounds."""

    def one(x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise InjectorError("clip: the token is complex, and complex numbers have no order.")
        return jnp.clip(x, _fitted("clip", "low", low, x), _fitted("clip", "high", high, x))

    return _each("clip", token, one)


@injector(state=lambda site: 0, report=lambda state: {"count": state})
def count(token: Any, state: Any) -> tuple[Any, Any]:
    """Count how often the tag fires."""
    return token, state + 1


# ---- record ------------------------------------------------------------------


def _slots(site: Site, slots: int | None) -> dict[str, Any]:
    avals = jax.tree.leaves(site.avals)
    if slots is None:
        size = sum(aval.size * getattr(aval.dtype, "itemsize", 8) for aval in avals)
        trips = site.trips
        fits = trips is not None and trips * size <= _RECORD_BYTES
        slots = max(trips, 1) if fits and trips is not None else 1
    buffers = jax.tree.map(lambda aval: zeros((slots, *aval.shape), aval.dtype), site.avals)
    return {"values": buffers, "count": jnp.int32(0)}


def _recorded(state: Any) -> dict[str, Any]:
    """The kept values in the order in which they came, and how many came."""
    fired, buffers = int(state["count"]), state["values"]
    leaves = jax.tree.leaves(buffers)
    slots = leaves[0].shape[0] if leaves else fired
    first = fired % slots if fired > slots else 0
    values = jax.tree.map(
        lambda buffer: jnp.roll(buffer, -first, axis=0)[: min(fired, slots)], buffers
    )
    return {"count": state["count"], "values": values}


@injector(state=_slots, report=_recorded, options={"slots": None})
def record(token: Any, state: Any) -> tuple[Any, Any]:
    """Keep the values of the token, the last ones where there are more than slots."""

    def put(buffer: Any, x: Any) -> Any:
        slot = jax.lax.rem(state["count"], jnp.int32(buffer.shape[0]))
        # Where shardings are types, the buffer is on all devices.
        update = _compat.resharded(jnp.expand_dims(x, 0), jax.typeof(buffer))
        return jax.lax.dynamic_update_slice_in_dim(buffer, update, slot, 0)

    buffers = jax.tree.map(put, state["values"], token)
    return token, {"values": buffers, "count": state["count"] + 1}


# ---- stats -------------------------------------------------------------------

_NO_STATS = {
    "count": 0,
    "elements": 0,
    "mean": 0.0,
    "squares": 0.0,
    "min": jnp.inf,
    "max": -jnp.inf,
    "nonfinite": 0,
}


def _reported(state: Any) -> dict[str, Any]:
    elements = jnp.maximum(state["elements"], 1).astype(state["mean"].dtype)
    variance = state["squares"] / elements
    norm = jnp.sqrt(state["squares"] + elements * state["mean"] ** 2)
    shown = {name: state[name] for name in ("count", "mean", "min", "max", "nonfinite")}
    return {**shown, "std": jnp.sqrt(variance), "norm": norm}


@injector(state=lambda site: dict(_NO_STATS), report=_reported)
def stats(token: Any, state: Any) -> tuple[Any, Any]:
    """Keep mean, std, min, max, norm and the number of non-finite values of all firings.

    Non-finite values are counted and left out of the rest. Complex numbers enter by
    their absolute value. All but the counts is computed in float32, or float64 where that is
    enabled: integers beyond 2**24 are rounded, and squares beyond the range are infinite.
    """
    state = {**state, "count": state["count"] + 1}
    for x in jax.tree.leaves(token):
        state = _with_seen(state, x)
    return token, state


def _with_seen(state: dict[str, Any], x: Any) -> dict[str, Any]:
    if _compat.is_extended(x.dtype):
        raise InjectorError(f"stats: the token is a {x.dtype}, on which there is no arithmetic.")
    x = jnp.abs(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x
    x = x.astype(state["mean"].dtype)
    finite = jnp.isfinite(x)
    # Chan's formula for joining the moments of two samples.
    total = state["elements"] + jnp.sum(finite, dtype=state["elements"].dtype)
    n, before = jnp.sum(finite, dtype=x.dtype), state["elements"].astype(x.dtype)
    mean = jnp.sum(jnp.where(finite, x, 0)) / jnp.maximum(n, 1)
    squares = jnp.sum(jnp.where(finite, x - mean, 0) ** 2)
    delta, share = mean - state["mean"], n / jnp.maximum(before + n, 1)
    return {
        **state,
        "elements": total,
        "mean": state["mean"] + delta * share,
        "squares": state["squares"] + squares + delta**2 * before * share,
        "min": jnp.minimum(state["min"], jnp.min(x, where=finite, initial=jnp.inf)),
        "max": jnp.maximum(state["max"], jnp.max(x, where=finite, initial=-jnp.inf)),
        "nonfinite": state["nonfinite"] + jnp.sum(~finite, dtype=state["nonfinite"].dtype),
    }


def ready_injectors() -> dict[str, InjectorKind]:
    """The ready injectors by name, in the order in which a menu shows them."""
    kinds = (scale, replace, add, zero, clip, record, stats, count)
    return {kind.name: kind for kind in kinds}
