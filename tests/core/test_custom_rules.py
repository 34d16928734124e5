"""custom_jvp and custom_vjp: the rules are kept and injected, or dropped when asked.

A program here is all rule: differentiating the injected program must then be the same as
injecting the differentiated one, which the plain interpreter does.
"""

import functools

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.experimental import io_callback
from reference import Reference

import taxpr
from taxpr import tag

V = np.asarray([0.3, -0.8, 1.1], np.float32)
W = np.linspace(-1.0, 1.0, 3).astype(np.float32)


def with_jvp(primal, rule, **options):
    f = jax.custom_jvp(primal)
    f.defjvp(functools.partial(rule, f), **options)
    return f


def with_vjp(primal, fwd, bwd, **options):
    f = jax.custom_vjp(primal)
    f.defvjp(functools.partial(fwd, f), bwd, **options)
    return f


def sin_rule(f, primals, tangents):
    (x,), (t,) = primals, tangents
    return f(x), jnp.cos(x) * t * 0.9


def jvp_primal(v):
    return with_jvp(lambda x: tag(jnp.sin(x) * W, name="h"), sin_rule)(v)


def jvp_only_in_rule(v):
    def rule(f, primals, tangents):
        slope = tag(jnp.cos(primals[0]) + W, name="slope")
        return f(primals[0]), slope * tangents[0]

    return with_jvp(jnp.sin, rule)(v)


def jvp_copies_in_rule(v):
    def rule(f, primals, tangents):
        (x,), (t,) = primals, tangents
        first, second = tag(jnp.sin(x), name="first"), tag(jnp.cos(x), name="second")
        return first * second + tag(f(x), name="more"), tag(second, name="third") * t

    return with_jvp(lambda x: tag(tag(x, name="same") * 2, name="same"), rule)(v)


def jvp_symbolic_zeros(v):
    def rule(f, primals, tangents):
        (x, y), (t, s) = primals, tangents
        zero = type(s) is jax.custom_derivatives.SymbolicZero
        # Other tags stand here when y is not differentiated.
        if zero:
            x = tag(x, name="slope") * 1.0
        t = tag(jnp.cos(x), name="slope") * t
        return f(x, y), t if zero else t + s

    f = with_jvp(lambda x, y: tag(jnp.sin(x), name="x") + y, rule, symbolic_zeros=True)
    return f(v, jnp.float32(0.5))


def jvp_integer_argument(v):
    def rule(f, primals, tangents):
        x, n = primals
        return f(x, n), tangents[0] * n.astype(x.dtype)

    f = with_jvp(lambda x, n: tag({"y": x * n.astype(x.dtype), "n": n}, name="both")["y"], rule)
    return f(v, jnp.int32(3))


def jvp_closing_over(v):
    w = jnp.cumsum(W)

    @jax.jit
    def inner(v, u):
        def rule(f, primals, tangents):
            # JAX itself fails where a rule closes over a tracer of an inner jit.
            return tag(jnp.sin(primals[0]) * W, name="h"), tangents[0]

        f = with_jvp(lambda x: tag(jnp.sin(x) * u, name="h"), rule)
        return f(v) + 0.0

    return inner(v, w)


def jvp_in_loops(v):
    f = with_jvp(lambda x: tag(jnp.sin(x), name="h"), sin_rule)

    def step(c, x):
        c = lax.cond(c > 0, lambda c: f(c), lambda c: c * 0.5, c) + x
        return c, jax.checkpoint(f)(c)

    return jax.jit(lambda v: lax.scan(step, jnp.float32(0.2), v))(v)


def jvp_mapped(v):
    def rule(f, primals, tangents):
        (x, y), (t, s) = primals, tangents
        return f(x, y), t * tag(y, name="y") + s

    f = with_jvp(lambda x, y: tag(x * y, name="h"), rule)
    return jax.vmap(f, in_axes=(0, None))(v, v[0])


def vjp_primal(v):
    f = with_vjp(
        lambda x: tag(jnp.sin(x) * W, name="h"),
        lambda f, x: (f(x), x),
        lambda x, ct: (ct * jnp.cos(x) * 0.9,),
    )
    return f(v)


