"""Injection into shard_map, against the plain interpreter run for each device in turn."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from devices.by_hand import (
    axes_of,
    by_device,
    changing,
    injected,
    merged,
    mesh,
    sharded,
    start,
)
from jax import lax
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
W = np.float32([0.5, -0.25])  # an array that bodies close over


# ---- bodies: of an array of any shape, without collectives ---------------------


def flat(x):
    t = tag({"x": jnp.sin(x), "k": jnp.int32(3)}, name="a")
    tag(x * 2, name="unused")
    return tag(t["x"] * W[0] + t["k"].astype(x.dtype), name="bb")


def calls(x):
    @jax.jit
    def twice(y):
        return tag(y * 2 + W.sum(), name="jit")

    return jax.checkpoint(lambda y: jnp.cos(tag(y, name="remat")))(twice(twice(x)))


def scanned(x):
    def step(c, w):
        c = tag(c * 0.9 + w, name="c")
        return c, None

    return lax.scan(step, x, W, reverse=True)[0]


def branched(x):
    high = lambda a: tag(a * 3, name="high")
    return tag(lax.cond(jnp.sum(x) > 1.0, high, lambda a: a - W[1], x), name="after")


def looped(x):
    """Devices leave the loop at different times."""

    def go_on(c):
        return (tag(jnp.sum(c[1]), name="cond") < 20.0) & (c[0] < 6)

    def step(c):
        return c[0] + 1, tag(jnp.abs(c[1]) * 1.3 + 0.5, name="body")

    return lax.while_loop(go_on, step, (jnp.int32(0), x))[1]


def drawn(x):
    key = tag(jax.random.key(3), name="key")
    return tag(x * jax.random.uniform(key, x.shape, x.dtype), name="u")


def deep(x):
    def step(c, w):
        c = lax.cond(jnp.sum(c) > 0, jax.jit(looped), lambda c: tag(c * w, name="low"), c)
        return jax.checkpoint(lambda d: tag(jnp.sin(d), name="y"))(c), None

    return jax.jit(lambda x: lax.scan(step, x, W)[0])(x)


# Bodies, and whether devices may differ in how often their tags fire.
BODIES = {
    flat: False,
    calls: False,
    scanned: False,
    branched: True,
    looped: True,
    drawn: False,
    deep: True,
}
LAYOUTS = {
    "8": ("8", P("i"), P("i")),
    "4x2": ("4x2", P("i", "j"), P("i", "j")),
    "both on one": ("4x2", P(("i", "j")), P(("i", "j"))),
    "one of two": ("4x2", P("j"), P("j")),
    "turned": ("4x2", P("j", "i"), P("i", "j")),
}
POLICIES = {"psum": "psum", "pmax": "pmax", "stack": "stack", "mean": lax.pmean}

checked = pytest.mark.parametrize("check_vma", [True, False], ids=["checked", "unchecked"])


def agrees(body, layout, policy, check_vma, *, eager=False):
    name, in_spec, out_spec = LAYOUTS[layout]
    over = mesh(name)
    f = sharded(body, over, in_spec, out_spec, check_vma=check_vma)
    run, new = injected(f, (X,), shards=POLICIES[policy])
    check_types(new)
    assert taxpr.find_tags(new) == []
    (out,), ctx = (run if eager else jax.jit(run))(start(), X)
    expected, contexts = by_device(body, X, in_spec, out_spec, over, changing, start())
    assert_close(out, expected)
    along = axes_of(in_spec)
    for leaf, differs in ("s", True), ("n", BODIES[body]):
        each = {where: one[leaf] for where, one in contexts.items()}
        if not differs:
            assert len({int(n) for n in each.values()}) == 1
            assert_close(ctx[leaf], each.popitem()[1])
        elif not (leaf == "n" and policy == "mean"):
            assert_close(ctx[leaf], merged(policy, start()[leaf], each, over, along))


@pytest.mark.spread(10)
@checked
@pytest.mark.parametrize("layout", ["4x2", "one of two"])
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_each_body_agrees_with_its_run_on_each_device(body, layout, check_vma):
    agrees(body, layout, "psum", check_vma)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("layout", "check_vma"),
    [("8", True), ("4x2", False), ("both on one", True), ("one of two", False), ("turned", True)],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_on_each_mesh(policy, layout, check_vma):
    agrees(scanned, layout, policy, check_vma)


@pytest.mark.spread(4)
@pytest.mark.parametrize(("policy", "check_vma"), [("psum", True), ("stack", False)])
def test_without_jit(policy, check_vma):
    agrees(flat, "8", policy, check_vma, eager=True)


@checked
def test_devices_that_leave_a_loop_at_different_times_differ(check_vma):
    """JAX itself takes what is counted there for the same on all devices."""
    f = sharded(looped, mesh("8"), P("i"), check_vma=check_vma)
    count = lambda n, t, p: (t, n + 1)
    with pytest.raises(taxpr.RefusedError, match=r"ctx leaf int32\[\] .* differs between .* i "):
        injected(f, (X,), count, 0)
    run, _ = injected(f, (X,), count, jnp.int32(5), shards="stack")
    _, counts = jax.jit(run)(jnp.int32(5), X)
    _, contexts = by_device(looped, X, P("i"), P("i"), mesh("8"), count, jnp.int32(5))
    assert_close(counts, jnp.stack([contexts[k,] for k in range(8)]))
    assert len(set(counts.tolist())) > 2


@checked
def test_the_same_on_all_devices_needs_no_policy(check_vma):
    """Counts, what comes of the counts, keys split on the way, and what a collective made equal."""

    def body(x):
        def step(c, _):
            c = tag(c * 1.5, name="c")
            return lax.fori_loop(0, 2, lambda i, c: tag(c + i.astype(c.dtype), name="d"), c), None

        x = jax.jit(lambda x: lax.scan(step, x, None, length=3)[0])(x)
        return tag(lax.pmax(x, "i"), name="max"), x

    def injector(ctx, token, params):
        key, now = jax.random.split(ctx["key"])
        token = token + jax.random.uniform(now, (), token.dtype)
        top = jnp.max(token) if params["name"] == "max" else ctx["top"]
        return token, {"n": ctx["n"] + 1, "key": key, "odd": ~ctx["odd"], "top": top}

    ctx = {"n": 0, "key": jax.random.key(1), "odd": False, "top": 0.0}
    ctx = jax.tree.map(jnp.asarray, ctx)
    f = sharded(body, mesh("8"), P("i"), (P(), P("i")), check_vma=check_vma)
    run, _ = injected(f, (X,), injector, ctx)
    outs, new = jax.jit(run)(ctx, X)
    assert int(new["n"]) == 3 * 3 + 1
    assert not new["odd"] ^ bool(10 % 2)
    key, x = ctx["key"], X
    for k in range(9):
        key, now = jax.random.split(key)
        x = x * 1.5 if k % 3 == 0 else x + (k % 3 - 1)
        x = x + jax.random.uniform(now, (), x.dtype)
    key, now = jax.random.split(key)
    top = x.max(0) + jax.random.uniform(now, (), x.dtype)
    assert_close(outs, [top[None], x])
    assert_close((new["key"], new["top"]), (key, top.max()))


# ---- kinds of ctx --------------------------------------------------------------


def seeing(ctx, token, params):
    """Every leaf comes to differ between the devices."""
    high = jnp.sum(token) > 1.0
    bits = jnp.int32(10 * jnp.sum(token))
    leaf, (tree, none) = ctx["int"], ctx["tree"]
    new = {
        "int": leaf + bits,
        "bool": ctx["bool"] | high,
        "key": jax.random.fold_in(ctx["key"], bits),
        "half": ctx["half"] + jnp.sum(token).astype(jnp.bfloat16),
        "tree": ([tree[0] + token.sum(0), tree[1]], none),
    }
    return token, new


def kinds():
    return {
        "int": jnp.int8(1),
        "bool": jnp.array(False),
        "key": jax.random.key(0),
        "half": jnp.bfloat16(0.5),
        "tree": ([jnp.zeros(4), jnp.arange(2)], None),
    }


def seeing_int8(ctx, token, params):
    ctx = {**ctx, "int": ctx["int"].astype(jnp.int32)}
    token, ctx = seeing(ctx, token, params)
    return token, {**ctx, "int": ctx["int"].astype(jnp.int8)}


@checked
def test_leaves_of_every_kind_stack(check_vma):
    f = sharded(lambda x: tag(x, name="x"), mesh("4x2"), P(("j", "i")), check_vma=check_vma)
    run, _ = injected(f, (X,), seeing_int8, kinds(), shards="stack")
    _, ctx = jax.jit(run)(kinds(), X)
    assert ctx["tree"][0][1].shape == (2,)
    for j, i in np.ndindex(2, 4):
        _, own = seeing_int8(kinds(), jnp.asarray(X[4 * j + i][None]), {})
        at = jax.tree.map(operator.itemgetter((i, j)), {**ctx, "tree": ctx["tree"][0][0]})
        assert_close(at, {**own, "tree": own["tree"][0][0]})


@checked
@pytest.mark.parametrize(("policy", "leaf"), [("psum", "bool"), ("psum", "key"), ("pmax", "key")])
def test_what_has_no_sum_or_greatest_is_refused(policy, leaf, check_vma):
    f = sharded(lambda x: tag(x, name="x"), mesh("8"), P("i"), check_vma=check_vma)
    injector = lambda c, t, p: (t, seeing_int8({**kinds(), leaf: c}, t, p)[1][leaf])
    with pytest.raises(taxpr.InjectorError, match=rf"there is no {policy} of that. Use shards="):
        injected(f, (X,), injector, kinds()[leaf], shards=policy)


def test_complex_numbers_have_no_greatest():
    f = sharded(lambda x: tag(x, name="x"), mesh("8"), P("i"))
    injector = lambda c, t, p: (t, c + jnp.sum(t).astype(jnp.complex64))
    with pytest.raises(taxpr.InjectorError, match="complex64, and there is no pmax"):
        injected(f, (X,), injector, np.complex64(1j), shards="pmax")
    run, _ = injected(f, (X,), injector, np.complex64(1j), shards="psum")
    assert_close(jax.jit(run)(jnp.complex64(1j), X)[1].real, X.sum())


@checked
def test_booleans_have_a_greatest(check_vma):
    f = sharded(lambda x: tag(x, name="x"), mesh("8"), P("i"), check_vma=check_vma)
    injector = lambda c, t, p: (t, c | (jnp.sum(t) > 7.0))
    run, _ = injected(f, (X,), injector, False, shards="pmax")
    for shift in 0.0, -50.0:
        _, seen = jax.jit(run)(jnp.array(False), X + np.float32(shift))
        assert bool(seen) == bool((X.sum(1) + 4 * shift > 7).any())


@checked
def test_a_function_is_called_for_each_leaf_that_differs(check_vma):
    calls = []

    def merge(leaf, names):
        calls.append((leaf.shape, names))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(lax.pmax(jax.random.key_data(leaf), names))
        return lax.pmin(leaf, names)

    def injector(ctx, token, params):
        key, low, n = ctx
        return token, (jax.random.fold_in(key, of_sum(token)), low + token.sum(0), n + 1)

    def of_sum(token):
        return jnp.int32(jnp.round(100 * jnp.sum(token)))

    ctx = (jax.random.key(2), jnp.ones(2), jnp.int32(0))
    f = sharded(lambda x: tag(x, name="x"), mesh("4x2"), P("i", "j"), check_vma=check_vma)
    run, _ = injected(f, (X,), injector, ctx, shards=merge)
    assert sorted(calls) == [((), ("i", "j")), ((2,), ("i", "j"))]
    _, new = jax.jit(run)(ctx, X)
    blocks = X.reshape(4, 2, 2, 2).transpose(0, 2, 1, 3).reshape(8, 2, 2)
    keys = [jax.random.key_data(jax.random.fold_in(ctx[0], of_sum(b))) for b in blocks]
    assert_close(jax.random.key_data(new[0]), jnp.stack(keys).max(0))
    assert_close(new[1:], (1 + blocks.sum(1).min(0), jnp.int32(1)))


# ---- refusals ------------------------------------------------------------------


@checked
def test_without_a_policy_the_error_names_tag_axes_and_ways_out(check_vma):
    f = sharded(scanned, mesh("4x2"), P("j", "i"), check_vma=check_vma)
    with pytest.raises(taxpr.RefusedError) as info:
        injected(f, (X,))
    for part in (
        "a ctx leaf float32[] of the injector at tag 'c' (test_shards.py:",
        ", at 0:shard_map/body/",
        "/body/t0) differs between the devices along i, j when it leaves shard_map",
        'shards="psum" adds up what each device changed',
        '"pmax" takes the greatest',
        '"stack" keeps all, with a new leading axis for each of these',
        "a function (ctx, axis_names) -> ctx",
    ):
        assert part in str(info.value)
    f = sharded(scanned, mesh("4x2"), P("j"), check_vma=check_vma)
    with pytest.raises(taxpr.RefusedError, match="between the devices along j when"):
        injected(f, (X,))


@checked
@pytest.mark.parametrize(
    ("merge", "message"),
    [
        (lambda c, names: c, r"returned in shard_map.* still differs along i, j. Reduce over all"),
        (
            lambda c, names: lax.psum(c, names[0]),
            "still differs along j. Reduce",
        ),
        (lambda c, names: lax.psum(c, names)[None], r"made float32\[1\] of a ctx leaf float32"),
        (lambda c, names: lax.psum(jnp.int32(c), names), r"It must keep shape and dtype"),
    ],
    ids=["as it is", "one axis of two", "shape", "dtype"],
)
def test_a_function_that_does_not_merge_is_refused(merge, message, check_vma):
    f = sharded(flat, mesh("4x2"), P("i", "j"), check_vma=check_vma)
    with pytest.raises(taxpr.InjectorError, match=message):
        injected(f, (X,), shards=merge)


@checked
@pytest.mark.parametrize("loop", ["scan", "cond", "twice"])
def test_a_stacked_ctx_is_used_once(loop, check_vma):
    one = sharded(lambda x: tag(x * 2, name="x"), mesh("8"), P("i"), check_vma=check_vma)
    message = 'runs a shard_map with shards="stack" more than once or not always'
    if loop == "scan":
        f = lambda x: lax.scan(lambda c, _: (one(c), None), x, None, length=3)[0]
    elif loop == "cond":
        f = lambda x: lax.cond(x[0, 0] > 0, one, jnp.sin, x)
    else:
        f, message = (lambda x: one(one(x))), 'With shards="stack" a ctx is used in one'
    with pytest.raises(taxpr.RefusedError, match=message):
        injected(f, (X,), shards="stack")
    # The other policies go on.
    run, _ = injected(f, (X,), shards="psum")
    _, ctx = jax.jit(run)(start(), X)
    assert int(ctx["n"]) == 2 + {"scan": 3, "cond": 0, "twice": 2}[loop]


@checked
def test_a_token_stays_the_same_on_all_devices(check_vma):
    def body(x):
        return tag(lax.psum(tag(x, name="x"), "i"), name="total")

    f = sharded(body, mesh("8"), P("i"), P(), check_vma=check_vma)
    found = (
        "changed token: it was the same" if check_vma else "changed result 0 of shard_map of body"
    )
    with pytest.raises(taxpr.InjectorError, match=f"{found}.* along i, and now it may differ"):
        injected(f, (X,), shards="psum")
    # A context that differs may pass by.
    passing = lambda c, t, p: (t * 2, {"n": c["n"], "s": c["s"] + jnp.sum(t)})
    run, _ = injected(f, (X,), passing, shards="psum")
    (out,), ctx = jax.jit(run)(start(), X)
    total = 4 * X.sum(0)
    assert_close(out, total[None])
    assert_close(ctx["s"], np.float32(0.25 + X.sum() + 8 * total.sum() / 2))


@checked
@pytest.mark.parametrize("make", [taxpr.zero, lambda: taxpr.replace(3.0)], ids=["zero", "replace"])
def test_a_constant_takes_the_place_of_values_that_differ(make, check_vma):
    def body(x):
        step = lambda c, w: (tag(c * w, name="c") + x, None)
        return tag(lax.scan(step, x, W)[0], name="last") + x

    program = taxpr.trace(sharded(body, mesh("8"), P("i"), check_vma=check_vma))(X)
    program = program.inject(make())
    out, _ = jax.jit(program)(program.ctx, X)
    assert_close(out, X + (0 if make is taxpr.zero else 3))


# ---- states that are no sums ---------------------------------------------------


def tagged_shards():
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    body = lambda x: taxpr.tag(x * 2, name="h")
    return taxpr.trace(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))


@pytest.mark.parametrize("policy", ["psum", "pmax"])
@pytest.mark.parametrize("kind", [taxpr.stats, taxpr.record])
def test_states_that_do_not_add_up_are_not_made_one(kind, policy):
    program = tagged_shards()(jnp.arange(8.0))
    message = rf"{kind.name} in shard_map \(.*\) has a state that is no sum, so shards='{policy}'"
    with pytest.raises(taxpr.InjectorError, match=message):
        program.inject({"h": [taxpr.count(), kind()]}, shards=policy)


@pytest.mark.slow
def test_stacked_states_are_reported_for_each_device():
    xs = jnp.arange(8.0)
    injected = tagged_shards()(xs).inject({"h": taxpr.stats()}, shards="stack")
    _, ctx = injected(injected.ctx, xs)
    [reports] = injected.report(ctx)["h"].values()
    assert [float(report["mean"]) for report in reports] == [2.0 * x for x in range(8)]
    assert [int(report["count"]) for report in reports] == [1] * 8
