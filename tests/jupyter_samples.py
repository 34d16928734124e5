"""One program with tags in a scan, a branch and a while loop, shared by the tests."""

import jax
import jax.numpy as jnp
import numpy as np

import taxpr

XS = np.arange(6.0, dtype=np.float32).reshape(3, 2)
W = np.ones(2, dtype=np.float32)

# Addresses that are the same in all versions of JAX.
H = "0:scan/body/1:tanh.0"


def nested(w, xs):
    def step(c, x):
        h = taxpr.tag(jnp.tanh(c + x), name="h")
        big = h.sum() > 1.0
        c = jax.lax.cond(big, lambda c: taxpr.tag(c * 2.0, name="pos"), lambda c: c - 1.0, h)
        return c, jnp.sin(c)

    c, ys = jax.lax.scan(step, w, xs)

    def grow(state):
        i, v = state
        return i + 1, taxpr.tag(v * 1.5, name="v")

    start = (jnp.int32(0), jnp.abs(c) + 1.0)
    i, v = jax.lax.while_loop(lambda state: state[1].sum() < 20.0, grow, start)
    return {"c": c, "i": i, "v": v, "ys": ys}
