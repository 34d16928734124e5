"""The ready injectors and those of users, and what is said of mistakes."""

import dataclasses
import functools
import inspect
import re
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import tag
from taxpr._injectors import edits, probes
from taxpr._jaxprs.zeros import zeros

XS = jnp.asarray([1.0, -2.0, 3.0, 0.5])


def loop(xs):
    def step(c, x):
        y = tag(x * 2, name="y")
        return c + y, None

    return jax.lax.scan(step, jnp.float32(0), xs)[0]


def run(injector, fn=loop, arg=XS, where="y"):
    p = taxpr.trace(fn)(arg).inject(injector, where=where)
    out, ctx = jax.jit(p)(p.ctx, arg)
    return out, next(iter(p.report(ctx).values()), {})


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("injector", "each"),
    [
        (taxpr.scale(0.5), lambda y: y * 0.5),
        (taxpr.add(1.5), lambda y: y + 1.5),
        (taxpr.replace(7.0), lambda y: 7.0),
        (taxpr.replace(value=jnp.float32(3)), lambda y: 3.0),
        (taxpr.zero(), lambda y: 0.0),
        (taxpr.clip(-1.0, 2.5), lambda y: min(max(y, -1.0), 2.5)),
        (taxpr.clip(high=0.0), lambda y: min(y, 0.0)),
        (taxpr.clip(low=2.5), lambda y: max(y, 2.5)),
        (taxpr.clip(), lambda y: y),
        (taxpr.count(), lambda y: y),
        (taxpr.record(), lambda y: y),
        (taxpr.stats(), lambda y: y),
        (taxpr.check_finite(), lambda y: y),
        (taxpr.print(), lambda y: y),
        (taxpr.stop_gradient(), lambda y: y),
        (taxpr.cast(jnp.int32), lambda y: y),
        (taxpr.cast("int4"), lambda y: y),
        (taxpr.noise(0, 0.0), lambda y: y),
    ],
)
def test_what_they_do_to_the_token(injector, each):
    out, _ = run(injector)
    assert np.isclose(out, sum(each(2 * float(x)) for x in XS))


def test_count():
    assert run(taxpr.count())[1]["count"] == 4


@pytest.mark.parametrize(("slots", "kept"), [(None, 4), (4, 4), (3, 3), (1, 1), (9, 4)])
def test_record_keeps_the_last_values_in_order(slots, kept):
    _, report = run(taxpr.record(slots=slots))
    assert report["count"] == 4
    assert report["values"].tolist() == (2 * XS).tolist()[-kept:]


def test_record_keeps_trees_and_keys():
    def f(x):
        def step(key, x):
            key, sub = jax.random.split(key)
            t = tag({"k": sub, "x": x, "i": jnp.int8(1)}, name="y")
            return key, t["x"]

        return jax.lax.scan(step, jax.random.key(0), x)[1]

    _, report = run(taxpr.record(), f)
    assert report["values"]["k"].shape == (4,)
    assert report["values"]["i"].dtype == jnp.int8
    subs, key = [], jax.random.key(0)
    for _ in XS:
        key, sub = jax.random.split(key)
        subs.append(jax.random.key_data(sub))
    assert np.array_equal(jax.random.key_data(report["values"]["k"]), np.stack(subs))


def test_record_in_a_while_loop_keeps_the_last():
    def f(x):
        return jax.lax.while_loop(lambda c: c < 9, lambda c: tag(c * 2, name="y"), x)

    _, report = run(taxpr.record(), f, 1.0)
    assert (report["count"], report["values"].tolist()) == (4, [16.0])


def test_stats_are_those_of_all_values():
    def f(xs):
        return jax.lax.map(lambda x: tag((x, jnp.stack([x, 2 * x])), name="y")[0], xs)

    _, report = run(taxpr.stats(), f)
    values = np.concatenate([[x, x, 2 * x] for x in np.asarray(XS)])
    for name, expected in {
        "count": 4,
        "mean": values.mean(),
        "std": values.std(),
        "min": values.min(),
        "max": values.max(),
        "norm": np.linalg.norm(values),
        "nan": 0,
        "+inf": 0,
        "-inf": 0,
        "nonfinite": 0,
    }.items():
        assert np.isclose(report[name], expected), name


def test_stats_of_more_elements_than_an_int32_counts():
    p = taxpr.trace(lambda x: tag(x, name="y"))(XS).inject(taxpr.stats())
    ctx = p.ctx
    # As after 2**31 - 2 values of which the mean is 2 and the deviation 1.
    before = {"blocks": 1, "elements": 2**30 - 2, "mean": 2.0, "squares": 2.0**31, "count": 9}
    state = ctx["state"]["t0"]
    state |= {name: jnp.asarray(value, state[name].dtype) for name, value in before.items()}
    report = p.report(p(p(ctx, XS)[1], XS)[1])["t0"]
    assert np.isclose(report["mean"], 2.0)
    assert np.isclose(report["std"], 1.0)
    assert np.isclose(report["norm"], np.sqrt(5.0 * 2**31))


