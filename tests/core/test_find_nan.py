"""`find_nan` on programs with a planted fault, against what plain Python sees first, and on sound
ones, which must not alarm."""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from python_locals import number
from sound_programs import PROGRAMS, concrete

import taxpr
from taxpr import find_nan


def first_in_python(fn, *args):
    """The first variable that is not finite when the function runs op by op.

    Returns its name, and how often its line had bound it before.
    """
    held, counts, found = {}, {}, []

    def look(frame, line):
        for name, value in frame.f_locals.items():
            if isinstance(value, jax.Array) and held.get((frame, name)) is not value:
                held[frame, name] = value
                counts[name, line] = counts.get((name, line), -1) + 1
                floats = jnp.issubdtype(value.dtype, jnp.inexact)
                if floats and not found and not np.isfinite(number(value).astype(np.float64)).all():
                    found.append((name, counts[name, line]))

    def trace(frame, event, arg):
        if frame.f_code.co_filename != __file__:
            return None
        lines = [frame.f_lineno]

        def line(frame, event, arg):
            look(frame, lines[0])
            lines[0] = frame.f_lineno
            return line

        return line

    with jax.disable_jit():
        sys.settrace(trace)
        try:
            fn(*args)
        finally:
            sys.settrace(None)
    return found[0] if found else None


X = jnp.array([1.0, 2.0, 3.0, 0.0])

# ---- faults of the forward pass ---------------------------------------------------------------


def flat(x):
    y = x - 1.0
    z = jnp.log(y)
    return (z * 0.5).sum()


def in_a_scan(x):
    def step(c, x):
        rest = c - x
        root = jnp.sqrt(rest)
        return root, root * 2

    return lax.scan(step, jnp.float32(10), x)


def backwards(x):
    def step(c, x):
        ratio = c / x
        return ratio, ratio

    return lax.scan(step, jnp.float32(1), x[::-1], reverse=True)


def in_a_scan_in_a_while(x):
    def turn(state):
        k, c = state

        def step(c, x):
            low = c - x
            root = jnp.sqrt(low)
            return root * 0.0 + c - 1.0, None

        c, _ = lax.scan(step, c, jnp.zeros(3))
        return k + 1, c

    return lax.while_loop(lambda s: s[0] < 4, turn, (0, x[0] * 7.0))[1]


def in_a_while(x):
    def turn(state):
        k, c = state
        d = c * 1e20
        return k + 1, d

    return lax.while_loop(lambda s: s[0] < 4, turn, (0, x))[1]


def in_a_branch(x):
    def bad(v):
        power = v ** jnp.float32(0.5)
        return power

    return lax.map(lambda v: lax.cond(v < 0, bad, jnp.sin, v), x - 2.5)


def in_jit(x):
    @jax.jit
    def normed(v):
        scaled = v / v.sum()
        return scaled

    return normed(normed(x) * 0)


def overflow(x):
    e = jnp.exp(x * 100)
    p = e / e.sum()
    return p


def whole_row_masked(x):
    scores = jnp.where(x[:, None] > 0.5, x, -jnp.inf)
    shifted = scores - scores.max(-1, keepdims=True)
    return jnp.exp(shifted)


def in_a_rule(x):
    @jax.custom_jvp
    def log(v):
        out = jnp.log(v)
        return out

    log.defjvps(lambda t, out, v: t / v)
    return log(x)


def in_remat(x):
    @jax.checkpoint
    def layer(v):
        h = jnp.arcsin(v)
        return h * 2

    return layer(x)


def float16(x):
    small = x.astype(jnp.float16)
    wide = small * jnp.float16(60000.0)
    return wide.sum()


def after_a_nan_that_is_hidden(x):
    safe = jnp.where(x > 0, x, 1.0)
    y = jnp.log(safe - 1.0)
    return y


def divided_by_a_constant(x):
    scale = 1 / jnp.arange(4.0)
    return x * scale


def step_size_of_the_first_turn(x):
    def step(c, k):
        rate = 1 / jnp.sqrt(k - 2)
        return c - rate * c, None

    return lax.scan(step, x + 1, jnp.arange(2, 5.0))[0]


