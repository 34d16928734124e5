"""What is special in some higher-order primitives: kept rules, dropped rules, params, Refs."""

import functools
import re
import warnings

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from cases_hops import CUSTOM_ROOT, found, new_ref, program_order
from checks import assert_close, check_types
from jax import lax
from reference import Reference

import taxpr
from taxpr import _compat, tag

A = np.asarray([[3.0, 0.5], [0.2, 2.0]], np.float32)
INVERSE = np.linalg.inv(A)
needs_root = pytest.mark.skipif(not CUSTOM_ROOT, reason="a custom_jvp up to 0.11")


def named(name):
    [case] = [case for case in CASES if case.name == name]
    return case


def affine(ctx, token, params):
    """Neither linear in the token nor free of the context."""
    return token * 1.5 + ctx, ctx * 0.5 + 1.0


def mixing(ctx, token, params):
    """Reads and changes both, for tokens of floats."""
    return token * 1.01 + 0.1 * ctx["s"], {"n": ctx["n"] + 1, "s": ctx["s"] * 0.5 + token.mean()}


def start():
    return {"n": jnp.int32(0), "s": jnp.float32(0.25)}


def run_mixed(jaxpr, *args):
    new = taxpr.inject(jaxpr, mixing, start())
    check_types(new)
    return [
        wrap(jex.jaxpr_as_fun(new))(*jax.tree.leaves(start()), *args)
        for wrap in (lambda f: f, jax.jit)
    ]


def mixed_by_reference(jaxpr, *args):
    reference = Reference(mixing, start())
    return [*reference(jaxpr, *args), *jax.tree.leaves(reference.ctx)]


def applied(program):
    injected = program.inject(affine, jnp.float32(0.25))
    return lambda s, *args: injected(s, *args)


# ---- rules that are kept: what solves is injected, what differentiates is not ---


def solver(a, b):
    """Solves ``(a A) x = b``; the tag is on the solution."""
    return lax.custom_linear_solve(
        lambda x: a * (A @ x),
        b,
        lambda matvec, b: tag(INVERSE @ b / a, name="x"),
        transpose_solve=lambda vecmat, b: INVERSE.T @ b / a,
    )


def by_the_rule(a, b, s):
    """The same with the injection, as a function whose derivative JAX finds by itself.

    ``A dx = db - dA x`` at the injected solution x.
    """
    at_a, at_b = lax.stop_gradient((a, b))
    x = 1.5 * (INVERSE @ at_b / at_a) + s
    return x + INVERSE @ (b - at_b - (a - at_a) * (A @ x)) / at_a


AT = (np.float32(1.3), np.asarray([0.4, -0.9], np.float32))
ALONG = (np.float32(0.7), np.asarray([0.2, 0.5], np.float32))


@pytest.mark.slow
def test_the_derivative_of_a_linear_solve_is_that_of_its_equation():
    run = applied(taxpr.trace(solver)(*AT))
    s = jnp.float32(0.25)

    def ours(a, b):
        out, ctx = run(s, a, b)
        return out, ctx

    def theirs(a, b):
        return by_the_rule(a, b, s), lax.stop_gradient(s * 0.5 + 1.0)

    for wrap in (lambda f: f, jax.jit):
        assert_close(wrap(ours)(*AT), theirs(*AT))
        assert_close(wrap(lambda: jax.jvp(ours, AT, ALONG))(), jax.jvp(theirs, AT, ALONG), 1e-4)
        for argnums in (0, 1):
            grads = [
                jax.grad(lambda *at, f=f: jnp.sum(f(*at)[0] ** 2), argnums)(*AT)
                for f in (wrap(ours), theirs)
            ]
            assert_close(*grads, 1e-4)
    many = (np.stack([AT[0], 2 * AT[0]]), np.stack([AT[1], -AT[1]]))
    assert_close(
        jax.vmap(jax.grad(lambda *at: ours(*at)[0].sum()))(*many),
        jax.vmap(jax.grad(lambda *at: theirs(*at)[0].sum()))(*many),
        1e-4,
    )
    # The rule is differentiable, too: dx/da = -x/a, whatever x is.
    twice = jax.grad(jax.grad(lambda a: ours(a, AT[1])[0].sum()))(AT[0])
    assert_close(twice, 2 * by_the_rule(*AT, s).sum() / AT[0] ** 2, 1e-4)
    assert run(s, *AT)[1] == s * 0.5 + 1.0


