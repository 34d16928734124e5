"""Mesh axes: over which a shard_map maps, and over which a value varies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.core
from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh

from taxpr._compat._jaxprs import JaxprEqn, is_literal
from taxpr._compat._primitives import primitive


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
    aval = aval_of(x)
    # `vma` up to 0.9; from 0.10 `mat` says more, `varying` among it.
    mat = getattr(aval, "mat", None)
    return frozenset(mat.varying if mat is not None else getattr(aval, "vma", ()))


def aval_of(x: Any) -> Any:
    return x if isinstance(x, jax.core.AbstractValue) else jax.typeof(x)


def in_parts(x: Any) -> frozenset[str]:
    """The mesh axes along which each device has a part of a value, such as a summand of a sum.

    JAX calls such a value *unreduced*.
    """
    return _said_by_type(x, "unreduced")


def reduced(x: Any) -> frozenset[str]:
    """The mesh axes along which a value is the same, and its cotangent in parts.

    JAX has no arithmetic of it with values that are only the same on all devices.
    """
    return _said_by_type(x, "reduced")


def _said_by_type(x: Any, what: str) -> frozenset[str]:
    aval = aval_of(x)
    # In a shard_map it is in `mat` from 0.10 and, as elsewhere, in the sharding before.
    spec = getattr(getattr(aval, "sharding", None), "spec", None)
    return getattr(getattr(aval, "mat", None), what, frozenset()) | getattr(spec, what, frozenset())


def pvary(x: Any, axes: Sequence[str]) -> Any:
    """``x`` as a value that may vary over some more mesh axes."""
    # Only for a value of those types, which jax 0.7 does not have, does JAX ask for another cast.
    if cast := tuple(name for name in axes if name in reduced(x)):
        x = jax.lax.pcast(x, cast, to="varying")
    more = tuple(name for name in axes if name not in cast)
    return _core.pvary(x, more) if more else x


def mesh_here() -> Any:
    """The mesh that is set, which may be the empty one."""
    return jax.sharding.get_abstract_mesh()


def mesh_at(eqn: JaxprEqn, is_hop: bool) -> Any:
    """The mesh under which what takes the place of an equation is traced.

    Of a tag it is that of the token. Another one may surround the equation, as where
    `jax.sharding.auto_axes` surrounds the tag of a value that is made outside of it.
    """
    around = eqn.ctx.cur_abstract_mesh
    return around if around.empty or is_hop else _mesh_of(eqn.invars) or around


def mesh_of_input(jaxpr: Any, var: Any) -> Any:
    """The mesh under which the first equation that reads an argument is traced."""
    around = jaxpr.eqns[0].ctx.cur_abstract_mesh if jaxpr.eqns else None
    if around is not None and around.empty:
        return around
    return _mesh_of([var]) or around or jax.sharding.get_abstract_mesh()


def _mesh_of(atoms: Iterable[Any]) -> Any:
    """The mesh that the values have; None where that is not one."""
    shardings = (getattr(atom.aval, "sharding", None) for atom in atoms)
    found = {one.mesh for one in shardings if one is not None and not one.mesh.empty}
    return found.pop() if len(found) == 1 else None


@contextlib.contextmanager
def under(mesh: Any) -> Iterator[None]:
    """Under a mesh, whichever is set."""
    # Of one mesh in another one JAX asks that it is of the same size.
    no_mesh = jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh)
    with no_mesh, jax.sharding.use_abstract_mesh(mesh):
        yield


@contextlib.contextmanager
def as_traced(eqn: JaxprEqn, mesh: Any) -> Iterator[None]:
    """What surrounded the equation when it was traced: the mesh, and in a shard_map its axes.

    A rule of custom_jvp or custom_vjp is traced when it is first asked for, and kept: outside of
    the shard_map that it is in its collectives would have no axes, and its types would be wrong.
    ``mesh`` is that of `mesh_at`.
    """
    if mesh.empty:
        yield
        return
    sizes = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    manual = [(name, size) for name, size, kind in sizes if kind == jax.sharding.AxisType.Manual]
    avals = [atom.aval for atom in eqn.invars if not is_literal(atom)]
    checked = any(varying(aval) or in_parts(aval) or reduced(aval) for aval in avals)
    with (
        eqn.ctx.manager,
        under(mesh),
        _core.extend_axis_env_nd(manual),
        _config._check_vma(checked or _config._check_vma.value),
    ):
        yield


_PARALLEL = "jax._src.lax.parallel"
# Those that JAX takes to be the same on all devices. `all_gather` is not among them: in a
# shard_map its result counts as one that may differ.
_EQUALISING = tuple(
    primitive(_PARALLEL, name)
    for name in (
        "psum_p",
        "psum_invariant_p",
        "pmax_p",
        "pmin_p",
        "all_gather_invariant_p",
        "all_gather_reduced_p",
        "unreduced_psum_p",
        "unreduced_pmax_p",
        "unreduced_pmin_p",
    )
)
# Between types of what is the same on all devices.
_CASTS_OF_EQUALS = (primitive(_PARALLEL, "preduced_p"),)
# Between types, of which one says that devices differ.
_CASTS = (
    primitive("jax._src.core", "pvary_p"),
    primitive("jax._src.core", "reduced_vary_cast_p"),
    primitive(_PARALLEL, "vary_unreduced_cast_p"),
)
# Primitives of which each result depends on its own operand only.
side_by_side = (
    *_EQUALISING,
    *_CASTS_OF_EQUALS,
    *_CASTS,
    primitive("jax._src.lax.lax", "optimization_barrier_p"),
)


def made_equal(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which a collective leaves the same on all devices."""
    if eqn.primitive not in _EQUALISING or eqn.params.get("axis_index_groups") is not None:
        return frozenset()
    return _axis_names(eqn)


def made_different(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes that an equation names without making devices equal, as axis_index does."""
    if eqn.primitive in _CASTS_OF_EQUALS:
        return frozenset()
    return _axis_names(eqn) - made_equal(eqn)


# Those that name mesh axes and wait for no other device.
_WAITING_FOR_NONE = (primitive(_PARALLEL, "axis_index_p"), *_CASTS_OF_EQUALS, *_CASTS)


def waits_for(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which an equation waits for all devices, as a collective does."""
    return frozenset() if eqn.primitive in _WAITING_FOR_NONE else _axis_names(eqn)


def _axis_names(eqn: JaxprEqn) -> frozenset[str]:
    found = [eqn.params[key] for key in ("axes", "axis_name") if key in eqn.params]
    names = [name for one in found for name in (one if isinstance(one, tuple) else (one,))]
    # `axes` also holds the numbers of positional axes, in a collective and elsewhere.
    return frozenset(name for name in names if isinstance(name, str))
