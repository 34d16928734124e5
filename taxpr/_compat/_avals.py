"""Properties of avals: extended dtypes, weak types, memory spaces, tangent types."""

from typing import Any

import jax
import jax.numpy as jnp

from taxpr._compat._private import private
from taxpr._compat._types import AbstractValue, Array, Atom, Aval, DType, ShapedArray

_lax = private("lax.lax")
_state_types = private("state.types")

device_memory: Any = ShapedArray((), jnp.dtype(jnp.float32)).memory_space


def aval_of(atom: Atom) -> Aval:
    """The aval of a variable or literal that is an array."""
    aval: Any = atom.aval
    return aval


def memory_space_of(atom: Atom) -> Any:
    """The memory space of a variable or literal."""
    return aval_of(atom).memory_space


def is_ref(aval: AbstractValue) -> bool:
    """Whether it is the type of a Ref: memory that is read and written in place.

    Args:
        aval: The type of a value.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import is_ref, trace
        >>> [is_ref(aval) for aval in trace(jnp.sin)(1.0).in_avals]
        [False]
    """
    return not isinstance(aval, ShapedArray) and isinstance(aval, _state_types.AbstractRef)


def ref_to(aval: Aval) -> Any:
    """The type of a Ref that holds a value of this type."""
    return _state_types.AbstractRef(aval)


def is_extended(dtype: DType) -> bool:
    """Whether a dtype has no arithmetic, as the dtype of PRNG keys."""
    return jnp.issubdtype(dtype, jax.dtypes.extended)


def key_impl(dtype: DType) -> str:
    """The name of the implementation of a PRNG key dtype."""
    extended: Any = dtype
    return extended._impl.name


def finite_range(dtype: DType) -> tuple[float, float]:
    """The minimum and maximum finite number of a floating dtype."""
    untyped: Any = jnp
    held = untyped.finfo(dtype)
    return float(held.min), float(held.max)


def tangent_aval(aval: Aval) -> Aval:
    """The aval of the tangent of a value; its dtype is float0 if the value has none."""
    return aval.to_tangent_aval()


def strong(aval: Aval) -> Aval:
    """The aval without its weak type."""
    return aval.update(weak_type=False) if getattr(aval, "weak_type", False) else aval


def with_weak_type(x: Array, weak: bool) -> Array:
    """``x`` with the given weak type; its dtype stays."""
    if bool(getattr(jax.typeof(x), "weak_type", False)) == weak:
        return x
    if not weak:
        return jax.lax.convert_element_type(x, jax.typeof(x).dtype)
    convert_p: Any = jax.lax.convert_element_type_p
    return convert_p.bind(x, new_dtype=jax.typeof(x).dtype, weak_type=True, sharding=None)


def copied(x: Array) -> Array:
    """A copy of ``x`` in a buffer of its own."""
    return _lax.copy_p.bind(x)


def type_text(leaf: Array | Aval) -> str:
    """Dtype and shape, such as ``float32[2,3]``."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
