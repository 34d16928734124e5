"""Functions of haiku."""

import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from client_checks import check_identity, check_scale, collected_at, last_in_scope

import taxpr
from taxpr_jupyter import draw

X = jax.random.normal(jax.random.key(1), (4, 8))
KEY = jax.random.key(0)


def net(x):
    x = hk.nets.MLP([16, 8], activation=jnp.tanh, activate_final=True)(x)
    x = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)
    x = hk.MultiHeadAttention(num_heads=2, key_size=4, w_init=hk.initializers.RandomNormal())(
        x, x, x
    )
    return hk.Linear(2)(hk.dropout(hk.next_rng_key(), 0.5, x))


NET = hk.transform(net)
PARAMS = NET.init(KEY, X)


def test_forward():
    check_identity(NET.apply, PARAMS, KEY, X)


def test_gradient():
    check_identity(jax.grad(lambda p, x: jnp.sum(NET.apply(p, KEY, x) ** 2)), PARAMS, X)


def test_a_recurrent_core_with_state():
    def run(xs):
        core = hk.LSTM(8)
        out, state = hk.dynamic_unroll(core, xs, core.initial_state(4))
        return hk.BatchNorm(True, True, 0.9)(out, is_training=True), state

    model = hk.transform_with_state(run)
    xs = jnp.stack([X, 2 * X, 3 * X])
    params, state = model.init(KEY, xs)
    check_identity(model.apply, params, state, KEY, xs)


LAYERS = {"mlp/~/linear_0": "mlp/linear_0", "mlp/~/linear_1": "mlp/linear_1", "linear": "linear"}


def site_of(layer):
    return last_in_scope(taxpr.trace(NET.apply)(PARAMS, KEY, X), LAYERS[layer])


def intercepted(change, *args):
    """Runs the net; ``change(layer, out)`` is called with what each of its layers returns."""

    def interceptor(next_fun, args, kwargs, context):
        out = next_fun(*args, **kwargs)
        return change(context.module.module_name, out) if context.method_name == "__call__" else out

    with hk.intercept_methods(interceptor):
        return NET.apply(*args)


@pytest.mark.spread(3)
@pytest.mark.parametrize("layer", LAYERS)
def test_an_interceptor_does_what_inject_does(layer):
    def edited(factor, params, x):
        def change(name, out):
            return out * factor if name == layer else out

        return intercepted(change, params, KEY, x)

    def plain(params, x):
        return NET.apply(params, KEY, x)

    site = last_in_scope(taxpr.trace(plain)(PARAMS, X), LAYERS[layer])
    check_scale(plain, edited, (PARAMS, X), [site])


def test_an_interceptor_sees_what_collect_returns():
    @jax.jit
    def seen(params, x):
        found = {}

        def keep(name, out):
            found[name] = out
            return out

        intercepted(keep, params, KEY, x)
        return {layer: found[layer] for layer in LAYERS}

    sites = {layer: site_of(layer) for layer in LAYERS}
    assert_close(collected_at(NET.apply, (PARAMS, KEY, X), sites), seen(PARAMS, X))


def test_a_module_with_one_equation_has_its_name_in_the_picture():
    def blocks(x):
        block = hk.nets.ResNet.BlockGroup(
            channels=8,
            num_blocks=2,
            stride=2,
            bn_config={"create_scale": True, "create_offset": True, "decay_rate": 0.9},
            resnet_v2=False,
            bottleneck=False,
            use_projection=True,
        )
        return block(x, is_training=True, test_local_stats=False)

    model = hk.transform_with_state(blocks)
    x = jax.random.normal(KEY, (2, 8, 8, 4))
    params, state = model.init(KEY, x)
    program = taxpr.trace(lambda *given: model.apply(*given, None, x))(params, state)
    names = [
        taxpr.scopes_of(eqn)[-1]
        for _, eqn in taxpr.iter_eqns(program)
        if eqn.primitive.name == "conv_general_dilated"
    ]
    nodes = draw(program).picture.nodes
    drawn = [node.lines[:2] for node in nodes if "conv_general_dilated" in node.lines]
    assert drawn == [(name, "conv_general_dilated") for name in names]
    assert len(drawn) == 5
