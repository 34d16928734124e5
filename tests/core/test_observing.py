"""What only looks at values never costs a derivative, also inside of functions with rules."""

import functools
import re

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE
from checks import assert_close, is_float
from client_checks import values
from jax import lax
from jax.interpreters import ad

import taxpr
from taxpr import tag
from taxpr.hops import Hop, called

V = np.asarray([0.3, -0.8, 1.1], np.float32)
LOOKING = [taxpr.count(), taxpr.stats(), taxpr.record(slots=2), taxpr.check_finite()]
MODES = pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])


# ---- programs: a function, and a primitive in a function with a rule, at which to look ----


def relu(v):
    return jnp.sum(jax.nn.relu(v) ** 2)


def relu_in_vmap(v):
    return jnp.sum(jax.vmap(jax.nn.relu)(v) ** 2)


def relu_in_loops(v):
    def step(c, x):
        c = lax.cond(c > 0, jax.nn.relu, lambda c: c * 0.5, c) + x
        return c, jax.checkpoint(lambda c: jax.nn.relu(c) ** 2)(c)

    return jnp.sum(jax.jit(lambda v: lax.scan(step, jnp.float32(0.2), v)[1])(v))


@jax.custom_jvp
def iterated(x):
    """A loop, of which there is no reverse derivative but that of the rule."""
    return lax.while_loop(lambda x: jnp.sum(x) < 5, lambda x: jnp.exp(x), x)


iterated.defjvp(lambda primals, tangents: (iterated(*primals), 0.9 * tangents[0] * primals[0]))