def test_stats_count_what_is_not_finite_and_leave_it_out():
    _, report = run(taxpr.stats(), lambda x: tag(jnp.log(x), name="y"))
    finite = np.log(np.asarray([1.0, 3.0, 0.5]))
    assert (report["nonfinite"], report["nan"], report["-inf"]) == (1, 1, 0)
    assert np.isclose(report["mean"], finite.mean())
    assert np.isclose(report["min"], finite.min())


def test_check_finite_remembers_the_first():
    xs = jnp.asarray([1.0, 0.0, jnp.nan, jnp.inf])

    def f(xs):
        def step(c, x):
            return c, tag({"x": jnp.stack([x, 1 / x]), "n": jnp.int32(0)}, name="y")["x"]

        return jax.lax.scan(step, 0.0, xs)[1]

    out, report = run(taxpr.check_finite(), f, xs)
    assert {k: int(v) for k, v in report.items()} == {
        "count": 4,
        "nan": 2,
        "+inf": 2,
        "-inf": 0,
        "nonfinite": 1 + 2 + 1,
        "firings": 3,
        "first": 1,
        "first_nan": 2,
    }
    assert np.array_equal(out, f(xs), equal_nan=True)
    _, report = run(taxpr.check_finite(), f, jnp.asarray([1.0, 2.0]))
    assert (report["count"], report["firings"], report["first"]) == (2, 0, -1)
    _, report = run(taxpr.check_finite(), lambda x: tag(x, name="y"), jax.random.key(0))
    assert (report["count"], report["nonfinite"]) == (1, 0)


def kinds(report):
    return {name: int(report[name]) for name in ("nan", "+inf", "-inf", "nonfinite")}


@pytest.mark.parametrize("kind", [taxpr.check_finite, taxpr.stats], ids=repr)
def test_a_mask_is_no_nan(kind):
    def attention(x):
        scores = x @ x.T
        mask = jnp.tril(jnp.ones(scores.shape, bool))
        return jax.nn.softmax(tag(jnp.where(mask, scores, -jnp.inf), name="y"))

    out, report = run(kind(), attention, jnp.ones((4, 2)))
    assert jnp.isfinite(out).all()
    assert kinds(report) == {"nan": 0, "+inf": 0, "-inf": 6, "nonfinite": 6}
    assert "first" not in report or (report["first"], report["first_nan"]) == (0, -1)


INF = float("inf")


@pytest.mark.parametrize(
    ("values", "nan", "above", "below"),
    [
        ([complex(np.nan, INF), complex(-INF, np.nan)], 2, 0, 0),
        ([complex(INF, 1), complex(1, INF), complex(-INF, INF), complex(0, -INF), 1j], 0, 2, 2),
    ],
)
def test_check_finite_counts_a_complex_number_once(values, nan, above, below):
    _, report = run(
        taxpr.check_finite(), lambda x: tag(x, name="y"), jnp.asarray(values, jnp.complex64)
    )
    found = {"nan": nan, "+inf": above, "-inf": below, "nonfinite": nan + above + below}
    assert kinds(report) == found


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "dtype", [jnp.float16, jnp.bfloat16, jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz]
)
@pytest.mark.parametrize("kind", [taxpr.check_finite, taxpr.stats], ids=repr)
def test_what_is_not_finite_in_small_floats(kind, dtype):
    x = jnp.asarray([1.0, np.nan, INF, -INF], jnp.float32).astype(dtype)
    _, report = run(kind(), lambda x: tag(x, name="y"), x)
    wide = np.asarray(x, np.float64)
    assert kinds(report) == {
        "nan": np.isnan(wide).sum(),
        "+inf": np.isposinf(wide).sum(),
        "-inf": np.isneginf(wide).sum(),
        "nonfinite": (~np.isfinite(wide)).sum(),
    }


def test_check_finite_for_each_lane():
    p = taxpr.trace(lambda x: tag(jnp.log(x), name="y"))(1.0).inject(taxpr.check_finite())
    _, ctx = jax.vmap(p, in_axes=(None, 0))(p.ctx, jnp.asarray([1.0, -1.0, 0.0]))
    assert p.report(ctx)["t0"]["first"].tolist() == [-1, 0, 0]


# ---- print -------------------------------------------------------------------


def printed(capsys, injected, *args):
    jax.block_until_ready(injected(injected.ctx, *args))
    jax.effects_barrier()
    return sorted(capsys.readouterr().out.splitlines())