def inverse_of_a_counter(x):
    def step(c, k):
        weight = (k - 2) ** -2
        return c + weight, weight

    return lax.scan(step, x, jnp.arange(4.0))


# With how often Python had bound the variable before.
FORWARD = [
    (flat, "NaN and -inf", "z", (), 0),
    (in_a_scan, "NaN", "root", (2,), 2),
    (backwards, "+inf", "ratio", (0,), 3),
    (in_a_scan_in_a_while, "NaN", "root", (2, 2), 8),
    (in_a_while, "+inf", "d", (1,), 1),
    (in_a_branch, "NaN", "power", (0,), 0),
    (in_jit, "NaN", "scaled", (), 1),
    (overflow, "+inf", "e", (), 0),
    (whole_row_masked, "NaN", "shifted", (), None),  # the mask is not finite, and meant
    (in_a_rule, "-inf", "out", (), 0),
    (in_remat, "NaN", "h", (), 0),
    (float16, "+inf", "wide", (), 0),
    (after_a_nan_that_is_hidden, "-inf", "y", (), 0),
    (divided_by_a_constant, "+inf", "scale", (), 0),
    (step_size_of_the_first_turn, "+inf", "rate", (0,), 0),
    (inverse_of_a_counter, "+inf", "weight", (2,), 2),
]


@pytest.mark.parametrize(("fn", "what", "variable", "iteration", "before"), FORWARD)
def test_a_fault_is_found_where_python_sees_it_first(
    fn, what, variable, iteration, before, monkeypatch
):
    found = find_nan(fn)(X)
    assert found
    row = found.rows[0]
    assert (row.what, row.variable, row.iteration) == (what, variable, iteration)
    assert not row.backward
    monkeypatch.setattr(jax, "checkpoint", lambda fn: fn)  # which traces also op by op
    if before is not None:
        assert first_in_python(fn, X) == (variable, before)
    line = int(row.line.rpartition(":")[2])
    assert variable in pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]


# ---- faults of the backward pass only -----------------------------------------------------------


def where_of_sqrt(x):
    y = jnp.where(x > 0, jnp.sqrt(x), 0.0)
    return y.sum()


def norm_at_zero(x):
    size = jnp.linalg.norm(x * 0)
    return size


def sqrt_in_a_scan(x):
    def step(c, x):
        root = jnp.sqrt(x)
        return c + root, None

    return lax.scan(step, jnp.float32(0), x)[0]


def bad_rule(x):
    @jax.custom_vjp
    def f(v):
        return v * 2

    f.defvjp(lambda v: (v * 2, v), lambda v, ct: (ct / v,))
    return f(x).sum()


@pytest.mark.parametrize(
    ("fn", "what", "iteration"),
    [
        (where_of_sqrt, "+inf", ()),
        (norm_at_zero, "+inf", ()),
        (sqrt_in_a_scan, "+inf", (3,)),
        (bad_rule, "+inf", ()),
    ],
)
def test_a_fault_of_the_backward_pass_is_found(fn, what, iteration):
    assert not find_nan(fn)(X)
    assert np.isfinite(fn(X)).all()
    for gradient in (jax.grad(fn), jax.jit(jax.value_and_grad(fn))):
        assert any(not np.isfinite(x).all() for x in jax.tree.leaves(gradient(X)))
        found = find_nan(gradient)(X)
        assert (found.rows[0].what, found.rows[0].iteration) == (what, iteration), found
        assert "test_find_nan.py" in found.rows[0].line


def scan_in_a_rule(x):
    @jax.custom_vjp
    def f(v):
        return v.sum()

    def back(v, ct):
        def step(c, one):
            root = jnp.sqrt(c - one)
            return c, root

        return (lax.scan(step, ct, v, reverse=True)[1],)

    f.defvjp(lambda v: (v.sum(), v), back)
    return f(x)


def scan_of_checkpoints(x):
    @jax.checkpoint
    def step(c, one):
        root = jnp.sqrt(c - one)
        return root, root

    return lax.scan(step, jnp.float32(1), x)[0]


