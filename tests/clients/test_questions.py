"""Faults planted into training of flax and optax, each found by one question."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import taxpr


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Dense(8)(x)
        h = nn.gelu(nn.LayerNorm()(h))
        return nn.Dense(1)(h)


X = jnp.linspace(-1.0, 1.0, 12).reshape(4, 3)
PARAMS = Net().init(jax.random.key(0), X)
OPTIMIZER = optax.adam(1e-3)
STATE = OPTIMIZER.init(PARAMS)


@pytest.fixture(autouse=True)
def promoting():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def loss(params, x):
    return jnp.mean(Net().apply(params, x) ** 2)


def step(params, state, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    updates, state = OPTIMIZER.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def lost(params, state, x):
    value = loss(params, x)
    grads = jax.grad(loss)(params, x)
    updates, state = OPTIMIZER.update(grads, state, params)
    optax.apply_updates(params, updates)
    return params, state, value


def line_of(fn, number):
    return f"test_questions.py:{fn.__code__.co_firstlineno + number}"


def test_check_finds_them_in_their_lines():
    assert not taxpr.check(step)(PARAMS, STATE, X)
    found = taxpr.check(lost)(PARAMS, STATE, X)
    lines = {(row.rule, row.line) for row in found.rows}
    assert lines == {("unused", line_of(lost, 4)), ("twice", line_of(lost, 1))}
    narrow = taxpr.check(loss)(PARAMS, X.astype(jnp.bfloat16))
    [row] = narrow.rows
    assert (row.rule, row.variable) == ("promotion", "loss.x")
    assert row.statement == "h = nn.Dense(8)(x)"


def mean_square(model, x):
    return jnp.mean(model(x) ** 2)


def nnx_step(model, optimizer, x):
    value, grads = nnx.value_and_grad(mean_square)(model, x)
    optimizer.update(model, grads)
    return value


def nnx_step_with_an_unused_product(model, optimizer, x):
    value, grads = nnx.value_and_grad(mean_square)(model, x)
    product = x @ x.T  # noqa: F841
    optimizer.update(model, grads)
    return value


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "lion", "rmsprop", "adafactor"])
def test_what_an_optimizer_of_nnx_changes_is_a_result(name):
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)
            self.norm, self.dropout = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, getattr(optax, name)(1e-3), wrt=nnx.Param)
    for fn in (nnx_step, nnx.jit(nnx_step)):
        assert not taxpr.check(fn)(model, optimizer, X), taxpr.check(fn)(model, optimizer, X)
    [row] = taxpr.check(nnx_step_with_an_unused_product)(model, optimizer, X).rows
    assert (row.rule, row.variable) == ("unused", "product")
    assert int(optimizer.step[...]) == 0


def test_first_difference_names_what_was_not_updated():
    found = taxpr.first_difference(step, lost)(PARAMS, STATE, X)
    assert {row.variable for row in found.rows} == {
        f"out[0]['params']['{layer}']['{name}']"
        for layer, names in PARAMS["params"].items()
        for name in names
    }
    assert "only the result" in found.headline
    assert not taxpr.first_difference(step, jax.jit(step))(PARAMS, STATE, X)


class Mixed(nn.Module):
    """Its biases before normalisations and of keys have no gradient but rounding."""

    eps: float = 1e-5

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(8)(x)
        h = nn.BatchNorm(use_running_average=False, epsilon=self.eps)(h)
        h = nn.LayerNorm()(nn.Dense(8)(nn.gelu(h)))
        q, k, v = nn.Dense(8)(h), nn.Dense(8)(h), nn.Dense(8)(h)
        h = h + nn.softmax(q @ k.T) @ v
        return nn.log_softmax(nn.Dense(3)(h))


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adam(1e-3),
        optax.lion(1e-3),
        optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)),
    ],
    ids=["adam", "lion", "clipped"],
)
def test_gradients_that_are_rounding_alone_do_not_alarm(optimizer):
    x = jax.random.normal(jax.random.key(1), (16, 3))
    labels = jnp.arange(16) % 3
    params, stats = Mixed().init(jax.random.key(0), x).values()

    def stepping(model):
        def loss(params):
            given = {"params": params, "batch_stats": stats}
            logits, _ = model.apply(given, x, mutable=["batch_stats"])
            return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1))

        def step(params, state):
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            return params, state, value

        return step

    step, state = stepping(Mixed()), optimizer.init(params)
    for other in ("op by op", jax.jit(step), stepping(Mixed())):
        found = taxpr.first_difference(step, other)(params, state)
        assert not found, found
    found = taxpr.first_difference(step, stepping(Mixed(eps=1e-4)))(params, state)
    assert found.first.statement.startswith("h = nn.BatchNorm")


def test_units_are_swept():
    def hidden(params, x):
        h = nn.Dense(8).apply({"params": params["params"]["Dense_0"]}, x)
        return jnp.sum(jnp.tanh(h))

    found = taxpr.sweep(hidden, taxpr.each(taxpr.var("h"), axis=1), taxpr.zero())(PARAMS, X)
    dense = PARAMS["params"]["Dense_0"]
    h = np.tanh(np.asarray(X @ dense["kernel"] + dense["bias"]))
    np.testing.assert_allclose(found.values, h.sum() - h.sum(0), rtol=1e-4, atol=1e-4)


def test_time_and_kernels_are_told_of_a_step_that_changes_a_model():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(3, 64, rngs=rngs), nnx.Linear(64, 1, rngs=rngs)

        def __call__(self, x):
            hidden = self.first(x)
            planted = hidden.T @ (hidden @ (hidden.T @ hidden))
            return self.last(nnx.relu(hidden + planted[0]))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    before = jax.tree.map(jnp.copy, nnx.state((model, optimizer)))
    args = model, optimizer, jnp.ones((2048, 3))
    for step in (nnx_step, nnx.jit(nnx_step)):
        found = taxpr.profile(step, runs=2)(*args)
        assert any("planted" in row.variable for row in found.rows)
        assert any("planted" in row.variable for row in taxpr.compiled(step)(*args).rows)
    jax.tree.map(np.testing.assert_array_equal, before, nnx.state((model, optimizer)))


def test_numbers_of_a_layer_are_not_differentiated():
    dropout = eqx.nn.Dropout(0.3)  # which stops the gradient of its own number

    def loss(dropout, x, key):
        y = dropout(x, key=key)
        return (y**2).sum()

    found = taxpr.check_grad(loss)(dropout, jnp.ones(8), jax.random.key(0))
    assert not found
    assert found.agrees


class Half(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(3, 6, rngs=rngs)
        self.norm = nnx.LayerNorm(6, rngs=rngs)

    def __call__(self, x):
        y = self.norm(self.dense(x))
        return y


class Whole(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = Half(rngs), Half(rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        a = self.first(x)
        b = self.second(x)
        return jnp.sum(self.drop(a + b))


class Mlp(eqx.Module):
    layers: list

    def __init__(self, key):
        self.layers = [eqx.nn.Linear(3, 3, key=key)] * 2

    def __call__(self, x):
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x


HALF = 3 * 6 + 6 + 2 * 6


def of_model(model, x):
    out = model(x)
    return out


@pytest.mark.parametrize("wrap", [lambda f: f, nnx.jit, nnx.grad], ids=["as is", "jit", "grad"])
def test_summary_has_the_modules_of_nnx_and_their_parameters(wrap):
    found = taxpr.summary(wrap(of_model))(Whole(nnx.Rngs(0)), X)
    assert found.parameters == 2 * HALF
    rows = [
        (row.name, row.parameters, row.code) for row in found.rows if row.name.endswith("call__")
    ]
    assert rows == [
        ("Whole.__call__", 2 * HALF, "out = model(x)"),
        ("Half.__call__", HALF, "a = self.first(x)"),
        ("Half.__call__", HALF, "b = self.second(x)"),
    ]
    assert [row.variable for row in found.rows if row.name.startswith("y =")] == ["y", "y"]


def square_of(x, model):
    return jnp.mean(model(x) ** 2)


def trace_names(fun, *args):
    return taxpr.trace(fun)(*args).in_names


GRADIENTS = {
    "grad": lambda f, k: nnx.grad(f, argnums=k),
    "value_and_grad": lambda f, k: nnx.value_and_grad(f, argnums=k),
    "without a graph": lambda f, k: nnx.grad(f, argnums=k, graph=False),
    "value, without a graph": lambda f, k: nnx.value_and_grad(f, argnums=k, graph=False),
    "jit": lambda f, k: nnx.jit(nnx.grad(f, argnums=k)),
}


@pytest.mark.parametrize("wrap", GRADIENTS.values(), ids=GRADIENTS)
def test_a_gradient_of_nnx_has_the_name_and_the_arguments_of_the_function(wrap):
    model = Half(nnx.Rngs(0))
    last, first = wrap(square_of, 1), wrap(mean_square, 0)
    use, found = taxpr.memory(last)(X, model), taxpr.summary(last)(X, model)
    assert {"x", "model.dense.kernel"} <= {*trace_names(last, X, model)}
    assert not any("args" in row.variable for row in use.rows)
    assert use.headline.startswith("memory of square_of: ")
    assert found.headline.startswith("summary of square_of: ")
    assert "(model, " in found.headline
    assert found.parameters == HALF
    assert taxpr.summary(first)(model, X).parameters == HALF
    of_keyword = taxpr.summary(first)(model, x=X)
    assert of_keyword.parameters == HALF
    for ask in (taxpr.compiled, taxpr.compile_time):
        assert "grad_wrapper" not in str(ask(last)(X, model))


def test_a_gradient_of_nnx_compiles_again_under_the_name_of_the_function():
    model = Half(nnx.Rngs(0))
    asked = taxpr.why_compiled(nnx.jit(nnx.grad(square_of, argnums=1)))
    asked(X, model)
    asked(X[:2], model)
    first, again = asked.compiles.rows
    assert (first.function, again.function) == ("square_of", "square_of")
    assert (again.cause, again.argument) == ("shape", "x")
    other = taxpr.why_compiled(nnx.jit(nnx.grad(mean_square)))
    other(model, X)
    assert [row.cause for row in other.compiles.rows] == ["first call"]
    assert taxpr.find_nan(nnx.grad(mean_square))(model, X).headline.startswith(
        "find_nan of mean_square: "
    )


def test_summary_counts_the_parameters_of_a_model_behind_other_arguments():
    model, mlp = Whole(nnx.Rngs(0)), Mlp(jax.random.key(0))
    for fun, args, size in (
        (square_of, (X, model), 2 * HALF),
        (lambda keys, x, model: square_of(x, model), (nnx.Rngs(0), X, model), 2 * HALF),
        (lambda x, model: jax.vmap(model)(x).sum(), (X, mlp), None),
    ):
        found = taxpr.summary(fun)(*args)
        size = size or sum(x.size for x in jax.tree.leaves(mlp) if eqx.is_inexact_array(x))
        assert found.parameters == size
        assert "(model, " in found.headline
    assert taxpr.summary(square_of, parameters="x")(X, model).parameters == X.size


def test_summary_of_a_model_itself_and_of_equinox_and_linen():
    model = Whole(nnx.Rngs(0))
    assert taxpr.summary(model)(X).parameters == 2 * HALF
    mlp = Mlp(jax.random.key(0))
    for found in (
        taxpr.summary(mlp)(X[0]),
        taxpr.summary(eqx.filter_jit(lambda m, x: m(x)))(mlp, X[0]),
        taxpr.summary(eqx.filter_grad(lambda m, x: jax.vmap(m)(x).sum()))(mlp, X),
    ):
        row = next(row for row in found.rows if row.name == "Mlp.__call__")
        assert (row.calls, found.rows[0].parameters) == (1, row.parameters)
    found = taxpr.summary(step)(PARAMS, STATE, X)
    assert found.parameters == sum(x.size for x in jax.tree.leaves(PARAMS))
    assert {"loss", "Net.__call__"} <= {row.name for row in found.rows}
    assert found.kept > 0