@pytest.mark.spread(2)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint, jax.value_and_grad])
def test_print_in_loops_and_branches(capsys, wrap):
    def f(x):
        x = jax.lax.scan(lambda c, x: (tag(c + x, name="s{0}"), None), x, jnp.arange(2.0))[0]
        x = jax.lax.fori_loop(0, 2, lambda i, c: tag(c * 2, layer=3), x)
        return jax.lax.cond(x > 0, lambda x: tag(x, name="yes"), lambda x: tag(-x, name="no"), x)

    p = taxpr.trace(wrap(f))(1.0).inject(taxpr.print())
    lines = ["s{0}: 1.0", "s{0}: 2.0", "yes: 8.0", "{'layer': 3}: 4.0", "{'layer': 3}: 8.0"]
    assert printed(capsys, p, 1.0) == lines
    assert (
        printed(
            capsys,
            taxpr.trace(jax.jit(p))(p.ctx, 1.0).inject(taxpr.zero(), where=taxpr.maybe("x")),
            p.ctx,
            1.0,
        )
        == lines
    )


def test_print_of_trees_keys_and_lanes(capsys):
    key = jax.random.key(7)
    p = taxpr.trace(lambda x: tag((x, {"k": key}), name="t")[0])(XS[0]).inject(taxpr.print())
    both = "t: (Array({}, dtype=float32), {{'k': Array([0, 7], dtype=uint32)}})"
    assert printed(capsys, p, XS[0]) == [both.format("1.")]
    lanes = jax.vmap(p, in_axes=(None, 0))
    jax.block_until_ready(lanes(p.ctx, XS[:2]))
    assert sorted(printed(capsys, p, XS[2])) == sorted(both.format(x) for x in ("1.", "-2.", "3."))


# ---- noise -------------------------------------------------------------------


def test_noise_is_drawn_anew_at_each_firing_and_tag():
    def f(xs):
        def step(c, x):
            return c, (tag(x, name="y"), tag((x, jax.lax.complex(x, x)), name="pair"))

        return jax.lax.scan(step, 0.0, xs)[1]

    key = jax.random.key(3)
    p = taxpr.trace(f)(XS).inject(taxpr.noise(key, 0.5))
    (y, (real, imaginary)), ctx = jax.jit(p)(p.ctx, XS)

    def drawn(address, firing, leaf, dtype=jnp.float32):
        site = jax.random.fold_in(key, zlib.crc32(address.encode()))
        leaf_key = jax.random.fold_in(jax.random.fold_in(site, firing), leaf)
        return 0.5 * jax.random.normal(leaf_key, (), dtype)

    pair = "0:scan/body/t1"
    for i, x in enumerate(XS):
        assert np.isclose(y[i], x + drawn("0:scan/body/t0", i, 0))
        assert np.isclose(real[i], x + drawn(pair, i, 0))
        assert np.isclose(imaginary[i], jax.lax.complex(x, x) + drawn(pair, i, 1, jnp.complex64))
    assert len({float(d) for d in y - XS} | {float(d) for d in real - XS}) == 8
    again, _ = p(p.ctx, XS)
    assert np.array_equal(again[0], y)
    more, _ = p(ctx, XS)  # a context goes on where it ended
    assert not np.any(np.isclose(more[0], y))


@pytest.mark.spread(6)
@pytest.mark.parametrize("key", [jax.random.key(5), jax.random.PRNGKey(5), 5, np.int64(5)], ids=str)
def test_keys_of_noise(key):
    expected, _ = run(taxpr.noise(jax.random.key(5)), lambda x: tag(x, name="y"))
    assert np.array_equal(run(taxpr.noise(key), lambda x: tag(x, name="y"))[0], expected)


def test_noise_has_the_deviation_that_was_asked_for():
    x = jnp.full(10_000, 2.0, jnp.bfloat16)
    out, _ = run(taxpr.noise(0, stddev=0.5), lambda x: tag(x, name="y"), x)
    assert out.dtype == jnp.bfloat16
    out = np.asarray(out, np.float32)
    assert abs(out.mean() - 2) < 0.02
    assert abs(out.std() - 0.5) < 0.02


def test_another_key_does_not_compile_again():
    p = taxpr.trace(lambda x: tag(x, name="y"))(XS).inject(taxpr.noise(jax.random.key(0)))
    compiled = jax.jit(p).lower(p.ctx, XS).compile()
    other = {**p.ctx, "values": {"key": jax.random.key(1), "stddev": jnp.float32(2)}}
    assert not np.any(np.isclose(compiled(other, XS)[0], compiled(p.ctx, XS)[0]))
    lanes = jax.vmap(p, in_axes=({"values": {"key": 0, "stddev": None}, "state": None}, None))
    keys = {**p.ctx, "values": {"key": jax.random.split(jax.random.key(0)), "stddev": 1.0}}
    first, second = lanes(keys, XS)[0]
    assert not np.any(np.isclose(first, second))


