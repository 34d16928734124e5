"""Recorded cotangents against `jax.grad` of the rest of the program, and `flow`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from jax import lax

import taxpr

W = jnp.linspace(-1.0, 1.0, 9).reshape(3, 3)
X = jnp.arange(6.0).reshape(2, 3) / 6


def calls(w, x):
    @jax.jit
    def layer(x):
        h = jnp.tanh(x @ w)
        return h

    y = layer(layer(x))
    return (y**2).sum()


def scanned(w, x):
    def step(c, k):
        h = jnp.sin(c @ w) * k
        return h, h.sum()

    c, sums = lax.scan(step, x, jnp.arange(1.0, 4.0))
    return c.sum() + sums.sum()


def rematerialised(w, x):
    @jax.checkpoint
    def block(x):
        h = jnp.sin(x @ w)
        return h * h

    return block(block(x)).sum()


def branching(w, x):
    def up(v):
        h = v @ w
        return h

    rows = lax.map(lambda v: lax.cond(v.sum() > 1, up, jnp.sin, v), x)
    return rows.sum(), {"aux": x}


def with_a_rule(w, x):
    h = jax.nn.relu(x @ w)
    y = jax.nn.softmax(h)
    return (y * x).sum()


def mapped(w, x):
    def one(v):
        h = v @ w
        return jnp.exp(h).sum()

    return jax.vmap(one)(x).sum()


@pytest.mark.parametrize(
    "fn",
    [calls, scanned, rematerialised, branching, with_a_rule, mapped],
    ids=lambda fn: fn.__name__,
)
def test_what_flows_back_is_the_gradient_with_respect_to_the_value(fn):
    rec = taxpr.watch(fn, grads=True)(W, X)

    def loss(w, x):
        out = fn(w, x)
        return out[0] if isinstance(out, tuple) else out

    by_input = jax.grad(loss, (0, 1))(W, X)
    assert_close(rec["∂ w"].value, by_input[0])
    expected = taxpr.grad_at(loss, taxpr.var("h"), stack=True)(W, X)["h"]
    value = getattr(expected, "value", expected)
    assert_close(np.asarray(rec["∂ h"].value), np.asarray(value))
    assert "∂ h" in rec
    assert_close(jax.tree.leaves(rec.out)[0], loss(W, X))


def test_what_has_no_cotangent_is_counted():
    def loss(x):
        n = jnp.arange(3)
        unused = jnp.sin(x)
        assert unused.shape
        y = x * n.astype(x.dtype)
        return y.sum()

    rec = taxpr.watch(loss, grads=True)(jnp.ones(3))
    assert [part.name for part in rec.parts if part.cotangent] == ["∂ x", "∂ y"]
    assert rec.notes[-1] == "Without a cotangent: 2 values."
    with pytest.raises(taxpr.SelectorError, match="has no '∂ unused'"):
        rec["∂ unused"]
    with pytest.raises(taxpr.ArgumentError, match=r"scalar of floats, or a tuple .*32\[3\]"):
        taxpr.watch(jax.grad(loss), grads=True)(jnp.ones(3))


def step(w, x):
    loss, grad = jax.value_and_grad(scanned)(w, x)
    return {"w": w - 0.1 * grad}, (jnp.int32(1), loss)


def test_a_result_that_is_not_the_first_can_be_differentiated():
    back = taxpr.watch(step, "h", grads="out[1][1]")(W, X)
    assert_close(back["∂ h"].value, taxpr.watch(scanned, "h", grads=True)(W, X)["∂ h"].value)
    found = {row.variable: row for row in taxpr.flow(step, of="out[1][1]")(W, X).rows}
    wanted = {row.variable: row for row in taxpr.flow(scanned)(W, X).rows}
    for name in ("h", "sums", "scanned.c"):
        assert_close(found[name].grads, wanted[name].grads)
    assert taxpr.flow(step, of="out[1][1]")(W, X).headline.endswith(", gradients of out[1][1]")


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("out[1]", r"has no result 'out\[1\]' that is a scalar of floats\. There is out\[1\]\[1\]"),
        ("out[1][0]", "that is a scalar of floats"),
        ("out[0]['w']", "that is a scalar of floats"),
    ],
)
def test_only_a_scalar_of_floats_can_be_differentiated(of, message):
    for asked in (taxpr.flow(step, of=of), taxpr.watch(step, grads=of)):
        with pytest.raises(taxpr.ArgumentError, match=message):
            asked(W, X)


def test_what_cannot_be_differentiated_is_not_run():
    ran = []

    def told(x):
        jax.debug.callback(lambda: ran.append(1))
        y = x * 2
        return y

    with pytest.raises(taxpr.ArgumentError, match="scalar of floats, or a tuple"):
        taxpr.flow(told)(jnp.ones(3))
    jax.effects_barrier()
    assert ran == []


def test_cotangents_are_saved(tmp_path):
    rec = taxpr.watch(scanned, "h", grads=True, keep="stats")(W, X)
    rec.save(tmp_path / "run.npz")
    assert str(taxpr.load_recording(tmp_path / "run.npz").table()) == str(rec.table())


def test_flow_has_a_norm_for_each_layer():
    def loss(weights, x):
        for w in weights:
            h = jax.nn.relu(x @ w)
            x = h * 10
        return x.sum()

    weights = [jnp.diag(jnp.array([1.0, -1.0, 0.5]))] * 3
    found = taxpr.flow(loss)(weights, jnp.ones((2, 3)))
    rows = {row.variable: row for row in found.rows}
    # By hand: unit 0 stays, unit 2 is halved, in each of two examples; unit 1 is dead.
    first = np.array([10.0**k for k in range(3)])
    assert_close(rows["h"].norms, np.sqrt(2 * (first**2 + (first * 0.5 ** np.arange(1, 4)) ** 2)))
    back = np.array([[10.0**3, 0, 10.0 * 5 * 5], [100, 0, 50], [10, 10, 10]])
    back = np.sqrt(2 * (back**2).sum(1))
    assert_close(rows["h"].grads, back)
    assert_close(rows["h"].dead, np.full(3, 1 / 3))
    assert np.isnan(rows["x"].dead).tolist() == [True, False, False, False]
    assert len(rows["x"].norms) == 4
    assert rows["weights[0]"].dead is None
    assert "weights[0]  test_flow.py" in str(found)
    assert found.recording["∂ h#0"].shape == (2, 3)
    assert "flow of loss: " in str(found)
    assert found.chart().text().startswith("values")
    assert "<svg" in found._repr_mimebundle_()["text/html"]
    little = taxpr.flow(loss, memory=100)(weights, jnp.ones((2, 3)))
    assert_close({r.variable: r for r in little.rows}["h"].grads, back)
    assert all(row.dead is None for row in little.rows if row.variable == "h")


def test_a_branch_that_never_ran_has_no_dead_units():
    def loss(x):
        def up(x):
            h = x * 2
            return h.sum()

        return lax.cond(x.sum() > 100, up, jnp.sum, x)

    [row] = [row for row in taxpr.flow(loss)(X).rows if row.variable == "h"]
    assert row.dead is None
    assert row.norms.tolist() == [0]


def dead_in_one(weights, shifts, x):
    def layer(x, given):
        h = jax.nn.relu(x @ given[0] + given[1][None])
        return h, None

    return lax.scan(layer, x, (weights, shifts))[0].sum()


def test_a_layer_that_is_dead_is_told():
    weights, shifts = jnp.stack([jnp.eye(3)] * 4), jnp.zeros((4, 3)).at[2].set(-9.0).at[3].set(1.0)
    rows = {row.variable: row for row in taxpr.flow(dead_in_one)(weights, shifts, X + 1).rows}
    assert rows["h"].dead.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_arguments_are_told_once():
    def inner(params, x):
        h = x * params["w"]
        return h

    def loss(params, x):
        return inner(params, x).sum()

    found = taxpr.flow(loss)({"w": X}, X)
    assert len({row.address for row in found.rows}) == len(found.rows) == 3


def _by_hand(new, old):
    return [
        np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(np.asarray(b))
        for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True)
    ]


def test_the_ratio_of_update_to_weight_of_each_weight():
    def loss(params, x):
        for w in params["layers"]:
            x = jnp.tanh(x @ w)
        return jnp.mean((x - params["b"]) ** 2)

    def step(params, x):
        grads = jax.grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = {"layers": [W, W * 2], "b": jnp.ones((2, 3))}
    expected = _by_hand(step(params, X), params)
    for some in (step, lambda *args: (step(*args), "state")):
        flow = taxpr.flow(loss, step=some)(params, X)
        rows = {row.variable: row for row in flow.rows}
        np.testing.assert_allclose(rows["params['b']"].updates, expected[:1], rtol=1e-5)
        np.testing.assert_allclose(rows["params['layers'][1]"].updates, expected[2:], rtol=1e-5)
        assert rows["x"].updates is None
        assert "updates" in str(flow)
    assert "updates" not in str(taxpr.flow(loss)(params, X))
    with pytest.raises(taxpr.ArgumentError, match="the new value of the first argument"):
        taxpr.flow(loss, step=lambda params, x: params["b"])(params, X)


def test_a_parameter_that_functions_hand_on_is_shown_once():
    def layer(p, h):
        return jnp.tanh(h @ p["w"])

    def loss(params, x):
        for p in params:
            x = layer(p, x)
        return jnp.sum(x)

    found = taxpr.flow(loss)([{"w": jnp.eye(2)}, {"w": jnp.eye(2) * 2}], jnp.ones(2))
    names = [row.variable for row in found.rows]
    assert names == ["params[0]['w']", "params[1]['w']", "x", "loss.p['w']", "h"]


def test_an_empty_array_has_a_norm_of_zero_and_no_mean():
    def f(x):
        y = x * 2

        def step(c, _):
            each = c * 2
            return each, None

        out, _ = lax.scan(step, y, None, length=3)
        return out.sum()

    x = jnp.zeros((0, 3))
    flow = taxpr.flow(f)(x)
    assert {row.variable for row in flow.rows} >= {"x", "y", "each", "out"}
    for row in flow.rows:
        assert not row.norms.any()
        assert not row.grads.any()
    assert "nan" not in str(flow).lower()
    for keep in ("values", "stats"):
        recording = taxpr.watch(f, keep=keep)(x)
        assert str(recording["y"]).startswith("y: float32[0, 3], empty")
        for part in recording.parts:
            for each in (False, True):
                stats = part.stats(each)
                assert not np.any(stats.norm)
                assert not np.any(stats.nonfinite)
                assert np.isnan(stats.mean).all()
        assert "nan" not in str(recording.table).lower()


def test_an_empty_weight_is_part_of_no_norm_of_a_tree():
    def loss(params, x):
        return (params["w"] * x).sum() + params["none"].sum()

    def step(params, x):
        return jax.tree.map(lambda p: p * 0.5, params)

    params = {"w": jnp.ones(4), "none": jnp.zeros((0, 2))}
    rows = {row.variable: row for row in taxpr.flow(loss, step=step)(params, jnp.ones(4)).rows}
    assert rows["params['none']"].updates.tolist() == [0.0]
    assert rows["params['w']"].updates.tolist() == [0.5]


def test_a_value_that_no_iteration_computes_did_not_run():
    def g(x, n):
        def body(c):
            each = c[0] + 1, c[1] * 2
            return each

        return lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]

    said = str(taxpr.watch(g, "each")(jnp.ones(3), 0)["each"])
    assert "did not run" in said
    assert "nan" not in said
