"""What was made of a jaxpr before is the same object again, and never a stale one."""

import concurrent.futures
import functools
import gc
import logging
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import tag
from taxpr._engine import memo


@jax.jit
def layer(x):
    return jax.lax.scan(lambda c, _: (tag(jnp.tanh(c), name="h"), None), x, None, length=3)[0]


def deep(x):
    return layer(layer(x)) * 2


@pytest.fixture
def compiled(monkeypatch):
    """A function: how many programs JAX compiles while another one is called."""
    logger, lines = logging.getLogger("jax"), []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    handler = Handler()
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)

    def count(call):
        lines.clear()
        with jax.log_compiles():
            jax.block_until_ready(call())
        return sum(line.startswith("Compiling") for line in lines)

    return count


def at_one_site(program):
    return taxpr.grad_at(program, program.tags()[1].address)


grad_of = functools.cache(jax.grad)

CALLS = {
    "grad_at": lambda f, p: taxpr.grad_at(p, "h", stack=True),
    "grad_at of a function": lambda f, p: taxpr.grad_at(f, "h", stack=True),
    "grad_at one site": lambda f, p: at_one_site(p),
    "grad_at in vmap": lambda f, p: lambda x: jax.vmap(taxpr.grad_at(p, stack=True))(x[None]),
    "grad of grad_at": lambda f, p: jax.grad(
        lambda x: taxpr.grad_at(p, stack=True)(x)["h"].sum(),
    ),
    "collect": lambda f, p: p.collect("h", stack=True),
    "collect of a function": lambda f, p: taxpr.collect(f, "h", stack=True),
    "until": lambda f, p: p.until("h", stack=True),
    "a variable": lambda f, p: taxpr.collect(f, taxpr.var("f.x")),
    "a variable in a loop": lambda f, p: taxpr.collect(f, taxpr.var("c"), stack=True),
    "a cotangent": lambda f, p: taxpr.collect(grad_of(f), taxpr.cotangent("y")),
    "watch": lambda f, p: taxpr.watch(f),
    "watch a program": lambda f, p: taxpr.watch(p, "*"),
    "watch the gradient": lambda f, p: taxpr.watch(f, grads=True),
    "statistics": lambda f, p: taxpr.watch(f, keep="stats", memory=1),
    "flow": lambda f, p: taxpr.flow(f),
    "find_nan": lambda f, p: taxpr.find_nan(f),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", CALLS)
def test_a_second_eager_call_compiles_nothing(kind, compiled):
    def f(x):
        y = deep(x) + 1
        return y * y

    x = jnp.float32(0.3)
    program, other = taxpr.trace(f)(x), x + 1
    first = compiled(lambda: CALLS[kind](f, program)(x))
    assert first > 0
    assert compiled(lambda: CALLS[kind](f, program)(x)) == 0
    assert compiled(lambda: CALLS[kind](f, program)(other)) == 0


def test_gradients_are_those_of_the_arguments_of_each_call():
    program = taxpr.trace(lambda x: jnp.sin(tag(x * 2, name="h")))(0.3)
    for x in (0.1, 0.5, -2.0):
        np.testing.assert_allclose(taxpr.grad_at(program, "h")(x)["h"], np.cos(2 * x), rtol=1e-5)


def test_other_types_are_other_results():
    def f(x):
        return jnp.sum(tag(x * x, name="h") ** 2)

    for x in (jnp.ones(3), jnp.ones((2, 2)), jnp.ones(3, jnp.float16), jnp.ones(3)):
        found = taxpr.grad_at(f, "h")(x)["h"]
        assert (found.shape, found.dtype) == (x.shape, x.dtype)
        assert taxpr.collect(f, "h")(x)[1]["h"].dtype == x.dtype
        np.testing.assert_array_equal(found, 2 * np.ones(x.shape))


def test_other_selections_and_options_are_other_results():
    @jax.custom_jvp
    def g(x):
        return tag(x * 2, name="in") * x

    @g.defjvp
    def of_g(primals, tangents):
        return g(*primals), 100.0 * tangents[0]

    program = taxpr.trace(lambda x: tag(g(tag(x, name="x")), name="out") * 3)(2.0)
    for _ in range(2):
        assert taxpr.grad_at(program, "x")(2.0) == {"x": 300}
        assert taxpr.grad_at(program, "in", custom_rules="drop")(2.0) == {"in": 6}
        both = taxpr.grad_at(program, ["x", "in"], custom_rules="drop")(2.0)
        assert both == {"x": 24, "in": 6}
        assert taxpr.grad_at(program, ["x", "out"])(2.0) == {"x": 300, "out": 3}
        assert program.collect("x")(2.0)[1] == {"x": 2}
        assert program.collect(["x", "out"])(2.0)[1] == {"x": 2, "out": 8}
        dropped = program.collect("in", custom_rules="drop")
        kept = program.collect("in")
        one = jnp.float32(1)
        assert jax.jvp(dropped, (2 * one,), (one,))[1][1]["in"] == 2
        assert np.isnan(jax.jvp(kept, (2 * one,), (one,))[1][1]["in"])


def test_max_steps_and_result_trees_are_other_results():
    def loop(x):
        return jax.lax.while_loop(lambda x: x < 9, lambda x: tag(2 * x, name="x"), x)

    program = taxpr.trace(loop)(1)
    for _ in range(2):
        assert isinstance(program.collect()(1)[1]["x"], taxpr.Last)
        assert program.collect(max_steps=6)(1)[1]["x"].value.shape == (6,)
        assert program.collect(max_steps=5)(1)[1]["x"].value.shape == (5,)


def test_the_settings_of_the_call_count():
    program = taxpr.trace(lambda x: tag(x * 2, name="h") ** 2)(jnp.float32(1))
    with jax.default_matmul_precision("float32"):
        first = program.collect()
    assert program.collect().jaxpr is not first.jaxpr
    assert program.collect().jaxpr is program.collect().jaxpr


def test_what_closes_over_tracers_is_not_kept():
    def inner(w, x):
        program = taxpr.trace(lambda x: jnp.sin(tag(x * w, name="h")))(x)
        return taxpr.grad_at(program, "h")(x)["h"] + program.collect()(x)[1]["h"]

    x = jnp.float32(0.3)
    for w in jnp.asarray([0.5, 2.0]):
        want = jnp.cos(x * w) + x * w
        slope = x - x * jnp.sin(x * w)
        with jax.checking_leaks():
            np.testing.assert_allclose(jax.jit(inner)(w, x), want, rtol=1e-5)
        np.testing.assert_allclose(jax.grad(inner)(w, x), slope, rtol=1e-5)
        np.testing.assert_allclose(jax.vmap(inner, (0, None))(w[None], x), want[None], rtol=1e-5)
        np.testing.assert_allclose(jax.jit(jax.grad(inner))(w, x), slope, rtol=1e-5)


def test_a_program_of_before_within_each_transformation():
    program = taxpr.trace(lambda x: jnp.sin(tag(x * 2, name="h")))(jnp.float32(0))
    x = jnp.float32(0.3)

    def g(x):
        return taxpr.grad_at(program, "h")(x)["h"]

    for h in (g, jax.jit(g), g, jax.jit(lambda x: g(x)), lambda x: jax.vmap(g)(x[None])[0]):
        np.testing.assert_allclose(h(x), np.cos(0.6), rtol=1e-5)
        np.testing.assert_allclose(jax.grad(h)(x), -2 * np.sin(0.6), rtol=1e-5)
        np.testing.assert_allclose(jax.jvp(h, (x,), (x,))[1], -0.6 * np.sin(0.6), rtol=1e-5)


def test_nothing_outlives_its_jaxpr():
    def f(x):
        return jnp.sin(tag(x * 2, name="h"))

    program = taxpr.trace(f)(0.3)
    gone = weakref.ref(program.jaxpr)
    made = weakref.ref(program.collect().jaxpr)
    taxpr.grad_at(program)(0.3)
    assert program.jaxpr in memo._made
    del program, f
    gc.collect()
    assert gone() is None
    assert made() is None


def test_so_many_results_are_kept_and_no_more():
    def f(x):
        for k in range(memo._KEPT + 4):
            x = tag(x * 2, name=f"h{k}")
        return x

    program = taxpr.trace(f)(0.3)
    for k in range(memo._KEPT + 4):
        assert program.collect(f"h{k}")(1.0)[1] == {f"h{k}": 2.0 ** (k + 1)}
    assert len(memo._made[program.jaxpr]) == memo._KEPT
    last = program.collect(f"h{memo._KEPT + 3}")
    assert last.jaxpr is program.collect(f"h{memo._KEPT + 3}").jaxpr


def test_a_rule_that_is_dropped_warns_at_each_call():
    @jax.custom_batching.custom_vmap
    def g(x):
        return tag(x * 2, name="h")

    @g.def_vmap
    def of_many(size, batched, x):
        return x * 2, True

    program = taxpr.trace(lambda x: g(x) * 3)(1.0)
    for _ in range(2):
        with pytest.warns(taxpr.DroppedRuleWarning, match="h"):
            assert program.collect()(1.0)[1] == {"h": 2}


def test_many_threads_share_one_result():
    program = taxpr.trace(lambda x: jnp.sin(tag(x * 2, name="h")))(jnp.float32(0))
    xs = np.linspace(-1, 1, 16, dtype=np.float32)

    def work(x):
        gradient = taxpr.grad_at(program, "h")(x)["h"]
        return float(gradient), program.collect().jaxpr

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, xs))
    np.testing.assert_allclose([one for one, _ in found], np.cos(2 * xs), rtol=1e-5)
    assert len({id(jaxpr) for _, jaxpr in found}) == 1


