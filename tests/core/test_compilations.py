"""Why functions are compiled again: JAX's events say that they are, the cases why."""

import inspect
import re
import threading

import compiled_again
import jax
import numpy as np
import pytest
from compiled_again import CASES, ONE, THREE, causes, new, rows, two_calls

import taxpr
from taxpr._compat import _compiling
from taxpr.errors import ArgumentError

scale = 2.0


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_named(name):
    run, expected = CASES[name]
    assert causes(run) == expected


def asked(jitted, *calls):
    why = taxpr.why_compiled(jitted)
    for args in calls:
        why(*args)
    return why.compiles


def test_a_row_says_what_where_and_what_to_do():
    def twice(x):
        return x * 2

    why = taxpr.why_compiled(jax.jit(twice))
    assert np.all(two_calls(why) == 2)
    first, row = why.compiles.rows
    assert (first.cause, first.before, first.fix) == ("first call", "", "")
    assert (row.function, row.before, row.now) == ("twice", "float32[3]", "float32[2]")
    assert row.stages == ("trace", "lower", "compile")
    assert row.seconds > 0
    source = inspect.getsource(compiled_again).splitlines()
    assert source[int(row.line.removeprefix("compiled_again.py:")) - 1].endswith("# this one")
    assert row.code == "return why(THREE[:2])"
    assert "pad" in row.fix
    assert "2 compiles, 1 again" in why.compiles.headline
    assert why.__name__ == "twice"


def test_nothing_is_said_where_nothing_is_compiled():
    f = new()
    f(THREE)
    assert not asked(f, (THREE,), (THREE + 1,))
    with taxpr.compiles() as log:
        f(THREE)
    assert not log.compiles


def test_what_is_compiled_without_a_trace():
    f = new()
    found = asked(f, (ONE,))
    f.lower(THREE).compile()
    assert [row.stages for row in found.rows] == [("trace", "lower", "compile")]
    with taxpr.compiles() as log:
        jax.vmap(f)(np.ones((2, 3), np.float32))
    [row] = [row for row in log.compiles.rows if row.function == "double"]
    assert (row.cause, row.now) == ("transformation", "jax.vmap")
    assert row.stages[-2:] == ("lower", "compile")


def test_ahead_of_time():
    with taxpr.compiles() as log:
        new().lower(THREE).compile()
    [row] = log.compiles.rows
    assert row.stages == ("trace", "lower", "compile")


def test_what_no_call_compiles_has_no_cause():
    lowered = new().lower(THREE)
    with taxpr.compiles(eager=True) as log:
        lowered.compile()
    [row] = log.compiles.rows
    assert (row.cause, row.stages) == ("unknown", ("compile",))
    assert ".compile() ahead of time" in row.fix


def test_it_hears_again_where_all_listeners_were_taken_away():
    with taxpr.compiles():
        new()(ONE)
    jax.monitoring.clear_event_listeners()
    with taxpr.compiles() as log:
        new()(ONE)
    assert len(log.compiles) == 1
    assert _compiling._listeners == []


def test_without_a_with_it_says_how_it_is_used():
    log = taxpr.compiles()
    with pytest.raises(ArgumentError, match=r"nothing was noted. Use it in a with: with taxpr.co"):
        log.compiles  # noqa: B018
    assert repr(log) == "Use it in a with: with taxpr.compiles() as log."
    with log:
        assert not log.compiles


def test_a_call_within_a_call_hears_what_follows():
    def outer(x):
        if x.shape == (3,):
            why(x[:2])
            new()(x)

    why = taxpr.why_compiled(outer)
    why(THREE)
    assert [row.function for row in why.compiles.rows] == ["double"]


def test_threads_have_calls_of_their_own():
    functions = [new() for _ in range(4)]

    def run(f):
        f(ONE), f(THREE)

    with taxpr.compiles() as log:
        threads = [threading.Thread(target=run, args=(f,)) for f in functions]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    rows = log.compiles.rows
    assert len(rows) == 8
    assert sum(row.cause == "shape" for row in rows) == 4
    assert {row.stages for row in rows} == {("trace", "lower", "compile")}


def test_several_ask_at_once():
    f = new()
    with taxpr.compiles() as outer:
        f(ONE)
        with taxpr.compiles() as inner:
            f(THREE)
    assert [row.cause for row in inner.compiles.rows] == ["shape"]
    assert [row.cause for row in outer.compiles.rows][1:] == ["shape"]


def test_a_cleared_function():
    f = new()
    why = taxpr.why_compiled(f)
    why(ONE)
    f.clear_cache()
    why(ONE)
    assert [row.cause for row in why.compiles.rows][1:] == ["cleared caches"]


def test_operations_outside_of_jit():
    def run(**options):
        with taxpr.compiles(**options) as log:
            for k in range(3):
                jax.lax.scan(lambda c, _, k=k: (c + k, None), 0, None, length=2)
        return log.compiles

    found = [row.cause for row in run().rows]
    assert set(found) == {"outside of jit"}
    assert len(found) >= 2
    assert len(run(eager=True)) >= 3
    with pytest.raises(taxpr.TaxprError, match="eager"):
        taxpr.compiles(eager=3)


