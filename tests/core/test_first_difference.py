"""`first_difference` names the line where two runs stop agreeing, and what follows from it."""

import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sound_programs import PROGRAMS, concrete

import taxpr
from taxpr import _compat, first_difference

X = jnp.linspace(0.5, 2.0, 6)


def marked(fn):
    lines, first = inspect.getsourcelines(fn)
    return (
        f"test_first_difference.py:{next(first + k for k, s in enumerate(lines) if '# here' in s)}"
    )


def model(xs):
    def step(state, x):
        gate = jax.nn.sigmoid(x + state)
        state = gate * state + x  # here
        return state, gate

    last, gates = jax.lax.scan(step, jnp.float32(0), xs)
    total = jnp.sum(gates)
    return last + total


def refactored(xs):
    def step(state, x):
        gate = jax.nn.sigmoid(x + state)
        state = jnp.where(x > 1.2, gate * state + x * 1.01, gate * state + x)
        return state, gate

    last, gates = jax.lax.scan(step, jnp.float32(0), xs)
    total = jnp.sum(gates)
    return last + total


def test_a_wrong_refactoring_is_found_at_its_line_and_iteration():
    found = first_difference(model, refactored)(X)
    first = found.first
    assert (first.variable, first.iteration, first.line) == ("state#1", (3,), marked(model))
    assert first.statement == "state = gate * state + x  # here"
    state = 0.0
    for x in np.asarray(X)[:4]:
        gate = 1 / (1 + np.exp(-(x + state)))
        state, before = gate * state + x, state
    wrong = gate * before + x * 1.01
    np.testing.assert_allclose([first.a, first.b], [state, wrong], rtol=1e-5)
    names = [(row.variable, row.iteration) for row in found.rows]
    # What follows from it, in the order of execution: the next iteration, then the results.
    assert names[:3] == [("state#1", (3,)), ("state#0", (4,)), ("gate", (4,))]
    assert names[3:] == [("last", None), ("gates", None), ("total", None), ("out", None)]


def test_agreement_is_false():
    found = first_difference(model, "op by op")(X)
    assert not found
    assert found.first is None
    assert "none of" in str(found)
    assert not first_difference(model, jax.devices()[0])(X)
    assert not first_difference(model)(X, X)
    assert not first_difference(model, jax.jit(model))(X)


def cancelling(x):
    large = x + 512.0
    back = jnp.sqrt(large) - 22.627416998  # here
    return back * 2


def test_types_are_compared_within_their_precision():
    x = jnp.asarray([0.3, 0.7])
    found = first_difference(cancelling, "bfloat16")(x)
    assert (found.first.variable, found.first.line) == ("back", marked(cancelling))
    assert found.first.a == pytest.approx(0.01546, abs=1e-4)
    assert abs(found.first.b - found.first.a) > 0.005
    assert [row.variable for row in found.differences] == ["back", "out"]
    single = first_difference(cancelling, jnp.float64)(x)
    assert single.first.variable == "back"  # float32 loses some of it, too
    exact = first_difference(cancelling, "float64", atol=0.0)(x)
    assert exact.first.variable == "large"
    assert 0 < exact.first.difference < 1e-4
    assert not first_difference(cancelling, "float64", rtol=1e-3)(x)


def test_two_inputs():
    def loss(w, x):
        h = jnp.tanh(x)
        masked = jnp.maximum(h, 0.0)
        return jnp.sum(w * masked)

    w = jnp.ones(2)
    found = first_difference(loss)((w, jnp.asarray([-1.0, 1.0])), (w, jnp.asarray([-2.0, 1.0])))
    assert [row.variable for row in found.rows] == ["x", "h"]
    assert (found.first.index, found.first.a, found.first.b) == ((0,), -1.0, -2.0)


def test_the_values_of_variables_are_compared_with_a_program_whose_tags_are_injected():
    program = taxpr.trace(model, names=True)(X).tag_at(taxpr.var("last"), name="last")
    found = first_difference(program, program.inject(taxpr.scale(0.5)))(X)
    assert [row.variable for row in found.rows] == ["last", "out"]
    inner = program.tag_at(taxpr.var("gate"), name="gate")
    found = first_difference(program, inner.inject(taxpr.scale(0.5), where="gate"))(X)
    assert found.first.variable == "gate"
    assert {"state#1", "gates", "total", "out"} <= {row.variable for row in found.rows}


