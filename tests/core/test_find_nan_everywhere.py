"""`find_nan` where a test of a NaN hides it: guards that make infinities, samplers that reject; and
the examples of what is within an expression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from taxpr import find_nan

X = jnp.array([-1.0, 2.0, 3.0])

# ---- guards that turn a NaN into an infinity -----------------------------------------------------


def is_finite(x):
    lp = jnp.log(x)
    return jnp.where(jnp.isfinite(lp), lp, -jnp.inf)


def is_nan_among_others(x):
    lp = jnp.log(x)
    bad = jnp.isnan(lp)
    return jnp.where(bad | (x > 100), -jnp.inf, lp).sum()


def in_a_branch(x):
    lp = jnp.log(x)
    return lax.cond(jnp.isnan(lp.sum()), lambda: -jnp.inf, lambda: 0.0)


def in_a_scan(x):
    def step(c, x):
        lp = jnp.log(x)
        kept = jnp.where(jnp.isnan(lp), jnp.inf, lp)
        return c + kept, kept

    return lax.scan(step, 0.0, x)


def in_jit(x):
    @jax.jit
    def inner(v):
        lp = jnp.log(v)
        return lax.select(lp > 0, lp, jnp.full_like(lp, jnp.inf))

    return inner(jnp.abs(x) * jnp.sign(x))


def by_a_flag_of_a_loop(x):
    def step(state, x):
        ok, total = state
        lp = jnp.log(x)
        ok = ok & jnp.isfinite(lp)
        return (ok, total + jnp.where(ok, lp, 0.0)), None

    (ok, total), _ = lax.scan(step, (True, 0.0), x)
    return jnp.where(ok, total, jnp.inf)


def by_a_flag_of_a_while(x):
    def body(state):
        k, ok, total = state
        lp = jnp.log(x[k])
        return k + 1, ok & ~jnp.isnan(lp), total + jnp.where(jnp.isnan(lp), 0.0, lp)

    _, ok, total = lax.while_loop(lambda state: state[0] < 3, body, (0, True, 0.0))
    return jnp.where(ok, total, -jnp.inf)


def at_an_index(x):
    lp = jnp.log(x)
    return lp.at[0].set(jnp.where(jnp.isnan(lp[0]), -jnp.inf, lp[0]))


def by_a_count(x):
    lp = jnp.log(x)
    bad = jnp.sum(~jnp.isfinite(lp))
    return jnp.where(bad > 0, -jnp.inf, lp.sum())


def by_a_count_of_a_loop(x):
    def step(bad, x):
        lp = jnp.log(x)
        return bad + jnp.isnan(lp).astype(jnp.int32), None

    return lax.cond(lax.scan(step, jnp.int32(0), x)[0] == 0, lambda: 0.0, lambda: -jnp.inf)


GUARDS = [is_finite, is_nan_among_others, in_a_branch, in_a_scan, in_jit]
GUARDS += [by_a_flag_of_a_loop, by_a_flag_of_a_while, at_an_index, by_a_count, by_a_count_of_a_loop]


@pytest.mark.parametrize("fn", GUARDS)
def test_a_nan_that_a_guard_made_infinite_is_found(fn):
    for run, x, examples in (
        (fn, X, ()),
        (jax.vmap(fn), jnp.stack([X, X * 0 + 2, X]), (0, 2)),
    ):
        found = find_nan(run)(x)
        assert not any(np.isnan(leaf).any() for leaf in jax.tree.leaves(found.out))
        [row] = found.rows
        assert (row.what, row.variable, row.examples) == ("NaN", "lp", examples)
        assert row.code.startswith("lp = jnp.log(")
        assert row.became.startswith("the results are not finite by a test of it")
        assert row.became in str(found)
        sound = find_nan(run)(jnp.abs(x) + 2)
        assert (sound.rows, sound.notes) == ([], ())


def test_the_statement_of_the_guard_is_named():
    [row] = find_nan(is_finite)(X).rows
    assert ": -inf in `return jnp.where(jnp.isfinite(lp), lp, -jnp.inf)` (" in row.became
    [row] = find_nan(in_a_scan)(X).rows
    assert ": +inf in `kept = " in row.became or ": +inf in kept (" in row.became
    assert row.iteration == (0,)


def replaced(x):
    lp = jnp.log(x)
    return jnp.nan_to_num(lp, nan=-jnp.inf, neginf=-jnp.inf)


def is_infinite(x):
    lp = jnp.exp(jnp.where(x < 0, 1e4, x))
    return jnp.where(jnp.isinf(lp), -jnp.inf, lp)


@pytest.mark.parametrize(("fn", "what"), [(replaced, "NaN"), (is_infinite, "+inf")])
def test_what_equals_an_infinity_is_a_test_of_it(fn, what):
    [row] = find_nan(fn)(X).rows
    assert (row.what, row.variable) == (what, "lp")
    assert find_nan(fn)(jnp.abs(X) + 2).rows == []


def test_a_library_that_tests_what_it_makes_is_no_guard():
    def forward(x, steps):
        low = jnp.where(x > 0, 0.0, -jnp.inf)

        def step(alpha, move):
            alpha = jnp.logaddexp(alpha + move, low)  # of two infinities it is one
            return alpha, alpha

        return lax.scan(step, low, steps)

    steps = jnp.zeros((2, 3))
    for run, given in ((forward, X), (jax.vmap(forward, (0, None)), jnp.stack([X, X]))):
        found = find_nan(run)(given, steps)
        assert np.isneginf(found.out[0]).any()
        assert found.rows == []
    bad = find_nan(lambda x: forward(jnp.exp(x * 0) * x, jnp.log(x)[None]))(X)
    assert (bad.rows[0].what, bad.rows[0].inputs) == ("NaN", ("x: min -1, max 3",))


def test_what_jax_jits_is_told_by_the_line_that_calls_it_now():
    def f(x):
        shown = jnp.where(jnp.isfinite(x), x, -jnp.inf)  # traces what `jnp.where` jits
        lp = jnp.log(x)
        kept = jnp.where(jnp.isfinite(lp), lp, -jnp.inf)
        return kept.sum(), shown

    [row] = find_nan(f)(X).rows
    assert (
        "kept = jnp.where(jnp.isfinite(lp), lp, -jnp.inf)" in row.became or "kept (" in row.became
    )


def test_what_a_guard_replaces_by_a_number_or_a_result_that_says_so_does_not_alarm():
    def replaced(x):
        lp = jnp.log(x)
        return jnp.isfinite(lp), jnp.where(jnp.isnan(lp), 0.0, lp), (lp > 0).sum()

    found = find_nan(replaced)(X)
    assert not found
    assert found.headline.endswith("all results are finite")

    def mask_beside(x):
        lp = jnp.log(x)
        seen = jnp.where(jnp.isnan(lp), 0.0, lp)
        return jnp.where(jnp.arange(3) > 0, seen, -jnp.inf)  # a mask that no NaN decides

    assert not find_nan(mask_beside)(X)


# ---- everywhere ----------------------------------------------------------------------------------


def metropolis(key, x):
    def step(x, key):
        k1, k2 = jax.random.split(key)
        proposal = x + 2 * jax.random.normal(k1, x.shape)
        lp = jnp.log(proposal)
        accept = jnp.log(jax.random.uniform(k2)) < (lp - jnp.log(x)).sum()
        x = jnp.where(accept, proposal, x)
        return x, (x, proposal)

    return lax.scan(step, x, jax.random.split(key, 20))


def test_proposals_that_a_sampler_rejects_are_counted():
    _, (kept, proposed) = metropolis(jax.random.key(0), jnp.ones(2))
    assert np.isfinite(kept).all()
    bad = np.asarray(proposed) < 0
    assert not find_nan(metropolis)(jax.random.key(0), jnp.ones(2))
    found = find_nan(metropolis, everywhere=True)(jax.random.key(0), jnp.ones(2))
    [row] = found.rows
    assert (row.what, row.variable, row.code) == ("NaN", "lp", "lp = jnp.log(proposal)")
    times = bad.any(1).sum()
    assert row.times == f"{times} of 20 times, {bad.sum()} of 40 elements"
    assert row.iteration == (np.argmax(bad.any(1)),)
    assert row.became == "rejected: a test saw it, and no result has it"
    assert "; 1 place, of them in the results: none" in found.headline
    assert f"{row.times}, first in iteration {row.iteration[0]}" in str(found)

    keys = jax.random.split(jax.random.key(1), 3)
    [row] = find_nan(jax.vmap(metropolis, (0, None)), everywhere=True)(keys, jnp.ones(2)).rows
    bad = np.stack([metropolis(key, jnp.ones(2))[1][1] for key in keys]) < 0
    times = bad.any((0, 2)).sum()
    assert row.times == f"{times} of 20 times, {bad.sum()} of 120 elements"
    first = np.argmax(bad.any((0, 2)))
    assert row.examples == tuple(np.nonzero(bad[:, first].any(-1))[0])


def test_what_begins_in_each_layer_is_told_once():
    def f(xs):
        total = 0.0
        for k in range(25):
            low = jnp.log(xs[k])
            total = total + jnp.where(xs[k] > 0, low, 0.0)
        return total, jnp.log(xs[0])

    found = find_nan(f, everywhere=True)(-jnp.arange(1.0, 26.0))
    assert len(found.rows) == 26
    text = str(found).splitlines()
    [first, last] = [line for line in text if line.startswith("NaN in ")]
    assert f"({found.rows[0].address}, and 24 more such places)" in first
    assert f"({found.rows[-1].address})" in last
    columns, *cells = found.texts()
    assert [row[columns.index("places")] for row in cells] == ["×25", ""]
    assert [one["addresses"] for one in found.listed()] == [
        [row.address for row in found.rows[:25]],
        [found.rows[-1].address],
    ]


def test_what_became_of_each_place_is_told():
    def f(xs):
        def step(c, x):
            low = jnp.log(x)  # not used where it is NaN
            root = jnp.sqrt(x - 1)  # used in iteration 2 alone
            c = c + jnp.where(x > 0, low, 0.0)
            return c, root

        total, roots = lax.scan(step, 0.0, xs)
        rest = jnp.log(xs[0] - 9)
        better = jnp.where(rest > total, rest, total)
        return better, roots[2]

    found = find_nan(f, everywhere=True)(jnp.array([3.0, -1.0, 0.5, -2.0]))
    told = [(row.variable, row.iteration, row.times[:6], row.became) for row in found.rows]
    assert told == [
        ("low", (1,), "2 of 4", "no result has it"),
        ("root", (1,), "3 of 4", "in the results, of 1 of 3 times"),
        ("rest", (), "", "rejected: a test saw it, and no result has it"),
    ]
    assert "; 3 places, of them in the results: 1" in found.headline
    assert not any("no result" in note for note in found.notes)
    [row] = find_nan(f)(jnp.array([3.0, -1.0, 0.5, -2.0])).rows
    assert (row.variable, row.iteration, row.times, row.became) == ("root", (2,), "", "")


def test_masks_are_no_places_unless_a_nan_is_made_of_them():
    def shares(x):
        scores = jnp.where(x > 1, x, -jnp.inf)
        return jax.nn.softmax(scores)

    found = find_nan(shares, everywhere=True)(jnp.arange(3.0))
    assert (found.rows, found.notes) == ([], ())
    assert found.headline.endswith("all values are finite")
    [row] = find_nan(shares, everywhere=True)(jnp.zeros(3)).rows
    assert (row.what, row.became) == ("NaN", "in the results")


def test_lanes_of_a_loop_that_had_ended_are_not_counted():
    def f(n, x):
        def body(state):
            k, v = state
            root = jnp.sqrt(3.0 - k)
            return k + 1.0, v + jnp.where(root >= 0, root, 0.0)

        return lax.while_loop(lambda state: state[0] < n, body, (0.0, x))[1]

    [row] = find_nan(jax.vmap(f), everywhere=True)(jnp.array([2.0, 6.0, 5.0]), jnp.ones(3)).rows
    assert (row.variable, row.iteration, row.examples) == ("root", (4,), (1, 2))
    assert row.times.startswith("2 of 6 times, 3 of ")


# ---- examples of what is within an expression ----------------------------------------------------


def product(x, w):
    return (jnp.log(x @ w) * 2).sum()


def sums(x, w):
    return jnp.log(x.sum() + 0 * w.sum()) * 2


def loop(x, w):
    return lax.scan(lambda c, v: (c + jnp.log(v * w[0] + 1e-3) * 2, None), 0.0, x)[0]


def shaped(x, w):
    return jnp.sqrt(jnp.log(x.reshape(1, 3).T[::-1][1:] * 1.0).squeeze(1) * w[0])


def slope(x, w):
    return jax.grad(lambda v: jnp.sum(jnp.log(v * w) ** 2))(x)


@pytest.mark.parametrize("fn", [product, sums, loop, shaped, slope])
def test_examples_of_what_is_within_an_expression_are_told(fn):
    x, w = jnp.ones((4, 3)).at[2].set(-1.0) * 2, jnp.ones(3)
    assert find_nan(jax.vmap(fn, (0, None)))(x, w).rows[0].examples == (2,)
    assert find_nan(jax.jit(jax.vmap(fn, (1, None))))(x.T, w).rows[0].examples == (2,)
    both = jax.vmap(jax.vmap(fn, (0, None)), (0, None))  # the outer one is told
    assert find_nan(both)(jnp.stack([abs(x), x]), w).rows[0].examples == (1,)


def test_random_keys_are_nothing_to_be_unsure_of():
    def f(key, x):
        k1, k2 = jax.random.split(key)
        low = jnp.log(x) + jax.random.normal(k1, x.shape)
        a, b = jnp.split(low, [2])
        root = jnp.sqrt(x) * jax.random.uniform(k2, x.shape)
        return a, b, root, jax.random.gamma(k2, 1.0)

    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        found = find_nan(f)(key, X)
        assert ([row.elements[:6] for row in found.rows], found.notes) == (["1 of 3", "1 of 3"], ())


def test_examples_are_told_where_a_parameter_holds_the_values_of_the_caller():
    rows = jnp.array([[1.0, 2.0], [3.0, -1.0], [1.0, 1.0]])

    def logs(v):
        return (jnp.log(v) * 2).sum()

    def looped(v):
        return lax.scan(lambda c, _: (c, jnp.log(v) * 2), 0.0, None, length=2)[1].sum()

    for one in logs, looped:
        assert find_nan(lambda x, one=one: jax.vmap(one)(x).sum())(rows).rows[0].examples == (1,)
        nested = find_nan(lambda x, one=one: jax.vmap(jax.vmap(one))(x[None]).sum())(rows)
        assert nested.rows[0].examples == (0,)
    # Outside of the vmap the same values are no examples.
    both = find_nan(lambda x: jax.vmap(logs)(x).sum() + (jnp.sqrt(x) * 2).sum())(rows)
    assert [row.examples for row in both.rows] == [(1,), ()]
    # Two that map other axes of one array: nobody knows whose values these are.
    two = find_nan(lambda x: jax.vmap(logs)(x).sum() + jax.vmap(logs, 1)(x).sum())(rows)
    assert [row.examples for row in two.rows] == [(), ()]
