"""Injection between collectives, against the same program with the context threaded by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from devices.by_hand import changing, injected, mesh, sharded, start
from jax import lax
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)


# Each program is a body with ``at(ctx, x, name) -> (x, ctx)`` at the places of its tags: with tags
# it is what is injected, with the injector called there it is what must come of that.


def normalised(at, ctx, x):
    def step(carry, w):
        x, ctx = carry
        x = (x - lax.pmean(x, "i")) * w
        x, ctx = at(ctx, x, "c")
        return (x, ctx), lax.all_gather(x, "i").max()

    (x, ctx), tops = lax.scan(step, (x, ctx), jnp.float32([1.5, -0.5]))
    return x + tops.sum(), ctx


def ring(at, ctx, x):
    """Each device sees the shards of all, one after the other."""
    n = lax.axis_size("i")

    def step(_, carry):
        seen, passing, ctx = carry
        passing, ctx = at(ctx, passing, "passing")
        passing = lax.ppermute(passing, "i", [(k, (k + 1) % n) for k in range(n)])
        return seen + jnp.sin(passing), passing, ctx

    seen, _, ctx = lax.fori_loop(0, 3, step, (x, x, ctx))
    return seen, ctx


def gathered(at, ctx, x):
    y, ctx = at(ctx, x, "own")
    every = lax.all_gather(y, "i", tiled=True)
    back = lax.psum_scatter(every * every, "i", tiled=True)
    return at(ctx, back + lax.axis_index("i").astype(x.dtype), "back")


def until_all(at, ctx, x):
    """A loop that goes on until it is over on all devices, with a collective in it."""

    def go_on(carry):
        return (lax.pmin(jnp.min(carry[0]), "i") < 3.0) & (carry[2] < 9)

    def step(carry):
        x, ctx, k = carry
        x, ctx = at(ctx, jnp.abs(x) + 0.5 + 0.1 * lax.pmax(x, "i"), "x")
        return x, ctx, k + 1

    x, ctx, _ = lax.while_loop(go_on, step, (x, ctx, jnp.int32(0)))
    return x, ctx


def branch_of_all(at, ctx, x):
    def high(x, ctx):
        return at(ctx, x - lax.pmean(x, "i"), "high")

    total = lax.psum(jnp.sum(x), "i")
    return lax.cond(total > 0, high, lambda x, ctx: (x, ctx), x, ctx)


def differing(ctx, like):
    """A ctx that differs between devices from the start, as loops and branches need it."""
    zero = jnp.sum(like) * 0
    return jax.tree.map(lambda x: x + zero.astype(x.dtype), ctx)


PROGRAMS = [normalised, ring, gathered, until_all, branch_of_all]


@pytest.mark.spread(3)
@pytest.mark.parametrize("check_vma", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_collectives(program, check_vma):
    def tagged(x):
        at = lambda ctx, x, name: (tag(x, name=name), ctx)
        return program(at, (), x)[0]

    def threaded(x):
        at = lambda ctx, x, name: changing(ctx, x, {"name": name})
        x, ctx = program(at, differing(start(), x), x)
        return x, jax.tree.map(lambda x: x[None], ctx)

    over = mesh("8")
    f = sharded(tagged, over, P("i"), check_vma=check_vma)
    by_hand = sharded(threaded, over, P("i"), (P("i"), P("i")), check_vma=check_vma)
    expected, contexts = jax.jit(by_hand)(X)
    for policy in "psum", "stack":
        run, new = injected(f, (X,), shards=policy)
        check_types(new)
        (out,), ctx = jax.jit(run)(start(), X)
        assert_close(out, expected)
        total = start()["s"] + jnp.sum(contexts["s"] - start()["s"])
        assert_close(ctx["s"], total if policy == "psum" else contexts["s"])
        assert_close(ctx["n"], contexts["n"][0])  # as often on each of them


@pytest.mark.parametrize("check_vma", [True, False], ids=["checked", "unchecked"])
def test_an_injector_may_use_collectives(check_vma):
    """So that the ctx is the same on all devices, and needs no policy."""

    def injector(ctx, token, params):
        mean = lax.pmean(jnp.mean(token), "i")
        return token - mean, ctx + mean

    def body(x):
        return lax.scan(lambda c, w: (tag(c * w, name="c"), None), x, jnp.float32([2, 3]))[0]

    f = sharded(body, mesh("8"), P("i"), check_vma=check_vma)
    run, _ = injected(f, (X,), injector, jnp.float32(0))
    (out,), total = jax.jit(run)(jnp.float32(0), X)
    first = 2 * X - (2 * X).mean()
    assert_close(out, 3 * first - (3 * first).mean(), 1e-4)
    assert_close(total, jnp.float32((2 * X).mean() + (3 * first).mean()), 1e-4)


def test_a_ctx_may_differ_for_a_while():
    """It comes to differ at one tag, goes so into a loop, and is made equal in there."""

    def body(x):
        x = tag(x, name="own")
        step = lambda c, w: (tag(c * w, name="all"), None)
        return lax.scan(step, x, jnp.float32([2, 3]))[0]

    def injector(ctx, token, params):
        if params["name"] == "own":
            return token, ctx + jnp.sum(token)
        return token, lax.pmax(ctx, "i")

    f = sharded(body, mesh("8"), P("i"))
    run, new = injected(f, (X,), injector, jnp.float32(0), shards="pmax")
    check_types(new)
    assert_close(jax.jit(run)(jnp.float32(0), X)[1], X.sum(1).max())


@pytest.mark.spread(2)
@pytest.mark.parametrize("check_vma", [True, False], ids=["checked", "unchecked"])
def test_derivatives_are_those_of_the_program_threaded_by_hand(check_vma):
    def tagged(x):
        at = lambda ctx, x, name: (tag(x, name=name), ctx)
        return gathered(at, (), x)[0]

    def threaded(ctx, x):
        at = lambda ctx, x, name: changing(ctx, x, {"name": name})
        x, new = gathered(at, ctx, x)
        return x, ctx["s"] + lax.psum(new["s"] - ctx["s"], "i")

    over = mesh("8")
    f = sharded(tagged, over, P("i"), check_vma=check_vma)
    run, _ = injected(f, (X,), shards="psum")
    by_hand = jax.shard_map(
        threaded, mesh=over, in_specs=(P(), P("i")), out_specs=(P("i"), P()), check_vma=check_vma
    )

    def ours(s, x):
        (out,), ctx = run({**start(), "s": s}, x)
        return jnp.sum(jnp.sin(out)) + 0.3 * ctx["s"]

    def theirs(s, x):
        out, s = by_hand({**start(), "s": s}, x)
        return jnp.sum(jnp.sin(out)) + 0.3 * s

    at = jnp.float32(0.25), jnp.asarray(X)
    along = jnp.float32(0.5), jnp.cos(at[1])
    for of in ours, theirs:
        assert jax.jit(of)(*at) != 0
    expected = jax.jit(jax.grad(theirs, (0, 1)))(*at)
    assert_close(jax.jit(jax.grad(ours, (0, 1)))(*at), expected, 1e-4)
    expected = jax.jit(lambda *at: jax.jvp(theirs, at, along))(*at)
    assert_close(jax.jit(lambda *at: jax.jvp(ours, at, along))(*at), expected, 1e-4)


def test_vmap_of_the_injected_program_has_a_ctx_for_each_lane():
    def body(x):
        x = tag(x, name="x")
        return x - lax.pmean(x, "i")

    f, lanes = sharded(body, mesh("8"), P("i")), jnp.stack([X, 2 * X, -X])
    try:
        jax.make_jaxpr(jax.vmap(f))(lanes)
    except TypeError:
        pytest.skip("jax 0.8 cannot batch psum_invariant")
    run, _ = injected(f, (X,), shards="psum")
    ctx = {"n": jnp.arange(3), "s": jnp.float32([0.1, 0.2, 0.3])}
    outs, new = jax.jit(jax.vmap(run))(ctx, lanes)
    for k in range(3):
        own = jax.tree.map(lambda c, k=k: c[k], ctx)
        expected = jax.jit(run)(own, lanes[k])
        assert_close(jax.tree.map(lambda x, k=k: x[k], (outs, new)), expected)


def test_vmap_inside_the_program():
    """One call sees the batch of each device."""

    def body(x):
        return jax.vmap(lambda r: tag(r - lax.pmax(r, "i"), name="row"), in_axes=1, out_axes=1)(x)

    run, _ = injected(
        sharded(body, mesh("8"), P("i")), (X,), lambda c, t, p: (t * 2, c + t.sum()),
        jnp.float32(0), shards="psum",
    )  # fmt: skip
    (out,), total = jax.jit(run)(jnp.float32(0), X)
    assert_close(out, 2 * (X - X.max(0)))
    assert_close(total, (X - X.max(0)).sum(), 1e-4)


def test_collected_values_of_a_program_with_collectives():
    def body(x):
        x = tag(x, name="own")
        return tag(lax.psum(x, "i"), name="total") + x

    program = taxpr.trace(sharded(body, mesh("8"), P("i")))(X)
    out, values = jax.jit(program.collect())(X)
    assert_close(values, {"own": X[:, None], "total": X.sum(0)[None]})
    assert_close(out, X + X.sum(0))
