"""`find_nan` lets XLA optimize nothing where that costs more than it saves, and says the same."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr import _compat
from taxpr._keeping.handing import Handing

UNARY = (
    *(lax.exp, lax.exp2, lax.log, lax.log1p, lax.expm1, lax.sqrt, lax.rsqrt, lax.cbrt, lax.sin),
    *(lax.cos, lax.tan, lax.tanh, lax.sinh, lax.cosh, lax.asin, lax.acos, lax.atan, lax.asinh),
    *(lax.acosh, lax.atanh, lax.logistic, lax.erf, lax.erf_inv, lax.lgamma, lax.digamma),
    *(lax.reciprocal, lax.square, lax.bessel_i0e),
)
BINARY = lax.add, lax.sub, lax.mul, lax.div, lax.pow, lax.rem, lax.max, lax.min, lax.atan2
SPECIAL = (
    *(0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -2.0, 35.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38),
    *(1.2e-38, 3.4e38, -3.4e38, 88.7, 88.72284, 88.8, -87.3, -88.0, -103.9, -104.0, 1e30, -1e30),
    *(3e-20, 1.8e19, 1.9e19, -1.0000001, 0.9999999, 1.0000001, 170.6),
)


@pytest.fixture
def compiled_quickly(monkeypatch):
    """For each program that hands values out, whether it is not optimized."""
    found, made = [], Handing.made

    names = [*inspect.signature(made).parameters]

    def noting(*given):
        found.append(given[names.index("quickly")])
        return made(*given)

    monkeypatch.setattr(Handing, "made", noting)
    return found


def steps(x):
    def step(c, _):
        rest = c - 1.0
        root = jnp.sqrt(rest)
        return root, root

    return lax.scan(step, x, None, length=3)[1]


@pytest.mark.parametrize(("size", "quickly"), [(4, True), (1 << 19, False)])
def test_large_arrays_are_optimized_and_give_the_same_row(compiled_quickly, size, quickly):
    [row] = taxpr.find_nan(steps)(jnp.full(size, 3.0)).rows
    assert compiled_quickly == [quickly]
    assert (row.what, row.variable, row.iteration) == ("NaN", "root", (2,))


def test_recordings_are_optimized_as_the_function_is(compiled_quickly):
    taxpr.watch(steps)(jnp.ones(4))
    assert compiled_quickly == [False]


def test_the_same_values_are_finite():
    """The kind of each value, finite, NaN or one of the infinities, is that of the optimized."""
    x, y = map(jnp.asarray, np.meshgrid(*[np.asarray(SPECIAL, np.float32)] * 2))

    def every(x, y):
        return [fun(x[0]) for fun in UNARY] + [fun(x, y) for fun in BINARY]

    options = _compat.quick_compile()
    assert options, "this XLA does not know the option"
    for dtype in (jnp.float32, jnp.bfloat16):
        given = x.astype(dtype), y.astype(dtype)
        known = jax.jit(every)(*given)
        quick = jax.jit(every, compiler_options=options)(*given)
        for fun, one, other in zip(UNARY + BINARY, known, quick, strict=True):
            assert np.array_equal(kinds(one), kinds(other)), fun


def kinds(x):
    x = np.asarray(x, np.float64)
    return np.isnan(x) + 2 * np.isposinf(x) + 4 * np.isneginf(x)