# ---- cast and stop_gradient --------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.float32(1.001), jnp.bfloat16, np.float32(1.0)),
        (np.float32(1e6), jnp.float16, np.float32(np.inf)),
        (np.float32(-1.7), "int8", np.float32(-1.0)),
        (np.int32(300), jnp.int8, np.int32(44)),
        (np.complex64(1 + 1j / 3), "complex64", np.complex64(1 + 1j / 3)),
        (np.float32(0.3), np.dtype("float64"), np.float32(0.3)),
    ],
)
def test_cast(value, dtype, expected):
    out, _ = run(taxpr.cast(dtype), lambda x: tag(x, name="y"), value)
    assert out.dtype == expected.dtype
    assert out == expected


def test_cast_rounds_compiled_and_eager_alike_and_has_a_gradient():
    p = taxpr.trace(lambda x: tag(x, name="y") ** 2)(XS[0]).inject(taxpr.cast())
    x = jnp.float32(1.001)
    for run_it in (p, jax.jit(p)):
        assert run_it(p.ctx, x)[0] == 1.0
        assert jax.grad(lambda x, run_it=run_it: run_it(p.ctx, x)[0])(x) == 2.0
    assert jax.vmap(p, in_axes=(None, 0))(p.ctx, x[None])[0] == 1.0
    assert "bf16" in jax.jit(p).lower(p.ctx, x).as_text()


def test_stop_gradient():
    def f(x):
        return tag(x * 2, name="y") * x

    p = taxpr.trace(f)(3.0).inject(taxpr.stop_gradient(), where="y")
    value, gradient = jax.value_and_grad(lambda x: p(p.ctx, x)[0])(3.0)
    assert (value, gradient) == (18.0, 6.0)
    assert jax.jvp(lambda x: p(p.ctx, x)[0], (3.0,), (1.0,)) == (18.0, 6.0)
    key, _ = run(
        taxpr.stop_gradient(), lambda k: tag((k, jnp.int8(3)), name="y"), jax.random.key(1)
    )
    assert key[1] == 3


# ---- state -------------------------------------------------------------------


def test_state_goes_from_set_to_get_through_loops_and_branches():
    def f(xs):
        def step(c, x):
            held = tag(jnp.float32(0), name="sum", op="get")
            held = jax.lax.cond(x > 0, lambda: tag(held + x, name="sum", op="set"), lambda: held)
            n = tag(tag({"n": 0}, name="n", op="get"), op="nothing")["n"]
            return c, (held, tag({"n": n + 1}, name="n", op="set")["n"])

        return jax.lax.scan(step, 0.0, xs)[1]

    p = taxpr.trace(f)(XS)
    p = p.inject({"sum": taxpr.state(jnp.float32(10)), "n": taxpr.state({"n": 5})})
    (sums, ns), ctx = jax.jit(p)(p.ctx, XS)
    assert sums.tolist() == [11.0, 11.0, 14.0, 14.5]
    assert ns.tolist() == [6, 7, 8, 9]
    assert p.report(ctx) == {"sum": {"*": {"state": 14.5}}, "n": {"*": {"state": {"n": 9}}}}
    (sums, _), _ = p(ctx, XS)
    assert sums.tolist() == [15.5, 15.5, 18.5, 19.0]


@pytest.mark.parametrize(
    ("params", "initial", "message"),
    [
        ({}, 0.0, "state: the tag has no op. A tag that reads"),
        ({"op": "read"}, 0.0, "state: the tag has op='read'. A tag that reads"),
        ({"op": "get"}, 0, r"the state is int32\[\] and the token is float32\[\]. Begin with"),
        ({"op": "set"}, jnp.ones(2), r"the state is float32\[2\] and the token is float32\[\]"),
        ({"op": "set"}, (0.0,), r"the state is \('float32\[\]',\) and the token is float32"),
    ],
)
def test_tags_that_do_not_fit_a_state(params, initial, message):
    p = taxpr.trace(lambda x: tag(x, **params))(1.0)
    with pytest.raises(taxpr.InjectorError, match=message):
        p.inject(taxpr.state(initial))


# ---- dtypes ------------------------------------------------------------------

TYPED = [
    (taxpr.scale(2), jnp.int32, 6),
    (taxpr.scale(2.0), jnp.int32, 6),
    (taxpr.add(1.0), jnp.int8, 4),
    (taxpr.replace(0.0), jnp.uint8, 0),
    (taxpr.replace(1.0), jnp.bool_, True),
    (taxpr.clip(0, 2), jnp.uint8, 2),
    (taxpr.scale(0.5), jnp.bfloat16, 1.5),
    (taxpr.scale(0.5), jnp.complex64, 1.5),
    (taxpr.clip(0.0, 2.0), jnp.int32, 2),
    (taxpr.clip(), jnp.int32, 3),
    (taxpr.replace(2**32 - 1), jnp.uint32, np.uint32(2**32 - 1)),
    (taxpr.replace(2**40), jnp.float32, 2.0**40),
    (taxpr.clip(low=5), jnp.uint8, 5),
    (taxpr.clip(high=1), jnp.int8, 1),
    (taxpr.clip(low=3.5), jnp.int32, 4),
    (taxpr.clip(high=2.5), jnp.int32, 2),
    (taxpr.clip(high=2.5), jnp.float16, 2.5),
    (taxpr.zero(), jnp.bool_, False),
]


