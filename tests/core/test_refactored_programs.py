"""`first_difference` after random refactorings: none by itself, and the first is the real edit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_faults import planted
from refactored_programs import SIZE, edited, refactored

from taxpr import first_difference

_RNG = np.random.default_rng(0)
ARGS = [_RNG.uniform(-1, 1, (SIZE, SIZE)).astype(np.float32) for _ in range(2)]
GIVEN = [jnp.asarray(x) for x in ARGS]


def changed_by(before, after):
    """What an edit changed, in the order of execution: both numbers, and whether the names are one.

    Nothing where the result is the same.
    """
    (one, out), (two, other) = before.run(ARGS), after.run(ARGS)
    if np.allclose(out, other, rtol=1e-4, atol=1e-5):
        return []
    return [
        (value, two[key][1], name == two[key][0])
        for key, (name, value) in one.items()
        if key in two and not np.allclose(value, two[key][1], rtol=1e-4, atol=1e-5)
    ]


@pytest.mark.spread(6)
@pytest.mark.parametrize("seed", range(60))
def test_the_first_difference_is_the_edit(seed):
    before, after, done, rng = refactored(seed)
    wrong = edited(rng, after)
    with jax.numpy_rank_promotion("allow"):
        assert not changed_by(before, after)
        found = first_difference(before.function(), after.function())(*GIVEN)
        assert not found, (done, found)
        changed = changed_by(before, wrong) if wrong else []
        if not changed:
            return
        found = first_difference(before.function(), wrong.function())(*GIVEN)
    first = found.first
    # The edit itself, or where its variable was renamed the first behind it with one name in both.
    named = next(k for k, (_, _, same) in enumerate(changed) if same)
    assert any(
        np.allclose([a[first.index], b[first.index]], [first.a, first.b], atol=1e-5)
        for a, b, _ in changed[: named + 1]
    ), (done, str(found), before.written(), wrong.written())


def gate_old(x):
    gate = jax.nn.sigmoid(x)
    return gate


def gate_new(x):
    gate = jax.nn.sigmoid(1.01 * x)
    return gate


def looped_old(x):
    for _ in range(3):
        h = gate_old(x)
        x = x * h
    return x


def looped_new(x):
    for _ in range(3):
        h = gate_new(x)
        x = x * h
    return x


def repeated_old(x):
    for _ in range(2):
        g = jnp.sin(x)
        y = g * 2
        x = x + y
    return x


def repeated_new(x):
    for _ in range(2):
        g = jnp.sin(1.01 * x)
        y = g * 2
        x = x + y
    return x


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        (looped_old, looped_new, ["gate#0", "x#1", "gate#1", "x#2", "gate#2", "x#3", "out"]),
        (repeated_old, repeated_new, ["g#0", "y#0", "x#1", "g#1", "y#1", "x#2", "out"]),
    ],
)
def test_an_edited_line_that_ran_several_times_is_compared_each_time(old, new, rows):
    for one, two in ((old, new), (new, old)):
        found = first_difference(one, two)(GIVEN[0])
        assert [row.variable.rpartition(".")[2] for row in found.rows] == rows


def unrolled(x, w):
    y = jnp.sin(x)
    for _ in range(3):
        h = jnp.tanh(y @ w)
        y = y + 0.5 * h
    z = y * 2
    out = jnp.cos(z)
    return out


def scanned(x, w):
    def layer(y, _):
        h = jnp.tanh(y @ w)
        y = y + 0.5 * h
        return y, None

    y = jnp.sin(x)
    y, _ = jax.lax.scan(layer, y, None, length=3)
    z = y * 2
    out = jnp.cos(z)
    return out


@pytest.mark.parametrize(
    ("old", "new", "statement"),
    [
        ("jnp.sin(x)", "jnp.sin(1.1 * x)", "y = jnp.sin(x)"),
        ("y * 2", "y * 2.1", "z = y * 2"),
        ("jnp.cos(z)", "jnp.cos(z + 0.1)", "out = jnp.cos(z)"),
        # What is in the loop of one alone is not compared, but what is made of its result.
        ("0.5 * h", "0.6 * h", "z = y * 2"),
        ("length=3", "length=2", "z = y * 2"),
    ],
)
def test_a_loop_of_python_that_became_a_scan(old, new, statement):
    assert not first_difference(unrolled, scanned)(*GIVEN)
    found = first_difference(unrolled, planted(scanned, old, new))(*GIVEN)
    assert found.first.statement == statement, found
