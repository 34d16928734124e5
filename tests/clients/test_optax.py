"""Training steps with optax and flax."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import pytest
from checks import assert_close
from client_checks import all_of, check_identity, check_scale, collected_at

import taxpr
from taxpr_jupyter import draw

X = jax.random.normal(jax.random.key(1), (4, 8))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.LayerNorm()(nn.gelu(nn.Dense(16)(x))))


MODEL = Net()
VARIABLES = MODEL.init(jax.random.key(0), X)


def loss(variables, x):
    return jnp.mean(jnp.log1p(MODEL.apply(variables, x) ** 2))


def step_with(optimizer):
    def step(state, x):
        variables, memory = state
        value, grads = jax.value_and_grad(loss)(variables, x)
        updates, memory = optimizer.update(grads, memory, variables)
        return (optax.apply_updates(variables, updates), memory), value

    return step, (VARIABLES, optimizer.init(VARIABLES))


def made_in(file, eqn):
    source = taxpr.source_of(eqn)
    return source is not None and source.file.endswith(file)


# With the usual eps, a gradient that is almost zero becomes a step of any size.
ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, eps=1e-2))


def test_a_step():
    step, state = step_with(ADAM)
    check_identity(step, state, X)


def test_a_step_that_accumulates_gradients():
    step, state = step_with(optax.MultiSteps(optax.sgd(0.1, momentum=0.9), every_k_schedule=2))
    check_identity(step, state, X)


def test_a_scan_over_steps():
    step, state = step_with(ADAM)
    check_identity(lambda state, xs: jax.lax.scan(step, state, xs), state, jnp.stack([X] * 3))


def test_collect_in_a_scan_returns_what_each_step_returns():
    step, state = step_with(ADAM)
    xs = jnp.stack([X, 2 * X, 3 * X])

    def train(state, xs):
        return jax.lax.scan(step, state, xs)

    (scan,) = all_of(taxpr.trace(train)(state, xs), "scan")
    (log,) = (a for a in all_of(taxpr.trace(train)(state, xs), "log1p") if a.startswith(scan))
    found = collected_at(train, (state, xs), {"log1p": log})["log1p"]
    assert found.shape == (3, 4, 2)
    assert_close(jnp.mean(found, (1, 2)), jax.jit(train)(state, xs)[1])


def test_scaling_all_updates_is_another_learning_rate():
    def train(rate, state, x):
        step, _ = step_with(optax.sgd(rate))
        return step(state, x)

    def plain(state, x):
        return train(0.25, state, x)

    _, state = step_with(optax.sgd(0.25))
    program = taxpr.trace(plain)(state, X)
    updates = [
        address
        for address, eqn in taxpr.iter_eqns(program.jaxpr)
        if eqn.primitive.name == "mul" and made_in("optax/_src/transform.py", eqn)
    ]
    assert len(updates) == len(jax.tree.leaves(VARIABLES))

    def edited(factor, state, x):
        return train(0.25 * factor, state, x)

    check_scale(plain, edited, (state, X), updates, gradient=False)


def test_the_state_of_an_optimizer_in_a_loop():
    """Weights and the optimizer's memory are states; the step is written as if they were not."""
    optimizer = optax.adam(1e-2)
    step, start = step_with(optimizer)
    weights = taxpr.State(VARIABLES, name="weights")
    memory = taxpr.State(optimizer.init(VARIABLES), name="memory")

    def train_step(x):
        value, grads = jax.value_and_grad(loss)(weights.value, x)
        updates, memory.value = optimizer.update(grads, memory.value, weights.value)
        weights.value = optax.apply_updates(weights.value, updates)
        return value

    xs = jnp.stack([X, 2 * X, X, 3 * X])
    pure, states = taxpr.uncurry(lambda xs: jax.lax.map(train_step, xs), xs)
    losses, new = jax.jit(pure)(states, xs)
    (expected_weights, expected_memory), expected = jax.jit(
        lambda start, xs: jax.lax.scan(step, start, xs)
    )(start, xs)
    assert_close(losses, expected)
    assert_close((new["weights"], new["memory"]), (expected_weights, expected_memory))


def test_the_users_loss_opens_before_the_inside_of_the_optimizer():
    def layer(w, x):
        h = jnp.tanh(x @ w) + x.mean()
        return h / jnp.sqrt((h**2).mean() + 1e-6)

    def loss(weights, x):
        for w in weights[:4]:
            x = layer(w, x)
        gate = jax.nn.sigmoid(layer(weights[4], x)) * x
        error = layer(weights[5], gate) - x
        return (error**2).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.rmsprop(1e-3))

    def step(weights, state, x):
        grads = jax.grad(loss)(weights, x)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(weights, updates), state

    weights = [jnp.eye(4)] * 6
    picture = draw(step, weights, optimizer.init(weights), jnp.ones((3, 4)), budget=20).picture
    frames = " ".join(line for one in picture.clusters for line in one.lines)
    for title in ("forward pass of loss", "gate = jax.nn.sigmoid(layer(", "error = layer("):
        assert title in frames
    assert "updates, state = optimizer.update" not in frames