def vjp_only_in_fwd(v):
    def fwd(f, x, y):
        saved = tag({"cos": jnp.cos(x), "n": jnp.int32(1)}, name="saved")
        return f(x, y) * 2, (saved, x, y)

    def bwd(saved, ct):
        (saved, x, y) = saved
        return ct * saved["cos"] * saved["n"].astype(ct.dtype), x * y

    return with_vjp(lambda x, y: jnp.sin(x) + y * W, fwd, bwd)(v, v * 2)


def vjp_symbolic_zeros(v):
    def fwd(f, x, y):
        assert not y.perturbed
        return f(x.value, y.value), (x.value, y.value)

    def bwd(saved, ct):
        return ct * saved[0], None

    f = with_vjp(lambda x, y: tag(x * y, name="h"), fwd, bwd, symbolic_zeros=True)
    return f(v, jnp.float32(2))


def vjp_in_loops(v):
    f = with_vjp(
        lambda x, n: tag(jnp.sin(x), name="h"),
        lambda f, x, n: (f(x, n), (x, n)),
        lambda saved, ct: (ct * jnp.cos(saved[0]), None),
    )

    def step(c, x):
        c = lax.cond(c > 0, lambda c: f(c, 1), lambda c: c * 0.5, c) + x
        return c, jax.checkpoint(lambda c: f(c, 2))(c)

    return jax.jit(lambda v: lax.scan(step, jnp.float32(0.2), v))(v)


def vjp_mapped(v):
    f = with_vjp(
        lambda x, y: tag(x * y, name="h"),
        lambda f, x, y: (f(x, y), (tag(x + y, name="fwd"), y)),
        lambda saved, ct: (ct * saved[1], jnp.sum(ct) * saved[1]),
    )
    return jax.vmap(f, in_axes=(0, None))(v, v[0])


JVP = [
    jvp_primal,
    jvp_only_in_rule,
    jvp_copies_in_rule,
    jvp_symbolic_zeros,
    jvp_integer_argument,
    jvp_closing_over,
    jvp_in_loops,
    jvp_mapped,
]
VJP = [vjp_primal, vjp_only_in_fwd, vjp_symbolic_zeros, vjp_in_loops, vjp_mapped]
EVERY = pytest.mark.parametrize("fn", JVP + VJP, ids=lambda f: f.__name__)
FORWARD = pytest.mark.parametrize("fn", JVP, ids=lambda f: f.__name__)


def changing(ctx, token, params):
    """Reads and changes both; the order of calls shows in ``s``."""

    def one(x):
        if jnp.issubdtype(x.dtype, jnp.floating):
            return x * jnp.asarray(1.25, x.dtype) + jnp.asarray(0.125, x.dtype) * ctx["s"]
        return x + 1

    token = jax.tree.map(one, token)
    seen = sum(jnp.mean(x) for x in jax.tree.leaves(token) if jnp.issubdtype(x.dtype, jnp.floating))
    return token, {"n": ctx["n"] + 1, "s": 0.5 * ctx["s"] + 0.1 * seen.astype(jnp.float32)}


def start():
    return {"n": jnp.int32(0), "s": jnp.float32(0.25)}


def shifting(ctx, token, params):
    """Its derivative is one, and its context has none."""
    changed, ctx = changing(ctx, lax.stop_gradient(token), params)
    return token + lax.stop_gradient(changed - token), ctx


def injected(fn, injector=changing, **options):
    new = taxpr.inject(jax.make_jaxpr(fn)(V), injector, start(), **options)
    check_types(new)
    tree = jax.tree.structure(jax.eval_shape(fn, V))

    def run(v, ctx=None):
        *outs, n, s = jex.jaxpr_as_fun(new)(*jax.tree.leaves(ctx or start()), v)
        return jax.tree.unflatten(tree, outs), {"n": n, "s": s}

    return run


def expected(fn, *args, injector=changing):
    """What the plain interpreter makes of a traced function, and the context."""
    reference = Reference(injector, start())
    outs = reference(jax.make_jaxpr(fn)(*args), *args)
    return outs, reference.ctx


