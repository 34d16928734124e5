"""The answers of questions are the same with any memory: less of it takes more passes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr

LITTLE = 10**9, 64, 1
FINE = jnp.array([1.0, 2.0, 3.0, 0.0])
INFINITE = jnp.array([1.0, jnp.inf, 3.0, 2.0])


def residual(x):
    h = jnp.sin(x) * 0.0
    x = x + h
    return x.sum()


def twice(x):
    y = x * 2.0
    return y.sum()


def cancels(x):
    h = x - 1.0
    y = h - h
    return y.sum()


def joins(x):
    h = jnp.where(jnp.isfinite(x), x, 0.0) * 2.0
    x = x + h
    return x


def square_roots(xs):
    def step(c, x):
        rest = c - x
        root = jnp.sqrt(rest)
        return root, root * 2.0

    return jax.lax.scan(step, 10.0, xs)


def grows_in_a_scan(xs):
    def step(c, x):
        h = jnp.tanh(c) + 1.0
        c = c + h
        y = c * x
        return c, y - y

    return jax.lax.scan(step, xs[0], xs)


def masked(x):
    mask = jnp.where(jnp.arange(x.shape[0]) < 3, 0.0, -jnp.inf)
    s = x + mask
    w = jax.nn.softmax(s)
    t = jnp.log(w)
    return (t * w).sum()


def norm(x):
    n = jnp.sqrt((x * x).sum())
    return n


def with_a_table(x):
    table = np.array([1.0, np.nan, 3.0, 2.0], np.float32)
    z = x + table
    return z.sum()


def with_an_infinite_table(x):
    table = np.array([1.0, np.inf, 3.0, 2.0], np.float32)
    z = x + table
    q = z - z
    return q.sum()


def whiles(x):
    def body(c):
        c = c * 3.0
        return jnp.log(c - 20.0)

    return jax.lax.while_loop(lambda c: jnp.all(jnp.isfinite(c)) & (c < 100.0).all(), body, x)


def branch(x):
    return jax.lax.cond(x[0] > 0, lambda x: jnp.log(x - 1.0), lambda x: x, x).sum()


def gather(x):
    i = jnp.argsort(x)
    y = x[i]
    z = 1.0 / y
    return z[:2].sum()


PROGRAMS = {
    "an infinite argument with a NaN": (residual, INFINITE),
    "a NaN in an argument": (twice, jnp.array([1.0, jnp.nan, 3.0, 2.0])),
    "an infinite argument that cancels": (cancels, INFINITE),
    "an infinite argument in a result": (joins, INFINITE),
    "a scan": (square_roots, FINE),
    "an infinite argument in a scan": (grows_in_a_scan, INFINITE),
    "a mask": (masked, FINE),
    "a backward pass": (jax.grad(norm), FINE * 0.0),
    "a NaN in a constant": (with_a_table, FINE),
    "an infinity in a constant": (with_an_infinite_table, FINE),
    "a while loop": (whiles, FINE),
    "a branch": (branch, FINE),
    "what is gathered": (gather, FINE),
    "vmap": (jax.vmap(square_roots), jnp.stack([FINE, FINE + 1.0])),
}


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_find_nan_is_the_same_with_any_memory(name, everywhere):
    fun, x = PROGRAMS[name]
    whole = taxpr.find_nan(fun, everywhere=everywhere)(x)
    for memory in LITTLE:
        found = taxpr.find_nan(fun, everywhere=everywhere, memory=memory)(x)
        assert (found.headline, found.rows) == (whole.headline, whole.rows), memory
        np.testing.assert_array_equal(jax.tree.leaves(found.out)[0], jax.tree.leaves(whole.out)[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_difference_is_the_same_with_any_memory(name):
    fun, x = PROGRAMS[name]
    whole = taxpr.first_difference(fun)(x, x * 1.5)
    for memory in LITTLE:
        found = taxpr.first_difference(fun, memory=memory)(x, x * 1.5)
        assert found.headline == whole.headline, memory
        assert list(map(str, found.rows)) == list(map(str, whole.rows)), memory  # NaN is no NaN


def test_what_has_effects_runs_once_and_is_refused_with_what_helps():
    def fun(x):
        y = jnp.sin(x)
        return y + jax.experimental.io_callback(lambda y: y, y, y, ordered=True)

    with pytest.raises(taxpr.ArgumentError, match=r"has effects.*Give more by memory="):
        taxpr.first_difference(fun, memory=1)(FINE, FINE * 2.0)
    rows = taxpr.first_difference(fun, memory=1000)(FINE, FINE * 2.0).rows
    assert [row.variable for row in rows] == ["x", "y", "out"]


def test_a_second_run_for_elements_prints_nothing():
    seen = []

    def fun(x):
        y = jnp.log(x - 1.0)
        jax.debug.callback(seen.append, y)
        return y.sum()

    [row] = taxpr.find_nan(fun, memory=1)(FINE).rows
    assert (row.elements, len(seen)) == ("2 of 4 elements, the first at (0,)", 1)
