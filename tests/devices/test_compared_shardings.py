"""A comparison shows how both sides divide values, and which ones they divide otherwise."""

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from devices.test_run_shardings import layer, layer_arguments
from devices.test_shown_shardings import labels, type_of
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from taxpr_jupyter import Session, compare
from taxpr_jupyter._output.redivided import Redivided
from taxpr_jupyter._view.parts.comparing import _changes
from taxpr_jupyter._view.widget import view_for


def turned(w, x):
    h = x @ w
    h = lax.with_sharding_constraint(h, NamedSharding(mesh("4x2"), P("j", "i")))
    out = jnp.tanh(h)
    return {"out": out, "turned": h.T, "sum": h.sum()}


def test_arguments_show_theirs_without_compiling():
    args = layer_arguments(AxisType.Auto)
    found = compare(layer, turned, *args)
    for picture in found.pictures:
        shown = labels(picture)
        assert [shown["in0"], shown["in1"]] == list(map(type_of, args))
    assert found.redivided == ()


def test_both_sides_and_what_is_divided_otherwise_once_compiled():
    args = layer_arguments(AxisType.Auto)
    found = compare(layer, turned, *args, compiled=True)
    sides = [jax.jit(fun)(*args) for fun in (layer, turned)]
    for picture, outs in zip(found.pictures, sides, strict=True):
        shown = labels(picture)
        assert shown["out0"] == type_of(outs["out"])
        assert shown["out2"] == type_of(outs["turned"])
    rows = {row.address.partition(":")[2]: row for row in found.redivided}
    for value, key in (("tanh.0", "out"), ("transpose.0", "turned")):
        row = rows[value]
        then, now = (outs[key] for outs in sides)
        assert (row.before.type, row.after.type) == (type_of(then), type_of(now))
        assert row.before.bytes == then.addressable_shards[0].data.nbytes
        assert str(row) in found.text().splitlines()
    assert "reduce_sum.0" not in rows


def test_a_program_compared_with_itself_divides_nothing_otherwise():
    args = layer_arguments(AxisType.Auto)
    assert compare(turned, turned, *args, compiled=True).redivided == ()


def test_one_device_divides_nothing():
    found = compare(jnp.sin, jnp.cos, jnp.ones(8), compiled=True)
    assert found.redivided == ()
    assert "@" not in found.text()


@pytest.mark.parametrize("asked", [False, True])
def test_the_tab_tells_it_once_the_program_is_compiled(asked):
    session = Session(layer, layer_arguments(AxisType.Auto))
    to = NamedSharding(mesh("4x2"), P("j", "i"))
    session.attach("1:tanh", lambda ctx, x, _: (lax.with_sharding_constraint(x, to), ctx))
    if asked:
        session.ask("compiled")
    told = [text for text in _changes(session.changes()) if "divided otherwise" in text]
    assert bool(told) == asked
    row = next(iter(session.changes().redivided), None)
    assert isinstance(row, Redivided) == asked


def test_a_comparison_that_was_made_before_is_made_again():
    session = Session(layer, layer_arguments(AxisType.Auto))
    to = NamedSharding(mesh("4x2"), P("j", "i"))
    session.attach("1:tanh", lambda ctx, x, _: (lax.with_sharding_constraint(x, to), ctx))
    view = view_for(session)
    told = []
    for view.graph.view in ("compare", "picture", "compare"):
        assert view.wait(60)
        told.append("divided otherwise" in str(view.graph.comparison.get("changes")))
        session.ask("compiled")
    view.close()
    assert told == [False, False, True]
