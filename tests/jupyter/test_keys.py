"""Numbers for equations: which are equal, and which only compute the same way."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr_jupyter._analysis.structural_hash import Keys


def keys_of(fn, *args):
    """The keys, and the equations of a function."""
    return Keys(), taxpr.trace(fn)(*args).eqns


def test_slices_of_other_places_are_alike_and_not_equal():
    keys, (first, second, other) = keys_of(
        lambda x: (lax.slice(x, (0,), (2,)), lax.slice(x, (3,), (5,)), lax.slice(x, (0,), (3,))),
        jnp.ones(6),
    )
    assert keys.alike(first) == keys.alike(second) != keys.alike(other)
    assert keys.eqn(first).own != keys.eqn(second).own
    assert keys.eqn(first).kind == keys.eqn(other).kind


def test_functions_among_params_do_not_make_equations_unlike():
    def custom(scale):
        @jax.custom_jvp
        def f(x):
            return jnp.sin(x)

        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scale))
        return f

    keys, (one, two) = keys_of(lambda x: (custom(1.0)(x), custom(2.0)(x)), 0.5)
    assert keys.alike(one) == keys.alike(two)

    def conds(x):
        return [lax.cond(x > 0, jnp.sin, other, x) for other in (jnp.cos, jnp.tan)]

    keys, eqns = keys_of(conds, 0.5)
    one, two = filter(taxpr.is_hop, eqns)
    assert keys.alike(one) != keys.alike(two)  # what they hold is no function


@pytest.mark.parametrize(
    ("one", "other", "dtype"),
    [(2.0, 3.0, jnp.float32), (0.0, -0.0, jnp.float32), (2.0, 2.0, jnp.bfloat16)],
)
def test_literals_and_types_tell_equations_apart(one, other, dtype):
    keys, eqns = keys_of(lambda x, y: (x * one, y * other), jnp.float32(1), dtype(1))
    muls = [eqn for eqn in eqns if eqn.primitive.name == "mul"]
    assert keys.alike(muls[0]) != keys.alike(muls[1])
    assert keys.eqn(muls[0]).own != keys.eqn(muls[1]).own


def test_params_are_told_apart_by_type():
    keys = Keys()
    values = [0, False, "0", 0.0, -0.0, None, (0,), (False,), (0.0,), [0], {"a": 0}, (), b"0"]
    found = [keys.param(value) for value in values]
    assert len(set(found)) == len(values)
    assert found == [keys.param(value) for value in values]


def test_nested_jaxprs_are_looked_into():
    def calls(x):
        return [jax.jit(lambda x, k=k: jnp.sin(x) * k)(x) for k in (2.0, 2.0, 3.0)]

    keys, (one, same, other) = keys_of(calls, 0.5)
    assert keys.eqn(one) == keys.eqn(same)
    assert keys.alike(one) == keys.alike(same)
    assert keys.alike(one) != keys.alike(other)
    assert keys.eqn(one).own != keys.eqn(other).own
    assert keys.eqn(one).loose == keys.eqn(other).loose


def test_loops_are_unlike_whose_bodies_are_wired_another_way():
    def loop(body):
        return lambda c: lax.fori_loop(0, 3, lambda i, c: body(jnp.sin(c), jnp.cos(c)), c)

    def fn(c):
        minus, again = loop(lambda a, b: a - b), loop(lambda a, b: a - b)
        other, first = loop(lambda a, b: b - a), loop(lambda a, b: a - a)
        return minus(c), again(c), other(c), first(c)

    keys, eqns = keys_of(fn, 0.5)
    scans = [keys.alike(eqn) for eqn in eqns if eqn.primitive is lax.scan_p]
    assert scans[0] == scans[1]
    assert len(set(scans)) == 3