@jax.custom_jvp
def on_host(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jnp.exp(jax.pure_callback(np.sin, shape, x, vmap_method="sequential"))


on_host.defjvp(lambda primals, tangents: (on_host(*primals), jnp.cos(primals[0]) * tangents[0]))


@jax.custom_vjp
def nested(x):
    return jnp.exp(jax.nn.relu(x)) + iterated(x)


nested.defvjp(lambda x: (nested(x), x), lambda x, ct: (ct * 0.7 * x,))


@jax.custom_jvp
def product(x, y):
    return jnp.exp(x) * y


def _of_product(primals, tangents):
    (x, y), (t, s) = primals, tangents
    zero = isinstance(s, jax.custom_derivatives.SymbolicZero)
    return product(x, y), 0.5 * t * y + (jnp.zeros_like(x) if zero else s)


product.defjvp(_of_product, symbolic_zeros=True)

LOOKED_AT = [
    (relu, lax.max_p),
    (relu_in_vmap, lax.max_p),
    (relu_in_loops, lax.max_p),
    (lambda v: jnp.sum(iterated(v) ** 2), lax.exp_p),
    (lambda v: jnp.sum(on_host(v) ** 2), lax.exp_p),
    (lambda v: jnp.sum(nested(v) ** 2), lax.exp_p),
    (lambda v: jnp.sum(product(v, np.float32(2)) ** 2), lax.exp_p),
]
NAMES = ["relu", "in_vmap", "in_loops", "while", "callback", "nested", "symbolic_zeros"]
EVERY = pytest.mark.parametrize(("fn", "primitive"), LOOKED_AT, ids=NAMES)


def looking(program):
    """The ways to look: each takes what the program takes, and returns also what it has seen."""
    seen = program.inject([*LOOKING, taxpr.print()])
    return [program.collect(stack=True), lambda *args: seen(seen.ctx, *args)]


@pytest.mark.spread(24)
@EVERY
@MODES
def test_a_gradient_is_what_it_was_and_what_is_seen_too(fn, primitive, mode):
    program = taxpr.trace(fn)(V).tag_at(primitive, name="h")
    plain = mode(jax.grad(fn))(V)
    for look in looking(program):
        (value, seen), gradient = mode(jax.value_and_grad(look, has_aux=True))(V)
        assert_close(gradient, plain)
        assert_close((value, seen), look(V))
        gradients, all_seen = mode(jax.vmap(jax.grad(look, has_aux=True)))(np.stack([V, 2 * V]))
        assert_close(gradients[0], plain)
        assert_close(jax.tree.map(lambda x: x[0], all_seen), seen)


@pytest.mark.spread(16)
@EVERY
def test_so_are_all_other_derivatives(fn, primitive):
    program = taxpr.trace(fn)(V).tag_at(primitive, name="h")
    along = np.float32([1.0, -2.0, 0.5])
    forward = "nested" not in fn.__code__.co_names  # of a custom_vjp there is no forward mode
    for look in looking(program):

        def alone(v, look=look):
            return look(v)[0]

        _, back, _ = jax.vjp(look, V, has_aux=True)
        assert_close(back(jnp.float32(2)), jax.vjp(fn, V)[1](jnp.float32(2)))
        if forward:
            assert_close(jax.jvp(look, (V,), (along,))[1][0], jax.jvp(fn, (V,), (along,))[1])
            assert_close(jax.linearize(look, V)[1](along)[0], jax.linearize(fn, V)[1](along))
            assert_close(jax.jit(jax.hessian(alone))(V), jax.hessian(fn)(V))
        else:
            assert_close(jax.jacrev(jax.grad(alone))(V), jax.jacrev(jax.grad(fn))(V))


@pytest.mark.spread(16)
@EVERY
@MODES
def test_a_derivative_of_what_was_seen_is_refused_by_name(fn, primitive, mode):
    program = taxpr.trace(fn)(V).tag_at(primitive, name="h")
    what = ["the value of the tag 'h'", "the ctx of an injector that looks at the tag 'h'"]
    for look, said in zip(looking(program), what, strict=True):

        def of_seen(v, look=look):
            return sum(jnp.sum(x) for x in jax.tree.leaves(look(v)[1]) if x.dtype == jnp.float32)

        text = rf"a derivative is taken of {said} \(.*at \S*custom_.*is kept.*custom_rules=\"drop\""
        with pytest.raises(taxpr.RefusedError, match=text):
            mode(jax.grad(of_seen))(V)
        assert not mode(jax.grad(lambda v: of_seen(lax.stop_gradient(v))))(V).any()


def floats(tree):
    return [x for x in jax.tree.leaves(tree) if x.dtype == jnp.float32]


def test_in_forward_mode_the_derivative_of_what_was_seen_is_no_number():
    look = looking(taxpr.trace(relu)(V).tag_at(lax.max_p, name="h"))[1]
    assert all(np.isnan(x).all() for x in floats(jax.jvp(look, (V,), (V,))[1][1]))


def test_the_derivative_of_what_is_seen_elsewhere_is_right():
    @taxpr.injector(state=lambda site: jnp.float32(0), observes=True)
    def sum_of(token, state):
        return token, state + jnp.sum(token)

    def fn(v, w):
        return jnp.sum(tag(v * w, name="out") * jax.nn.relu(w))

    program = taxpr.trace(fn)(V, V).tag_at(lax.max_p, name="h").inject(sum_of())

    def seen(name, v, w):
        state = program(program.ctx, v, w)[1]["state"]
        return next(x for address, x in state.items() if ("custom" in address) == (name == "h"))

    assert_close(jax.grad(functools.partial(seen, "out"))(V, 2 * V), 2 * V)
    # What is seen in the rule does not depend on v.
    assert not jax.grad(functools.partial(seen, "h"))(V, V).any()
    with pytest.raises(taxpr.RefusedError, match="the ctx of an injector that looks at the tag"):
        jax.grad(functools.partial(seen, "h"), argnums=1)(V, V)
    assert_close(jax.grad(lambda v: program(program.ctx, v, V)[0])(V), V * np.maximum(V, 0))


def test_a_cotangent_of_zeros_asks_for_no_derivative_of_what_was_seen():
    look = taxpr.trace(relu)(V).tag_at(lax.max_p, name="h").collect()
    (_, values), back = jax.vjp(look, V)
    assert_close(back((jnp.float32(1), jax.tree.map(jnp.zeros_like, values)))[0], jax.grad(relu)(V))
    with pytest.raises(taxpr.RefusedError, match="the value of the tag 'h'"):
        back((jnp.float32(1), values))


@pytest.mark.spread(4)
@MODES
@pytest.mark.parametrize("remat", [lambda f: f, jax.checkpoint], ids=["plain", "remat"])
def test_a_context_that_a_loop_around_the_program_carries_costs_no_gradient(mode, remat):
    """The gradient goes back through all steps, and the context from each to the next."""

    def cell(h, x):
        return jnp.tanh(jax.nn.relu(h) * x + x)

    def plain(h, xs):
        return jnp.sum(lax.scan(lambda h, x: (cell(h, x),) * 2, h, xs)[1] ** 2)

    program = taxpr.trace(cell)(V, V).tag_at(lax.max_p, name="h").tag_at(lax.tanh_p, name="t")
    mean = taxpr.from_function(lambda c, t, p: (t, 0.5 * c + jnp.mean(t)), 0.0, observes=True)
    looked = program.inject([*LOOKING, mean])

    def looking_on(h, xs):
        def step(carry, x):
            h, ctx = looked(carry[1], carry[0], x)
            return (h, ctx), h

        (_, ctx), hs = lax.scan(step, (h, looked.ctx), xs)
        return jnp.sum(hs**2), ctx

    xs = np.stack([V, -V, 2 * V, V])
    expected = jax.grad(plain, argnums=(0, 1))(V, xs)
    found, ctx = mode(jax.grad(remat(looking_on), argnums=(0, 1), has_aux=True))(V, xs)
    assert_close(found, expected)
    alone = mode(jax.grad(remat(lambda *args: looking_on(*args)[0]), argnums=(0, 1)))
    assert_close(alone(V, xs), expected)
    assert_close(ctx, looking_on(V, xs)[1])


@MODES
def test_a_change_beside_what_looks(mode):
    """What looks sees the changed value, and the rule is that of the changed function."""

    @jax.custom_jvp
    def fn(v):
        return jnp.sin(tag(2 * v, name="inner"))

    fn.defjvp(lambda primals, tangents: (fn(*primals), 5 * tangents[0]))
    program = taxpr.trace(fn)(V).tag_at(lax.sin_p, name="sin")
    changed = program.inject({"inner": taxpr.scale(0.5), "sin": taxpr.record()})
    run = mode(lambda v: jax.vjp(lambda v: changed(changed.ctx, v), v, has_aux=True))
    out, back, ctx = run(V)
    assert_close(out, np.sin(V))
    assert_close(back(V)[0], 5 * V)
    [state] = ctx["sin"]["state"].values()
    assert_close(state["values"][0], np.sin(V))


@pytest.mark.parametrize("with_jvp", [True, False], ids=["jvp", "vjp"])
@pytest.mark.parametrize("where", ["inner", "sin", "all"])
@MODES
def test_an_effect_happens_once(with_jvp, where, mode, capfd):
    def primal(x):
        jax.debug.callback(lambda x: print("function"), x)
        return jnp.sin(tag(2 * x, name="inner"))

    if with_jvp:
        fn = jax.custom_jvp(primal)
        fn.defjvp(lambda primals, tangents: (fn(*primals), 5 * tangents[0]))
    else:
        fn = jax.custom_vjp(primal)
        fn.defvjp(lambda x: (fn(x), None), lambda _, ct: (5 * ct,))

    def loud(ctx, token, params):
        jax.debug.callback(lambda x: print("loud"), token)
        return token + 1, ctx

    program = taxpr.trace(fn)(1.0).tag_at(lax.sin_p, name="sin")
    injectors = {"inner": loud if where == "sin" else taxpr.print()}
    injectors |= {} if where == "inner" else {"sin": taxpr.print()}
    run = program.inject(injectors)
    mode(jax.grad(lambda x: run(run.ctx, x)[0]))(1.0)
    jax.effects_barrier()
    happened = sorted(line.split(":")[0] for line in capfd.readouterr().out.splitlines())
    others = {"inner": ["inner"], "sin": ["loud", "sin"], "all": ["inner", "sin"]}[where]
    assert happened == sorted(["function", *others])


@MODES
def test_a_reference_of_the_program_is_written_to_once(mode):
    ref = jax.new_ref(jnp.float32(0))

    @jax.custom_vjp
    def add(ref, x):
        ref[...] += x
        return jnp.sin(tag(x * 2 + ref[...], name="h"))

    add.defvjp(lambda ref, x: (add(ref, x), x), lambda x, ct: (None, 5 * ct))
    program = taxpr.trace(lambda x: add(ref, x))(1.0)
    recorded = program.inject(taxpr.record())
    later = program.tag_at(lax.sin_p, name="sin").dissolve("h")
    for look, value in (
        (program.collect(), np.float32(3)),
        (lambda x: recorded(recorded.ctx, x), np.float32(3)),
        (later.collect(), np.sin(np.float32(3))),
    ):
        ref[...] = 0.0
        gradient, seen = mode(jax.grad(look, has_aux=True))(1.0)
        assert (gradient, ref[...]) == (5.0, 1.0)
        assert_close(jnp.ravel(floats(seen)[0])[0], value)
        mode(look)(1.0)
        assert ref[...] == 2.0


def test_what_an_injector_closes_over_costs_nothing_where_it_only_looks():
    @jax.custom_jvp
    def fn(v):
        return jnp.sin(tag(2 * v, name="h"))

    fn.defjvp(lambda primals, tangents: (fn(*primals), 5 * tangents[0]))

    def run(v, w, **options):
        look = taxpr.from_function(lambda c, t, p: (t, c + jnp.sum(t * w)), 0.0, observes=True)
        looked = taxpr.inject(lambda v: jnp.sum(fn(v)) * jnp.sum(w), look, **options)
        return looked(looked.init(v), v)

    assert_close(jax.grad(lambda w: run(V, w)[0])(V), np.full(3, np.sum(np.sin(2 * V))))
    ctx = jax.tree.leaves
    with pytest.raises(taxpr.RefusedError, match="the ctx of an injector that looks at the tag"):
        jax.grad(lambda w: ctx(run(V, w)[1])[0])(V)
    dropped = jax.grad(lambda w: ctx(run(V, w, custom_rules="drop")[1])[0])(V)
    assert_close(dropped, 2 * V)


# ---- solves -----------------------------------------------------------------------------


def solved(v):
    return lax.custom_linear_solve(
        lambda x: 2 * x, v, lambda f, b: tag(b / 2, name="h"), lambda f, b: b / 2
    )


def root(v):
    return lax.custom_root(
        lambda x: x - v, v, lambda f, x: tag(x - f(x), name="h"), lambda g, y: y / g(1.0)
    )


@pytest.mark.parametrize("fn", [solved, root])
def test_a_look_into_a_solve_costs_no_derivative(fn):
    look = taxpr.trace(fn)(0.4).inject(taxpr.record())
    gradient, _ = jax.jit(jax.grad(lambda v: look(look.ctx, v), has_aux=True))(0.4)
    assert_close(gradient, jax.grad(fn)(0.4))

    def carried(v):
        out, ctx = look(look.ctx, v)
        return look(ctx, out)[0]

    assert_close(jax.grad(carried)(0.4), jax.grad(lambda v: fn(fn(v)))(0.4))
    with pytest.raises(taxpr.RefusedError, match="the ctx of an injector that looks at the tag"):
        jax.grad(lambda v: jnp.sum(floats(look(look.ctx, v)[1])[0]))(0.4)


# ---- tags that only a rule has, and that nothing tells apart ----------------------------


def test_tags_of_a_rule_that_cannot_be_told_cost_no_derivative():
    @jax.custom_jvp
    def mul(a, b):
        return a * b

    def rule(primals, tangents):
        (a, b), dots = primals, tangents
        pairs = [
            (t, x)
            for t, x in zip(dots, (b, a), strict=True)
            if not isinstance(t, jax.custom_derivatives.SymbolicZero)
        ]
        return a * b, sum(tag(t * x, name="r") for t, x in pairs)

    mul.defjvp(rule, symbolic_zeros=True)
    program = taxpr.trace(mul)(2.0, 5.0)
    first, last = (site.address for site in program.tags())
    one = program.inject(taxpr.count(), where=last)
    each = program.inject({first: taxpr.count(), last: taxpr.count()})
    every = program.collect(stack=True)
    for run in (one, each):
        with pytest.warns(
            taxpr.UnobservedWarning,
            match=r"at tag 'r' \(.*at 0:custom_jvp_call/jvp/t\d\).*: only the jvp rule of "
            r"custom_jvp_call of .* has such a tag, and cannot be told .* Give these tags names of "
            "their own",
        ) as warned:
            gradient, ctx = jax.grad(lambda b, run=run: run(run.ctx, 2.0, b), has_aux=True)(5.0)
        assert gradient == 2
        assert not any(jax.tree.leaves(ctx))
        assert {warning.filename for warning in warned} == {__file__}
    with pytest.warns(taxpr.UnobservedWarning, match="nothing is seen in this derivative at tag"):
        gradient, seen = jax.grad(lambda b: every(2.0, b), has_aux=True)(5.0)
    assert gradient == 2
    assert not seen["r"].mask.any()
    both = jax.jvp(every, (2.0, 5.0), (1.0, 1.0))[0][1]["r"]
    assert both.mask.all()
    assert_close(both.value, np.float32([5, 2]))


# ---- what says that it looks, and does not ----------------------------------------------


def test_an_injector_that_says_it_looks_must_not_change_the_token():
    @taxpr.injector(observes=True)
    def other(token):
        return token + 0

    program = taxpr.trace(lambda v: jax.vmap(lambda x: tag(x * 2, name="h"))(v))(V)
    later = taxpr.from_function(lambda ctx, token, params: (token * 2, ctx), observes=True)
    each = taxpr.per_example(other())
    for injector, name in ((other(), "other"), (each, "other"), (later, "<lambda>")):
        with pytest.raises(
            taxpr.InjectorError,
            match=f"{name}.* is declared with observes=True and returned another token .* Return "
            r"the token itself, or leave out observes=True. This is at tag 'h' \(.*, at t0\)",
        ):
            program.inject(injector)


def test_one_that_does_not_say_it_is_told_how():
    program = taxpr.trace(relu)(V).tag_at(lax.max_p, name="h")
    mean = lambda ctx, token, params: (token, ctx + jnp.mean(token))
    silent = program.inject(mean, 0.0)
    with pytest.raises(taxpr.RefusedError, match=r"only looks at the token .* observes=True\."):
        jax.grad(lambda v: silent(silent.ctx, v)[0])(V)
    said = program.inject(taxpr.from_function(mean, 0.0, observes=True))
    assert_close(jax.grad(lambda v: said(said.ctx, v)[0])(V), jax.grad(relu)(V))


def test_each_example_of_a_batch_is_looked_at_in_a_rule_too():
    def fn(v):
        return jnp.sum(jax.vmap(fn_of_one)(v) ** 2)

    @jax.custom_jvp
    def fn_of_one(x):
        return tag(jnp.sin(x), name="h")

    fn_of_one.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 3 * tangents[0]))
    look = taxpr.trace(fn)(V).inject(taxpr.per_example(taxpr.stats()))
    gradient, ctx = jax.grad(lambda v: look(look.ctx, v), has_aux=True)(V)
    assert_close(gradient, jax.grad(fn)(V))
    [report] = look.report(ctx).values()
    assert_close(report["mean"], np.sin(V))


