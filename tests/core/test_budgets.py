"""Answers are the same with any memory, and little of it compiles few programs."""

import subprocess
import sys
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr._keeping.budget import PASSES, divided
from taxpr._keeping.handing import Handing
from taxpr._keeping.passes import Passes
from taxpr._primitives.by_numpy import by_numpy

LITTLE = 10**9, 64, 1
FINE = jnp.array([1.0, 2.0, 3.0, 0.0])
INFINITE = jnp.array([1.0, jnp.inf, 3.0, 2.0])


def residual(x):
    h = jnp.sin(x) * 0.0
    x = x + h
    return x.sum()


def twice(x):
    y = x * 2.0
    return y.sum()


def cancels(x):
    h = x - 1.0
    y = h - h
    return y.sum()


def joins(x):
    h = jnp.where(jnp.isfinite(x), x, 0.0) * 2.0
    x = x + h
    return x


def square_roots(xs):
    def step(c, x):
        rest = c - x
        root = jnp.sqrt(rest)
        return root, root * 2.0

    return jax.lax.scan(step, 10.0, xs)


def grows_in_a_scan(xs):
    def step(c, x):
        h = jnp.tanh(c) + 1.0
        c = c + h
        y = c * x
        return c, y - y

    return jax.lax.scan(step, xs[0], xs)


def masked(x):
    mask = jnp.where(jnp.arange(x.shape[0]) < 3, 0.0, -jnp.inf)
    s = x + mask
    w = jax.nn.softmax(s)
    t = jnp.log(w)
    return (t * w).sum()


def norm(x):
    n = jnp.sqrt((x * x).sum())
    return n


def with_a_table(x):
    table = np.array([1.0, np.nan, 3.0, 2.0], np.float32)
    z = x + table
    return z.sum()


def with_an_infinite_table(x):
    table = np.array([1.0, np.inf, 3.0, 2.0], np.float32)
    z = x + table
    q = z - z
    return q.sum()


def whiles(x):
    def body(c):
        c = c * 3.0
        return jnp.log(c - 20.0)

    return jax.lax.while_loop(lambda c: jnp.all(jnp.isfinite(c)) & (c < 100.0).all(), body, x)


def branch(x):
    return jax.lax.cond(x[0] > 0, lambda x: jnp.log(x - 1.0), lambda x: x, x).sum()


def gather(x):
    i = jnp.argsort(x)
    y = x[i]
    z = 1.0 / y
    return z[:2].sum()


