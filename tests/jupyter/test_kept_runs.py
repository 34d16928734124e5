"""The runs of a session: found by name, compared, restored, named, as a table, within a budget."""

import csv
import io
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._runs.released import SMALL, Released, summary_of
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import Jobs
from taxpr_jupyter._view.parts.run_strip import RunStripView
from taxpr_jupyter._view.wire import compared_state


def net(w, x):
    h = taxpr.tag(jnp.tanh(x @ w), name="h")
    return {"loss": (h * h).mean(), "h": h}


W, X = jnp.arange(12.0).reshape(4, 3) / 10, jnp.ones((5, 4))


def plain(factor):
    """What the function gives with the tag scaled."""
    h = np.tanh(np.asarray(X) @ np.asarray(W)) * np.float32(factor)
    return {"loss": (h * h).mean(), "h": h}


@pytest.fixture
def session():
    made = Session(net, (W, X))
    made.attach("h", "scale", factor=0.5)
    made.run()
    made.set_value("h", "factor", 2.0)
    made.run()
    return made


def test_a_run_is_found_by_its_name_its_number_and_its_place(session):
    first, second = session.runs
    assert session.runs["run 1"] is session.runs[0] is session.runs[first] is first
    assert session.runs["run 2"] is session.runs[-1] is second
    session.runs.rename("run 1", " half ")
    assert session.runs["half"] is session.runs["run 1"] is session.runs[0]
    assert [run.title for run in session.runs] == ["half", "run 2"]
    assert repr(session.runs) == "<2 runs: half, run 2>"
    assert "Run 1 (half) on" in str(session.runs["half"])
    session.runs.rename("half", "")
    assert [run.title for run in session.runs] == ["run 1", "run 2"]


def test_names_that_no_run_has_or_another_one_has(session):
    with pytest.raises(PanelError, match=r"There is no run 'best'. There are run 1, run 2$"):
        session.runs["best"]
    with pytest.raises(PanelError, match="There are none yet"):
        Session(net, (W, X)).runs["run 1"]
    session.runs.rename("run 1", "half")
    session.runs.rename("half", "half")  # its own
    for name in ("half", "run 7"):
        with pytest.raises(PanelError, match=f"cannot be called '{name}'"):
            session.runs.rename("run 2", name)


def test_two_runs_are_compared_with_each_other_and_not_with_the_untouched_program(session):
    found = session.runs.compare("run 1", "run 2")
    old, new = plain(0.5), plain(2.0)
    rows = {row.name: row for row in found.differences}
    assert rows.keys() == {"out['loss']", "out['h']"}
    apart = np.abs(new["h"] - old["h"])
    np.testing.assert_allclose(rows["out['h']"].max, apart.max(), rtol=1e-6)
    np.testing.assert_allclose(rows["out['h']"].mean, apart.mean(), rtol=1e-6)
    assert found.headline is rows["out['loss']"]
    np.testing.assert_allclose(float(found.headline.before), old["loss"], rtol=1e-5)
    np.testing.assert_allclose(float(found.headline.after), new["loss"], rtol=1e-5)
    [record] = found.records
    assert record.name == "h"
    np.testing.assert_allclose(record.max, apart.max(), rtol=1e-6)
    assert found.changes == ("h: scale(factor=0.5) → scale(factor=2)",)
    assert str(found).startswith("run 1 → run 2\n  h: scale(factor=0.5) → scale(factor=2)\n")
    other_way = session.runs.compare(1, 0)
    assert (other_way.headline.before, other_way.headline.after) == (
        found.headline.after,
        found.headline.before,
    )


def test_what_is_not_finite_is_said_of_each_run():
    session = Session(lambda x: jnp.sin(x) * 2.0, (jnp.arange(5.0),))
    session.attach("0:sin", "scale", factor=float("nan"))
    session.run()
    session.set_value("0:sin", "factor", 2.0)
    session.run()
    session.runs.rename("run 2", "twice")
    for which, words in ((("run 1", "twice"), "in run 1"), (("twice", "run 1"), "in run 1")):
        [row] = session.runs.compare(*which).differences
        assert row.note == f"NaN in 5 of 5 places only {words}"
        assert row.not_finite == f"not finite: 5 of 5 elements {words}"
    whole = session.runs[0]
    session._runner.kept = (summary_of(whole), *session.runs[1:])
    for which in (("run 1", "twice"), ("twice", "run 1")):
        [row] = session.runs.compare(*which).differences
        assert row.not_finite == "in run 1: not finite: 5 of 5 elements with the changes"