def test_an_edit_is_found():
    def f(x):
        a = jnp.sin(x)
        b = a * 2
        return jnp.cos(b) + x

    program = taxpr.trace(f, names=True)(X)
    planted = program.plant({taxpr.var("b"): jnp.zeros(6)})
    injected = program.inject(taxpr.scale(0.5), where=taxpr.var("b"))
    statements = {planted: "return jnp.cos(b) + x", injected: "b = a * 2"}
    for other, statement in statements.items():
        found = first_difference(program, other)(X)
        assert found
        assert found.rows[-1].variable == "out"
        assert all(row.file == __file__ for row in found.rows[:-1])
        assert found.first.statement == statement
        assert found.first.what == ""
    assert not first_difference(program, program)(X)


def test_loops_that_run_on_branches_and_values_that_are_not_finite():
    def counting(limit):
        def f(x):
            def body(c):
                twice = c * 2
                return twice

            y = jax.lax.while_loop(lambda c: c < limit, body, x)
            return y

        return f

    found = first_difference(counting(10.0), counting(20.0))(jnp.float32(1))
    assert (found.first.variable, found.first.iteration) == ("body.c", (4,))
    assert found.first.what == "ran 4 and 5 times"

    def branching(x, other):
        up = jax.lax.cond(x > 0, lambda x: [y := x * 2, y][1], lambda x: [z := -x, z][1], x)
        return up

    found = first_difference(branching)((jnp.float32(1), 0), (jnp.float32(-1), 0))
    assert {"was computed in a only", "was computed in b only"} & {row.what for row in found.rows}

    def logs(shift):
        def f(x):
            y = jnp.log(x + shift)
            return jnp.where(x > 1, y, 0.0)

        return f

    found = first_difference(logs(0.0), logs(1.0))(jnp.asarray([0.0, 2.0]))
    assert found.first.variable == "y"
    assert (found.first.a, found.first.index) == (-np.inf, (0,))
    assert json.loads(found.to_json())["rows"][0]["a"] == "-inf"
    same = first_difference(logs(0.0), logs(0.0))(jnp.asarray([-1.0, 0.0]))
    assert not same  # NaN and -inf in both


def test_shapes_integers_and_keys():
    def f(n):
        def g(key):
            noise = jax.random.normal(key, (n,))
            count = jnp.int32(n)
            return noise.sum() * 0 + count.astype(jnp.float32)

        return g

    found = first_difference(f(2), f(3))(jax.random.key(0))
    assert found.first.variable == "noise"
    assert found.first.what == "float32[2] and float32[3]"
    keys = jax.random.key(0), jax.random.key(1)
    found = first_difference(f(2))(*keys)
    assert [row.variable for row in found.rows] == ["key", "noise"]
    key, noise = found.rows
    assert (key.what, key.a, key.b, key.difference, key.index) == ("another key", *[None] * 3, ())
    assert (noise.what, noise.difference > 0) == ("", True)
    found = first_difference(lambda k: jax.random.split(k))(*keys)
    assert [row.what for row in found.rows] == ["another key"] * len(found.rows)
    assert not first_difference(f(2))(keys[0], jax.random.key(0))


def test_integers_beyond_the_precision_of_floats():
    def f(n):
        m = n + 1
        return m

    with _compat.enable_x64():
        for dtype, large in (("int64", 2**60), ("int64", -(2**62)), ("uint64", 2**63)):
            inputs = (jnp.asarray([0, large + k], dtype) for k in (0, 1))
            found = first_difference(f)(*inputs)
            assert [row.variable for row in found.rows] == ["n", "m", "out"]
            first = found.first
            assert (first.index, first.a, first.b, first.difference) == ((1,), large, large + 1, 1)
        two = jnp.asarray(2**60), jnp.asarray(2**60 + 1)
        assert not first_difference(f, atol=1)(*two)


def test_results_of_one_side_only_are_no_agreement():
    def g(x):
        return {"a": x + 1}

    found = first_difference(g, lambda x: {"a": x + 1, "c": x + 2})(X)
    assert [(row.variable, row.what) for row in found.rows] == [("out['c']", "is in b only")]
    assert bool(found)
    found = first_difference(g, lambda x: {"c": x + 2})(X)
    assert [row.what for row in found.rows] == ["is in a only", "is in b only"]


