"""Shardings of values, which are part of their types where mesh axes are explicit.

The functions move values between meshes and give new values the sharding of existing ones.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import jax

from taxpr._compat._jaxprs import jaxpr_as_fun, used_inputs
from taxpr._compat._meshes._mesh import type_of, under
from taxpr._compat._private import private
from taxpr._compat._traces import current_trace
from taxpr._compat._types import Array, Aval, ClosedJaxpr, Mesh, Sharding, Typed, is_tuple
from taxpr._untyped import jax as _jax

_core = private("core")
_mesh = private("mesh")

reshard: Callable[[Array, jax.sharding.Sharding], Array] = _jax.sharding.reshard


def is_sharding_error(error: Exception) -> bool:
    """Whether JAX says that the sharding of a result along explicit mesh axes is ambiguous."""
    return isinstance(error, getattr(_core, "ShardingTypeError", ()))


def spec_entries(spec: Any) -> tuple[str | tuple[str, ...] | None, ...]:
    """The entries of a PartitionSpec, one for each axis of the array."""
    # From 0.10 a spec with `reduced` or `unreduced` axes is not iterable, but has `partitions`.
    return spec.partitions if hasattr(spec, "partitions") else tuple(spec)


def spec_axes(spec: Any, rank: int) -> list[tuple[str, ...]] | None:
    """The mesh axes that divide each axis of an array; None if one is left open."""
    entries = [*spec_entries(spec), *[None] * rank][:rank]
    if any(entry is jax.sharding.PartitionSpec.UNCONSTRAINED for entry in entries):
        return None
    return [() if one is None else one if is_tuple(one) else (one,) for one in entries]


def spec_text(spec: Any) -> str:
    """A spec as text, such as `P('x', None, unreduced={'y'})`: equal in all versions and runs."""
    parts = [repr(entry) for entry in spec_entries(spec)]
    for word in ("reduced", "unreduced"):
        if names := sorted(getattr(spec, word, ())):
            parts.append(f"{word}={{{', '.join(map(repr, names))}}}")
    return f"P({', '.join(parts)})"


def resharded(x: Array, like: Typed, leading: int = 0) -> Array:
    """``x`` with the sharding of ``like``, as far as mesh axes are explicit.

    ``x`` has ``leading`` additional axes in front, which are not sharded. Whether ``like`` is
    unreduced or reduced is not copied.
    """
    found, expected = jax.typeof(x).sharding, type_of(like).sharding
    spec = jax.sharding.PartitionSpec(*[None] * leading, *spec_entries(expected.spec))
    if found == expected or found.spec == spec:
        return on_mesh_of(x, like)
    mesh = found.mesh if expected.mesh.empty else expected.mesh
    return reshard(x, jax.sharding.NamedSharding(mesh, spec))


def whole_axes(x: Array, n: int) -> Array:
    """``x`` with its first ``n`` axes not sharded, as a read at a traced index needs."""
    return _with_first(x, [None] * min(n, x.ndim), jax.typeof(x).sharding.mesh)


def axes_like(x: Array, axes: Sequence[tuple[Array, int]]) -> Array:
    """``x`` with each of its first axes sharded like an axis of another array.

    ``axes`` has a pair (array, axis) for each of them.
    """
    shardings = [(jax.typeof(other).sharding, axis) for other, axis in axes]
    meshes = [one.mesh for one, _ in shardings if not one.mesh.empty]
    own = jax.typeof(x).sharding.mesh
    entries = [spec_entries(one.spec)[axis] for one, axis in shardings]
    return _with_first(x, entries, next(iter(meshes), own))


def whole_over(x: Array, names: Collection[str]) -> Array:
    """``x`` replicated along some mesh axes, as it enters a shard_map over them."""
    sharding = jax.typeof(x).sharding
    entries = [_without(one, names) for one in spec_entries(sharding.spec)]
    return _with_first(x, entries, sharding.mesh)


def _without(entry: Any, names: Collection[str]) -> Any:
    """An entry of a spec without the mesh axes ``names``."""
    if not is_tuple(entry):
        return None if entry in names else entry
    return tuple(name for name in entry if name not in names) or None


def _with_first(x: Array, entries: Sequence[Any], mesh: Mesh) -> Array:
    """``x`` with the first entries of its sharding replaced."""
    found = spec_entries(jax.typeof(x).sharding.spec)
    spec = (*entries, *found[len(entries) :])
    return x if spec == found else reshard(x, _sharding(mesh, spec))


def on_mesh_of(x: Array, other: Typed) -> Array:
    """Replicate ``x`` over the explicit mesh of ``other``, if ``x`` is on no mesh.

    Most equations accept one operand without a mesh. Those that write into part of an array do not.
    """
    found, mesh = jax.typeof(x).sharding, type_of(other).sharding.mesh
    if not found.mesh.empty or not _is_explicit(mesh):
        return x
    return reshard(x, _sharding(mesh, spec_entries(found.spec)))


def on_mesh_here(x: Array) -> Array:
    """Replicate ``x`` over the current mesh, if ``x`` is on no mesh.

    Then it can move to a mesh with other axis types, and its cotangent can come back.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not (jax.typeof(x).sharding.mesh.empty and _is_explicit(mesh)):
        return x
    return reshard(x, _sharding(mesh, ()))


