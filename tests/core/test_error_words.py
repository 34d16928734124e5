"""Errors begin with what the user wrote: its name and its line stand before any address."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr import tag, var

X, XS = jnp.float32(2), jnp.arange(3.0)
ADDRESS = re.compile(r"\b\d+:[a-z_]\w*|(?<![\w'])t\d+\b(?!')|\b(?:in|const|out)\d+\b")


def plain(x):
    h = tag(jnp.sin(x), name="h")
    return h * 2


def loop(xs):
    def step(c, x):
        return tag(c + x, name="h"), None

    return lax.scan(step, jnp.float32(0), xs)[0]


def until(x):
    def body(c):
        return tag(c * 2, name="h")

    return lax.while_loop(lambda c: c < 9, body, x)


def reduced(xs):
    def pair(a, b):
        return tag(a + b * b, name="h")

    return lax.reduce(xs, np.float32(0), pair, (0,))


def ruled(x):
    @jax.custom_jvp
    def f(x):
        return tag(jnp.sin(x), name="h")

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(x)


def solved(b):
    def solve(matvec, b):
        return tag(b / 2.0, name="h")

    return lax.custom_linear_solve(lambda x: 2.0 * x, b, solve, symmetric=True)


def sharded(x):
    def body(x):
        return tag(x * 2, name="h")

    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def twice(x):
    return tag(jnp.sin(x), name="h") + tag(jnp.cos(x), name="h")


def times_ctx(ctx, token, params):
    return token * ctx, ctx


def told(ctx, token, params):
    return token, token.sum()


def breaks(ctx, token, params):
    raise ZeroDivisionError("mine")


@taxpr.injector(state=lambda site: jnp.float32(0), report=lambda state: state["a"])
def reporting(token, state):
    return token, state


def report(fn, x):
    injected = taxpr.trace(fn)(x).inject(reporting())
    injected.report(injected.ctx)


def differentiated(fn, x):
    injected = taxpr.trace(fn)(x).inject(times_ctx, jnp.float32(2))
    jax.grad(lambda c: injected(c, x)[0].sum())(jnp.float32(2))


def of_what_was_seen(x):
    collected = taxpr.trace(ruled)(x).collect()
    jax.grad(lambda x: collected(x)[1]["h"])(x)


def late(x):
    taxpr.trace(jax.grad(lambda x: plain(x) ** 2))(x).inject(taxpr.scale(0.5))


def of_variable(ctx, token, params):
    return token[None], ctx


def inject(injector, *ctx):
    return lambda fn, x: taxpr.trace(fn)(x).inject(injector, *ctx)


def planted(value, **at):
    return lambda fn, x: taxpr.trace(fn)(x).inject(taxpr.plant(value, **at))


WRONG = {
    "structure": (inject(lambda c, t, p: ({"a": t}, c)), loop, XS, "changed the structure"),
    "shape": (inject(lambda c, t, p: (t[None], c)), loop, XS, "changed token: expected"),
    "dtype": (inject(lambda c, t, p: (t.astype(int), c)), loop, XS, r"Convert it: x\.astype"),
    "no pair": (inject(lambda c, t, p: t), loop, XS, "An injector returns"),
    "raises": (inject(breaks), loop, XS, "raised by the injector 'breaks'"),
    "parameter": (inject(taxpr.scale(jnp.ones(4))), plain, XS, "the factor has shape"),
    "report": (report, loop, XS, "raised by the report"),
    "refused": (inject(taxpr.count()), reduced, XS, "does not inject into reduce"),
    "ctx": (differentiated, ruled, X, "with respect to the ctx"),
    "solve": (differentiated, solved, XS, "has a derivative of its own"),
    "seen": (lambda _, x: of_what_was_seen(x), ruled, X, "a derivative is taken of the value"),
    "stale": (lambda _, x: late(x), plain, X, "was differentiated before"),
    "devices": (inject(told, jnp.float32(0)), sharded, XS, "differs between the devices"),
    "gradient in while": (lambda fn, x: taxpr.grad_at(fn)(x), until, X, "no reverse mode"),
    "gradient of a rule": (lambda fn, x: taxpr.grad_at(fn)(x), ruled, X, "may run other code"),
    "rows": (inject(taxpr.stats(per="iteration")), until, X, "max_steps=100"),
    "planted value": (planted(jnp.ones(4)), loop, XS, "plant: the value is"),
    "planted at": (planted(1.0, at=(1, 2)), loop, XS, "Give a tuple with one entry for each"),
    "beyond": (planted(1.0, at=3), loop, XS, "is no iteration of scan of step"),
    "two of a name": (lambda fn, x: taxpr.collect(fn)(x), twice, X, "stack=True"),
    "no batch": (inject(taxpr.per_example(taxpr.count())), plain, X, "is in no vmap"),
    "no label": (lambda fn, x: tag_at(fn, x, "0:scan/bod/in0"), loop, XS, "has body, not 'bod'"),
    "no equation": (lambda fn, x: tag_at(fn, x, "9:sin"), plain, X, "Nearest: "),
    "variable": (
        lambda fn, x: taxpr.inject(fn, of_variable, where=var("h"))(None, x),
        plain,
        X,
        "changed token",
    ),
}


def tag_at(fn, x, address):
    return taxpr.trace(fn)(x).tag_at(address, name="new")


@pytest.mark.parametrize("wrong", WRONG)
def test_an_error_says_name_and_line_before_any_address(wrong):
    fail, fn, x, expected = WRONG[wrong]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(Exception, match=expected) as info:
            fail(fn, x)
    # What the call itself gave is the user's own word.
    said = str(info.value).removeprefix("'9:sin'").removeprefix("'0:scan/bod/in0'")
    said = re.sub(r"equation '.*?'|equations?, .*?\.", "", said)
    first = ADDRESS.search(said)
    assert first is not None
    name = re.search(r"tag 'h'|variable h|scan of step|'?sin'?", said)
    line = re.search(r"\(test_error_words\.py:\d+( in \w+)?, at ", said)
    assert name
    assert line
    assert name.start() < line.start() < first.start()
    for found in ADDRESS.finditer(said):
        assert re.search(r"\bat [\w:/]*$", said[: found.start()])


def test_a_tag_in_a_cell_is_told_by_its_cell():
    source = "def f(x):\n    return taxpr.tag(x + 1, name='h')\n"
    names = {"taxpr": taxpr}
    exec(compile(source, "<ipython-input-6-c05d3b5cd0e1>", "exec"), names)
    with pytest.raises(taxpr.InjectorError, match=r"at tag 'h' \(cell 6:2 in f, at t0\) changed"):
        inject(lambda c, t, p: (t[None], c))(names["f"], X)


def test_the_function_of_a_loop_is_told_only_where_the_user_wrote_it():
    [site] = taxpr.trace(lambda xs: lax.map(lambda x: tag(x, name="h"), xs))(XS).tags()
    with pytest.raises(taxpr.InjectorError, match=r"is no iteration of scan \(test_error_words"):
        planted(1.0, at=3)(lambda xs: lax.map(lambda x: tag(x, name="h"), xs), XS)
    assert str(site).startswith("tag 'h' (test_error_words.py:")


def test_what_is_traced_itself_is_told_by_the_line_that_defines_it():
    with pytest.raises(taxpr.AddressError, match=r"jit of plain \(test_error_words\.py:\d+.*, at "):
        tag_at(jax.jit(plain), X, "0:jit/cal/in0")
