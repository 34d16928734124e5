"""Runs: against the untouched program, what the tags saw, what is compiled, where it runs."""

import dataclasses
import functools
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jupyter_samples import XS, H, W, nested

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._runs.outputs import distances
from taxpr_jupyter._runs.outputs.array_diff import compare, glance, stats
from taxpr_jupyter._view.widget import view_for
from taxpr_jupyter._view.wire import results_state


@pytest.fixture
def session():
    return Session(nested, (W, XS))


def tagged(x):
    return taxpr.tag(x, name="x")


def equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_without_injectors_nothing_changes(session):
    run = session.run()
    assert run.ok
    assert run.error is None
    assert [d.name for d in run.differences] == ["out['c']", "out['i']", "out['v']", "out['ys']"]
    assert all(d.equal and d.max == 0.0 and d.mean == 0.0 for d in run.differences)
    equal(run.outputs, run.baseline)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-6), run.baseline, nested(W, XS))
    assert session.runs == (run,)
    assert session.last is run


def test_an_injector_changes_the_outputs_and_not_the_baseline(session):
    session.attach("h", "scale", factor=0.5)

    def by_hand(w, xs):
        def step(c, x):
            h = jnp.tanh(c + x) * 0.5
            c = jax.lax.cond(h.sum() > 1.0, lambda c: c * 2.0, lambda c: c - 1.0, h)
            return c, jnp.sin(c)

        return jax.lax.scan(step, w, xs)

    run = session.run()
    c, ys = jax.jit(by_hand)(W, XS)
    np.testing.assert_allclose(run.outputs["c"], c, rtol=1e-6)
    np.testing.assert_allclose(run.outputs["ys"], ys, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-6), run.baseline, nested(W, XS))
    by_name = {d.name: d for d in run.differences}
    gap = np.abs(
        np.asarray(run.outputs["ys"], np.float64) - np.asarray(run.baseline["ys"], np.float64)
    )
    assert by_name["out['ys']"].max == pytest.approx(gap.max())
    assert by_name["out['ys']"].mean == pytest.approx(gap.mean())
    assert by_name["out['ys']"].aval == "f32[3,2]"
    assert not by_name["out['ys']"].equal


# ---- what is compiled ----------------------------------------------------------


class Work:
    """Counts what JAX traces and compiles."""

    def __init__(self):
        self.traces = self.compiles = 0

    def __call__(self, event, duration, **more):
        self.traces += event.endswith("jaxpr_trace_duration")
        self.compiles += event.endswith("backend_compile_duration")


@pytest.fixture
def work():
    found = Work()
    jax.monitoring.register_event_duration_secs_listener(found)
    yield found
    jax.monitoring.clear_event_listeners()


def test_a_new_value_only_runs(work):
    calls = {"f": 0, "edit": 0}

    def f(xs):
        calls["f"] += 1
        return jax.lax.scan(lambda c, x: (taxpr.tag(c * x, name="c"), None), jnp.float32(1.0), xs)[
            0
        ]

    @taxpr.injector(rate=taxpr.Param(1.0))
    def edit(token, rate):
        calls["edit"] += 1
        return token * rate

    session = Session(f, (jnp.arange(1.0, 4.0),))
    session.attach("c", edit)
    first = session.run()
    assert not first.reused
    assert all(first.times[phase] > 0 for phase in ("trace", "lower", "compile", "run"))
    assert float(first.outputs) == 6.0
    session.run()  # small computations on the way are compiled once in a process
    before = dict(calls)
    work.traces = work.compiles = 0
    for rate in (2.0, -1.0, 0.5):
        session.set_value("c", "rate", rate)
        run = session.run()
        assert float(run.outputs) == 6.0 * rate**3
        assert float(run.baseline) == 6.0
        assert run.reused
        assert run.times["trace"] == run.times["lower"] == run.times["compile"] == 0.0
        assert run.injectors[session.sites()[0].key].values == {"rate": rate}
    assert work.compiles == 0
    assert calls == before


def test_the_untouched_program_is_compiled_once(session):
    session.run()
    phases = []
    session.attach("h", "scale")
    session.run(on_phase=phases.append)
    assert [(p.program, p.name) for p in phases] == [
        ("injected", "trace"),
        ("injected", "lower"),
        ("injected", "compile"),
        ("injected", "run"),
    ]
    assert [p.step for p in phases] == [1, 2, 3, 4]
    session.attach("h", "zero")
    assert not session.run().reused
    session.attach("h", "scale", factor=3.0)
    assert session.run().reused  # it had been compiled before