def groups_of(optimizer, params, loss, budget=12):
    """The lines of the closed call of an optimizer, without its title and its types."""

    def step(params, state, x):
        grads = jax.grad(loss)(params, x)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    traced = taxpr.trace(jax.jit(step), names=True)(params, optimizer.init(params), X)
    nodes = draw(traced, budget=budget).picture.nodes
    (call,) = (node for node in nodes if node.lines[0].startswith("updates, state ="))
    return [line for line in call.lines[call.titled :] if "equation" not in line][:-1]


PARAMS = {
    "net": [{"w": jnp.eye(8), "b": jnp.ones(8)}, {"w": jnp.eye(8), "b": jnp.ones(8)}],
    "log_nu": jnp.zeros(()),
    "freqs": jnp.ones(8),
}
GROUPS = {
    "net": jax.tree.map(lambda _: "net", PARAMS["net"]),
    "log_nu": "physics",
    "freqs": "fixed",
}
ADAMW = optax.adamw(optax.exponential_decay(1e-3, 100, 0.9), weight_decay=0.05)


def of_params(params, x):
    for layer in params["net"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((x * params["freqs"] * jnp.exp(params["log_nu"])) ** 2)


def test_the_groups_of_an_optimizer_are_apart_by_name_and_members():
    kinds = {"net": ADAMW, "physics": optax.adam(5e-3), "fixed": optax.set_to_zero()}
    assert groups_of(optax.multi_transform(kinds, GROUPS), PARAMS, of_params) == [
        "net: scale_by_adam →",
        "add_decayed_weights →",
        "scale_by_schedule",
        "4 arrays",
        "physics: scale_by_adam → scale",
        "log_nu",
        "set_to_zero",
        "freqs",
    ]


def test_groups_are_told_by_the_last_keys_too_and_stand_behind_what_is_for_all():
    kinds = {"slow": optax.adam(1e-3), "fast": ADAMW}
    labels = jax.tree.map_with_path(lambda at, _: "slow" if "b" in str(at[-1]) else "fast", PARAMS)
    both = optax.chain(optax.clip_by_global_norm(1.0), optax.multi_transform(kinds, labels))
    found = groups_of(both, PARAMS, of_params)
    assert found == [
        "clip_by_global_norm →",
        "partition",
        "slow: scale_by_adam → scale",
        "b (2 arrays)",
        "fast: scale_by_adam →",
        "add_decayed_weights →",
        "scale_by_schedule",
        "freqs, log_nu, w (4 arrays)",
    ]


def test_groups_that_are_not_certain_are_no_chain():
    """Both begin with the same, and nothing in the program tells which is whose."""
    kinds = {
        "net": optax.sgd(0.1),
        "physics": optax.chain(optax.scale(2.0), optax.scale_by_adam()),
        "fixed": optax.set_to_zero(),
    }
    found = groups_of(optax.multi_transform(kinds, GROUPS), PARAMS, of_params)
    assert " ".join(found) == "partition of scale, scale_by_adam, set_to_zero"


ARRAYS = {**PARAMS, "log_nu": jnp.zeros(2)}


def of_arrays(params, x):
    return of_params({**params, "log_nu": params["log_nu"].sum()}, x)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["freqs"], "set_to_zero of freqs →"),
        (["freqs", "log_nu"], "set_to_zero of freqs, log_nu →"),
        (["net", "freqs"], "set_to_zero of 5 arrays →"),
    ],
)
def test_arrays_whose_updates_are_set_to_zero_have_names(names, said):
    mask = jax.tree.map_with_path(lambda at, _: at[0].key in names, ARRAYS)
    kept = optax.chain(optax.masked(optax.set_to_zero(), mask), optax.adam(1e-3))
    assert " ".join(groups_of(kept, ARRAYS, of_arrays)) == f"{said} scale_by_adam → scale"


@pytest.mark.parametrize("names", [["freqs"], ["freqs", "log_nu"]])
def test_no_names_are_told_where_there_may_be_more(names):
    """The zero for a single number is in no equation, so nothing says whether it is one."""
    mask = jax.tree.map_with_path(lambda at, _: at[0].key in names, PARAMS)
    kept = optax.chain(optax.masked(optax.set_to_zero(), mask), optax.adam(1e-3))
    assert " ".join(groups_of(kept, PARAMS, of_params)) == "set_to_zero → scale_by_adam → scale"

    labels = {**GROUPS, "log_nu": "fixed" if "log_nu" in names else "net"}
    kinds = {"net": ADAMW, "fixed": optax.set_to_zero()}
    found = groups_of(optax.multi_transform(kinds, labels), PARAMS, of_params)
    told = ["freqs"] if "log_nu" not in names else []
    assert found[found.index("set_to_zero") :] == ["set_to_zero", *told]


def test_a_gradient_that_is_zero_has_a_name():
    def of_stopped(params, x):
        return of_params({**params, "freqs": jax.lax.stop_gradient(params["freqs"])}, x)

    def step(params, x):
        value, grads = jax.value_and_grad(of_stopped)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    nodes = draw(taxpr.trace(step, names=True)(PARAMS, X), budget=12).picture.nodes
    (zeros,) = (node for node in nodes if "broadcast_in_dim(0.0)" in node.lines)
    assert zeros.lines[-1] == "grads['freqs']: f32[8]"
