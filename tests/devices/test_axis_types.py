"""Tags where a part of a program sees mesh axes with other types than the rest of it.

Such are `jax.sharding.auto_axes`, `jax.sharding.explicit_axes`, and `jax.shard_map`, in which the
axes are manual. A context comes from outside, and goes back.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from devices.by_hand import mesh
from devices.everything import all_of
from jax import lax
from jax.sharding import AxisType, auto_axes, explicit_axes
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import State, tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
SPEC = P("i", "j")


def flat(x):
    return tag(jnp.sin(x), name="h") * 2


def scanned(x):
    return lax.scan(lambda c, _: (tag(jnp.sin(c), name="h"), None), x, None, length=3)[0]


def looped(x):
    small = lambda x: jnp.sum(tag(x, name="asked")) < 60
    return lax.while_loop(small, lambda x: tag(x * 2 + 1, name="h"), x)


def branched(x):
    return lax.cond(jnp.sum(x) > 0, lambda x: tag(x * 3, name="h"), lambda x: x + 1, x)


def in_a_jit(x):
    return jax.jit(lambda x: jnp.cos(tag(x, name="h")))(x)


PROGRAMS = [flat, scanned, looped, branched, in_a_jit]


def auto(fn):
    return auto_axes(fn, out_sharding=SPEC)


def one_auto(fn):
    return auto_axes(fn, axes="i", out_sharding=SPEC)


def explicit(fn):
    return explicit_axes(fn, in_sharding=SPEC)


# What has other axes inside, and of which type these are outside.
WAYS = {"auto": (auto, AxisType.Explicit), "auto i": (one_auto, AxisType.Explicit)}
WAYS["explicit"] = explicit, AxisType.Auto


def with_tags_around(inside, fn):
    """A context goes in and out."""

    def run(x):
        before = tag(x * 0.5, name="before")
        return tag(inside(fn)(before) + before, name="after")

    return run


def in_a_loop(inside, fn):
    """What is in there runs again and again, among tags outside."""

    def step(c, w):
        return inside(fn)(tag(c, name="c") * w), None

    return lambda x: lax.scan(step, x, jnp.float32([0.5, 1.5]))[0]


@functools.cache
def without_a_mesh(fn, around):
    return jax.jit(all_of(around(lambda fn: fn, fn), fn is not looped))(jnp.asarray(X))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("around", "way"),
    [*((with_tags_around, way) for way in WAYS), (in_a_loop, "auto")],
    ids=lambda one: getattr(one, "__name__", one),
)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_all_that_is_done_with_tags(fn, around, way):
    inside, kind = WAYS[way]
    with jax.set_mesh(mesh("4x2", kind)):
        x = jax.device_put(X, SPEC)
        found = jax.jit(all_of(around(inside, fn), fn is not looped))(x)
    assert_close(found, without_a_mesh(fn, around), 1e-4)


def test_a_value_from_outside_is_tagged_inside():
    """The token is on the mesh of outside, and so is what the injector does."""

    def f(x):
        def inside(y):
            tag(x, name="h")
            return y * 2

        return auto(inside)(x)

    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = jax.device_put(X, SPEC)
        program = taxpr.trace(f)(x)
        injected = program.inject([taxpr.scale(2.0), taxpr.stats()])
        _, ctx = jax.jit(injected)(injected.ctx, x)
        [report] = injected.report(ctx)[1].values()
    assert_close(report["max"], 2 * X.max())


def test_a_context_that_is_sharded_comes_back_so():
    def f(x):
        return auto(lambda x: tag(jnp.sin(x), name="h"))(tag(x, name="h"))

    def add(ctx, token, params):
        return token + ctx, ctx * 0.5 + token

    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = jax.device_put(X, SPEC)
        injected = taxpr.trace(f)(x).inject(add, x)
        check_types(injected.jaxpr)
        out, ctx = jax.jit(injected)(x, x)
    once = X + X
    assert_close(ctx, (X * 0.5 + X) * 0.5 + np.sin(once), 1e-4)
    assert_close(out, np.sin(once) + X * 0.5 + X, 1e-4)
    assert ctx.sharding.spec == SPEC


def test_a_state_is_read_and_written_inside():
    def check(x, inside):
        total = State(jnp.float32(1), name="total")

        def g(x):
            total.value += jnp.sum(x)
            return x * total.value

        def f(x):
            total.value *= 2
            return inside(g)(x)

        pure, states = taxpr.uncurry(f, x)
        return jax.jit(pure)(states, x)

    expected = check(jnp.asarray(X), lambda fn: fn)
    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        assert_close(check(jax.device_put(X, SPEC), auto), expected, 1e-4)


# ---- tags on arguments ---------------------------------------------------------


@jax.custom_jvp
def with_a_jvp(x):
    return jnp.sin(x)


with_a_jvp.defjvp(lambda primals, tangents: (with_a_jvp(*primals), tangents[0] * 2))


@jax.custom_vjp
def with_a_vjp(x):
    return jnp.sin(x)


with_a_vjp.defvjp(lambda x: (jnp.sin(x), None), lambda _, ct: (ct * 2,))


def jaxprs_of_all_kinds(x):
    x = lax.scan(lambda c, y: (c * y + 1.0, None), x, jnp.arange(1.0, 3.0))[0]
    x = lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) < 30, lambda c: c * 2, x)
    x = lax.cond(jnp.sum(x) > 0, lambda x: x, lambda x: -x, x)
    x = with_a_vjp(with_a_jvp(x))
    x = jax.checkpoint(lambda x: jnp.sin(x) * 2)(jax.jit(lambda x: x * 2)(x))
    return lax.psum(jax.jit(lambda x: x)(x), "j")


@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def test_a_tag_on_an_argument_in_a_shard_map(kind):
    """It is what the argument is, of whichever jaxpr."""

    def results(x, **given):
        f = jax.shard_map(jaxprs_of_all_kinds, in_specs=SPEC, out_specs=P("i"), **given)
        program = taxpr.trace(f)(x)
        found = taxpr.find_values(program)
        inputs = [v.address for v in found if v.place.kind == "in" and v.aval.dtype == X.dtype]
        assert len(inputs) > 10
        for address in inputs:
            tagged = program.tag_at(address, name="new")
            for make in (lambda: taxpr.scale(2.0), lambda: taxpr.noise(key=0), taxpr.record):
                check_types(tagged.inject(make(), shards="stack").jaxpr)
        tagged = program
        for address in inputs:
            tagged = tagged.tag_at(address, name=address)
        changed = tagged.inject(taxpr.scale(1.25))
        return jax.jit(lambda x: (tagged.collect()(x), changed(changed.ctx, x)[0]))(x)

    over = mesh("4x2", kind)
    with jax.set_mesh(over):
        found = results(jax.device_put(X, SPEC))
    place = jax.sharding.NamedSharding(mesh("4x2"), SPEC)
    assert_close(found, results(jax.device_put(X, place), mesh=mesh("4x2")), 1e-4)
