"""What random programs found, each made small."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

import taxpr
from taxpr import tag

X = jnp.ones(2)


def test_an_unused_tag_in_a_while_condition_stays_when_others_are_injected():
    """`jax.lax.while_loop` drops dead code from the condition when a carry never changes."""

    def f(x):
        def goes_on(carry):
            tag(carry[1], name="unused")
            return carry[0] < 2

        step = lambda carry: (carry[0] + 1, tag(carry[1], name="body") * 0.5)
        return lax.while_loop(goes_on, step, (jnp.int32(0), x))

    jaxpr = jax.make_jaxpr(f)(1.0)
    assert [site.name for site in taxpr.find_tags(jaxpr)] == ["unused", "body"]
    identity = lambda ctx, token, params: (token, ctx)
    new = taxpr.inject(jaxpr, identity, 0, lambda params, _: params["name"] == "body")
    assert [site.name for site in taxpr.find_tags(new)] == ["unused"]
    (i, y, ctx) = jex.jaxpr_as_fun(new)(jnp.int32(7), 1.0)
    assert (i, y, ctx) == (2, 0.25, 7)


def test_literals_in_a_while_loop_are_collected_and_injected():
    def f(x):
        def goes_on(i):
            return tag(False, name="never")

        def step(i):
            tag(0.75, name="number")
            return i + 1

        return lax.while_loop(goes_on, step, 0)

    program = taxpr.trace(f)(1.0)
    out, values = program.collect()(1.0)
    assert out == 0
    assert values["never"] == taxpr.Last(False, 1)
    assert values["number"] == taxpr.Last(0.0, 0)
    injected = program.inject(lambda n, token, params: (token, n + 1), 0)
    assert injected(jnp.int32(0), 1.0) == (0, 1)


def test_the_derivative_of_a_while_loop_that_closes_over_an_array():
    """The debug info of a jaxpr with more arguments still names each of them."""

    def f(x):
        step = lambda carry: (carry[0] + 1.0, tag(carry[1] * x, name="body"))
        goes_on = lambda carry: carry[0] < jnp.sum(X) + 0 * x
        return lax.while_loop(goes_on, step, (0.0, x))[1]

    injected = taxpr.trace(f)(2.0).inject(lambda s, token, params: (token * s, s), 0.5)
    run = lambda s, x: injected(s, x)[0]
    primal, tangent = jax.jvp(run, (jnp.float32(0.5), 2.0), (jnp.float32(0), 1.0))
    assert (primal, tangent) == (2.0, 3.0)


def scaled(k):
    """A function of its own each time, with a tag in it and a rule that calls it."""

    def f(x):
        return tag(x * k, name=f"n{k}")

    call = jax.custom_jvp(f)
    call.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * k))
    return call


def many(x):
    return [scaled(k)(x) for k in range(20)]


def test_tags_of_one_rule_do_not_turn_up_in_another():
    """Each rule is traced to a jaxpr of its own, some of which live for a moment only."""
    sites = taxpr.find_tags(jax.make_jaxpr(many)(1.0))
    assert [site.name for site in sites] == [f"n{k}" for k in range(20)]


def test_rules_are_dissolved_each_by_itself():
    program = taxpr.trace(many)(1.0).dissolve()
    primals, tangents = jax.jvp(program, (1.0,), (1.0,))
    assert primals == tangents == [jnp.float32(k) for k in range(20)]
