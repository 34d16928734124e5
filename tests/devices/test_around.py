"""shard_map with other things around and in it: meshes, pmap, custom rules, edits, collection."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from devices.by_hand import by_device, changing, injected, mesh, sharded, start
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
checked = pytest.mark.parametrize("check_vma", [True, False], ids=["checked", "unchecked"])


# ---- meshes --------------------------------------------------------------------


def nested(at_outer, at_inner, check_vma):
    """A shard_map over "j" in one over "i": ``(ctx, x) -> (x, ctx)``, with ctx by hand."""

    def inner(ctx, y):
        return at_inner(ctx, y * 3)

    def outer(ctx, x):
        x, ctx = at_outer(ctx, x)
        specs = (P(), P(None, "j"))
        x, ctx = jax.shard_map(
            inner,
            in_specs=specs,
            out_specs=specs[::-1],
            axis_names={"j"},
            check_vma=check_vma,
        )(ctx, x)
        return at_outer(ctx, x)

    return outer


@pytest.mark.spread(2)
@checked
@pytest.mark.parametrize("with_set_mesh", [True, False])
def test_nested_shard_maps_merge_each_along_its_own_axes(check_vma, with_set_mesh):
    over = mesh("4x2")
    tagged = nested(
        lambda ctx, x: (tag(x, name="outer"), ctx),
        lambda ctx, x: (tag(x, name="in"), ctx),
        check_vma,
    )

    def at_inner(ctx, y):
        y, new = changing(ctx, y, {"name": "in"})
        return y, {"n": new["n"], "s": ctx["s"] + lax.psum(new["s"] - ctx["s"], "j")}

    def by_hand(ctx, x):
        at_outer = lambda ctx, x: changing(ctx, x, {"name": "outer"})
        x, new = nested(at_outer, at_inner, check_vma)(ctx, x)
        return x, {"n": new["n"], "s": ctx["s"] + lax.psum(new["s"] - ctx["s"], "i")}

    f = sharded(lambda x: tagged((), x)[0], over, P("i"), axis_names={"i"}, check_vma=check_vma)
    hand = jax.shard_map(
        by_hand,
        mesh=over,
        in_specs=(P(), P("i")),
        out_specs=(P("i"), P()),
        axis_names={"i"},
        check_vma=check_vma,
    )
    # Up to 0.10 JAX runs an unchecked shard_map over some of the axes only in a jit.
    expected, ctx = jax.jit(hand)(start(), X)
    if with_set_mesh:
        with jax.set_mesh(over):
            run, new = injected(f, (X,), shards="psum")
            (out,), got = jax.jit(run)(start(), X)
    else:
        run, new = injected(f, (X,), shards="psum")
        (out,), got = jax.jit(run)(start(), X)
    check_types(new)
    assert_close((out, got), (expected, ctx), 1e-4)
    with pytest.raises(taxpr.RefusedError, match=r"differs between the devices along j when .*:sh"):
        injected(f, (X,), predicate=lambda params, _: params["name"] == "in")
    with pytest.raises(taxpr.RefusedError, match="differs between the devices along i when"):
        injected(f, (X,), predicate=lambda params, _: params["name"] == "outer")


@checked
def test_nested_shard_maps_stack_each_along_its_own_axes(check_vma):
    tagged = nested(lambda ctx, x: (x, ctx), lambda ctx, x: (tag(x, name="in"), ctx), check_vma)
    f = sharded(
        lambda x: tagged((), x)[0], mesh("4x2"), P("i"), axis_names={"i"}, check_vma=check_vma
    )
    run, _ = injected(f, (X,), lambda c, t, p: (t, c + t.sum()), jnp.float32(1), shards="stack")
    _, totals = jax.jit(run)(jnp.float32(1), X)
    assert_close(totals, 1 + 3 * X.reshape(4, 2, 2, 2).sum((1, 3)), 1e-4)
    values = jax.jit(taxpr.trace(f)(X).collect())(X)[1]
    assert_close(values["in"], 3 * X.reshape(4, 2, 2, 2).transpose(0, 2, 1, 3))


@checked
def test_a_shard_map_over_some_axes_of_a_mesh(check_vma):
    def body(x):
        return tag(jnp.sin(x), name="x")

    over = mesh("4x2")
    f = sharded(body, over, P("i"), axis_names={"i"}, check_vma=check_vma)
    run, _ = injected(f, (X,), shards="stack")
    (out,), ctx = jax.jit(run)(start(), X)
    expected, contexts = by_device(body, X, P("i"), P("i"), over, changing, start())
    assert_close(out, expected)
    assert_close(ctx["s"], jnp.stack([contexts[k, 0]["s"] for k in range(4)]))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
@pytest.mark.parametrize("inside", [True, False], ids=["with the mesh", "without"])
def test_the_mesh_of_set_mesh(kind, inside):
    """A program traced with a mesh keeps it, wherever it is injected."""
    over = mesh("4x2", kind)

    def f(x):
        y = jax.shard_map(
            lambda x: tag(x * 2, name="xx"), in_specs=P("i", "j"), out_specs=P("i", "j")
        )(x)
        return tag(jnp.sin(y), name="after")

    seen = []

    def injector(ctx, token, params):
        seen.append(jax.sharding.get_abstract_mesh().axis_names)
        return changing(ctx, token, params)

    with jax.set_mesh(over):
        x = jax.device_put(X, P("i", "j"))
        program = taxpr.trace(f)(x)
        if inside:
            injected_in = program.inject(injector, start(), shards="psum")
    if not inside:
        injected_in = program.inject(injector, start(), shards="psum")
    with jax.set_mesh(over):
        out, ctx = jax.jit(injected_in)(start(), x)
    first, contexts = by_device(
        lambda x: tag(x * 2, name="xx"), X, P("i", "j"), P("i", "j"), over, changing, start()
    )
    s = start()["s"] + sum(c["s"] - start()["s"] for c in contexts.values())
    expected = changing({"n": jnp.int32(3), "s": s}, jnp.sin(first), {"name": "after"})
    assert_close((out, ctx), expected, 1e-4)
    assert set(seen) == {("i", "j")}
    assert out.sharding.is_equivalent_to(NamedSharding(over, P("i", "j")), 2)


def test_closed_over_arrays():
    w = jnp.arange(1.0, 5.0)[None]

    def body(x):
        return lax.scan(lambda c, y: (tag(c * w + y, name="c"), None), x, w[0])[0]

    def injector(ctx, token, params):
        return token + w, ctx + w * jnp.sum(token)

    f = sharded(body, mesh("8"), P("i"))
    run, new = injected(f, (X,), injector, jnp.zeros((1, 4)), shards="psum")
    check_types(new)
    (out,), ctx = jax.jit(run)(jnp.zeros((1, 4)), X)
    expected, contexts = by_device(body, X, P("i"), P("i"), mesh("8"), injector, jnp.zeros((1, 4)))
    assert_close(out, expected, 1e-4)
    assert_close(ctx, sum(contexts.values()), 1e-4)


def test_an_injector_may_close_over_a_tracer():
    f = sharded(lambda x: tag(x, name="x"), mesh("8"), P("i"))

    @jax.jit
    def scaled(x, factor):
        program = taxpr.trace(f)(x).inject(lambda c, t, p: (t * factor, c), ())
        return program((), x)[0]

    assert_close(scaled(X, jnp.float32(3)), 3 * X)
    slope = jax.grad(lambda x, factor: scaled(x, factor).sum(), 1)(X, jnp.float32(3))
    assert_close(slope, X.sum())


# ---- pmap ----------------------------------------------------------------------


def test_pmap():
    f = jax.pmap(lambda x: tag(jnp.sin(x) - lax.pmean(x, "b"), name="x"), axis_name="b")
    jaxpr = jax.make_jaxpr(f)(X)
    assert [params for params, _ in taxpr.iter_tags(jaxpr)] == [{"name": "x"}]
    double = lambda c, t, p: (t * 2, c + jnp.sum(t))
    if any(eqn.primitive.name == "xla_pmap" for eqn in jaxpr.eqns):
        with pytest.raises(taxpr.RefusedError, match="does not inject into xla_pmap: each device"):
            taxpr.inject(jaxpr, double, jnp.float32(0), shards="psum")
        with pytest.raises(taxpr.RefusedError, match="xla_pmap"):
            taxpr.trace(f)(X).collect()
    else:
        run, _ = injected(f, (X,), double, jnp.float32(0), shards="psum")
        (out,), total = jax.jit(run)(jnp.float32(0), X)
        expected = np.sin(X) - X.mean(0)
        assert_close(out, 2 * expected)
        assert_close(total, expected.sum(), 1e-4)
        assert_close(taxpr.trace(f)(X).collect()(X)[1]["x"], expected)
    new = taxpr.dissolve_tags(jaxpr)
    assert taxpr.find_tags(new) == []
    assert_close(jex.jaxpr_as_fun(new)(X), [f(X)])


# ---- custom rules --------------------------------------------------------------


def with_jvp(x):
    @jax.custom_jvp
    def g(x):
        return tag(jnp.sin(x), name="g")

    @g.defjvp
    def _(primals, tangents):
        return g(primals[0]), 0.9 * tag(jnp.cos(primals[0]), name="slope") * tangents[0]

    return g(x)


def with_collective_in_jvp(x):
    """A rule that names the mesh axis, in which a tag stands that the function has not."""

    @jax.custom_jvp
    def g(x):
        return jnp.sin(x)

    @g.defjvp
    def _(primals, tangents):
        mean = tag(lax.pmean(primals[0], "i"), name="mean")
        return g(primals[0]), mean * tangents[0]

    return g(x)


def with_vjp(x):
    @jax.custom_vjp
    def g(x):
        return tag(jnp.sin(x), name="g")

    g.defvjp(lambda x: (g(x), tag(x, name="res")), lambda x, ct: (0.9 * ct * jnp.cos(x),))
    return g(x)


@checked
@pytest.mark.parametrize("function", [with_jvp, with_vjp], ids=lambda f: f.__name__)
def test_custom_rules_in_a_shard_map(function, check_vma):
    over = mesh("8")
    f = sharded(function, over, P("i"), check_vma=check_vma)
    run, new = injected(f, (X,), shards="psum")
    check_types(new)
    (out,), ctx = jax.jit(run)(start(), X)
    expected, contexts = by_device(function, X, P("i"), P("i"), over, changing, start())
    assert_close(out, expected)
    total = lambda contexts: start()["s"] + sum(c["s"] - start()["s"] for c in contexts.values())
    assert_close(ctx["s"], total(contexts))
    # The injected program differentiated is the differentiated one injected.
    ours = jax.jit(jax.grad(lambda x: jnp.sum(run(start(), x)[0][0])))(X)
    of_shard = lambda x: jax.grad(lambda x: jnp.sum(function(x)))(x)
    theirs, _ = by_device(of_shard, X, P("i"), P("i"), over, changing, start())
    assert_close(ours, theirs)
    run, _ = injected(f, (X,), shards="psum", custom_rules="drop")
    ours = jax.jit(jax.grad(lambda x: jnp.sum(run(start(), x)[0][0])))(X)
    assert_close(ours, 1.01 * np.cos(X), 1e-4)


@checked
def test_a_collective_in_a_rule(check_vma):
    f = sharded(with_collective_in_jvp, mesh("8"), P("i"), check_vma=check_vma)
    program = taxpr.trace(f)(X)
    [site] = program.tags()
    assert (site.name, site.in_rule) == ("mean", True)
    program = program.inject(taxpr.scale(10.0))
    slope = jax.jit(jax.grad(lambda x: jnp.sum(program(program.ctx, x)[0])))(X)
    assert_close(slope, np.broadcast_to(10 * X.mean(0), X.shape), 1e-4)


@checked
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_custom_rules_around_a_shard_map(kind, check_vma):
    over = mesh("8")
    f = sharded(lambda x: tag(x * 3, name="x"), over, P("i"), check_vma=check_vma)
    if kind == "jvp":
        g = jax.custom_jvp(lambda x: f(x))
        g.defjvp(lambda primals, tangents: (f(*primals), 2 * tangents[0]))
    else:
        g = jax.custom_vjp(lambda x: f(x))
        g.defvjp(lambda x: (f(x), None), lambda _, ct: (2 * ct,))
    run, _ = injected(lambda x: g(x), (X,), shards="psum")
    (out,), ctx = jax.jit(run)(start(), X)
    plain, _ = injected(f, (X,), shards="psum")
    expected = jax.jit(plain)(start(), X)
    assert_close([[out], ctx], expected)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(run(start(), x)[0][0])))(X)
    assert_close(slope, np.full_like(X, 2))
    with pytest.raises(taxpr.RefusedError, match="differs between the devices along i"):
        injected(lambda x: g(x), (X,))


# ---- edits ---------------------------------------------------------------------


@checked
def test_tag_at_and_dissolve_in_a_shard_map(check_vma):
    def body(x):
        return lax.scan(lambda c, w: (jnp.sin(c) * w, None), x, jnp.float32([2, 3]))[0]

    f = sharded(body, mesh("8"), P("i"), check_vma=check_vma)
    program = taxpr.trace(f)(X)
    [address] = [a for a, eqn in taxpr.iter_eqns(program.jaxpr) if eqn.primitive.name == "sin"]
    tagged = program.tag_at(address, name="s")
    changed = tagged.inject(taxpr.scale(2.0), where="s")
    out, _ = jax.jit(changed)(changed.ctx, X)
    assert_close(out, 6 * np.sin(4 * np.sin(X)), 1e-4)
    values = jax.jit(tagged.collect("s"))(X)[1]["s"]
    first = np.sin(X)
    assert_close(values, np.stack([first, np.sin(2 * first)], 1)[:, :, None], 1e-4)
    assert str(tagged.dissolve().jaxpr) == str(program.jaxpr)


def test_ready_injectors_keep_a_state_for_each_device_when_stacked():
    f = sharded(lambda x: tag(x * 2, name="x"), mesh("8"), P("i"))
    program = taxpr.trace(f)(X).inject(taxpr.stats(), shards="stack")
    _, ctx = jax.jit(program)(program.ctx, X)
    [reports] = program.report(ctx).values()
    assert_close([report["mean"] for report in reports], list((2 * X).mean(1)))
    assert_close([report["max"] for report in reports], list((2 * X).max(1)))
    assert [int(report["count"]) for report in reports] == [1] * 8


# ---- collection ----------------------------------------------------------------


@checked
def test_collected_values_have_an_axis_for_each_mesh_axis(check_vma):
    def body(x):
        total = tag(lax.psum(x, "j"), name="of row")
        return tag({"x": x, "total": total}, name="tree")["x"]

    f = sharded(body, mesh("4x2"), P("i", "j"), check_vma=check_vma)
    blocks = X.reshape(4, 2, 2, 2).transpose(0, 2, 1, 3)
    program = taxpr.trace(f)(X).collect()
    _, values = jax.jit(program)(X)
    assert_close(values["of row"], blocks.sum(1))
    # A token is placed as a whole.
    assert_close(values["tree"]["x"], blocks)
    assert_close(values["tree"]["total"], np.broadcast_to(blocks.sum(1)[:, None], blocks.shape))
    assert jax.eval_shape(program, X)[1]["of row"].shape == (4, 2, 2)


@checked
def test_collected_values_of_branches_and_loops(check_vma):
    def body(x):
        high = lambda x: tag(x * 2, name="high")
        x = lax.cond(jnp.sum(x) > 2, high, lambda x: x, x)
        go_on = lambda c: jnp.sum(c) < 12
        x = lax.while_loop(go_on, lambda c: tag(jnp.abs(c) * 1.5 + 0.5, name="loop"), x)
        return lax.scan(lambda c, w: (tag(c * w, name="c"), None), x, jnp.float32([2, 3]))[0]

    f = sharded(body, mesh("8"), P("i"), check_vma=check_vma)
    _, values = jax.jit(taxpr.trace(f)(X).collect())(X)
    fired = X.sum(1) > 2
    assert values["high"].mask.tolist() == fired.tolist()
    assert_close(values["high"].value, np.where(fired[:, None], 2 * X, 0)[:, None])
    counts = []
    for k, x in enumerate(np.where(fired[:, None], 2 * X, X)):
        n, last = 0, np.zeros_like(x)
        while x.sum() < 12:
            n, x = n + 1, np.abs(x) * np.float32(1.5) + np.float32(0.5)
            last = x
        counts.append(n)
        assert_close(values["loop"].value[k, 0], last, 1e-4)
        assert_close(values["c"][k, :, 0], np.stack([2 * x, 6 * x]), 1e-4)
    assert values["loop"].count.tolist() == counts
    assert len(set(counts)) > 2


def test_what_is_counted_the_same_on_all_devices_has_no_axis():
    def body(x):
        go_on = lambda c: c[0] < 3
        return lax.while_loop(go_on, lambda c: (tag(c[0] + 1, name="i"), c[1] * 2), (0, x))[1]

    _, values = jax.jit(taxpr.trace(sharded(body, mesh("8"), P("i")))(X).collect())(X)
    assert values["i"].count.shape == ()
    assert (int(values["i"].value), int(values["i"].count)) == (3, 3)


def test_collected_values_stay_on_their_devices():
    f = sharded(lambda x: tag(x * 2, name="x"), mesh("4x2"), P("i", "j"))
    x = jax.device_put(X, NamedSharding(mesh("4x2"), P("i", "j")))
    _, values = jax.jit(taxpr.trace(f)(x).collect())(x)
    assert values["x"].sharding.is_equivalent_to(NamedSharding(mesh("4x2"), P("i", "j")), 4)