@pytest.mark.parametrize("name", ["linear_solve", "linear_solve_matrix", "linear_solve_aux"])
def test_the_derivative_of_an_injected_solve_holds_no_tag(name):
    case = named(name)
    program = taxpr.trace(case.fn)(*case.args)
    injected = program.inject(lambda n, token, params: (token, n + 1), 0)

    def f(run):
        return lambda *args: jax.jvp(run, args, args)

    assert taxpr.find_tags(jax.make_jaxpr(f(lambda *a: injected(0, *a)))(*case.args)) == []
    # JAX's rule runs the solve on tangents, with its tags.
    assert len(taxpr.find_tags(jax.make_jaxpr(f(program))(*case.args))) > len(program.tags())
    (out, n), (out_dot, _) = f(lambda *a: injected(0, *a))(*case.args)
    assert n == len(case.fires or ("solve",))
    assert_close((out, out_dot), f(program)(*case.args), case.tolerance)


def cube(x):
    def newton(f, y):
        y = lax.fori_loop(0, 30, lambda i, y: y - f(y) / (3.0 * y**2), y)
        return tag(y, name="root"), {"n": jnp.int32(30), "left": f(y)}

    return lax.custom_root(
        lambda y: y**3 - x, jnp.float32(1), newton, lambda g, y: y / g(1.0), has_aux=True
    )


@needs_root
def test_the_derivative_of_a_root_is_that_of_its_equation():
    x, s = jnp.float32(8), jnp.float32(0.25)
    run = applied(taxpr.trace(cube)(x))
    (root, aux), ctx = run(s, x)
    assert_close(root, jnp.float32(3.25))
    assert_close(ctx, jnp.float32(1.125))
    assert aux["n"] == 30
    for wrap in (lambda f: f, jax.jit):
        f = wrap(lambda x: run(s, x)[0][0])
        slope = 1 / (3 * jnp.float32(3.25) ** 2)
        assert_close(jax.grad(f)(x), slope)
        assert_close(jax.jvp(f, (x,), (x,))[1], 8 * slope)
    assert_close(jax.vmap(jax.grad(f))(jnp.stack([x, x])), jnp.stack([slope, slope]))
    assert jax.grad(lambda x: run(s, x)[1])(x) == 0


KEPT = [
    pytest.param(solver, AT, "custom_linear_solve", id="linear_solve"),
    pytest.param(cube, (jnp.float32(8),), "custom_root", id="root", marks=needs_root),
]


def float_of(out):
    return sum(jnp.sum(x) for x in jax.tree.leaves(out) if jnp.issubdtype(x.dtype, jnp.floating))


@pytest.mark.parametrize(("fn", "args", "name"), KEPT)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_derivative_with_respect_to_the_context_is_refused(fn, args, name, wrap):
    run = applied(taxpr.trace(fn)(*args))
    [site] = taxpr.trace(fn)(*args).tags()
    where = rf"{name}.* \(test_hops\.py:\d+ in \w+, at {re.escape(site.chain[0])}\) has a deriv"
    for part in (0, 1):  # of the result, and of the context that comes out

        def f(s, part=part):
            return float_of(run(s, *args)[part])

        with pytest.raises(taxpr.RefusedError, match=where) as info:
            jax.grad(wrap(f))(jnp.float32(1))
        assert "jax.lax.stop_gradient on the context" in str(info.value)
        with pytest.raises(taxpr.RefusedError, match=where):
            jax.jvp(wrap(f), (jnp.float32(1),), (jnp.float32(1),))
        assert jax.grad(wrap(lambda s, f=f: f(lax.stop_gradient(s))))(jnp.float32(1)) == 0


@pytest.mark.parametrize(("fn", "args", "name"), KEPT)
def test_a_derivative_with_respect_to_what_an_injector_closes_over_is_refused(fn, args, name):
    program = taxpr.trace(fn)(*args)

    def f(theta):
        injected = program.inject(lambda c, token, p: (token * theta, c), 0)
        return float_of(injected(injected.ctx, *args)[0])

    assert_close(f(1.0), float_of(fn(*args)))
    with pytest.raises(taxpr.RefusedError, match=rf"{name}.* \(.*, at \S+\) .*closes over"):
        jax.grad(f)(1.0)


