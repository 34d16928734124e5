"""Meshes with explicit axes, where the sharding of a value is part of its type.

Everything is compared with the same on one device. Eager programs, compiled ones, and those
under `jax.set_mesh` differ in who knows the devices of a mesh, of which types have only the axes.
"""

import contextlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from devices.by_hand import mesh
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import State, tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
W = jnp.float32([1.0, 2.0, 3.0])
LIMIT = 300


def explicit():
    return mesh("4x2", AxisType.Explicit)


def sharded(x: Any = X, spec=None):
    return jax.device_put(x, NamedSharding(explicit(), spec or P("i", "j")))


def straight(x):
    return jnp.sum(tag(jnp.sin(x), name="a") ** 2) + jnp.sum(x)


def scanned(x):
    """Of the carry and of a value without one of the axes; backwards."""

    def step(c, w):
        return tag(jnp.sin(c) * w, name="a"), tag(c.sum(1), name="s")

    c, s = lax.scan(step, x, W, reverse=True)
    return jnp.sum(c) + jnp.sum(s)


def doubled(x):
    return tag(x * 2, name="a")


def small(x):
    return jnp.sum(jnp.abs(x)) < LIMIT


def looped(x):
    return jnp.sum(lax.while_loop(small, doubled, x))


def asked(x):
    return jnp.sum(lax.while_loop(lambda x: small(tag(x, name="a")), lambda x: x * 2, x))


def branched(x):
    halved = lambda x: tag(x.sum(1), name="b")
    return jnp.sum(lax.cond(jnp.sum(x) > 0, lambda x: doubled(x).sum(1), halved, x))


def nested(x):
    """A while loop in a branch in a scan, in a jit."""

    @jax.jit
    def step(c, w):
        grown = lambda c: lax.while_loop(small, doubled, c)
        return jnp.sin(lax.cond(w > 1.5, grown, lambda c: tag(c * 3, name="b"), c)), None

    return jnp.sum(lax.scan(step, x, W)[0])


def mapped(x):
    return jnp.sum(jax.vmap(lambda row: tag(jnp.sin(row), name="a"))(x) ** 2) + jnp.sum(x)


def mapped_loop(x):
    """Each row has a loop of its own, in one while loop for all."""
    grown = lambda r: lax.while_loop(small, lambda r: tag(r * 2 + 1.0, name="a"), r)
    return jnp.sum(jax.vmap(grown)(x))


def a_tree(x):
    total = jnp.sum(x)
    found = tag({"x": jnp.sin(x), "n": jnp.arange(3.0) + total, "sum": total}, name="a")
    return jnp.sum(found["x"]) + jnp.sum(found["n"]) * found["sum"] + total


PROGRAMS = [
    straight,
    scanned,
    looped,
    asked,
    branched,
    nested,
    mapped,
    mapped_loop,
    a_tree,
]
programs = pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)


WAYS = ["eager", "jit in set_mesh"]
ALL_WAYS = [*WAYS, "jit", "eager in set_mesh"]


def same_as_on_one_device(check, ways=WAYS, on_one_device=None):
    """``check`` gets an argument, and how to run a program; it returns what must be the same."""
    expected = (on_one_device or check)(jnp.asarray(X), jax.jit)
    found = None
    for way in ways:
        how = jax.jit if way.startswith("jit") else lambda fn: fn
        with jax.set_mesh(explicit()) if "set_mesh" in way else contextlib.nullcontext():
            found = check(sharded(), how)
        try:
            assert_close(found, expected, 1e-4)
        except AssertionError as error:
            error.add_note(way)
            raise
    return found


# ---- ready injectors -----------------------------------------------------------


def injected(fn, *injectors, **options):
    def check(x, how):
        program = taxpr.trace(fn)(x).inject(list(injectors), where="a", **options)
        out, ctx = how(program)(program.ctx, x)
        # Once more, with what came out.
        out, ctx = how(program)(ctx, x)
        return out, ctx, program.report(ctx)

    return check


def observing():
    return [
        taxpr.record(),
        taxpr.record(slots=2),
        taxpr.stats(),
        taxpr.count(),
        taxpr.check_finite(),
        taxpr.from_function(lambda c, t, p: (t, c + 1), 0),
    ]


@pytest.mark.spread(12)
@programs
def test_observing_injectors(fn):
    same_as_on_one_device(injected(fn, *observing()))


@pytest.mark.spread(8)
@programs
def test_changing_injectors(fn):
    changing = [
        taxpr.scale(1.1),
        taxpr.add(0.25),
        taxpr.noise(key=3, stddev=0.01),
        taxpr.cast("bfloat16"),
        taxpr.clip(-200.0, 200.0),
        taxpr.stop_gradient(),
        taxpr.record(slots=2),
    ]
    same_as_on_one_device(injected(fn, *changing))


@pytest.mark.spread(3)
@pytest.mark.parametrize("make", [taxpr.zero, lambda: taxpr.replace(1.0)], ids=["zero", "replace"])
@pytest.mark.parametrize("fn", [straight, scanned, branched, a_tree], ids=lambda fn: fn.__name__)
def test_constants_in_the_place_of_sharded_values(fn, make):
    same_as_on_one_device(injected(fn, make(), taxpr.record(slots=2)))