def total(outs):
    return sum(jnp.sum(x) for x in jax.tree.leaves(outs))


@pytest.mark.spread(2)
@EVERY
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_without_a_derivative_the_function_runs(fn, mode):
    run = injected(fn)
    assert_close((jax.jit(run) if mode == "jit" else run)(V), expected(fn, V))


@pytest.mark.spread(2)
@FORWARD
def test_a_jvp_runs_the_injected_rule(fn):
    run, along = injected(fn), np.float32(1) + W
    theirs, ctx = expected(lambda v, t: jax.jvp(fn, (v,), (t,)), V, along)
    for mode in (lambda f: f, jax.jit):
        primals, tangents = mode(lambda v, t: jax.jvp(run, (v,), (t,)))(V, along)
        (outs, found), (out_tangents, ctx_tangents) = primals, tangents
        assert_close((outs, out_tangents), theirs)
        assert_close(found, ctx)
        assert ctx_tangents["s"] == 0


@pytest.mark.spread(16)
@EVERY
def test_a_gradient_runs_the_injected_rule(fn):
    run = injected(fn)

    def with_gradient(fn, v):
        return jax.value_and_grad(lambda v: total(fn(v)))(v)

    theirs, ctx = expected(functools.partial(with_gradient, fn), V)

    def ours(v):
        def loss(v):
            outs, ctx = run(v)
            return total(outs), ctx

        (value, ctx), gradient = jax.value_and_grad(loss, has_aux=True)(v)
        return (value, gradient), ctx

    for mode in (lambda f: f, jax.jit):
        found, found_ctx = mode(ours)(V)
        assert_close(found, theirs)
        assert_close(found_ctx, ctx)
    lanes = np.stack([V, V * np.float32(0.5)])
    (_, gradients), contexts = jax.vmap(ours)(lanes)
    for k, lane in enumerate(lanes):
        theirs, ctx = expected(functools.partial(with_gradient, fn), lane)
        assert_close(gradients[k], theirs[1])
        assert_close(jax.tree.map(lambda x, k=k: x[k], contexts), ctx)


@pytest.mark.parametrize("fn", [jvp_primal, jvp_only_in_rule, jvp_copies_in_rule])
def test_a_second_derivative_runs_the_rule_of_the_rule(fn):
    run, along = injected(fn, shifting), np.float32(1) + W

    def twice(fn, v, t):
        return jax.jvp(lambda v: jax.jvp(fn, (v,), (t,)), (v,), (t,))

    theirs, ctx = expected(functools.partial(twice, fn), V, along, injector=shifting)
    (outs, t1), (t2, t3) = twice(run, V, along)
    assert_close((outs[0], t1[0], t2[0], t3[0]), theirs)
    assert_close(outs[1], ctx)


@pytest.mark.spread(2)
@EVERY
def test_a_dropped_rule_differentiates_the_injected_function(fn):
    run = injected(fn, custom_rules="drop")
    jaxpr = jax.make_jaxpr(fn)(V)

    def theirs(v):
        reference = Reference(changing, start())
        return total(reference(jaxpr, v)) + reference.ctx["s"]

    def ours(v):
        outs, ctx = run(v)
        return total(outs) + ctx["s"]

    assert_close(jax.grad(ours)(V), jax.grad(theirs)(V))


@pytest.mark.spread(2)
@EVERY
def test_a_derivative_with_respect_to_the_ctx_is_refused(fn):
    run = injected(fn)

    def of_ctx(s):
        return total(run(V, start() | {"s": s})[0])

    with pytest.raises(taxpr.RefusedError, match=r"the ctx of (the|an) injector.*, in custom_"):
        jax.grad(of_ctx)(jnp.float32(1))
    jaxpr = jax.make_jaxpr(fn)(V)
    drop = injected(fn, custom_rules="drop")

    def theirs(s):
        return total(Reference(changing, start() | {"s": s})(jaxpr, V))

    found = jax.grad(lambda s: total(drop(V, start() | {"s": s})[0]))(jnp.float32(1))
    assert_close(found, jax.grad(theirs)(jnp.float32(1)))