# ---- every program of the table ---------------------------------------------------------


@pytest.mark.spread(28)
@pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")
@pytest.mark.parametrize("case", [case for case in INJECTABLE if case.reverse], ids=repr)
def test_to_look_at_every_value_costs_no_gradient(case):
    program = taxpr.trace(case.fn)(*case.args)
    of_tags = re.compile(r"(.*/)?t\d+\.\d+")
    for address in values(program):
        if not of_tags.fullmatch(address):
            program = program.tag_at(address, name=address)
    # Of PRNG keys there are no statistics, and what never runs is not selected.
    where = [
        site.address
        for site in program.tags()
        if not site.idle and all(map(is_number, jax.tree.leaves(site.avals)))
    ]
    floats = [k for k, x in enumerate(case.args) if is_float(jnp.asarray(x))]

    def gradient(fn):
        def loss(*args):
            out, seen = fn(*args)
            numbers = filter(is_float, map(jnp.asarray, jax.tree.leaves(out)))
            return sum(jnp.sum(x.astype(jnp.float32)) for x in numbers), seen

        return jax.jit(jax.grad(loss, argnums=floats, has_aux=True))(*case.args)

    plain, _ = gradient(lambda *args: (case.fn(*args), None))
    looked = program.inject(LOOKING, where=where, shards="stack")
    collected = program.collect(where, stack=True)
    for look in (collected, lambda *args: looked(looked.ctx, *args)):
        assert_close(gradient(look)[0], plain, case.tolerance)


