"""What JAX's own document on jaxprs explains, each construct in a small program of ours."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PROGRAMS: dict[str, Callable[[], Any]] = {}

V = np.asarray([0.3, -0.8, 1.1, 0.2, 2.0], np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4)
TABLE = jnp.arange(10, dtype=jnp.float32)  # an array that programs close over


def program(*args: Any) -> Callable[..., Any]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__] = lambda: (fn, args)
        return fn

    return add


@program(V, V)
def first_order_and_literals(a, b):
    shifted = a + jnp.sin(b) * 3.0
    return jnp.sum(shifted)


@program({"scale": V, "shift": (V, V)}, V)
def pytrees(params, x):
    left, right = params["shift"]
    return {"out": params["scale"] * x + left, "rest": [right]}


@program(np.int32(4))
def closed_over_constants(i):
    return TABLE[i] * jnp.ones(3)


@program(np.int32(1), V)
def switch_on_an_index(index, x):
    return lax.switch(index, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x * 3.0], x)


@program(np.float32(0.5), V)
def cond_on_a_predicate(p, x):
    return lax.cond(p >= 0.0, lambda pair: pair[0] + 3.0, lambda pair: pair[1][0], (x, (x * 2, x)))


@program(np.int32(5))
def while_loop_with_constants(limit):
    weight = jnp.float32(1.5)
    start = (jnp.int32(0), jnp.ones(()))
    return lax.while_loop(
        lambda state: state[0] < limit, lambda state: (state[0] + 1, state[1] * weight), start
    )


@program(V, np.int32(7))
def fori_loop_to_an_argument(x, n):
    return lax.fori_loop(0, n, lambda i, c: c + x * i.astype(x.dtype) + 3.0, jnp.ones(5))


@program(V, np.float32(2))
def scan_with_a_constant(xs, extra):
    weights = jnp.ones(5)

    def step(carry, x):
        b, w = x
        return carry + b * w + extra, carry * 2.0

    return lax.scan(step, jnp.float32(0), (xs, weights))


@program(V)
def jit_in_a_function(x):
    @partial(jax.jit, static_argnums=1)
    def inner(y, power):
        return y**power + x * jnp.ones(1)

    return x + inner(x - 2.0, 3)


@program(V)
def jit_closing_over(x):
    return jax.jit(lambda y: y * x + TABLE[:5])(x + 1.0)


@program(M)
def derivatives_by_hand(x):
    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log1p(jnp.exp(x))

    log1pexp.defjvp(lambda p, t: (log1pexp(*p), jax.nn.sigmoid(p[0]) * t[0]))
    return log1pexp(x)


@program(M)
def gradient_of_a_rule(x):
    @jax.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, x), lambda x, ct: (jnp.where(x > 0, jnp.clip(ct, -1.0, 1.0), ct),))
    return jax.grad(lambda x: jnp.sum(clipped(x) ** 2))(x)


@program(M)
def mapped_over_devices_by_shard_map(x):
    devices = jax.device_count()
    mesh = jax.make_mesh((devices,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("rows")

    def share(x, extra):
        y = x + extra
        return y / lax.psum(jnp.sum(y), "rows")

    stacked = jnp.zeros((devices, 4), x.dtype)
    all_rows = jax.sharding.PartitionSpec()
    return jax.shard_map(share, mesh=mesh, in_specs=(rows, all_rows), out_specs=rows)(
        stacked, jnp.float32(1)
    )


@program(M)
def mapped_over_devices_by_pmap(x):
    many = jnp.zeros((jax.device_count(), 4), x.dtype)
    return jax.pmap(lambda x: x / lax.psum(x, axis_name="rows"), axis_name="rows")(many)