PROGRAMS = {
    "an infinite argument with a NaN": (residual, INFINITE),
    "a NaN in an argument": (twice, jnp.array([1.0, jnp.nan, 3.0, 2.0])),
    "an infinite argument that cancels": (cancels, INFINITE),
    "an infinite argument in a result": (joins, INFINITE),
    "a scan": (square_roots, FINE),
    "an infinite argument in a scan": (grows_in_a_scan, INFINITE),
    "a mask": (masked, FINE),
    "a backward pass": (jax.grad(norm), FINE * 0.0),
    "a NaN in a constant": (with_a_table, FINE),
    "an infinity in a constant": (with_an_infinite_table, FINE),
    "a while loop": (whiles, FINE),
    "a branch": (branch, FINE),
    "what is gathered": (gather, FINE),
    "vmap": (jax.vmap(square_roots), jnp.stack([FINE, FINE + 1.0])),
}


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_find_nan_is_the_same_with_any_memory(name, everywhere):
    fun, x = PROGRAMS[name]
    whole = taxpr.find_nan(fun, everywhere=everywhere)(x)
    for memory in LITTLE:
        found = taxpr.find_nan(fun, everywhere=everywhere, memory=memory)(x)
        assert (found.headline, found.rows) == (whole.headline, whole.rows), memory
        np.testing.assert_array_equal(jax.tree.leaves(found.out)[0], jax.tree.leaves(whole.out)[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_difference_is_the_same_with_any_memory(name):
    fun, x = PROGRAMS[name]
    whole = taxpr.first_difference(fun)(x, x * 1.5)
    for memory in LITTLE:
        found = taxpr.first_difference(fun, memory=memory)(x, x * 1.5)
        assert found.headline == whole.headline, memory
        assert list(map(str, found.rows)) == list(map(str, whole.rows)), memory  # NaN is no NaN


def test_what_has_effects_runs_once_and_is_refused_with_what_helps():
    def fun(x):
        y = jnp.sin(x)
        return y + jax.experimental.io_callback(lambda y: y, y, y, ordered=True)

    with pytest.raises(taxpr.ArgumentError, match=r"has effects.*Give more by memory="):
        taxpr.first_difference(fun, memory=1)(FINE, FINE * 2.0)
    rows = taxpr.first_difference(fun, memory=1000)(FINE, FINE * 2.0).rows
    assert [row.variable for row in rows] == ["x", "y", "out"]


def test_a_second_run_for_elements_prints_nothing():
    seen = []

    def fun(x):
        y = jnp.log(x - 1.0)
        jax.debug.callback(seen.append, y)
        return y.sum()

    [row] = taxpr.find_nan(fun, memory=1)(FINE).rows
    assert (row.elements, len(seen)) == ("2 of 4 elements, the first at (0,)", 1)


# ---- what memory= takes --------------------------------------------------------------------------


def summed(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    y = h * x
    return y.sum()


SCALES = "h", taxpr.scale, [1.0, 2.0]
ASKED = {
    "watch": lambda m: taxpr.watch(summed, memory=m)(FINE).table(),
    "statistics": lambda m: taxpr.watch(summed, keep="stats", memory=m)(FINE)["y"].stats(),
    "find_nan": lambda m: taxpr.find_nan(summed, memory=m)(INFINITE),
    "first_difference": lambda m: taxpr.first_difference(summed, memory=m)((FINE,), (INFINITE,)),
    "flow": lambda m: taxpr.flow(summed, memory=m)(FINE),
    "check_grad": lambda m: taxpr.check_grad(summed, memory=m)(FINE),
    "sweep": lambda m: taxpr.sweep(summed, *SCALES, memory=m)(FINE),
    "patch": lambda m: taxpr.patch(summed, "h", memory=m)(FINE, FINE * 2.0),
}
BYTES = 5e7, 1e8 / 3, np.int64(50_000_000), np.uint32(10**9), np.float32(5e7), np.float64(5e7)


@pytest.mark.parametrize("name", ASKED)
def test_memory_is_any_number_of_bytes(name):
    ask = ASKED[name]
    expected = str(ask(50_000_000))
    for memory in BYTES:
        assert str(ask(memory)) == expected
    for memory in (0, 0.5, -1, np.int64(-3), float("nan"), float("inf"), True, np.True_, "1GB"):
        with pytest.raises(taxpr.ArgumentError, match=r"memory=.* is no number of bytes\. Give"):
            ask(memory)


def test_every_takes_memory_as_any_number_of_bytes():
    for memory in BYTES:
        logged = []
        with taxpr.every(1, summed, logged.append, memory=memory) as step:
            step(FINE)
        assert len(logged) == 1


# ---- how many programs, and how often they run ---------------------------------------------------


def layer(w, x):
    h = jnp.tanh(x @ w)
    return x + h * jax.nn.sigmoid(h)


def unrolled(ws, x):
    for w in ws:
        x = layer(w, x)
    return (x * x).mean()


def scanned(ws, x):
    x, _ = jax.lax.scan(lambda x, w: (layer(w, x), None), x, jnp.stack(ws))
    return (x * x).mean()


def train_step(state, x):
    ws, moments = state
    loss, grads = jax.value_and_grad(unrolled)(ws, x)
    moments = [0.9 * m + g for m, g in zip(moments, grads, strict=True)]
    ws = [w - 0.1 * m / jnp.sqrt(1.0 + m * m) for w, m in zip(ws, moments, strict=True)]
    return (ws, moments), loss


def spoiled(state, x):
    (ws, _), loss = train_step(state, x)
    bad = jnp.log(ws[0] - 100.0)
    return bad * 2.0, loss


WS = [jnp.eye(16) * k for k in (0.5, 1.0, 1.5)]
GIVEN = jnp.ones((8, 16))
STEPS = {
    "an unrolled gradient": (jax.grad(unrolled), WS),
    "a scanned gradient": (jax.grad(scanned), WS),
    "a training step": (train_step, (WS, WS)),
}
BUDGETS = None, 20_000, 5000, 1000, 64, 1


@pytest.fixture
def work(monkeypatch):
    """A function: how many programs of a call hand values out, and how often they run."""
    found, made, run = [], Handing.made, Handing.__call__
    monkeypatch.setattr(Handing, "made", lambda *given: found.append("made") or made(*given))
    monkeypatch.setattr(Handing, "__call__", lambda *given: found.append("ran") or run(*given))

    def count(call):
        found.clear()
        call()
        return found.count("made"), found.count("ran")

    return count


@pytest.mark.parametrize("name", STEPS)
def test_little_memory_takes_one_program_and_one_run(name, work):
    fun, first = STEPS[name]

    def fresh(*args):
        return fun(*args)

    for memory in BUDGETS:
        asked = {
            "find_nan": lambda m=memory: taxpr.find_nan(fresh, memory=m)(first, GIVEN),
            "watch": lambda m=memory: taxpr.watch(fresh, memory=m)(first, GIVEN),
            "stats": lambda m=memory: taxpr.watch(fresh, "*", keep="stats", memory=m)(first, GIVEN),
        }
        for ask, call in asked.items():
            assert work(call) in ((1, 1), (0, 1)), (ask, memory)  # 0 where it was made before


def test_a_nan_is_looked_for_in_three_runs_with_any_memory(work):
    counts = []
    for memory in BUDGETS:
        ask = taxpr.find_nan(spoiled, memory=memory)
        counts.append(work(lambda ask=ask: ask((WS, WS), GIVEN))[1])
    assert counts == sorted(counts)
    assert (counts[0], max(counts)) == (1, 3)


@pytest.mark.parametrize("memory", BUDGETS)
def test_each_of_two_runs_is_one_pass_in_the_memory_of_a_cpu(memory, work):
    ask = taxpr.first_difference(train_step, memory=memory)
    given = (WS, WS), GIVEN
    made, ran = work(lambda: ask(given, jax.tree.map(lambda x: x * 2.0, given)))
    assert made <= 1
    assert ran == 2


def test_on_another_device_there_are_eight_passes_at_most(monkeypatch, work):
    for sizes in ([1] * 100, [5, 1, 1, 7] * 9, [3] * 9, [100, 1, 1, 1, 1, 1, 1, 1, 1, 1]):
        for room in (1, 3, 10, 50):
            groups = divided(sizes, lambda size: size, room, PASSES)
            assert len(groups) <= PASSES
            assert [size for group in groups for size in group] == sizes
    assert divided([2, 2, 2], lambda size: size, 4, PASSES) == [[2, 2], [2]]
    monkeypatch.setattr(Passes, "_calls_numpy", False)
    for memory in (None, 20_000, 1000):
        ask = taxpr.watch(train_step, keep="stats", memory=memory)
        assert work(lambda ask=ask: ask((WS, WS), GIVEN))[1] <= PASSES + 1


# ---- statistics by NumPy, and by XLA -------------------------------------------------------------

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
    *("complex64", "complex128"),
)
SHAPES = (), (1,), (7,), (3, 0), (41, 103)


def drawn(dtype, shape, rng):
    x = np.asarray(rng.normal(0, 40, shape))
    if jnp.issubdtype(dtype, jnp.complexfloating):
        x = x + 1j * rng.normal(0, 40, shape)
    elif jnp.issubdtype(dtype, jnp.integer):
        x = x.round().clip(float(jnp.iinfo(dtype).min), float(jnp.iinfo(dtype).max))
    if jnp.issubdtype(dtype, jnp.inexact) and x.size > 10:
        places = x.reshape(-1)
        places[rng.integers(0, x.size, 3)] = np.nan
        places[1:4] = 0, 1e-40, -1e-40
        if dtype != "float8_e4m3fn":  # which has no infinity
            places[rng.integers(4, x.size, 4)] = np.inf, -np.inf, np.inf, -np.inf
    return jnp.asarray(x, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_statistics_by_numpy_are_those_by_xla(dtype, monkeypatch):
    shapes = SHAPES if dtype in ("float32", "bfloat16") else SHAPES[-1:]
    for shape in shapes:
        with enable_x64(True):
            x = drawn(dtype, shape, np.random.default_rng(len(shape)))
            program = taxpr.trace(lambda x: jax.lax.rev(x, range(x.ndim)))(x)
            [one] = taxpr.watch(program, "*", keep="stats", memory=1)(x).parts
            [whole] = taxpr.watch(program, "*")(x).parts
            with monkeypatch.context() as patched:
                patched.setattr(Passes, "_calls_numpy", False)
                [by_xla] = taxpr.watch(program, "*", keep="stats", memory=1)(x).parts
        for other in (by_xla, whole):
            assert_same(one.stats(each=False), other.stats(each=False), shape)


def test_the_thread_of_numpy_keeps_no_value():
    kept = []

    def total(x, of):
        if of is np:
            kept.append(weakref.ref(x))
        return of.sum(x)

    assert jax.jit(lambda x: by_numpy(total, x))(jnp.ones(100_000)) == 100_000
    [last] = kept
    until = time.monotonic() + 10
    while last() is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert last() is None


def assert_same(found, other, where):
    shares = "size", "zeros", "nan", "posinf", "neginf"
    assert [getattr(found, k) for k in shares] == pytest.approx(
        [getattr(other, k) for k in shares], abs=1e-7
    ), where
    scale = max(abs(other.min), abs(other.max)) if other.size else 1.0
    for name in ("mean", "std", "min", "max", "norm"):
        np.testing.assert_allclose(
            getattr(found, name),
            getattr(other, name),
            2e-5,
            2e-6 * scale,
            err_msg=f"{where} {name}",
        )
    assert found.histogram.sum() == other.histogram.sum(), where
    assert abs(found.histogram - other.histogram).sum() <= 2 + found.size // 200, where


def test_numpy_makes_statistics_in_a_thread_of_another_precision():
    with enable_x64(True):  # which holds in this thread alone; large programs run in others
        x = jnp.asarray(np.random.default_rng(0).normal(size=(600, 600)))

        def fun(x):
            for _ in range(8):
                x = jnp.tanh(x @ x / 600.0)
            return x

        stats = taxpr.watch(fun, "*", memory=1)(x)
        whole = taxpr.watch(fun, "*")(x)
    for one in stats.parts:
        expected = whole[one.address].stats().norm
        np.testing.assert_allclose(one.stats(each=False).norm, expected, 1e-12)


def test_little_memory_is_enough_while_python_exits(tmp_path):
    script = tmp_path / "asks.py"
    script.write_text("""
import atexit, jax.numpy as jnp, taxpr

@atexit.register
def ask():
    print(taxpr.find_nan(lambda x: jnp.log(x - 9.0).sum(), memory=1)(jnp.ones(9)))
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert "jnp.log(x - 9.0)" in done.stdout, done.stderr
