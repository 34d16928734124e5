"""`find_nan` of a program that ends with the error of a callback."""

import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr

X = jnp.array([1.0, -1.0, 2.0])


def refuse(x):
    if not np.isfinite(x).all():
        raise ValueError("the solution is not finite\nand so on")
    return x


def checked(x):
    return jax.pure_callback(refuse, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def plain(x):
    root = jnp.log(x)
    solved = checked(root)
    return solved.sum()


def looped(x):
    def step(c, x):
        root = jnp.log(x)
        c = jax.lax.cond(x < 5, lambda c: checked(c + root), lambda c: c, c)
        return c, root

    return jax.lax.scan(step, jnp.float32(0.0), x)


def jitted(x):
    return jax.jit(plain)(x) + jax.jit(plain)(x)


@pytest.mark.parametrize("f", [plain, looped, jitted])
def test_what_came_before_the_error_is_found(f):
    for _ in range(2):  # what was compiled before has no error of before
        found = taxpr.find_nan(f)(X)
        assert found
        row = found.rows[0]
        assert (row.what, row.variable) == ("NaN", "root")
        assert row.code == "root = jnp.log(x)"
        assert "; an error ended the run" in found.headline
        assert any(
            "ended with an error: ValueError: the solution is not finite and so on." in n
            for n in found.notes
        )
        assert found.out is None
        fine = taxpr.find_nan(f)(jnp.abs(X))
        assert not fine
        assert fine.notes == ()
        jax.tree.map(np.testing.assert_allclose, fine.out, f(jnp.abs(X)))


def test_no_callback_is_called_after_the_error():
    called = []

    def note(x):
        called.append(float(x))
        return np.asarray(x)

    def f(x):
        y = checked(jnp.log(x))
        return jax.pure_callback(note, jax.ShapeDtypeStruct((), jnp.float32), y[0])

    assert taxpr.find_nan(f)(X)
    assert called == []
    assert not taxpr.find_nan(f)(jnp.abs(X))
    assert called == [0.0]


def test_an_error_of_another_reason_is_told():
    def fail(x):
        raise RuntimeError("too many steps")

    def f(x):
        y = x * 2
        return jax.pure_callback(fail, jax.ShapeDtypeStruct((3,), jnp.float32), y)

    found = taxpr.find_nan(f)(X)
    assert not found
    assert found.headline == "find_nan of f: no value that is not finite; an error ended the run"
    assert "RuntimeError: too many steps" in found.notes[-1]


def test_what_comes_after_the_error_is_in_no_row():
    def f(x):
        a = x * 2
        y = checked(jnp.log(a))
        late = jnp.log(y - 5.0)
        return 1.0 / late

    found = taxpr.find_nan(f)(X)
    assert [row.what for row in found.rows] == ["NaN"]
    assert "y = checked(jnp.log(a))" in found.rows[0].made_by

    def loops(x):
        y = checked(jnp.log(x)).sum()
        return jax.lax.while_loop(lambda s: s < 3.0, lambda s: s + y * 0 + 1, jnp.float32(0.0) + y)

    assert len(taxpr.find_nan(loops)(X).rows) == 1


def test_threads_have_errors_of_their_own():
    def slow(x):
        time.sleep(0.3)
        return refuse(x)

    def f(x):
        y = jnp.log(x)
        return jax.pure_callback(slow, jax.ShapeDtypeStruct(x.shape, x.dtype), y)

    program = taxpr.trace(f, names=True)(X)
    with ThreadPoolExecutor(2) as pool:
        bad, good = pool.map(taxpr.find_nan(program.__call__), [X, jnp.abs(X)])
    assert bad
    assert bad.out is None
    assert not good
    assert good.out is not None