def test_arguments_by_name():
    def f(x, scale=1.0):
        y = x * scale
        return y

    def g(x, scale=1.0):
        y = x * scale * jnp.where(scale > 2, 2.0, 1.0)
        return y

    assert not first_difference(f, g)(X, scale=2.0)
    assert first_difference(f, g)(X, scale=3.0).first.b == 6 * X[-1]
    assert first_difference(f)(X, X + 1, scale=0.0).first.variable == "x"
    assert (
        first_difference(f, "bfloat16", atol=0.0)(1.0, scale=jnp.float32(1.01)).first.variable
        == "scale"
    )


def test_op_by_op_says_what_ran_compiled():
    found = first_difference(model, "op by op", atol=0.0)(X)
    assert "Loops and branches ran compiled, each as one: 0:scan." in found.notes
    assert not first_difference(cancelling, "op by op")(X).notes


def test_loops_that_run_backwards():
    def g(wrong):
        def f(xs):
            def step(c, x):
                z = c * x + wrong * (x > 2.5).astype(x.dtype)
                return z, z

            return jax.lax.scan(step, jnp.float32(1), xs, reverse=True)[0]

        return f

    found = first_difference(g(0.0), g(0.5))(jnp.asarray([3.0, 2.0, 2.0, 3.0, 1.0]))
    shown = [(row.variable, row.iteration) for row in found.rows]
    assert shown == [("z", (3,)), ("c", (2,)), ("out", None)]


def test_values_in_a_loop_and_by_themselves_are_not_paired():
    def looped(x):
        def step(h, _):
            h = jnp.sin(h)
            return h, None

        y = jax.lax.scan(step, x, None, length=3)[0]
        return y

    def unrolled(x):
        for _ in range(3):
            h = jnp.sin(x)
            x = h
        y = x
        return y

    assert not first_difference(looped, unrolled)(jnp.float32(1))


def test_a_scan_and_a_loop_of_python_are_compared_by_their_results():
    def scanned(ws, x):
        def layer(x, w):
            h = jnp.sin(x * w)
            return h + x, None

        x, _ = jax.lax.scan(layer, x, ws)
        return x

    def unrolled(factor):
        def scanned(ws, x):
            for w in ws:
                h = jnp.sin(x * w)
                x = h * factor + x
            return x

        return scanned

    found = first_difference(scanned, unrolled(1.0))(jnp.arange(3.0), X)
    assert not found
    assert "Values in one of them only" in str(found)
    found = first_difference(scanned, unrolled(2.0))(jnp.arange(3.0), X)
    assert [row.variable for row in found.rows] == ["out"]
    assert found.headline.endswith("values differ, only the result")


def test_what_is_tolerated_is_said():
    said = "Differences of up to 0.125 of the greatest"
    assert said in str(first_difference(cancelling, "bfloat16")(X))
    assert "Tolerated" not in str(first_difference(cancelling, "bfloat16", rtol=0.1)(X))
    assert "Tolerated" not in str(first_difference(cancelling, "op by op")(X))


def rounded(x):
    part = x * x.astype(jnp.bfloat16)
    total = jnp.sum(part.astype(jnp.float32) if part.dtype != jnp.float32 else part)

    def step(c, k):
        small = c.astype(jnp.bfloat16) * 3
        wide = small.astype(jnp.float32) + k
        return wide, wide

    return total, jax.lax.scan(step, jnp.float32(0.7), X)


def test_what_is_computed_from_bfloat16_is_no_more_precise():
    def shifted(factor):
        def f(x):
            wide = x.astype(jnp.bfloat16).astype(jnp.float32) * 1.5 * factor
            other = jnp.sin(X) * factor
            return wide, other

        return f

    for other in (1.01, 1.0):
        found = first_difference(shifted(1.0), shifted(other))(X)
        # What has nothing from bfloat16 is compared as before.
        assert [row.variable for row in found.rows] == ["other", "out[1]"][: 2 * (other > 1)]
    assert [row.variable for row in first_difference(shifted(1.0), shifted(1.2))(X).rows] == [
        *("wide", "other", "out[0]", "out[1]")
    ]
    with jax.numpy_dtype_promotion("standard"):
        assert not first_difference(rounded, "op by op")(X)
        assert not first_difference(rounded, "bfloat16")(X)
        assert not first_difference(rounded, "float64")(X)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sound_programs_agree_with_themselves_op_by_op(name):
    fn, args = concrete(name)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = first_difference(fn, "op by op")(*args)
    assert not found, found


