"""Convert what a user gives as a PRNG key."""

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._errors import InjectorError


def one_key(name: str, key: _compat.Array) -> _compat.Array:
    """A typed PRNG key, made of a typed key, a raw uint32 key or an integer seed.

    Raises:
        InjectorError: If ``key`` is something else. The message begins with ``name``.
    """
    if _compat.is_extended(key.dtype) and key.ndim == 0:
        return key
    if jnp.issubdtype(key.dtype, jnp.integer) and key.ndim == 0:
        return jax.random.key(key)
    if key.dtype == jnp.uint32 and key.ndim == 1:
        return jax.random.wrap_key_data(key)
    raise InjectorError(
        f"{name}: key is {key.dtype}{list(key.shape)}. Give one PRNG key, such as "
        "jax.random.key(0), or an integer for its seed."
    )
