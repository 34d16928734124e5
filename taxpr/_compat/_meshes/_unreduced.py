"""Convert unreduced and reduced values to ordinary ones and back.

An unreduced value is split into parts, one on each device, such as the summands of a sum. The
cotangent of a reduced value is unreduced. JAX has almost no arithmetic for either.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp

from taxpr._compat._meshes._mesh import in_parts, pcast, psum, pvary, reduced, type_of, varying
from taxpr._compat._meshes._shardings import reshard, spec_entries
from taxpr._compat._types import Array, Typed


def whole(x: Array) -> Array:
    """``x`` as an ordinary value. The parts of an unreduced value are combined."""
    if not (in_parts(x) or reduced(x)):
        return x
    if not jax.typeof(x).sharding.mesh.manual_axes:
        found = jax.typeof(x).sharding
        plain = jax.sharding.PartitionSpec(*spec_entries(found.spec))
        return reshard(x, jax.sharding.NamedSharding(found.mesh, plain))
    if parts := in_parts(x):
        x = getattr(jax.lax, f"p{_kind(x)}")(x, tuple(sorted(parts)))
    if same := tuple(sorted(reduced(x))):
        x = psum(_on_first(pcast(x, same, to="varying"), same), same)
    return x


def divides(like: Typed) -> bool:
    """Whether `with_parts` can make a value of the type of ``like``."""
    return not in_parts(like) or _kind(like) == "sum"


def with_parts(x: Array, like: Typed) -> Array:
    """An ordinary value converted to the type of ``like``. The first device gets the whole sum."""
    same, parts = tuple(sorted(reduced(like))), tuple(sorted(in_parts(like)))
    if not (same or parts):
        return x
    found = type_of(like).sharding
    if found.mesh.manual_axes:
        return _divided(x, same, parts)
    if not parts:
        return reshard(x, found)

    def divided(x: Array) -> Array:
        return _divided(x, same, parts)

    return jax.shard_map(
        divided,
        mesh=found.mesh,
        in_specs=jax.sharding.PartitionSpec(*spec_entries(found.spec)),
        out_specs=found.spec,
    )(x)


def _divided(x: Array, same: tuple[str, ...], parts: tuple[str, ...]) -> Array:
    x = pcast(x, same, to="reduced") if same else x
    if not parts:
        return x
    x = pvary(x, [name for name in parts if name not in varying(x)])
    return pcast(_on_first(x, parts), parts, to="unreduced")


def _kind(x: Typed) -> str:
    """The way the parts combine: ``"sum"``, from 0.12 also ``"max"`` or ``"min"``."""
    aval = type_of(x)
    kinds = (
        getattr(of, "unreduced_kind", None)
        for of in (aval.sharding.spec, getattr(aval, "mat", None))
    )
    return next((kind.name for kind in kinds if kind is not None), "sum")


def _on_first(x: Array, axes: Iterable[str]) -> Array:
    """``x`` on the first device along some mesh axes, and zeros on the others."""
    first = jnp.stack([jax.lax.axis_index(name) == 0 for name in axes]).all()
    return jnp.where(first, x, jnp.zeros_like(x))
