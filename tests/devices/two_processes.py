"""One program on four devices: run by one process that has them all, or by two that have two each.

python two_processes.py ADDRESS NUMBER FILE   is one of the two; it writes what it got to FILE
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)


def by_jit(mesh, x):
    """XLA spreads this program over the devices."""
    del mesh

    def step(c, w):
        c = tag(jnp.tanh(c @ jnp.ones((4, 4)) * w), name="c")
        return c, c.sum()

    c, sums = lax.scan(step, x, jnp.float32([0.5, -0.25, 0.125]))
    return tag(c - c.mean(), name="centred"), sums


def by_shard_map(mesh, x):
    def body(x):
        x = tag(x - lax.pmean(x, "i"), name="centred")
        go_on = lambda c: jnp.sum(c) < 9
        return lax.while_loop(go_on, lambda c: tag(jnp.abs(c) + 1, name="c"), x)

    return jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


def small(x):
    h = tag(jnp.tanh(x), name="h")
    return jnp.sum(h * x)


def injector(ctx, token, params):
    count, total = ctx
    return token * 1.01 + 0.01 * total, (count + 1, total * 0.5 + jnp.mean(token))


def results(devices):
    """All results, as numpy arrays."""
    mesh = Mesh(np.asarray(devices), ("i",), axis_types=(AxisType.Auto,))
    x = jax.make_array_from_callback(X.shape, NamedSharding(mesh, P("i")), lambda at: X[at])
    everywhere = NamedSharding(mesh, P())
    found = []
    for fn in by_jit, by_shard_map:
        program = taxpr.trace(lambda x, fn=fn: fn(mesh, x))(x)
        ctx = (jnp.int32(0), jnp.float32(0.25))
        run = program.inject(injector, ctx, shards="psum")
        found.append(jax.jit(run, out_shardings=everywhere)(ctx, x))
        found.append(jax.jit(program.collect(), out_shardings=everywhere)(x))
    swept = taxpr.sweep(small, taxpr.each("h", axis=0), taxpr.scale, [0.0, 0.5])(X)
    found = [np.asarray(leaf.addressable_data(0)) for leaf in jax.tree.leaves(found)]
    return [*found, swept.values]


def main(address, number, file):
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, 2, int(number), initialization_timeout=60)
    assert (jax.process_count(), jax.local_device_count(), jax.device_count()) == (2, 2, 4)
    np.savez(file, *results(jax.devices()))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