@EVERY
def test_dissolving_leaves_no_tag_in_a_gradient(fn):
    jaxpr = jax.make_jaxpr(fn)(V)
    new = taxpr.dissolve_tags(jaxpr)
    assert taxpr.find_tags(new) == []
    check_types(new)

    def gradient(jaxpr, v):
        return jax.grad(lambda v: total(jex.jaxpr_as_fun(jaxpr)(v)))(v)

    traced = jax.make_jaxpr(functools.partial(gradient, new))(V)
    assert taxpr.find_tags(traced) == []
    assert_close(jex.jaxpr_as_fun(traced)(V), gradient(jaxpr, V))


def test_tags_of_the_function_and_tags_of_the_rule_alone():
    def names(fn):
        return [(site.name, site.in_rule) for site in taxpr.find_tags(jax.make_jaxpr(fn)(V))]

    assert names(jvp_primal) == [("h", False)]
    assert names(jvp_only_in_rule) == [("slope", True)]
    own = [("same", False), ("same", False)]
    of_rule = [(name, True) for name in ("first", "second", "more", "third")]
    assert names(jvp_copies_in_rule) == own + of_rule
    assert names(vjp_only_in_fwd) == [("saved", True)]


def test_collected_values_are_those_of_the_function_in_a_gradient_too():
    program = taxpr.trace(vjp_primal)(V).collect()

    def loss(v):
        out, values = program(v)
        return total(out), values

    expected = np.sin(V) * W
    assert_close(program(V)[1]["h"], expected)
    assert_close(jax.value_and_grad(loss, has_aux=True)(V)[0][1]["h"], expected)


def test_collected_values_of_a_rule_say_whether_it_ran():
    program = taxpr.trace(jvp_only_in_rule)(V).collect()
    found = program(V)[1]["slope"]
    assert not found.mask
    assert_close(found.value, np.zeros(3, np.float32))
    found = jax.jvp(lambda v: program(v), (V,), (V,))[0][1]["slope"]
    assert found.mask
    assert_close(found.value, np.cos(V) + W)


def floats(values):
    return [x for x in jax.tree.leaves(values) if jnp.issubdtype(x.dtype, jnp.floating)]


@pytest.mark.spread(18)
@EVERY
@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_derivative_of_what_a_kept_rule_hands_out_is_refused(fn, mode):
    """And that of the program's own results is what it was."""
    program = mode(taxpr.trace(fn)(V).collect(stack=True))

    def loss(v):
        out, values = program(v)
        return total(out), values

    plain = jax.grad(lambda v: total(fn(v)))(V)
    gradient, values = mode(jax.grad(loss, has_aux=True))(V)
    assert_close(gradient, plain)
    assert_close(jax.vmap(jax.grad(loss, has_aux=True))(V[None])[0][0], plain)
    looped = jax.checkpoint(lambda v: lax.map(loss, v[None])[0].sum())
    assert_close(jax.grad(looped)(V), plain)
    text = (
        r"a derivative is taken of the value of the tag '\w+' \(test_custom_rules.*, at \S*cust"
        r"om_\w+_call/.*The rule for derivatives of custom_\w+_call is kept.*custom_rules=\"drop\""
    )
    for k in range(len(floats(values))):
        with pytest.raises(taxpr.RefusedError, match=text):
            mode(jax.grad(lambda v, k=k: jnp.sum(floats(program(v)[1])[k])))(V)
    held = jax.grad(lambda v: total(floats(lax.stop_gradient(program(v)[1]))))(V)
    assert not held.any()
    if fn in JVP:
        out, tangents = jax.jvp(program, (V,), (V,))[1]
        assert_close(out, jax.jvp(fn, (V,), (V,))[1])
        assert all(np.isnan(x).all() for x in floats(tangents))