@pytest.mark.parametrize(("injector", "dtype", "expected"), TYPED)
def test_the_token_keeps_its_dtype(injector, dtype, expected):
    out, _ = run(injector, lambda x: tag(x, name="y"), jnp.asarray(3, dtype))
    assert out.dtype == dtype
    assert out == expected


@pytest.mark.parametrize(
    ("injector", "arg", "message"),
    [
        (taxpr.scale(0.5), jnp.int32(3), "scale: factor is float32 and the token is int32"),
        (taxpr.add(0.5), jnp.int32(3), "add: value is float32 and the token is int32"),
        (taxpr.clip(), jnp.complex64(1), "clip: the token is complex"),
        (taxpr.scale(1j), jnp.float32(1), "scale: factor is complex64 and the token is float32"),
        (taxpr.scale(2.0), jax.random.key(0), "scale: the token is a key<fry>, which has"),
        (taxpr.stats(), jax.random.key(0), "stats: the token is a key<fry>"),
        (
            taxpr.clip(-1, 1),
            jnp.uint8(3),
            "clip: low=-1 does not fit the token, which is uint8",
        ),
        (taxpr.replace(300), jnp.uint8(3), "replace: value=300 does not fit .* holds 0 to 255"),
        (taxpr.add(3e9), jnp.int32(3), "add: value=3000000000 does not fit the token"),
        (taxpr.add(1), jnp.bool_(True), "add: the token is a bool, which has no"),
        (taxpr.replace(2), jnp.bool_(True), "replace: value=2 does not fit .* holds 0 to 1"),
        (taxpr.clip(0, 2), jnp.bool_(True), "clip: the token is a bool, which .* for the tag"),
        (taxpr.scale(3.0), jnp.bool_(True), "scale: the token is a bool, which has no"),
        (taxpr.noise(0), jnp.int32(3), "noise: the token is int32, and noise is a fraction"),
        (taxpr.noise(0), jax.random.key(0), "noise: the token is key<fry>, and noise is a"),
        (taxpr.noise(0, 1j), jnp.float32(3), "noise: stddev is complex64 and the token is float32"),
        (taxpr.noise(jax.random.split(jax.random.key(0))), XS, r"noise: key is key<fry>\[2\]"),
        (taxpr.cast("complex64"), XS, "the token is float32 and dtype is complex64. Complex"),
        (taxpr.cast(), jnp.complex64(1), "the token is complex64 and dtype is bfloat16"),
        (taxpr.cast(), jnp.bool_(1), "cast: the token is a bool, which has no arithmetic"),
        (
            taxpr.replace(jnp.ones(3)),
            jnp.ones(2),
            r"the value has shape \(3,\) and the token \(2,\)",
        ),
    ],
)
def test_values_that_do_not_fit_the_token(injector, arg, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        run(injector, lambda x: tag(x, name="y"), arg)


def test_parameters_that_there_are_not():
    with pytest.raises(taxpr.InjectorError, match=r"scale: .*'factr'\. It takes factor\."):
        taxpr.scale(factr=1.0)
    with pytest.raises(taxpr.InjectorError, match=r"zero: .*It takes no parameters"):
        taxpr.zero(1.0)


def test_parameters_that_are_missing_or_traced():
    with pytest.raises(taxpr.InjectorError, match=r"noise: .*'key'\. It takes key, stddev\."):
        taxpr.noise(stddev=0.5)
    with pytest.raises(taxpr.InjectorError, match="record: slots is fixed when tracing"):
        jax.jit(lambda n: run(taxpr.record(slots=n)))(3)


def test_a_value_set_later_is_brought_into_the_range_of_the_token():
    p = taxpr.trace(lambda x: tag(x, name="y"))(jnp.uint8(3)).inject(taxpr.replace(7), where="y")
    ctx = {**p.ctx, "values": {"value": jnp.int32(300)}}
    assert p(ctx, jnp.uint8(3))[0] == 255


@pytest.mark.parametrize(
    ("injector", "message"),
    [
        (lambda: taxpr.scale("a"), "scale: factor='a' is no number or array"),
        (lambda: taxpr.add(None), "add: value is a NoneType, where the token has"),
        (
            lambda: taxpr.scale({"a": 1.0}),
            r"scale: factor is a dict, where the token has an array\. Give a",
        ),
    ],
)
def test_parameters_that_are_no_numbers(injector, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        run(injector())


def test_a_value_of_another_structure():
    f = lambda x: tag({"a": x, "b": x}, name="y")["a"]
    with pytest.raises(taxpr.InjectorError, match=r"replace: the value has .*'a': \*}"):
        run(taxpr.replace({"a": 1.0}), f)
    assert run(taxpr.replace([7.0, 8.0, 9.0, 0.0]), lambda x: tag(x, name="y"))[0][1] == 8


def test_the_report_of_a_mapped_context_is_one_of_each_lane():
    p = taxpr.trace(loop)(XS).inject(taxpr.record())
    _, ctx = jax.vmap(p, in_axes=(None, 0))(p.ctx, jnp.stack([XS, 2 * XS]))
    with pytest.raises(
        taxpr.ArgumentError, match=r"record: .* jax\.vmap .* each batch element by itself"
    ):
        p.report(ctx)
    [report] = p.report(jax.tree.map(lambda x: x[1], ctx)).values()
    assert np.array_equal(report["values"], 4 * XS)


def test_a_kind_is_no_injector_yet():
    with pytest.raises(taxpr.InjectorError, match=r"call it, scale\(factor=0.5\)\."):
        taxpr.trace(loop)(XS).inject(taxpr.scale)
    with pytest.raises(taxpr.InjectorError, match=r"call it, scale\(factor=0.5\)\."):
        taxpr.trace(loop)(XS).inject({"y": taxpr.scale})


@pytest.mark.parametrize("wrong", [lambda t: t * 2, lambda ctx, token: (token, ctx), jnp.sin])
def test_a_function_that_takes_something_else(wrong):
    with pytest.raises(taxpr.InjectorError, match=r"takes three arguments and .*\(token, ctx\)"):
        taxpr.trace(loop)(XS).inject(wrong)


@pytest.mark.parametrize("wrong", ["scale", None, 3])
def test_what_is_no_injector(wrong):
    with pytest.raises(taxpr.InjectorError, match=r"An injector is made by a kind, as in scale"):
        taxpr.trace(loop)(XS).inject({"y": wrong})
    with pytest.raises(taxpr.InjectorError, match=r"An injector is made by a kind, as in scale"):
        taxpr.trace(loop)(XS).inject(wrong)


def test_a_function_without_ctx_that_returns_the_wrong_order():
    def swapped(ctx, token, params):
        return ctx, token

    with pytest.raises(taxpr.InjectorError, match=r"swapped returned \(ctx, token\)") as info:
        taxpr.trace(loop)(XS).inject({"y": swapped})
    assert info.match(r"This is at tag 'y' \(.*, at 0:scan/body/t0\)")


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "dtype", [jnp.float32, jnp.float16, jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int8, jnp.uint32]
)
def test_a_bound_that_is_not_given_holds_nothing_back(dtype):
    held = jnp.finfo(dtype) if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype)
    ends = [held.min, 0, held.max]
    if dtype in (jnp.float32, jnp.float16, jnp.float8_e5m2):  # the others have no infinity
        ends += [-np.inf, np.inf]
    x = jnp.asarray(np.asarray(ends).astype(dtype))
    low, high = x[0].item(), x[2].item()
    for clip in (taxpr.clip(), taxpr.clip(low=low), taxpr.clip(high=high)):
        out = run(clip, lambda x: tag(x, name="y"), x)[0]
        finite = np.isfinite(np.asarray(x, np.float64))
        np.testing.assert_array_equal(np.asarray(out)[finite], np.asarray(x)[finite])
    assert jnp.array_equal(run(taxpr.clip(), lambda x: tag(x, name="y"), x)[0], x)


