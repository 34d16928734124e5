"""Recordings against what `collect` finds, and against NumPy; memory; files; what cannot be read.

That a variable is what plain Python saw in it, `test_variables` compares.
"""

import io
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from checks import assert_close
from jax import lax

import taxpr
from taxpr import var
from taxpr._compat import open_jaxpr
from taxpr._engine.hand_out import hand_out
from taxpr._keeping.passes import Passes
from taxpr._sites.values import values_of

X = jnp.arange(1.0, 5.0)


def numbers(x):
    x = jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
    return np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def fired(value):
    """What a tag held each time that it fired, in any order."""
    mask = None
    if isinstance(value, (taxpr.Masked, taxpr.Steps)):
        value, mask = value.value, np.asarray(value.mask)
    value = numbers(value)
    if mask is None:
        return value.ravel()
    return value[mask].ravel()


@pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")
@pytest.mark.spread(9)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_every_equation_makes_is_what_tags_there_collect(case):
    program = taxpr.trace(case.fn)(*case.args)
    try:
        rec = taxpr.watch(program, "*")(*case.args)
    except taxpr.RefusedError:
        pytest.skip("all of it is in what is refused")
    expected = program(*case.args)
    jax.tree.map(
        lambda a, b: assert_close(numbers(a), numbers(b), case.tolerance), rec.out, expected
    )
    tagged = program.tag_at(lambda address, eqn: True)
    more = {"max_steps": 20, "custom_rules": "drop", "stack": True}
    values = tagged.collect(lambda site: site.name is None, **more)(*case.args)[1]
    at = {site.address: site.value_address for site in tagged.tags()}
    compared = 0
    for address, value in values.items():
        if at.get(address) in {part.address for part in rec.parts}:
            [part] = rec[at[address]].parts
            found = numbers(part.kept.value)
            found = found if part.kept.fired is None else found[part.kept.fired]
            assert_close(found.ravel(), fired(value), case.tolerance)
            compared += 1
    assert compared


def elsewhere(monkeypatch):
    """Keep as on other devices than one CPU, where NumPy makes no statistics in a program."""
    monkeypatch.setattr(Passes, "_calls_numpy", False)


@pytest.mark.spread(9)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_statistics_made_within_the_program_are_those_of_the_values(case, monkeypatch):
    program = taxpr.trace(case.fn)(*case.args)
    try:
        whole = taxpr.watch(program, "*")(*case.args)
    except taxpr.RefusedError:
        pytest.skip("all of it is in what is refused")
    for memory in (4, 1, 40):  # by NumPy; by XLA in the program; in several passes
        with monkeypatch.context() as patched:
            if memory != 4:
                elsewhere(patched)
            stats = taxpr.watch(program, "*", keep="stats", memory=memory)(*case.args)
        assert [row.address for row in stats.table().rows] == [p.address for p in whole.parts]
        for one, other in zip(stats.table().rows, whole.table().rows, strict=True):
            for name in ("mean", "std", "min", "max", "norm"):
                a, b = getattr(one, name), getattr(other, name)
                assert (a is None) == (b is None), (one, other)
                assert a is None or np.isclose(a, b, 1e-3, 1e-4, equal_nan=True), (one, other)
            assert (one.ran, one.nonfinite) == (other.ran, other.nonfinite)


def attention(p, x):
    q, k = x @ p["q"], x @ p["k"]
    scores = q @ k.T
    weights = jax.nn.softmax(scores)
    for _ in range(2):
        x = jnp.tanh(weights @ x)
    return x.sum()


P = {"q": jnp.eye(3) / 2, "k": jnp.eye(3)}
A = jnp.arange(12.0).reshape(4, 3) / 12


def test_a_variable_is_read_by_its_name():
    rec = taxpr.watch(attention)(P, A)
    assert jnp.array_equal(rec["attention.scores"], (A / 2) @ A.T)
    assert rec["scores"].value.shape == rec["scores"].shape == (4, 4)
    assert rec["scores"].axes == ("axis 0", "axis 1")
    assert (
        rec["scores"].line
        == f"{__file__.rpartition('/')[2]}:{attention.__code__.co_firstlineno + 2}"
    )
    assert rec["scores"].function == "attention"
    assert rec["p['q']"].value is not None
    assert list(rec["p"].value) == ["['k']", "['q']"]
    assert_close(rec["p"].value["['q']"], P["q"])
    assert rec["x"].shape == (3, 4, 3)
    assert rec["x"].axes[0] == "occurrence"
    assert_close(rec["x"].at(occurrence=0), A)
    assert_close(rec["x#2"].value, rec[var("x", occurrence=2)].value)
    assert "weights" in rec
    assert "h" not in rec
    assert rec[rec["scores"].address].value is rec["scores"].value
    [one] = rec.at_line(rec["scores"].line)
    assert one.name == "scores"
    assert_close(rec.out, attention(P, A))
    with pytest.raises(taxpr.SelectorError, match=r"has no 'score'\. Nearest: scores"):
        rec["score"]
    with pytest.raises(taxpr.SelectorError, match=r"has no 3\. Give the name"):
        rec[3]
    assert_close(rec["attention.x#2"].value, rec["x#2"].value)
    with pytest.raises(taxpr.ArgumentError, match="2 arrays of different shapes"):
        np.asarray(rec["p"])