def test_what_is_in_a_loop_of_the_backward_pass_is_of_the_backward_pass():
    [row] = find_nan(jax.grad(scan_in_a_rule))(jnp.array([0.5, 4.0])).rows
    assert (row.variable, row.iteration, row.backward) == ("root", (1,), True)
    assert "in the backward pass" in str(find_nan(jax.grad(scan_in_a_rule))(jnp.array([4.0])))
    # What a backward pass only computes again is no part of it.
    rows = find_nan(jax.grad(scan_of_checkpoints))(jnp.array([0.5, 4.0, 1.0])).rows
    assert [row.backward for row in rows] == [False, False]


# ---- examples, devices, arguments ---------------------------------------------------------------


def test_examples_of_a_batch_are_told():
    def loss(w, x):
        h = jnp.log(x @ w)
        return h

    x = jnp.ones((5, 3)).at[3].set(-1.0)
    row = find_nan(jax.vmap(loss, (None, 0)))(jnp.ones(3), x).rows[0]
    assert (row.what, row.variable, row.examples) == ("NaN", "h", (3,))
    assert row.elements == "1 of 5 elements, the first at (3,)"
    row = find_nan(jax.jit(jax.grad(lambda w: jax.vmap(loss, (None, 0))(w, abs(x) * 0).sum())))(
        jnp.ones(3)
    ).rows[0]
    assert row.what == "-inf" or row.what == "+inf"


def test_infinities_of_a_mask_are_no_elements_of_a_nan():
    def shares(scores, length):
        scores = jnp.where(jnp.arange(3) < length, scores, -jnp.inf)
        return jax.nn.softmax(scores)

    lengths = jnp.array([3, 1, 0, 2])
    for memory in (None, 8):
        [row] = find_nan(jax.vmap(shares), memory=memory)(jnp.ones((4, 3)), lengths).rows
        assert (row.what, row.elements[:16]) == ("NaN", "3 of 12 elements")
        assert row.examples == (2,)


def test_nan_in_an_argument_begins_there():
    found = find_nan(lambda p, x: p["w"] * x)({"w": jnp.array([1.0, jnp.nan])}, X[:2])
    assert (found.rows[0].what, found.rows[0].variable) == ("NaN", "p['w']")
    weights = np.array([np.nan, 1.0], np.float32)
    assert find_nan(lambda x: x * weights)(X[:2]).rows[0].what == "NaN"


def test_too_little_memory_takes_another_run():
    found = find_nan(in_a_scan, memory=8)(X)
    assert found.rows[0].inputs == ("rest: -2",)
    assert (found.rows[0].variable, found.rows[0].iteration) == ("root", (2,))


def test_it_shows_itself():
    found = find_nan(in_a_scan)(X)
    text = str(found)
    assert text.startswith("find_nan of in_a_scan: NaN in root (test_find_nan.py:")
    assert (
        "`root = jnp.sqrt(rest)`, iteration 2, (0:scan/body/1:sqrt.0)\n    operand rest: -2" in text
    )
    assert "root" in found._repr_mimebundle_()["text/html"]
    assert found.chart().text()
    assert np.isnan(found.out[0])
    nothing = find_nan(where_of_sqrt)(-X)
    assert str(nothing).splitlines()[0] == "find_nan of where_of_sqrt: all results are finite"
    assert "1 place made values that are not finite and that no result has: `" in str(nothing)
    assert not nothing
    infinite = find_nan(lambda x: jnp.where(x > 1, x, -jnp.inf))(X)
    assert not infinite
    assert "only infinities of constants and arguments in the results" in str(infinite)


# ---- sound programs -----------------------------------------------------------------------------


def causal(x):
    scores = jnp.where(jnp.tril(jnp.ones((4, 4), bool)), jnp.outer(x, x), -jnp.inf)
    return jax.nn.softmax(scores) @ x


def additive_mask(x):
    mask = jnp.log(jnp.tril(jnp.ones((4, 4))))
    return jax.nn.softmax(jnp.outer(x, x) + mask) @ x


def highest(x):
    def step(best, x):
        return jnp.maximum(best, x), None

    return lax.scan(step, -jnp.inf, x)[0]


def streaming_softmax(x):
    def step(state, x):
        top, total = state
        new = jnp.maximum(top, x)
        return (new, total * jnp.exp(top - new) + jnp.exp(x - new)), None

    (top, total), _ = lax.scan(step, (-jnp.inf, 0.0), x)
    return top + jnp.log(total)