def is_number(aval):
    return not jnp.issubdtype(aval.dtype, jax.dtypes.extended)


# ---- equations of which it is not said what goes where ---------------------------


@pytest.mark.parametrize("how", ["no inputs", "own results", "a loop"])
def test_a_derivative_of_what_was_seen_is_refused_also_behind_what_is_not_known(how):
    """It is a silent zero where an equation in between is taken to depend on nothing."""
    prim = jex.Primitive(f"between {how}")
    prim.multiple_results = True
    thrice = how == "a loop"

    def run(x, *more, jaxpr):
        for _ in range(3 if thrice else 1):
            inner = jex.jaxpr_as_fun(jaxpr)(*([x] if thrice else []))[0]
            x = inner if thrice else x + inner
        return [x]

    def jvp(primals, tangents, jaxpr):
        return jax.jvp(lambda x: run(x, jaxpr=jaxpr), primals, tangents)

    prim.def_impl(run)
    prim.def_abstract_eval(lambda x, jaxpr: [x])
    ad.primitive_jvps[prim] = jvp
    jaxpr = jax.make_jaxpr((lambda x: x * 1.5) if thrice else (lambda: jnp.float32(1)))
    jaxpr = jaxpr(*([V] if thrice else []))
    if how == "own results":
        taxpr.register_hop(
            prim, Hop(nested=lambda e: (called(e, "jaxpr", results=(None,)),), refusal="no")
        )
    elif thrice:
        entry = Hop(nested=lambda e: (called(e, "jaxpr", trips=3),), loops=True, refusal="no")
        taxpr.register_hop(prim, entry)

    def f(x):
        return jnp.sum(jax.nn.relu(prim.bind(x, jaxpr=jaxpr)[0]) ** 2)

    looked = taxpr.trace(f)(V).tag_at(jax.lax.max_p, name="h").collect()
    assert_close(jax.grad(lambda x: looked(x)[0])(V), jax.grad(f)(V))
    with pytest.raises(taxpr.RefusedError, match="derivative is taken of the value of the tag"):
        jax.grad(lambda x: looked(x)[1]["h"].sum())(V)


