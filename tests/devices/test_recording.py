"""Recordings and `find_nan` of programs in which each device has its own part."""

import jax
import jax.numpy as jnp
import numpy as np
from checks import assert_close
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import taxpr

MESH = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
X = jnp.arange(16.0).reshape(8, 2)


def sharded(body, **more):
    return jax.shard_map(body, mesh=MESH, in_specs=P("d"), out_specs=P("d"), **more)


def body(x):
    def step(c, k):
        low = x - 6.5 + k
        c = c + jnp.sqrt(jnp.maximum(low, 1.0))
        return c, None

    total = jax.lax.psum(x.sum(), "d")
    return jax.lax.scan(step, x, jnp.arange(2.0))[0] + total


def test_each_device_has_its_place():
    rec = taxpr.watch(jax.jit(sharded(body)))(X)
    low = rec["low"]
    assert low.axes == ("mesh d", "0:jit/call/0:shard_map/body/3:scan", "axis 0", "axis 1")
    assert low.shape == (8, 2, 1, 2)
    assert_close(low.value[:, 1].reshape(8, 2), X - 5.5)
    assert float(rec["total"].value.ravel()[0]) == 120
    assert_close(rec.out, sharded(body)(X))
    stats = taxpr.watch(sharded(body), keep="stats", memory=1)(X)
    assert_close(stats["low"].stats(each=True).max, np.asarray(low.value).max((2, 3)))


def test_a_fault_on_one_device_is_found():
    def faulty(x):
        def step(c, k):
            root = jnp.sqrt(c - 10.0 * k * (jax.lax.axis_index("d") == 5).astype(c.dtype))
            return root * root, None

        return jax.lax.scan(step, x + 1, jnp.arange(4.0))[0]

    row = taxpr.find_nan(sharded(faulty))(X).rows[0]
    assert (row.what, row.variable, row.device, row.iteration) == ("NaN", "root", "d=5", (2,))


def test_a_difference_is_found_of_arguments_that_are_on_no_mesh_yet():
    def scaled(factor):
        def f(x, w):
            def part(x, w):
                h = jnp.sin(x) * w * factor
                return h + jax.lax.psum(h.sum(), "d")

            spread = jax.shard_map(part, mesh=MESH, in_specs=(P("d"), P()), out_specs=P("d"))
            y = spread(x, w)
            return y

        return f

    w = jnp.float32(1.3)  # the arguments are on the first device, where the program need not run
    found = taxpr.first_difference(scaled(1.0), scaled(1.01))(X, w)
    assert (found.first.variable, found.first.difference > 0) == ("h", True)
    assert not taxpr.first_difference(scaled(1.0), scaled(1.0))(X, w)
    placed = jax.device_put(X, jax.NamedSharding(MESH, P("d")))  # and where they are bound to one
    w = jax.device_put(w, jax.NamedSharding(MESH, P()))
    assert taxpr.first_difference(scaled(1.0), scaled(1.01))(placed, w).first.variable == "h"
