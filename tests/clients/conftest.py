"""Settings for programs of other libraries, which are not written for the strict ones."""

import jax

# brainstate fails under JAX's internal checks; what taxpr rewrites is checked in client_checks.
jax.config.update("jax_enable_checks", False)
jax.config.update("jax_numpy_dtype_promotion", "standard")
jax.config.update("jax_numpy_rank_promotion", "allow")
