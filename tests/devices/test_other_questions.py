"""Questions of a tensor-parallel model: the answers of one device, and no more is exchanged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from devices.test_gathered import KINDS, LAYERS, SPECS, Model, X, alone, exchanged
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import _compat


def compiles_nothing(ask):
    """The answer of a question for which XLA compiles no program."""
    stages = []
    _compat.hear(stages.append)
    try:
        found = ask()
    finally:
        _compat.hear_no_more(stages.append)
    assert [stage for stage in stages if stage.kind == "compile"] == []
    return found


def gradients(model):
    """Of the sum of squares, for each ``h`` of the layers: of what would be added to it."""

    def added(e):
        w, x = model.plain
        for k in range(LAYERS):
            h = jnp.tanh(x @ w["up"][k]) + e[k]
            x = x + h @ w["down"][k]
        return (x**2).sum()

    return np.asarray(jax.grad(added)(jnp.zeros((LAYERS, 8, 32))))


def loss_of(model):
    return lambda w, x: (model.f(w, x) ** 2).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_flow(kind):
    """In a shard_map each device has a norm of its part; elsewhere they have one of the whole."""
    model = Model(kind, True)
    loss, found = loss_of(model), []
    with model.set_mesh():
        programs = [alone(loss, *model.args), alone(jax.grad(loss), *model.args)]
        made = exchanged(lambda: found.append(taxpr.flow(loss)(*model.args)))
    assert made == programs
    row = next(row for row in found[0].rows if row.variable == "h")
    for norms, whole in ((row.norms, model.values()["h"]), (row.grads, gradients(model))):
        if kind == "manual":
            parts = [
                step[4 * d : 4 * d + 4, 8 * m : 8 * m + 8]
                for d in range(2)
                for m in range(4)
                for step in whole
            ]
        else:
            parts = list(whole)
        assert_close(np.asarray(norms), np.array(list(map(np.linalg.norm, parts))), 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_check_finds_the_same_and_compiles_nothing(kind):
    model, one = Model(kind, True), Model("automatic", True)

    def with_a_fault(f):
        def loss(w, x):
            unused = jnp.sin(x) * 2  # noqa: F841
            root = jnp.where(x > 0, jnp.sqrt(x), 0.0)
            return f(w, x).sum() + root.sum()

        return loss

    def rows(answer):
        return [(row.rule, row.line) for row in answer.rows]

    with model.set_mesh():
        found = compiles_nothing(lambda: taxpr.check(with_a_fault(model.f))(*model.args))
    expected = taxpr.check(with_a_fault(one.f))(*one.plain)
    assert {row.rule for row in found.rows} == {"unused", "where-gradient"}
    assert rows(found) == rows(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_has_the_costs_of_the_whole_and_compiles_nothing(kind):
    model = Model(kind, True)
    with model.set_mesh():
        found = compiles_nothing(lambda: taxpr.summary(model.f)(*model.args))
    [h] = [row for row in found.rows if row.code.startswith("h =")]
    # Devices along d have parts of the rows, and those along m parts of the columns.
    assert h.flops == LAYERS * 8 * 32 * 2 * 16
    assert (h.iterations, h.parameters) == (LAYERS * 8 ** (kind == "manual"), 3 * 16 * 32)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("kind", ["automatic", "explicit"])
def test_statistics_of_an_array_are_those_of_numpy(kind, spec):
    x = np.where(X > 4.9, np.inf, X).astype(np.float32)
    placed = jax.device_put(x, NamedSharding(Model(kind, True).mesh, spec))
    found = compiles_nothing(lambda: taxpr.questions.array_stats(placed))
    finite = x[np.isfinite(x)].astype(np.float64)
    assert_close(np.array([found.mean, found.std]), np.array([finite.mean(), finite.std()]), 1e-6)
    assert (found.min, found.max) == (finite.min(), finite.max())
    assert found.posinf == np.mean(np.isinf(x))
    assert (found.size, found.histogram.sum()) == (x.size, finite.size)


@pytest.mark.parametrize("kind", KINDS)
def test_the_slow_function_is_named_and_the_program_is_the_users(kind):
    model = Model(kind, True)

    def many(x):
        for _ in range(30):
            x = jnp.cos(x)
        return x

    def step(w, x):
        return model.f(w, x) + many(x)

    found = []
    with model.set_mesh():
        plain = alone(step, *model.args)
        made = exchanged(lambda: found.append(taxpr.compile_time(step)(*model.args)))
    row = next(row for row in found[0].rows if row.code == "x = jnp.cos(x)")
    assert (row.function.rpartition(".")[2], row.equations) == ("many", 30)
    assert plain in made
    assert all(set(one) <= set(plain) for one in made)


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_of_compilations_adds_none(kind):
    model = Model(kind, True)
    w, x = model.args
    elsewhere = jax.device_put(x, NamedSharding(model.mesh, P()))

    def run():
        return jax.jit(lambda w, x: model.f(w, x) * 2)

    with model.set_mesh():
        f = run()
        plain = exchanged(lambda: (f(w, x), f(w, x), f({**w}, x + 0)))
        known = taxpr.why_compiled(run())
        assert exchanged(lambda: (known(w, x), known(w, x), known({**w}, x + 0))) == plain
        assert len(known.compiles.rows) == 1
        if kind == "automatic":
            known(w, elsewhere)
            assert known.compiles.rows[-1].cause == "sharding"
            assert known.compiles.rows[-1].argument == "x"
