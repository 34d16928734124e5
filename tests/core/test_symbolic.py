"""Programs with symbolic dimensions, as `jax.export` compiles them for arrays of any size.

What is exported once is called with arrays of several sizes, and must be what the program is that
is traced for arrays of that size.
"""

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from jax import export, lax

import taxpr
from taxpr import State, tag

SIZES = (1, 5)


def rows(n):
    return jnp.linspace(-1.0, 2.0, 3 * n, dtype=jnp.float32).reshape(n, 3)


def symbolic(dtype=jnp.float32):
    return jax.ShapeDtypeStruct(export.symbolic_shape("b, 3"), dtype)


def step(c, row):
    return tag(jnp.sin(c) + row, name="h"), tag(jnp.sum(row) * 2, name="y")


def flat(x):
    return jnp.sum(tag(jnp.sin(x), name="h") ** 2)


def scanned(x):
    c, ys = lax.scan(step, jnp.zeros(3), x)
    return jnp.sum(c) + jnp.sum(ys)


def backwards(x):
    c, ys = lax.scan(step, jnp.zeros(3), x, reverse=True, unroll=1)
    return jnp.sum(c) * ys[0]


def nested(x):
    """A scan over three rows in one over all of them, and the other way round."""
    inner = lambda c, w: (tag(c * w, name="h") + 1.0, None)
    each = lambda c, row: (c + lax.scan(inner, row, row)[0], None)
    first = lax.scan(each, jnp.zeros(3), x)[0]
    outer = lambda c, w: (
        c + lax.scan(lambda c, row: (tag(c + row, name="o"), None), c * w, x)[0],
        w,
    )
    return jnp.sum(lax.scan(outer, first, jnp.float32([0.5, 2.0]))[0])


def branched(x):
    def body(c, row):
        return lax.cond(row[0] > 0, lambda: tag(c + row, name="h"), lambda: c), None

    return jnp.sum(lax.scan(body, jnp.zeros(3), x)[0])


def of_a_symbolic_carry(x):
    return jnp.sum(lax.scan(lambda c, row: (tag(c * row[0], name="h"), None), x, x)[0])


def mapped(x):
    return jnp.sum(jax.vmap(lambda row: tag(jnp.cos(row), name="h"))(x))


PROGRAMS = [flat, scanned, backwards, nested, branched, of_a_symbolic_carry, mapped]
programs = pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)


def same_for_all_sizes(make):
    """``make(x)`` returns a function of ``x``; it may look at the shape of ``x`` alone."""
    spec = symbolic()
    exported = export.export(jax.jit(make(spec)))(spec)
    for n in SIZES:
        assert_close(exported.call(rows(n)), jax.jit(make(rows(n)))(rows(n)), 1e-4)


@pytest.mark.spread(7)
@programs
def test_what_is_done_with_tags(fn):
    def make(x):
        program = taxpr.trace(fn)(x)
        scaled = program.inject(taxpr.scale(0.5))
        every = [taxpr.stats(), taxpr.count(), taxpr.check_finite(), taxpr.noise(key=1)]
        watched = program.inject({"h": every})
        collect = program.collect()

        def run(x):
            values = collect(x * 2)[1]
            planted = jax.tree.map(lambda x: x if x.dtype == bool else x + 1, values)
            return {
                "dissolved": program.dissolve()(x),
                "scaled": scaled(scaled.ctx, x),
                "watched": watched(watched.ctx, x),
                "collected": collect(x),
                "planted": program.plant(planted)(x),
                "until": program.until("h")(x),
                "gradients": taxpr.grad_at(program)(x),
                "gradient": jax.grad(lambda x: scaled(scaled.ctx, x)[0])(x),
            }

        return run

    same_for_all_sizes(make)


def test_a_tag_at_each_value():
    """Also of a backward pass, whose scan has a symbolic length and nothing that is scanned."""

    def loss(x):
        return lax.scan(lambda c, row: (c * 2, None), jnp.sum(x), x)[0]

    def make(x):
        program = taxpr.trace(lambda x: jax.value_and_grad(loss)(x))(x)
        places = [v for v in taxpr.find_values(program) if v.aval.dtype == jnp.float32]
        scans = [eqn for eqn in program.eqns if eqn.primitive is lax.scan_p]
        assert any(not eqn.params["jaxpr"].in_avals[1:] for eqn in scans)
        tagged = program
        for place in places:
            tagged = tagged.tag_at(place.address, name=place.address)
        scaled = tagged.inject(taxpr.scale(1.1))
        return lambda x: (tagged.collect()(x), scaled(scaled.ctx, x))

    same_for_all_sizes(make)


def test_record_keeps_the_last_value_where_the_length_is_symbolic():
    def make(x):
        program = taxpr.trace(scanned)(x)
        recorded = program.inject(taxpr.record(slots=None if x is spec else 1), where="y")
        return lambda x: recorded(recorded.ctx, x)

    spec = symbolic()
    exported = export.export(jax.jit(make(spec)))(spec)
    for n in SIZES:
        assert_close(exported.call(rows(n)), jax.jit(make(rows(n)))(rows(n)))


def test_a_token_of_symbolic_shape_cannot_be_recorded():
    program = taxpr.trace(flat)(symbolic())
    with pytest.raises(
        taxpr.InjectorError, match=r"tag 'h' \(.*at t0\) .* float32\[b,3\], whose size"
    ):
        program.inject(taxpr.record())
    with pytest.raises(taxpr.InjectorError, match="Use collect, which returns values"):
        program.inject(taxpr.record(slots=2))


def test_states():
    def make(x):
        total = State(jnp.float32(1), name="total")

        def body(row):
            total.value = jnp.sin(total.value) + jnp.sum(row)
            return row * total.value

        pure, states = taxpr.uncurry(lambda x: lax.map(body, x), x)
        return lambda x: pure(states, x)

    same_for_all_sizes(make)


def test_the_length_is_told_and_no_number():
    spec = symbolic()
    program = taxpr.trace(scanned)(spec)
    [eqn] = [eqn for eqn in program.eqns if eqn.primitive is lax.scan_p]
    [body] = taxpr.nested_jaxprs(eqn)
    assert (str(body.trips), str(body.facts["length"])) == ("b", "b")
    assert [site.trips for site in program.tags()] == [None, None]
    values = jax.eval_shape(program.collect(), spec)[1]
    assert str(values["y"].shape) == "(b,)"
    assert [str(axis).split(":")[1] for axis in program.axes()["y"]] == ["scan"]
