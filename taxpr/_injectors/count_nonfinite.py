"""Count NaN, +inf and -inf separately, for `stats` and `check_finite`."""

import functools

import jax.numpy as jnp

from taxpr._compat import Array

NONE_FOUND = {"nan": 0, "+inf": 0, "-inf": 0}


def with_found(counts: dict[str, Array], x: Array) -> dict[str, Array]:
    """Add the non-finite elements of an array of floats or complex numbers to the counts.

    Each element counts once. A complex number is NaN if a part is, otherwise -inf if a part is.
    """
    parts = (x.real, x.imag) if jnp.issubdtype(x.dtype, jnp.complexfloating) else (x,)
    nan = jnp.isnan(x)
    below = functools.reduce(jnp.logical_or, (part == -jnp.inf for part in parts)) & ~nan
    found = {"nan": nan, "+inf": ~(jnp.isfinite(x) | nan | below), "-inf": below}
    more = {k: added(counts[k], jnp.sum(v, dtype=counts[k].dtype)) for k, v in found.items()}
    return {**counts, **more}


def added(count: Array, more: Array) -> Array:
    """The sum of two counts, saturated at the maximum of their dtype."""
    total = jnp.asarray(count + more)
    return jnp.where(total < count, jnp.iinfo(total.dtype).max, total)


def of_all(counts: dict[str, Array]) -> dict[str, Array]:
    """The counts for a report: of each kind and of all together."""
    found = {name: counts[name] for name in NONE_FOUND}
    return {**found, "nonfinite": functools.reduce(added, found.values())}
