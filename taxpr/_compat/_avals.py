"""Properties of avals: extended dtypes, weak types, memory spaces, tangent types."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jax._src.lax import lax as _lax
from jax._src.state import types as _state_types

ShapedArray = jax.core.ShapedArray
AbstractRef = _state_types.AbstractRef
device_memory: Any = ShapedArray((), jnp.float32).memory_space


def memory_space_of(atom: Any) -> Any:
    """The memory space of a variable or literal."""
    return atom.aval.memory_space


def is_extended(dtype: Any) -> bool:
    """Whether a dtype has no arithmetic, such as that of PRNG keys."""
    return jnp.issubdtype(dtype, jax.dtypes.extended)


def key_impl(dtype: Any) -> str:
    """The name of the implementation of a PRNG key dtype."""
    return dtype._impl.name


def tangent_aval(aval: Any) -> Any:
    """The aval of the tangent of a value; its dtype is float0 if the value has none."""
    return aval.to_tangent_aval()


def strong(aval: Any) -> Any:
    """The aval without its weak type."""
    return aval.update(weak_type=False) if getattr(aval, "weak_type", False) else aval


def with_weak_type(x: Any, weak: bool) -> Any:
    """``x`` with the given weak type; its dtype stays."""
    if bool(getattr(jax.typeof(x), "weak_type", False)) == weak:
        return x
    if not weak:
        return jax.lax.convert_element_type(x, jax.typeof(x).dtype)
    return jax.lax.convert_element_type_p.bind(
        x, new_dtype=jax.typeof(x).dtype, weak_type=True, sharding=None
    )


def copied(x: Any) -> Any:
    """A copy of ``x`` in a buffer of its own."""
    return _lax.copy_p.bind(x)