def test_an_error_of_the_function_is_its_own():
    def wrong(x):
        raise ValueError("mine")

    why = taxpr.why_compiled(jax.jit(wrong))
    with pytest.raises(ValueError, match="mine"):
        why(1)
    with pytest.raises(ValueError, match="mine"):
        why(1)
    found = why.compiles.rows
    assert [row.stages for row in found] == [("trace",)] * 2
    assert [row.cause for row in found] == ["first call", "an error before"]
    assert "0 compiles, 0 again" in why.compiles.headline
    with pytest.raises(taxpr.TaxprError, match="3 is an int, not a function"):
        taxpr.why_compiled(3)


def test_what_raised_is_no_compile():
    @jax.jit
    def square(x):
        return x @ x

    why = taxpr.why_compiled(square)
    try:
        why(np.ones((4, 3), np.float32))
    except TypeError:
        new()(ONE)  # which has not raised, though an error is handled
        why(np.ones((3, 3), np.float32))
    assert [(row.cause, row.stages) for row in why.compiles.rows] == [
        ("first call", ("trace",)),
        ("first call", ("trace", "lower", "compile")),
    ]
    assert "1 compile, 0 again" in why.compiles.headline
    assert "square raised while it was traced, and was not compiled" in why.compiles.notes[0]
    why(np.ones((2, 2), np.float32))
    assert why.compiles.rows[-1].before == "float32[3,3]"


def test_a_call_before_one_asked_is_no_first_call():
    f = new()
    f(THREE)
    assert [(row.cause, row.before) for row in asked(f, (THREE,), (THREE[:2],)).rows] == [
        ("shape", "float32[3]")
    ]


def helper(x):
    return x + 1


class Options:
    def __init__(self):
        self.rate, self.names = np.float32(1), ["a"]


@pytest.fixture
def module():
    before = dict(globals())
    yield globals()
    globals().update(before)


def stale(jitted, change):
    why = taxpr.why_compiled(jitted)
    why(ONE)
    assert why.compiles.stale == []
    change()
    why(ONE)
    return [(row.variable, row.before, row.now) for row in why.compiles.stale]


def test_a_global_that_has_changed_is_told(module):
    found = stale(jax.jit(lambda x: x * scale), lambda: module.update(scale=3.0))
    assert found == [("scale", "2.0", "3.0")]
    assert stale(jax.jit(lambda x: x * scale), lambda: module.update(scale=3.0)) == []


def test_a_function_that_was_defined_again_is_told(module):
    def change():
        module["helper"] = lambda x: x + 2

    [(variable, before, now)] = stale(jax.jit(lambda x: helper(x)), change)
    assert variable == "helper"
    assert re.match(r"helper of test_compilations.py:\d+", before)
    assert "<lambda>" in now


def test_an_attribute_and_a_closure_that_have_changed_are_told():
    options, table, count = Options(), {"w": np.ones(2)}, 0

    def f(x):
        nonlocal count
        count += 1  # sets it itself
        options.names.append("b")  # has noted something
        return x * options.rate + table["w"].astype(np.float32).sum()

    def change():
        options.rate = np.float32(2)
        table["w"] = np.zeros(2)

    found = stale(jax.jit(f), change)
    assert [variable for variable, *_ in found] == ["options.rate", "table"]


def test_a_stale_variable_is_a_note(module):
    why = taxpr.why_compiled(jax.jit(lambda x: x * scale))
    why(ONE)
    module["scale"] = 4.0
    why(ONE)
    assert why.compiles.notes == (
        "<lambda> does not see that scale has changed from 2.0 to 4.0 since it was traced. Give it "
        "as an argument.",
    )
    why(THREE)  # which sees it, but the first one does not
    assert [row.now for row in why.compiles.stale] == ["4.0"]


def test_a_gradient_outside_of_jit():
    def run():
        f = new()
        for x in (1.0, 2.0, THREE[0]):
            jax.grad(f)(x)

    found = {row.cause for row in rows(run) if row.function == "double"}
    assert found == {"first call", "weak type"}  # its transpose has a first call, too


def test_what_calls_jitted_functions_may_be_asked():
    inner = new()

    def step(x):
        return inner(x)

    why = taxpr.why_compiled(step)
    why(ONE), why(THREE)
    assert [(row.function, row.cause) for row in why.compiles.rows if row.argument] == [
        ("double", "shape"),
    ]


TYPES = {int: 1, "a": 2}  # keys without an order: no tree for JAX


def test_a_dict_that_is_no_tree_is_looked_over():
    counted = taxpr.why_compiled(jax.jit(lambda x: x * TYPES["a"]))
    for size in (3, 4):
        counted(np.ones(size))
    assert [row.cause for row in counted.compiles.rows] == ["first call", "shape"]
    assert counted.compiles.notes == ()


def test_what_failed_for_another_is_not_told(monkeypatch):
    def fails(*_):
        raise ValueError("no signature")

    broken = taxpr.why_compiled(jax.jit(lambda x: x + 1))
    with monkeypatch.context() as patched:
        patched.setattr("taxpr._compilations.recorder.Recorder._take", fails)
        broken(1.0)
    assert any("no signature" in note for note in broken.compiles.notes)
    whole = taxpr.why_compiled(jax.jit(lambda x: x + 2))
    whole(1.0)
    assert whole.compiles.notes == ()
