"""Modules of equinox."""

import equinox as eqx
import jax
import jax.numpy as jnp
from checks import assert_close
from client_checks import all_of, check_identity, check_scale, collected_at

import taxpr

X = jax.random.normal(jax.random.key(1), (4, 8))
KEY = jax.random.key(0)

MLP = eqx.nn.MLP(8, 2, 16, 2, activation=jax.nn.gelu, key=KEY)
ARRAYS, REST = eqx.partition(MLP, eqx.is_array)


def forward(arrays, x):
    return jax.vmap(eqx.combine(arrays, REST))(x)


def loss(model, x):
    return jnp.mean(jax.vmap(model)(x) ** 2)


def test_forward():
    check_identity(forward, ARRAYS, X)


def test_filtered_gradient_under_filtered_jit():
    def gradient(arrays, x):
        return eqx.filter_jit(eqx.filter_value_and_grad(loss))(eqx.combine(arrays, REST), x)

    check_identity(gradient, ARRAYS, X)


def test_a_stateful_layer():
    model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(8, axis_name="batch", mode="batch")
    arrays, rest = eqx.partition(model, eqx.is_array)

    def run(arrays, state, x):
        mapped = jax.vmap(
            eqx.combine(arrays, rest), axis_name="batch", in_axes=(0, None), out_axes=(0, None)
        )
        return mapped(x, state)

    check_identity(run, arrays, state, X)


def test_a_cell_in_a_scan():
    cell, rest = eqx.partition(eqx.nn.GRUCell(8, 8, key=KEY), eqx.is_array)

    def run(cell, xs):
        def step(h, x):
            h = eqx.combine(cell, rest)(x, h)
            return h, h

        return jax.lax.scan(step, jnp.zeros(8), xs)

    check_identity(run, cell, X)
    check_identity(jax.grad(lambda cell, xs: jnp.sum(run(cell, xs)[1] ** 2)), cell, X)


def test_attention():
    arrays, rest = eqx.partition(eqx.nn.MultiheadAttention(2, 8, key=KEY), eqx.is_array)
    check_identity(lambda arrays, x: eqx.combine(arrays, rest)(x, x, x), arrays, X)


class Scaled(eqx.Module):
    layer: eqx.nn.Linear
    factor: jax.Array

    def __call__(self, x, *, key=None):
        return self.layer(x, key=key) * self.factor


def layer_outputs():
    """The addresses of what the layers return: a Linear ends with adding its bias."""
    program = taxpr.trace(forward)(ARRAYS, X)
    adds = [
        address
        for address in all_of(program, "add")
        if taxpr.scope_of(dict(taxpr.iter_eqns(program.jaxpr))[address]).endswith("eqx.nn.Linear")
    ]
    assert len(adds) == len(MLP.layers)
    return adds


def test_a_module_put_in_place_of_a_layer_does_what_inject_does():
    for index, site in enumerate(layer_outputs()):

        def edited(factor, arrays, x, index=index):
            model = eqx.combine(arrays, REST)
            scaled = eqx.tree_at(lambda m: m.layers[index], model, replace_fn=put(factor))
            return jax.vmap(scaled)(x)

        check_scale(forward, edited, (ARRAYS, X), [site])


def put(factor):
    return lambda layer: Scaled(layer, factor)


def test_collect_returns_what_the_layers_return_one_by_one():
    @jax.jit
    def by_hand(arrays, x):
        outs = []
        for layer in eqx.combine(arrays, REST).layers:
            outs.append(jax.vmap(layer)(x))
            x = jax.nn.gelu(outs[-1])
        return outs

    found = collected_at(forward, (ARRAYS, X), dict(enumerate(layer_outputs())))
    assert_close([found[str(k)] for k in range(3)], by_hand(ARRAYS, X))
