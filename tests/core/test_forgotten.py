"""Nothing is kept of a function that is gone: neither by taxpr nor by JAX's caches."""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr._compat import Token


def fresh():
    def fun(x):
        h = jnp.sin(x) * 2.0

        def step(c, _):
            c = c * 0.5 + h
            return c, c.sum()

        c, sums = jax.lax.scan(step, h, None, length=3)
        return (c * sums.sum()).sum()

    return fun


def injected(fun, x):
    return jax.jit(fun)(fun.init(x), x)


# What returns a function is jitted: JAX keeps loops that run eagerly for a time.
ASKED = {
    "watch": lambda f, x: taxpr.watch(f)(x),
    "watch every equation": lambda f, x: taxpr.watch(f, "*")(x),
    "watch the gradient": lambda f, x: taxpr.watch(f, grads=True)(x),
    "a gradient in the source": lambda f, x: taxpr.watch(jax.grad(f), taxpr.cotangent("h"))(x),
    "statistics": lambda f, x: taxpr.watch(f, keep="stats", memory=1)(x),
    "passes": lambda f, x: taxpr.watch(f, memory=100)(x),
    "find_nan": lambda f, x: taxpr.find_nan(f)(x),
    "flow": lambda f, x: taxpr.flow(f)(x),
    "first_difference": lambda f, x: taxpr.first_difference(f)(x, x * 2.0),
    "check": lambda f, x: taxpr.check(f)(x),
    "trace": lambda f, x: taxpr.trace(f, names=True)(x),
    "summary": lambda f, x: taxpr.summary(f)(x),
    "memory": lambda f, x: taxpr.memory(f)(x),
    "compiled": lambda f, x: taxpr.compiled(f)(x),
    "sweep": lambda f, x: taxpr.sweep(f, taxpr.var("h"), taxpr.scale, [0.5, 2.0])(x),
    "patch": lambda f, x: taxpr.patch(f, taxpr.var("h"))(x, x * 2.0),
    "collect": lambda f, x: jax.jit(taxpr.collect(f, taxpr.var("h")))(x),
    "grad_at": lambda f, x: jax.jit(taxpr.grad_at(f, taxpr.var("h")))(x),
    "edit": lambda f, x: jax.jit(taxpr.edit(f, "h", lambda h: h * 2.0))(x),
    "inject": lambda f, x: injected(taxpr.inject(f, taxpr.scale(2.0), where=taxpr.var("h")), x),
}


def alive(kind):
    """How many jaxprs of a class, and tokens of cotangents, there are."""
    gc.collect()
    return sum(type(one) in (kind, Token) for one in gc.get_objects())


@pytest.mark.parametrize("kind", ASKED)
def test_a_fresh_function_leaves_nothing(kind):
    x = jnp.ones(4)
    is_jaxpr = type(taxpr.trace(fresh())(x).jaxpr)
    for _ in range(2):
        ASKED[kind](fresh(), x)
    before, gone = alive(is_jaxpr), []
    for _ in range(4):
        fun = fresh()
        gone.append(weakref.ref(fun))
        ASKED[kind](fun, x)
        del fun
    assert alive(is_jaxpr) <= before
    assert [one() for one in gone] == [None] * 4
