"""The ready injectors and those of users, and what is said of mistakes."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import tag

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


@pytest.mark.parametrize(
    ("injector", "each"),
    [
        (taxpr.scale(0.5), lambda y: y * 0.5),
        (taxpr.add(1.5), lambda y: y + 1.5),
        (taxpr.replace(7.0), lambda y: 7.0),
        (taxpr.replace(value=jnp.float32(3)), lambda y: 3.0),
        (taxpr.zero(), lambda y: 0.0),
        (taxpr.clip(-1.0, 2.5), lambda y: min(max(y, -1.0), 2.5)),
        (taxpr.clip(high=0.0), lambda y: min(max(y, -1.0), 0.0)),
        (taxpr.count(), lambda y: y),
        (taxpr.record(), lambda y: y),
        (taxpr.stats(), lambda y: y),
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
        "nonfinite": 0,
    }.items():
        assert np.isclose(report[name], expected), name


def test_stats_count_what_is_not_finite_and_leave_it_out():
    _, report = run(taxpr.stats(), lambda x: tag(jnp.log(x), name="y"))
    finite = np.log(np.asarray([1.0, 3.0, 0.5]))
    assert report["nonfinite"] == 1
    assert np.isclose(report["mean"], finite.mean())
    assert np.isclose(report["min"], finite.min())


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
        (taxpr.scale(2.0), jax.random.key(0), "scale: the token is a key<fry>, on which there is"),
        (taxpr.stats(), jax.random.key(0), "stats: the token is a key<fry>"),
        (
            taxpr.clip(),
            jnp.uint8(3),
            "clip: low=-1 does not fit the token, which is uint8",
        ),
        (taxpr.replace(300), jnp.uint8(3), "replace: value=300 does not fit .* holds 0 to 255"),
        (taxpr.add(3e9), jnp.int32(3), "add: value=3000000000 does not fit the token"),
        (taxpr.add(1), jnp.bool_(True), "add: the token is a bool, on which there is no"),
        (taxpr.replace(2), jnp.bool_(True), "replace: value=2 does not fit .* holds 0 to 1"),
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


def test_a_value_set_later_is_brought_into_the_range_of_the_token():
    p = taxpr.trace(lambda x: tag(x, name="y"))(jnp.uint8(3)).inject(taxpr.replace(7), where="y")
    ctx = {**p.ctx, "values": {"value": jnp.int32(300)}}
    assert p(ctx, jnp.uint8(3))[0] == 255


def test_a_kind_is_no_injector_yet():
    with pytest.raises(taxpr.InjectorError, match=r"scale needs its values: scale\(\)"):
        taxpr.trace(loop)(XS).inject(taxpr.scale)
    with pytest.raises(taxpr.InjectorError, match=r"scale needs its values: scale\(\)"):
        taxpr.trace(loop)(XS).inject({"y": taxpr.scale})


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
    assert info.match(r"This is at tag 'y', 0:scan/body/t0")


def test_kinds_say_what_they_take():
    assert str(inspect.signature(taxpr.clip)).startswith("(low=-1.0, high=1.0)")


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
            assert param.low <= param.default <= param.high
            assert param.help


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
    place = r"tag 'y', 1:scan/body/t0 \(\S+test_injectors.py:\d+ in \S+step\)"
    p = taxpr.trace(lambda xs: loop(jnp.abs(xs)))(XS)
    with pytest.raises(taxpr.InjectorError, match=message) as info:
        p.inject(injector, (0, jnp.ones(2)))
    assert info.match(place)


def test_what_an_injector_raises_says_where():
    def broken(c, token, params):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as info:
        taxpr.trace(loop)(XS).inject(broken)
    assert "taxpr: raised by the injector 'broken' at tag 'y'" in info.value.__notes__[0]


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