def test_the_untouched_program_runs_once():
    ran = []

    def f(x):
        jax.debug.callback(lambda: ran.append(1))
        return taxpr.tag(x, name="x") + 1.0

    x = np.ones(2, np.float32)
    session = Session(f, (x,))
    session.attach("x", "scale", factor=2.0)
    assert session.run().ok
    assert len(ran) == 2
    x[:] = 7.0  # the arguments are those that the session was made with
    session.set_value("x", "factor", 3.0)
    run = session.run()
    assert len(ran) == 3
    np.testing.assert_array_equal(run.baseline, [2.0, 2.0])
    np.testing.assert_array_equal(run.outputs, [4.0, 4.0])


G = 2.0


def _helper(x):
    return jax.tree.map(lambda leaf: leaf * G, x)


def _by_global(ctx, token, params):
    return token * G, ctx


def _by_helper(ctx, token, params):
    return _helper(token), ctx


def _times(by, ctx, token, params):
    return token * by(), ctx


@taxpr.injector(rate=taxpr.Param(1.0))
def _kind(token, rate):
    return token * rate * G


class _Callable:
    def __call__(self, ctx, token, params):
        return token * G, ctx

    def method(self, ctx, token, params):
        return token * G, ctx


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    "injector",
    [
        _by_global,
        _by_helper,
        _kind,
        _kind(1.0),
        taxpr.from_function(_by_global),
        functools.partial(_times, lambda: G),
        _Callable(),
        _Callable().method,
    ],
    ids=["function", "helper", "kind", "injector", "made", "partial", "object", "method"],
)
@pytest.mark.parametrize("new", [10.0, np.float32(10.0), jnp.float32(10.0)])
def test_a_changed_global_is_taken_up(injector, new, monkeypatch):
    session = Session(tagged, (3.0,))
    session.attach("x", injector)
    assert float(session.run().outputs) == 6.0
    assert session.run().reused
    monkeypatch.setitem(globals(), "G", new)
    run = session.run()
    assert not run.reused
    assert float(run.outputs) == 30.0
    assert session.run().reused
    monkeypatch.setitem(globals(), "G", 2.0)
    assert float(session.run().outputs) == 6.0


def test_a_changed_cell_is_taken_up():
    number = 1.0

    def inner():
        return number

    def edit(ctx, token, params):
        return token * inner(), ctx

    session = Session(tagged, (3.0,))
    session.attach("x", edit)
    assert float(session.run().outputs) == 3.0
    number = 2.0
    assert float(session.run().outputs) == 6.0
    number = 2.0
    assert session.run().reused


def test_a_global_that_mends_an_injector():
    names: dict = {}
    exec("def edit(ctx, token, params):\n    return token * missing, ctx", names)
    session = Session(tagged, (3.0,), namespace=names)
    assert "missing" in session.attach("x", "edit").error
    assert not session.run().ok
    names["missing"] = 2.0
    assert float(session.run().outputs) == 6.0
    assert session.injectors["in0"].error is None


@pytest.mark.parametrize("name", ["t0", "t1", "t2", "in0", "a[0]", "*", "x*"])
def test_a_name_that_is_also_an_address_or_a_glob(name):
    def f(x):
        y = taxpr.tag(x, name="x")
        return taxpr.tag(taxpr.tag(y * 2.0, name=name) + 1.0, name="x2")

    session = Session(f, (3.0,))
    for row, factor in zip(session.sites(), (2.0, 3.0, 5.0), strict=True):
        attached = session.attach(row.key, "scale", factor=factor)
        assert attached.error is None, attached.error
    run = session.run()
    assert run.ok, run.error
    assert float(run.outputs) == ((3.0 * 2) * 2 * 3 + 1) * 5
    assert [record.name for record in run.records.values()] == ["x", name, "x2"]


def test_structure_is_more_than_names(session):
    def make(factor):
        def edit(ctx, token, params):
            return token * factor, ctx

        return edit

    session.attach("h", make(1.0))
    one = session.run()
    session.attach("h", make(0.0))
    two = session.run()
    assert not two.reused
    assert one.differences[0].equal
    assert not two.differences[0].equal
    session.attach("h", taxpr.record(slots=1))
    session.run()
    session.attach("h", taxpr.record(slots=2))
    assert not session.run().reused


def test_with_nothing_attached_one_program_is_compiled(session, work):
    phases = []
    run = session.run(on_phase=phases.append)
    assert [(p.program, p.step, p.steps) for p in phases] == [
        ("untouched", step, 4) for step in (1, 2, 3, 4)
    ]
    assert run.outputs is run.baseline
    assert set(run.xla) <= {"untouched"}
    assert run.records[H].stats  # of the same program
    assert session.run().reused
    plain = Session(lambda x: x + 1.0, (1.0,))
    assert plain.run().ok
    work.compiles = 0
    assert plain.run().reused
    assert work.compiles == 0


