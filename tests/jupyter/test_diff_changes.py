"""One change at several places is said once, in the words of the user's source."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compared_programs import V, chain, compared, named
from drawn_programs import PROGRAMS
from jax import lax

import taxpr
from taxpr_jupyter import compare
from taxpr_jupyter._diff.diff import diff
from taxpr_jupyter._diff.diff_text import diff_text

EPS = 1e-5


def norm(x):
    return x / lax.sqrt(jnp.sum(x * x) + EPS)


def layer(x):
    return jnp.tanh(norm(x))


def with_eps(eps, fn, *args):
    """The program of a function with another eps."""
    before = globals()["EPS"]
    globals()["EPS"] = eps
    jax.clear_caches()
    try:
        return taxpr.trace(fn)(*args)
    finally:
        globals()["EPS"] = before
        jax.clear_caches()


def said(found):
    return [(one.what, one.count, one.status) for one in found.changes]


def test_a_changed_number_is_one_change_wherever_its_line_is_used():
    fn = chain(layer, layer, layer)
    found = diff(taxpr.trace(fn)(V), with_eps(1e-6, fn, V))
    (change,) = found.changes
    assert said(found) == [("1e-05→1e-06", 3, "changed")]
    assert change.addresses == ("2:add", "8:add", "14:add")
    assert change.source is not None
    assert change.source.function == "norm"
    line = change.source.line
    text = f"1 change at 3 places: 1e-05→1e-06 in norm (test_diff_changes.py:{line})"
    assert found.summary() == f"{text}, 15 same"
    assert diff_text(found).split("\n")[2] == found.summary()
    assert repr(found) == f"<difference of apply and apply: {found.summary()}>"
    assert found.counts["changed"] == 3


def test_inside_of_functions_and_loops_too():
    fn = chain(
        jax.jit(layer), jax.jit(layer), lambda x: lax.fori_loop(0, 3, lambda _, c: norm(c), x)
    )
    found = diff(taxpr.trace(fn)(V), with_eps(1e-6, fn, V))
    assert said(found) == [("1e-05→1e-06", 3, "changed")]
    assert found.changes[0].addresses[0] == "0:jit/call/2:add"


def test_other_lines_and_other_numbers_are_other_changes():
    def program(a, b):
        return lambda x: jnp.sin(x * a) * b

    found = compared(program(2, 2), program(3, 4), V)
    assert said(found) == [("2.0→3.0", 1, "changed"), ("2.0→4.0", 1, "changed")]
    assert found.summary().startswith("2 changes: 2.0→3.0 in ")


def test_params_and_names():
    square = np.ones((3, 3), np.float32)
    found = compared(lambda x: jnp.sum(x, 0), lambda x: jnp.sum(x, 1), square)
    assert said(found) == [("reduce_sum axes (0,)→(1,)", 1, "changed")]
    jits = [jax.jit(named(name, layer)) for name in ("a", "b")]
    found = compared(chain(jits[0], jits[0]), chain(jits[1], jits[1]), V)
    assert said(found) == [("a renamed to b", 2, "changed")]


def test_what_is_added_is_said_by_lines():
    def more(x):
        x = jnp.sin(x)
        return jnp.cos(x) * x

    found = compared(layer, lambda x: more(more(layer(x))), V)
    (change,) = found.changes
    assert (change.what, change.count, change.status) == ("6 equations", 6, "added")
    assert change.source is not None
    assert change.last == change.source.line + 1
    assert "6 equations added in more (test_diff_changes.py:" in found.summary()
    found = compared(lambda x: jnp.sin(x), lambda x: x, V)
    assert ("sin", 1, "removed") in said(found)


def test_inputs_and_outputs():
    found = diff(
        taxpr.trace(lambda x: (jnp.sin(x), jnp.cos(x)))(V),
        taxpr.trace(lambda x: (jnp.cos(x), jnp.sin(x)))(V),
    )
    assert {status for _, _, status in said(found)} == {"changed"}
    assert "out0" in found.changes[0].addresses
    found = diff(taxpr.trace(jnp.sin)(V), taxpr.trace(lambda x, y: jnp.sin(x))(V, V))
    assert said(found) == [("input y", 1, "added")]


def test_nothing_has_changed():
    found = compared(layer, layer, V)
    assert found.changes == ()
    assert found.summary() == "no changes, 6 same"
    assert compared(lambda: (), lambda: ()).summary() == "no changes, no equations"


def test_many_changes_are_cut():
    def program(first):
        def fn(x):
            for n in range(10):
                x = jnp.sin(x) * (first + n)
            return x

        return fn

    found = compared(program(2), program(30), V)
    assert len(found.changes) == 10
    assert found.summary().startswith("10 changes: 2.0→30.0 in fn (")
    assert found.summary().endswith("; and 7 more, 10 same")
    lines = diff_text(found).split("\n")
    assert lines[2].startswith("10 changes")


def test_shared_jaxprs_are_counted_and_not_walked():
    def program(factor):
        fn = jax.jit(lambda x: jnp.sin(x) * factor)
        for _ in range(30):
            fn = jax.jit(lambda x, fn=fn: fn(fn(x)))
        with jax.enable_checks(False):
            return taxpr.trace(fn)(V)

    (change,) = diff(program(2.0), program(3.0)).changes
    assert change.count == 2**30
    assert 0 < len(change.addresses) <= 1000


NAMES = list(PROGRAMS)


@pytest.mark.parametrize(("one", "other"), list(itertools.pairwise(NAMES))[::3])
def test_all_that_is_different_is_said(one, other):
    found = diff(PROGRAMS[one](), PROGRAMS[other]())
    assert bool(found.changes) != found.is_same
    for status in ("added", "removed"):
        alone = [c for c in found.changes if c.status == status and c.kind != "end"]
        eqns = sum(c.count for c in alone)
        assert eqns == found.counts[status]
    for change in found.changes:
        side = change.status != "removed"
        statuses = found.after if side else found.before
        for address in change.addresses:
            assert statuses[address] == change.status


def test_a_comparison_says_it_too():
    found = compare(chain(layer), chain(layer, jnp.sin), V)
    assert repr(found).startswith("<comparison of apply and apply: 1 change: sin added in apply (")
    assert found.text().split("\n")[2] == found.diff.summary()
