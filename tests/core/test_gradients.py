"""Tags of cotangents, and gradients with respect to tagged values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE, runs_plainly
from checks import assert_close, check_types, is_float
from loops import XS, Indexed

import taxpr
from taxpr import tag, tag_cotangent

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")

# ---- tag_cotangent -----------------------------------------------------------


def body(x, w, mark=tag_cotangent):
    h = mark(jnp.sin(x) * w, name="h")
    return h * h


def in_jit(x, w, body=body):
    return jax.jit(body)(x, w).sum()


def in_scan(x, w, body=body):
    return jax.lax.scan(lambda c, t: (body(c, t), c), x.sum(), w)[0]


def in_cond(x, w, body=body):
    return jax.lax.cond(x[0] > 0, body, lambda x, w: x * w, x, w).sum()


def in_vmap(x, w, body=body):
    return jax.vmap(body)(x, w).sum()


def in_remat(x, w, body=body):
    return jax.checkpoint(body)(jnp.tanh(x), w).sum()


def in_all(x, w, body=body):
    def step(c, t):
        c = jax.checkpoint(lambda c: jax.lax.cond(t > 0, body, lambda c, t: c * t, c, t))(c)
        return c, None

    return jax.jit(jax.vmap(lambda c: jax.lax.scan(step, c, w)[0]))(x).sum()


W = jnp.asarray([0.5, -0.4, 2.0], jnp.float32)
X = jnp.asarray([0.3, 1.2, -0.7], jnp.float32)
KINDS = [in_jit, in_scan, in_cond, in_vmap, in_remat, in_all]
kinds = pytest.mark.parametrize("f", KINDS, ids=lambda f: f.__name__)


@pytest.mark.spread(8)
@kinds
def test_the_mark_changes_no_value_and_no_derivative(f):
    unmarked = functools.partial(f, body=functools.partial(body, mark=lambda x, **_: x))

    def derivatives(f, x):
        def own(x):
            return f(x, W)

        once = own(x), jax.grad(own)(x), jax.jvp(own, (x,), (W,))
        return once, jax.hessian(own)(x), jax.jacrev(jax.grad(own))(x)

    run = jax.jit(derivatives, static_argnums=0)
    assert_close(run(f, X), run(unmarked, X), 1e-4)
    assert taxpr.find_tags(jax.make_jaxpr(f)(X, W)) == []
    assert taxpr.find_tags(jax.make_jaxpr(jax.jacfwd(f))(X, W)) == []


@pytest.mark.spread(2)
@kinds
def test_the_gradient_holds_the_tag(f):
    p = taxpr.trace(jax.grad(f))(X, W)
    check_types(p.jaxpr)
    sites = p.tags("h")
    assert len(sites) == 1
    counted = p.inject(taxpr.count(), where="h")
    out, ctx = jax.jit(counted)(counted.ctx, X, W)
    assert_close(out, jax.jit(jax.grad(f))(X, W))
    [n] = ctx["state"].values()
    # The scan of in_all takes the branch for two of three weights, for the whole batch at once.
    assert int(n) == {in_scan: 3, in_all: 2}.get(f, 1)
    dropped = p.inject(taxpr.zero(), where="h")
    [value] = p.collect("h")(X, W)[1].values()
    assert any(np.any(leaf) for leaf in jax.tree.leaves(value))
    assert np.any(np.asarray(dropped(dropped.ctx, X, W)[0] != out))


def test_clipping_what_flows_back_through_a_recurrence():
    """Against a backward pass written by hand, in which each step clips its cotangent."""
    p = taxpr.trace(jax.grad(in_scan))(X, W)
    clipped = p.inject(taxpr.clip(-0.5, 0.25), where="h")
    c, saved = X.sum(), []
    for w in W:
        saved.append((c, jnp.sin(c) * w, w))
        c = saved[-1][1] ** 2
    ct, seen = jnp.float32(1), []
    for c, h, w in reversed(saved):
        seen.append(2 * h * ct)
        ct = jnp.clip(seen[-1], -0.5, 0.25) * w * jnp.cos(c)
    assert_close(clipped(clipped.ctx, X, W)[0], jnp.full(3, ct))
    ct, unclipped = jnp.float32(1), []
    for c, h, w in reversed(saved):
        unclipped.append(2 * h * ct)
        ct = unclipped[-1] * w * jnp.cos(c)
    assert_close(p.collect("h")(X, W)[1]["h"], jnp.stack(unclipped[::-1]))


def test_a_batch_is_marked_where_it_is():
    p = taxpr.trace(jax.grad(in_vmap))(X, W)
    [site] = p.tags("h")
    assert site.batch == ((3, (0,)),)
    p = taxpr.trace(jax.vmap(jax.grad(body), in_axes=(0, 0)))(X, W)
    assert p.axes("h") == {"h": ("vmap 0",)}


def test_tokens_of_several_arrays_and_of_what_has_no_derivative():
    def f(x):
        t = tag_cotangent({"a": x, "n": jnp.int32(2), "b": 2 * x, "k": jax.random.key(0)}, name="t")
        return t["a"] ** t["n"].astype(x.dtype) + 0 * jax.random.uniform(t["k"])

    p = taxpr.trace(jax.grad(f))(3.0)
    value = p.collect("t")(3.0)[1]["t"]
    # b is not used: its cotangent is zero.
    assert value == {"a": 6.0, "n": None, "b": 0.0, "k": None}
    assert taxpr.find_tags(jax.make_jaxpr(jax.grad(lambda x: f(jnp.float32(2)) * x))(3.0)) == []
    with pytest.raises(taxpr.TagError, match=r"tag_cotangent: the param name=\[1\] is a list"):
        tag_cotangent(1.0, name=[1])
    with pytest.raises(taxpr.TagError, match=r"tag_cotangent\(name='x'\): the token is a str"):
        tag_cotangent("no", name="x")


def test_a_linear_transpose_and_a_vjp():
    transposed = jax.make_jaxpr(jax.linear_transpose(lambda x: tag_cotangent(2 * x, name="l"), 1.0))
    assert [params for params, _ in taxpr.iter_tags(transposed(1.0))] == [{"name": "l"}]
    p = taxpr.trace(lambda x, ct: jax.vjp(lambda x: body(x, W), x)[1](ct))(X, X)
    assert_close(p.collect()(X, X)[1]["h"], 2 * X * jnp.sin(X) * W)


def test_a_compiled_program_is_the_same_with_and_without_the_mark():
    def hlo(f):
        return jax.jit(jax.grad(lambda x: f(x))).lower(1.0).compile().as_text()

    assert hlo(lambda x: jnp.sin(tag_cotangent(x * 2, name="t"))).count("multiply") == hlo(
        lambda x: jnp.sin(x * 2)
    ).count("multiply")


# ---- grad_at -----------------------------------------------------------------


class Perturbed(Indexed):
    """The reference, in which something is added to a token each time it fires."""

    def __init__(self, shifts):
        super().__init__()
        self.shifts = shifts

    def note(self, ctx, token, params):
        super().note(ctx, token, params)
        shift = self.shifts.get(params["name"], {}).get(self.index)
        return token if shift is None else jax.tree.map(jnp.add, token, shift), ctx


def scalar(fn):
    def total(*args):
        floats = [x for x in map(jnp.asarray, jax.tree.leaves(fn(*args))) if is_float(x)]
        # The weights tell the parts of the result apart.
        return sum(
            (jnp.sum(jnp.sin(x.astype(jnp.float32) + k)) for k, x in enumerate(floats)),
            start=jnp.float32(0),
        )

    return total


def all_float(site):
    leaves = jax.tree.leaves(site.avals)
    return bool(leaves) and all(is_float(x) for x in leaves)


# Where other code may run in the place of what holds a tag, gradients are refused.
DIFFERENTIABLE = [case for case in INJECTABLE if case.reverse and runs_plainly(case)]


@pytest.mark.spread(12)
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=repr)
def test_gradients_are_those_of_the_reference(case):
    p = taxpr.trace(scalar(case.fn))(*case.args)
    names = [site.name for site in p.tags()]
    chosen = [s for s in p.tags() if all_float(s) and names.count(s.name) == 1]
    for site in p.tags():
        if not all_float(site):
            empty = not jax.tree.leaves(site.avals)
            if not empty:
                with pytest.raises(taxpr.SelectorError, match="which has no derivative"):
                    taxpr.grad_at(p, site)(*case.args)
    if not chosen:
        return
    found = jax.jit(taxpr.grad_at(p, chosen))(*case.args)
    shapes = p.collect(chosen)(*case.args)[1]
    clean = Indexed()
    clean(p.jaxpr, *case.args)
    for site in chosen:
        name = site.name
        value = shapes[name].value if isinstance(shapes[name], taxpr.Masked) else shapes[name]
        types = functools.partial(jax.tree.map, lambda x: (x.shape, x.dtype))
        assert types(found[name]) == types(value)
        zeros = {i: jax.tree.map(jnp.zeros_like, token) for i, token in clean.seen[name].items()}

        def result(shifts, name=name):
            return Perturbed({name: shifts})(p.jaxpr, *case.args)[0]

        expected = jax.grad(result)(zeros)
        total = jax.tree.map(jnp.zeros_like, found[name])
        for index, gradient in expected.items():
            total = jax.tree.map(lambda t, g, i=index: t.at[i].set(g), total, gradient)
        assert_close(found[name], total, 10 * case.tolerance)


def model(params, x):
    def layer(h, w):
        h = tag(jnp.tanh(h @ w), name="h")
        h = jax.lax.cond(h.sum() > 0, lambda h: tag(h * 2, name="up"), lambda h: h - 0.5, h)
        return h, None

    h, _ = jax.lax.scan(jax.checkpoint(layer), x, params)
    return jnp.sum(h**2)


def model_by_hand(params, x, add_h, add_up):
    h, branches = x, []
    for k, w in enumerate(params):
        h = jnp.tanh(h @ w) + add_h[k]
        branches.append(bool(h.sum() > 0))
        h = h * 2 + add_up[k] if branches[-1] else h - 0.5
    return jnp.sum(h**2), branches


def test_finite_differences_in_float64():
    jax.config.update("jax_enable_x64", True)
    try:
        rng = np.random.default_rng(0)
        params = jnp.asarray(rng.normal(size=(4, 3, 3)))
        x = jnp.asarray(rng.normal(size=3))
        found = jax.jit(taxpr.grad_at(model))(params, x)
        zeros = np.zeros((4, 3))
        out, branches = model_by_hand(params, x, zeros, zeros)
        assert_close(out, model(params, x), 1e-12)
        assert len(set(branches)) == 2  # both branches are tried
        for number, name in enumerate(("h", "up")):
            assert found[name].dtype == jnp.float64
            for index in np.ndindex(4, 3):
                eps = np.zeros((4, 3))
                eps[index] = 1e-6
                both = [[zeros, zeros] for _ in range(2)]
                both[0][number], both[1][number] = eps, -eps
                up, down = (model_by_hand(params, x, *add)[0] for add in both)
                np.testing.assert_allclose(
                    found[name][index], (up - down) / 2e-6, rtol=1e-6, atol=1e-8
                )
        assert not np.any(found["up"][~np.asarray(branches)])
    finally:
        jax.config.update("jax_enable_x64", False)


def test_functions_programs_and_what_is_around_them():
    def f(x):
        return jnp.sum(tag(x * 3, name="a") ** 2) + jnp.sum(jnp.cos(tag(x, name="unused")) * 0)

    x = jnp.arange(3.0)
    expected = {"a": 6 * x}
    assert_close(taxpr.grad_at(f, "a")(x), expected)
    assert_close(taxpr.grad_at(taxpr.trace(f)(x), "a")(x), expected)
    lanes = jax.vmap(taxpr.grad_at(f, "a"))(jnp.stack([x, 2 * x]))
    assert_close(lanes["a"], jnp.stack([6 * x, 12 * x]))
    again = jax.grad(lambda x: taxpr.grad_at(f, "a")(x)["a"].sum())(x)
    assert_close(again, jnp.full(3, 6.0))


def test_tokens_that_depend_on_nothing_and_results_that_do_not_depend_on_them():
    def f(ids):
        table = tag(jnp.arange(4.0), name="constant")
        tag(table * 2, name="dead")
        return jnp.sum(table[ids] ** 2)

    found = taxpr.grad_at(f)(jnp.asarray([1, 1, 3]))
    assert found["constant"].tolist() == [0.0, 4.0, 0.0, 6.0]
    assert found["dead"].tolist() == [0.0] * 4


def test_equal_names_of_gradients():
    def f(x):
        return tag(tag(x, name="h") * 2, name="h") * 3

    with pytest.raises(taxpr.SelectorError, match="grad_at: two tags have the name 'h'"):
        taxpr.grad_at(f)(1.0)
    assert taxpr.grad_at(f, stack=True)(1.0)["h"].tolist() == [6.0, 3.0]


def test_the_zero_of_the_way_back_changes_no_bit():
    p = taxpr.grad_at(lambda x: 1 / tag(x, name="x"), "x")
    assert p(jnp.float32(-0.0))["x"] == -jnp.inf  # 1 / (-0 + 0) would be +inf, its slope the same
    assert taxpr.grad_at(lambda x: jnp.arctan2(0.0 * tag(x, name="x"), -1.0), "x")(1.0)["x"] == 0


def test_complex_values():
    def f(x):
        return jnp.abs(tag(x * (1 + 2j), name="z")) ** 2

    found = taxpr.grad_at(f)(jnp.complex64(1 - 1j))["z"]
    assert_close(found, jax.grad(lambda z: jnp.abs(z) ** 2)(jnp.complex64((1 - 1j) * (1 + 2j))))


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: tag(x, name="x"), taxpr.ArgumentError, r"returns float32\[3\]"),
        (lambda x: (x[0], tag(x, name="x")[1]), taxpr.ArgumentError, "Only a single real scalar"),
        (lambda x: tag(x, name="x").astype(int)[0], taxpr.ArgumentError, r"returns int32\[\]"),
        (
            lambda x: jax.lax.while_loop(lambda c: c < 2, lambda c: tag(c, name="c"), x[0]),
            taxpr.RefusedError,
            r"tag .c. \(.* at \d:while/body/t0\) is in the loop while .*no reverse mode",
        ),
    ],
)
def test_what_has_no_gradient(f, error, message):
    with pytest.raises(error, match=message):
        taxpr.grad_at(f)(XS)


def in_a_custom_rule(x):
    @jax.custom_jvp
    def f(x):
        return jax.lax.map(lambda x: tag(jnp.sin(x), name="s"), x)

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(x).sum()


def test_what_may_run_other_code_is_refused_by_name():
    with pytest.raises(
        taxpr.RefusedError, match=r"grad_at: the tag 's' .* custom_jvp_call may run"
    ):
        taxpr.grad_at(in_a_custom_rule)(XS)
    found = taxpr.grad_at(in_a_custom_rule, custom_rules="drop")(XS)["s"]
    assert_close(found, jnp.ones(3))
    squared = taxpr.grad_at(lambda x: in_a_custom_rule(x) ** 2, custom_rules="drop")
    assert_close(squared(XS)["s"], jnp.full(3, 2 * jnp.sin(XS).sum()))
    with pytest.raises(taxpr.RefusedError, match=r"counting iterations: the tag 's' .*/body/t0"):
        taxpr.trace(in_a_custom_rule)(XS).plant({"s": XS})


def test_the_gradient_of_a_skip_connection_runs():
    # It ends in a sum that begins with a literal.
    p = taxpr.trace(jax.grad(lambda x: x + tag(jnp.sin(x), name="s")))(0.5)
    out, values = p.collect("s")(0.5)
    assert np.isclose(out, 1 + np.cos(0.5))
    assert out == p(0.5) == jax.jit(p)(0.5)
    assert np.isclose(values["s"], np.sin(0.5))
