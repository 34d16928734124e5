"""Mesh axes: those that a shard_map maps over, and those that a value varies over.

Also the effect of each collective on these axes, and the mesh under which an equation was traced.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import jax
import jax.core

from taxpr._compat._jaxprs import is_literal
from taxpr._compat._primitives import primitive, pvary_p
from taxpr._compat._private import private
from taxpr._compat._types import Array, Atom, Aval, Jaxpr, JaxprEqn, Mesh, Typed, Var, is_tuple
from taxpr._untyped import lax as _lax

_config = private("config")
_core = private("core")
_mesh = private("mesh")


def manual_axes(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes that a shard_map maps over."""
    # Named "manual_axes" up to 0.9.
    names = "newly_manual_axes" if "newly_manual_axes" in eqn.params else "manual_axes"
    return frozenset(eqn.params[names])


def manual_sizes(eqn: JaxprEqn) -> dict[str, int]:
    """The sizes of the mesh axes that a shard_map maps over, in the order of the mesh."""
    manual = manual_axes(eqn)
    return {name: n for name, n in eqn.params["mesh"].shape.items() if name in manual}


# Collectives of JAX, with types.
psum: Callable[[Array, Sequence[str]], Array] = _lax.psum
pmax: Callable[[Array, Sequence[str]], Array] = _lax.pmax


def varying(x: Typed) -> frozenset[str]:
    """The mesh axes over which a value or aval varies in a shard_map, by its type."""
    aval = type_of(x)
    # Stored in `vma` up to 0.9, from 0.10 in `mat.varying`.
    mat = getattr(aval, "mat", None)
    return frozenset(mat.varying if mat is not None else getattr(aval, "vma", ()))


def type_of(x: Typed) -> Aval:
    """The aval of a value; an aval as it is."""
    aval: Any = x if isinstance(x, jax.core.AbstractValue) else jax.typeof(x)
    return aval


def in_parts(x: Typed) -> frozenset[str]:
    """The mesh axes along which a value is *unreduced*: each device has, say, a summand of it."""
    return _said_by_type(x, "unreduced")


def reduced(x: Typed) -> frozenset[str]:
    """The mesh axes along which a value is *reduced*: equal on all devices, cotangent unreduced.

    JAX does not combine such a value with one that is just replicated.
    """
    return _said_by_type(x, "reduced")


def _said_by_type(x: Typed, what: str) -> frozenset[str]:
    aval = type_of(x)
    # In a shard_map this is in `mat` from 0.10. Before, and elsewhere, it is in the sharding.
    spec = getattr(getattr(aval, "sharding", None), "spec", None)
    mat = getattr(aval, "mat", None)
    return frozenset([*getattr(mat, what, ()), *getattr(spec, what, ())])


def pcast(x: Array, axes: Sequence[str], to: str) -> Array:
    """Cast ``x`` to a value that is otherwise typed along some mesh axes. Not in jax 0.7."""
    return _lax.pcast(x, axes, to=to)


def pvary(x: Array, axes: Sequence[str]) -> Array:
    """Cast ``x`` to a value that varies over further mesh axes."""
    # A reduced value needs another cast. jax 0.7 has no such type.
    if cast := tuple(name for name in axes if name in reduced(x)):
        x = pcast(x, cast, to="varying")
    more = tuple(name for name in axes if name not in cast)
    return _core.pvary(x, more) if more else x


def mesh_here() -> Mesh:
    """The current abstract mesh, which may be empty."""
    return jax.sharding.get_abstract_mesh()


def mesh_at(eqn: JaxprEqn, is_hop: bool) -> Mesh:
    """The mesh under which to trace a replacement of an equation.

    For a tag, the mesh of its token: inside `jax.sharding.auto_axes` the surrounding mesh differs
    from the mesh of a value made outside.
    """
    around = eqn.ctx.cur_abstract_mesh
    return around if around.empty or is_hop else _mesh_of(eqn.invars) or around


def mesh_of_input(jaxpr: Jaxpr, var: Var) -> Mesh:
    """The mesh under which the first equation that reads ``var`` was traced."""
    around = jaxpr.eqns[0].ctx.cur_abstract_mesh if jaxpr.eqns else None
    if around is not None and around.empty:
        return around
    return _mesh_of([var]) or around or jax.sharding.get_abstract_mesh()