def test_derivatives_along_what_a_value_does_not_depend_on_are_zero():
    def f(x, y):
        return jvp_primal(x) * y

    program = taxpr.trace(f)(V, V).collect()
    gradient = jax.grad(lambda y: total(program(V, y)[1]) + total(program(V, y)[0]))(V)
    assert_close(gradient, np.sin(V) * W)
    assert_close(jax.jvp(lambda y: program(V, y)[1]["h"], (V,), (V,))[1], np.zeros(3, np.float32))


def test_an_argument_that_is_donated_after_its_rule():
    later = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    program = taxpr.trace(lambda v: later(later(jvp_primal(v)) + later(v)))(V).collect()
    assert_close(program(jnp.array(V))[1]["h"], np.sin(V) * W)
    with pytest.raises(taxpr.RefusedError, match="is taken of the value of the tag 'h'"):
        jax.grad(lambda v: program(v)[1]["h"].sum())(jnp.array(V))
    gradient = jax.grad(lambda v: program(v)[0].sum())(jnp.array(V))
    assert_close(gradient, np.cos(V) * np.float32(0.9) + 1)


@pytest.mark.parametrize("with_rule", [with_jvp, with_vjp], ids=["jvp", "vjp"])
@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_collecting_makes_no_effect_happen_twice(with_rule, mode, capfd):
    def primal(x):
        jax.debug.callback(lambda x: print("function"), x)

        def step(c, x):
            jax.debug.callback(lambda c: print("step"), c)
            return tag(jnp.sin(c), name="h"), x

        jax.jit(lambda: jax.debug.callback(lambda: print("only")))()
        return lax.scan(step, x, length=2)[0]

    if with_rule is with_jvp:
        f = with_jvp(primal, lambda f, p, t: (f(*p), t[0]))
    else:
        f = with_vjp(primal, lambda f, x: (f(x), None), lambda _, ct: (ct,))
    program = taxpr.trace(f)(1.0).collect()
    _, values = mode(jax.grad(program, has_aux=True))(1.0)
    jax.effects_barrier()
    happened = sorted(capfd.readouterr().out.split())
    assert happened == ["function", "only", "step", "step"]
    assert_close(values["h"], np.float32([np.sin(1), np.sin(np.sin(1))]))


@pytest.mark.newest_only  # older ones allow no such effect in a custom rule
def test_an_effect_with_a_result_that_nothing_uses_does_not_happen_twice(capfd):
    def primal(x):
        io_callback(lambda x: print("unused") or x, jax.ShapeDtypeStruct((), jnp.float32), x)
        return tag(jnp.sin(x), name="h")

    f = with_jvp(primal, lambda f, p, t: (f(*p), t[0]))
    jax.grad(taxpr.trace(f)(1.0).collect(), has_aux=True)(1.0)
    jax.effects_barrier()
    assert capfd.readouterr().out.split() == ["unused"]


def test_values_are_those_of_the_function_where_the_rule_runs_it_elsewhere():
    f = with_jvp(lambda x: tag(jnp.sin(x), name="h"), lambda f, p, t: (f(2 * p[0]), t[0]))
    program = taxpr.trace(f)(1.0).collect()
    assert_close(jax.jit(jax.grad(program, has_aux=True))(1.0)[1]["h"], jnp.sin(1.0))


def test_a_tag_that_the_rule_does_not_have_is_refused_when_it_is_differentiated():
    program = taxpr.trace(lambda x: jax.nn.relu(x) * 2.0)(V)
    [inner] = [a for a, eqn in taxpr.iter_eqns(program) if eqn.primitive.name == "max"]
    program = program.tag_at(inner, name="r")
    half = program.inject(taxpr.scale(0.5))
    assert_close(half(half.ctx, V)[0], np.maximum(V, 0))
    address = program.tags()[0].address
    with pytest.raises(
        taxpr.RefusedError, match=rf"tag 'r' \(.*{address}\).* cannot be told for sure in the jvp"
    ):
        jax.grad(lambda v: total(half(half.ctx, v)[0]))(V)
    half = program.inject(taxpr.scale(0.5), custom_rules="drop")
    gradient = jax.grad(lambda v: total(half(half.ctx, v)[0]))(V)
    assert_close(gradient, (V > 0).astype(np.float32))


