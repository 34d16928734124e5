"""Assertions that several tests share."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np


def is_float(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def assert_close(found, expected, tolerance=2e-5):
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert jnp.asarray(a).dtype == jnp.asarray(b).dtype
        if is_float(jnp.asarray(a)):
            loose = 2e-2 if jnp.asarray(a).dtype == jnp.bfloat16 else tolerance
            np.testing.assert_allclose(
                np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=loose, atol=loose
            )
        else:
            np.testing.assert_array_equal(as_bits(jnp.asarray(a)), as_bits(jnp.asarray(b)))


def check_types(jaxpr):
    """JAX's own type checker, where it is public."""
    if hasattr(jex, "check_jaxpr"):
        jex.check_jaxpr(jaxpr if isinstance(jaxpr, jex.Jaxpr) else jaxpr.jaxpr)


def as_bits(x):
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x).view(np.uint8) if x.ndim else np.asarray(x)[None].view(np.uint8)
