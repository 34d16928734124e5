"""Injection for each example of a batch, against vmap of the injected function."""

import zlib

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close, check_types

import taxpr
from taxpr import per_example, tag

F = jnp.float32


def f(x, w):
    def step(c, t):
        c = tag({"c": jnp.tanh(c * w) + t, "t": t}, name="c")["c"]
        return c, c * 2

    c, ys = jax.lax.scan(step, x.sum(), x)
    return tag(c * w, name="out"), ys


def reads_and_changes(ctx, token, params):
    """Changes what is a float by the state, which takes in the token."""
    token = jax.tree.map(lambda x: x * ctx["scale"] + 0.1, token)
    seen = sum((jnp.sum(x) for x in jax.tree.leaves(token)), start=F(0))
    return token, {"scale": ctx["scale"] * 0.9 + 0.01 * seen, "n": ctx["n"] + 1}


CTX = {"scale": F(1.5), "n": jnp.int32(0)}
X = jnp.arange(24.0).reshape(2, 3, 4) / 10
W = jnp.asarray([0.5, -1.0, 2.0])


@pytest.mark.parametrize(
    ("in_axes", "x"),
    [((0, 0), X[0]), ((1, 0), X[0].T), ((0, 0), X[1])],
)
def test_it_is_vmap_of_the_injected_function(in_axes, x):
    p = taxpr.trace(jax.vmap(f, in_axes=in_axes))(x, W)
    changed = p.inject(per_example(reads_and_changes, CTX))
    check_types(changed.jaxpr)
    out, ctx = jax.jit(changed)(changed.ctx, x, W)
    own = taxpr.inject(f, taxpr.from_function(reads_and_changes, CTX))
    start = own.init(jnp.take(x, 0, axis=in_axes[0]), W[0])
    expected, expected_ctx = jax.vmap(own, in_axes=(None, *in_axes))(start, x, W)
    assert_close(out, expected)
    assert_close(ctx, expected_ctx)
    assert ctx["state"]["n"].tolist() == [5, 5, 5]


def test_nested_vmaps_with_axes_in_other_places():
    def inner(x, w):
        return tag({"x": x * w, "w": w}, name="t")["x"] + w

    fn = jax.vmap(jax.vmap(inner, in_axes=(1, 0), out_axes=1), in_axes=(2, 0))
    x, w = jnp.arange(24.0).reshape(4, 3, 2) / 10, jnp.arange(6.0).reshape(2, 3)
    p = taxpr.trace(fn)(x, w)
    changed = p.inject({"t": [per_example(reads_and_changes, CTX), taxpr.count()]})
    out, ctx = jax.jit(changed)(changed.ctx, x, w)
    ctx, _ = ctx["t"]
    own = taxpr.inject(inner, reads_and_changes)
    both = jax.vmap(jax.vmap(own, in_axes=(None, 1, 0), out_axes=(1, 0)), in_axes=(None, 2, 0))
    expected, expected_ctx = both(CTX, x, w)
    assert_close(out, expected)
    assert_close(ctx["state"], expected_ctx)
    assert ctx["state"]["scale"].shape == (2, 3)


def test_ready_injectors_have_parameters_and_states_for_each_example():
    p = taxpr.trace(jax.vmap(f))(X[0], W)
    changed = p.inject(
        {"out": [per_example(taxpr.scale(3.0)), per_example(taxpr.record())], "c": taxpr.count()}
    )
    ctx = changed.ctx
    assert ctx["out"][0]["values"]["factor"].tolist() == [3.0] * 3
    ctx["out"][0]["values"]["factor"] = jnp.asarray([1.0, 0.0, -1.0])
    (out, _), ctx = jax.jit(changed)(ctx, X[0], W)
    plain, _ = jax.vmap(f)(X[0], W)
    assert_close(out, plain * jnp.asarray([1.0, 0.0, -1.0]))
    [report] = changed.report(ctx)["out"][1].values()
    assert_close(report["values"], out[:, None])
    assert report["count"].tolist() == [1, 1, 1]


def test_statistics_differ_between_examples():
    p = taxpr.trace(jax.vmap(lambda x: tag(x, name="x").sum()))(X[0])
    changed = p.inject({"x": per_example(taxpr.stats())})
    _, ctx = changed(changed.ctx, X[0])
    [report] = changed.report(ctx)["x"].values()
    shown = {"count", "mean", "min", "max", "std", "norm", "nan", "+inf", "-inf", "nonfinite"}
    assert set(report) == shown
    assert_close(report["mean"], X[0].mean(1))
    assert_close(report["std"], X[0].std(1))
    assert_close(report["norm"], jnp.linalg.norm(X[0], axis=1))
    assert report["count"].tolist() == [1, 1, 1]


def test_reports_have_all_axes_of_the_batch():
    p = taxpr.trace(jax.vmap(jax.vmap(lambda x: tag(x, name="x").sum())))(X)
    changed = p.inject([per_example(taxpr.stats()), per_example(taxpr.from_function(counting, 0))])
    _, ctx = changed(changed.ctx, X)
    stats, counted = changed.report(ctx)
    assert_close(stats["t0"]["max"], X.max(2))
    assert counted["*"]["ctx"].tolist() == [[1, 1, 1], [1, 1, 1]]