def test_a_context_that_depends_on_an_argument_is_refused_and_not_dropped():
    def f(a, b):
        return solver(a, tag(b, name="b"))

    def taking(ctx, token, params):
        return token + ctx, ctx + token.sum()

    injected = taxpr.trace(f)(*AT).inject(taking, jnp.float32(0))

    def loss(b):
        return injected(injected.ctx, AT[0], b)[0].sum()

    with pytest.raises(taxpr.RefusedError, match="in the injector at an earlier tag"):
        jax.grad(loss)(AT[1])
    assert np.isfinite(jax.grad(lambda a: injected(injected.ctx, a, AT[1])[0].sum())(AT[0]))


def test_tags_that_a_solve_does_not_run_are_passed_over_unless_named_by_address():
    def f(b):
        return lax.custom_linear_solve(
            lambda x: tag(2.0 * x, name="A x"),
            b,
            lambda matvec, b: b - matvec(b) / 4.0,
            transpose_solve=lambda vecmat, b: tag(b / 2.0, name="back"),
        )

    program = taxpr.trace(f)(AT[1])
    addresses = [site.address for site in program.tags("A x")]
    assert addresses == [
        "0:custom_linear_solve/matvec/t0",
        "0:custom_linear_solve/solve/t0",
    ]
    assert [site.idle for site in program.tags()] == [True, False, True]
    [matvec, _] = program.tags("A x")
    refused = [
        (matvec, "matvec"),
        (addresses[0], "matvec"),
        ([addresses[0], taxpr.maybe("A y")], "matvec"),
        ("*:custom_linear_solve/matvec/*", "matvec"),
        ("back", "transpose_solve"),
    ]
    for where, name in refused:
        for change in (functools.partial(program.inject, taxpr.count()), program.collect):
            with pytest.raises(taxpr.RefusedError, match=f"{name} is there for derivatives and t"):
                change(where=where)
    expected = (AT[1] - 1.5 * 2.0 * AT[1] / 4.0, jnp.float32(1.0))
    for where in (addresses[1], "A x", None, "*", lambda site: True, ["A x", taxpr.maybe("back")]):
        injected = program.inject(affine, jnp.float32(0), where=where)
        assert_close(injected(injected.ctx, AT[1]), expected)
        assert_close(program.collect(where)(AT[1]), (AT[1] / 2.0, {"A x": 2.0 * AT[1]}))
    jaxpr = taxpr.inject(program.jaxpr, affine, jnp.float32(0))
    assert_close(tuple(jex.jaxpr_as_fun(jaxpr)(jnp.float32(0), AT[1])), expected)
    _, params, _ = taxpr.transpose(program.jaxpr)
    assert params == [{"name": "A x"}]
    assert [site.name for site in program.dissolve("A x").tags()] == ["back"]


def test_the_gradient_of_a_solve_is_a_program_of_its_own():
    """In it, the solve of the transpose runs; the one that solved before does not."""

    def f(b):
        return lax.custom_linear_solve(
            lambda x: 2.0 * x,
            b,
            lambda matvec, b: tag(b / 2.0, name="there"),
            transpose_solve=lambda vecmat, b: tag(b / 2.0, name="back"),
        ).sum()

    program = taxpr.trace(jax.grad(f))(AT[1])
    [idle] = [site for site in program.tags("back") if site.idle]
    injected = program.inject(affine, jnp.float32(0), where="back")
    check_types(injected.jaxpr)
    reference = Reference(affine, jnp.float32(0), lambda params: params["name"] == "back")
    expected = reference(program.jaxpr, AT[1])
    assert reference.fired == ["back"]
    assert_close(jax.jit(injected)(injected.ctx, AT[1]), (*expected, reference.ctx))
    with pytest.raises(taxpr.RefusedError, match="transpose_solve is there for derivatives"):
        program.inject(affine, jnp.float32(0), where=idle)


@needs_root
def test_the_gradient_of_a_root_injects():
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: cube(x)[0]))(8.0)
    for out in run_mixed(jaxpr, jnp.float32(8)):
        assert_close(out, mixed_by_reference(jaxpr, jnp.float32(8)))
        assert out[-2] == 1


@needs_root
def test_tags_in_a_root_are_dissolved():
    dissolved = taxpr.dissolve_tags(jax.make_jaxpr(cube)(8.0))
    assert not taxpr.find_tags(dissolved)
    assert_close(jex.jaxpr_as_fun(dissolved)(8.0), [cube(8.0)])


# ---- rules that are dropped --------------------------------------------------