def test_iterations_have_axes():
    def f(x):
        def step(c, x):
            def inner(c, k):
                d = c * x + k
                return d, None

            c, _ = lax.scan(inner, c, jnp.arange(2.0))
            return c, None

        return lax.scan(step, 0.0, x)[0]

    rec = taxpr.watch(f)(X)
    d = rec["d"]
    assert d.axes == ("0:scan", "0:scan/body/1:scan")
    assert d.at(step=1).shape == (2,)
    assert float(d.at(step=(1, 0))) == 1 * 2.0
    assert d.stats(each=True).mean.shape == (4, 2)
    assert d.stats().max == d.value.max()
    assert d.stats().norm == pytest.approx(np.linalg.norm(np.asarray(d.value).ravel()))
    assert d.stats().histogram.sum() == 8
    with pytest.raises(taxpr.ArgumentError, match=r"step=5: d has 4 × 2 iterations"):
        d.at(step=5)
    with pytest.raises(taxpr.ArgumentError, match="no iterations"):
        rec["f.x"].at(step=0)


def test_every_iteration_of_a_long_while_loop_is_kept():
    def f(x):
        def body(x):
            y = x + 1
            return y

        return lax.while_loop(lambda x: x < 100, body, x)

    rec = taxpr.watch(f)(0.0)
    assert_close(rec["y"].value, np.arange(1.0, 101.0))
    assert rec["y"].fired is None
    assert rec.notes == ()
    short = taxpr.watch(f, "y", keep="values", memory=200)(0.0)
    assert_close(short["y"].value, np.arange(1.0, 33.0))
    assert short.notes == ("Only the first 32 iterations of while loops were kept.",)


@pytest.mark.parametrize("loop", ["while", "scan"])
def test_many_values_leave_a_loop_in_few_results(loop):
    # Too much to be copied into one array with others; small, so that its mean is nearly exact.
    wide = np.arange(5000.0, dtype=np.float32) % 8

    @jax.jit
    def halved(x):
        half = x / 2
        return half

    def f(x):
        def body(state):
            n, x = state
            for k in range(20):
                x = jnp.cos(x + k)
            even = n % 2 == 0
            many = x + wide
            chosen = lax.cond(even, lambda x: halved(x) + 1, lambda x: -x, x)
            return n + 1, chosen + jnp.mean(many)

        if loop == "while":
            return lax.while_loop(lambda state: state[0] < 6, body, (0, x))
        return lax.fori_loop(0, 6, lambda _, state: body(state), (0, x))

    rec = taxpr.watch(f)(1.0)
    x = np.float32(1.0)
    for step in range(6):
        for k in range(20):
            x = np.cos(x + np.float32(k))
            assert_close(rec["body.x"].parts[k + 1].kept.value[step], x, 1e-4)
        many = x + wide
        assert_close(rec["many"].value[step], many, 1e-4)
        assert rec["even"].value[step] == (step % 2 == 0)
        if step % 2 == 0:
            assert_close(rec["half"].value[step], x / 2, 1e-4)
        x = (x / 2 + 1 if step % 2 == 0 else -x) + np.mean(many)
    assert np.flatnonzero(rec["half"].fired).tolist() == [0, 2, 4]
    program = taxpr.trace(f)(1.0)
    values = [one for one in values_of(program.jaxpr) if one.eqn is not None and not one.refusal]
    handed = hand_out(program.jaxpr, values, max_steps=8, summaries={})
    [looping] = [e for e in open_jaxpr(handed.jaxpr).eqns if e.primitive.name == loop]
    assert len(looping.outvars) < len(values) / 2


