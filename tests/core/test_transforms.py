"""`inject` and `collect` as transformations of functions, and chains of injectors."""

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close

import taxpr
from taxpr import tag

XS = jnp.asarray([0.5, -1.0, 2.0], jnp.float32)


def f(xs, *, gain=1.0):
    def step(c, x):
        c = tag({"c": c * 0.5 + x}, name="c")["c"]
        return c, tag(jnp.sin(c), name="y")

    c, ys = jax.lax.scan(step, xs[0] * 0, xs)  # varies as xs does inside shard_map
    return {"c": c, "ys": ys * gain}


def f_by_hand(xs, factor, n):
    """``f`` with an injector that multiplies c by a factor and counts; and the ctx."""
    c, ys = jnp.float32(0), []
    for x in xs:
        c = factor * (c * 0.5 + x)
        n = n + 1
        ys.append(jnp.sin(c))
    return {"c": c, "ys": jnp.stack(ys)}, n


def factor_and_count(ctx, token, params):
    assert params == {"name": "c"}
    return {"c": token["c"] * ctx["factor"]}, {**ctx, "n": ctx["n"] + 1}


def ctx_of(factor):
    return {"factor": jnp.float32(factor), "n": jnp.int32(0)}


def test_an_injected_function_takes_and_returns_the_context():
    injected = taxpr.inject(f, factor_and_count, where="c")
    for run in (injected, jax.jit(injected)):
        out, ctx = run(ctx_of(3.0), XS)
        expected, n = f_by_hand(XS, jnp.float32(3), 0)
        assert_close(out, expected)
        assert ctx["n"] == n
    out, _ = injected(ctx_of(3.0), XS, gain=2.0)
    assert_close(out["ys"], expected["ys"] * 2)


def test_injected_functions_compose_with_grad_and_vmap():
    injected = taxpr.inject(f, factor_and_count, where="c")

    def ours(factor, xs):
        return jnp.sum(injected({**ctx_of(0), "factor": factor}, xs)[0]["ys"])

    def by_hand(factor, xs):
        return jnp.sum(f_by_hand(xs, factor, 0)[0]["ys"])

    at = jnp.float32(0.7), XS
    expected = jax.grad(by_hand, (0, 1))(*at)
    assert_close(jax.jit(jax.grad(ours, (0, 1)))(*at), expected)
    batch = jnp.stack([XS, XS + 1])
    out, ctx = jax.vmap(injected, in_axes=(None, 0))(ctx_of(0.7), batch)
    assert ctx["n"].tolist() == [3, 3]
    for lane in range(2):
        lane_out = jax.tree.map(lambda x, k=lane: x[k], out)
        assert_close(lane_out, f_by_hand(batch[lane], jnp.float32(0.7), 0)[0])


def test_functions_inside_shard_map():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    scaled = taxpr.inject(f, taxpr.scale(2.0), where="y")

    @jax.jit
    def run(batch):
        def body(batch):
            ctx = scaled.init(batch[0])
            (out, _), (_, values) = scaled(ctx, batch[0]), taxpr.collect(f, "c")(batch[0])
            return out["ys"][None], values["c"]["c"][None]

        return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=(spec, spec))(batch)

    ys, c = run(XS[None])
    assert_close(ys[0], f(XS)["ys"] * 2)
    assert_close(jnp.sin(c[0]), f(XS)["ys"])


def test_ready_injectors_say_what_their_context_is():
    injected = taxpr.inject(f, {"c": taxpr.add(1.0), "y": [taxpr.scale(2.0), taxpr.record()]})
    ctx = injected.init(XS)
    out, ctx = jax.jit(injected)(ctx, XS)
    [recorded] = ctx["y"][1]["state"].values()
    assert_close(recorded["values"], out["ys"])
    with pytest.raises(taxpr.ArgumentError, match="takes its context first"):
        injected(0, XS)
    counted = taxpr.inject(f, lambda n, t, p: (t, n + 1), 5, where="c")
    assert counted(counted.init(XS), XS)[1] == 8


def test_static_arguments_are_closed_over():
    def power(x, n):
        return tag(x, name="x") ** n

    doubled = taxpr.inject(lambda x: power(x, 3), taxpr.scale(2.0))
    assert doubled(doubled.init(1.0), 1.0)[0] == 8.0