def test_phases_in_order(session):
    session.attach("h", "scale")
    phases = []
    session.run(on_phase=phases.append)
    # One program serves for both: its injectors have switches.
    assert [(p.program, p.name) for p in phases] == [
        *(("injected", name) for name in ("trace", "lower", "compile")),
        ("untouched", "run"),
        ("injected", "run"),
    ]
    assert [p.step for p in phases] == [1, 2, 3, 4, 5]
    assert [p.steps for p in phases] == [4, 4, 4, 5, 5]


def _loud(ctx, token, params):
    jax.debug.callback(lambda: _loud.heard.append(1))
    return token * 2.0, ctx


def _with_on(ctx, token, params, on=3.0):
    return token * on, ctx


def test_the_first_run_with_an_injector_compiles_one_program(work):
    session = Session(lambda x: jnp.sin(taxpr.tag(x * 3.0, name="h")), (np.float32(1.0),))
    session.attach("h", "scale", factor=0.25)
    session.settle()
    work.compiles = 0
    run = session.run()
    assert work.compiles == 1
    assert float(run.baseline) == pytest.approx(np.sin(3.0), rel=1e-6)
    assert float(run.outputs) == pytest.approx(np.sin(0.75), rel=1e-6)
    assert set(run.xla) == {"injected"}
    [site] = session.sites()
    values = run.ctx[site.key]["values"]
    assert list(values) == ["factor"]  # the switch is not the user's
    assert float(values["factor"]) == 0.25


def test_an_injector_that_only_looks_runs_once():
    session = Session(lambda x: taxpr.tag(x * 3.0, name="h") + 1.0, (np.float32(1.0),))
    session.attach("h", "count")
    phases = []
    run = session.run(on_phase=phases.append)
    assert [p.program for p in phases] == ["injected"] * 4
    assert run.baseline is run.outputs
    [site] = session.sites()
    assert int(run.records[site.key].report["count"]) == 1


def test_an_injector_that_calls_the_host_is_not_called_for_the_untouched_program():
    _loud.heard = []
    session = Session(
        lambda x: taxpr.tag(x * 3.0, name="h"), (np.float32(1.0),), namespace={"_loud": _loud}
    )
    session.attach("h", "_loud")
    run = session.run()
    jax.effects_barrier()
    assert (float(run.baseline), float(run.outputs)) == (3.0, 6.0)
    assert len(_loud.heard) == 1


def test_a_parameter_of_the_users_may_be_called_like_the_switch():
    session = Session(
        lambda x: taxpr.tag(x * 3.0, name="h"), (np.float32(1.0),), namespace={"f": _with_on}
    )
    session.attach("h", "f")
    run = session.run()
    assert (float(run.baseline), float(run.outputs)) == (3.0, 9.0)
    [site] = session.sites()
    assert list(run.ctx[site.key]["values"]) == ["on"]


def test_a_live_run_only_runs(work):
    def f(x):
        h = taxpr.tag(jnp.sin(x), name="h")
        return {"b": h * 2, "a": jnp.cos(x), "loss": h.sum()}

    session = Session(f, (jnp.arange(4.0),))
    loss_before = float(jnp.sin(jnp.arange(4.0)).sum())
    session.attach("h", "scale")
    assert session.injectors[session.sites()[0].key].values == {"factor": 0.5}  # which shows
    assert session.run().ok
    session.run(live=True)
    work.compiles = work.traces = 0
    for factor in (0.1, 0.2, 0.3):
        session.set_value("h", "factor", factor)
        run = session.run(live=True)
        assert (run.number, run.live, run.reused, run.records) == (2, True, True, {})
        rows = {row.name: row for row in run.differences}
        loss = rows["out['loss']"]
        assert loss.compared
        assert loss.max == pytest.approx((1 - factor) * abs(loss_before), rel=1e-5)
        assert not rows["out['b']"].compared
        assert run.code == ""
        assert rows["out['b']"].max is None
        assert [row.name for row in run.by_interest] == ["out['loss']", "out['b']", "out['a']"]
    assert work.compiles == 0
    assert len(session.runs) == 2
    whole = session.finish(run)
    assert session.last is whole
    assert whole.code == session.code()
    assert not whole.live
    assert whole.number == 2
    assert all(row.compared for row in whole.differences)
    assert whole.records[session.sites()[0].key].stats
    assert session.finish(whole) is whole
    assert session.run().number == 3


def test_a_glance_reads_only_what_is_shown():
    before, after = jnp.zeros(10), jnp.zeros(10).at[9].set(1.0)
    found = glance("out", before, after)
    assert (found.equal, found.compared, found.max, found.note) == (
        True,
        False,
        None,
        "only glanced at",
    )
    assert glance("out", jnp.float32(1), jnp.float32(3)) == compare(
        "out", jnp.float32(1), jnp.float32(3)
    )


# ---- what the tags saw ---------------------------------------------------------