def test_tags_that_a_rule_has_in_another_order_are_refused():
    @jax.custom_vjp
    def f(x):
        return tag(jnp.sin(x), name="a") * 2 + tag(jnp.cos(x), name="a")

    def fwd(x):
        cos = tag(jnp.cos(x), name="a")
        return tag(jnp.sin(x), name="a") * 2 + cos, x

    f.defvjp(fwd, lambda x, ct: (ct * x,))
    program = taxpr.trace(f)(V)
    one = program.inject(taxpr.scale(3.0), where=program.tags()[0])
    assert_close(one(one.ctx, V)[0], 6 * np.sin(V) + np.cos(V))
    with pytest.raises(taxpr.RefusedError, match="not all of them are selected"):
        jax.grad(lambda v: total(one(one.ctx, v)[0]))(V)


def test_an_injector_may_close_over_a_tracer():
    jaxpr = jax.make_jaxpr(vjp_primal)(V)

    @jax.jit
    def run(s, v):
        new = taxpr.inject(jaxpr, lambda c, t, p: (t * s, c), ())
        return jex.jaxpr_as_fun(new)(v)[0]

    assert_close(run(jnp.float32(2), V), 2 * np.sin(V) * W)
    gradient = jax.grad(lambda v: jnp.sum(run(jnp.float32(2), v)))(V)
    assert_close(gradient, np.cos(V) * np.float32(0.9))
    with pytest.raises(taxpr.RefusedError, match="or to a value that it closes over"):
        jax.grad(lambda s: jnp.sum(run(s, V)))(jnp.float32(2))


def test_the_options_are_checked():
    jaxpr = jax.make_jaxpr(vjp_primal)(V)
    with pytest.raises(taxpr.ArgumentError, match=r'custom_rules is "keep" or "drop", not \'no\''):
        taxpr.inject(jaxpr, changing, start(), custom_rules="no")
    with pytest.raises(taxpr.ArgumentError, match='shards is None, "psum", "pmax", "stack" or'):
        taxpr.inject(jaxpr, changing, start(), shards="sum")


def test_with_rules_dropped_the_tags_of_rules_are_not_there():
    program = taxpr.trace(jvp_only_in_rule)(V)
    assert [site.in_rule for site in program.tags("slope")] == [True]
    for changed in (program.inject, program.collect):
        with pytest.raises(taxpr.SelectorError, match="the program has no tags"):
            changed(*([taxpr.count()] if changed == program.inject else []), custom_rules="drop")


# ---- tags that only a rule has, of another form for other inputs -----------------------


def product(second="r"):
    """a * b, whose rule has a tag for each input that is differentiated."""

    @jax.custom_jvp
    def mul(a, b):
        return a * b

    def rule(primals, tangents):
        (a, b), (s, t) = primals, tangents
        out = jnp.zeros(())
        if not isinstance(s, SymbolicZero):
            out = out + tag(s * b, name="r")
        if not isinstance(t, SymbolicZero):
            out = out + tag(t * a, name=second)
        return a * b, out

    mul.defjvp(rule, symbolic_zeros=True)
    return mul


def along(run, which):
    """The derivative by a or b at (2, 5), and the rest of what comes out."""
    held = [jnp.float32(2), jnp.float32(5)]

    def by(x):
        args = list(held)
        args[which] = x
        return run(*args)

    _, slope, more = jax.jvp(by, (held[which],), (jnp.float32(1),), has_aux=True)
    return slope, more