def test_a_branch_says_when_it_ran():
    def f(x):
        def up(x):
            y = x * 2
            return y

        return lax.map(lambda x: lax.cond(x > 2, up, jnp.negative, x), x)

    rec = taxpr.watch(f)(X)
    assert rec["y"].fired.tolist() == [False, False, True, True]
    assert rec["y"].value.tolist() == [0, 0, 6, 8]
    assert rec["y"].stats().min == 6
    each = rec["y"].stats(each=True)
    assert np.isnan(each.zeros).tolist() == np.isnan(each.mean).tolist() == [True] * 2 + [False] * 2
    assert each.histogram.sum(-1).tolist() == [0, 0, 1, 1]
    assert [row.ran for row in rec.table().rows if row.variable == "y"] == ["2 of 4"]
    never = taxpr.watch(f)(-X)["y"]
    assert never.stats().size == 0
    assert np.isnan(never.stats().mean)


def test_memory_is_kept_to():
    def f(x):
        a = x + 1
        b = a * 2
        c = jnp.outer(b, b)
        return c.sum()

    x = jnp.ones(100)
    values = taxpr.watch(f, keep="values", memory=50_000)(x)
    assert values["c"].shape == (100, 100)
    assert values.notes == ()
    stats = taxpr.watch(f, memory=500)(x)
    assert stats.notes == (
        "Statistics only, of 40.8 kB of values, in one pass with 500 bytes of memory.",
    )
    assert stats["c"].stats().mean == stats["c"].stats().min == 16
    assert stats["c"].shape == (100, 100)
    with pytest.raises(taxpr.ArgumentError, match="c: only statistics of it were kept"):
        _ = stats["c"].value
    with pytest.raises(taxpr.ArgumentError, match=r"the values have 40.8 kB, more than the 500 b"):
        taxpr.watch(f, keep="values", memory=500)(x)
    assert taxpr.watch(f, memory=5e8)(x)["c"].value.shape == (100, 100)
    with pytest.raises(taxpr.ArgumentError, match="memory='1GB' is no number of bytes"):
        taxpr.watch(f, memory="1GB")(x)
    with pytest.raises(taxpr.ArgumentError, match="keep='all' is not one of"):
        taxpr.watch(f, keep="all")


def test_effects_happen_once(capfd):
    seen = []

    def f(x):
        jax.debug.print("x is {}", x)

        def body(x):
            jax.debug.print("in the loop")
            y = x + 1
            return y

        a = lax.while_loop(lambda x: x < 40, body, x)
        return a

    rec = taxpr.watch(f, keep="stats", memory=1)(0.0)
    jax.effects_barrier()
    assert capfd.readouterr().out.splitlines() == ["x is 0.0"] + ["in the loop"] * 40
    assert rec["y"].stats().max == 40

    def called(x):
        def body(x):
            y = jax.experimental.io_callback(lambda x: seen.append(x) or x + 1, x, x)
            return y

        return lax.while_loop(lambda x: x < 600, body, x)

    rec = taxpr.watch(called)(jnp.float32(0.0))
    assert len(seen) == 600
    assert rec["y"].value.shape == (512,)


def test_what_cannot_be_read_is_skipped():
    def f(x):
        y = jnp.sin(x)
        return lax.reduce(y, jnp.float32(0), lambda a, b: jnp.sin(a) + b, (0,))

    rec = taxpr.watch(f, "*")(X)
    assert rec["y"].shape == (4,)
    [skipped] = rec.skipped
    assert skipped.primitive == "reduce"
    assert "Not read: 2 places in reduce: its jaxpr combines pairs" in str(rec.table())
    with pytest.raises(taxpr.RefusedError, match="nothing that was selected can be read: 1 place"):
        taxpr.watch(f, list(skipped.addresses[:1]))(X)


def test_selectors():
    def f(x):
        h = taxpr.tag({"a": jnp.sin(x), "b": x}, name="h")
        y = h["a"] * 2
        return y + x

    watch = taxpr.watch(f, ["h", jax.lax.add_p, var("y"), taxpr.maybe("no")])
    rec = watch(X)
    assert list(rec["h"].value) == ["['a']", "['b']"]
    assert rec.keys() == ["h", "2:add.0", "y"]
    assert_close(rec["y"].value, 2 * jnp.sin(X))
    with pytest.raises(taxpr.AddressError, match="Nearest"):
        taxpr.watch(f, "7:sinn")(X)
    for name in ("yy", "f.yy"):
        with pytest.raises(taxpr.SelectorError, match=r"no variable or tag .* Nearest: (f\.)?y"):
            taxpr.watch(f, name)(X)
    with pytest.raises(taxpr.SelectorError, match="knows no variables"):
        taxpr.watch(taxpr.trace(f)(X))(X)
    with pytest.raises(taxpr.ArgumentError, match=r"called within jax\.jit"):
        jax.jit(lambda x: taxpr.watch(f)(x).out)(X)