def test_records_of_every_tag(session):
    session.attach("h", "scale", factor=0.0)
    session.tag("in0", "w")
    run = session.run()
    by_name = {record.name: record for record in run.records.values()}
    assert set(by_name) == {"h", "pos", "v", "w"}
    np.testing.assert_array_equal(by_name["w"].value, W)  # fires once: not stacked
    assert by_name["w"].note == ""
    np.testing.assert_array_equal(by_name["h"].value, np.zeros((3, 2)))  # after the injector
    assert by_name["h"].note == "3 firings"
    assert by_name["pos"].value is None  # zeros never take that branch
    assert by_name["pos"].note == "did not fire"
    fired = int(run.outputs["i"])
    assert by_name["v"].note == f"the last of {fired} firings"
    np.testing.assert_array_equal(by_name["v"].value[-1], run.outputs["v"])
    assert by_name["w"].stats["mean"] == 1.0
    assert by_name["w"].stats["nonfinite"] == 0.0


def masked_scores(xs):
    mask = jnp.tril(jnp.ones((xs.size, xs.size), bool))
    return jax.nn.softmax(taxpr.tag(jnp.where(mask, xs, -jnp.inf), name="scores"))


def test_what_is_not_finite_is_told_apart():
    session = Session(masked_scores, (jnp.ones(3),))
    session.attach("scores", "check_finite")
    run = session.run()
    [record] = run.records.values()
    assert ("-inf", "3") in record.facts
    assert {"nonfinite", "nan"} <= {name for name, _ in record.facts}
    assert "-inf 3" in str(run)
    assert ("first_nan", "-1") in results_state(run)["records"][0]["facts"]
    session.detach("scores")
    [record] = session.run().records.values()
    assert ("-inf", "3") in record.facts
    assert {"nan", "+inf", "nonfinite"}.isdisjoint(name for name, _ in record.facts)


def loop(xs):
    step = lambda c, x: (taxpr.tag(c + x, name="c"), None)
    return jax.lax.scan(step, jnp.float32(0), xs)[0]


def test_injectors_that_know_their_iteration_run_as_in_python():
    xs = jnp.arange(4.0)
    session = Session(loop, (xs,), call="loop(xs)", namespace={"loop": loop, "xs": xs})
    session.attach("c", taxpr.stats(per="iteration"))
    assert session.injectors["0:scan/body/0:add.0"].error is None
    run = session.run()
    assert run.error is None
    assert ("mean", "[0, 1, 3, 6]") in run.records["0:scan/body/0:add.0"].facts
    assert "taxpr.stats(per='iteration')" in run.code
    session.attach("c", taxpr.plant(jnp.ones(4), at=2))
    run = session.run()
    assert (run.error, float(run.outputs)) == (None, 4.0)
    session = Session(jax.vmap(lambda x: taxpr.tag(x, name="x")), (xs,))
    session.attach("x", taxpr.per_example(taxpr.count()))
    assert ("count", "[1, 1, 1, 1]") in session.run().records["in0"].facts


def test_records_are_exact(session):
    run = session.run()
    kept = session.program.collect(["h"])
    values = jax.jit(kept)(W, XS)[1]["h"]
    np.testing.assert_array_equal(run.records[H].value, values)


def test_what_an_injector_reports(session):
    session.attach("h", "count")
    run = session.run()
    assert int(run.records[H].report["count"]) == 3
    assert "count 3" in str(run)
    state = jax.tree.leaves(run.ctx[H]["state"])
    assert [int(leaf) for leaf in state] == [3]

    def keep_sum(ctx, token, params):
        return token, ctx + token.sum()

    session.attach("h", keep_sum, ctx=jnp.float32(0.0))
    run = session.run()
    total = float(np.asarray(run.records[H].value).sum())
    assert float(run.records[H].report["ctx"]) == pytest.approx(total, rel=1e-6)


def test_tokens_of_all_kinds():
    def f(key, tree, flag, small):
        key = taxpr.tag(key, name="key")
        tree = taxpr.tag(tree, name="tree")
        flag = taxpr.tag(flag, name="flag")
        small = taxpr.tag(small, name="small")
        taxpr.tag((), name="empty")
        return jax.random.split(key), tree, ~flag, small

    args = (
        jax.random.key(1),
        {"a": jnp.arange(3), "b": (jnp.ones(2, jnp.bfloat16),)},
        jnp.array([True, False]),
        jnp.ones(2, jnp.float8_e4m3fn),
    )
    session = Session(f, args)
    run = session.run()
    assert run.ok, run.error
    by_name = {record.name: record for record in run.records.values()}
    assert jax.tree.structure(by_name["tree"].value) == jax.tree.structure(args[1])
    equal(by_name["tree"].value, args[1])
    assert jnp.array_equal(jax.random.key_data(by_name["key"].value), jax.random.key_data(args[0]))
    assert by_name["flag"].stats["mean"] == 0.5
    assert by_name["small"].stats["mean"] == 1.0
    assert all(difference.equal for difference in run.differences)
    assert "key" in str(run)