def double_where(x):
    safe = jnp.where(x > 0, x, 1.0)
    return jnp.where(x > 0, jnp.log(safe), 0.0).sum()


def ignored_nan(x):
    return jnp.nanmean(jnp.where(x > 0, x, jnp.nan))


def samples(x):
    key = jax.random.key(0)
    noise = jax.random.gumbel(key, (8,)) + jax.random.normal(key, (8,))
    return jax.random.categorical(key, x), noise.sum()


def least(x):
    return jnp.min(x, where=x > 0, initial=jnp.inf)


def sorted_and_padded(x):
    return lax.top_k(jnp.pad(x, 2, constant_values=-jnp.inf), 3)[0]


def clipped(x):
    return jnp.clip(1 / x, -10.0, 10.0).sum()


def log_of_softmax(x):
    return -jax.nn.log_softmax(x * 1e4)[0] * 0


def branches(x):
    return lax.cond(x[0] > 5, lambda x: jnp.log(-x), jnp.sin, x)


SOUND = [causal, additive_mask, highest, streaming_softmax, double_where, ignored_nan, samples]
SOUND += [least, sorted_and_padded, clipped, log_of_softmax, branches, jax.nn.logsumexp]


@pytest.mark.parametrize(
    "fn", [*SOUND, jax.scipy.special.logit, jnp.var], ids=lambda fn: fn.__name__
)
def test_sound_programs_do_not_alarm(fn):
    x = X / 4 + 0.1 if fn is jax.scipy.special.logit else X
    found = find_nan(fn)(x)
    assert not found, found
    assert found.headline.endswith("all results are finite")
    if fn in (causal, streaming_softmax, double_where, jax.nn.logsumexp, additive_mask):
        gradient = jax.grad(lambda x: jnp.sum(fn(x)))
        assert np.isfinite(gradient(X)).all()
        assert not find_nan(gradient)(X)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_people_write_them_do_not_alarm(name):
    fn, args = concrete(name)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = find_nan(fn)(*args)
    assert not found, found
    assert found.headline.endswith("all results are finite")


def test_a_mask_that_is_a_result_or_an_argument_does_not_alarm():
    assert not find_nan(lambda x: jnp.where(x > 1, x, -jnp.inf))(X)
    mask = jnp.array([0.0, -jnp.inf, 0.0, 0.0])
    assert not find_nan(lambda x, mask: jax.nn.softmax(x + mask))(X, mask)
    assert not find_nan(lambda x: jax.nn.softmax(x + mask))(X)
    # With a NaN of the same mask it does.
    assert find_nan(lambda x, mask: x + mask - mask)(X, mask).rows[0].what == "NaN"


def test_a_nan_that_is_written_in_the_source_begins_where_it_is_used():
    def f(x):
        y = jnp.where(x > 0, x, jnp.nan)
        return y * 2

    row = find_nan(f)(X).rows[0]
    # On 0.7 the line of what JAX jits itself is that of its first call.
    assert (row.what, row.elements[:6]) == ("NaN", "1 of 4")
    held = find_nan(lambda x: lax.cond(x[0] > 0, lambda: jnp.nan, lambda: 1.0))(X)
    assert held.rows[0].what == "NaN"
    assert find_nan(lambda x: (x, jnp.nan))(X).rows[0].variable == "result 1"


def test_an_overflow_beside_a_mask_is_found():
    def f(x, big):
        s = jnp.where(x > 1, x * big, -jnp.inf)
        t = s * 2.0
        e = jnp.exp(t)
        return e / e.sum()

    row = find_nan(f)(X, 1e3).rows[0]
    assert (row.what, row.variable) == ("+inf", "e")
    row = find_nan(f)(X, 1e38).rows[0]
    assert (row.what, row.variable) == ("+inf", "t")
    assert not find_nan(f)(X, 1.0)
    assert not find_nan(lambda x: jnp.min(-jnp.where(x > 1, x, -jnp.inf)))(X)


