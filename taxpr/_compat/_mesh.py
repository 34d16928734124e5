"""Mesh axes: over which a shard_map maps, and over which a value varies."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.core
from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh

from taxpr._compat._jaxprs import JaxprEqn, is_literal, jaxpr_as_fun
from taxpr._compat._primitives import primitive
from taxpr._compat._traces import current_trace

# What JAX raises where an equation does not say how its result is sharded, and mesh axes are
# explicit.
ShardingTypeError = _core.ShardingTypeError


def manual_axes(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes that a shard_map maps over."""
    # "manual_axes" up to 0.9.
    names = "newly_manual_axes" if "newly_manual_axes" in eqn.params else "manual_axes"
    return frozenset(eqn.params[names])


def manual_sizes(eqn: JaxprEqn) -> dict[str, int]:
    """The sizes of the mesh axes that a shard_map maps over, in the order of the mesh."""
    manual = manual_axes(eqn)
    return {name: n for name, n in eqn.params["mesh"].shape.items() if name in manual}


def varying(x: Any) -> frozenset[str]:
    """The mesh axes over which a value, or an aval, is known to vary in a shard_map."""
    aval = _aval_of(x)
    # `vma` up to 0.9; from 0.10 `mat` says more, `varying` among it.
    mat = getattr(aval, "mat", None)
    return frozenset(mat.varying if mat is not None else getattr(aval, "vma", ()))


def _aval_of(x: Any) -> Any:
    return x if isinstance(x, jax.core.AbstractValue) else jax.typeof(x)


def pvary(x: Any, axes: Sequence[str]) -> Any:
    """``x`` as a value that may vary over some more mesh axes."""
    return _core.pvary(x, tuple(axes)) if axes else x


def resharded(x: Any, like: Any, leading: int = 0) -> Any:
    """``x`` with the sharding of a value or an aval, where that is part of the type.

    Which it is where mesh axes are explicit. The first ``leading`` axes of ``x`` are more than
    the other has, and whole on each device.
    """
    found, expected = jax.typeof(x).sharding, _aval_of(like).sharding
    spec = jax.sharding.PartitionSpec(*[None] * leading, *expected.spec)
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
    return _with_first(x, [one.spec[axis] for one, axis in shardings], next(iter(meshes), own))


def whole_over(x: Any, names: Collection[str]) -> Any:
    """``x`` as it enters a shard_map over some mesh axes of which each device gets all of it."""

    def entry(one: Any) -> Any:
        if not isinstance(one, tuple):
            return None if one in names else one
        return tuple(name for name in one if name not in names) or None

    sharding = jax.typeof(x).sharding
    return _with_first(x, [*map(entry, sharding.spec)], sharding.mesh)


def _with_first(x: Any, entries: Sequence[Any], mesh: Any) -> Any:
    """``x`` with these entries as the first of its sharding."""
    found = tuple(jax.typeof(x).sharding.spec)
    spec = (*entries, *found[len(entries) :])
    return x if spec == found else jax.sharding.reshard(x, _sharding(mesh, spec))


def on_mesh_of(x: Any, other: Any) -> Any:
    """``x``, if on no mesh, as one that all devices of the explicit mesh of ``other`` have.

    Most equations take both together; those that write a part into an array do not.
    """
    found, mesh = jax.typeof(x).sharding, _aval_of(other).sharding.mesh
    if not found.mesh.empty or not _is_explicit(mesh):
        return x
    return jax.sharding.reshard(x, _sharding(mesh, found.spec))


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


@contextlib.contextmanager
def as_traced(eqn: JaxprEqn) -> Iterator[None]:
    """What surrounded the equation when it was traced: the mesh, and in a shard_map its axes.

    A rule of custom_jvp or custom_vjp is traced when it is first asked for, and kept: outside of
    the shard_map that it is in its collectives would have no axes, and its types would be wrong.
    """
    mesh = eqn.ctx.cur_abstract_mesh
    if mesh.empty:
        yield
        return
    sizes = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    manual = [(name, size) for name, size, kind in sizes if kind == jax.sharding.AxisType.Manual]
    checked = any(varying(atom.aval) for atom in eqn.invars if not is_literal(atom))
    with (
        eqn.ctx.manager,
        _core.extend_axis_env_nd(manual),
        _config._check_vma(checked or _config._check_vma.value),
    ):
        yield


_PARALLEL = "jax._src.lax.parallel"
# Those that JAX takes to be the same on all devices. `all_gather` is not among them: in a
# shard_map its result counts as one that may differ.
_EQUALISING = tuple(
    primitive(_PARALLEL, name)
    for name in ("psum_p", "psum_invariant_p", "pmax_p", "pmin_p", "all_gather_invariant_p")
)
# Primitives of which each result depends on its own operand only.
side_by_side = (
    *_EQUALISING,
    primitive("jax._src.core", "pvary_p"),
    primitive("jax._src.lax.lax", "optimization_barrier_p"),
)


def made_equal(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which a collective leaves the same on all devices."""
    if eqn.primitive not in _EQUALISING or eqn.params.get("axis_index_groups") is not None:
        return frozenset()
    return _axis_names(eqn)


def made_different(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes that an equation names without making devices equal, as axis_index does."""
    return _axis_names(eqn) - made_equal(eqn)


# Those that name mesh axes and wait for no other device.
_WAITING_FOR_NONE = (
    primitive(_PARALLEL, "axis_index_p"),
    primitive("jax._src.core", "pvary_p"),
)


def waits_for(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which an equation waits for all devices, as a collective does."""
    return frozenset() if eqn.primitive in _WAITING_FOR_NONE else _axis_names(eqn)


def _axis_names(eqn: JaxprEqn) -> frozenset[str]:
    found = [eqn.params[key] for key in ("axes", "axis_name") if key in eqn.params]
    names = [name for one in found for name in (one if isinstance(one, tuple) else (one,))]
    # `axes` also holds the numbers of positional axes, in a collective and elsewhere.
    return frozenset(name for name in names if isinstance(name, str))