# ---- iterations of loops in a function with a rule ---------------------------------------


def _same(f, x):
    return f(x)


def _without_a_loop(f, x):
    return jnp.cos(x)


def _with_the_tag_but_no_loop(f, x):
    return tag(jnp.cos(x), name="c")


@pytest.mark.spread(22)
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("rule", [_same, _without_a_loop, _with_the_tag_but_no_loop])
@MODES
def test_iterations_are_told_apart_beside_a_rule(kind, rule, mode):
    def f(x):
        def step(c, k):
            c = tag(jnp.sin(c) * k, name="c")
            return c, c

        return jnp.sum(lax.scan(step, x, jnp.arange(1.0, 4.0))[1])

    if kind == "jvp":
        f = jax.custom_jvp(f)
        f.defjvp(lambda primals, tangents: (rule(f, primals[0]), 7 * tangents[0]))
    else:
        f = jax.custom_vjp(f)
        f.defvjp(lambda x: (rule(f, x), None), lambda _, ct: (7 * ct,))

    def twice(x):
        return jnp.sum(lax.map(f, x * jnp.arange(1.0, 3.0))) + f(x)

    watched = taxpr.trace(twice)(0.5).inject(taxpr.stats(per="iteration"), where="c")
    _, ctx = watched(watched.ctx, 0.5)
    expected = watched.report(ctx)
    rows = [row["mean"] for row in expected.values()]
    assert [row.shape for row in rows] == [(2, 3), (3,)]
    assert_close(rows[1][1], 2 * jnp.sin(jnp.sin(0.5)))
    gradient = mode(jax.grad(lambda x: watched(watched.ctx, x), has_aux=True))
    found, ctx = gradient(0.5)
    assert_close(found, jax.grad(twice)(0.5))
    assert_close(watched.report(ctx), expected)