def test_a_loop_that_does_not_run_hands_on_what_it_gets():
    def f(x, n):
        y = jnp.log(x)
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (n, y))[1]

    def twice(x, n):
        return lax.scan(lambda c, x: (c, f(x, n)), 0.0, jnp.stack([x, 2.0 * x]))[1]

    for fn in (f, twice):
        for n in (5, 1):
            row = find_nan(fn)(-1.0, n).rows[0]
            assert (row.what, row.variable) == ("NaN", "y")


def test_what_cannot_be_read_is_a_note():
    found = find_nan(lambda x: lax.reduce(x, jnp.float32(0), lambda a, b: a / b, (0,)))(X * 0)
    assert "Not read: " in str(found)
    assert found.rows[0].what == "NaN"
    assert taxpr.find_nan(taxpr.trace(flat)(X))(X).rows[0].variable == "1:log.0"


# ---- of several places, the one that the results have something of -------------------------------


def test_of_several_iterations_the_one_that_is_selected_is_named():
    def f(xs):
        def step(c, x):
            root = jnp.sqrt(x)
            return c + jnp.where(x > -5, root, 0.0), None

        return lax.scan(step, 0.0, xs)[0]

    row = find_nan(f)(jnp.array([1.0, -9.0, -9.0, 1.0, -2.0, 1.0])).rows[0]
    assert (row.variable, row.iteration, row.inputs) == ("root", (4,), ("x: -2",))

    def late(x):
        def body(state):
            k, v = state
            bad = jnp.log(v - k)
            return k + 1.0, jnp.where(k < 2.5, v, v + bad)

        return lax.while_loop(lambda state: state[0] < 5, body, (0.0, x))[1]

    row = find_nan(late)(jnp.float32(1)).rows[0]
    assert (row.variable, row.iteration) == ("bad", (3,))


def test_of_several_examples_those_that_are_selected_are_named():
    def f(x):
        low = jnp.log(x)
        return jnp.where(x > -5, low, 0.0)

    row = find_nan(jax.vmap(f))(jnp.array([1.0, -9.0, -2.0, 3.0])).rows[0]
    assert (row.examples, row.elements) == ((2,), "1 of 4 elements, the first at (2,)")


def test_what_a_lane_of_a_loop_did_not_run_is_not_named():
    def f(n, x):
        def body(state):
            k, v = state
            root = jnp.sqrt(3.0 - k)
            return k + 1.0, v + root

        return lax.while_loop(lambda state: state[0] < n, body, (0.0, x))[1]

    ends = jnp.array([2.0, 6.0, 5.0])
    found = find_nan(jax.vmap(f))(ends, jnp.ones(3))
    assert (found.rows[0].iteration, found.rows[0].elements[:6]) == ((4,), "2 of 3")
    assert np.isnan(found.out).tolist() == [False, True, True]


def test_a_nan_of_its_own_beside_that_of_an_argument_is_told():
    found = find_nan(lambda x: jnp.log(x))(jnp.array([jnp.nan, -1.0, 1.0]))
    assert [(row.variable, row.elements) for row in found.rows] == [
        ("x", "1 of 3 elements, the first at (0,)"),
        ("0:log.0", "1 of 3 elements, the first at (1,)"),
    ]
    assert "; 2 places" in found.headline


def test_an_infinity_beside_that_of_a_mask_is_found():
    def f(x, mask):
        s = jnp.where(mask, x, -jnp.inf)
        t = s * 1e30
        return jax.nn.logsumexp(t) + t[0]

    mask = jnp.array([True, True, False])
    row = find_nan(f)(jnp.array([-1e30, 2.0, 3.0]), mask).rows[0]
    assert (row.what, row.variable, row.elements[:6]) == ("-inf", "t", "1 of 3")
    assert not find_nan(f)(jnp.array([-1.0, 2.0, 3.0]), mask)

    def log_of_zero(x, mask):
        low = jnp.log(x)
        return jnp.where(mask, low, -jnp.inf).sum()

    row = find_nan(log_of_zero)(jnp.array([0.0, 2.0, 3.0]), mask).rows[0]
    assert (row.what, row.variable) == ("-inf", "low")