# ---- differences ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "largest", "mean", "note"),
    [
        (jnp.float32(1.0), jnp.float32(3.0), 2.0, 2.0, ""),
        (jnp.array([1, -5]), jnp.array([4, -5]), 3.0, 1.5, ""),
        (jnp.array([-(2**31), 0]), jnp.array([2**31 - 1, 0]), 2.0**32 - 1, 2.0**31 - 0.5, ""),
        (jnp.array([1, 9], jnp.uint8), jnp.array([3, 8], jnp.uint8), 2.0, 1.5, ""),
        (jnp.array([True, False]), jnp.array([True, True]), 1.0, 0.5, ""),
        (jnp.ones(2, jnp.bfloat16), jnp.array([1.0, 3.0], jnp.bfloat16), 2.0, 1.0, ""),
        (jnp.array([1, 2], jnp.int4), jnp.array([2, -2], jnp.int4), 4.0, 2.5, ""),
        (jnp.array([3 + 4j]), jnp.array([0j]), 5.0, 5.0, ""),
        (
            jnp.array([1.0, jnp.nan, 2.0]),
            jnp.array([jnp.nan, jnp.nan, 4.0]),
            2.0,
            1.0,
            "NaN in 1 of 3 places only with the changes",
        ),
        (
            jnp.array([jnp.nan]),
            jnp.array([1.0]),
            None,
            None,
            "NaN in 1 of 1 places only without the changes",
        ),
        (jnp.array([jnp.inf, 1.0]), jnp.array([jnp.inf, 1.5]), 0.5, 0.25, ""),
        (jnp.array([jnp.inf]), jnp.array([-jnp.inf]), np.inf, np.inf, ""),
        (jnp.zeros((0, 2)), jnp.zeros((0, 2)), None, None, "no elements"),
        (jax.random.key(0), jax.random.key(1), None, None, "1 of 1 keys differ"),
        (np.zeros(2, jax.dtypes.float0), np.zeros(2, jax.dtypes.float0), None, None, ""),
    ],
)
def test_differences(before, after, largest, mean, note):
    found = compare("out", before, after)
    assert found.max == (None if largest is None else pytest.approx(largest))
    assert found.mean == (None if mean is None else pytest.approx(mean))
    assert found.note == note
    assert compare("out", before, before).equal
    assert compare("out", before, before).max in (0.0, None)