def test_a_token_of_several_dtypes_has_open_bounds():
    x = {"i": jnp.int32(-7), "f": jnp.float32(-7)}
    out, _ = run(taxpr.clip(high=3.0), lambda x: tag(x, name="y"), x)
    assert jax.tree.map(float, out) == {"i": -7.0, "f": -7.0}


def test_the_gradient_passes_an_open_bound():
    p = taxpr.trace(lambda x: tag(x, name="y"))(1.0).inject(taxpr.clip(high=3.0))
    assert [float(jax.grad(lambda x: p(p.ctx, x)[0])(x)) for x in (-9.0, 5.0)] == [1.0, 0.0]


def test_bounds_that_are_swapped():
    message = r"clip: low=1\.0 is above high=-1\.0\..* the smaller bound as low"
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.clip(1.0, -1.0)
    with pytest.raises(taxpr.InjectorError, match=r"clip: low=.* is above"):
        taxpr.clip(jnp.array([0.0, 2.0]), 1.0)
    changed = dataclasses.replace(taxpr.clip(-1.0, 1.0), values={"low": 2.0, "high": 1.0})
    with pytest.raises(taxpr.InjectorError, match=r"clip: low=2\.0 is above high=1\.0"):
        run(changed)
    # What is traced has no value yet.
    expected = run(taxpr.clip(1.0, 3.0))[0]
    assert jax.jit(lambda low: run(taxpr.clip(low, 3.0))[0])(1.0) == expected