def test_a_run_that_failed_has_nothing_to_compare(session):
    session.namespace = {"bad": lambda ctx, token, params: (token[:2], ctx)}
    session.attach("h", "bad")
    assert not session.run().ok
    with pytest.raises(PanelError, match="run 3 has no results to compare: it failed: Nothing was"):
        session.runs.compare("run 1", "run 3")


def test_a_run_is_restored_as_one_step(session):
    session.detach("h")
    session.tag("0:dot_general", name="product")
    session.attach("product", "add", value=1.0)
    session.runs.restore("run 1")
    assert {key: one.values for key, one in session.injectors.items()} == {
        "1:tanh.0": {"factor": 0.5}
    }
    assert session.tags == {}
    assert session.runs.current == (session.runs[0],)
    run = session.run()
    np.testing.assert_allclose(run.outputs["h"], plain(0.5)["h"], rtol=1e-6)
    assert session.undo() == "run 1 again"
    assert list(session.injectors) == ["0:dot_general.0"]
    assert session.runs.current == ()


def test_a_line_that_was_typed_over_is_restored(in_module):
    session = Session(in_module.loss, (0.5,))
    session.edit("loss.h", "jnp.cos(w)")
    edited = session.run()
    session.unedit("loss.h")
    untouched = session.run()
    assert [run.outputs.item() for run in (untouched, edited)] == pytest.approx(
        [2 * np.sin(0.5), 2 * np.cos(0.5)]
    )
    found = session.runs.compare(untouched, edited)
    [change] = found.changes
    assert change.endswith(": – → h = jnp.cos(w)")
    session.runs.restore(edited)
    assert list(session.edits().values()) == ["h = jnp.cos(w)"]
    assert session.run().outputs == edited.outputs


