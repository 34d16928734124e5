"""A checkpointed function has its caller in the forward pass, too, and is one call there."""

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr import statements_of, trace
from taxpr.introspect import is_recomputed, iter_eqns

WS, X = jnp.ones((3, 4, 4)), jnp.ones(4)


def block(w, h):
    h = jnp.tanh(w @ h)
    return h * 2.0


def inner(h):
    return jnp.sin(h)


def outer(w, h):
    return jax.checkpoint(inner)(w @ h)


def scanned(call):
    def loss(ws, x):
        def step(h, w):
            h = call(w, h)
            return h - jnp.mean(h), None

        h, _ = jax.lax.scan(step, x, ws)
        return jnp.sum(h**2)

    return loss


def callers(fun, *args, of="tanh"):
    """The functions that made the forward equations of a primitive, innermost first."""
    eqns = [eqn for *_, eqn in iter_eqns(trace(fun)(*args))]
    found = [one for one in eqns if one.primitive.name == of and not is_recomputed(one)]
    return [[one.function.rpartition(".")[2] for one in statements_of(eqn)] for eqn in found]


def flops(rows, name):
    return [(row.depth, row.calls, row.iterations, row.flops) for row in rows if row.name == name]


def test_the_forward_pass_of_a_scan_says_who_called_the_function():
    fun = jax.value_and_grad(scanned(jax.checkpoint(block)))
    assert callers(fun, WS, X) == [["block", "step"]]
    assert callers(jax.value_and_grad(scanned(block)), WS, X) == [["block", "step"]]


def test_the_forward_pass_without_a_loop_says_who_called_the_function():
    def loss(w, x):
        h = jax.checkpoint(block)(w, x)
        return jnp.sum(h)

    [found] = callers(jax.grad(loss), WS[0], X)
    assert found[:2] == ["block", "loss"]


def test_checkpointed_functions_in_each_other_have_all_callers():
    fun = jax.value_and_grad(scanned(jax.checkpoint(outer)))
    assert callers(fun, WS, X, of="dot_general")[0] == ["outer", "step"]
    rows = taxpr.summary(fun)(WS, X).rows
    assert [row.name for row in rows if row.name in ("step", "outer", "inner")] == [
        "step",
        "outer",
        "inner",
    ]


def test_a_function_that_is_called_in_two_lines_does_not_say_in_which():
    def both(w, h):
        h = jax.checkpoint(block)(w, h)
        h = jnp.cos(h)
        return jax.checkpoint(block)(w, h)

    found = callers(jax.value_and_grad(scanned(both)), WS, X)
    assert found == [["block"], ["block"]]


@pytest.mark.parametrize("name", ["block", "return h * 2.0"])
def test_the_summary_has_one_row_for_a_checkpointed_call(name):
    """By hand: the block is computed twice, each time with 2 * 4 * 4 + 4 operations or more."""
    once = flops(taxpr.summary(jax.value_and_grad(scanned(block)))(WS, X).rows, name)
    twice = taxpr.summary(jax.value_and_grad(scanned(jax.checkpoint(block))))(WS, X)
    found = flops(twice.rows, name)
    assert len(once) == len(found) == 1
    assert found[0][:3] == once[0][:3]  # as without the checkpoint
    recomputed = {"block": 3 * (2 * 4 * 4), "return h * 2.0": 0}  # the last product is not needed
    assert found[0][3] == once[0][3] + recomputed[name]
    assert sum(row.equations for row in twice.rows if row.depth == 1) == twice.rows[0].equations


def test_a_program_without_derivatives_keeps_its_jaxpr():
    plain = jax.make_jaxpr(scanned(jax.checkpoint(block)))(WS, X)
    assert str(trace(scanned(jax.checkpoint(block)))(WS, X).jaxpr) == str(plain)


def test_the_value_is_unchanged():
    fun = jax.value_and_grad(scanned(jax.checkpoint(block)))
    value, grad = trace(fun)(WS, X)(WS, X)
    expected = fun(WS, X)
    assert jnp.array_equal(value, expected[0])
    assert jnp.array_equal(grad, expected[1])
