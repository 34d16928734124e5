"""`taxpr.flow` with a step of optax: the ratio of update to weight."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import taxpr


@pytest.mark.parametrize("optimizer", [optax.adam(1e-3), optax.sgd(0.1, momentum=0.9)])
def test_the_ratio_of_update_to_weight_is_that_of_the_updates_of_optax(optimizer):
    def loss(params, x):
        return jnp.mean(jnp.tanh(x @ params["w"] + params["b"]) ** 2)

    def step(params, x):
        return optax.apply_updates(params, updates_of(params, x))

    def updates_of(params, x):
        return optimizer.update(jax.grad(loss)(params, x), optimizer.init(params), params)[0]

    params = {"w": jnp.linspace(-1.0, 1.0, 6).reshape(3, 2), "b": jnp.ones((1, 2))}
    x = jnp.ones((4, 3))
    updates = updates_of(params, x)
    rows = {row.variable: row for row in taxpr.flow(loss, step=step)(params, x).rows}
    for name in params:
        ratio = np.linalg.norm(updates[name]) / np.linalg.norm(params[name])
        np.testing.assert_allclose(rows[f"params['{name}']"].updates, [ratio], rtol=1e-3)
