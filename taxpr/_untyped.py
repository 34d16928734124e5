"""NumPy and JAX as `Any`: they declare no types, or unknown ones, for many functions used here."""

from typing import Any

import jax as _jax
import numpy as _numpy

np: Any = _numpy
jax: Any = _jax
jnp: Any = _jax.numpy
lax: Any = _jax.lax
tree_util: Any = _jax.tree_util