def test_the_kind_that_goes_in_comes_out():
    program = taxpr.trace(f)(XS)
    assert isinstance(taxpr.inject(program, taxpr.count(), where="c"), taxpr.Injected)
    assert isinstance(taxpr.collect(program, "c"), taxpr.Program)
    jaxpr = taxpr.inject(program.jaxpr, lambda n, t, p: (t, n + 1), 0, lambda p, _: True)
    assert taxpr.find_tags(jaxpr) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda j: taxpr.inject(j, lambda c, t, p: (t, c)), "a jaxpr needs the ctx"),
        (lambda j: taxpr.inject(j, taxpr.count(), 0), "for a jaxpr, the injector is a function"),
        (lambda j: taxpr.inject(j, f, 0, where="c"), "for a jaxpr, the injector is a function"),
        (lambda j: taxpr.inject(f, f, 0, lambda p, a: True), "predicate= is for jaxprs"),
        (lambda j: taxpr.inject(3, f, 0), "3 is an int, not a function, a Program or a closed"),
    ],
)
def test_arguments_of_another_kind_of_target(call, message):
    with pytest.raises(taxpr.ArgumentError, match=message):
        call(jax.make_jaxpr(f)(XS))


def test_collect_of_a_function():
    out, values = jax.jit(taxpr.collect(f, ["c", "y"]))(XS)
    assert_close(out, f(XS))
    assert_close(values["y"], jnp.sin(values["c"]["c"]))
    shapes = jax.eval_shape(taxpr.collect(f, "c"), XS)
    assert shapes[1]["c"]["c"].shape == (3,)
    grad = jax.grad(lambda xs: taxpr.collect(f, "c")(xs)[1]["c"]["c"][2])(XS)
    assert_close(grad, jnp.asarray([0.25, 0.5, 1.0], jnp.float32))
    batch = jnp.stack([XS, XS + 1])
    assert_close(
        jax.vmap(taxpr.collect(f, "c"))(batch)[1]["c"]["c"][1],
        taxpr.collect(f, "c")(batch[1])[1]["c"]["c"],
    )


# ---- chains ------------------------------------------------------------------


def test_a_list_of_injectors_runs_in_its_order_each_with_its_context():
    p = taxpr.trace(f)(XS)

    def doubled(n, token, params):
        return 2 * token, n + 1

    chain = [taxpr.record(), taxpr.clip(-0.5, 0.5), taxpr.from_function(doubled, 0), taxpr.record()]
    changed = p.inject({"y": chain, "c": taxpr.count()})
    out, ctx = jax.jit(changed)(changed.ctx, XS)
    first, _, by_function, last = changed.report(ctx)["y"]
    [before], [after] = first.values(), last.values()
    assert_close(before["values"], f(XS)["ys"])
    assert_close(after["values"], 2 * jnp.clip(f(XS)["ys"], -0.5, 0.5))
    assert_close(out["ys"], after["values"])
    assert by_function["*"]["ctx"] == 3
    # A parameter of one link is a leaf of the context like any other.
    ctx = changed.ctx
    ctx["y"][1]["values"]["high"] = jnp.float32(0.25)
    assert float(changed(ctx, XS)[0]["ys"].max()) == 0.5


def test_a_list_without_a_mapping():
    p = taxpr.trace(f)(XS)
    changed = p.inject([taxpr.add(1.0), taxpr.scale(2.0)], where="y")
    assert_close(changed(changed.ctx, XS)[0]["ys"], (f(XS)["ys"] + 1) * 2)
    other = p.inject([taxpr.scale(2.0), taxpr.add(1.0)], where="y")
    assert_close(other(other.ctx, XS)[0]["ys"], f(XS)["ys"] * 2 + 1)


@pytest.mark.parametrize(
    ("injector", "message"),
    [
        ([], "the list of injectors is empty"),
        ([taxpr.scale], r"scale is a kind .* call it, scale\(factor=0.5\)\."),
        ({"c": [taxpr.count(), 3]}, "3 is an int. An injector is made by a kind"),
    ],
)
def test_lists_of_what_are_no_injectors(injector, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.trace(f)(XS).inject(injector)


def test_two_keys_for_one_tag_name_the_list():
    with pytest.raises(taxpr.SelectorError, match=r"are a list, .*: \{where: \[first, second\]\}"):
        taxpr.trace(f)(XS).inject({"c": taxpr.count(), "c*": taxpr.count()})
    with pytest.raises(taxpr.ArgumentError, match="In a list a function gets one by from_function"):
        taxpr.trace(f)(XS).inject([taxpr.count()], 0)


def test_injecting_an_injected_program():
    p = taxpr.trace(f)(XS)
    first = p.inject(factor_and_count, ctx_of(2.0), where="c")
    assert [site.name for site in first.tags()] == ["y"]
    second = first.inject(taxpr.scale(10.0), where="y")
    (out, older), newer = jax.jit(second)(second.ctx, first.ctx, XS)
    expected, n = f_by_hand(XS, jnp.float32(2), 0)
    assert_close(out["ys"], expected["ys"] * 10)
    assert older["n"] == n
    assert set(newer) == {"values", "state"}
    with pytest.raises(taxpr.SelectorError, match="does not match the only tag"):
        first.inject(taxpr.count(), where="c")
