"""Settings of JAX for all tests: strict about dtypes and ranks, with internal checks on."""

import os

# Before jax is imported: tests must not depend on what accelerators a machine has.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_checks", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
