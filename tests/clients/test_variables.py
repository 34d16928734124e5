"""Variables of the user's code in and around modules of libraries."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from python_locals import compare

import taxpr
from taxpr import var

X = jnp.arange(6.0).reshape(2, 3) / 6


class OfEquinox(eqx.Module):
    linear: eqx.nn.Linear
    w: jax.Array

    def __call__(self, x):
        h = jax.vmap(self.linear)(x)
        h = h * self.w
        return jax.nn.relu(h)


def equinox(model, x):
    y = model(x)
    return y.sum()


class OfLinen(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Dense(4, name="up")(x)
        w = self.param("w", nn.initializers.ones, (4,))
        h = nn.relu(h * w)
        out = nn.Dense(2)(h)
        return out


def linen(params, x):
    y = OfLinen().apply(params, x)
    return y.sum()


class OfNnx(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 4, rngs=rngs)
        self.w = nnx.Param(jnp.ones(4))

    def __call__(self, x):
        h = self.linear(x)
        h = h * self.w[...]
        return nnx.relu(h)


GRAPH, STATE = nnx.split(OfNnx(nnx.Rngs(0)))


def of_nnx(state, x):
    model = nnx.merge(GRAPH, state)
    y = model(x)
    return y.sum()


def inner(x):
    h = hk.Linear(4, name="up")(x)
    h = jax.nn.relu(h)
    return h.sum()


TRANSFORMED = hk.without_apply_rng(hk.transform(inner))


def haiku(params, x):
    y = TRANSFORMED.apply(params, x)
    return y * 2


KEY = jax.random.key(0)
PROGRAMS = {
    "equinox": (equinox, OfEquinox(eqx.nn.Linear(3, 3, key=KEY), jnp.ones(3)), "OfEquinox"),
    "linen": (linen, OfLinen().init(KEY, X), "OfLinen"),
    "nnx": (of_nnx, STATE, "OfNnx"),
    "haiku": (haiku, TRANSFORMED.init(KEY, X), "inner"),
}


@pytest.mark.parametrize("library", PROGRAMS)
def test_each_variable_is_what_python_saw(library, monkeypatch):
    fn, params, _ = PROGRAMS[library]
    compare(fn, (params, X), monkeypatch)


@pytest.mark.parametrize("library", PROGRAMS)
def test_variables_in_modules_are_selected_under_a_gradient(library):
    fn, params, owner = PROGRAMS[library]
    first = var(f"{owner}.h" if owner == "inner" else f"{owner}.__call__.h", occurrence=0)
    _, plain = taxpr.collect(fn, first)(params, X)
    _, found = taxpr.collect(jax.grad(fn), first)(params, X)
    assert plain["h"].shape[0] == 2
    assert jnp.allclose(found["h"], plain["h"])
    functions = {one.function for one in taxpr.trace(fn, names=True)(params, X).variables()}
    assert functions == {fn.__name__, owner if owner == "inner" else f"{owner}.__call__"}