def _large(dtype):
    """More elements than are looked at together, at the end some that are not finite."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=100_003) * 100
    if dtype == "complex64":
        values = values + 1j * rng.normal(size=values.size)
    array = np.array(jnp.asarray(values).astype(dtype))
    if array.dtype.kind not in "iub":
        array[-3:] = np.nan, np.inf, -np.inf
    return array


@pytest.mark.parametrize("size", [1, 4096, 100_003])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_accelerator_would_find_the_same(dtype, size, monkeypatch):
    """Where large arrays stay on their device; here it is the processor."""
    values = _large(dtype)[-size:]
    other = np.array(values)
    other[: size // 2] = values[size - size // 2 :]
    other[0] = np.inf
    pairs = [(values, values), (values, other), (other, values), (np.zeros_like(other), other)]
    for before, after in ((jnp.asarray(x), jnp.asarray(y)) for x, y in pairs):
        expected = compare("out", before, after)
        with monkeypatch.context() as patch:
            patch.setattr(distances, "is_far", lambda value: True)
            patch.setattr(distances, "host", None)  # nothing is copied
            found = compare("out", before, after)
        numbers = "max", "mean", "relative"
        for name in numbers:
            wanted = getattr(expected, name)
            wanted = wanted if wanted is None else pytest.approx(wanted, rel=1e-5, nan_ok=True)
            assert getattr(found, name) == wanted, name
        rest = dict.fromkeys(numbers)
        assert dataclasses.replace(found, **rest) == dataclasses.replace(expected, **rest)


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "int32", "uint8", "bool", "complex64"]
)
def test_large_arrays_are_compared_as_small_ones(dtype):
    before = _large(dtype)
    after = np.array(before)
    same = compare("x", before, after)
    assert (same.equal, same.max, same.mean, same.note) == (True, 0.0, 0.0, "")
    after[40_000:90_000] = before[50_000:100_000]
    after[99_999] = -before[99_999] if before.dtype.kind != "b" else ~before[99_999]
    wide = [x.astype(complex if dtype == "complex64" else float) for x in (before, after)]
    end = None if before.dtype.kind in "iub" else -3  # where the finite ones end
    gap = np.abs(wide[0][:end] - wide[1][:end])
    found = compare("x", before, after)
    assert not found.equal
    assert found.max == pytest.approx(gap.max(), rel=1e-6)
    assert found.mean == pytest.approx(gap.sum() / before.size)  # equal NaN and inf are no distance
    only = np.array(before)
    only[0] = np.nan if before.dtype.kind not in "iub" else only[0]
    note = "NaN in 1 of 100003 places only with the changes"
    assert compare("x", before, only).note == (note if before.dtype.kind not in "iub" else "")


def test_statistics_of_large_arrays_are_those_of_numpy():
    array = _large("float32")
    found, finite = stats(array), array[:-3].astype(float)
    assert (found["nan"], found["+inf"], found["-inf"], found["nonfinite"]) == (1, 1, 1, 3)
    expected = {"mean": finite.mean(), "std": finite.std(), "norm": np.linalg.norm(finite)}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert (found["min"], found["max"]) == (finite.min(), finite.max())
    far = stats(np.linspace(1e6, 1e6 + 1, 99_999))
    assert far["std"] == pytest.approx(np.std(np.linspace(0, 1, 99_999)), rel=1e-6)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (jnp.ones(2), jnp.ones(2), ""),
        (jnp.array([1, 2]), jnp.array([1, 3]), ""),
        (jax.random.key(0), jax.random.key(0), ""),
        (jnp.array([jnp.nan, 1.0]), jnp.array([jnp.nan, 1.0]), "1 of 2 elements"),
        (jnp.array([-jnp.inf]), jnp.array([-jnp.inf]), "1 of 1 element"),
        (jnp.ones(2), jnp.array([jnp.nan, jnp.inf]), "2 of 2 elements with the changes"),
        (jnp.array([jnp.nan, 1.0]), jnp.ones(2), "1 of 2 elements without the changes"),
        (
            jnp.array([jnp.nan, 1.0]),
            jnp.array([jnp.nan, jnp.nan]),
            "2 of 2 elements with the changes, 1 without the changes",
        ),
        (jnp.array([complex(0, jnp.inf)]), jnp.array([0j]), "1 of 1 element without the changes"),
    ],
)
def test_what_is_not_finite_is_said_of_each_result(before, after, words):
    found = compare("out", before, after)
    assert found.not_finite == (f"not finite: {words}" if words else "")
    assert found.quiet == (found.equal and not words)


def test_a_glance_says_it_of_the_first_elements():
    many = jnp.ones(9).at[jnp.array([1, 8])].set(jnp.nan)
    assert glance("out", many, many).not_finite == "not finite: 1 of the first 6 elements"
    assert glance("out", many[:3], many[:3]).not_finite == "not finite: 1 of 3 elements"


def test_a_run_says_which_results_are_not_finite():
    def f(x):
        return {"a": x, "b": jnp.log(x), "c": x.sum()}

    run = Session(f, (jnp.array([-1.0, 1.0]),)).run()
    assert [row.name for row in run.by_interest] == ["out['b']", "out['c']", "out['a']"]
    assert "out['b'] f32[2]: unchanged, [nan, 0], not finite: 1 of 2 elements" in str(run)


def test_short_texts_and_stats():
    many = compare("out", jnp.zeros((3, 4)), jnp.ones((3, 4)))
    assert many.before == "[0, 0, 0, 0, 0, 0, …]"
    assert many.aval == "f32[3,4]"
    found = stats(jnp.array([1.0, 3.0, jnp.nan, jnp.inf]))
    assert found["nonfinite"] == 2.0
    assert found["mean"] == 2.0
    assert found["norm"] == pytest.approx(10**0.5)
    one = {"nan": 1.0, "+inf": 0.0, "-inf": 0.0, "nonfinite": 1.0}
    assert stats(jnp.array([jnp.nan])) == one
    several = jnp.array([complex(jnp.inf, 1), complex(0, -jnp.inf), complex(jnp.nan, jnp.inf)])
    assert stats(several) == {"nan": 1.0, "+inf": 1.0, "-inf": 1.0, "nonfinite": 3.0}
    assert stats(jnp.zeros(0)) == {}


# ---- what goes wrong -----------------------------------------------------------


def test_an_interrupt_leaves_the_session_usable(session):
    session.attach("h", "scale", factor=0.5)

    def interrupt(phase):
        if phase.name == "compile":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run(on_phase=interrupt)
    assert not session.running
    assert session.runs == ()
    assert session.injectors[H].values == {"factor": 0.5}
    assert session.run().ok


@pytest.mark.parametrize(("program", "name"), [("injected", "lower"), ("untouched", "run")])
def test_cancelling_between_phases(session, program, name):
    session.attach("h", "scale")
    cancel = threading.Event()

    def on_phase(phase):
        if (phase.program, phase.name) == (program, name):
            cancel.set()

    run = session.run(on_phase=on_phase, cancel=cancel)
    assert run.cancelled
    assert not run.ok
    assert run.error is None
    assert (run.times["compile"] == 0.0) == (name == "lower")
    assert str(run).endswith("was cancelled")
    assert session.run().ok


def test_one_run_at_a_time(session):
    session.attach("h", "scale")
    mistakes = []

    def again(phase):
        with pytest.raises(PanelError, match="A run is under way") as caught:
            session.run()
        mistakes.append(caught.value)

    assert session.run(on_phase=again).ok
    assert len(mistakes) == 5  # of five phases
    assert not session.running


def test_a_run_within_one_that_only_follows_is_refused(session):
    session.attach("h", "scale")
    assert session.run().ok
    refused = []

    def again(phase):
        with pytest.raises(PanelError, match="A run is under way") as caught:
            session.run()
        refused.append(caught.value)

    session.run(on_phase=again, live=True)
    assert refused


def test_who_waits_for_a_run_that_only_follows_can_give_up(session):
    session.attach("h", "scale")
    assert session.run().ok
    started, go_on, cancel = threading.Event(), threading.Event(), threading.Event()

    def wait(phase):
        started.set()
        assert go_on.wait(timeout=10)

    follow = threading.Thread(target=lambda: session.run(on_phase=wait, live=True))
    follow.start()
    assert started.wait(timeout=10)
    cancel.set()
    with pytest.raises(PanelError, match="A run is under way"):
        session.run(cancel=cancel)
    go_on.set()
    follow.join(timeout=30)


def test_a_run_that_is_asked_for_waits_for_one_that_only_follows(session):
    session.attach("h", "scale")
    assert session.run().ok
    started, go_on, seen = threading.Event(), threading.Event(), []

    def wait(phase):
        started.set()
        assert go_on.wait(timeout=10)

    follow = threading.Thread(target=lambda: session.run(on_phase=wait, live=True))
    follow.start()
    assert started.wait(timeout=10)
    with pytest.raises(PanelError, match="A run is under way"):
        session.run(live=True)
    asked = threading.Thread(target=lambda: seen.append(session.run()))
    asked.start()
    asked.join(timeout=0.2)
    assert asked.is_alive()
    assert seen == []
    go_on.set()
    for thread in (follow, asked):
        thread.join(timeout=30)
    assert [run.ok for run in seen] == [True]
    assert not session.running


def test_the_session_can_be_changed_while_it_runs(session):
    session.attach("h", "scale")

    def change(phase):
        if phase.name == "compile" and phase.program == "injected":
            thread = threading.Thread(target=session.tag, args=("in0", "w"))
            thread.start()
            thread.join(timeout=10)
            assert not thread.is_alive()

    run = session.run(on_phase=change)
    assert run.ok
    assert "in0" not in run.records
    assert "in0" in session.tags
    assert "in0" in session.run().records


def test_an_error_while_running_is_in_the_run():
    def fails(x):
        raise RuntimeError("on the host")

    def f(x):
        y = jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x)
        return taxpr.tag(y, name="y")

    session = Session(f, (jnp.float32(1.0),))
    session.attach("y", "scale")
    run = session.run()
    assert not run.ok
    assert "on the host" in run.error
    assert run.outputs is None
    assert "failed" in str(run)
    assert list(session.injectors) == [session.sites()[0].key]
    assert session.last is run
    with pytest.raises(Exception, match="on the host"):
        raise run.exception
    assert Session(tagged, (1.0,)).run().exception is None


def test_a_callback_of_an_injector_that_raises_names_its_tag_and_line():
    def edit(ctx, token, params):
        def host(x):
            raise ValueError("of mine")

        return jax.pure_callback(host, jax.typeof(token), token), ctx

    session = Session(tagged, (jnp.float32(1.0),))
    session.attach("x", edit)
    error = session.run().error
    title = session.sites()[0].title
    assert error.startswith(
        f"A callback of the injector at the tag {title} raised ValueError: of mine"
    )
    assert error.endswith(" of host)")


def test_the_exception_leads_to_the_line():
    def edit(ctx, token, params):
        if fail:
            raise KeyError("here")
        return token, ctx

    fail = False
    session = Session(tagged, (1.0,))
    session.attach("x", edit)
    fail = True
    run = session.run()
    with pytest.raises(KeyError, match="here") as caught:
        raise run.exception
    assert caught.traceback[-1].name == "edit"
    assert "KeyError" in run.error


def test_an_unknown_device(session):
    assert session.run("tpu:9").error == "There is no device 'tpu:9'. There are cpu:0"
    with pytest.raises(PanelError, match="There is no device 'tpu:9'"):
        Session(tagged, (1.0,), device="tpu:9")


def test_only_shapes():
    session = Session(tagged, (jax.ShapeDtypeStruct((2,), jnp.float32),))
    assert "tag[name='x']" in session.text()
    assert "only shapes" in session.run().error


def test_only_the_last_runs_are_kept(session):
    for _ in range(12):
        session.run()
    assert [run.number for run in session.runs] == list(range(1, 13))


def test_the_report_as_text(session):
    session.attach("h", "scale", factor=0.0)
    text = str(session.run())
    assert text.startswith("Run 1 on cpu:0 with 1 injector (trace ")
    assert "max |Δ|" in text
    assert "pos: did not fire" in text
    same = str(Session(tagged, (2.0,)).run())
    assert "out f32[]: unchanged, 2" in same


# ---- where it runs -------------------------------------------------------------

TWO_DEVICES = """
    import jax, jax.numpy as jnp, numpy as np, taxpr
    from jax.sharding import NamedSharding, PartitionSpec
    from taxpr_jupyter import Session

    def where(tree):
        return {d for leaf in jax.tree.leaves(tree) for d in leaf.devices()}

    table = jnp.arange(3.0)
    one = Session(lambda x: taxpr.tag(x * table, name="h"), (2.0,))
    none = Session(lambda: taxpr.tag(jnp.ones(2), name="h") * 2.0)
    for session in (one, none):
        session.attach("h", "scale", factor=3.0)
        assert session.devices() == ["cpu:0", "cpu:1"]
        for number in (0, 1, 0):
            run = session.run(f"cpu:{number}")
            assert run.ok, run.error
            assert run.device == f"cpu:{number}", run.device
            assert where((run.outputs, run.baseline)) == {jax.devices()[number]}
        assert session.run().device == "cpu:0"
        session.live = None
        assert session.run("cpu:1").ok
        session.set_value(next(iter(session.injectors)), "factor", 3.0)
        assert not session.why_not_live.startswith("the program with its changes")
        live = session.run(live=True)
        assert (live.device, live.reused) == ("cpu:1", True), live.device
    assert Session(jnp.sin, (1.0,), device="cpu:1").run().device == "cpu:1"
    np.testing.assert_array_equal(run.outputs, [6.0, 6.0])

    committed = jax.device_put(jnp.ones(2), jax.devices()[1])
    assert Session(jnp.sin, (committed,)).run().device == "cpu:1"
    assert Session(jnp.sin, (committed,)).run("cpu:0").device == "cpu:0"

    apart = (committed, jax.device_put(jnp.ones(2), jax.devices()[0]))
    assert "incompatible devices" in Session(jnp.add, apart).run().error
    assert Session(jnp.add, apart).run("cpu:0").device == "cpu:0"

    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, PartitionSpec("i")))
    run = Session(lambda x: taxpr.tag(x, name="h") + 1.0, (spread,)).run("cpu:0")
    assert run.ok, run.error
    np.testing.assert_array_equal(run.outputs, [1.0, 2.0, 3.0, 4.0])
