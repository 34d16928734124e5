"""A derivative that was taken before an injection is that of the function as it was."""

import warnings

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr import tag

HERE = r"\(test_stale_derivatives\.py:\d+ in \S+, at \S*t\d+\)"


def loss(w):
    return jnp.sum(tag(w**2, name="h") ** 2)


def in_scan(w):
    step = lambda c, x: (tag(jnp.sin(c * x), name="h"), None)
    return lax.scan(step, w, jnp.arange(1.0, 4.0))[0]


def checkpointed(w):
    return jax.jit(jax.checkpoint(lambda w: jnp.sin(tag(w * w, name="h"))))(w)


MESSAGE = (
    rf"inject: tag 'h' {HERE}.*: the program was differentiated before .* inject first "
    r"and differentiate then"
)


def test_inject_first_and_differentiate_then():
    first = taxpr.inject(loss, taxpr.scale(0.5), where="h")
    w = jnp.float32(3.0)
    assert float(jax.grad(lambda w: first(first.init(w), w)[0])(w)) == 27.0
    with pytest.warns(
        taxpr.StaleDerivativeWarning, match=r"tag 'h' \(.*, at t0\).*differentiated"
    ) as seen:
        late = taxpr.trace(jax.grad(loss))(w).inject(taxpr.scale(0.5), where="h")
    assert seen[0].filename == __file__
    assert float(late(late.ctx, w)[0]) == 54.0


@pytest.mark.parametrize("fn", [in_scan, checkpointed])
@pytest.mark.parametrize(
    "derive",
    [
        jax.grad,
        jax.value_and_grad,
        jax.jacfwd,
        lambda fn: lambda w: jax.jvp(fn, (w,), (1.0,)),
        lambda fn: jax.vmap(jax.grad(fn), axis_size=2, in_axes=None),
        lambda fn: jax.grad(jax.grad(fn)),
    ],
)
@pytest.mark.parametrize(
    "injector",
    [
        taxpr.scale(0.5),
        taxpr.stop_gradient(),
        [taxpr.record(), taxpr.zero()],
        lambda ctx, token, params: (token * 2, ctx),
    ],
    ids=["scale", "stop_gradient", "list", "function"],
)
def test_what_changes_a_token_warns(fn, derive, injector):
    program = taxpr.trace(derive(fn))(jnp.float32(0.5))
    with pytest.warns(taxpr.StaleDerivativeWarning, match=MESSAGE) as seen:
        program.inject(injector)
    assert len(seen) == 1


def test_a_function_that_is_injected_warns_once():
    """Its init, its report and each of its calls inject it anew."""
    injected = taxpr.inject(jax.grad(loss), taxpr.scale(0.5))
    x = jnp.float32(0.5)
    seen = []
    with taxpr.warnings_to(seen.append):
        ctx = injected.init(x)
        _, ctx = injected(ctx, x)
        injected(ctx, x)
        injected.report(ctx, x)
    assert [type(one) for one in seen] == [taxpr.StaleDerivativeWarning]
    other = taxpr.inject(jax.grad(loss), taxpr.scale(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # the first one was not said, but raised
            with pytest.raises(taxpr.StaleDerivativeWarning):
                other.init(x)


OBSERVERS = [
    taxpr.record(),
    taxpr.stats(),
    taxpr.count(),
    taxpr.check_finite(),
    taxpr.print(),
    [taxpr.record(), taxpr.count()],
    lambda ctx, token, params: (token, ctx),
]


@pytest.mark.parametrize("injector", OBSERVERS)
@pytest.mark.parametrize("fn", [in_scan, checkpointed])
def test_what_only_looks_does_not(fn, injector):
    program = taxpr.trace(jax.value_and_grad(fn))(jnp.float32(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.inject(injector)
        program.collect(stack=True)
        program.until(stack=True)
        taxpr.inject(program.jaxpr, lambda ctx, token, params: (token, ctx), 0)


def test_an_observer_of_each_example_does_not():
    batch = jax.vmap(jax.grad(loss), in_axes=1, out_axes=1)
    program = taxpr.trace(batch)(jnp.ones((2, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.inject(taxpr.per_example(taxpr.count()))


def test_what_no_derivative_was_taken_of_does_not():
    def fn(w, x):
        x = tag(jnp.sin(x), name="data")
        return taxpr.tag_cotangent(w * x, name="back") ** 2 + lax.stop_gradient(tag(w, name="w"))

    program = taxpr.trace(jax.grad(fn))(1.0, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.inject(taxpr.scale(0.5), where=["data", "back"])
        program.tag_at(jax.lax.sin_p, name="late").inject(taxpr.scale(0.5), where="late")
        taxpr.grad_at(lambda w: jax.grad(loss)(w), "h")(jnp.float32(3.0))


def test_the_drop_in_warns_and_many_tags_are_one_warning():
    def many(w):
        for k in range(8):
            w = tag(jnp.sin(w), name=f"h{k}")
        return w

    jaxpr = jax.make_jaxpr(jax.grad(many))(1.0)
    message = r"tag 'h0' .*at t0\); .*; tag 'h4' .*at t4\); and 3 more: the program was"
    with pytest.warns(taxpr.StaleDerivativeWarning, match=message) as seen:
        taxpr.inject(jaxpr, lambda ctx, token, params: (-token, ctx), 0)
    assert len(seen) == 1