def test_print_shows_the_whole_token(capfd):
    def check(x, how):
        program = taxpr.trace(straight)(x).inject(taxpr.print())
        out, _ = how(program)(program.ctx, x)
        jax.effects_barrier()
        return out

    same_as_on_one_device(check)
    shown = [line.split() for line in capfd.readouterr().out.split("a: ")[1:]]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("name", ["scale", "add", "replace"])
def test_values_of_the_size_of_the_token_may_be_sharded_otherwise(name):
    def check(x, how):
        program = taxpr.trace(straight)(x).inject(getattr(taxpr, name)(X[::-1].copy()))
        return how(program)(program.ctx, x)

    same_as_on_one_device(check)


def test_a_buffer_is_sharded_as_the_token_where_the_devices_are_known():
    with jax.set_mesh(explicit()):
        program = taxpr.trace(scanned)(sharded()).inject(taxpr.record(), where="a")
        _, ctx = program(program.ctx, sharded())
    for one in program.ctx, ctx:
        [buffer] = [leaf for leaf in jax.tree.leaves(one) if leaf.ndim]
        assert jax.typeof(buffer).sharding.spec == P(None, "i", "j")
        assert buffer.addressable_shards[0].data.shape == (3, 2, 2)


# ---- collect, plant, and what is made of them ----------------------------------


@pytest.mark.spread(5)
@programs
@pytest.mark.parametrize("max_steps", [None, 3])
def test_collected_values(fn, max_steps):
    check = lambda x, how: how(taxpr.trace(fn)(x).collect(max_steps=max_steps))(x)
    values = same_as_on_one_device(check)[1]
    value = values["a"].value if hasattr(values["a"], "mask") else values["a"]
    if isinstance(value, jax.Array) and fn not in (mapped, mapped_loop):
        assert tuple(value.sharding.spec)[-2:] == ("i", "j")


@pytest.mark.spread(12)
@programs
def test_planted_values(fn):
    def check(x, how):
        program = taxpr.trace(fn)(x)
        values = program.collect(max_steps=9)(x + 1)[1]
        planted = program.inject({k: taxpr.plant(v) for k, v in values.items()})
        return how(planted)(planted.ctx, x)[0], how(program.plant(values))(x)

    same_as_on_one_device(check)


@pytest.mark.parametrize("spec", [P(), P("i"), P(None, "j", "i"), P(("i", "j"))], ids=str)
def test_planted_values_may_be_sharded_otherwise(spec):
    def check(x, how):
        program = taxpr.trace(lambda xs: lax.map(lambda x: tag(jnp.sin(x), name="a"), xs))
        xs = jnp.stack([x] * 8)
        program = program(xs)
        values = np.arange(256, dtype=np.float32).reshape(8, 8, 4)
        if isinstance(x.sharding, NamedSharding):
            values = sharded(values, spec)
        planted = program.inject(taxpr.plant(values, at=jnp.asarray([0, 3, 5])))
        return how(planted)(planted.ctx, xs)[0]

    same_as_on_one_device(check)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "fn", [straight, scanned, branched, mapped, a_tree], ids=lambda fn: fn.__name__
)
def test_gradients(fn):
    def check(x, how):
        program = taxpr.trace(fn)(x)
        counted = program.inject({"a": [taxpr.scale(0.5), taxpr.stats()]})
        with pytest.warns(taxpr.StaleDerivativeWarning):
            backward = taxpr.trace(jax.grad(fn))(x).inject(taxpr.scale(0.5), where="a")
        return (
            how(taxpr.grad_at(fn))(x),
            # JAX itself has no eager gradient on a mesh that is not set.
            jax.jit(jax.grad(lambda x: counted(counted.ctx, x)[0]))(x),
            jax.jit(jax.grad(lambda x: program.collect()(x)[0]))(x),
            how(backward)(backward.ctx, x)[0],
        )

    same_as_on_one_device(check)


@pytest.mark.spread(2)
@programs
def test_until(fn):
    def check(x, how):
        program = taxpr.trace(fn)(x)
        return how(program.until("a", max_steps=4))(x)

    same_as_on_one_device(check)


def test_cotangents():
    def f(x):
        return jnp.sum(jnp.sin(taxpr.tag_cotangent(x * 2, name="g")) ** 2)

    def check(x, how):
        program = taxpr.trace(jax.grad(f))(x)
        clipped = program.inject([taxpr.clip(-0.5, 0.5), taxpr.record()], where="g")
        out, ctx = how(clipped)(clipped.ctx, x)
        return how(program.collect())(x), out, clipped.report(ctx)

    same_as_on_one_device(check)


