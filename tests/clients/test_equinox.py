"""Modules of equinox."""

import equinox as eqx
import equinox.internal
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from checks import assert_close
from client_checks import all_of, assert_same_bits, check_identity, check_scale, collected_at

import taxpr
from taxpr_jupyter import Session, draw
from taxpr_jupyter._closed import loops
from taxpr_jupyter._view.parts.line_marks import line_marks

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


# ---- loops with a derivative of their own ------------------------------------


def looped(x, checkpoints=None):
    """Sines until they are small; a checkpointed loop, which has a derivative of its own."""

    def body(x):
        return taxpr.tag(jnp.sin(x) * jnp.float32(0.7), name="x")

    return eqx.internal.while_loop(
        lambda x: jnp.sum(x) > 0.5,
        body,
        x,
        kind="checkpointed",
        max_steps=8,
        checkpoints=checkpoints,
    )


START = jnp.asarray([0.9, 1.2])


@pytest.mark.spread(2)
@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("checkpoints", [None, 8])
def test_looking_into_a_checkpointed_loop_leaves_its_gradient(checkpoints, mode):
    def loss(x):
        return jnp.sum(looped(x, checkpoints) ** 2)

    plain = jax.grad(loss)(START)
    program = taxpr.trace(loss)(START)
    collect = program.collect(max_steps=8)
    gradient, values = mode(jax.grad(collect, has_aux=True))(START)
    assert_same_bits(gradient, plain)
    assert values["x"].count > 2
    for injector in (taxpr.count(), taxpr.record(slots=8), taxpr.stats(), taxpr.scale(1.0)):
        run = program.inject(injector)
        gradient, ctx = mode(jax.grad(lambda x, run=run: run(run.ctx, x), has_aux=True))(START)
        assert_same_bits(gradient, plain)
        counts = [report.get("count") for report in run.report(ctx).values()]
        assert counts in ([None], [values["x"].count])
    by = mode(lambda x: jax.vmap(jax.grad(lambda x: run(run.ctx, x)[0]))(x[None]))(START)
    assert_close(by[0], plain)


def test_a_value_injected_into_a_checkpointed_loop_flows_and_the_gradient_is_the_rules_own():
    """With a checkpoint for each step the backward rule has the values, and its own derivative."""
    run = taxpr.trace(lambda x: looped(x, 8))(START).inject(taxpr.scale(0.5))

    def loss(x):
        return jnp.sum(run(run.ctx, x)[0])

    x, slope = START, jnp.ones(2)
    while jnp.sum(x) > 0.5:
        slope, x = slope * 0.7 * jnp.cos(x), 0.35 * jnp.sin(x)
    assert_close(run(run.ctx, START)[0], x)
    for mode in (lambda f: f, jax.jit):
        assert_close(mode(jax.grad(loss))(START), slope)


def test_what_equinox_makes_of_a_function_has_no_node_of_its_own():
    def loss(x):
        return jnp.sum(eqx.filter_vmap(MLP)(eqx.filter_vmap(jnp.sin)(x)))

    picture = draw(eqx.filter_value_and_grad(loss), X).picture
    titles = [node.lines[:2] for node in picture.nodes if node.kind in ("eqn", "hop", "group")]
    assert not any("Wrapper" in line for lines in titles for line in lines)
    [made] = {lines for lines in titles if lines[0].startswith("MLP.__call__")}
    assert made[1].startswith("from _mlp.py:")


def test_a_layer_is_called_like_what_the_user_calls():
    class Net(eqx.Module):
        embed: eqx.nn.Linear
        head: eqx.nn.Linear

        def __call__(self, x):
            h = jnp.tanh(self.embed(x))
            h = self.head(h)
            return h

    net = Net(eqx.nn.Linear(8, 8, key=KEY), eqx.nn.Linear(8, 2, key=KEY))
    picture = draw(eqx.filter_value_and_grad(loss), net, X, budget=40).picture
    groups = [part.lines for part in (*picture.nodes, *picture.clusters) if part.kind == "group"]
    titles = [" ".join(lines) for lines in groups if "eqx.nn.Linear" in " ".join(lines)]
    starts = ("self.embed(x)", "h = self.head(h)", "∂ h = self.head(h)", "∂ self.embed(x)")
    assert all(any(title.startswith(start) for title in titles) for start in starts), titles


def test_a_run_of_a_session_returns_modules_whole():
    """What is no array in them is there as `eqx.filter_jit` returns it."""
    model = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    def loss(model, x, y):
        err = jax.vmap(model)(x) - y
        return (err**2).mean()

    @eqx.filter_jit
    def step(model, state, x, y):
        value, grads = eqx.filter_value_and_grad(loss)(model, x, y)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(model, updates), state, value, "done"

    args = model, state, jnp.ones((5, 3)), jnp.ones((5, 2))
    wanted = step(*args)
    session = Session(step, args)
    run = session.run()
    assert run.ok, run.error
    assert jax.tree.structure(run.outputs) == jax.tree.structure(wanted)
    assert eqx.tree_equal(run.outputs, wanted, rtol=1e-6)
    assert run.outputs[0].activation is model.activation
    assert run.baseline[3] == "done"
    session.attach(taxpr.var("err"), "scale", factor=0.5)
    run = session.run()
    assert eqx.tree_equal(run.baseline, wanted, rtol=1e-6)
    np.testing.assert_array_equal(run.outputs[0](args[2][0]).shape, (2,))
    assert [row.equal for row in run.differences if row.aval == "f32[]"] == [False]
    assert line_marks(session, (), {})
    session.kept_bytes = 0
    session.run()
    assert session.runs[-2].outputs[3] == "done"


def test_a_session_whose_module_has_states_and_static_leaves():
    norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")
    state = eqx.nn.State(norm)

    def step(norm, state, x):
        y, state = jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(
            x, state
        )
        return {"y": y, "by": jnp.tanh, "norm": norm}, state

    run = Session(step, (norm, state, jnp.ones((4, 3)))).run()
    assert run.ok, run.error
    out = run.outputs[0] if isinstance(run.outputs, tuple) else run.outputs
    assert out["by"] is jnp.tanh
    assert jax.tree.structure(out["norm"]) == jax.tree.structure(norm)


@pytest.mark.parametrize("kind", ["lax", "checkpointed"])
def test_a_bounded_loop_says_its_bound(kind):
    def run(x):
        def body(state):
            i, y = state
            return i + 1, jnp.sin(y)

        def go_on(state):
            return jnp.abs(state[1]).max() > 0.1

        return equinox.internal.while_loop(go_on, body, (0, x), max_steps=64, kind=kind)[1]

    program = taxpr.trace(run)(X)
    found = [eqn for _, eqn in taxpr.iter_eqns(program) if eqn.primitive.name == "while"]
    assert [loops.bound_of(eqn, program.eqns) for eqn in found] == [loops.Bound(64, exact=False)]