@pytest.fixture
def in_module(tmp_path, monkeypatch):
    path = tmp_path / "model_of_runs.py"
    path.write_text(
        "import jax.numpy as jnp\n\ndef loss(w):\n    h = jnp.sin(w)\n    return h * 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import model_of_runs

    return model_of_runs


def test_the_table_has_a_row_for_each_run(session):
    session.detach("h")
    session.run()
    session.runs.rename("run 1", "half")
    rows = session.runs.table()
    names = ["run", "device", "status", "h", "h.factor", "out['loss']", "seconds"]
    assert [list(row) for row in rows] == [names] * 3
    assert [row["run"] for row in rows] == ["half", "run 2", "run 3"]
    assert [row["h.factor"] for row in rows] == [0.5, 2.0, None]
    losses = [plain(factor)["loss"] for factor in (0.5, 2.0, 1.0)]
    np.testing.assert_allclose([row["out['loss']"] for row in rows], losses, rtol=1e-6)
    read = list(csv.DictReader(io.StringIO(session.runs.csv())))
    assert [float(row["out['loss']"]) for row in read] == [row["out['loss']"] for row in rows]
    assert Session(net, (W, X)).runs.table() == []


def test_old_runs_keep_a_summary_and_those_with_a_name_stay():
    session = Session(lambda x: {"big": x * 2.0, "sum": x.sum()}, (jnp.arange(1000.0),))
    session.attach("0:mul", "scale", factor=3.0)
    session.run()
    session.runs.rename("run 1", "first")
    for _ in range(60):
        session.run()
    assert [run.number for run in session.runs] == [1, *range(12, 62)]
    old, new = session.runs["first"], session.runs[-10]
    assert old.outputs["sum"] == new.outputs["sum"] == 499500.0
    assert isinstance(old.outputs["big"], Released)
    assert new.outputs["big"].nbytes < SMALL
    found = session.runs.compare("first", "run 61")
    rows = {row.name: row for row in found.differences}
    assert rows["out['sum']"].equal
    assert rows["out['sum']"].compared
    assert not rows["out['big']"].compared
    assert rows["out['big']"].note.startswith("only the first elements are known")
    assert session.runs.table()[0]["out['sum']"] == 499500.0
    said = compared_state(session.runs.compare("run 60", "run 12"))["unchanged"]
    assert said == "1 output unchanged, 1 output with the same first elements: the rest is released"


def test_a_live_run_with_a_name_is_not_replaced():
    session = Session(net, (W, X))
    session.attach("h", "scale", factor=0.5)
    session.run(live=True)
    session.runs.rename(0, "kept")
    session.set_value("h", "factor", 2.0)
    session.run(live=True)
    assert [run.title for run in session.runs] == ["kept", "run 2"]
    np.testing.assert_allclose(session.runs["kept"].outputs["h"], plain(0.5)["h"], rtol=1e-6)
    assert session.runs["kept"].records["1:tanh.0"].stats  # all of it was looked at


def test_a_live_run_before_another_one_has_its_own_code():
    session = Session(net, (W, X))
    session.attach("h", "scale", factor=0.5)
    session.run(live=True)
    session.set_value("h", "factor", 2.0)
    session.run()
    first, second = session.runs
    assert "scale(factor=0.5)" in first.code
    assert "scale(factor=2.0)" in second.code


def test_a_live_run_that_gets_a_name_meanwhile_is_not_replaced():
    session = Session(net, (W, X))
    session.attach("h", "scale", factor=0.5)
    session.run(live=True)
    session.set_value("h", "factor", 2.0)
    second = session.run(live=True, on_phase=lambda _: session.runs.rename("run 1", "kept"))
    assert [(run.title, run.number) for run in session.runs] == [("kept", 1), ("run 2", 2)]
    assert second is session.last
    np.testing.assert_allclose(session.runs["kept"].outputs["h"], plain(0.5)["h"], rtol=1e-6)


def test_a_tag_that_is_called_as_a_column():
    session = Session(net, (W, X))
    session.tag("0:dot_general", name="run")
    session.attach("run", "scale", factor=0.5)
    session.run()
    [row] = session.runs.table()
    assert (row["run"], row["run, changed"], row["run.factor"]) == ("run 1", "scale", 0.5)


def test_two_tags_of_one_name():
    def both(x):
        return taxpr.tag(jnp.sin(taxpr.tag(x, name="a")), name="a")

    session = Session(both, (0.5,))
    for number, site in enumerate(session.sites()):
        session.attach(site.key, "scale", factor=float(number))
    run = session.run()
    assert sorted(run.setup.values()) == ["scale(factor=0)", "scale(factor=1)"]


def test_an_output_that_one_run_has(in_module):
    session = Session(in_module.loss, (0.5,))
    session.run()
    session.edit("loss.return", "{'twice': h * 2}")
    assert session.run().ok
    found = session.runs.compare("run 1", "run 2")
    number = f"{2 * np.sin(0.5):.5f}"
    [gone, new] = sorted(found.differences, key=lambda row: row.name)
    assert (gone.name, gone.before[:7], gone.after, gone.note) == ("out", number, "–", "gone")
    assert (new.name, new.before, new.after[:7], new.note) == ("out['twice']", "–", number, "new")
    session.edit("loss.return", "h[None] * 2")
    session.run()
    [row] = session.runs.compare("run 1", "run 3").differences
    assert str(row) == f"out f32[] → f32[1]: {row.before} → [{row.before}]"
    same = session.runs.compare("run 1", "run 1")
    assert all(row.equal for row in same.differences)
    assert same.changes == ()


def test_a_run_that_is_shown_may_be_kept_no_longer(session):
    lock = threading.RLock()
    graph = Graph(lock)
    strip = RunStripView(session, graph, Jobs(session, graph, lock))
    strip.ran()
    session._runner.kept = session.runs[:1]
    shown = graph.results
    strip.again()
    assert graph.results == shown
