"""What a shard_map means, by hand: the body for each device in turn, by the plain interpreter.

For bodies without collectives. It shares no code with taxpr.
"""

import functools

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from reference import Reference

import taxpr

MESHES = {"8": ((8,), ("i",)), "4x2": ((4, 2), ("i", "j"))}


@functools.cache
def mesh(name, axis_type=AxisType.Auto):
    sizes, names = MESHES[name]
    return jax.make_mesh(sizes, names, axis_types=(axis_type,) * len(names))


def axes_of(spec):
    """The mesh axes that a spec names, in the order of the mesh."""
    entries = [e if isinstance(e, tuple) else (e,) for e in spec if e is not None]
    return tuple(sorted(name for entry in entries for name in entry))


def by_device(fn, x, in_spec, out_spec, over, injector, ctx):
    """``fn`` on each shard of ``x``, each with a context of its own.

    Returns the result put together, and a dict: coordinates of the device to its final context.
    """
    places = NamedSharding(over, in_spec).devices_indices_map(x.shape)
    outs, contexts = {}, {}
    for where, device in np.ndenumerate(over.devices):
        shard = x[places[device]]
        reference = Reference(injector, ctx)
        (outs[device],) = reference(jax.make_jaxpr(fn)(shard), shard)
        contexts[where] = reference.ctx
    sizes = dict(over.shape)
    factors = [
        int(np.prod([sizes[name] for name in (e if isinstance(e, tuple) else (e,))])) if e else 1
        for e in (*out_spec, *[None] * (x.ndim - len(out_spec)))
    ]
    shape = tuple(n * k for n, k in zip(next(iter(outs.values())).shape, factors, strict=True))
    whole = np.full(shape, np.nan, np.float32)
    for device, index in NamedSharding(over, out_spec).devices_indices_map(shape).items():
        assert np.isnan(whole[index]).all() or np.allclose(whole[index], outs[device])
        whole[index] = outs[device]
    return whole, contexts


def merged(policy, old, contexts, over, along):
    """One leaf of the contexts of all devices, which differs along some axes."""
    sizes = tuple(over.shape.values())
    grid = np.empty((*sizes, *np.shape(old)), np.asarray(old).dtype)
    for where, value in contexts.items():
        grid[where] = value
    others = tuple(k for k, name in enumerate(over.axis_names) if name not in along)
    for axis in reversed(others):
        assert np.allclose(grid, grid.take([0], axis))
        grid = grid.take(0, axis)
    each = tuple(range(len(along)))
    if policy == "psum":
        return old + (grid - old).sum(each, dtype=grid.dtype)
    if policy == "pmax":
        return grid.max(each)
    if policy == "stack":
        return grid
    return grid.mean(each, dtype=grid.dtype)


def changing(ctx, token, params):
    """Reads and changes token and context; the order of calls shows in ``s``."""
    w = jnp.float32(0.3 + 0.1 * len(params["name"]))
    token = jax.tree.map(lambda x: changed(x, ctx["s"]), token)
    floats = [x for x in jax.tree.leaves(token) if jnp.issubdtype(x.dtype, jnp.floating)]
    seen = sum((jnp.mean(x) for x in floats), start=jnp.float32(0))
    return token, {"n": ctx["n"] + 1, "s": ctx["s"] * 0.5 + w * seen + 0.1}


def changed(x, s):
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x * 1.01 + 0.01 * s
    return x + 1 if jnp.issubdtype(x.dtype, jnp.integer) else x


def start():
    return {"n": jnp.int32(2), "s": jnp.float32(0.25)}


def injected(fn, args, injector=changing, ctx=None, predicate=None, **options):
    """``(ctx, *args) -> (outs, ctx)`` by `taxpr.inject`, and its jaxpr."""
    ctx = start() if ctx is None else ctx
    new = taxpr.inject(jax.make_jaxpr(fn)(*args), injector, ctx, predicate, **options)
    tree = jax.tree.structure(ctx)

    def run(ctx, *args):
        flat = jex.jaxpr_as_fun(new)(*jax.tree.leaves(ctx), *args)
        n = len(flat) - tree.num_leaves
        return flat[:n], jax.tree.unflatten(tree, flat[n:])

    return run, new


def sharded(fn, over, in_spec, out_spec=None, **options):
    out_spec = in_spec if out_spec is None else out_spec
    return jax.shard_map(fn, mesh=over, in_specs=in_spec, out_specs=out_spec, **options)
