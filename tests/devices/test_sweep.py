"""Sweeps over eight devices: the runs are divided among them, and the numbers stay."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr._sweep import many_runs

X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(8, 2)
FACTORS = np.linspace(0.0, 2.0, 11, dtype=np.float32)


def model(x):
    h = jnp.tanh(x)
    return jnp.sum(h * x)


def by_hand(factor):
    return np.sum(factor * np.tanh(X) * X)


def test_runs_are_divided_among_all_devices(monkeypatch):
    used = []
    fetched = many_runs.fetched
    monkeypatch.setattr(many_runs, "fetched", lambda x: [used.append(x.sharding), fetched(x)][1])
    found = taxpr.sweep(model, taxpr.var("h"), taxpr.scale, FACTORS)(X)
    np.testing.assert_allclose(found.values, list(map(by_hand, FACTORS)), rtol=1e-5, atol=1e-6)
    assert {len(one.device_set) for one in used} == {8}
    small = taxpr.sweep(model, taxpr.var("h"), taxpr.scale, FACTORS, chunk=3)(X)
    np.testing.assert_array_equal(small.values, found.values)
    zeroed = taxpr.sweep(model, taxpr.each(taxpr.var("h"), axis=0), taxpr.zero())(X)
    rows = np.tanh(X) * X
    np.testing.assert_allclose(zeroed.values, rows.sum() - rows.sum(1), rtol=1e-5, atol=1e-6)
    patched = taxpr.patch(model, taxpr.each(taxpr.var("h"), axis=0), sources="clean")(X, 2 * X)
    wanted = 2 * np.tanh(2 * X) * X
    wanted = wanted.sum() - wanted.sum(1) + 2 * rows.sum(1)
    metrics = [row["metric"] for row in patched.rows]
    np.testing.assert_allclose(metrics, wanted, rtol=1e-5, atol=1e-6)


def test_programs_with_devices_of_their_own_keep_them():
    mesh = Mesh(np.asarray(jax.devices()), ("i",), axis_types=(AxisType.Auto,))

    def sharded(x):
        def body(x):
            h = jnp.tanh(x)
            return h * x

        return jnp.sum(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x))

    found = taxpr.sweep(sharded, taxpr.var("h"), taxpr.scale, FACTORS)(X)
    np.testing.assert_allclose(found.values, list(map(by_hand, FACTORS)), rtol=1e-5, atol=1e-6)
    spread = jax.device_put(X, NamedSharding(mesh, P("i")))
    for fn in (model, sharded):
        found = taxpr.sweep(fn, taxpr.var("h"), taxpr.scale, FACTORS)(spread)
        np.testing.assert_allclose(found.values, list(map(by_hand, FACTORS)), rtol=1e-5, atol=1e-6)