def test_options_are_checked_where_they_are_given():
    for slots in (0, -1, 1.5, "a"):
        with pytest.raises(taxpr.InjectorError, match=r"record: slots=.*a number from 1 on"):
            taxpr.record(slots=slots)
    for dtype in ("f33", None):
        with pytest.raises(taxpr.InjectorError, match=f"cast: dtype={dtype!r} is no dtype of num"):
            taxpr.cast(dtype)


def test_a_check_of_ones_own():
    def check(few, many):
        if few > many:
            raise taxpr.InjectorError("pick: few is more than many.")

    @taxpr.injector(few=taxpr.Param(1), many=taxpr.Param(2), check=check)
    def pick(token, few, many):
        return token

    pick(1, 3)
    with pytest.raises(taxpr.InjectorError, match="pick: few is more than many"):
        pick(3)


def test_kinds_say_what_they_take():
    assert str(inspect.signature(taxpr.clip)).startswith("(low=-inf, high=inf)")


def test_partials_are_injectors():
    def by(factor, ctx, token, params):
        return token * factor, ctx

    out, _ = run(functools.partial(by, 0.5))
    assert np.isclose(out, XS.sum())
    out, _ = run(taxpr.from_function(functools.partial(by, 0.5)))
    assert np.isclose(out, XS.sum())


def test_every_ready_injector_is_declared():
    for name, kind in taxpr.ready_injectors().items():
        assert (kind.name, getattr(taxpr, name)) == (name, kind)
        assert kind.doc.endswith(".")
        for param in kind.params.values():
            assert param.help
            if param.default is not inspect.Parameter.empty and np.isfinite(param.default):
                assert param.low <= param.default <= param.high


# ---- injectors of users ------------------------------------------------------


def test_a_kind_with_state():
    @taxpr.injector(
        rate=taxpr.Param(0.5, 0.0, 1.0),
        state=lambda site: jnp.zeros(site.avals.shape),
        report=lambda state: {"average": state},
    )
    def average(token, state, rate):
        """Replace the token by its moving average."""
        state = state * rate + token * (1 - rate)
        return state, state

    out, report = run(average(rate=0.25))
    moving, total = 0.0, 0.0
    for x in XS:
        moving = moving * 0.25 + 2 * float(x) * 0.75
        total += moving
    assert np.isclose(out, total)
    assert np.isclose(report["average"], moving)


def test_a_kind_with_options_and_params():
    @taxpr.injector(
        options={"power": 2, "unit": "m"},
        state=lambda site, unit: {unit: 0},
        report=dict,
    )
    def raised(token, state, power, params):
        """Raise to a power, and count the tags of a layer."""
        unit = next(iter(state))
        return token**power, {unit: state[unit] + params["layer"]}

    f = lambda x: tag(x, name="y", layer=3)
    out, report = run(raised(power=3, unit="k"), f, 2.0)
    assert (out, report) == (8.0, {"k": 3})
    assert run(raised(), f, 3.0) == (9.0, {"m": 3})
    assert raised(3).options == {"power": 3}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"rat": taxpr.Param(1.0)}, "injector: f declares rat and does not take it"),
        ({"options": {"slots": 3}}, "f declares slots and does not take it"),
        (
            {"params": taxpr.Param(1.0)},
            "f declares params and does not take it.* params are the params of the tag",
        ),
    ],
)
def test_kinds_that_do_not_take_what_they_declare(declared, message):
    with pytest.raises(taxpr.InjectorError, match=message):

        @taxpr.injector(**declared)
        def f(token, rate=1.0, params=None):
            return token


WRONG = [
    (lambda c, t, p: (c, t), r"returned \(ctx, token\). An injector returns \(token, ctx\)"),
    (lambda c, t, p: t, r"returned a \w+. An injector returns \(token, ctx\)"),
    (lambda c, t, p: (t[None], c), r"changed token: expected float32\[\], got float32\[1\]"),
    (lambda c, t, p: (t > 0, c), r"expected float32\[\], got bool\[\]. Convert it: x.astype"),
    (lambda c, t, p: (t, c[0]), "changed the structure of the ctx: expected .* got"),
    (
        lambda c, t, p: (t, (c[0].astype(float), c[1])),
        r"changed ctx\[0\]: expected int32\[\], got float32",
    ),
    (lambda c, t, p: ("no", c), "returned a str as token, where float32"),
    (lambda c, t, p: (t, (*c, 1)), "changed the structure of the ctx"),
]