DROPPED = {
    "custom_vmap": "custom_vmap_call .* its own rule for jax.vmap is dropped",
    "linear_call": "linear_call .* its own transpose is dropped",
    "transposed": "custom_transpose_call .* its own transpose is dropped",
    "composite": "composite .* its name for a compiler is dropped",
    "partitioned": "custom_partitioning .* its own way to be partitioned is dropped",
}
HERE = [case for case in CASES if case.name in DROPPED]


@pytest.mark.parametrize("case", HERE, ids=repr)
def test_a_dropped_rule_is_said_once_for_each_injection(case):
    program = taxpr.trace(case.fn)(*case.args)
    site = program.tags()[0]
    text = (
        rf"the tag '{site.name}' \([^)]+, at {re.escape(site.address)}\) is inside "
        rf"[^)]+, at {re.escape(site.chain[-1])}\).*{DROPPED[case.name]}"
    )
    for _ in range(2):
        with pytest.warns(taxpr.DroppedRuleWarning, match=text) as seen:
            injected = program.inject(taxpr.count())
        assert len(seen) == 1
        assert seen[0].filename == __file__
    with pytest.warns(taxpr.DroppedRuleWarning, match=text):
        program.collect(site)
    with pytest.warns(taxpr.DroppedRuleWarning, match=text):
        taxpr.inject(program.jaxpr, lambda c, t, p: (t, c), 0)
    left = {eqn.primitive for _, eqn in taxpr.iter_eqns(injected.jaxpr)}
    assert site.steps[-1].eqn.primitive not in left


@pytest.mark.parametrize("case", HERE, ids=repr)
def test_a_rule_is_kept_where_no_tag_in_it_is_selected(case):
    def f(*args):
        return tag(case.fn(*args), name="out")

    program = taxpr.trace(f)(*case.args)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = program.inject(taxpr.count(), where="out")
    primitives = [eqn.primitive for _, eqn in taxpr.iter_eqns(new.jaxpr)]
    assert program.tags()[0].steps[-1].eqn.primitive in primitives


def test_two_tags_in_one_equation_warn_once_and_two_equations_twice():
    f = lax.composite(lambda x: tag(tag(x * 2, name="a") + 1, name="b"), "taxpr.twice")
    program = taxpr.trace(lambda x: f(f(x)))(1.0)
    with pytest.warns(taxpr.DroppedRuleWarning) as seen:
        program.inject(taxpr.count())
    place = r"inside composite of taxpr.twice \(test_hops.py:\d+ in \S+, at (\S+)\)"
    assert [re.findall(place, str(w.message)) for w in seen] == [["0:composite"], ["1:composite"]]


# ---- params that are kept ----------------------------------------------------


def only(jaxpr, primitive):
    [eqn] = [e for e in _compat.open_jaxpr(jaxpr).eqns if e.primitive is primitive]
    return eqn


def counted_twice(n, token, params):
    return token * 2.0, n + 1


@pytest.mark.parametrize(
    ("name", "padded"),
    [
        ("compute_on_host", {"out_memory_spaces": 3}),
        ("metadata", {}),
        ("order_enforced", {"exclude_mask": 3}),
        ("state", {"which_linear": 3, "is_initialized": 3}),
    ],
)
def test_params_of_calls_are_kept(name, padded):
    """``padded`` is how long a param is after an injection with a context of one leaf."""
    if name not in [case.name for case in CASES]:
        pytest.skip("this JAX cannot do it")
    case = named(name)
    jaxpr = jax.make_jaxpr(case.fn)(*case.args)
    old = next(e for e in _compat.open_jaxpr(jaxpr).eqns if taxpr.is_hop(e))
    new = taxpr.inject(jaxpr, counted_twice, 0)
    check_types(new)
    eqn = next(e for e in _compat.open_jaxpr(new).eqns if e.primitive is old.primitive)
    assert eqn.source_info.traceback is old.source_info.traceback
    for key, value in old.params.items():
        if key in padded:
            n = len(value)
            assert len(eqn.params[key]) >= padded[key]
            kept = eqn.params[key][:n] if key == "out_memory_spaces" else eqn.params[key][-n:]
            assert kept == value
        elif "jaxpr" not in key:
            assert eqn.params[key] == value


@pytest.mark.skipif(program_order is None, reason="from 0.12")
def test_an_order_lets_the_context_follow_it():
    case = named("order_with_an_exclusion")
    jaxpr = jax.make_jaxpr(case.fn)(*case.args)
    new = taxpr.inject(jaxpr, counted_twice, 0)
    masks = [
        e.params["exclude_mask"] for _, e in taxpr.iter_eqns(new) if "exclude_mask" in e.params
    ]
    # in the inner one the array W, the context and x are ordered, and n is not
    assert [sum(mask) for mask in masks] == [0, 1]


