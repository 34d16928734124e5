"""The forward pass of a checkpointed function says no call that may not have made it."""

import functools

import jax
import jax.numpy as jnp
import pytest

from taxpr import statements_of, trace
from taxpr.introspect import iter_eqns

X = jnp.ones(3)


@jax.checkpoint
def g(x):
    return jnp.sin(x) * 2


def stopped(x):
    a = jax.lax.stop_gradient(g(x))
    b = g(x + 1)
    return (a * b).sum()


def compared(x):
    a = g(x)
    keep = a > 0
    b = g(x + 1)
    return jnp.where(keep, b, 0).sum()


def logged(x):
    a = g(x)
    b = g(x + 1)
    return b.sum(), a


@jax.checkpoint
def around(x):
    a = jax.lax.stop_gradient(g(x))
    b = g(x)
    return a * b


def recomputed(x):
    return around(x).sum()


def plain(x):
    called = jax.make_jaxpr(g.__wrapped__)(x)
    [a] = jax.core.eval_jaxpr(called.jaxpr, called.consts, x)
    b = g(x + 1)
    return (a * b).sum()


def scanned(x):
    def step(h, _):
        a = jax.lax.stop_gradient(g(h))
        b = g(h)
        return a * b, None

    return jax.lax.scan(step, x, length=2)[0].sum()


@pytest.mark.parametrize("fun", [stopped, compared, logged, recomputed, plain, scanned])
@pytest.mark.parametrize("wrap", [lambda fun: fun, jax.jit])
def test_no_equation_has_the_line_of_another_call(fun, wrap):
    """The call whose gradient is stopped leaves its forward equations, and nothing to say so."""
    program = trace(jax.grad(wrap(fun), has_aux=fun is logged))(X)
    sines = [eqn for *_, eqn in iter_eqns(program) if eqn.primitive.name == "sin"]
    assert len(sines) > 1  # of both calls, or of the calls and what is computed again
    texts = [one.text for eqn in sines for one in statements_of(eqn)]
    assert "return jnp.sin(x) * 2" in texts
    assert not [text for text in texts if text.startswith("b = ")]


def test_a_program_is_traced_inside_a_jitted_function_that_jax_checks_for_leaks():
    @jax.jit
    def outer(x):
        return trace(lambda y: y * x)(x)(x)

    with jax.checking_leaks():
        assert jnp.array_equal(outer(2 * X), 4 * X)


@pytest.mark.parametrize("fun", [stopped, compared, recomputed, scanned])
def test_a_traced_derivative_computes_maps_traces_and_lowers_as_the_function(fun):
    fun = jax.value_and_grad(fun)
    program = trace(fun)(X)
    same = functools.partial(jax.tree.map, jnp.array_equal)
    assert all(jax.tree.leaves(same(program(X), fun(X))))
    many = jnp.arange(6.0).reshape(2, 3)
    assert all(jax.tree.leaves(same(jax.vmap(program)(many), jax.vmap(fun)(many))))
    assert str(trace(program)(X).jaxpr) == str(program.jaxpr)
    assert jax.jit(program).lower(X).cost_analysis() == jax.jit(fun).lower(X).cost_analysis()
