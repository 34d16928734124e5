"""`every` with training steps of flax nnx, equinox and optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import taxpr

X = jnp.sin(jnp.arange(12.0)).reshape(4, 3)


def batch(k, bad=None):
    return X.at[0, 0].set(jnp.nan) if k == bad else X + 0.1 * k


def arrays(tree):
    return [np.array(x) for x in jax.tree.leaves(tree) if hasattr(x, "dtype")]


def same(one, other):
    assert len(one) == len(other)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def nnx_step(model, optimizer, x):
    def loss(model):
        hidden = model(x)
        return jnp.mean(hidden**2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def nnx_start():
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)


@pytest.mark.parametrize("donate", [(), (0, 1)])
def test_objects_of_nnx_are_updated_and_put_back(donate):
    step = nnx.jit(nnx_step, donate_argnums=donate)
    model, optimizer = nnx_start()
    values = [step(model, optimizer, batch(k)) for k in range(6)]
    after = arrays(nnx.state(model)), arrays(nnx.state(optimizer))

    told, (model, optimizer) = [], nnx_start()
    with taxpr.every(2, step, told.append, "hidden") as stepping:
        found = [stepping(model, optimizer, batch(k)) for k in range(6)]
    same(arrays(found), arrays(values))
    same(arrays(nnx.state(model)), after[0])
    same(arrays(nnx.state(optimizer)), after[1])
    assert [one["step"] for one in told] == [0, 2, 4]

    model, optimizer = nnx_start()
    for k in range(3):
        step(model, optimizer, batch(k))
    before = arrays(nnx.state(model)), arrays(nnx.state(optimizer))
    model, optimizer = nnx_start()

    def train():
        with taxpr.every(4, step, told.append) as stepping:
            for k in range(6):
                stepping(model, optimizer, batch(k, bad=3))

    with pytest.raises(taxpr.NonfiniteError) as caught:
        train()
    assert caught.value.step == 3
    same(arrays(nnx.state(model)), before[0])
    same(arrays(nnx.state(optimizer)), before[1])
    assert caught.value.kept[0] is model
    assert taxpr.find_nan(step)(*caught.value.kept)


def equinox_start(tx):
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    return model, tx.init(eqx.filter(model, eqx.is_array))


@pytest.mark.parametrize("donate", ["none", "all"])
def test_models_of_equinox_with_optax(donate):
    tx = optax.adam(0.1)

    @eqx.filter_jit(donate=donate)
    def step(model, state, x):
        def loss(model):
            hidden = jax.vmap(model)(x)
            return jnp.mean(hidden**2)

        grads = eqx.filter_grad(loss)(model)
        updates, state = tx.update(grads, state)
        return eqx.apply_updates(model, updates), state

    def run(call, number, bad=None):
        state = equinox_start(tx)
        for k in range(number):
            state = call(*state, batch(k, bad))
        return arrays(state)

    told = []
    with taxpr.every(3, step, told.append, "hidden") as stepping:
        same(run(stepping, 7), run(step, 7))
    assert [one["step"] for one in told] == [0, 3, 6]
    before = run(step, 4)
    with (
        pytest.raises(taxpr.NonfiniteError) as caught,
        taxpr.every(3, step, told.append) as stepping,
    ):
        run(stepping, 7, bad=4)
    assert caught.value.step == 4
    same(arrays(caught.value.kept[:2]), before)
    assert taxpr.find_nan(step)(*caught.value.kept)
