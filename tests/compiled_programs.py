"""Programs that are compiled: loops, branches, rules and their derivatives."""

import jax
import jax.numpy as jnp


def layer(x, w):
    pre = x @ w
    act = jnp.tanh(pre)
    return act, None


def scanned(ws, x):
    out, _ = jax.lax.scan(layer, x, ws)
    return jnp.sum(out**2)


def unrolled(ws, x):
    for k in range(3):
        x, _ = layer(x, ws[k])
    return jnp.sum(x**2)


def remat(ws, x):
    out, _ = jax.lax.scan(jax.checkpoint(layer), x, ws)
    return jnp.sum(out**2)


def halving(ws, x):
    x = jax.lax.while_loop(lambda x: jnp.sum(x) > 1.0, lambda x: x / 2.0, jnp.abs(x))
    return jax.lax.cond(x[0, 0] > 0.0, lambda x: x @ ws[0], lambda x: x * 2.0, x)


@jax.custom_vjp
def doubled(x):
    return x * 2.0


doubled.defvjp(lambda x: (doubled(x), jnp.sin(x)), lambda s, g: (g * s,))


def ruled(ws, x):
    y = doubled(x @ ws[0])
    return jnp.sum(y)


def convolved(ws, x):
    image = jnp.broadcast_to(x[None, :, :, None], (2, *x.shape, 1))
    kernel = ws[0][:3, :3, None, None]
    out = jax.lax.conv_general_dilated(
        image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.sum(out**2)


PROGRAMS = {
    "scanned": jax.grad(scanned),
    "unrolled": jax.grad(unrolled),
    "remat": jax.grad(remat),
    "halving": halving,
    "ruled": jax.grad(ruled),
    "convolved": jax.grad(convolved),
    "mapped": jax.vmap(jax.grad(scanned), (None, 0)),
    "of two jits": lambda ws, x: jax.jit(scanned)(ws, x) + jax.jit(scanned)(ws, x * 2.0),
}


def arguments(name):
    x = jnp.ones((16, 16))
    return jnp.ones((3, 16, 16)) / 16, jnp.stack([x, x]) if name == "mapped" else x
