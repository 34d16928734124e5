"""Models of flax, by linen and by nnx."""

import functools

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from client_checks import check_identity, check_scale, collected_at, last_in_scope
from flax import nnx

import taxpr
from taxpr_jupyter import draw

X = jax.random.normal(jax.random.key(1), (4, 8))

# ---- linen -------------------------------------------------------------------


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(16)(x))
        x = nn.LayerNorm()(x)
        x = nn.MultiHeadDotProductAttention(num_heads=2)(x[None], x[None])[0]
        return nn.Dense(2)(nn.relu(x))


@nn.remat
class Cell(nn.Module):
    @nn.compact
    def __call__(self, carry, x):
        carry, y = nn.GRUCell(features=8)(carry, x)
        return carry, y


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, xs):
        scan = nn.scan(Cell, variable_broadcast="params", split_rngs={"params": False})
        return scan()(jnp.zeros(8), xs)


MODEL = Transformer()
VARIABLES = MODEL.init(jax.random.key(0), X)


def loss(variables, x):
    return jnp.mean(MODEL.apply(variables, x) ** 2)


def test_linen_forward():
    check_identity(MODEL.apply, VARIABLES, X)


def test_linen_gradient():
    check_identity(jax.value_and_grad(loss, argnums=(0, 1)), VARIABLES, X)


@pytest.mark.slow
def test_linen_init():
    check_identity(MODEL.init, jax.random.key(0), X)


def test_linen_scan_of_remat():
    model = Recurrent()
    variables = model.init(jax.random.key(0), X)
    check_identity(model.apply, variables, X)
    check_identity(jax.grad(lambda v, x: jnp.sum(model.apply(v, x)[1])), variables, X)


def test_linen_captures_what_collect_returns():
    _, variables = jax.jit(lambda v, x: MODEL.apply(v, x, capture_intermediates=True))(VARIABLES, X)
    captured = variables["intermediates"]
    layers = ("Dense_0", "LayerNorm_0", "MultiHeadDotProductAttention_0", "Dense_1")
    program = taxpr.trace(MODEL.apply)(VARIABLES, X)
    sites = {layer: last_in_scope(program, f"Transformer/{layer}") for layer in layers}
    found = collected_at(MODEL.apply, (VARIABLES, X), sites)
    for layer in layers:
        (expected,) = captured[layer]["__call__"]
        assert_close(jnp.ravel(found[layer]), jnp.ravel(expected))


@pytest.mark.spread(3)
@pytest.mark.parametrize("layer", ["Dense_0", "LayerNorm_0", "Dense_1"])
def test_linen_intercepts_what_inject_changes(layer):
    def edited(factor, variables, x):
        def scaled(next_fun, args, kwargs, context):
            out = next_fun(*args, **kwargs)
            here = (context.module.name, context.method_name) == (layer, "__call__")
            return out * factor if here else out

        with nn.intercept_methods(scaled):
            return MODEL.apply(variables, x)

    args = VARIABLES, X
    program = taxpr.trace(MODEL.apply)(*args)
    check_scale(MODEL.apply, edited, args, [last_in_scope(program, f"Transformer/{layer}")])


@pytest.mark.parametrize(
    "of", [lambda m: (m, X), lambda m: (jax.vmap(m), X), lambda m: (m.apply, X)]
)
def test_a_module_that_is_drawn_without_its_apply_says_how(of):
    with pytest.raises((TypeError, flax.errors.FlaxError)) as caught:
        draw(*of(Transformer()))
    (hint,) = [note for note in caught.value.__notes__ if note.startswith("Hint: ")]
    assert "With model = Transformer(...) and variables = model.init(key, x), give mod" in hint
    variables = jax.eval_shape(Transformer().init, jax.random.key(0), X)
    assert draw(Transformer().apply, variables, X).program.eqns


# ---- nnx ---------------------------------------------------------------------