def _mesh_of(atoms: Iterable[Atom]) -> Mesh | None:
    """The mesh of the values; None if they have none, or several."""
    shardings = (getattr(atom.aval, "sharding", None) for atom in atoms)
    found = {one.mesh for one in shardings if one is not None and not one.mesh.empty}
    return found.pop() if len(found) == 1 else None


@contextlib.contextmanager
def under(mesh: Mesh) -> Generator[None, None, None]:
    """Trace under ``mesh``, whatever mesh is set."""
    abstract: Any = mesh  # that of a type has no devices
    # JAX allows a mesh inside another one only if they have the same size, so leave that first.
    no_mesh = jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh)
    with no_mesh, jax.sharding.use_abstract_mesh(abstract):
        yield


def is_manual(x: Array) -> bool:
    """Whether a value is in a shard_map: each device has its own part of it there."""
    return bool(mesh_here().manual_axes or type_of(x).sharding.mesh.manual_axes)


def under_no_mesh() -> contextlib.AbstractContextManager[None]:
    """Trace under no mesh, whatever mesh is set."""
    return under(_mesh.empty_abstract_mesh)


@contextlib.contextmanager
def as_traced(eqn: JaxprEqn, mesh: Mesh) -> Generator[None, None, None]:
    """Restore the surroundings of an equation when it was traced: mesh and axes of its shard_map.

    A rule of custom_jvp or custom_vjp is traced on first use and then cached. Traced outside of its
    shard_map, its collectives would have no axes and its types would be wrong. ``mesh`` comes from
    `mesh_at`.
    """
    if mesh.empty:
        yield
        return
    sizes = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    manual = [(name, size) for name, size, kind in sizes if kind == jax.sharding.AxisType.Manual]
    avals = [atom.aval for atom in eqn.invars if not is_literal(atom)]
    checked = any(varying(aval) or in_parts(aval) or reduced(aval) for aval in avals)
    checks = _config._check_vma  # whether JAX tracks the axes along which values vary
    with (
        eqn.ctx.manager,
        under(mesh),
        _core.extend_axis_env_nd(manual),
        checks(checked or checks.value),
    ):
        yield


_PARALLEL = "jax._src.lax.parallel"
# Collectives whose results JAX types as equal on all devices. `all_gather` is not one: its result
# has a varying type.
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
# Casts between types of values that are equal on all devices.
_CASTS_OF_EQUALS = (primitive(_PARALLEL, "preduced_p"),)
# Casts between types, one of which is varying.
_CASTS = (
    pvary_p,
    primitive("jax._src.core", "reduced_vary_cast_p"),
    primitive(_PARALLEL, "vary_unreduced_cast_p"),
)
# Primitives whose results each depend only on the operand at the same position.
side_by_side = (
    *_EQUALISING,
    *_CASTS_OF_EQUALS,
    *_CASTS,
    primitive("jax._src.lax.lax", "optimization_barrier_p"),
)


def made_equal(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which a collective makes its result equal on all devices."""
    if eqn.primitive not in _EQUALISING or eqn.params.get("axis_index_groups") is not None:
        return frozenset()
    return _axis_names(eqn)


def made_different(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which an equation makes devices differ, as axis_index does."""
    if eqn.primitive in _CASTS_OF_EQUALS:
        return frozenset()
    return _axis_names(eqn) - made_equal(eqn)


# Primitives that name mesh axes but do not communicate.
_WAITING_FOR_NONE = (primitive(_PARALLEL, "axis_index_p"), *_CASTS_OF_EQUALS, *_CASTS)


def waits_for(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which an equation waits for all devices, as a collective does."""
    return frozenset() if eqn.primitive in _WAITING_FOR_NONE else _axis_names(eqn)


def _axis_names(eqn: JaxprEqn) -> frozenset[str]:
    found = [eqn.params[key] for key in ("axes", "axis_name") if key in eqn.params]
    names = [name for one in found for name in (one if is_tuple(one) else (one,))]
    # `axes` may also hold the numbers of positional axes.
    return frozenset(name for name in names if isinstance(name, str))