def test_statistics_are_those_of_numpy():
    values = [0.0, -1.0, 3e30, np.nan, np.inf, np.inf, -np.inf, 2e30]
    for dtype in (jnp.float32, jnp.bfloat16, jnp.complex64):
        x = jnp.array(values, dtype)
        stats = taxpr.watch(lambda x: x * 1, "in0")(x)["in0"].stats()
        finite = np.abs(numbers(x)) if dtype == jnp.complex64 else numbers(x)
        finite = finite[np.isfinite(finite)]
        assert stats.mean == pytest.approx(finite.mean())
        assert stats.std == pytest.approx(finite.std())
        assert (stats.min, stats.max) == (finite.min(), finite.max())
        assert stats.norm == pytest.approx(np.linalg.norm(finite))
        assert stats.histogram.tolist() == np.histogram(finite, 16)[0].tolist()
        assert (stats.zeros, stats.nan, stats.size) == (1 / 8, 1 / 8, 8)
        assert stats.posinf + stats.neginf == 3 / 8
    assert taxpr.watch(lambda x: x, "in0")(jax.random.key(0))["in0"].stats() is None


@pytest.mark.parametrize(
    ("dtype", "values"), [("float32", [1e38, -1e38, 1e-40, 0]), ("float64", [1e200, 1e-200, 0, 2])]
)
@pytest.mark.parametrize("numpy", [True, False])
def test_statistics_of_a_device_hold_for_large_and_small_values(dtype, values, numpy, monkeypatch):
    if not numpy:
        elsewhere(monkeypatch)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x = jnp.array(values, dtype)
        stats = taxpr.watch(lambda x: x[::-1], "*", keep="stats", memory=4)(x)["0:rev.0"].stats()
    expected = np.array(values)
    assert (stats.zeros, stats.posinf) == (0.25, 0)
    found = stats.norm, stats.mean, stats.std, stats.max
    scale = expected[0]
    norm = np.linalg.norm(expected / scale) * scale
    std = (expected / scale).std() * scale
    np.testing.assert_allclose(found, (norm, expected.mean(), std, scale), 1e-6, 1e-6 * scale)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool", "complex64"])
def test_statistics_of_many_numbers_are_those_of_numpy(dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 50, (3, 40_000))
    rows[0] += 1e4 * (rows[0] > 20)
    rows[1, :30_000] = 7  # what comes first tells nothing of the others
    rows[2] = 5
    x = jnp.asarray(rows, dtype)
    for k, row in enumerate(numbers(x)):
        stats = taxpr.watch(lambda x: jnp.copy(x), "in0", keep="stats")(x[k])["in0"].stats()
        row = np.abs(row) if dtype == "complex64" else row.astype(np.float64)
        expected = row.mean(), row.std(), row.min(), row.max(), np.linalg.norm(row)
        found = stats.mean, stats.std, stats.min, stats.max, stats.norm
        np.testing.assert_allclose(found, expected, 1e-9, 1e-9)
        assert (stats.zeros, stats.nonfinite) == ((row == 0).mean(), 0)
        ends = (row.min(), max(row.max(), row.min() + 1))
        assert stats.histogram.tolist() == np.histogram(row, 16, ends)[0].tolist()
    with_inf = x.at[1, 7].set(jnp.inf) if dtype in ("float32", "bfloat16") else x
    stats = taxpr.watch(lambda x: jnp.copy(x), "in0")(with_inf)["in0"].stats(each=True)
    assert stats.posinf * 120_000 == pytest.approx(float(with_inf is not x))


