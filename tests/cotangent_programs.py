"""Losses whose cotangents are compared with derivatives by hand.

Where a line says ``# ∂ x``, the test adds a zero to ``x`` by hand, with respect to which it
differentiates.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

import taxpr

X = jnp.asarray([0.3, -0.8, 1.1])
W = jnp.asarray([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7], [0.1, 0.9, -0.2]])


def plain(w, x):
    # ∂ w
    h = x @ w
    # ∂ h
    return jnp.sum(jnp.tanh(h))


def several_uses(w, x):
    h = x @ w
    # ∂ h
    a = jnp.sin(h)
    # ∂ a
    return jnp.sum(a * h) + h[0] + jnp.prod(h)


def adds_constants(w, x):
    h = x @ w
    # ∂ h
    a = h + 1.0
    # ∂ a
    b = a - 2.0
    # ∂ b
    return jnp.sum(a * b) + jnp.sum(jnp.sin(h))


def adds_two(w, x):
    h = x @ w
    # ∂ h
    g = jnp.cos(x @ w.T)
    # ∂ g
    y = h + g
    # ∂ y
    return jnp.sum(y * y) + jnp.sum(g)


def reassigned(w, x):
    x = x @ w
    x = jnp.tanh(x)
    out = x * 2
    # ∂ out
    return jnp.sum(out**2)


def inner(u):
    # ∂ u
    v = jnp.exp(u)
    # ∂ v
    return v * 2.0


def calls(w, x):
    h = x @ w
    # ∂ h
    y = inner(h * 0.5)
    # ∂ y
    return jnp.sum(y) + jnp.sum(h)


def with_libraries(w, x):
    logits = x @ w
    # ∂ logits
    p = jax.nn.softmax(logits)
    # ∂ p
    q = jax.nn.relu(logits)
    # ∂ q
    norm = jnp.linalg.norm(p + q)
    # ∂ norm
    return norm * jnp.var(q)


@jax.jit
def jitted_inner(u):
    v = jnp.sin(u)
    # ∂ v
    a = v + 1.0
    # ∂ a
    return v * a


def jitted(w, x):
    h = x @ w
    # ∂ h
    return jnp.sum(jitted_inner(h) * h)


@jax.jit
def all_jitted(w, x):
    h = x @ w
    # ∂ h
    y = jitted_inner(h) * h
    # ∂ y
    return jnp.sum(y)


def vmapped_one(u, w):
    v = jnp.dot(u, w)
    return v * jnp.sum(u)


def vmapped(w, x):
    h = jnp.outer(x, x) @ w
    # ∂ h
    s = jnp.sin(h)
    # ∂ s
    y = jax.vmap(vmapped_one, in_axes=(0, None))(s, x)
    # ∂ y
    return jnp.sum(y**2) + jnp.sum(h)


@jax.checkpoint
def block(u, w):
    v = jnp.tanh(u @ w)
    # ∂ v
    return v * u


def rematted(w, x):
    h = block(x, w)
    # ∂ h
    return jnp.sum(block_of_two(h, w))


@functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
def block_of_two(u, w):
    s = jnp.sin(u)
    # ∂ s
    t = s @ w
    # ∂ t
    return t * s


@jax.custom_vjp
def doubled(u):
    return jnp.sin(u)


doubled.defvjp(lambda u: (jnp.sin(u), u), lambda u, g: (10.0 * g,))


def custom(w, x):
    h = x @ w
    # ∂ h
    y = doubled(h)
    # ∂ y
    return jnp.sum(y * h)


@jax.custom_jvp
def straight_through(u):
    return jnp.round(u)


straight_through.defjvp(lambda p, t: (jnp.round(p[0]), t[0]))


def passes_tangent(w, x):
    h = x @ w
    # ∂ h
    y = straight_through(h)
    # ∂ y
    return jnp.sum(y * jnp.sin(h)) + jnp.sum(y)


@jax.custom_jvp
def reversed_gradient(u):
    return u


reversed_gradient.defjvp(lambda p, t: (p[0], -3.0 * t[0]))


def same_value_other_tangent(w, x):
    h = x @ w
    # ∂ h
    y = reversed_gradient(h)
    # ∂ y
    return jnp.sum(y * y) + jnp.sum(h)


def branches(w, x):
    h = x @ w
    # ∂ h

    def yes(u):
        s = jnp.sin(u)
        # ∂ s
        return s * u

    def no(u):
        c = jnp.cos(u)
        return c

    y = lax.cond(x[0] > 0, yes, no, h)
    # ∂ y
    return jnp.sum(y * h)


def of_tree(w, x):
    params = {"a": w * 2, "b": (x * w[1], w[0])}
    # ∂ params
    y = params["b"][0] @ params["a"] + params["b"][1]
    # ∂ y
    return jnp.sum(y**3)


def stopped_beside(w, x):
    h = x @ w
    # ∂ h
    s = lax.stop_gradient(h)
    y = h * s
    # ∂ y
    return jnp.sum(y)


def unrolled(w, x):
    total = jnp.zeros(3)
    for k in range(3):
        total = total + jnp.sin(x @ w) * k
    last = total
    # ∂ last
    return jnp.sum(last * jnp.cos(last))


def through_closure(w, x):
    h = x @ w
    # ∂ h

    def later(k):
        r = h * k
        return jnp.sum(r)

    return later(2.0) + jnp.sum(jnp.sin(h))


class Layer:
    def __init__(self, w):
        self.w = w

    def __call__(self, u):
        y = u @ self.w
        # ∂ y
        return jax.nn.gelu(y)


def with_objects(w, x):
    layer = Layer(w)
    h = layer(x)
    # ∂ h
    return jnp.sum(h)


def mixed_types(w, x):
    low = (x @ w).astype(jnp.bfloat16)
    # ∂ low
    up = low.astype(jnp.float32)
    # ∂ up
    return jnp.sum(up * up)


def of_ints(w, x):
    at = jnp.argsort(x)
    h = w[at]
    # ∂ h
    return jnp.sum(h @ x)


def with_scatter(w, x):
    buffer = jnp.zeros(5).at[jnp.array([0, 2, 2])].add(x @ w)
    # ∂ buffer
    return jnp.sum(buffer**2)


def nested_jits(w, x):
    @jax.jit
    def outer(u):
        @jax.jit
        def inmost(z):
            e = jnp.exp(z)
            # ∂ e
            return e * z

        m = inmost(u) + u
        # ∂ m
        return m

    return jnp.sum(outer(x @ w))


def with_tags(w, x):
    h = taxpr.tag(x @ w, name="h")
    # ∂ h
    return jnp.sum(h * jnp.sin(h))


def earlier_in_a_jit(w, x):
    @jax.jit
    def both(u):
        v = (s := jnp.sin(u)) * jnp.sum(s)
        # ∂ v
        return v

    return jnp.sum(both(x @ w) ** 2)


LOSSES = [
    *(plain, several_uses, adds_constants, adds_two, reassigned, calls, with_libraries, jitted),
    *(all_jitted, vmapped, rematted, custom, passes_tangent, same_value_other_tangent, branches),
    *(of_tree, stopped_beside, unrolled, through_closure, with_objects, mixed_types, of_ints),
    *(with_scatter, nested_jits, with_tags, earlier_in_a_jit),
]