def test_a_fused_call_is_threaded():
    """XLA on a CPU knows none, so the reference runs it."""
    fused = found("jax.experimental.fused", "fused")
    spaces = (jax.memory.Space.Device,)
    f = fused(out_spaces=spaces)(lambda x: (tag(x * 2.0, name="t") + x,))
    v = jnp.asarray([0.5, -1.0])
    jaxpr = jax.make_jaxpr(lambda v: f(tag(v, name="before")))(v)
    new = taxpr.inject(jaxpr, mixing, start(), lambda p, _: p["name"] == "t")
    eqn = only(new, _compat.fused_call_p)
    assert eqn.params["out_spaces"] == spaces * 3
    reference = Reference(mixing, start(), lambda p: p["name"] == "t")
    expected = reference(jaxpr, v)
    assert reference.fired == ["t"]
    found_here = Reference()(new, *jax.tree.leaves(start()), v)
    assert_close(found_here, [*expected, *jax.tree.leaves(reference.ctx)])


# ---- Refs --------------------------------------------------------------------


def test_run_state_on_a_ref_of_another_is_refused():
    run_state = found("jax._src.state.discharge", "run_state")

    def f(v):
        def outer(ref):
            def inner(own):
                ref[...] = ref[...] * 2
                own[...] = tag(own[...] + ref[...].sum(), name="inner")

            ref[...] = tag(ref[...] + run_state(inner)(v * 3), name="outer")

        return run_state(outer)(v)

    jaxpr = jax.make_jaxpr(f)(jnp.arange(3.0))
    with pytest.raises(taxpr.RefusedError, match="run_state: it uses a Ref from outside"):
        taxpr.inject(jaxpr, mixing, start())
    new = taxpr.inject(jaxpr, mixing, start(), lambda p, _: p["name"] == "outer")
    expected = Reference(mixing, start(), lambda params: params["name"] == "outer")
    outs = expected(jaxpr, jnp.arange(3.0))
    found_here = jex.jaxpr_as_fun(new)(*jax.tree.leaves(start()), jnp.arange(3.0))
    assert_close(found_here, [*outs, *jax.tree.leaves(expected.ctx)])


def test_a_context_of_any_dtype_goes_through_run_state():
    case = named("state")
    program = taxpr.trace(case.fn)(*case.args)
    ctx = {"key": jax.random.key(0), "on": jnp.asarray(True), "n": jnp.int32(0), "none": ()}

    def turning(ctx, token, params):
        key, _ = jax.random.split(ctx["key"])
        return token, {"key": key, "on": ~ctx["on"], "n": ctx["n"] + 1, "none": ()}

    injected = program.inject(turning, ctx)
    _, found_ctx = jax.jit(injected)(ctx, *case.args)
    expected = Reference(turning, ctx)
    expected(program.jaxpr, *case.args)
    assert expected.ctx["n"] == 5
    assert_close(found_ctx, expected.ctx)


def test_an_array_of_an_injector_goes_into_run_state():
    case = named("state")
    shift = jnp.arange(3.0)
    program = taxpr.trace(case.fn)(*case.args)

    def run(shift, *args):
        injected = program.inject(lambda c, t, p: (t + shift, c), (), where="a")
        return injected((), *args)[0]

    reference = Reference(lambda c, t, p: (t + shift, c), (), lambda p: p["name"] == "a")
    expected = reference(program.jaxpr, *case.args)
    assert_close(run(shift, *case.args), expected)
    assert_close(jax.jit(run)(shift, *case.args), expected)


def test_refs_of_the_user_in_an_injected_branch_and_call():
    def f(v):
        ref = new_ref(v)

        @jax.jit
        def twice(x):
            ref[...] = tag(ref[...] * 2, name="in jit")
            return x + ref[...].sum()

        y = lax.cond(v.sum() > 0, twice, lambda x: tag(x, name="else"), v.sum())
        return tag(y, name="y"), ref[...]

    for v in (jnp.asarray([1.0, 2.0]), jnp.asarray([-1.0, -2.0])):
        jaxpr = jax.make_jaxpr(f)(v)
        for out in run_mixed(jaxpr, v):
            assert_close(out, mixed_by_reference(jaxpr, v))
