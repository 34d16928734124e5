"""The settings of JAX under which a program was traced."""

from typing import Any

import jax

# The settings that change the traced program or its numbers, with their defaults. Settings that
# only add errors, such as strict dtype promotion, are left out.
_DEFAULTS = {
    "jax_enable_x64": False,
    "jax_default_dtype_bits": "64",
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_custom_prng": False,
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_high_dynamic_range_gumbel": False,
    "jax_softmax_custom_jvp": False,
    "jax_disable_jit": False,
    "jax_custom_jvp3": False,
    "jax_custom_vjp3": False,
    "jax_scan3": False,
    "jax_remat3": False,
}


def config_now() -> dict[str, Any]:
    """The settings that differ from JAX's defaults, also within a ``with``.

    Example:
        >>> import jax
        >>> with jax.default_matmul_precision("float32"):
        ...     config_now()
        {'jax_default_matmul_precision': 'float32'}
    """
    found = {name: getattr(jax.config, name, value) for name, value in _DEFAULTS.items()}
    return {name: value for name, value in found.items() if value != _DEFAULTS[name]}