class Scaled(nnx.Module):
    def __init__(self, layer, factor):
        self.layer = layer
        self.factor = factor

    def __call__(self, x):
        with jax.named_scope("layer"):
            x = self.layer(x)
        return x if self.factor is None else x * self.factor


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = Scaled(nnx.Linear(8, 16, rngs=rngs), None)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.second = nnx.Linear(16, 2, rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


GRAPH, STATE = nnx.split(Net(nnx.Rngs(0)))


def forward(state, x):
    net = nnx.merge(GRAPH, state)
    y = net(x)
    return y, nnx.state(net)


def train_step(state, x):
    net = nnx.merge(GRAPH, state)
    value, grads = nnx.value_and_grad(lambda net: jnp.mean(net(x) ** 2))(net)
    params = nnx.state(net, nnx.Param)
    nnx.update(net, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads))
    return value, nnx.state(net)


def test_nnx_forward():
    check_identity(forward, STATE, X)


def test_nnx_train_step():
    check_identity(train_step, STATE, X)


def test_nnx_jit_and_scan():
    def many(state, xs):
        def step(state, x):
            value, state = nnx.jit(train_step)(state, x)
            return state, value

        return jax.lax.scan(step, state, xs)

    check_identity(many, STATE, jnp.stack([X, 2 * X, 3 * X]))


def test_nnx_captures_what_collect_returns():
    def captured(state, x):
        net = nnx.merge(GRAPH, state)
        _, found = nnx.capture(net, nnx.Intermediate, method_outputs=nnx.Intermediate)(x)
        return found["first"]["__call__"].get_value()[0]

    site = last_in_scope(taxpr.trace(forward)(STATE, X), "layer")
    found = collected_at(forward, (STATE, X), {"first": site})
    assert_close(found["first"], jax.jit(captured)(STATE, X))


def test_nnx_an_attribute_of_a_module_does_what_inject_does():
    def edited(factor, state, x):
        net = nnx.merge(GRAPH, state)
        net.first.factor = factor
        y = net(x)
        net.first.factor = None
        return y, nnx.state(net)

    site = last_in_scope(taxpr.trace(forward)(STATE, X), "layer")
    check_scale(forward, edited, (STATE, X), [site], gradient=False)


# ---- flags -------------------------------------------------------------------


class Dropped(nn.Module):
    @nn.compact
    def __call__(self, x, scale, train, shifted=False):
        x = nn.Dense(8)(x) * scale
        x = nn.Dropout(0.5, deterministic=not train)(nn.relu(x))
        return nn.Dense(2)(x + 1.0 if shifted else x).sum()


def test_a_module_tells_the_flags_that_it_is_called_with():
    model, key = Dropped(), jax.random.key(0)
    variables = model.init(key, X, 1.0, False)

    def one_after_another(variables, x, scale):
        noisy = model.apply(variables, x, scale, True, rngs={"dropout": key})
        far = jnp.sin(noisy) * 2.0
        clean = model.apply(variables, x, 1.0, train=False, shifted=True)
        near = jnp.cos(clean) + far
        flag = bool(x.ndim)
        return near + model.apply(variables, x, scale, not flag)

    def together(variables, x):
        noisy = model.apply(variables, x, 1.0, True, rngs={"dropout": key})
        return noisy + model.apply(variables, x, 1.0, False)

    fast = functools.partial(model.apply, scale=1.0, train=False)

    def beside_another(variables, x):
        return model.apply(variables, x, 1.0, True, rngs={"dropout": key}) - fast(variables, x)

    def titles(fun, *args, budget):
        picture = draw(fun, *args, budget=budget).picture
        every = (*picture.clusters, *picture.nodes)
        lines = [" · ".join(one.lines[:2]) for one in every if one.lines[0].startswith("Dropped")]
        return [line.partition(" · 1")[0].partition(" · 2")[0] for line in lines]

    for budget in (9, 60):
        assert titles(one_after_another, variables, X, 2.0, budget=budget) == [
            "Dropped · train=True",
            "Dropped · train=False, shifted=True",
            "Dropped",
        ]
    for fun in (together, beside_another):
        assert not any("train" in line for line in titles(fun, variables, X, budget=4))