@pytest.mark.parametrize(("injector", "message"), WRONG)
def test_injectors_that_break_the_program(injector, message):
    place = r"tag 'y' \(test_injectors.py:\d+ in step, at 1:scan/body/t0\)"
    p = taxpr.trace(lambda xs: loop(jnp.abs(xs)))(XS)
    with pytest.raises(taxpr.InjectorError, match=message) as info:
        p.inject(injector, (0, jnp.ones(2)))
    assert info.match(place)


def test_what_an_injector_raises_says_where():
    def broken(c, token, params):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as info:
        taxpr.trace(loop)(XS).inject(broken)
    assert "raised by the injector 'broken' at tag 'y'" in str(info.value)


def test_a_ctx_that_is_no_array():
    with pytest.raises(taxpr.InjectorError, match="the ctx holds a str, 'no'"):
        taxpr.trace(loop)(XS).inject(lambda c, t, p: (t, c), {"a": "no"})


def test_an_injector_may_change_the_dict_that_it_got():
    def injector(ctx, token, params):
        ctx["n"] += 1
        return token, ctx

    p = taxpr.trace(loop)(XS).inject(injector, {"n": 0})
    assert p(p.ctx, XS)[1]["n"] == 4
    assert p.ctx["n"] == 0


def test_weak_types_of_the_ctx_become_strong_and_tokens_keep_theirs():
    p = taxpr.trace(lambda x: tag(x, name="y") * 2)(1.0)
    new = p.inject(lambda c, t, _: (jnp.float32(3), c + 1), 0)
    out, n = new(new.ctx, 1.0)
    assert (out.weak_type, n.weak_type, out.dtype) == (True, False, jnp.float32)


# ---- numbers at the ends of their ranges -----------------------------------------


def test_counts_of_what_is_not_finite_stay_at_the_greatest_number():
    x = jnp.full(2**16, jnp.nan)

    def f(x):
        return jax.lax.fori_loop(0, 2**15 + 1, lambda i, c: c + tag(x, name="x")[0], 0.0)

    checked = taxpr.trace(f)(x).inject(taxpr.check_finite())
    [found] = checked.report(jax.jit(checked)(checked.ctx, x)[1]).values()
    assert found["nan"] == found["nonfinite"] == 2**31 - 1


def test_statistics_of_great_numbers():
    watched = taxpr.trace(lambda x: tag(x, name="x"))(jnp.ones(4)).inject(taxpr.stats())
    [found] = watched.report(watched(watched.ctx, jnp.full(4, 3e19))[1]).values()
    assert (found["std"], found["norm"]) == (0, jnp.inf)


def test_statistics_and_checks_agree_on_complex_numbers():
    x = jnp.array([complex(np.inf, np.nan), complex(3e38, 3e38)], jnp.complex64)
    looked = taxpr.trace(lambda x: tag(x, name="x"))(x).inject(
        [taxpr.stats(), taxpr.check_finite()]
    )
    kinds = ("nan", "+inf", "-inf", "nonfinite")
    found = [
        [int(one[kind]) for kind in kinds]
        for report in looked.report(looked(looked.ctx, x)[1])
        for one in report.values()
    ]
    assert found == [[1, 0, 0, 1]] * 2


@pytest.mark.parametrize("room", [edits, probes])
def test_a_ready_injector_is_named_wherever_they_are_listed(room):
    """Also in the README; that the reference has it is tested with the pages."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    made = [name for name, one in vars(room).items() if isinstance(one, taxpr.InjectorKind)]
    assert made
    imports = Path(taxpr.__file__).read_text("utf-8").partition("__all__")[0]
    for where, names in {
        "ready_injectors() in taxpr/injectors.py": taxpr.ready_injectors(),
        "__all__ in taxpr/injectors.py": taxpr.injectors.__all__,
        "the imports of taxpr/__init__.py": [*re.findall(r"\w+", imports), "print"],
        "the list of ready injectors in README.md": re.findall(r"`(\w+)`", readme),
    }.items():
        assert not {*made} - {*names}, f"name it in {where}"


def test_large_buffers_are_zeros_in_and_out_of_a_trace():
    for shape, dtype in [((3, 2**20), "float32"), ((2**21,), "bfloat16"), ((2**20, 2), "bool")]:
        want = np.zeros(shape, jnp.dtype(dtype))
        for made in (zeros(shape, dtype), jax.jit(functools.partial(zeros, shape, dtype))()):
            assert isinstance(made, jax.Array)
            assert (made.shape, made.dtype, made.weak_type) == (shape, want.dtype, False)
            np.testing.assert_array_equal(made, want)
    jaxpr = jax.make_jaxpr(lambda: zeros((2**20,), "float32"))()
    assert not jaxpr.consts  # else the compiled program would hold it
