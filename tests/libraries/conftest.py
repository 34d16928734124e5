"""Settings for programs of other libraries, which are not written for the strict ones."""

import jax

jax.config.update("jax_enable_checks", False)
jax.config.update("jax_numpy_dtype_promotion", "standard")
jax.config.update("jax_numpy_rank_promotion", "allow")
