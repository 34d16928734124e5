"""`inject` at a variable that is differentiated inside: the derivative is that of the change."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import errors, var

W = jnp.eye(3) * 0.7
X = jnp.arange(6.0).reshape(2, 3) / 7 + 0.1


def loss(w, x, change=lambda h: h):
    hidden = jnp.tanh(x @ w)
    hidden = change(hidden)
    total = (hidden**2).mean()
    return total


def step(w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    new = w - 0.1 * grad
    return value, new


def step_with(change):
    def changed(w, x):
        value, grad = jax.value_and_grad(loss)(w, x, change)
        return value, w - 0.1 * grad

    return changed


FIRST = var("loss.hidden", occurrence=0)


def close(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.fixture(autouse=True)
def stale_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.StaleDerivativeWarning)
        yield


def scanned(w, xs, change=lambda h: h):
    def body(c, x):
        h = jnp.sin(c * x)
        h2 = change(h)
        return c + h2, None

    return jax.lax.scan(body, w, xs)[0]


def of_scan(w, xs):
    return jax.grad(scanned)(w, xs)


@pytest.mark.parametrize("whole", [lambda f: f, jax.jit], ids=["plain", "jitted"])
@pytest.mark.parametrize(
    ("injector", "change"),
    [
        (taxpr.scale(0.5), lambda h: h * 0.5),
        (taxpr.add(1.0), lambda h: h + 1.0),
        (taxpr.zero(), lambda h: h * 0.0),
        (taxpr.clip(high=0.3), lambda h: jnp.clip(h, -jnp.inf, 0.3)),
        (taxpr.stop_gradient(), jax.lax.stop_gradient),
        (taxpr.replace(jnp.ones((2, 3))), lambda h: jnp.ones((2, 3))),
    ],
    ids=["scale", "add", "zero", "clip", "stop_gradient", "replace"],
)
def test_loss_and_new_parameters_are_those_of_the_changed_function(injector, change, whole):
    injected = taxpr.inject(step, injector, where=FIRST)
    ctx = injected.init(W, X)
    out, after = whole(injected)(ctx, W, X)
    close(out, step_with(change)(W, X))
    close(after, ctx)
    assert jax.tree.structure(after) == jax.tree.structure(ctx)
    assert injected.report(after, W, X) == taxpr.inject(loss, injector, where=FIRST).report(
        taxpr.inject(loss, injector, where=FIRST).init(W, X), W, X
    )


def test_the_context_is_an_input():
    injected, traces = taxpr.inject(step, taxpr.scale(0.5), where=FIRST), []

    @jax.jit
    def run(factor, w, x):
        traces.append(1)
        ctx = injected.init(w, x)
        ctx["values"]["factor"] = factor
        return injected(ctx, w, x)[0]

    for factor in (0.5, 2.0):
        close(run(jnp.float32(factor), W, X), step_with(lambda h, f=factor: h * f)(W, X))
    assert len(traces) == 1
    by_hand = jax.grad(lambda f: step_with(lambda h: h * f)(W, X)[1].sum())(0.5)
    close(jax.grad(lambda f: run(f, W, X)[1].sum())(0.5), by_hand)


def test_in_loops_and_under_vmap():
    xs = jnp.arange(1.0, 4.0)
    injected = taxpr.inject(of_scan, taxpr.scale(0.5), where="h")
    out, _ = injected(injected.init(0.3, xs), 0.3, xs)
    close(out, jax.grad(lambda w: scanned(w, xs, lambda h: h * 0.5))(0.3))

    def batch(w, rows):
        return jax.vmap(jax.grad(lambda w, x: scanned(w, x)), (None, 0))(w, rows)

    rows = jnp.stack([xs, xs * 2])
    injected = taxpr.inject(batch, taxpr.clip(high=0.4), where=var("h"))
    out, _ = injected(injected.init(0.3, rows), 0.3, rows)
    changed = jax.grad(lambda w, x: scanned(w, x, lambda h: jnp.clip(h, -jnp.inf, 0.4)))
    close(out, jax.vmap(changed, (None, 0))(0.3, rows))


def test_with_others_that_have_a_state():
    where = {FIRST: taxpr.scale(0.5), var("new"): taxpr.count(), "value": taxpr.record(slots=2)}
    injected = taxpr.inject(step, where)
    ctx = injected.init(W, X)
    assert list(ctx) == [repr(FIRST), "var('new')", "value"] or len(ctx) == 3
    out, after = injected(ctx, W, X)
    wanted = step_with(lambda h: h * 0.5)(W, X)
    close(out, wanted)
    report = injected.report(after, W, X)
    assert list(report) == list(ctx)
    [count] = report[list(ctx)[1]].values()
    assert count["count"] == 1
    out, again = injected(after, W, X)
    [count] = injected.report(again, W, X)[list(ctx)[1]].values()
    assert count["count"] == 2
    with pytest.raises(taxpr.ArgumentError, match="takes its context first"):
        injected({}, W, X)


def test_several_variables_and_a_mapping():
    pair = taxpr.inject(step, taxpr.scale(0.5), where=[FIRST, "total"])
    by_hand = jax.value_and_grad(lambda w: loss(w, X, lambda h: h * 0.5) * 0.5)(W)
    close(pair(pair.init(W, X), W, X)[0], (by_hand[0], W - 0.1 * by_hand[1]))
    each = taxpr.inject(step, {FIRST: taxpr.scale(0.5), "total": taxpr.scale(0.5)})
    close(each(each.init(W, X), W, X)[0], (by_hand[0], W - 0.1 * by_hand[1]))


def test_a_mapping_in_any_order_gives_each_variable_its_own_values():
    def summed(w, x):
        h = jnp.tanh(w * x)
        y = h * h + x
        return (y * w).sum()

    def by_hand(w, x):
        y = (jnp.tanh(w * x) * 0.5) ** 2 + x
        return (y * 3 * w).sum()

    grad = jax.value_and_grad(summed)
    injected = taxpr.inject(grad, {"y": taxpr.scale(3.0), "h": taxpr.scale(0.5)})
    x = jnp.arange(3.0)
    wanted = jax.value_and_grad(by_hand)(0.3, x)
    close(injected(injected.init(0.3, x), 0.3, x)[0], wanted)
    close(jax.jit(injected)(injected.init(0.3, x), 0.3, x)[0], wanted)


# ---- what stays an injection, with the warning -----------------------------------------


def shared(w, x):
    return jax.grad(lambda v: helper(v).sum() + (v**3).sum())(w)


def helper(a):
    b = a * 2
    return b * b


def at_once(w):
    def f(v):
        a = b = jnp.sin(v)
        return (a * b).sum()

    return jax.grad(f)(w)


def put_before(w):
    def f(v):
        rows = [jnp.sin(v)]
        h = rows[0]
        return (h * rows[0]).sum()

    return jax.grad(f)(w)


def comprehended(w):
    def f(v):
        return sum([(part**2).sum() for part in [jnp.sin(v)]])

    return jax.grad(f)(w)


@jax.jit
def jitted(x):
    h = jnp.sin(x)
    return h * 2


def twice(w):
    return jax.grad(lambda v: (jitted(v) + jitted(v * 2)).sum())(w)


def tagged(w):
    return jax.grad(lambda v: (taxpr.tag(jnp.sin(v), name="h") ** 2).sum())(w)


STAYS = {
    "a function of the user's": (step, (W, X), lambda c, h, p: (h * 2, c), FIRST),
    "a state": (step, (W, X), [taxpr.scale(0.5), taxpr.count()], FIRST),
    "random numbers": (step, (W, X), taxpr.noise(key=0), FIRST),
    "the caller's value": (shared, (W, X), taxpr.scale(0.5), "helper.a"),
    "two variables at once": (at_once, (W,), taxpr.scale(0.5), "a"),
    "used before": (put_before, (W,), taxpr.scale(0.5), "h"),
    "what JAX traces once with another": (twice, (W,), taxpr.scale(0.5), var("h", occurrence=0)),
    "a tag": (tagged, (W,), taxpr.scale(0.5), "h"),
    "one iteration": (
        of_scan,
        (0.3, jnp.ones(3)),
        taxpr.scale(0.5),
        taxpr.each(var("h"), iterations=[1]),
    ),
    "arrays in a vmap": (
        lambda w, rows: jax.vmap(jax.grad(loss), (None, 0))(w, rows),
        (W, jnp.stack([X, X, X])),
        taxpr.scale(jnp.ones((3, 1, 1))),
        FIRST,
    ),
    "beside an address": (
        step,
        (W, X),
        {FIRST: taxpr.scale(0.5), "0:dot_general": taxpr.scale(2.0)},
        None,
    ),
}


@pytest.mark.filterwarnings("ignore::taxpr.errors.SharedValueWarning")
@pytest.mark.parametrize("case", STAYS)
def test_what_is_another_question_warns(case):
    fun, args, injector, where = STAYS[case]
    injected = taxpr.inject(fun, injector, where=where)
    with pytest.warns(errors.StaleDerivativeWarning, match=r"taxpr\.edit\("):
        injected.init(*args)


def test_a_program_has_no_source_to_edit():
    with pytest.warns(errors.StaleDerivativeWarning, match=r"taxpr\.edit\(fun, 'hidden'"):
        taxpr.trace(step, names=True)(W, X).inject(taxpr.scale(0.5), where=FIRST)


@jax.custom_jvp
def ruled(x):
    inner = jnp.sin(x)
    return inner * 2


@ruled.defjvp
def its_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    ahead = jnp.sin(x)
    return ahead * 2, jnp.cos(x) * 2 * t


def test_a_rule_that_runs_in_the_place_of_its_function():
    injected = taxpr.inject(
        jax.value_and_grad(lambda v: ruled(v).sum()), taxpr.scale(0.5), where="ahead"
    )
    (value, _), _ = injected(injected.init(W), W)
    np.testing.assert_allclose(value, jnp.sin(W).sum(), rtol=1e-6)


# ---- what answers quote ----------------------------------------------------------------


def logged(x):
    hidden = jnp.tanh(x)
    total = hidden.sum()
    return total


LINE = "hidden = jnp.tanh(x)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("jnp.log(hidden - 9)", "hidden = jnp.log(hidden - 9)"),
        ("jnp.log(hidden - 9) * 2", "hidden = jnp.log(hidden - 9) * 2"),
        ("hidden = jnp.log(jnp.tanh(x) - 9)", "hidden = jnp.log(jnp.tanh(x) - 9)"),
        ([taxpr.add(-9.0), taxpr.scale(jnp.nan)], "hidden by add(value=-9.0), scale(factor=nan)"),
        (jnp.log, "hidden by log"),
    ],
)
@pytest.mark.parametrize("whole", [lambda f: f, jax.value_and_grad, jax.jit])
def test_the_line_that_is_quoted_tells_of_the_edit(change, said, whole):
    edited = taxpr.edit(logged, "hidden", change)
    quoted = f"{LINE}  # edited: {said}"
    for _ in range(2):  # what JAX has traced before tells it, too
        found = taxpr.find_nan(whole(edited))(-X)
        assert found.rows[0].code == quoted
        assert quoted in str(found)
        rows = taxpr.first_difference(whole(logged), whole(edited))(-X).rows
        assert next(row for row in rows if row.variable == "hidden").statement == quoted
    assert f"edited: {said}" in taxpr.trace(whole(edited), names=True)(-X).source()
    plain = taxpr.first_difference(whole(logged))((X,), (X * 2,))
    assert [row.statement for row in plain.rows if row.variable == "hidden"] == [LINE]


def test_two_edits_of_one_line_are_told_in_their_order():
    twice = taxpr.edit(taxpr.edit(logged, "hidden", "hidden + 1"), "hidden", taxpr.scale(0.5))
    [one] = [v for v in taxpr.trace(twice, names=True)(X).variables() if v.name == "hidden"]
    assert one.edited == "hidden = hidden + 1; hidden by scale(factor=0.5)"
    assert taxpr.trace(logged, names=True)(X).variables()[1].edited == ""


def walrus(w, x):
    y = jnp.sin(h := w * x)
    return y * 2 + h


MEMO = {}


def memo(w, x):
    MEMO["v"] = jnp.tanh(w * x)
    h = MEMO["v"]
    return h + 3 * MEMO["v"]


def kept(w, x):
    if "v" not in MEMO:
        MEMO["v"] = jnp.exp(w * x)
    return MEMO["v"]


def twice_in_a_line(w, x):
    MEMO.clear()
    h = kept(w, x)
    return h + kept(w, x)


def by_another_name(w, x):
    MEMO.clear()
    h = kept(w, x)
    other = kept(w, x)
    return h + 3 * other


def in_a_loop_after_it(w, x):
    MEMO.clear()
    h = kept(w, x)
    return jax.lax.fori_loop(0, 3, lambda _, c: c + kept(w, x), h)


def as_the_carry(w, x):
    def body(c, _):
        MEMO.clear()
        h = kept(c, x)
        return kept(c, x) - 0.5, h

    last, every = jax.lax.scan(body, w, None, length=3)
    return last + every.sum()


def used_before_it_is_returned(w, x):
    rest = []

    def of(w):
        found = jnp.exp(w * x)
        rest.append(found * 3)
        return found

    h = of(w)
    return h + rest[0]


def bound_to_itself(w, x):
    h = jnp.exp(w * x)
    h = (lambda h: h)(h)
    return h * 2


def from_a_memo(w, x):
    memo = [w * x]

    def last():
        out = jnp.sin(memo[-1])  # the same instruction makes the value and reads the one before
        memo.append(out)
        return out

    for _ in range(3):
        h = last()
    return h


@pytest.mark.parametrize(
    "fun",
    [
        walrus,
        memo,
        twice_in_a_line,
        by_another_name,
        in_a_loop_after_it,
        as_the_carry,
        used_before_it_is_returned,
        bound_to_itself,
        jax.jit(by_another_name),
        jax.jit(jax.checkpoint(twice_in_a_line)),
        jax.jit(as_the_carry),
        from_a_memo,
        jax.jit(from_a_memo),
    ],
)
def test_a_value_that_others_have_from_elsewhere_stays_an_injection(fun):
    injected = taxpr.inject(jax.value_and_grad(fun), taxpr.scale(0.5), where="h")
    with pytest.warns(errors.StaleDerivativeWarning):
        ctx = injected.init(0.7, 0.3)
    (loss, _), _ = injected(ctx, 0.7, 0.3)
    plain = taxpr.inject(fun, taxpr.scale(0.5), where="h")
    assert loss == plain(plain.init(0.7, 0.3), 0.7, 0.3)[0]


def in_a_branch(w, x):
    def yes(x):
        y = jnp.exp(w * x)
        return y * 2

    return jax.lax.cond(x > 0, yes, lambda x: x, x)


def weights_of_a_scan(w, x):
    def body(c, _):
        h = jax.nn.softmax(jnp.stack([c, x, c * x]))
        return (h * jnp.arange(3.0)).sum(), None

    return jax.lax.scan(body, w, None, length=3)[0]


@pytest.mark.parametrize(
    ("fun", "where"),
    [(in_a_branch, "y"), (in_a_branch, "yes.y"), (weights_of_a_scan, "h")],
)
@pytest.mark.parametrize("whole", [lambda f: f, jax.jit, jax.checkpoint])
def test_the_derivative_of_the_line_may_read_its_value(fun, where, whole):
    injected = taxpr.inject(jax.value_and_grad(whole(fun)), taxpr.scale(0.5), where=where)
    plain = taxpr.inject(fun, taxpr.scale(0.5), where=where)
    ctx = plain.init(0.7, 0.3)
    by_hand = jax.value_and_grad(lambda w, x: plain(ctx, w, x)[0])(0.7, 0.3)
    close(injected(injected.init(0.7, 0.3), 0.7, 0.3)[0], by_hand)


def squares(w, x):
    h = jnp.tanh(w * x)
    return (h**2).sum()


@pytest.mark.parametrize("factor", [jnp.ones(3), jnp.int32(2), jnp.float16(0.5)], ids=str)
@pytest.mark.parametrize("several", [False, True])
def test_a_context_of_other_types_is_refused_as_by_an_injection(several, factor):
    where = {"where": "h"}
    given = ({"h": taxpr.scale(0.5)},) if several else (taxpr.scale(0.5),)
    injected = taxpr.inject(jax.value_and_grad(squares), *given, **({} if several else where))
    ctx = {"state": {}, "values": {"factor": factor}}
    first = injected.init(2.0, jnp.ones(3))
    ctx["state"] = (first["h"] if several else first)["state"]
    place = r"ctx\['h'\]\['values'\]" if several else r"ctx\['values'\]"
    with pytest.raises(errors.ArgumentError, match=place + r"\['factor'\]: float32\[\] and was"):
        injected({"h": ctx} if several else ctx, 2.0, jnp.ones(3))