@pytest.mark.parametrize("size", [1, 7, 600, 9_000, 70_000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "float64"])
def test_statistics_of_iterations_are_those_of_each_alone(dtype, size):
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 50, (12, size))
    rows[1], rows[2] = 0, 7
    rows[3] = np.maximum(rows[3], 0)
    if dtype != "int32":
        rows[4], rows[5, 0], rows[6, -1], rows[7, size // 2] = np.nan, np.nan, np.inf, -np.inf
        rows[8, 0] = np.inf
        rows[8, 1:] = np.maximum(rows[8, 1:], 0)
    if dtype == "float64":
        rows[9] *= 1e200
        rows[10] *= 1e-200
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x = jnp.asarray(rows, dtype)
        f = lambda x: jax.lax.scan(lambda c, row: (c, row * 1), 0, x)
        address = "0:scan/body/0:mul.0"
        stats = taxpr.watch(f, address, keep="stats")(x)[address].stats(each=True)
    for k, row in enumerate(numbers(x).astype(np.float64)):
        finite = row[np.isfinite(row)]
        kinds = stats.zeros[k], stats.nan[k], stats.posinf[k], stats.neginf[k]
        expected = row == 0, np.isnan(row), row == np.inf, row == -np.inf
        assert kinds == pytest.approx([one.mean() for one in expected])
        found = [x[k] for x in (stats.mean, stats.std, stats.min, stats.max, stats.norm)]
        if not finite.size:
            assert np.isnan(found).all()
            assert not stats.histogram[k].any()
            continue
        scale = np.abs(finite).max() or 1.0
        norm = np.linalg.norm(finite / scale) * scale
        std = (finite / scale).std() * scale
        moments = finite.mean(), std, finite.min(), finite.max(), norm
        np.testing.assert_allclose(found, moments, 1e-9, 1e-9 * scale)
        low, high = finite.min(), finite.max()
        if scale < 1e100 and not scale < 1e-100:
            ends = (low, high if high > low else low + 1)
            assert stats.histogram[k].tolist() == np.histogram(finite, 16, ends)[0].tolist()
        assert stats.histogram[k].sum() == finite.size


@pytest.mark.parametrize("size", [8, 40_000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_what_is_not_finite_counts_as_in_check_finite(dtype, size):
    x = jnp.asarray(np.random.default_rng(0).normal(3, 50, size), dtype).at[-1].set(0)
    bad = [jnp.nan, jnp.inf, -jnp.inf, -jnp.inf]
    if dtype == "complex64":
        bad = [
            complex(np.nan, np.inf),
            complex(0, np.inf),
            complex(0, -np.inf),
            complex(-np.inf, 1),
        ]
    x = x.at[: len(bad)].set(jnp.array(bad, dtype))
    stats, row = taxpr.questions.array_stats(x), numbers(x[len(bad) :])
    row = np.abs(row) if dtype == "complex64" else row
    checked = taxpr.trace(lambda x: taxpr.tag(x, name="x"))(x).inject(taxpr.check_finite())
    [counts] = checked.report(checked(checked.ctx, x)[1]).values()
    shares = [float(counts[name]) / size for name in ("nan", "+inf", "-inf")]
    assert [stats.nan, stats.posinf, stats.neginf] == shares == [1 / size, 1 / size, 2 / size]
    found = stats.mean, stats.std, stats.min, stats.max, stats.norm, stats.zeros
    expected = row.mean(), row.std(), row.min(), row.max(), np.linalg.norm(row), 1 / size
    np.testing.assert_allclose(found, expected, 1e-9)
    assert stats.histogram.tolist() == np.histogram(row, 16)[0].tolist()
    on_device = taxpr.watch(lambda x: x * 1, "0:mul.0", keep="stats", memory=4)(x)[
        "0:mul.0"
    ].stats()
    assert (on_device.nan, on_device.neginf) == pytest.approx((1 / size, 2 / size))


def test_arguments_of_python_are_read():
    rec = taxpr.watch(jax.jit(lambda x, n: x * n, donate_argnums=(0,)))(jnp.ones(2), 3)
    assert (rec["n"].value, rec["n"].dtype, rec["n"].shape) == (3, jnp.int32, ())


def test_a_recording_is_written_and_read(tmp_path):
    def f(x, key):
        h = x.astype(jnp.bfloat16) * 2
        n = jnp.arange(3).astype(jnp.int4)
        u = jax.random.uniform(key)

        def step(c, x):
            d = lax.cond(x > 2, jnp.sin, jnp.cos, x)
            return c, d

        return lax.scan(step, 0.0, x), {"h": h, "n": n, "u": u, "key": key}

    rec = taxpr.watch(f)(X, jax.random.key(1))
    rec.save(tmp_path / "run.npz")
    back = taxpr.load_recording(tmp_path / "run.npz")
    with zipfile.ZipFile(tmp_path / "run.npz") as file:
        assert {one.compress_type for one in file.infolist()} == {zipfile.ZIP_STORED}
    with np.load(tmp_path / "run.npz") as file, open(tmp_path / "before.npz", "wb") as before:
        np.savez_compressed(before, **file)
    assert str(taxpr.load_recording(tmp_path / "before.npz").table()) == str(rec.table())
    assert str(back.table()) == str(rec.table())
    assert back.table().to_json() == rec.table().to_json()
    assert repr(back) == repr(rec)
    assert back["h"].dtype == jnp.bfloat16
    assert_close(numbers(back["n"].value), np.arange(3.0))
    assert_close(numbers(back["key"].value), numbers(rec["key"].value))
    assert_close(back.out["[1]['u']"], rec.out[1]["u"])
    assert_close(numbers(back.out["[1]['key']"]), numbers(rec.out[1]["key"]))
    assert back.at_line(rec["h"].line)[0].name == "h"
    stats = taxpr.watch(f, keep="stats", memory=1)(X, jax.random.key(1))
    stats.save(tmp_path / "stats.npz")
    assert str(taxpr.load_recording(tmp_path / "stats.npz").table()) == str(stats.table())
    (tmp_path / "no.npz").write_bytes(b"no")
    with pytest.raises(taxpr.ArgumentError, match="is no recording"):
        taxpr.load_recording(tmp_path / "no.npz")


def test_it_shows_itself():
    rec = taxpr.watch(attention)(P, A)
    assert repr(rec).startswith("<recording of attention: p['k'], p['q'], x#0, q, k, scores")
    table = rec.table()
    assert "<table>" in rec._repr_mimebundle_()["text/html"]
    assert len(table.rows) == len(rec.parts)
    assert io.StringIO(table.to_csv()).readline().startswith("variable,function,line")
    assert str(rec["q"]).startswith("q: float32[4, 3], 0 … 0.4583, mean")
    for name in ("q", "weights", "x"):
        assert rec[name].chart().text()
    nan = taxpr.watch(lambda x: jnp.log(x), "*")(jnp.array([-1.0, 0.0]))
    assert "50% NaN, 50% -inf" in str(nan.table())


def test_a_name_of_several_functions_is_no_argument():
    def train(weights, xs):
        def step(weights, x):
            weights = weights + x
            return weights, None

        return jax.lax.scan(step, weights, xs)[0]

    with pytest.raises(taxpr.SelectorError, match="a variable of 2 functions"):
        taxpr.watch(train, "weights")(0.0, jnp.ones(3))
    recording = taxpr.watch(train, "step.weights")(0.0, jnp.ones(3))
    assert recording.keys() == ["step.weights#0", "step.weights#1"]


# ---- lanes of loops ---------------------------------------------------------------------------


def test_iterations_that_an_example_did_not_run_do_not_count():
    def f(n, x):
        def body(state):
            k, v = state
            low = 3.0 - k
            return k + 1.0, v + low

        return jax.lax.while_loop(lambda state: state[0] < n, body, (0.0, x))[1]

    ends = np.array([2.0, 5.0, 0.0])
    rec = taxpr.watch(jax.vmap(f))(ends, jnp.ones(3))
    turns = np.arange(5)[:, None]
    ran = turns < ends
    low = rec["low"]
    assert low.axes == ("1:while", "vmap 0")
    assert low.value.tolist() == np.where(ran, 3.0 - turns, 0).tolist()
    assert low.fired.tolist() == ran.tolist()
    stats = low.stats()
    assert (stats.size, stats.min, round(7 * stats.mean, 6)) == (7, -1.0, 10.0)
    # A lane's condition runs once more than its body.
    assert rec["<lambda>.state[0]"].fired.sum(0).tolist() == [3, 6, 1]
    rows = {row.variable: row.ran for row in rec.table().rows}
    assert rows["low"] == "7 of 15"
    # In a batch of two axes, and beside an axis of the value's own.
    wide = taxpr.watch(jax.vmap(jax.vmap(f), in_axes=(0, None)))(
        jnp.array([ends, ends[::-1]]), jnp.ones((3, 2))
    )["low"]
    assert (wide.axes[1:], int(wide.fired.sum())) == (("vmap 1", "vmap 0"), 14)
    assert wide.fired[:, 0].sum(0).tolist() == ends.tolist()
    assert wide.fired[:, 1].sum(0).tolist() == ends[::-1].tolist()
    # Values that no variable holds may have the axis anywhere, and it says so.
    notes = taxpr.watch(jax.vmap(f), "*")(ends, jnp.ones(3)).notes
    assert any("single examples did not run are not told apart in" in note for note in notes)
    found = taxpr.first_difference(jax.vmap(f), jax.vmap(lambda n, x: f(n, x * 2)))(
        ends, jnp.ones(3)
    )
    row = next(row for row in found.rows if row.variable == "body.state[1]")
    assert (row.iteration, row.index) == ((0,), (0,))


@pytest.mark.parametrize("memory", [None, 40])  # in the program
def test_statistics_do_not_count_iterations_that_an_example_did_not_run(memory):
    def f(n, x):
        def body(state):
            k, v = state
            low = 3.0 - k
            wide = v * low + jnp.arange(30.0)
            return k + 1.0, wide * (low + 4)

        return jax.lax.while_loop(lambda state: state[0] < n, body, (0.0, x))[1].sum()

    def twice(n, x):
        return jax.lax.map(lambda k: jax.vmap(f, (0, 1))(n + k, x), jnp.arange(2.0))

    ends, x = np.array([2.0, 5.0, 0.0]), jnp.ones((30, 3))
    once = jax.vmap(f, (0, 1))
    two = np.array([ends, ends[::-1]])
    for fn, ns in [(once, ends), (twice, ends), (jax.vmap(once, (0, None)), two)]:
        whole = taxpr.watch(fn)(ns, x)
        stats = taxpr.watch(fn, keep="stats", memory=memory)(ns, x)
        assert not [note for note in stats.notes if "told apart" in note]
        for name in ("low", "wide", "body.state[1]"):
            a, b = whole[name], stats[name]
            assert a.axes[: len(b.axes)] == b.axes[: len(a.axes)]
            for each in (False, True):
                for field in ("mean", "std", "min", "max", "norm", "zeros"):
                    one, other = (getattr(x.stats(each=each), field) for x in (a, b))
                    np.testing.assert_allclose(one, other, 1e-4, 1e-4)
            assert a.stats().size == b.stats().size
        rows = [{row.address: row.ran for row in rec.table().rows} for rec in (whole, stats)]
        assert rows[0] == rows[1]


def test_a_tag_and_a_variable_of_one_name_are_told_apart():
    def f(x):
        h = taxpr.tag(jnp.sin(x), name="h")
        h = h * 2
        return h + 1

    for last in ("h", taxpr.var("h", occurrence=1)):
        rec = taxpr.watch(f, [taxpr.var("h", occurrence=1), "h", last])(jnp.ones(2))
        np.testing.assert_allclose(rec["h"].value, np.sin(np.ones(2)), rtol=1e-6)
        np.testing.assert_allclose(rec["f.h"].value, 2 * np.sin(np.ones(2)), rtol=1e-6)
        np.testing.assert_allclose(rec[taxpr.var("h")].value, rec["f.h"].value)


# ---- interrupted ------------------------------------------------------------------------------


def in_three_passes(x):
    a = x + 1
    b = a * 2
    c = b - 3
    return c.sum()


def stops_in(monkeypatch, last):
    """Interrupt a pass of recordings, counted over all of them from 1."""
    passes, every = [], Passes._pass

    def one(self, *args):
        passes.append(args)
        if len(passes) == last:
            raise KeyboardInterrupt
        return every(self, *args)

    monkeypatch.setattr(Passes, "_pass", one)


def test_what_is_interrupted_keeps_the_passes_that_are_done(monkeypatch, tmp_path):
    elsewhere(monkeypatch)
    x = np.arange(100, dtype=np.float32)
    ask = taxpr.watch(in_three_passes, ["a", "b", "c"], keep="stats", memory=450)
    whole = ask(x)
    assert whole.complete
    assert whole.keys() == ["a", "b", "c"]
    stops_in(monkeypatch, 3)
    rec = ask(x)
    assert not rec.complete
    assert rec.keys() == ["a", "b"]
    assert float(rec.out) == float(whole.out)
    for name, value in {"a": x + 1, "b": (x + 1) * 2}.items():
        assert rec[name].stats().mean == pytest.approx(value.mean())
    assert rec.notes[-1] == "Stopped before it kept c." == rec.table().notes[-1]
    with pytest.raises(taxpr.SelectorError, match=r"has no 'c'.* Stopped before it kept c"):
        _ = rec["c"]
    rec.save(tmp_path / "part.npz")
    loaded = taxpr.load_recording(tmp_path / "part.npz")
    assert (loaded.complete, loaded.notes) == (False, rec.notes)


@pytest.mark.parametrize("ask", [taxpr.watch, taxpr.find_nan, taxpr.flow])
def test_without_one_pass_there_is_nothing_to_keep(monkeypatch, ask):
    stops_in(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        ask(in_three_passes)(jnp.ones(100))


def test_an_answer_is_made_of_all_or_nothing(monkeypatch):
    stops_in(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        taxpr.flow(in_three_passes)(jnp.ones(100))


def test_the_values_stay_where_their_cotangents_are_interrupted(monkeypatch):
    stops_in(monkeypatch, 2)
    rec = taxpr.watch(in_three_passes, grads=True)(jnp.ones(3))
    assert (rec.complete, rec["b"].value.tolist()) == (False, [4.0] * 3)
    assert rec.notes == ("Stopped before it kept any cotangent.",)


def test_the_first_iterations_stay_where_more_are_interrupted(monkeypatch):
    def f(n):
        def body(k):
            k = k + 1
            return k

        return jax.lax.while_loop(lambda k: k < n, body, 0)

    stops_in(monkeypatch, 2)
    rec = taxpr.watch(f, taxpr.var("k", occurrence=1))(600)
    assert (rec.complete, rec["k"].value.tolist()) == (False, [*range(1, 513)])
    assert rec.notes == ("Stopped: of some while loops only 512 iterations are here.",)


def test_many_passes_say_how_far_they_are(monkeypatch, capsys):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("taxpr._answers.progress.time.monotonic", lambda: next(clock))
    elsewhere(monkeypatch)
    taxpr.watch(in_three_passes, ["a", "b", "c"], keep="stats", memory=450)(jnp.ones(100))
    assert "watch: 1 of 3, about 4 s left" in capsys.readouterr().err


def test_the_table_shows_a_value_once_by_its_own_name():
    """A parameter that functions hand on has a name in each; as data all of them are there."""

    def layer(p, h):
        w, b = p
        return jnp.tanh(h @ w + b)

    def model(params, x):
        for p in params:
            x = layer(p, x)
        return x

    params = [(jnp.eye(3), jnp.zeros(3)), (jnp.eye(3) * 2, jnp.ones(3))]
    table = taxpr.watch(model)(params, jnp.ones(3)).table()
    shown = [line.split("  ")[0] for line in str(table).splitlines()[2:]]
    values = {row.address for row in table.rows}
    assert len(shown) == len(values) < len(table.rows)
    assert {"w#0", "w#1", "b#0", "b#1"} <= set(shown)
    assert {"params[0][0]", "w#0"} <= {row.variable for row in table.rows}
    assert str(table).startswith(f"{len(values)} values of model, by {len(table.rows)} names")


def test_histograms_of_iterations_put_together_are_near_that_of_all():
    """And exact where each iteration has one number only."""
    numbers = np.random.default_rng(0)
    x = (
        numbers.standard_normal((8, 1000), np.float32)
        + np.linspace(0, 1, 8, dtype=np.float32)[:, None]
    )
    for rows, most in (x, 0.06), (x.reshape(-1, 1), 0):

        def scanned(rows):
            def step(c, row):
                h = row * 1
                return c, h

            return jax.lax.scan(step, 0.0, rows)[1]

        found = taxpr.watch(scanned, "h", keep="stats", memory=1)(rows)["h"].stats()
        expected = np.histogram(rows, 16)[0]
        assert found.histogram.sum() == rows.size
        assert np.abs(found.histogram - expected).max() <= most * expected.max()


def test_numbers_that_are_all_equal_are_in_one_bin_however_they_were_kept():
    def scanned(x):
        def step(c, _):
            y = jnp.full((4,), 7.0)
            return c, y

        return jax.lax.scan(step, x, None, length=5)

    found = [
        taxpr.watch(scanned, "y", **options)(1.0)["y"].stats().histogram.tolist()
        for options in ({"keep": "values"}, {"keep": "stats"}, {"keep": "stats", "memory": 1})
    ]
    assert found == [[20] + [0] * 15] * 3


def test_an_example_of_a_part_is_what_the_function_keeps_for_it_alone():
    def walk(x, w):
        def body(v):
            half = v / 2 + 0 * w.sum()
            return half

        wide = x * w
        return lax.while_loop(lambda v: v > 1, body, x) + wide.sum()

    def axes(part):  # a loop has another number in each program
        return [one.rpartition(":")[2] for one in part.axes]

    xs, w = jnp.array([3.0, 9.0, 0.5]), jnp.arange(40.0)
    both = taxpr.watch(jax.vmap(jax.vmap(walk, (0, None)), (None, 0)))(xs, jnp.stack([w, w + 1]))
    for row in range(2):
        inner = taxpr.watch(jax.vmap(walk, (0, None)))(xs, w + row)
        for name in ("half", "wide"):
            [part], [expected] = both[name].parts, inner[name].parts
            found = part.of_example(row)
            assert (part.examples, found.examples) == (2, 3)
            assert axes(found) == axes(expected)
            n = expected.shape[0]  # the other row may have gone on
            np.testing.assert_array_equal(found.kept.value[:n], expected.kept.value)
            single = found.of_example(1)
            alone = taxpr.watch(walk)(xs[1], w + row)[name].parts[0]
            assert (single.examples, axes(single)) == (0, axes(alone))
            n = len(alone.kept.value)
            np.testing.assert_array_equal(single.kept.value[:n], alone.kept.value)
