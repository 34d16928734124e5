"""`edit` in the libraries that people use: as in the source edited by hand."""

import diffrax
import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import taxpr

X = jax.random.normal(jax.random.key(0), (2, 5, 8))


def halved(x):
    return x * 0.5


class Net(nnx.Module):
    def __init__(self, rngs, change=lambda h: h):
        self.attention = nnx.MultiHeadAttention(
            num_heads=2, in_features=8, qkv_features=8, decode=False, rngs=rngs
        )
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.out = nnx.Linear(8, 1, rngs=rngs)
        self.change = change

    def __call__(self, x):
        h = self.attention(x)
        h2 = self.change(h)
        h2 = self.norm(h2)
        return self.out(h2)


def trained(change=None, by_hand=lambda h: h):
    """Losses, parameters and statistics of three steps of a train step of flax nnx."""

    @nnx.jit
    def step(net, optimizer, x):
        loss, grads = nnx.value_and_grad(lambda net: (net(x) ** 2).mean())(net)
        optimizer.update(net, grads)
        return loss

    run = step if change is None else taxpr.edit(step, *change)
    net = Net(nnx.Rngs(0), by_hand)
    optimizer = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)
    losses = [run(net, optimizer, X) for _ in range(3)]
    return jax.tree.map(np.asarray, (losses, nnx.state(net, nnx.Param, nnx.BatchStat)))


def same(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_train_step_of_flax_nnx_trains():
    same(trained(("Net.__call__.h", halved)), trained(by_hand=halved))
    losses, _ = trained(("Net.__call__.h", halved))
    assert losses[0] > losses[1] > losses[2]


def test_a_variable_in_flax():
    edited, _ = trained(("MultiHeadAttention.__call__.query", taxpr.scale(0.1)))
    assert edited[0] != trained()[0][0]


def test_another_implementation_of_a_function_of_flax():
    def values_alone(query, key, value, *_, **__):
        return value

    edited = trained(("flax.nnx.nn.attention.dot_product_attention", values_alone))
    net = Net(nnx.Rngs(0))
    net.attention.attention_fn = values_alone
    np.testing.assert_allclose(edited[0][0], (net(X) ** 2).mean(), rtol=1e-5)
    assert trained()[0][0] != edited[0][0]


def test_equinox():
    net = eqx.nn.MLP(8, 1, 16, 2, key=jax.random.key(0))

    def loss(net, change):
        y = jax.vmap(jax.vmap(net))(X)
        y2 = change(y)
        return (y2**2).mean()

    @eqx.filter_jit
    def step(net, change):
        return eqx.filter_value_and_grad(loss)(net, change)

    edited = taxpr.edit(step, "loss.y", halved)(net, lambda y: y)
    same(eqx.filter(edited, eqx.is_array), eqx.filter(step(net, halved), eqx.is_array))
    returned = taxpr.edit(step, "MLP.__call__.return", halved)(net, lambda y: y)
    np.testing.assert_allclose(returned[0], edited[0], rtol=1e-6)


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Dense(4)(x)
        return nn.Dense(1)(h)


def test_linen():
    params = Dense().init(jax.random.key(0), X)

    def step(params, change=lambda h: h):
        return jax.value_and_grad(lambda p: (change(Dense().apply(p, X)) ** 2).mean())(params)

    edited = jax.jit(taxpr.edit(step, "Dense.__call__.h", taxpr.scale(2.0)))(params)
    # Both layers are linear, and biases begin with zero.
    np.testing.assert_allclose(edited[0], step(params, lambda y: 2 * y)[0], rtol=1e-5)


def test_haiku():
    def f(x, change=lambda h: h):
        h = hk.Linear(4)(x)
        h2 = change(h)
        return hk.Linear(1)(h2).mean()

    net = hk.without_apply_rng(hk.transform(f))
    params = net.init(jax.random.key(0), X)
    edited = jax.grad(taxpr.edit(net.apply, "f.h", halved))(params, X)
    same(edited, jax.grad(lambda params: net.apply(params, X, halved))(params))


@pytest.mark.parametrize("solver", [diffrax.Tsit5, diffrax.Kvaerno3])
def test_the_vector_field_of_diffrax(solver):
    def field(t, y, args):
        dy = -y
        return dy

    def solve(y):
        term, steps = diffrax.ODETerm(field), diffrax.PIDController(rtol=1e-5, atol=1e-5)
        return diffrax.diffeqsolve(term, solver(), 0.0, 1.0, 0.1, y, stepsize_controller=steps).ys[
            0
        ]

    slope = jax.grad(taxpr.edit(solve, "field.dy", taxpr.scale(2.0)))(1.0)
    np.testing.assert_allclose(slope, np.exp(-2.0), rtol=1e-3)
    np.testing.assert_allclose(jax.grad(solve)(1.0), np.exp(-1.0), rtol=1e-3)


def test_optax():
    optimizer = optax.adam(0.1)

    def step(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    params = jnp.ones(3)
    state = optimizer.init(params)
    new, _ = taxpr.edit(step, "updates", halved)(params, state, params)
    np.testing.assert_allclose(1 - new, (1 - step(params, state, params)[0]) * 0.5, rtol=1e-5)
