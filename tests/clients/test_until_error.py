"""What was traced until an error in a module of a library: the line of the user is marked."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import taxpr
from taxpr_jupyter import draw


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(4, name="first")(x))
        return self.attend(h)

    @nn.nowrap
    def attend(self, h):
        return jnp.einsum("ij,kj->ik", h, jnp.ones((2, 5)))


class Equinox(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __init__(self, key):
        self.first = eqx.nn.Linear(3, 4, key=key)
        self.second = eqx.nn.Linear(5, 2, key=key)

    def __call__(self, x):
        h = jax.nn.relu(self.first(x))
        return self.second(h)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.second = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


def linen():
    model = Linen()
    return model.init, (jax.random.key(0), jnp.ones((2, 3)))


def equinox():
    arrays, rest = eqx.partition(Equinox(jax.random.key(0)), eqx.is_array)

    @eqx.filter_jit
    def run(model, x):
        return model(x)

    return lambda arrays, x: run(eqx.combine(arrays, rest), x), (arrays, jnp.ones(3))


def of_nnx():
    return Nnx(nnx.Rngs(0)), (jnp.ones((2, 3)),)


@pytest.mark.parametrize(
    ("make", "text", "given", "kind"),
    [
        (linen, 'jnp.einsum("ij,kj->ik", h, jnp.ones((2, 5)))', "h: f32[2,4], f32[2,5]", "max"),
        (equinox, "self.second(h)", "f32[2,5], f32[2], h: f32[4]", "max"),
        (of_nnx, "self.second(nnx.relu(self.first(x)))", "f32[2], f32[5,2], f32[2,4]", "max"),
    ],
)
def test_the_users_line_is_marked(make, text, given, kind):
    fn, args = make()
    with pytest.raises((TypeError, ValueError)) as caught:
        draw(fn, *args)
    program = taxpr.until_error(caught.value)
    eqns = list(taxpr.iter_eqns(program))
    [failure] = filter(None, (taxpr.failure_of(eqn) for _, eqn in eqns))
    assert failure.source.file == __file__
    assert failure.text == text
    assert failure.given == given
    kinds = {eqn.primitive.name for _, eqn in eqns}
    assert {"dot_general", kind} <= kinds
    drawing = draw(caught.value)
    assert sum("failed" in node.marks for node in drawing.picture.nodes) == 1