def test_what_was_made_for_recordings_lives_no_longer_than_the_function():
    def f(w):
        h = jnp.sin(w) * 2
        return h.sum()

    taxpr.watch(f, grads=True)(jnp.ones(3))
    taxpr.collect(f, taxpr.var("h"))(jnp.ones(3))
    kept = [weakref.ref(f), weakref.ref(taxpr.trace(f, names=True)(jnp.ones(3)).jaxpr)]
    assert kept[1]() is not None
    del f
    gc.collect()
    assert [one() for one in kept] == [None, None]


def weighed(x):
    def layer(x, w):
        h = tag(jnp.tanh(w * x), name="h")
        return x + h, None

    return jax.lax.scan(layer, x, jnp.arange(1.0, 4.0))[0].sum()


def weighed_by_hand(x, edit):
    for k in range(3):
        x = x + edit(k, np.tanh((k + 1) * x))
    return x.sum()


def test_the_same_sweep_of_other_arrays_compiles_nothing(compiled):
    zeroed = taxpr.sweep(weighed, taxpr.each("h"), taxpr.zero())
    halved = taxpr.sweep(weighed, "h", taxpr.scale, [0.5, 2.0])
    first, other = np.float32([0.1, 0.2]), np.float32([0.3, -0.4])

    def ask(x):
        return [[row["metric"] for row in one(x).rows] for one in (zeroed, halved)]

    def wanted(x):
        off = [weighed_by_hand(x, lambda k, h, at=at: h * (k != at)) for at in range(3)]
        return off, [weighed_by_hand(x, lambda k, h, by=by: h * by) for by in (0.5, 2.0)]

    assert compiled(lambda: ask(first))
    assert compiled(lambda: ask(other)) == 0
    for x in (first, other, np.float32([1.0]), first):  # a shape of its own, and back
        for found, right in zip(ask(x), wanted(x), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-5)