@pytest.mark.spread(2)
@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("second", ["r", "other"])
def test_tags_of_a_rule_are_told_where_it_has_fewer_of_them(mode, second):
    program = taxpr.trace(product(second))(2.0, 5.0)
    first, last = (site.address for site in program.tags())
    for chosen, by in (
        ({first: taxpr.scale(10.0)}, (10.0, 1.0)),
        ({last: taxpr.scale(10.0)}, (1.0, 10.0)),
        ({first: taxpr.scale(10.0), last: taxpr.scale(100.0)}, (10.0, 100.0)),
    ):
        new = program.inject(chosen)
        run = mode(functools.partial(new, new.ctx))
        assert along(run, 0)[0] == 5 * by[0]
        assert along(run, 1)[0] == 2 * by[1]
        both = jax.jvp(lambda a, b, run=run: run(a, b)[0], (2.0, 5.0), (1.0, 1.0))[1]
        assert both == 5 * by[0] + 2 * by[1]
    new = program.inject({first: taxpr.count(), last: taxpr.count()})
    for which in range(2):
        ctx = along(mode(functools.partial(new, new.ctx)), which)[1]
        counts = jax.tree.leaves([new.report(ctx)[one] for one in (first, last)])
        assert [int(n) for n in counts] == [1 - which, which]


def test_tags_of_a_rule_that_nothing_tells_apart_are_refused():
    @jax.custom_jvp
    def mul(a, b):
        return a * b

    def rule(primals, tangents):
        (a, b), dots = primals, tangents
        pairs = [(t, x) for t, x in zip(dots, (b, a), strict=True) if type(t) is not SymbolicZero]
        return a * b, sum(tag(t * x, name="r") for t, x in pairs)

    mul.defjvp(rule, symbolic_zeros=True)
    program = taxpr.trace(mul)(2.0, 5.0)
    first, last = (site.address for site in program.tags())
    for chosen in (
        {first: taxpr.scale(10.0)},
        {first: taxpr.scale(10.0), last: taxpr.scale(100.0)},
    ):
        new = program.inject(chosen)
        both = jax.jvp(lambda a, b, new=new: new(new.ctx, a, b)[0], (2.0, 5.0), (1.0, 1.0))[1]
        assert both == 50 + 2 * (1 if len(chosen) == 1 else 100)
        with pytest.raises(
            taxpr.RefusedError,
            match=r"tag 'r' \(.*, at 0:custom_jvp_call/jvp/t0\), which only the jvp rule of "
            r"custom_jvp_call of .*at 0:custom_jvp_call\) has, cannot be told from the others .* "
            "names of their own, or select all of them, with one",
        ):
            along(functools.partial(new, new.ctx), 1)
    for injector, by in ((taxpr.scale(10.0), 10), ([taxpr.scale(10.0), taxpr.scale(2.0)], 20)):
        new = program.inject(injector)
        assert along(functools.partial(new, new.ctx), 1)[0] == 2 * by


def test_a_rule_that_jax_traced_before_is_told_or_refused():
    """Its tags then have the line of the equation."""
    program = taxpr.trace(product())(2.0, 5.0)
    jax.jvp(lambda b: program(2.0, b), (5.0,), (1.0,))
    first, last = (site.address for site in program.tags())
    new = program.inject({first: taxpr.scale(10.0), last: taxpr.scale(100.0)})
    with pytest.raises(taxpr.RefusedError, match="cannot be told from the others"):
        along(functools.partial(new, new.ctx), 1)


def test_tags_of_a_rule_that_calls_its_function_again():
    """The rule of the rule has them once more."""

    def rule(f, primals, tangents):
        (x,), (t,) = primals, tangents
        first = tag(jnp.cos(x), name="r")
        out = f(x)
        return out, t * (first + tag(jnp.sin(x), name="r"))

    program = taxpr.trace(with_jvp(jnp.sin, rule))(1.0)
    first, last = (site.address for site in program.tags())
    new = program.inject({first: taxpr.scale(10.0), last: taxpr.scale(100.0)})
    slope = jax.jvp(lambda x: new(new.ctx, x)[0], (1.0,), (1.0,))[1]
    assert_close(slope, 10 * jnp.cos(1.0) + 100 * jnp.sin(1.0))