def test_elements_are_followed_through_what_moves_them():
    def moved(x):
        y = jnp.log(x)  # NaN in element 1, which nothing takes
        z = jnp.sqrt(x)  # NaN in element 1, which is taken
        kept = jnp.concatenate([y[:1], y[2:]])[::-1].reshape(3, 1).T
        padded = jnp.pad(kept, ((0, 0), (1, 0)))
        return padded[0, jnp.array([2, 0])].sum() + lax.dynamic_slice(z, (1,), (2,)).sum()

    [row] = find_nan(moved)(jnp.array([1.0, -1.0, 2.0, 3.0])).rows
    assert row.variable == "z"

    def updated(x, y):
        low = jnp.log(x)
        root = jnp.sqrt(y)
        return low.at[1].set(root[0]) @ jnp.ones((4, 2))

    given = jnp.array([1.0, -1.0, 2.0, 3.0])
    assert not find_nan(updated)(given, abs(given))
    assert find_nan(updated)(given, -given).rows[0].variable == "root"


def test_it_says_where_it_is_not_sure():
    def f(x):
        low = jnp.log(x)
        root = jnp.sqrt(x)
        return jnp.cumsum(low)[1] + root.sum()

    found = find_nan(f)(jnp.array([1.0, -1.0, -2.0]))
    unknown = "not known which inputs of cumsum made which elements"
    assert any(unknown in note for note in found.notes)

    def with_effects(x):
        x = jax.experimental.io_callback(lambda x: x, x, x, ordered=True)
        return jnp.log(x) + jnp.sqrt(x)  # which runs once, and not again for the elements

    found = find_nan(with_effects, memory=8)(jnp.array([1.0, -1.0]))
    assert any("memory did not allow" in note for note in found.notes)


def test_a_row_of_a_gradient_speaks_of_the_derivative():
    def l2(x):
        n = jnp.sqrt(x)
        return n.sum()

    found = find_nan(jax.grad(l2))(X)
    where = "in the derivative of `n = jnp.sqrt(x)`"
    assert found.headline.startswith(f"find_nan of grad(l2): +inf {where} (test_find_nan.py:")
    assert f"+inf {where}: 1 of 4 elements" in str(found)
    assert found.rows[0].code == "∂ n = jnp.sqrt(x)"
    # A value that is bad itself is none of the derivative.
    row = find_nan(jax.grad(l2))(X - 2).rows[0]
    assert (row.what, row.variable, row.code) == ("NaN", "n", "n = jnp.sqrt(x)")
    overflow = find_nan(jax.value_and_grad(lambda x: jnp.log(jnp.exp(x * 100).sum())))(X)
    assert not overflow.rows[0].code.startswith("∂")
    names = [find_nan(g(l2))(X + 1).headline for g in (jax.vmap, jax.jit, jax.value_and_grad)]
    said = [name.removeprefix("find_nan of ").partition(":")[0] for name in names]
    assert said == ["vmap(l2)", "l2", "value_and_grad(l2)"]


def test_arguments_that_are_given_to_the_question_are_refused():
    def f(x):
        return jnp.log(x)

    asked = [
        ("find_nan", lambda: taxpr.find_nan(f, X)),
        ("watch", lambda: taxpr.watch(f, X)),
        ("flow", lambda: taxpr.flow(f, X)),
        ("check", lambda: taxpr.check(f, X)),
        ("first_difference", lambda: taxpr.first_difference(f, X)),
        ("patch", lambda: taxpr.patch(f, X, f)),
        ("sweep", lambda: taxpr.sweep(f, X)),
    ]
    for name, ask in asked:
        with pytest.raises(taxpr.ArgumentError, match=rf"arguments of the function: {name}\(f\)"):
            ask()


def test_a_carry_that_was_bad_before_and_was_set_again_is_not_named():
    def f(xs):
        def step(state, x):
            total, held, k = state
            low = jnp.log(x)
            held = held + low
            total = jnp.where(k == 299, total + held, total)
            return (total, jnp.where(k == 250, 0.0, held), k + 1), None

        return lax.scan(step, (0.0, 0.0, 0), xs)[0][0]

    found = find_nan(f)(jnp.ones(300).at[jnp.array([10, 200, 280])].set(-1.0))
    assert (found.rows[0].variable, found.rows[0].iteration, found.notes) == ("low", (280,), ())