"""


@pytest.mark.slow
def test_two_devices():
    code = "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'\n"
    code += textwrap.dedent(TWO_DEVICES)
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- what cannot be injected --------------------------------------------------


def solved(b):
    return lax.custom_linear_solve(
        lambda x: taxpr.tag(2.0 * x, name="A x"),
        b,
        lambda matvec, b: b - matvec(b) / 4.0,
        transpose_solve=lambda vecmat, b: b / 2.0,
    )


def test_tags_that_cannot_be_injected_are_passed_over_and_one_line_says_so():
    session = Session(solved, (jnp.ones(3),))
    run = session.run()
    assert run.error is None
    [idle, fired] = run.records.values()
    assert idle.note.startswith("not recorded: custom_linear_solve: matvec is there for derivative")
    assert fired.text == "[2, 2, 2]"
    said = (
        "A run passes over 1 tag that cannot be injected, 1 in custom_linear_solve: matvec is "
        "there for derivatives and transposes, and a tag marks the primal only, so that it never "
        "fires there."
    )
    assert session.layout_note == said
    assert view_for(session).graph.note == said


def test_what_a_program_has_passed_over_is_a_note_of_its_session():
    program = taxpr.trace(solved)(jnp.ones(3)).dissolve().tag_at("*", name="all")
    session = Session(program, (jnp.ones(3),))
    [note] = session.notes
    assert note.startswith("Passed over before: 2 places in custom_linear_solve: matvec is there")
    assert session.layout_note == ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_large_value_is_recorded_without_a_copy(dtype):
    """Its buffer and its only row are memory that nobody fills or copies, with right contents."""

    def f(x):
        return taxpr.tag(2 * x, name="h") + 1

    x = (jnp.arange(2**21) % 50).astype(dtype)
    session = Session(f, (x,))
    session.attach("h", "scale", factor=3)
    for factor in (3, 2):
        session.set_value("h", "factor", factor)
        run = session.run()
        [record] = run.records.values()
        assert isinstance(record.value, jax.Array)
        assert (record.value.dtype, record.value.shape) == (x.dtype, x.shape)
        assert record.value.devices() == x.devices()
        np.testing.assert_array_equal(record.value, factor * (2 * x))
        np.testing.assert_array_equal(run.outputs, factor * (2 * x) + 1)
