"""`find_nan` of a program that ends with the error of a callback."""

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
        assert any("ended with ValueError: the solution is not finite." in n for n in found.notes)
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