def test_the_same_patch_of_other_arrays_compiles_nothing(compiled):
    ask = taxpr.patch(weighed, taxpr.each("h"), sources="clean")
    runs = [np.float32(x) for x in ([0.1, 0.2], [0.3, -0.4], [0.5, 0.9], [0.0, 1.5])]

    def metrics(clean, corrupted):
        return [row["metric"] for row in ask(clean, corrupted).rows]

    def wanted(clean, corrupted):
        held = []
        weighed_by_hand(clean, lambda k, h: held.append(h) or h)
        return [
            weighed_by_hand(corrupted, lambda k, h, at=at: held[k] if k == at else h)
            for at in range(3)
        ]

    assert compiled(lambda: metrics(*runs[:2]))
    assert compiled(lambda: metrics(*runs[2:])) == 0
    for pair in (runs[:2], runs[2:], ([1.0], [2.0])):
        pair = [np.float32(x) for x in pair]
        np.testing.assert_allclose(metrics(*pair), wanted(*pair), rtol=1e-5)


def test_a_call_with_equal_static_arguments_compiles_nothing(compiled):
    @functools.partial(jax.jit, static_argnames="mode")
    def f(x, mode):
        h = jnp.sin(x) if mode == "sin" else jnp.cos(x)
        return h.sum()

    x = jnp.ones(3)
    taxpr.watch(f)(x, mode="sin")
    assert compiled(lambda: taxpr.watch(f)(x, mode="sin")) == 0
    assert compiled(lambda: taxpr.watch(f)(x, mode="cos")) > 0
