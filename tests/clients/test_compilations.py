"""Why functions that libraries jit are compiled again, in the words of the user."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import taxpr

X = jnp.ones((4, 3))


def mlp(width=8, depth=2, activation=jax.nn.relu):
    return eqx.nn.MLP(3, 2, width, depth, activation, key=jax.random.key(0))


def plain(model, x, scale=1.0, mode="a"):
    return jax.vmap(model)(x).sum() * scale


# What differs from the call `step(mlp(), X, 1.0)`, and how it is told.
CALLS = {
    "shape": (lambda step: step(mlp(), X[:2], 1.0), ("shape", "x", "float32[4,3]", "float32[2,3]")),
    "by name": (lambda step: step(mlp(), scale=2.0, x=X), ("static value", "scale", "1.0", "2.0")),
    "text": (
        lambda step: step(mlp(), X, 1.0, "b"),
        ("number of arguments", "mode", "not given", "given"),
    ),
    "array": (
        lambda step: step(mlp(), X, jnp.ones(())),
        ("tree structure", "scale", "1.0", "an array"),
    ),
    "width": (lambda step: step(mlp(9), X, 1.0), ("static value", "model.width_size", "8", "9")),
    "depth": (lambda step: step(mlp(8, 1), X, 1.0), ("static value", "model.depth", "2", "1")),
    "activation": (
        lambda step: step(mlp(activation=jnp.tanh), X, 1.0),
        ("static value", "model.activation", "relu", "tanh"),
    ),
}


def of_step(log):
    rows = [row for row in log.compiles.rows if row.function == "step"]
    return [(row.cause, row.argument, row.before, row.now) for row in rows]


def new():
    def step(model, x, scale=1.0, mode="a"):
        return plain(model, x, scale, mode)

    return eqx.filter_jit(step)


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_filter_jit_are_those_of_the_user(name):
    call, told = CALLS[name]
    step = new()
    with taxpr.compiles() as log:
        step(mlp(), X, 1.0)
        step(mlp(), x=X, scale=1.0)  # which equinox finds
        call(step)
    assert of_step(log)[1:] == [told]


def test_functions_of_one_name_are_told_apart():
    with taxpr.compiles() as log:
        new()(mlp(), X, 1.0)
        new()(mlp(), X[:2], 1.0)
    _, other = of_step(log)
    assert other[0] == "new object: function"


class Scaled(eqx.Module):
    weight: jax.Array
    power: int = eqx.field(static=True)

    @eqx.filter_jit
    def run(self, x):
        return x * self.weight**self.power

    def __call__(self, x):
        return x * self.weight**self.power


def test_a_method_and_a_module_that_is_called():
    for made in (lambda one: one.run, eqx.filter_jit):
        with taxpr.compiles() as log:
            for power, size in ((2, 3), (3, 3), (3, 4)):
                made(Scaled(jnp.ones(3), power))(jnp.ones((size, 3)))
        rows = [row for row in log.compiles.rows if row.function in ("run", "Scaled", "__call__")]
        assert [(row.cause, row.argument) for row in rows] == [
            ("first call", ""),
            ("static value", "self.power"),
            ("shape", "x"),
        ]


def test_a_call_before_one_asked_is_no_first_call():
    step = new()
    step(mlp(), X)
    why = taxpr.why_compiled(step)
    why(mlp(), X)
    assert not why.compiles
    why(mlp(), X[:2])
    assert of_step(why) == [("shape", "x", "float32[4,3]", "float32[2,3]")]

    @nnx.jit
    def step(model, x):
        return model(x).sum()

    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    step(model, X)
    why = taxpr.why_compiled(step)
    why(model, X)
    why(model, X[:2])
    why(model, X[:1])
    assert [row[:2] for row in of_step(why)] == [("another call before", ""), ("shape", "x")]


def test_attributes_of_nnx_are_told_as_the_user_writes_them():
    class Model(nnx.Module):
        def __init__(self, width):
            rngs = nnx.Rngs(0)
            self.layers = nnx.List(
                [nnx.Linear(3, width, rngs=rngs), nnx.Linear(width, 1, rngs=rngs)]
            )
            self.dropout = nnx.Dropout(0.5, rngs=rngs)
            self.scale = 2.0

        def __call__(self, x):
            for layer in self.layers:
                x = self.dropout(layer(x))
            return x * self.scale

    @nnx.jit
    def step(models, x):
        return sum(model(x).sum() for model in models.values())

    narrow, wide = Model(4), Model(5)
    why = taxpr.why_compiled(step)
    why({"a": narrow}, X)
    why({"a": wide}, X)
    wide.scale = 3.0
    why({"a": wide}, X)
    wide.eval()
    why({"a": wide}, X)
    wide.layers[0].kernel.set_value(wide.layers[0].kernel[...].astype(jnp.bfloat16))
    why({"a": wide}, X)
    wide.layers[1].dtype = jnp.float32
    why({"a": wide}, X)
    wide.layers[1].dtype = jnp.bfloat16
    why({"a": wide}, X)
    wide.layers.append(nnx.Linear(1, 1, rngs=nnx.Rngs(0)))
    why({"a": wide}, X)
    found = [row for row in why.compiles.rows if row.cause != "first call"]
    told = [
        [(one.cause, one.argument, one.before, one.now) for one in (row, *row.more)]
        for row in found
    ]
    grown, scaled, evaluated, rounded, chosen, chosen_again, longer = told
    assert ("static value", "models['a'].layers[0].out_features", "4", "5") in grown
    assert ("shape", "models['a'].layers[0].kernel", "float32[3,4]", "float32[3,5]") in grown
    assert ("shape", "models['a'].layers[1].kernel", "float32[4,1]", "float32[5,1]") in grown
    assert scaled == [("static value", "models['a'].scale", "2.0", "3.0")]
    assert evaluated == [("static value", "models['a'].dropout.deterministic", "False", "True")]
    assert rounded == [("dtype", "models['a'].layers[0].kernel", "float32[3,5]", "bfloat16[3,5]")]
    assert [(row[0], row[3]) for row in chosen] == [("tree structure", "with '.layers[1].dtype'")]
    # A dtype is no array, though it has a dtype.
    assert [row[:2] for row in chosen_again] == [("static value", "models['a'].layers[1].dtype")]
    assert longer[0][:2] == ("tree structure", "models['a']"), longer
