"""`Injected.ctx_with`: the same program with other values of the injectors' parameters."""

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr import ArgumentError


def f(xs):
    def step(c, x):
        c = taxpr.tag(c + taxpr.tag(x, name="x"), name="c")
        return c, c

    return jax.lax.scan(step, jnp.float32(0), xs)


XS = jnp.arange(1.0, 4.0)
PROGRAM = taxpr.trace(f)(XS)


def test_it_is_what_injecting_the_other_values_gives():
    injected = PROGRAM.inject({"x": taxpr.scale(0.5), "c": [taxpr.add(1.0), taxpr.clip(-1.0, 9.0)]})
    other = PROGRAM.inject({"x": taxpr.scale(3.0), "c": [taxpr.add(2.0), taxpr.clip(-1.0, 20.0)]})
    ctx = injected.ctx_with(factor=3.0, value=jnp.float32(2.0), high=20)
    assert jax.tree.structure(ctx) == jax.tree.structure(injected.ctx)
    (total, ys), _ = injected(ctx, XS)
    assert float(total) == 20.0
    assert jnp.array_equal(ys, other(other.ctx, XS)[0][1])
    # What is not named stays, and so does the context to begin with.
    assert float(injected.ctx_with(high=7.0)["x"]["values"]["factor"]) == 0.5
    assert float(injected.ctx["x"]["values"]["factor"]) == 0.5


def test_one_injector_and_its_derivative():
    injected = PROGRAM.inject(taxpr.scale(2.0), where="x")

    def total(factor):
        return injected(injected.ctx_with(factor=factor), XS)[0][0]

    assert jax.vmap(total)(jnp.arange(3.0)).tolist() == [0.0, 6.0, 12.0]
    assert float(jax.grad(total)(2.0)) == 6.0


def test_nothing_is_compiled_again():
    injected = PROGRAM.inject(taxpr.scale(2.0), where="x")
    traced = []

    @jax.jit
    def run(ctx):
        traced.append(ctx)
        return injected(ctx, XS)[0][0]

    assert [float(run(injected.ctx_with(factor=by))) for by in (1.0, 2, jnp.float32(3))] == [
        6.0,
        12.0,
        18.0,
    ]
    assert len(traced) == 1


def test_a_key_says_which_of_two():
    injected = PROGRAM.inject({"x": taxpr.scale(1.0), "c": taxpr.scale(1.0)})
    with pytest.raises(
        ArgumentError, match=r"factor may be factor of scale at 'x' or factor of scale at 'c'. Name"
    ):
        injected.ctx_with(factor=2.0)
    assert float(injected(injected.ctx_with("x", factor=2.0), XS)[0][0]) == 12.0
    assert float(injected(injected.ctx_with("c", factor=2.0), XS)[0][0]) == 22.0
    with pytest.raises(ArgumentError, match="no parameters at the key 'y'; there are 'c', 'x'"):
        injected.ctx_with("y", factor=2.0)


def test_two_of_one_kind_in_a_list_are_refused():
    injected = PROGRAM.inject({"x": [taxpr.scale(1.0), taxpr.scale(1.0)]})
    second = r"ctx\['x'\]\[1\]\['values'\]\['factor'\]"
    with pytest.raises(ArgumentError, match=rf"factor of scale at 'x' \({second}\), and no key"):
        injected.ctx_with("x", factor=2.0)
    ctx = injected.ctx
    ctx["x"][1]["values"]["factor"] = 2.0  # as the message says
    assert float(injected(ctx, XS)[0][0]) == 12.0
    one = PROGRAM.inject([taxpr.scale(1.0), taxpr.scale(1.0)], where="x")
    with pytest.raises(ArgumentError, match=r"ctx = .*; ctx\[0\]\['values'\]\['factor'\] = "):
        one.ctx_with(factor=2.0)


def test_arrays_and_trees():
    program = taxpr.trace(lambda x: taxpr.tag({"a": x, "b": x[:1]}, name="t"))(XS)
    planted = program.inject({"t": taxpr.plant({"a": XS, "b": XS[:1]})})
    ctx = planted.ctx_with(value={"a": 0, "b": jnp.array([5.0])})
    out, _ = planted(ctx, XS)
    assert (out["a"].tolist(), out["b"].tolist()) == ([0.0, 0.0, 0.0], [5.0])
    with pytest.raises(ArgumentError, match="value of plant at 't' has the structure"):
        planted.ctx_with(value=XS)
    with pytest.raises(ArgumentError, match=r"is float32\[1\] in this .* given float32\[2\]"):
        planted.ctx_with(value={"a": 0.0, "b": XS[:2]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (jnp.int32(2), r"factor of scale is float32\[\] in this program and was given int32\[\]"),
        (jnp.ones(2), r"given float32\[2\]. Another shape or dtype is another program"),
        ("two", "was given a str, which is no array"),
        (2j, "given complex64"),
    ],
)
def test_what_does_not_fit_is_refused(value, message):
    injected = PROGRAM.inject(taxpr.scale(2.0), where="x")
    with pytest.raises(ArgumentError, match=message):
        injected.ctx_with(factor=value)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32, jnp.complex64])
def test_numbers_are_of_the_dtype_of_the_parameter(dtype):
    program = taxpr.trace(lambda x: taxpr.tag(x, name="x") + x)(jnp.ones(2, dtype))
    injected = program.inject(taxpr.replace(jnp.zeros(2, dtype)), where="x")
    for number in (3, 0.5):
        out, _ = injected(injected.ctx_with(value=number), jnp.ones(2, dtype))
        assert (out.dtype, out.tolist()) == (dtype, [1 + number] * 2)
    with pytest.raises(ArgumentError, match="given bool"):
        injected.ctx_with(value=True)
    key = taxpr.trace(lambda k: taxpr.tag(k, name="k"))(jax.random.key(0))
    with pytest.raises(ArgumentError, match=r"is key<fry>.* given int32"):
        key.inject(taxpr.replace(jax.random.key(1)), where="k").ctx_with(value=3)


def test_unknown_names_are_refused():
    injected = PROGRAM.inject(taxpr.clip(), where="x")
    with pytest.raises(ArgumentError, match=r"no parameter factor\. There is high of clip"):
        injected.ctx_with(factor=2.0)
    plain = PROGRAM.inject(lambda ctx, token, params: (token, ctx), 0, where="x")
    with pytest.raises(ArgumentError, match="there are none"):
        plain.ctx_with(factor=2.0)
