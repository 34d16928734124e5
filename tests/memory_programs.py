"""Gradients for `taxpr.memory`, each with the variables that its temporaries are of."""

import functools

import jax
import jax.numpy as jnp

import taxpr

LAYERS, BATCH, WIDTH = 4, 64, 32
WEIGHTS = jnp.ones((LAYERS, WIDTH, WIDTH)) / WIDTH
X = jnp.ones((BATCH, WIDTH))


def layer(x, w):
    pre = x @ w
    act = jnp.tanh(pre)
    return act * 2.0


def scanned(ws, x):
    out, _ = jax.lax.scan(lambda c, w: (layer(c, w), None), x, ws)
    return jnp.sum(out**2)


def unrolled(ws, x):
    for k in range(LAYERS):
        x = layer(x, ws[k])
    return jnp.sum(x**2)


def remat(ws, x):
    out, _ = jax.lax.scan(lambda c, w: (jax.checkpoint(layer)(c, w), None), x, ws)
    return jnp.sum(out**2)


def with_policy(ws, x):
    keeps = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_saveable)
    out, _ = jax.lax.scan(lambda c, w: (keeps(c, w), None), x, ws)
    return jnp.sum(out**2)


def nested(ws, x):
    def outer(c, w):
        def inner(d, _):
            wave = jnp.sin(d @ w)
            return wave, None

        d, _ = jax.lax.scan(inner, c, None, length=3)
        return d, None

    out, _ = jax.lax.scan(outer, x, ws)
    return jnp.sum(out)


@jax.custom_vjp
def cubed(x):
    return x**3


def cubed_fwd(x):
    cube = x**3
    root = jnp.exp(x)
    return cube, root


cubed.defvjp(cubed_fwd, lambda root, g: (g * root,))


def custom_rule(ws, x):
    for k in range(LAYERS):
        x = cubed(x @ ws[k])
    return jnp.sum(x)


def conv(ws, x):
    image = jnp.tile(x[:, :, None, None], (1, 1, 4, 1))
    kernel = ws[0][:3, :3, None, None] * jnp.ones((1, 1, 1, 8))
    for _ in range(2):
        maps = jax.lax.conv_general_dilated(
            image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        image = jnp.sum(jnp.tanh(maps), -1, keepdims=True)
    return jnp.sum(image)


def attention(ws, x):
    def block(x, w):
        scores = (x @ w) @ x.T
        weights = jax.nn.softmax(scores)
        mixed = weights @ x
        hidden = jax.nn.gelu(mixed @ w)
        return x + hidden, None

    out, _ = jax.lax.scan(block, x, ws)
    return jnp.mean(out**2)


def recurrent(ws, x):
    def step(state, row):
        state = jnp.tanh(state @ ws[0] + row)
        return state, state

    _, states = jax.lax.scan(step, jnp.zeros((16, WIDTH)), jnp.stack([x[:16]] * 32))
    return jnp.sum(states**2)


def branched(ws, x):
    def step(x, w):
        x = jax.lax.cond(w[0, 0] > 0.0, lambda x: left(x, w), lambda x: right(x, w), x)
        return x, None

    out, _ = jax.lax.scan(step, x, ws)
    return jnp.sum(out)


def left(x, w):
    here = jnp.sin(x @ w)
    return here


def right(x, w):
    there = jnp.cos(x @ w)
    return there


@jax.jit
def jitted_layer(x, w):
    inside = jnp.sin(x @ w)
    return inside * x


def jitted(ws, x):
    for k in range(LAYERS):
        x = jitted_layer(x, ws[k])
    return jnp.sum(x)


def trained(ws, x):
    def step(ws, _):
        grads = jax.grad(scanned)(ws, x)
        return ws - 0.1 * grads, None

    return jax.lax.scan(step, ws, None, length=3)[0]


PROGRAMS = {
    "scanned": jax.grad(scanned),
    "unrolled": jax.grad(unrolled),
    "remat": jax.grad(remat),
    "with a policy": jax.grad(with_policy),
    "nested": jax.grad(nested),
    "custom rule": jax.grad(custom_rule),
    "conv": jax.grad(conv),
    "attention": jax.grad(attention),
    "recurrent": jax.grad(recurrent),
    "branched": jax.grad(branched),
    "jitted": jax.jit(jax.grad(jitted)),
    "trained": trained,
    "mapped": jax.vmap(jax.grad(scanned), (None, 0)),
}

# By reading the programs: what a layer takes and computes, which its derivative needs, and the
# derivatives of these. A statement stands for what is returned and has no variable.
RIGHT = {
    "scanned": {"c", "pre", "act", "ws"},
    "unrolled": {"x", "pre", "act", "w"},
    "remat": {"c", "pre", "act", "ws"},
    "with a policy": {"c", "pre", "act", "ws"},
    "nested": {"d", "wave", "ws"},
    "custom rule": {"x", "cube", "root"},
    "conv": {"image", "maps", "kernel"},
    "attention": {"x", "ws", "scores", "weights", "mixed", "hidden"},
    "recurrent": {"state", "states"},
    "branched": {"x", "here", "there", "ws"},
    "jitted": {"x", "inside", "return inside * x"},
    "trained": {"c", "pre", "act", "return ws - 0.1 * grads, None"},
    "mapped": {"c", "pre", "act", "ws"},
}


def arguments(name):
    return WEIGHTS, jnp.stack([X, X]) if name == "mapped" else X


@functools.cache
def use_of(name):
    """Compiled once for all tests."""
    return taxpr.memory(PROGRAMS[name])(*arguments(name))
