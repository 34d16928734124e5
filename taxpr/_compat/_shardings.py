"""Shardings, which are a part of types where mesh axes are explicit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import jax
from jax._src import core as _core
from jax._src import mesh as _mesh

from taxpr._compat._jaxprs import jaxpr_as_fun
from taxpr._compat._mesh import aval_of, under
from taxpr._compat._traces import current_trace

# What JAX raises where an equation does not say how its result is sharded, and mesh axes are
# explicit.
ShardingTypeError = _core.ShardingTypeError


def spec_entries(spec: Any) -> tuple[Any, ...]:
    """The entries of a PartitionSpec, one for each axis of the array."""
    # From 0.10 it cannot be iterated where it also says `reduced` or `unreduced`, and `partitions`
    # has them.
    return spec.partitions if hasattr(spec, "partitions") else tuple(spec)


def spec_text(spec: Any) -> str:
    """`P('x', None, unreduced={'y'})`, the same in all versions of JAX and all processes."""
    parts = [repr(entry) for entry in spec_entries(spec)]
    for word in ("reduced", "unreduced"):
        if names := sorted(getattr(spec, word, ())):
            parts.append(f"{word}={{{', '.join(map(repr, names))}}}")
    return f"P({', '.join(parts)})"


def resharded(x: Any, like: Any, leading: int = 0) -> Any:
    """``x`` with the sharding of a value or an aval, where that is part of the type.

    Which it is where mesh axes are explicit. The first ``leading`` axes of ``x`` are more than
    the other has, and whole on each device. Parts of a value, which the other may have, it has
    not, unless it has them before.
    """
    found, expected = jax.typeof(x).sharding, aval_of(like).sharding
    spec = jax.sharding.PartitionSpec(*[None] * leading, *spec_entries(expected.spec))
    if found == expected or found.spec == spec:
        return on_mesh_of(x, like)
    mesh = found.mesh if expected.mesh.empty else expected.mesh
    return jax.sharding.reshard(x, jax.sharding.NamedSharding(mesh, spec))


def whole_axes(x: Any, n: int) -> Any:
    """``x`` with its first ``n`` axes whole on each device, as for a read at a traced index."""
    return _with_first(x, [None] * min(n, x.ndim), jax.typeof(x).sharding.mesh)


def axes_like(x: Any, axes: Sequence[tuple[Any, int]]) -> Any:
    """``x`` with its first axes sharded as other arrays are; for each an array and its axis."""
    shardings = [(jax.typeof(other).sharding, axis) for other, axis in axes]
    meshes = [one.mesh for one, _ in shardings if not one.mesh.empty]
    own = jax.typeof(x).sharding.mesh
    entries = [spec_entries(one.spec)[axis] for one, axis in shardings]
    return _with_first(x, entries, next(iter(meshes), own))


def whole_over(x: Any, names: Collection[str]) -> Any:
    """``x`` as it enters a shard_map over some mesh axes of which each device gets all of it."""
    sharding = jax.typeof(x).sharding
    entries = [_without(one, names) for one in spec_entries(sharding.spec)]
    return _with_first(x, entries, sharding.mesh)


def _without(entry: Any, names: Collection[str]) -> Any:
    """An entry of a spec without some of its mesh axes."""
    if not isinstance(entry, tuple):
        return None if entry in names else entry
    return tuple(name for name in entry if name not in names) or None


def _with_first(x: Any, entries: Sequence[Any], mesh: Any) -> Any:
    """``x`` with these entries as the first of its sharding."""
    found = spec_entries(jax.typeof(x).sharding.spec)
    spec = (*entries, *found[len(entries) :])
    return x if spec == found else jax.sharding.reshard(x, _sharding(mesh, spec))


def on_mesh_of(x: Any, other: Any) -> Any:
    """``x``, if on no mesh, as one that all devices of the explicit mesh of ``other`` have.

    Most equations take both together; those that write a part into an array do not.
    """
    found, mesh = jax.typeof(x).sharding, aval_of(other).sharding.mesh
    if not found.mesh.empty or not _is_explicit(mesh):
        return x
    return jax.sharding.reshard(x, _sharding(mesh, spec_entries(found.spec)))


def on_mesh_here(x: Any) -> Any:
    """``x``, if on no mesh, as one that all devices of the mesh that is set have.

    So it can go to where mesh axes have other types, and a cotangent can come back from there.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not (jax.typeof(x).sharding.mesh.empty and _is_explicit(mesh)):
        return x
    return jax.sharding.reshard(x, _sharding(mesh, ()))


def aval_on_mesh_here(aval: Any) -> Any:
    """The type, if on no mesh, that values of it have which are made under the mesh that is set."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not aval.sharding.mesh.empty:
        return aval
    return aval.update(sharding=_sharding(mesh, (None,) * aval.ndim))


def _sharding(mesh: Any, spec: Iterable[Any]) -> Any:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def _is_explicit(mesh: Any) -> bool:
    return jax.sharding.AxisType.Explicit in mesh.axis_types


def devices_are_known(aval: Any) -> bool:
    """Whether an array that is made at once can have the sharding of an aval.

    The type has the axes of a mesh without its devices, which `jax.set_mesh` adds.
    """
    mesh = aval.sharding.mesh
    return _is_explicit(mesh) and mesh == _mesh.get_concrete_mesh().abstract_mesh


def compiled_for_mesh(jaxpr: Any) -> Any:
    """A closed jaxpr as a function of flat arguments, for those of which `brings_mesh` is true."""
    # One that is not used may be the only one that knows the devices.
    return jax.jit(jaxpr_as_fun(jaxpr), keep_unused=True)


def brings_mesh(args: Iterable[Any]) -> bool:
    """Whether equations would run at once of which only the arguments know the devices.

    An equation that makes an array of nothing has an explicit mesh since it was traced, and by
    itself no devices for it. Compiled with the others it gets those of the arguments.
    """
    if current_trace() is not None or not jax.sharding.get_abstract_mesh().empty:
        return False
    placed = (x.sharding for x in args if isinstance(x, jax.Array))
    return any(_is_explicit(s.mesh) for s in placed if isinstance(s, jax.sharding.NamedSharding))


def sharding_on(aval: Any, mesh: Any) -> Any:
    """The sharding of a value that is moved to another mesh; None where it need not move.

    The other mesh is the same with other types of axes, as inside of `jax.sharding.auto_axes`.
    """
    found = getattr(aval, "sharding", None)
    if found is None or mesh.empty or found.mesh.empty or found.mesh == mesh:
        return None
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    lost = {name for name, kind in kinds if kind != jax.sharding.AxisType.Explicit}
    return _sharding(mesh, [_without(one, lost) for one in spec_entries(found.spec)])


def moved_to(x: Any, sharding: Any) -> Any:
    """``x`` with a sharding on another mesh."""
    with under(sharding.mesh):
        return jax.sharding.reshard(x, sharding)


def moved_here(x: Any) -> Any:
    """``x`` on the mesh that is set; see `sharding_on`."""
    sharding = sharding_on(jax.typeof(x), jax.sharding.get_abstract_mesh())
    return x if sharding is None else moved_to(x, sharding)
