"""A run says how its arguments and results are divided, as the arrays themselves have it."""

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from devices.test_shown_shardings import arguments, dense, put, type_of, words_of
from jax.sharding import AxisType

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._view.wire import results_state

KINDS = AxisType.Auto, AxisType.Explicit


def layer(w, x):
    h = x @ w
    out = jnp.tanh(h)
    return {"out": out, "turned": h.T, "sum": h.sum()}


def layer_arguments(kind):
    given = jnp.ones((64, 32)), jnp.ones((128, 64))
    return put(given[0], None, "j", kind=kind), put(given[1], "i", kind=kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("injected", [False, True])
def test_a_run_tells_arguments_and_results(kind, injected):
    with jax.set_mesh(mesh("4x2", kind)):
        args = layer_arguments(kind)
        outs = jax.jit(layer)(*args)
        session = Session(layer, args)
        if injected:
            session.attach("0:dot_general", "scale", factor=2.0)
        run = session.run()
    assert run.ok, run.error
    given = dict(zip("wx", args, strict=True))
    expected = given | {f"out['{name}']": x for name, x in outs.items()}
    assert [row.name for row in run.divided] == ["w", "x", *sorted(set(expected) - set(given))]
    for row in run.divided:
        x = expected[row.name]
        assert row.division.type == type_of(x)
        assert row.division.words == words_of(x)
        assert row.division.bytes == x.addressable_shards[0].data.nbytes
        assert f"  {row.name} {type_of(x)}: {words_of(x)}" in str(run).splitlines()
    assert {row.name: row.aval for row in run.differences} == {
        f"out['{name}']": type_of(x) for name, x in outs.items()
    }
    shown = results_state(run)
    assert {(one["name"], one["type"], one["devices"]) for one in shown["divided"]} == {
        (name, type_of(x), words_of(x)) for name, x in expected.items()
    }
    assert {one["type"] for one in shown["outputs"]} == set(map(type_of, outs.values()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_run_tells_states_before_and_after(kind):
    with jax.set_mesh(mesh("4x2", kind)):
        w, x = layer_arguments(kind)
        start = put(jnp.zeros((128, 32)), "i", "j", kind=kind)
        last = taxpr.State(start, name="last")

        def step(w, x):
            h = jnp.tanh(x @ w)
            last.value = last.value + h
            return h.sum()

        run = Session(step, (w, x)).run()
    assert run.ok, run.error
    before, after = (row for row in run.divided if row.name == "states['last']")
    assert (before.address, after.address) == ("in0", "out1")
    for row, value in ((before, start), (after, run.final_states["last"])):
        assert row.division.type == type_of(value) == "f32[128@i,32@j]"
        assert row.division.words == words_of(value)
        assert row.division.bytes == value.addressable_shards[0].data.nbytes


def test_results_that_an_injector_divides_otherwise_have_both_types():
    args = layer_arguments(AxisType.Auto)
    session = Session(layer, args)
    turned = jax.sharding.NamedSharding(mesh("4x2"), jax.sharding.PartitionSpec("j", "i"))

    def elsewhere(ctx, token, params):
        return jax.lax.with_sharding_constraint(token, turned), ctx

    session.run()
    session.attach("1:tanh", elsewhere)
    [row] = [row for row in session.run().differences if row.name == "out['out']"]
    assert row.equal
    assert row.aval == "f32[128@i,32@j] → f32[128@j,32@i]"


def labels(session):
    return {node.address: node.lines[-1].rpartition(": ")[2] for node in session.picture().nodes}


def test_picture_text_and_source_have_those_of_results_after_a_run():
    args = arguments()
    session = Session(dense, args, names=True)
    *_, y = jax.jit(dense)(*args)
    told = []
    session.on_change(told.append)
    before = labels(session)
    session.run()
    assert told == ["run", "divided"]
    after = labels(session)
    assert before["out3"] == "f32[128,16]"
    assert after["out3"] == type_of(y)
    assert type_of(y) in session.text()
    assert f"y: {type_of(y)}" in session.source().text()
    told.clear()
    session.run()
    assert told == ["run"]  # nothing is drawn again that is the same


def test_a_run_on_one_device_tells_nothing_new():
    session = Session(layer, (jnp.ones((4, 4)), jnp.ones((4, 4))))
    told = []
    session.on_change(told.append)
    run = session.run()
    assert run.divided == ()
    assert told == ["run"]
    assert "each" not in str(run)
    assert results_state(run)["divided"] == []
