"""One flat input of a call, as a value or as its type, checked against the trace."""

from typing import Any

import jax
import numpy as np

from taxpr import _compat
from taxpr._compat import Array, Aval
from taxpr._errors import ArgumentError, a_type
from taxpr._jaxprs.trees import to_array


def as_input(program: str, name: str, leaf: Any, aval: Aval, donated: bool) -> Array:
    """A leaf of the arguments as the value that the program takes.

    Args:
        program: The program's name.
        name: The name of the input.
        leaf: The leaf.
        aval: The type of the input when the program was traced.
        donated: Whether the program donates inputs.

    Raises:
        ArgumentError: If it is no array, or of another shape or dtype.
    """
    if _compat.is_ref(aval):
        return _ref(program, name, leaf, aval)
    try:
        array = to_array(leaf)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{program}: the argument {name} is {a_type(leaf)}, which is no array."
        ) from None
    if (array.shape, array.dtype) != (aval.shape, aval.dtype):
        raise ArgumentError(
            f"{program} was traced with {name}: {aval.str_short()} and was called with "
            f"{jax.typeof(array).str_short()}. Convert it, or trace again."
        )
    array = _compat.with_weak_type(array, aval.weak_type)
    return _off_device(array) if donated and not isinstance(leaf, jax.Array) else array


def _ref(program: str, name: str, leaf: Any, aval: Aval) -> Array:
    """An argument that was a Ref when the program was traced."""
    try:
        found = jax.typeof(leaf)
    except TypeError:
        found = type(leaf).__name__
    if found != aval:
        raise ArgumentError(
            f"{program} was traced with {name}: {aval.str_short()} and was called with "
            f"{found if isinstance(found, str) else found.str_short()}. Give a Ref of that type, "
            "or trace again."
        )
    return leaf


def _off_device(array: Array) -> Any:
    """The value as a NumPy array, so that each inner jit that donates it gets its own buffer.

    The function itself would be called with a number or NumPy array here, too.
    """
    if _compat.is_tracer(array):
        return array
    if jax.typeof(array).weak_type:  # which an array of NumPy cannot have
        return array if array.ndim else array.item()
    return np.asarray(array)


def placed_sharding(leaf: Any) -> Any:
    """The sharding of an argument that was put on devices, or of its type; else None."""
    if _compat.is_tracer(leaf):
        return None
    placed = not isinstance(leaf, jax.Array) or getattr(leaf, "committed", False)
    return getattr(leaf, "sharding", None) if placed else None


def mesh_sharding(leaf: Any) -> Any:
    """The same, if the argument is on a mesh of several devices."""
    sharding = placed_sharding(leaf)
    return sharding if is_on_mesh(sharding) else None


def is_on_mesh(sharding: Any) -> bool:
    """Whether a sharding has a mesh of several devices."""
    return isinstance(sharding, jax.sharding.NamedSharding) and sharding.mesh.size > 1


def on_devices(aval: Any, sharding: Any) -> Any:
    """A type with a sharding, if that has devices."""
    if sharding is None or not isinstance(sharding.mesh, jax.sharding.Mesh):
        return aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)


def input_struct(program: str, name: str, leaf: Any, aval: Aval) -> Any:
    """The type of an argument; of an array that was put on devices with these; a Ref as it is.

    Raises:
        ArgumentError: If it is of another shape or dtype.
    """
    if _compat.is_ref(aval):
        return leaf
    has_type = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    known: Any = leaf if has_type else to_array(leaf)
    dtype: Any = known.dtype
    if type(known) is np.ndarray:  # of which JAX takes what it has
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    if (known.shape, dtype) != (aval.shape, aval.dtype):
        raise ArgumentError(
            f"{program} was traced with {name}: {aval.str_short()} and was called with "
            f"{known.dtype}{list(known.shape)}. Convert it, or trace again."
        )
    sharding: Any = None if leaf is aval else placed_sharding(leaf)
    weak: Any = {"weak_type": True} if aval.weak_type else {}
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, **weak)
