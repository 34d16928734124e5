"""`every` with arrays that several devices share: the same state, and kept arguments as divided."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_a_sharded_step_donates_and_is_stopped(kind):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"), axis_types=(kind,) * 2)
    by_model, by_data = NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P("data"))

    def loss(w, x):
        hidden = jnp.tanh(jnp.matmul(x, w, out_sharding=P("data", "model")))
        return jnp.mean(hidden**2)

    def automatic(w, x):
        hidden = jnp.tanh(x @ w)
        return jnp.mean(hidden**2)

    fun = loss if kind is AxisType.Explicit else automatic

    @functools.partial(jax.jit, donate_argnums=0)
    def step(w, count, x):
        return w - 0.1 * jax.grad(fun)(w, x), count + 1.0

    def start():
        return jax.device_put(jnp.linspace(-1.0, 1.0, 32).reshape(4, 8), by_model), jnp.zeros(())

    def batch(k, bad=None):
        x = np.sin(np.arange(32, dtype=np.float32) + k).reshape(8, 4)
        x[3, 2] = np.nan if k == bad else x[3, 2]
        return jax.device_put(x, by_data)

    def run(call, number, bad=None):
        state = start()
        for k in range(number):
            state = call(*state, batch(k, bad))
        return state

    told, hidden = [], []
    with jax.set_mesh(mesh):
        for k in range(0, 6, 3):
            w, _ = run(step, k)
            hidden.append(np.tanh(np.asarray(batch(k), np.float64) @ np.asarray(w, np.float64)))
        with taxpr.every(3, step, told.append, "hidden") as stepping:
            found, other = run(stepping, 6), run(step, 6)
        assert found[0].sharding == other[0].sharding
        np.testing.assert_array_equal(np.asarray(found[0]), np.asarray(other[0]))
        assert [one["step"] for one in told] == [0, 3]
        norms = [np.linalg.norm(one) for one in hidden]
        np.testing.assert_allclose([one["hidden/norm"] for one in told], norms, rtol=1e-5)
        w, count = run(step, 4)
        with (
            pytest.raises(taxpr.NonfiniteError) as caught,
            taxpr.every(3, step, told.append) as stepping,
        ):
            run(stepping, 7, bad=4)
        kept = caught.value.kept
        assert caught.value.step == 4
        assert caught.value.results == ["out[0]"]
        assert kept[0].sharding == w.sharding
        np.testing.assert_array_equal(np.asarray(kept[0]), np.asarray(w))
        assert float(kept[1]) == float(count) == 4
        assert taxpr.find_nan(step)(*kept)


def test_arrays_on_a_mesh_and_beside_it_are_copied_and_looked_at():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    halve = jax.jit(lambda x: x * 0.5, donate_argnums=0)

    def step(state, scale):
        return {"a": halve(state["a"]), "b": halve(state["b"]) / scale, "n": state["n"] + 1}

    state = {"a": jax.device_put(jnp.ones(8), NamedSharding(mesh, P("data")))}
    state |= {"b": jnp.ones(4), "n": 0.5}

    def run(stepping, state):
        for scale in (1.0, 1.0, 0.0, 1.0):
            state = stepping(state, scale)

    with pytest.raises(taxpr.NonfiniteError) as caught:
        run(taxpr.every(100, step, lambda told: None, "state"), state)
    error = caught.value
    assert (error.step, error.results) == (2, ["out['b']"])
    kept = error.kept[0]
    assert [len(kept[name].sharding.device_set) for name in "ab"] == [8, 1]
    for name, size in (("a", 8), ("b", 4)):
        np.testing.assert_array_equal(np.asarray(kept[name]), np.full(size, 0.25))
    assert kept["n"] == 2.5


def test_kept_arguments_are_put_nowhere_that_the_users_were_not():
    """What JAX may move, as to a mesh, it may move in what is kept, too."""
    mesh = Mesh(np.array(jax.devices()), ("data",))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(a, b, c, first):
        return a * 2, b / (b - b), first + c

    free, first = jnp.arange(8.0), jax.device_put(jnp.ones(8), jax.devices()[0])
    given = free, jnp.float32(3) * 1, np.float32(2)
    assert not free.committed
    told = []
    with (
        pytest.raises(taxpr.NonfiniteError) as caught,
        taxpr.every(9, step, told.append, finite=lambda out: out[1]) as stepping,
    ):
        stepping(*given, first=first)
    args = caught.value.kept
    assert [x.committed for x in args[:2]] == [False, False]
    assert type(args[2]) is np.float32
    on_mesh = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("data")))
    np.testing.assert_array_equal(jax.jit(jnp.add)(args[0], on_mesh), np.arange(8.0) + 1)
    assert caught.value.keywords["first"].committed


APART = {
    "watch": taxpr.watch,
    "find_nan": taxpr.find_nan,
    "every": lambda step: taxpr.every(1, step, print),
    "first_difference": lambda step: taxpr.first_difference(step, step),
    "compiled": taxpr.compiled,
    "memory": taxpr.memory,
    "profile": taxpr.profile,
}


@pytest.mark.parametrize("question", APART)
def test_arguments_on_different_devices_are_named(question):
    """Plain Python runs each operation where its operands are, which no program can."""
    mesh = Mesh(np.array(jax.devices()[2:4]), ("d",))

    def step(w, x, n):
        loss = x.sum()
        return w * n, loss

    w = jax.device_put(jnp.ones(3), jax.devices()[1])
    x = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, P("d")))
    assert float(step(w, x, 2.0)[1]) == 6
    message = (
        r"^step: its arguments are on different devices: w on cpu:1, x on cpu:2, cpu:3\. It .*"
    )
    with pytest.raises(taxpr.ArgumentError, match=message + "Put them on the same by .*device_put"):
        APART[question](step)(w, x, 2.0)
    w = jax.device_put(w, NamedSharding(mesh, P()))
    assert APART[question](step)(w, x, 2.0) is not None