def test_arguments_that_were_not_finite_are_told():
    """Infinities of arguments are no alarm, but where one makes a NaN the user wants to know."""

    def f(p, x):
        h = jnp.tanh(p["w"] * x)
        return (h * p["s"]).sum()

    p = {"w": jnp.ones(2), "s": jnp.array([1.0, jnp.inf])}
    [note] = taxpr.find_nan(f)(p, jnp.zeros(2)).notes
    assert note.startswith("Arguments that were not finite: p['s'] (test_find_nan.py:")
    assert not taxpr.find_nan(f)(p, jnp.ones(2)).notes
    nan = {**p, "s": jnp.array([1.0, jnp.nan])}
    assert not taxpr.find_nan(f)(nan, jnp.ones(2)).notes  # which is the row


def test_a_window_that_would_end_beyond_an_array_begins_earlier():
    def f(ks, x, y):
        def step(c, k):
            a = jnp.sqrt(x)
            b = jnp.log(y)
            kept = lax.dynamic_slice(a, (k,), (2,)) + lax.dynamic_slice(b, (k,), (2,))
            return c, lax.dynamic_update_slice(jnp.zeros(4), kept, (k,))[3]

        return lax.scan(step, 0.0, ks)[1]

    x, y = jnp.array([-1.0, 1, 1, 1]), jnp.array([1.0, 1, 1, -1])
    found = find_nan(f)(jnp.array([0, 9]), x, y)
    [row] = found.rows
    assert (row.variable, row.iteration, row.elements) == (
        "b",
        (1,),
        "1 of 4 elements, the first at (3,)",
    )
    assert any("no result has: a" in note for note in found.notes)


def test_a_result_may_be_a_key():
    def split(key, x):
        y = jnp.log(x)
        return jax.random.split(key), y

    assert not find_nan(split)(jax.random.key(0), 1.0)
    assert [row.variable for row in find_nan(split)(jax.random.key(0), -1.0).rows] == ["y"]


def test_elements_are_followed_through_what_parts_and_orders_them():
    def parted(x):
        low, root = jnp.split(jnp.log(x), [2])[1], jnp.split(jnp.sqrt(x), [2])[0]
        return low.sum() + root.sum()  # the NaN of element 0 is in the root alone

    [row] = find_nan(parted)(jnp.array([-1.0, 1.0, 2.0])).rows
    assert row.code.startswith("low, root = ")
    assert row.address == taxpr.find_values(taxpr.trace(parted)(X[:3]), lax.sqrt_p)[0].address

    def shuffled(key, x):
        y = jnp.log(x)
        z = jnp.sqrt(x)
        return jax.random.permutation(key, y), z[:1]

    found = find_nan(shuffled)(jax.random.key(0), jnp.array([1.0, -1.0, 2.0]))
    assert [row.variable for row in found.rows] == ["y"]
    assert not any("not known" in note for note in found.notes)

    def ordered(x):
        y = jnp.log(x)
        low = jnp.sort(y)[:2]  # a NaN comes last
        high = lax.top_k(jnp.sqrt(x), 3)[0]
        return low.sum() + high[1]

    found = find_nan(ordered)(jnp.array([3.0, -1.0, 2.0, 1.0]))
    assert (found.rows, bool(found)) == ([], False)
    found = find_nan(lambda x: ordered(x) + lax.top_k(jnp.sqrt(x), 1)[0])(-X - 1)
    assert len(found.rows) == 3
    assert found.notes == ()


def test_a_loop_that_does_not_run_hands_its_nan_on():
    def f(x, n):
        def outer(k, x):
            def inner(s):
                return s[0] + 1, s[1] * 0 + 1

            return lax.while_loop(lambda s: s[0] < n, inner, (0, x))[1]

        return lax.fori_loop(0, 2, outer, x)

    x = jnp.array([1.0, jnp.nan])
    [row] = find_nan(f)(x, 0).rows
    assert (row.variable, row.elements[:6]) == ("x", "1 of 2")


# ---- what a row says belongs together ------------------------------------------------------------


def _log(x):
    return jnp.log(x)


def _log_of(v):
    return _log(v) * 2


def _handed(v):
    return v * 2


@jax.custom_vjp
def ruled(x):
    return x * 2


def _ruled_bwd(res, ct):
    ratio = ct / res
    return (ratio * 2,)


