"""PRNG keys in the forms in which people give them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._errors import InjectorError


def one_key(name: str, key: Any) -> Any:
    """A typed PRNG key of a key, of the older kind of key, or of a seed.

    Raises:
        InjectorError: If it is none of these; it names the injector ``name``.
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