def summed(turned, *, added=0.0):
    def f(x):
        jax.debug.print("here")
        rest = jnp.sum((jnp.sort(x) if turned else x) - jnp.mean(x)) + added
        direction = rest / (jnp.abs(rest) + 1e-5)
        return direction

    return f


def test_what_is_rounding_alone_does_not_alarm(capfd):
    x = jnp.asarray(np.random.default_rng(3).uniform(-1, 1, 1001), jnp.float32)
    found = first_difference(summed(False), summed(True))(x)
    assert not found
    assert any(note.startswith("By rounding alone 3 more differ, rest (") for note in found.notes)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("here") == 2  # not once more for arguments that moved
    for asked in ({"atol": 1e-9}, {"rtol": 1e-6}):
        found = first_difference(summed(False), summed(True), **asked)(x)
        assert [row.variable for row in found.rows] == ["rest", "direction", "out"]
    found = first_difference(summed(False), summed(False, added=1e-3))(x)
    assert found.first.variable == "rest"
    inputs = first_difference(summed(False))(x, x * (1 + 4e-7))
    assert [row.variable for row in inputs.rows] == ["rest", "direction", "out"]


def test_what_cannot_be_run_again_is_compared_as_it_is():
    kept = []

    def f(turned):
        def of(x):
            x += jax.experimental.io_callback(lambda y: kept.append(y) or 0 * y, x[0], x[0])
            rest = jnp.sum((jnp.sort(x) if turned else x) - jnp.mean(x))
            return rest

        return of

    x = jnp.asarray(np.random.default_rng(3).uniform(-1, 1, 1001), jnp.float32)
    assert first_difference(f(False), f(True))(x).first.variable == "rest"
    jax.effects_barrier()
    assert len(kept) == 2


def test_op_by_op_goes_through_prints(capfd):
    def f(x):
        jax.lax.cond(x.sum() > 0, lambda: jax.debug.print("{}", x), lambda: None)
        y = x * 2
        return y

    assert not first_difference(f, "op by op")(X)


def test_answers_are_shown():
    found = first_difference(model, refactored)(X)
    assert found.chart().text()
    assert "state#1" in str(found)
    assert "<svg" in found._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: first_difference(model, "three")(X), "'three' is no way to run something"),
        (lambda: first_difference(model, "int32")(X), "'int32' is no way to run something"),
        (lambda: first_difference(3, model)(X), "not a function"),
        (lambda: first_difference(model)(X), "two inputs, and was given 1"),
        (lambda: first_difference(model, model, atol=-1.0), r"atol=-1\.0 is no tolerance"),
        (lambda: first_difference(model, model, rtol=float("nan")), "rtol=nan is no tolerance"),
        (lambda: first_difference(lambda p, x: p * x)(X, X), "a tuple of all arguments"),
        (
            lambda: first_difference(cancelling, "bfloat16")(1.0),
            "no argument is an array of floats",
        ),
        (lambda: first_difference(model, "float32")(X), "all arrays of floats are float32"),
        (
            lambda: first_difference(taxpr.trace(model)(X), "bfloat16")(X),
            "give the function that it was traced of",
        ),
        (
            lambda: first_difference(lambda a: [b := a + 1, b][1], lambda c: [d := c + 1, d][1])(X),
            "no variable in common",
        ),
    ],
)
def test_mistakes_are_said_by_name(ask, words):
    with pytest.raises(taxpr.ArgumentError, match=words):
        ask()


def test_a_wrong_line_behind_a_chaotic_loop_is_more_than_rounding():
    def logistic(factor, signs):
        def run(x0):
            def step(x, _):
                x = 3.9 * x * (1 - x)
                return x, x

            last, traj = jax.lax.scan(step, x0, None, length=200)
            result = factor * last
            side = jnp.where(traj[-1] > 0.5, signs[0], signs[1])
            return result, side

        return run

    one = logistic(2.0, (1.0, -1.0))
    found = taxpr.first_difference(one, logistic(3.0, (1.0, -1.0)))(0.3)
    assert found.rows[0].variable == "result"
    found = taxpr.first_difference(one, logistic(2.0, (-1.0, 1.0)))(0.3)
    assert found.rows[0].variable == "side"
    assert not taxpr.first_difference(one, logistic(2.0, (1.0, -1.0)))(0.3)


