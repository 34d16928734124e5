"""Functions that are made anew for each call, and all that can be asked of them."""

import gc

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
    return jax.jit(fun)(fun.init(x) if hasattr(fun, "init") else fun.ctx, x)


def tagged(fun):
    return lambda x: fun(
        taxpr.tag_cotangent(taxpr.keep(taxpr.tag(x, name="t"), name="k"), name="g")
    )


def with_a_state(fun):
    last = taxpr.State(jnp.float32(1.0))

    def step(x):
        last.value = last.value * 2.0
        return fun(last.value * x)

    return step


def ran_uncurried(fun, x):
    pure, states = taxpr.uncurry(with_a_state(fun), x)
    return jax.jit(pure)(states, x)


def watched_compilations(fun, x):
    with taxpr.compiles() as log:
        jax.jit(fun)(x)
    return log.compiles.rows


def asked_why(fun, x):
    known = taxpr.why_compiled(jax.jit(fun))
    known(x)
    return known.compiles.rows


def stopped_by_an_error(fun, x):
    def wrong(x):
        return fun(x) + jnp.ones(3) @ jnp.ones(2)

    with pytest.raises(TypeError) as caught:
        taxpr.trace(wrong)(x)
    assert taxpr.until_error(caught.value) is not None


def trained(fun, x):
    with taxpr.every(1, jax.jit(fun), lambda told: None, "h") as stepping:
        stepping(x)


def tagged_later(fun, x):
    program = taxpr.tag_at(taxpr.trace(fun, names=True)(x), "h", name="t")
    assert taxpr.find_tags(program, "t")
    assert taxpr.find_values(program, "h")
    _, values = jax.jit(program.collect("t"))(x)
    jax.jit(program.plant(values))(x)
    injected(program.inject({"t": taxpr.plant(values["t"])}), x)
    jax.jit(program.dissolve())(x)
    jax.jit(program.until("t"))(x)
    taxpr.dissolve_tags(program.jaxpr)


def by_batch_element(fun, x):
    rows = jax.vmap(lambda x: fun(taxpr.tag(x, name="t")))
    x = jnp.stack([x, x])
    program = taxpr.trace(rows)(x)
    halved = taxpr.from_function(lambda ctx, token, params: (token * 0.5, ctx))
    each = taxpr.switched(taxpr.per_example(halved))
    changed = program.inject({"t": each})
    return jax.jit(changed)(changed.ctx, x)


def by_injectors(fun, x):
    @taxpr.injector()
    def doubled(token):
        return token * 2.0

    def halved(ctx, token, params):
        return token * 0.5, ctx

    ready = [
        taxpr.count(), taxpr.record(), taxpr.stats(), taxpr.check_finite(), taxpr.scale(2.0),
        taxpr.add(1.0), taxpr.clip(-1.0, 1.0), taxpr.noise(0), taxpr.cast(jnp.bfloat16),
        taxpr.stop_gradient(), taxpr.zero(), taxpr.replace(1.0), doubled(),
        taxpr.from_function(halved),
    ]  # fmt: skip
    out = injected(taxpr.inject(tagged(fun), {"t": ready, "k": taxpr.scale(2.0)}), x)
    clipped = taxpr.inject(jax.grad(tagged(fun)), {"g": taxpr.clip(-1.0, 1.0)})
    summing = lambda x: fun(taxpr.tag(x + taxpr.tag(0 * x, name="s", op="get"), name="s", op="set"))
    return out, injected(clipped, x), injected(taxpr.inject(summing, taxpr.state(x)), x)


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
    "check_grad": lambda f, x: taxpr.check_grad(f)(x),
    "compile_time": lambda f, x: taxpr.compile_time(f)(x),
    "compiles": watched_compilations,
    "why_compiled": asked_why,
    "profile": lambda f, x: taxpr.profile(f)(x),
    "every": trained,
    "until_error": stopped_by_an_error,
    "uncurry": ran_uncurried,
    "make_jaxpr": lambda f, x: taxpr.make_jaxpr(with_a_state(f))(x),
    "tag_at": tagged_later,
    "per_example": by_batch_element,
    "injectors": by_injectors,
    "inject": lambda f, x: injected(taxpr.inject(f, taxpr.scale(2.0), where=taxpr.var("h")), x),
}


def alive(kind):
    """How many jaxprs of a class, and tokens of cotangents, there are."""
    gc.collect()
    return sum(type(one) in (kind, Token) for one in gc.get_objects())