def test_collected_values_of_a_rule_in_another_order_and_of_a_part_of_it():
    @jax.custom_jvp
    def mul(a, b):
        return a * b

    def rule(primals, tangents):
        (a, b), (s, t) = primals, tangents
        if isinstance(s, SymbolicZero):
            return a * b, tag(t, name="t") * tag(a, name="a")
        a = tag(a, name="a")
        return a * b, s * b + tag(t, name="t") * a

    mul.defjvp(rule, symbolic_zeros=True)
    program = taxpr.trace(mul)(2.0, 5.0).collect()
    values = along(program, 1)[1]
    assert (values["a"].value, values["t"].value) == (2.0, 1.0)
    found = along(taxpr.trace(product())(2.0, 5.0).collect(stack=True), 1)[1]["r"]
    assert found.value.tolist() == [0.0, 2.0]
    assert found.mask.tolist() == [False, True]


# ---- an injector that closes over a Ref -------------------------------------------------


def new_ref(value):
    return (jax.new_ref if hasattr(jax, "new_ref") else jax.array_ref)(jnp.float32(value))


def solved(v):
    return lax.custom_linear_solve(
        lambda x: 2 * x, v, lambda f, b: tag(b / 2, name="h"), lambda f, b: b / 2
    )


def root(v):
    return lax.custom_root(
        lambda x: x - v, v, lambda f, x: tag(x - f(x), name="h"), lambda g, y: y / g(1.0)
    )


@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (with_jvp(lambda x: tag(jnp.sin(x), name="h"), sin_rule), "custom_jvp_call"),
        (
            with_vjp(
                lambda x: tag(jnp.sin(x), name="h"),
                lambda f, x: (f(x), x),
                lambda x, ct: (ct * jnp.cos(x),),
            ),
            "custom_vjp_call",
        ),
        (solved, "custom_linear_solve"),
        (root, "custom_jvp_call|call_hi_primitive|custom_root"),
    ],
    ids=["custom_jvp", "custom_vjp", "custom_linear_solve", "custom_root"],
)
def test_an_injector_that_closes_over_a_ref_is_refused_where_a_rule_is_kept(fn, what):
    seen = new_ref(0)

    def injector(ctx, token, params):
        seen[...] += token
        return token, ctx

    with pytest.raises(
        taxpr.RefusedError,
        match=rf"at tag .*, in .* 0:({what})\), closes over a Ref, and .*custom_rules=\"drop\"",
    ):
        taxpr.inject(fn, injector)((), 0.4)
    jax.jit(taxpr.inject(fn, injector, custom_rules="drop"))((), 0.4)
    assert_close(seen[...], fn(0.4))


def test_a_ref_at_a_tag_of_a_rule_alone_is_refused():
    seen = new_ref(0)

    def injector(ctx, token, params):
        seen[...] += jnp.sum(token)
        return token, ctx

    for fn in (
        jvp_only_in_rule,
        lambda v: with_vjp(jnp.sin, lambda f, x: (tag(f(x), name="h"), x), lambda x, ct: (ct,))(v),
    ):
        with pytest.raises(taxpr.RefusedError, match="closes over a Ref"):
            taxpr.inject(fn, injector)((), V)


# ---- what a forward rule knows when it is traced ----------------------------------------


@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_backward_rule_gets_what_it_decides_by_as_it_is(symbolic_zeros, mode):
    table = np.asarray([1, 2], np.int32)

    def fwd(f, x):
        x = x.value if symbolic_zeros else x
        return f(x), (True, 3, np.asarray(table), jnp.cos(x))

    def bwd(residuals, ct):
        flag, times, held, cos = residuals
        for _ in range(times):
            ct = ct * sum(int(n) for n in np.asarray(held))
        assert isinstance(flag, bool)
        return (ct * cos if flag else ct,)

    f = with_vjp(lambda x: tag(jnp.sin(x), name="h"), fwd, bwd, symbolic_zeros=symbolic_zeros)
    run, ctx = injected(f, shifting), start()
    for loss in (
        lambda v: total(run(v, ctx)[0]),
        lambda v: total(taxpr.trace(f)(V).collect()(v)[0]),
        lambda v: total(
            taxpr.trace(lambda v: f(f(v)) - f(f(v)) + f(v))(V).collect(stack=True)(v)[0]
        ),
    ):
        assert_close(mode(jax.grad(loss))(V), 27 * np.cos(V))