def test_values_that_another_precision_did_not_reach_are_told():
    weight = jnp.eye(3, dtype=jnp.float32)

    def closing(x, b):
        a = x + b
        h = a.astype(weight.dtype) @ weight
        y = jnp.tanh(h)
        return y.sum()

    def casting(x, b):
        a = x + b
        return a.astype(jnp.float32).sum().astype(x.dtype)

    x, b = jnp.ones((2, 3)), jnp.ones((2, 3))
    said = "2 of 5 float values were float32 and not bfloat16: h (test_first_difference.py:"
    for limits in ({}, {"rtol": 0.5}):
        [note] = [
            note
            for note in first_difference(closing, "bfloat16", **limits)(x, b).notes
            if said in note
        ]
        assert ") first." in note
    for f, other in ((casting, "bfloat16"), (closing, None), (closing, closing)):
        given = (x, b) if other else ((x, b), (x, b))
        assert "float values were" not in str(first_difference(f, other)(*given).notes)


def test_a_nan_on_both_sides_is_told_and_is_no_difference():
    def doubled(x):
        low = jnp.log(x)
        high = low * 2
        return high.sum()

    def tripled(x):
        low = jnp.log(x)
        high = low * 3
        return high.sum()

    def looped(xs):
        def step(c, x):
            root = jnp.sqrt(x)
            return c + root, root

        return jax.lax.scan(step, jnp.float32(0), xs)

    x = jnp.asarray([-1.0, -2.0])
    found = first_difference(doubled, tripled)(x)
    assert not found
    assert "NaN in both counts as equal: low (test_first_difference.py:" in str(found.notes)
    assert "3 in all" in str(found.notes)
    assert "NaN in both" not in str(first_difference(doubled, tripled)(-x).notes)
    assert "NaN in both" not in str(first_difference(doubled)(x, -x).notes)
    some = first_difference(looped)(jnp.asarray([1.0, -1.0, 2.0]), jnp.asarray([1.0, -1.0, 3.0]))
    assert (some.first.variable, some.rows[1].variable) == ("xs", "x")
    assert "NaN in both counts as equal: root (test_first_difference.py:" in str(some.notes)
    direct = first_difference(lambda x: jnp.log(x), lambda x: jnp.log(x) * 2)(x)
    assert "NaN in both counts as equal: out." in str(direct.notes)


# ---- what is compared with its own edit, or injected program ----------------------------


def smooth(x):
    h = jnp.sin(x)
    y = h * 2
    return y.sum()


def running_sum(xs):
    def body(c, x):
        h = jnp.sin(c * x)
        c = c + h
        return c, h

    c, hs = jax.lax.scan(body, 0.3, xs)
    return c + hs.sum()


class Smooth:
    def __call__(self, x):
        h = jnp.sin(x)
        return h.sum()


XS = jnp.arange(1.0, 4.0)


@pytest.mark.parametrize("fun", [smooth, running_sum])
def test_the_variable_that_was_injected_differs_first(fun):
    program = taxpr.trace(fun, names=True)(XS)
    half = program.inject(taxpr.scale(0.5), where=taxpr.var("h"))
    found = taxpr.first_difference(program, half)(XS)
    assert found.first.variable == "h"
    assert found.first.b == pytest.approx(found.first.a * 0.5, rel=1e-6)
    by_hand = taxpr.first_difference(fun, taxpr.edit(fun, "h", taxpr.scale(0.5)))(XS)
    named = [row.variable for row in by_hand.rows if row.variable != "out"]
    assert [row.variable for row in found.rows if row.variable != "out"] == named
    assert [row.line for row in found.rows][: len(named)] == [
        row.line for row in by_hand.rows[: len(named)]
    ]
    assert "and " + fun.__name__ + " injected: " in str(found)
    recorded = program.inject({taxpr.var("h"): taxpr.count()})
    assert not taxpr.first_difference(fun, recorded)(XS)


def test_the_title_names_what_is_edited():
    edited = taxpr.edit(taxpr.edit(smooth, "h", "h * 1.0"), "smooth.y", "y * 1.0")
    found = taxpr.first_difference(smooth, edited)(XS)
    assert str(found).startswith("first difference of smooth and smooth with smooth.y, h edited: ")


def test_an_edit_of_one_objects_method_is_no_other_version_of_its_class():
    def loss(model, x):
        return model(x)

    same = taxpr.edit(loss, "h", "h * 1.0")
    found = taxpr.first_difference(loss, same)(Smooth(), XS)
    assert not found
    assert not any("methods of one object" in note for note in found.notes)