def aval_on_mesh_here(aval: Aval) -> Aval:
    """The aval on the current mesh, if it is on no mesh: the type of a value created here."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not aval.sharding.mesh.empty:
        return aval
    return aval.update(sharding=_sharding(mesh, (None,) * aval.ndim))


def _sharding(mesh: Mesh, spec: Iterable[Any]) -> Sharding:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def _is_explicit(mesh: Mesh) -> bool:
    return jax.sharding.AxisType.Explicit in mesh.axis_types


def devices_are_known(aval: Aval) -> bool:
    """Whether a concrete array can be created with the sharding of an aval.

    The aval has an abstract mesh without devices. `jax.set_mesh` provides the devices.
    """
    mesh = aval.sharding.mesh
    return _is_explicit(mesh) and mesh == _mesh.get_concrete_mesh().abstract_mesh


def compiled_for_mesh(jaxpr: ClosedJaxpr) -> Callable[..., list[Array]]:
    """A closed jaxpr as a jitted function of flat arguments, for use if `brings_mesh` is true."""
    return jitted(jaxpr_as_fun(jaxpr), jaxpr)


def jitted(
    fun: Callable[..., list[Array]],
    jaxpr: ClosedJaxpr,
    options: dict[str, Any] | None = None,
    first: int = 0,
) -> Callable[..., list[Array]]:
    """The function of a jaxpr, jitted.

    If no argument on a mesh with explicit axes is used, one of them is kept nevertheless, since it
    has the devices. Only then: since 0.12 JAX never forgets a program that keeps unused arguments,
    as its jaxpr is both key and value of a cache with weak keys. Before it was made anew.

    Args:
        fun: The function.
        jaxpr: It as a jaxpr.
        options: Options of the compiler.
        first: How many results of the jaxpr the function leaves out.
    """
    explicit = [
        hasattr(aval, "sharding") and _is_explicit(aval.sharding.mesh) for aval in jaxpr.in_avals
    ]
    used = used_inputs(jaxpr, first) if any(explicit) else [True] * len(explicit)
    keeps = any(explicit) and not any(x and y for x, y in zip(explicit, used, strict=True))
    return _jax.jit(fun, keep_unused=keeps, compiler_options=options)


def brings_mesh(args: Iterable[object]) -> bool:
    """Whether equations would run eagerly, and only the arguments have the devices of a mesh.

    An equation without array operands was traced with an explicit mesh, but run by itself it has
    no devices for it. Compiled together with the others, it gets the arguments' devices.
    """
    if current_trace() is not None or not jax.sharding.get_abstract_mesh().empty:
        return False
    placed = (x.sharding for x in args if isinstance(x, jax.Array))
    return any(_is_explicit(s.mesh) for s in placed if isinstance(s, jax.sharding.NamedSharding))


def sharding_on(aval: Typed, mesh: Mesh) -> Sharding | None:
    """The sharding of a value after a move to ``mesh``; None if it need not move.

    ``mesh`` is the same mesh with other axis types, as inside `jax.sharding.auto_axes`.
    """
    found = getattr(aval, "sharding", None)
    if found is None or mesh.empty or found.mesh.empty or found.mesh == mesh:
        return None
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    lost = {name for name, kind in kinds if kind != jax.sharding.AxisType.Explicit}
    return _sharding(mesh, [_without(one, lost) for one in spec_entries(found.spec)])


def on_automatic_axes(fun: Callable[[Array], Array], x: Array, leading: bool = False) -> Array:
    """The result of a function that knows nothing of explicit axes; whole on each device.

    With ``leading`` its first axis is divided along all of them.
    """
    mesh = type_of(x).sharding.mesh
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    explicit = tuple(name for name, kind in kinds if kind == jax.sharding.AxisType.Explicit)
    if not explicit:
        return fun(x)
    spec = jax.sharding.PartitionSpec(*[explicit] * leading)
    with under(mesh):
        return _jax.sharding.auto_axes(fun, axes=explicit, out_sharding=spec)(x)


def moved_to(x: Array, sharding: Sharding) -> Array:
    """Move ``x`` to a sharding on another mesh."""
    with under(sharding.mesh):
        return reshard(x, sharding)


def moved_here(x: Array) -> Array:
    """Move ``x`` to the current mesh, see `sharding_on`."""
    sharding = sharding_on(jax.typeof(x), jax.sharding.get_abstract_mesh())
    return x if sharding is None else moved_to(x, sharding)