def counting(n, token, params):
    return token, n + 1


def test_reports_that_differ_in_shape_are_a_list():
    @taxpr.injector(
        state=lambda site: jnp.zeros(site.avals.shape),
        report=lambda state: {"above": state[state > 0.5], "of": "x"},
    )
    def above(token, state):
        return token, token

    p = taxpr.trace(jax.vmap(lambda x: tag(x, name="x")))(X[0])
    changed = p.inject({"x": per_example(above())})
    _, ctx = changed(changed.ctx, X[0])
    [report] = changed.report(ctx)["x"].values()
    assert [one["above"].tolist() for one in report] == [x[x > 0.5].tolist() for x in X[0]]


# ---- keys --------------------------------------------------------------------


@pytest.mark.spread(4)
@pytest.mark.parametrize(
    "key", [3, jax.random.key(3), jax.random.PRNGKey(3)], ids=["seed", "key", "raw"]
)
def test_each_example_draws_noise_with_a_key_of_its_own(key):
    zeros = jnp.zeros((3, 4))

    def g(x):
        return jax.lax.scan(lambda c, t: (tag(c + t, name="c"), None), F(0), x)[0]

    p = taxpr.trace(jax.vmap(g))(zeros)
    changed = p.inject({"c": per_example(taxpr.noise(key, 0.5))})
    out, ctx = jax.jit(changed)(changed.ctx, zeros)
    assert len(set(out.tolist())) == 3
    assert_close(changed(changed.ctx, zeros)[0], out)
    keys = ctx["c"]["values"]["key"]
    assert keys.shape == (3, *jnp.shape(key))
    assert jax.tree.map(jax.typeof, ctx) == jax.tree.map(jax.typeof, changed.ctx)

    [site] = p.tags()
    fold = jax.random.fold_in

    def by_hand(x, number):
        at_tag = fold(fold(jax.random.key(3), number), zlib.crc32(site.address.encode()))
        for fired, t in enumerate(x):
            leaf = fold(fold(at_tag, fired), 0)
            x = x.at[0].add(t + 0.5 * jax.random.normal(leaf))
        return x[0]

    assert_close(out, jax.vmap(by_hand)(zeros, jnp.arange(3)))


def test_each_example_of_nested_vmaps_has_a_number_of_its_own():
    zeros = jnp.zeros((2, 3))
    p = taxpr.trace(jax.vmap(jax.vmap(lambda x: tag(x, name="x"))))(zeros)
    changed = p.inject({"x": per_example(taxpr.noise(7))})
    out, _ = changed(changed.ctx, zeros)
    flat = taxpr.trace(jax.vmap(lambda x: tag(x, name="x")))(zeros.ravel())
    other = flat.inject({"x": per_example(taxpr.noise(7))})
    assert_close(out.ravel(), other(other.ctx, zeros.ravel())[0])
    assert len(set(out.ravel().tolist())) == 6


def test_what_is_no_key_is_said_with_its_tag():
    p = taxpr.trace(jax.vmap(lambda x: tag(x, name="x")))(W)
    with pytest.raises(taxpr.InjectorError, match=r"noise: key is int32\[2\]\. Give .* tag 'x'"):
        p.inject({"x": per_example(taxpr.noise(jnp.arange(2)))})


def test_a_part_that_is_the_same_for_all_examples():
    def fn(x, w):
        return jax.vmap(lambda x: tag({"x": x, "w": w}, name="t")["x"])(x)

    p = taxpr.trace(fn)(W, F(2))
    p.inject(per_example(lambda c, t, _: ({**t, "x": t["x"] * t["w"]}, c)))
    with pytest.raises(taxpr.InjectorError, match="is the same for all examples, and would differ"):
        p.inject(per_example(lambda c, t, _: ({**t, "w": t["x"]}, c)))


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: tag(x, name="x"), r"the tag 'x' \(.*at t0\) is in no vmap"),
        (
            lambda x: (
                jax.vmap(lambda a: tag(a, name="x"))(x),
                jax.vmap(lambda a: tag(a, name="x"))(x[:2]),
            ),
            r"the batch is \(3,\) at the tag 'x' .* and \(2,\) at the tag 'x'",
        ),
    ],
)
def test_tags_without_a_batch_or_with_different_ones(fn, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.trace(fn)(W).inject({"x": per_example(taxpr.count())})


@pytest.mark.parametrize(
    ("injector", "message"),
    [
        (lambda c, t, p: t, "it returned a .*An injector returns"),
        (lambda c, t, p: ({"a": t}, c), "it changed the structure of the token"),
        (lambda c, t, p: (t.astype(jnp.int32), c), "expected float32"),
    ],
)
def test_what_an_injector_of_one_example_must_keep(injector, message):
    p = taxpr.trace(jax.vmap(lambda x: tag(x, name="x")))(W)
    with pytest.raises(taxpr.InjectorError, match=message):
        p.inject(per_example(injector))


def test_plant_is_told_its_tag():
    with pytest.raises(taxpr.InjectorError, match="per_example: plant depends on its tag"):
        per_example(taxpr.plant(1.0))