@jax.custom_vjp
def ruled_by_a_helper(x):
    return x * 2


ruled.defvjp(lambda x: (ruled(x), x), _ruled_bwd)
ruled_by_a_helper.defvjp(lambda x: (ruled(x), x), lambda res, ct: (ct * _log(res),))


def helped(x):
    y = _log(
        x,
    )
    return y * 2


def helped_twice(x):
    y = _log_of(x)
    return y


def handed_on(x):
    return _handed(jnp.log(x))


def with_a_rule(x):
    z = ruled(x)
    return z.sum()


def rule_in_a_scan(x):
    return lax.scan(lambda c, v: (c + ruled(v), None), x[0], x)[0]


def rule_with_a_helper(x):
    z = ruled_by_a_helper(x)
    return z.sum()


@pytest.mark.parametrize(
    ("fn", "variable", "line", "code", "made_by"),
    [
        (helped, "y", "y = _log(", "y = _log(x)", "return jnp.log(x)"),
        (helped_twice, "", "return jnp.log(x)", "return jnp.log(x)", ""),
        (handed_on, "v", "def _handed(v):", "", "return _handed(jnp.log(x))"),
        (jax.grad(with_a_rule), "ratio", "ratio = ct / res", "ratio = ct / res", ""),
        (jax.grad(rule_in_a_scan), "ratio", "ratio = ct / res", "ratio = ct / res", ""),
        (
            jax.vmap(jax.jit(jax.grad(with_a_rule))),
            "ratio",
            "ratio = ct / res",
            "ratio = ct / res",
            "",
        ),
        (jax.grad(rule_with_a_helper), "", "return jnp.log(x)", "return jnp.log(x)", ""),
    ],
)
def test_line_statement_and_variable_of_a_row_belong_together(fn, variable, line, code, made_by):
    mapped = getattr(fn, "__doc__", None) and fn.__doc__.startswith("Vectorized")
    row = find_nan(fn)(jnp.zeros((2, 3)) if mapped else jnp.zeros(3)).rows[0]
    assert row.variable == (variable or row.address)
    lines = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()
    file, _, number = row.line.partition(":")
    assert (file, row.code) == ("test_find_nan.py", code)
    # Python says which line an assignment of several lines was in last.
    assert lines[int(number) - 1].strip() in (line, "x,")
    assert row.made_by.partition(" (")[0] == (made_by and f"`{made_by}`")
    if made_by:
        there = lines[int(row.made_by.rpartition(":")[2].rstrip(")")) - 1]
        assert there.strip() == made_by
        assert f"made by {row.made_by}" in str(find_nan(fn)(jnp.zeros(3)))


def test_places_of_no_elements():
    def f(x, at):
        y = jnp.log(x)
        dims = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
        z = jax.lax.scatter(y, at, jnp.zeros(0), dims)
        return z.sum()

    found = taxpr.find_nan(f)(jnp.array([1.0, -1.0]), jnp.zeros((0, 1), jnp.int32))
    assert [row.variable for row in found.rows] == ["y"]


def test_an_operand_without_a_variable_is_told_by_its_expression():
    def of(fun):
        return taxpr.find_nan(fun)(jnp.ones(4)).rows[0].inputs

    def two(x):
        return jax.lax.top_k(x, 2)

    assert of(lambda x: jnp.log((x - 1) * x).sum()) == ("`(x - 1) * x` (1:mul.0): 0",)
    assert of(lambda x: (x + 1) / (x * 2 - 2)) == (
        "`x + 1` (0:add.0): 2",
        "`x * 2 - 2` (2:sub.0): 0",
    )
    assert of(lambda x: jnp.log(two(x)[0] - 1)) == ("`two(x)[0] - 1` (1:sub.0): 0",)
    # The expression has several results, or its value is made in several steps.
    assert of(lambda x: 1 / (0 * two(x)[0]))[1:] == ("`0 * two(x)[0]` (1:mul.0): 0",)
    [first, second] = of(lambda x: jnp.divide(*jnp.split(x - 1, 2)))
    assert "`" not in first + second
    assert "`" not in of(lambda x: jnp.log(jnp.linalg.eigh(jnp.zeros((2, 2)) * x[0])[0]))[0]
