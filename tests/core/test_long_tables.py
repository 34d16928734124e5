"""Tables of `watch` and `flow` that would be too long: arrays of one tree share a row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import _compat
from taxpr._answers import trees

MOST = 20  # rows on a screen


def layer(w, x):
    h = jnp.tanh(x @ w["kernel"] + w["bias"])
    return h


def loss(params, x):
    for k in range(len(params)):
        x = layer(params[f"layer_{k}"], x)
    error = (x**2).mean()
    return error


def train_step(params, mu, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    mu = jax.tree.map(lambda m, g: 0.9 * m + g, mu, grads)
    params = jax.tree.map(lambda w, m: w - 0.1 * m, params, mu)
    return value, params, mu


def net(layers):
    keys = jax.random.split(jax.random.key(0), layers)
    params = {
        f"layer_{k}": {
            "kernel": jax.random.normal(key, (4, 4)),
            "bias": jnp.full((1, 4), 1 / (k + 1)),
        }
        for k, key in enumerate(keys)
    }
    return params, jax.tree.map(jnp.zeros_like, params), jnp.ones((3, 4))


def named(rows):
    return [row["variable"] if isinstance(row, dict) else row.variable for row in rows]


def row_of(answer, name):
    return next(row for row in answer.listed() if named([row]) == [name])


def test_computed_values_come_first_and_arguments_last_and_folded():
    table = taxpr.watch(train_step)(*net(4)).table()
    assert len(table.rows) > MOST
    names = named(table.listed())
    assert len(names) <= MOST
    assert names[:4] == ["h#0", "h#1", "h#2", "h#3"]
    assert names[-3:] == ["train_step.params#0", "mu#0", "train_step.x#0"]
    assert "8 arrays" in str(table)
    assert ".rows has each" in str(table)
    assert "more, in .rows" not in str(table)
    html = table._repr_mimebundle_()["text/html"]
    assert html.index("h#0") < html.index("train_step.params#0")


def test_a_short_table_is_in_the_order_of_execution():
    table = taxpr.watch(loss)(*net(2)[::2]).table()
    assert table.listed() == table.each
    assert named(table.listed())[0] == "params['layer_0']['bias']"
    assert ".rows has each" not in str(table)


def test_the_layers_of_a_tree_share_rows_as_far_as_needed():
    flow = taxpr.flow(loss)(*net(8)[::2])
    names = named(flow.listed())
    assert names[:2] == ["h", "error"]
    assert [f"params['layer_{k}']" for k in range(8)] == names[2:10]


@pytest.mark.parametrize("layers", [8, 12])
def test_shared_rows_have_the_numbers_of_all_their_arrays(layers):
    args = net(layers)
    recording = taxpr.watch(train_step)(*args)
    grads = jax.grad(loss)(args[0], args[2])
    every = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(grads)])
    row = row_of(recording.table(), "grads")
    assert row["shape"] == f"{2 * layers} arrays"
    assert [row["min"], row["max"]] == pytest.approx([every.min(), every.max()], rel=1e-5)
    assert [row["mean"], row["std"]] == pytest.approx([every.mean(), every.std()], rel=1e-4)
    assert len(row["addresses"]) == 2 * layers


def test_values_of_one_line_share_a_row_with_a_number_for_each_layer():
    table = taxpr.watch(train_step)(*net(24)).table()
    row = row_of(table, "h#0 … #23")
    x, means = net(24)[2], []
    for w in net(24)[0].values():
        x = layer(w, x)
        means.append(float(x.mean()))
    np.testing.assert_allclose(row["mean"], means, rtol=1e-5)
    assert len(table.listed()) <= MOST


def test_shared_rows_of_flow_have_the_norms_of_all_their_arrays():
    args = net(24)[::2]

    def step(params, x):
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params, x))

    flow = taxpr.flow(loss, step=step)(*args)
    row = row_of(flow, "params")
    leaves, grads = (
        [np.ravel(leaf) for leaf in jax.tree.leaves(of)] for of in (args[0], jax.grad(loss)(*args))
    )
    norm, grad = (np.linalg.norm(np.concatenate(of)) for of in (leaves, grads))
    np.testing.assert_allclose(row["norms"], [norm], rtol=1e-5)
    np.testing.assert_allclose(row["grads"], [grad], rtol=1e-4)
    np.testing.assert_allclose(row["updates"], [0.1 * grad / norm], rtol=1e-3)


def test_arrays_that_are_not_finite_are_counted_and_leave_no_mean():
    def bad(params, x):
        params = {name: {**w, "bias": jnp.log(1 - w["bias"])} for name, w in params.items()}
        return loss(params, x)

    table = taxpr.watch(bad)(*net(12)[::2]).table()
    [row] = [row for row in table.listed() if isinstance(row, dict) and row["nonfinite"]]
    assert row["variable"].startswith("bad.params")
    assert row["nonfinite"] == "in 1 of 12 arrays"
    assert row.get("mean") is None
    assert row["max"] == pytest.approx(np.log(1 - 1 / 12))


def test_shared_rows_of_large_numbers_are_finite():
    params = {name: np.asarray(w["kernel"], float) * 1e200 for name, w in net(24)[0].items()}

    def total(params):
        return sum(jnp.max(params[f"layer_{k}"]) * 1e-200 for k in range(24))

    with _compat.enable_x64():
        flow, recording = taxpr.flow(total)(params), taxpr.watch(total)(params)
    every = np.concatenate([np.ravel(leaf) for leaf in params.values()]) / 1e200
    norm = np.linalg.norm(every) * 1e200
    np.testing.assert_allclose(row_of(flow, "params")["norms"], [norm], rtol=1e-5)
    row = row_of(recording.table(), "params")
    assert row["std"] == pytest.approx(every.std() * 1e200, rel=1e-4)


def test_a_layer_with_a_bias_of_zeros_has_the_update_of_all_its_arrays():
    params, _, x = net(12)
    params = {name: {**w, "bias": w["bias"] * 0} for name, w in params.items()}

    def step(params, x):
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params, x))

    old, new = params["layer_3"], step(params, x)["layer_3"]
    changes = jax.tree.map(lambda a, b: a - b, new, old)
    change, norm = (
        np.linalg.norm(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(of)]))
        for of in (changes, old)
    )
    row = row_of(taxpr.flow(loss, step=step)(params, x), "params['layer_3']")
    np.testing.assert_allclose(row["updates"], [change / norm], rtol=1e-4)


def test_an_array_without_elements_leaves_the_norm_of_the_others():
    def total(params, x):
        for w in params.values():
            x = jnp.tanh(x @ w["kernel"] + w["bias"]) + w["none"].sum()
        return (x**2).mean()

    params, _, x = net(12)
    params = {name: {**w, "none": jnp.zeros((0, 3))} for name, w in params.items()}
    row = row_of(taxpr.flow(total)(params, x), "params['layer_3']")
    assert row["shape"] == "3 arrays"
    for name, of in (("norms", params), ("grads", jax.grad(total)(params, x))):
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(of["layer_3"])]
        np.testing.assert_allclose(row[name], [np.linalg.norm(np.concatenate(leaves))], rtol=1e-4)


def test_a_path_that_a_name_has_twice_is_its_end():
    rows = [
        taxpr.questions.FlowRow(
            f"m.weights{path}", "f", "m.py:1", (2,), np.ones(1), None, None, f"in{k}", path=path
        )
        for k in range(30)
        for path in [f".w['{k // 10}]'][{k}]"]
    ]
    groups = trees.folded(rows, lambda row: True)
    assert [name for name, _ in groups] == [f"m.weights.w['{k}]']" for k in range(3)]


def test_keys_with_signs_of_names_stay_whole():
    def total(params, x):
        for w in params.values():
            x = jnp.tanh(x * w["a.b"] + w["c]d"])
        return x.sum()

    params = {f"of#{k}": {"a.b": jnp.ones(2), "c]d": jnp.ones(2)} for k in range(12)}
    names = named(taxpr.flow(total)(params, jnp.ones(2)).listed())
    assert {f"params['of#{k}']" for k in range(12)} < set(names)
    params = {"of#1": params["of#1"]}
    names = named(taxpr.flow(total)(params, jnp.ones(2)).listed())
    assert names[:2] == ["params['of#1']['a.b']", "params['of#1']['c]d']"]