@pytest.mark.spread(2)
@pytest.mark.parametrize("fn", [mapped, mapped_loop], ids=lambda fn: fn.__name__)
def test_each_example(fn):
    def check(x, how):
        each = [
            taxpr.per_example(one)
            for one in (taxpr.scale(0.9), taxpr.stats(), taxpr.record(slots=2))
        ]
        program = taxpr.trace(fn)(x).inject({"a": each})
        ctx = program.ctx
        ctx["a"][0]["values"]["factor"] = jnp.linspace(0.9, 1.0, 8, dtype=jnp.float32)
        out, ctx = how(program)(ctx, x)
        return out, ctx, program.report(ctx)

    same_as_on_one_device(check)


def test_a_tag_that_is_put_there():
    def check(x, how):
        program = taxpr.trace(scanned)(x)
        [first, *_] = [v for v in taxpr.find_values(program) if v.address.endswith("sin.0")]
        return how(program.tag_at(first.address, name="new").collect("new"))(x)

    same_as_on_one_device(check)


# ---- states --------------------------------------------------------------------


def test_states():
    def check(x, how):
        total, last = State(jnp.float32(0), name="total"), State(x, name="last")

        def f(x):
            def step(c, w):
                total.value += jnp.sum(c) * w
                last.value = lax.cond(w > 1.5, lambda: c + last.value, lambda: last.value)
                return jnp.sin(c), None

            y = lax.scan(step, x, W)[0]
            grown = lax.while_loop(small, lambda x: x + jnp.abs(last.value) + 1.0, y)
            last.value = grown
            return jnp.sum(y)

        pure, states = taxpr.uncurry(f, x)
        out, states = how(pure)(states, x)
        return out, how(pure)(states, x)

    same_as_on_one_device(check)


# ---- shard_map -----------------------------------------------------------------


def in_shard_map(kind=AxisType.Explicit):
    def body(x):
        x = lax.scan(lambda c, w: (tag(jnp.sin(c) * w, name="c"), None), x, W)[0]
        grown = lambda x: tag(x * 2, name="w")
        x = lax.while_loop(lambda x: jnp.sum(jnp.abs(x)) < 9, grown, x)
        return tag(lax.psum(x, "j"), name="of row")

    over = mesh("4x2", kind)
    return jax.shard_map(body, mesh=over, in_specs=P("i", "j"), out_specs=P("i"))


def same_as_on_an_ordinary_mesh(check):
    """``check`` also gets a function with a shard_map."""
    auto = jax.device_put(X, NamedSharding(mesh("4x2"), P("i", "j")))
    same_as_on_one_device(
        lambda x, how: check(in_shard_map(), x, how),
        ALL_WAYS,
        on_one_device=lambda _, how: check(in_shard_map(AxisType.Auto), auto, how),
    )


@pytest.mark.slow
def test_values_of_a_shard_map_are_planted():
    def check(f, x, how):
        program = taxpr.trace(f)(x)
        values = program.collect(max_steps=5)(x + 1)[1]
        planted = program.inject({name: taxpr.plant(one) for name, one in values.items()})
        out, ctx = how(planted)(planted.ctx, x)
        # The context leaves as it came.
        before = jax.tree.map(jax.typeof, planted.ctx)
        assert jax.tree.map(lambda x: jax.typeof(x).sharding.spec, ctx) == jax.tree.map(
            lambda aval: aval.sharding.spec, before
        )
        return values, out, how(program.plant(values))(x), how(planted)(ctx, x)[0]

    same_as_on_an_ordinary_mesh(check)


@pytest.mark.spread(4)
@pytest.mark.parametrize(
    "make", [taxpr.stats, taxpr.record, taxpr.check_finite, taxpr.count], ids=lambda k: k.name
)
def test_stacked_states_of_a_shard_map_are_reported(make):
    def check(f, x, how):
        program = taxpr.trace(f)(x).inject(make(), where=["c", "w"], shards="stack")
        out, ctx = how(program)(program.ctx, x)
        return out, ctx, program.report(ctx)

    same_as_on_an_ordinary_mesh(check)


@pytest.mark.parametrize("shards", ["psum", "pmax"])
def test_a_sharded_ctx_enters_a_shard_map_whole_and_leaves_as_it_came(shards):
    def check(f, x, how):
        program = taxpr.trace(lambda x: lax.map(f, jnp.stack([x, x + 1])))(x)
        add = lambda c, t, p: (t + c[0, 0], c + jnp.sum(t))
        program = program.inject(add, x, where="c", shards=shards)
        out, ctx = how(program)(program.ctx, x)
        assert tuple(ctx.sharding.spec) == ("i", "j")
        return out, ctx

    same_as_on_an_ordinary_mesh(check)


# ---- what JAX cannot do --------------------------------------------------------


def test_an_injector_that_does_not_say_a_sharding_is_told_tag_and_type():
    def first_rows(ctx, token, params):
        return token + token[ctx], ctx

    program = taxpr.trace(straight)(sharded())
    with pytest.raises(Exception, match="harding") as info:
        program.inject(first_rows, jnp.arange(8), where="a")
    note = str(info.value)
    assert re.search(r"'first_rows' at tag 'a' \(test_explicit.py:\d+ in \S+, at t0\)", note)
    assert "where the token is float32[8@i,4@j]" in note
    assert "by out_sharding=, or change the token's by jax.sharding.reshard" in note
