"""Primitives that hide what they run in a Python function, and have a derivative of their own."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from jax.interpreters import ad, batching, mlir
from reference import Reference

import taxpr
from taxpr import tag
from taxpr._hops import own_derivative
from taxpr.hops import traced

W = np.asarray([1.0, 2.0, 0.5], np.float32)
V = np.asarray([0.3, 1.7, 4.0], np.float32)
STEPS = 12


def newton(x, w):
    """The root of ``y * y * w == x``, by steps that are not to be differentiated."""

    def step(y, _):
        y = jnp.where(y > 0, (y + x / (w * y)) / 2, 1)
        return tag(y, name="y"), None

    y = jax.lax.scan(step, x / w + 1, None, length=STEPS)[0]
    return [tag(y * 1, name="root"), jnp.int32(STEPS)]


root_p = jex.Primitive("root")
root_p.multiple_results = True
root_p.def_impl(newton)
root_p.def_abstract_eval(lambda x, w: [x, jax.core.ShapedArray((), np.dtype(np.int32))])
mlir.register_lowering(root_p, mlir.lower_fun(newton, multiple_results=True))


def jvp(primals, tangents):
    y, n = root_p.bind(*primals)
    w = primals[1]
    dx, dw = map(ad.instantiate_zeros, tangents)
    # Of its own equation: 2 y dy w + y y dw = dx.
    zero = ad.Zero(jax.core.ShapedArray((), jax.float0))
    return [y, n], [(dx - y * y * dw) / (2 * y * w), zero]


def batch(operands, dims):
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    moved = [batching.bdim_at_front(x, d, size) for x, d in zip(operands, dims, strict=True)]
    y, n = root_p.bind(*moved)
    return [y, n], [0, None]


ad.primitive_jvps[root_p] = jvp
batching.primitive_batchers[root_p] = batch
taxpr.register_hop(root_p, traced(lambda eqn: newton))


def f(x, w):
    y, n = root_p.bind(tag(x, name="x"), w)
    return y * 2.0 + n.astype(jnp.float32)


PROGRAM = taxpr.trace(f)(V, W)


class WithRoots(Reference):
    def eqn(self, eqn, args):
        if eqn.primitive is root_p:
            return self(jax.make_jaxpr(newton)(*args), *args)
        return super().eqn(eqn, args)


def mixing(s, token, params):
    return token * 1.01 + s, s * 0.5 + token.mean() * 0.01


def shifting(s, token, params):
    return token + s, s


def test_what_runs_is_walked():
    assert [site.address for site in PROGRAM.tags()] == [
        "t0",
        "0:root/body/2:scan/body/t0",
        "0:root/body/t0",
    ]
    [nested] = taxpr.nested_jaxprs(PROGRAM.eqns[1])
    assert (nested.operands, nested.results, nested.replaceable) == ((0, 1), (0, 1), True)
    assert taxpr.nested_jaxprs(PROGRAM.eqns[1])[0].stored is nested.stored


def test_injected_as_the_reference_says():
    injected = PROGRAM.inject(mixing, jnp.float32(0.1))
    check_types(injected.jaxpr)
    reference = WithRoots(mixing, jnp.float32(0.1))
    [expected] = reference(PROGRAM.jaxpr, V, W)
    assert reference.fired == ["x"] + ["y"] * STEPS + ["root"]
    for run in (injected, jax.jit(injected)):
        out, ctx = run(jnp.float32(0.1), V, W)
        assert_close(out, expected)
        assert_close(ctx, reference.ctx)
    mapped = jax.vmap(injected, (None, 0, None))(jnp.float32(0.1), jnp.stack([V, V]), W)
    assert_close(mapped[0], jnp.stack([expected] * 2))


@pytest.mark.parametrize("how", [lambda f: f, jax.jit, jax.checkpoint])
def test_the_derivative_is_its_own_at_the_root_that_the_injected_function_gives(how):
    injected = PROGRAM.inject({"root": taxpr.add(0.25)})

    def loss(x, w):
        return how(lambda x, w: injected(injected.ctx, x, w)[0])(x, w).sum()

    y = np.sqrt(V / W) + np.float32(0.25)
    assert_close(injected(injected.ctx, V, W)[0], 2 * y + STEPS)
    found = jax.grad(loss, (0, 1))(V, W)
    assert_close(found, (1 / (y * W), -y / W))
    # It is differentiated again: d(1/(yw))/dx, where dy/dx is its own, too.
    second = jax.grad(lambda x: jax.grad(loss)(x, W).sum())(V)
    assert_close(second, -1 / (W * y * y) / (2 * y * W), tolerance=1e-4)


def test_to_look_costs_no_derivative():
    def loss(x, w):
        return f(x, w).sum()

    expected = jax.grad(loss, (0, 1))(V, W)
    program = taxpr.trace(loss)(V, W)
    looked = program.collect()
    assert_close(jax.grad(lambda *a: looked(*a)[0], (0, 1))(V, W), expected)
    assert looked(V, W)[1]["y"].shape == (STEPS, 3)
    mapped = jax.vmap(looked, (0, None))(jnp.stack([V, V]), W)[1]
    assert mapped["y"].shape == (2, STEPS, 3)
    for where in ("y", "root"):
        with pytest.raises(taxpr.RefusedError, match="derivative is taken of the value of the tag"):
            jax.grad(lambda x, where=where: looked(x, W)[1][where].sum())(V)


def untagged(program):
    return [address for address, eqn in taxpr.iter_eqns(program.jaxpr) if not taxpr.is_tag(eqn)]


def test_a_value_in_there_is_tagged_and_addresses_stay():
    everywhere = untagged(PROGRAM)
    body = "0:root/body/2:scan/body/"
    inside = next(a for a in everywhere if a.startswith(body) and a.endswith(":div"))
    tagged = PROGRAM.tag_at(inside, name="quotient")
    assert untagged(tagged) == everywhere
    assert_close(tagged(V, W), PROGRAM(V, W))
    check_types(tagged.jaxpr)
    values = jax.jit(tagged.collect("quotient"))(V, W)[1]
    assert values["quotient"].shape == (STEPS, 3)
    halved = tagged.inject({"root": taxpr.scale(0.5), "quotient": taxpr.scale(1.0)})
    plain = PROGRAM.inject({"root": taxpr.scale(0.5)})
    assert_close(halved(halved.ctx, V, W)[0], plain(plain.ctx, V, W)[0])
    found, expected = (jax.grad(lambda x, p=p: p(p.ctx, x, W)[0].sum())(V) for p in (halved, plain))
    assert_close(found, expected)
    back = tagged.dissolve("quotient")
    assert [site.address for site in back.tags()] == [site.address for site in PROGRAM.tags()]
    assert_close(back(V, W), PROGRAM(V, W))


def test_what_holds_a_tag_is_differentiated_and_mapped_as_before():
    tagged = PROGRAM.tag_at("0:root/body/2:scan/body/in0", name="c")
    expected = jax.grad(lambda x: f(x, W).sum())(V)
    assert_close(jax.grad(lambda x: tagged(x, W).sum())(V), expected)
    assert_close(jax.jit(jax.grad(lambda x: tagged(x, W).sum()))(V), expected)
    assert_close(jax.jvp(lambda x: tagged(x, W), (V,), (W,))[1], expected * W)
    mapped = jax.vmap(tagged, (0, None))(jnp.stack([V, 2 * V]), W)
    assert_close(mapped, jnp.stack([f(V, W), f(2 * V, W)]))
    of_each = jax.vmap(jax.grad(lambda x: tagged(x, W).sum()))(jnp.stack([V, V]))
    assert_close(of_each, jnp.stack([expected] * 2))
    again = taxpr.trace(jax.grad(lambda x: tagged(x, W).sum()))(V)
    assert {"c", "y", "root", "x"} >= {site.name for site in again.tags()} >= {"c", "x"}


def test_all_values_can_be_injected():
    tagged = PROGRAM.dissolve().tag_at("*", name="all")
    assert tagged.skipped == ()
    counted = tagged.inject(taxpr.count())
    assert_close(counted(counted.ctx, V, W)[0], f(V, W))
    counts = sorted(map(int, counted(counted.ctx, V, W)[1]["state"].values()))
    assert {1, STEPS} <= set(counts)


def test_a_derivative_with_respect_to_the_context_is_refused():
    injected = PROGRAM.inject(shifting, jnp.float32(0), where="root")
    with pytest.raises(
        taxpr.RefusedError, match=r"root.* \(.*at 0:root\) has a derivative of its own"
    ):
        jax.grad(lambda s: injected(s, V, W)[0].sum())(0.5)
    with pytest.raises(taxpr.RefusedError, match="root may run other code instead of its own"):
        taxpr.grad_at(lambda x: f(x, W).sum(), "root")(V)


def test_the_derivative_of_what_runs_is_taken_where_that_is_asked_for():
    dropped = PROGRAM.inject(shifting, jnp.float32(0), where="root", custom_rules="drop")
    found = jax.grad(lambda s: dropped(s, V, W)[0].sum())(0.5)
    assert_close(found, jnp.float32(6))
    gradient = taxpr.grad_at(lambda x: f(x, W).sum(), "y", custom_rules="drop")(V)["y"]
    assert gradient.shape == (STEPS, 3)
    assert_close(gradient[-1], jnp.full(3, 2, np.float32))


def test_where_that_cannot_be_it_says_why():
    prim = jex.Primitive("kept")
    prim.multiple_results = True
    prim.def_abstract_eval(lambda x: [x])
    taxpr.register_hop(
        prim, traced(lambda eqn: lambda x: [tag(x, name="t")], undroppable="so be it")
    )
    program = taxpr.trace(lambda x: prim.bind(x)[0])(1.0)
    with pytest.raises(
        taxpr.RefusedError, match=r"kept.* \(.*, at 0:kept\) keeps its derivative: so be it"
    ):
        program.inject(taxpr.count(), custom_rules="drop")


def test_it_is_planted_at_one_iteration_where_the_derivative_is_that_of_what_runs():
    clean = PROGRAM.collect("y")(V, W)[1]["y"]
    with pytest.raises(
        taxpr.RefusedError, match=r"counting iterations: .* root may run other code"
    ):
        PROGRAM.plant({"y": taxpr.plant(clean, at=STEPS - 1)})
    planted = PROGRAM.plant({"y": taxpr.plant(clean, at=STEPS - 1)}, custom_rules="drop")
    assert_close(planted(4 * V, W), f(V, W))


# ---- rules of other forms ------------------------------------------------------


def of_family(name, run, jvp):
    """A primitive of one operand and a number, with an entry."""
    prim = jex.Primitive(name)
    prim.multiple_results = True
    prim.def_impl(lambda x, n: run(x, n))
    prim.def_abstract_eval(lambda x, n: [x])
    ad.primitive_jvps[prim] = jvp
    taxpr.register_hop(prim, traced(lambda eqn: lambda x: run(x, **eqn.params)))
    return prim


def test_a_rule_may_bind_the_primitive_with_other_params():
    def jvp(primals, tangents, n):
        [slope] = family_p.bind(*primals, n=n + 1)
        return family_p.bind(*primals, n=n), [slope * tangents[0]]

    family_p = of_family("family", lambda x, n: [2.0**n * jnp.exp(2 * x)], jvp)
    program = taxpr.trace(lambda x: family_p.bind(x, n=0)[0])(0.5)
    looked = program.tag_at("0:family/body/1:exp", name="e").collect()
    expected = 2 * np.exp(np.float32(1))
    assert_close(jax.grad(lambda x: looked(x)[0])(0.5), expected)


def test_a_rule_may_bind_the_primitive_twice():
    def jvp(primals, tangents, n):
        out, [again] = (twice_p.bind(*primals, n=n) for _ in range(2))
        return out, [tangents[0] / (2 * again)]

    twice_p = of_family("twice_bound", lambda x, n: [tag(jnp.sqrt(x), name="y")], jvp)
    program = taxpr.trace(lambda x: twice_p.bind(x, n=0)[0])(4.0)
    moved = program.inject(taxpr.scale(10.0))
    assert_close(jax.grad(lambda x: moved(moved.ctx, x)[0])(4.0), np.float32(1 / 40))


def test_a_rule_that_computes_the_results_itself_is_refused_where_they_change():
    def jvp(primals, tangents, n):
        y = jnp.sqrt(primals[0])
        return [y], [tangents[0] / (2 * y)]

    by_itself_p = of_family("by_itself", lambda x, n: [tag(jnp.sqrt(x), name="y")], jvp)
    program = taxpr.trace(lambda x: by_itself_p.bind(x, n=0)[0])(4.0)
    looked = program.collect()
    assert_close(jax.grad(lambda x: looked(x)[0])(4.0), np.float32(1 / 4))
    moved = program.inject(taxpr.scale(10.0))
    with pytest.raises(taxpr.RefusedError, match="cannot differentiate by_itself at the injected"):
        jax.grad(lambda x: moved(moved.ctx, x)[0])(4.0)


def test_params_that_are_equal_may_differ():
    signed_p = of_family("signed", lambda x, n: [jnp.copysign(x, n)], None)
    program = taxpr.trace(lambda x: (signed_p.bind(x, n=0.0)[0], signed_p.bind(x, n=-0.0)[0]))(2.0)
    tagged = program.tag_at("1:signed/body/out0", name="y")
    assert_close(tagged.collect()(2.0)[1]["y"], np.float32(-2))
    with jax.default_matmul_precision("highest"):
        taxpr.nested_jaxprs(program.eqns[0])
    assert taxpr.nested_jaxprs(program.eqns[0])[0].stored is not None


def test_to_look_drops_no_derivative():
    prim = jex.Primitive("kept")  # whose derivative is nothing that one can drop
    prim.multiple_results = True

    def run(x):
        below = x - 3.0
        return [jnp.log(below) + x]

    prim.def_impl(run)
    prim.def_abstract_eval(lambda x: [x])
    mlir.register_lowering(prim, mlir.lower_fun(run, multiple_results=True))
    ad.primitive_jvps[prim] = lambda primals, dots: (prim.bind(*primals), [3.0 * dots[0]])
    batching.primitive_batchers[prim] = lambda xs, dims: (prim.bind(*xs), dims)
    taxpr.register_hop(prim, traced(lambda eqn: run, label="run", undroppable="so be it"))

    def f(x):
        y = prim.bind(x)[0]
        return y * 2.0

    def of_all(x):
        return jax.vmap(f)(x).sum()

    # The derivative does not use the result, so that what runs is that of the loss beside it.
    both = jax.value_and_grad(of_all)
    for fn in (f, of_all, jax.jit(f), lambda x: jax.lax.map(f, x), both):
        row = taxpr.find_nan(fn)(V).rows[0]
        assert "/run/1:log" in row.address
        assert row.inputs[0].startswith("below" if fn is f else "")
        values = {one.address for one in taxpr.watch(fn, where="*")(V).table().rows}
        assert any("/run/0:sub" in address for address in values)
    assert not taxpr.first_difference(f, jax.jit(f))(V + 3)
    with pytest.raises(taxpr.RefusedError, match="so be it"):
        taxpr.inject(f, taxpr.scale(2.0), where=taxpr.var("below"), custom_rules="drop")(None, V)


def test_registering_again_replaces_the_entry():
    prim = jex.Primitive("renewed")
    prim.multiple_results = True
    prim.def_abstract_eval(lambda x: [x])
    for label in ("old", "new"):
        taxpr.register_hop(prim, traced(lambda eqn: lambda x: [jnp.sin(x)], label=label))
        program = taxpr.trace(lambda x: prim.bind(x)[0])(2.0)
        tagged = program.tag_at(f"0:renewed/{label}/0:sin", name="s")
        assert [site.address for site in tagged.tags()] == [f"0:renewed/{label}/t0"]
    assert "held_of=renewed" in str(tagged.jaxpr)


def test_params_are_the_same_to_the_bit():
    def pair(x):
        return (np.asarray([x, 1.0]), {"a": jnp.asarray([x])})

    same = own_derivative._same_param
    for one in (pair, lambda x: "a", lambda x: None):
        assert same(one(0.0), one(0.0))
    unlike = [(pair(0.0), pair(-0.0)), ((1, 2.0), (True, 2.0)), ((1,), (1, 2)), (0.0, -0.0)]
    assert not any(same(one, other) for one, other in unlike)
    # One that maps another primitive has its params as pairs.
    a, b, c = ((("out", object()), ("static", (value,))) for value in (1, 1, 2))
    assert same(a, b, ("out",))
    assert not same(a, b)
    assert not same(a, c, ("out",))
    assert not same(a, (*b, ("more", 1)), ("out",))
