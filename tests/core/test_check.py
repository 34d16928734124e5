"""`check`: each rule on a program that triggers it and on one that does not; no false alarm."""

import functools
import inspect
import io
import json
import pathlib

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sound_programs

import taxpr
from taxpr._check.rules import RULES

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIG = jnp.ones((512, 600))
X = jax.ShapeDtypeStruct((3,), jnp.float32)
HALF = jax.ShapeDtypeStruct((3, 3), jnp.bfloat16)
SQUARE = jax.ShapeDtypeStruct((3, 3), jnp.float32)


@pytest.fixture(autouse=True)
def promoting():
    """As people run JAX, and not as tests do."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


# Rule, what makes the function, arguments, the variable that is named. In the first function of
# each pair one line is marked, and found; the second says the same and is sound.
PAIRS = []


def pair(rule, variable, *args):
    def add(make):
        PAIRS.append(pytest.param(rule, variable, *make(), args, id=make.__name__))
        return make

    return add


@pair("promotion", "bad.h", HALF)
def a_number_of_numpy():
    def bad(x):
        h = x @ x
        return h * np.sqrt(2.0)  # found

    def good(x):
        h = x @ x
        return h * 1.5 + jnp.mean(h)

    return bad, good


@pair("promotion", "bad.x", HALF, SQUARE)
def a_weight_that_was_not_cast():
    def bad(x, w):
        return x @ w  # found

    def good(x, w):
        mean = x.astype(jnp.float32) @ w
        return x @ w.astype(x.dtype), mean, jnp.sum(x, dtype=jnp.float32)

    return bad, good


@pair("promotion", "bad.x", HALF, SQUARE)
def in_where():
    def bad(x, w):
        return jnp.where(w > 0, x, w)  # found

    def good(x, w):
        return jnp.where(w > 0, x, 0.0)

    return bad, good


@pair("promotion", "bad.h", HALF, SQUARE)
def a_cast_that_comes_too_late():
    def bad(x, w):
        h = x + x
        y = h * w  # found
        y = y + 1
        return y.astype(x.dtype)

    def good(x, w):
        y = x * w
        y = y.astype(x.dtype)
        return y + (jnp.tanh(x * w) + w).astype(jnp.bfloat16) + (x @ w).astype(x.dtype)

    return bad, good


@pair("weak-type", "state['mean']", {"mean": 0.0, "n": 0}, X)
def a_state_of_numbers():
    def bad(state, x):  # found
        return jnp.max(x), {"mean": state["mean"] * 0.9 + jnp.sum(x), "n": state["n"] + 1}

    def good(state, x):
        return {"mean": state["mean"] * 0.9, "n": state["n"] + 1}, jnp.sum(x)

    return bad, good


@pair("weak-type", "x", jnp.full(3, 0.5), jnp.float32(2))
def an_array_without_a_dtype():
    def bad(x, s):  # found
        return x * s

    def good(x, s):
        return x * 2 + 1, jnp.sum(x) * s

    return bad, good


@pair("weak-type", "state['total']", {"total": 0.0}, X)
def a_state_that_is_changed_in_place():
    def bad(state, x):  # found
        state["total"] = state["total"] + jnp.sum(x)

    def good(state, x):
        state["total"] = state["total"] * 2
        return x

    return bad, good


@pair("weak-type", "total", X, 0.0)
def a_state_that_begins_as_a_number():
    def bad(x, total):  # found
        total = total + jnp.sum(x)
        return total

    def good(x, scale):
        loss = scale * jnp.sum(x)
        return loss

    return bad, good


@pair("weak-type", "eps", X)
def a_function_that_is_traced_twice():
    @jax.jit
    def norm(x, eps):
        return x / (eps + jnp.max(x))

    def bad(x):
        one = norm(x, 1e-6)
        return one + norm(x, jnp.float32(1e-3))  # found

    def good(x):
        return norm(x, 1e-6) + norm(x, 1e-3)

    return bad, good


@pair("large-constant", "BIG", X)
def a_large_constant():
    def bad(x):
        y = x[0] * BIG  # found
        return y

    small = jnp.ones(3)

    def good(x):
        return x * small, x[0] * jnp.ones((512, 600))

    return bad, good


@pair("unused", "y", X, X)
def an_unused_argument():
    def bad(x, y):  # found
        return x * 2

    def good(x, _y):
        return x * 2

    return bad, good


@pair("unused", "weights['b']", {"w": X, "b": X}, X)
def an_unused_parameter():
    def bad(weights, x):  # found
        return weights["w"] * x

    def good(weights, x):
        return weights["w"] * x + weights["b"]

    return bad, good


@pair("unused", "norm", X)
def an_unused_result():
    def bad(x):
        square = x * x
        norm = jnp.sqrt(square)  # found # noqa: F841
        return x

    def good(x):
        _norm = jnp.sqrt(x * x)
        _, part = jnp.split(x, [1])
        return part

    return bad, good


@pair("unused", "x.at[0].set(1.0)", X)
def an_update_that_is_lost():
    def bad(x):
        x.at[0].set(1.0)  # found
        return x

    def good(x):
        x = x.at[0].set(1.0)
        return x

    return bad, good


@pair("twice", "", SQUARE, X)
def a_loss_beside_its_gradient():
    def loss(w, x):
        return jnp.sum((w @ x) ** 2)

    def bad(w, x):
        value = loss(w, x)  # found
        return value, jax.grad(loss)(w, x)

    def good(w, x):
        return jax.value_and_grad(loss)(w, x)

    return bad, good


@pair("twice", "", jax.random.key(0))
def a_key_that_is_used_twice():
    def bad(key):
        return jax.random.normal(key, (3,)) + jax.random.normal(key, (3,))  # found

    def good(key):
        one, two = jax.random.split(key)
        return jax.random.normal(one, (3,)) + jax.random.normal(two, (3,))

    return bad, good


@pair("twice", "", X)
def a_loop_that_runs_twice():
    def cumulated(x):
        return jax.lax.scan(lambda c, x: (c + x, c), 0.0, x)[1]

    def bad(x):
        return cumulated(x) * jax.jit(cumulated)(x)  # found

    def good(x):
        return cumulated(x) * cumulated(x + 1) * jnp.sin(x) * jnp.sin(x)

    return bad, good


@pair("donation", "x", SQUARE)
def a_donation_for_nothing():
    def bad(x):
        return jax.jit(lambda x: jnp.sum(x), donate_argnums=0)(x)  # found

    def good(x):
        return jax.jit(lambda x: x + 1, donate_argnums=0)(x)

    return bad, good


@pair("callback-in-loop", "", X)
def a_print_in_a_loop():
    def bad(x):
        def step(c, x):
            jax.debug.print("{}", c)  # found
            return c + x, None

        return jax.lax.scan(step, 0.0, x)[0]

    def good(x):
        def step(c, x):
            jax.lax.cond(c > 3, lambda: jax.debug.print("{}", c), lambda: None)
            return c + x, None

        jax.debug.print("{}", x)
        return jax.lax.scan(step, 0.0, x)[0]

    return bad, good


@pair("where-gradient", "bad.x", X)
def a_root_that_is_hidden():
    def bad(x):
        return jnp.where(x > 0, jnp.sqrt(x), 0.0)  # found

    def good(x):
        safe = jnp.where(x > 0, x, 1.0)
        return jnp.where(x > 0, jnp.sqrt(safe), 0.0) + jnp.where(x > 2, jnp.exp(x), x)

    return bad, good


@pair("where-gradient", "bad.norm", X)
def a_quotient_that_is_hidden():
    def bad(x):
        norm = jnp.sqrt(jnp.sum(x**2))
        return jnp.where(norm == 0, 0.0, x / norm)  # found

    def good(x):
        norm = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        cold = x / 0.8
        cold = jnp.where(cold < 1, -jnp.inf, cold)
        return jnp.where(norm > 1, x / norm, x) + jnp.where(x > 0, x**1.5, 0.0) + cold

    return bad, good


@pair("where-gradient", "bad.y", X)
def a_result_that_is_not_finite():
    def bad(x):
        y = jnp.log(x)
        return jnp.where(jnp.isfinite(y), y, 0.0)  # found

    def good(x):
        y = jax.lax.stop_gradient(jnp.log(x))
        return jnp.where(jnp.isfinite(y), y, x)

    return bad, good


@pair("where-gradient", "bad.x", X)
def a_root_of_a_multiple():
    def bad(x):
        return jnp.where(x > 0, jnp.sqrt(x * 2.0), 0.0)  # found

    def good(x):
        far = jnp.where(x > 1, jnp.sqrt(x + 3), x)
        return far + jnp.where(x > 0, jnp.sqrt(jnp.maximum(x, 1e-6) * 2.0), 0.0)

    return bad, good


@pair("where-gradient", "bad.x", X)
def a_domain_that_ends_where_the_condition_does():
    def bad(x):
        return jnp.where(jnp.abs(x) < 1, jnp.sqrt(1 - x**2), 0.0)  # found

    def good(x):
        return jnp.where(jnp.abs(x) < 1, jnp.sqrt(2 - x**2), 0.0)

    return bad, good


@pair("where-gradient", "<lambda>.x", X)
def a_root_in_a_lambda():
    bad = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)  # found
    good = lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)
    return bad, good


@pair("sqrt-gradient", "bad.norm", X)
def a_norm_in_a_loss():
    def bad(x):
        norm = jnp.linalg.norm(x)  # found
        return jnp.max(x / (norm + 1e-6))

    def good(x):
        unit = x / jnp.linalg.norm(x) + x / (jnp.linalg.norm(x) * jnp.linalg.norm(x - 1))
        near = jnp.sqrt(jnp.sum(x**2) + 1e-12) + jnp.sqrt(jnp.maximum(jnp.mean(x**2), 1e-6))
        there = jax.lax.stop_gradient(jnp.linalg.norm(x)) + jnp.linalg.norm(jnp.ones(3))
        normal = (x - jnp.mean(x)) / jnp.sqrt(jnp.var(x) + 1e-5)
        return jnp.sum(unit + normal) + near + there

    return bad, good


@pair("sqrt-gradient", "", X)
def a_root_under_a_gradient():
    def bad(x):
        def loss(x):
            return jnp.sqrt(sum([jnp.mean((x - 1) ** 2), x @ x]))  # found

        return x - jax.grad(loss)(x)

    def good(x):
        grads = jax.grad(lambda x: jnp.sum(x**3))(x)
        return grads, jnp.sqrt(jnp.sum(grads**2)), jnp.sum((x - 1) ** 2) ** 0.5

    return bad, good


@pair("sqrt-gradient", "", X)
def a_power_in_a_loop_under_a_gradient():
    def bad(x):
        def distance(c, x):
            return c + jnp.sum((c - x) ** 2) ** 0.5, None  # found

        return jax.grad(lambda c: jax.lax.scan(distance, c, x)[0])(x[0])

    def good(x):
        def distance(c, x):
            return c + jnp.sum((c - x) ** 2) ** 0.5, None

        return jax.lax.scan(distance, x[0], x)

    return bad, good


@pair("unrolled", "", SQUARE)
def a_loop_of_python():
    def bad(x):
        for _ in range(10):  # the loop
            x = jnp.tanh(x @ x) - x  # found
            x = x / jnp.max(jnp.abs(x)) + 1
        return x

    def good(x):
        for k in range(10):
            x = x[:, : 3 - k // 4] @ x[: 3 - k // 4] if k % 2 else jnp.sin(x @ x)
        return jax.lax.fori_loop(0, 10, lambda k, x: jnp.tanh(x @ x) - x, x)

    return bad, good


def test_the_cure_is_of_the_function_that_was_found_and_helps():
    def root(x):
        return jnp.where(x > 0, jnp.sqrt(x), 0.0)

    def log(x):
        return jnp.where(x > 0, jnp.log(x), 0.0)

    def quotient(x):
        return jnp.where(x != 0, 1 / x, 0.0)

    fixes = [taxpr.check(fn)(X).rows[0].fix for fn in (root, log, quotient)]
    assert fixes == [
        "Choose the operand, too: jnp.sqrt(jnp.where(x > 0, x, 1.0)) instead of jnp.sqrt(x).",
        "Choose the operand, too: jnp.log(jnp.where(x > 0, x, 1.0)) instead of jnp.log(x).",
        "Choose the operand, too: y / jnp.where(x != 0, x, 1.0) instead of y / x.",
    ]

    def count(total, x):
        total = total + jnp.sum(x)
        return total

    assert "jnp.float32(0.0)" in taxpr.check(count)(0.0, X).rows[0].fix
    assert not taxpr.check(count)(jnp.float32(0.0), X)


def marked_line(fn):
    """The line with the mark, in the function or what is beside it."""
    lines, first = inspect.getsourcelines(fn)
    return next((first + k for k, line in enumerate(lines) if "# found" in line), None)


@pytest.mark.parametrize(("rule", "variable", "bad", "good", "args"), PAIRS)
def test_each_rule_finds_what_is_wrong_and_that_alone(rule, variable, bad, good, args):
    found = taxpr.check(bad)(*args)
    [row] = [row for row in found.rows if row.rule == rule]
    assert row.variable == variable
    if line := marked_line(bad):
        assert row.line == f"test_check.py:{line}"
    assert row.file == __file__
    assert row.fix
    assert not taxpr.check(good)(*args), taxpr.check(good)(*args)
    assert not [one for one in taxpr.check(bad, ignore=rule)(*args).rows if one.rule == rule]


def test_each_rule_has_a_pair_and_a_row_of_the_page():
    assert {param.values[0] for param in PAIRS} == set(RULES)
    page = (ROOT / "docs" / "how-to" / "check.md").read_text(encoding="utf-8")
    rows = [f"| `{rule.name}` | {rule.finds} | {rule.fix} |" for rule in RULES.values()]
    assert "\n".join(rows) in page


@pytest.mark.parametrize("name", sound_programs.PROGRAMS)
def test_sound_programs_raise_no_alarm(name):
    fn, args = sound_programs.PROGRAMS[name]
    assert not taxpr.check(fn)(*args), taxpr.check(fn)(*args)


@pytest.mark.spread(6)
@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_the_programs_of_all_tests_raise_no_alarm(case):
    assert not taxpr.check(case.fn)(*case.args), taxpr.check(case.fn)(*case.args)


@pytest.mark.parametrize(
    ("times", "of_each", "found"), [(8, 8, True), (7, 16, False), (8, 7, False), (64, 1, True)]
)
def test_loops_of_python_are_found_from_8_iterations_and_64_equations_on(times, of_each, found):
    def f(x):
        for _ in range(times):
            x = apply(x)
        return x

    def apply(x):
        for fn in (jnp.sin, jnp.cos, jnp.tanh, jnp.exp, *[jnp.sin, jnp.log1p] * 6)[:of_each]:
            x = fn(x)
        return x

    rows = taxpr.check(f)(X).rows
    assert [row.rule for row in rows] == ["unrolled"] * found


def test_comments_switch_rules_off():
    def one(x):
        return x * np.sqrt(2.0)  # taxpr: ignore[promotion]

    def every(x):
        return (
            x  # taxpr: ignore
            * np.sqrt(2.0)
        )

    def another(x):
        return x * np.sqrt(2.0)  # taxpr: ignore[twice, unused]

    def of_the_head(x, y):  # taxpr: ignore[unused]
        return x

    for fn in (one, every):
        found = taxpr.check(fn)(HALF)
        assert not found
        assert "1 more switched off by comments." in str(found)
    assert taxpr.check(another)(HALF)
    assert not taxpr.check(of_the_head)(X, X)


def test_findings_are_told_in_every_form():
    def bad(x, y):
        return x * np.sqrt(2.0)

    found = taxpr.check(bad)(HALF, X)
    text = str(found).splitlines()
    assert text[0] == "check of bad: 2 findings"
    assert text[1].startswith("test_check.py:")
    assert "promotion: bad.x (bf16[3,3]) becomes float32, as the number 1.414" in text[1]
    assert [row["rule"] for row in json.loads(found.to_json())["rows"]] == ["promotion", "unused"]
    assert "promotion" in found._repr_mimebundle_()["text/html"]
    assert io.StringIO(found.to_csv()).readline().startswith("rule,line,variable,what,fix")


def layer(p, x):
    h = x @ p["w"] + p["b"]  # a product and a sum, which are two findings
    spare = jnp.sum(h * h)  # noqa: F841
    h = jnp.where(h > 0, jnp.log(h), 0.0)
    return x + h @ p["v"]


def layers(params, x):
    for p in params:
        x = layer(p, x)
    return jnp.mean(x**2)


@pytest.mark.parametrize("times", [1, 12])
def test_what_repeats_in_each_layer_is_one_finding(times):
    half, one = jnp.bfloat16, {"v": SQUARE}
    one |= {"w": HALF, "b": jax.ShapeDtypeStruct((3,), half), "spare": X}
    found = taxpr.check(layers, ignore=["unrolled"])([one] * times, SQUARE)
    told = [row.variables[::11] for row in found.rows]
    rules = ["promotion", "promotion", "unused", "unused", "where-gradient"]
    assert [row.rule for row in found.rows] == rules
    assert {row.times for row in found.rows} == {times}
    assert {len(set(row.addresses)) for row in found.rows} == {times}
    assert all(row.address == row.addresses[0] for row in found.rows)
    ends = range(times)[::11]
    assert told == [
        *(tuple(f"layers.params[{k}]['{key}']" for k in ends) for key in ("w", "b")),
        tuple(f"params[{k}]['spare']" for k in ends),
        ("spare",),
        ("layer.h",),
    ]
    first = inspect.getsourcelines(layer)[1]
    lines = {row.line for row in found.rows if row.rule != "unused" or row.variable == "spare"}
    assert lines == {f"test_check.py:{first + k}" for k in (1, 2, 3)}
    assert all(f"×{times}: " in line for line in str(found).splitlines()[1:]) == (times > 1)
    in_all = f" in {5 * times} places" if times > 1 else ""
    assert found.headline == f"check of layers: 5 findings{in_all}"
    columns, *cells = found.texts()
    assert ("times" in columns) == (times > 1)
    assert times == 1 or {row[1] for row in cells} == {f"×{times}"}
    plain = json.loads(found.to_json())["rows"]
    assert [(row["times"], len(row["addresses"])) for row in plain] == [(times, times)] * 5


def test_the_leaves_of_a_tree_are_one_finding():
    def update(params, grads):
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = {f"w{k}": HALF for k in range(20)}
    grads = {f"w{k}": SQUARE for k in range(20)}
    [row] = taxpr.check(update)(params, grads).rows
    assert (row.rule, row.times) == ("promotion", 20)
    assert set(row.variables) == {f"update.params['w{k}']" for k in range(20)}


def test_programs_methods_and_jitted_functions_are_checked():
    def bad(x):
        return x * np.sqrt(2.0)

    assert [row.rule for row in taxpr.check(jax.jit(bad))(HALF).rows] == ["promotion"]
    assert taxpr.check(taxpr.trace(bad)(HALF))()
    assert taxpr.check(functools.partial(bad))(HALF)
    static = jax.jit(lambda x, n: x * n, static_argnums=1)
    assert not taxpr.check(static, static_argnums=1)(X, 3)


def test_gradients_are_checked_as_what_they_are_of():
    def bad(x):
        y = jnp.where(x > 0, jnp.sqrt(x), 0.0)
        for _ in range(10):
            y = jnp.sin(y) + jnp.cos(y) * 3 - jnp.tanh(y)
            y = y + jnp.exp(-y)
        return jnp.sum(y)

    found = taxpr.check(jax.value_and_grad(bad))(X)
    assert [row.rule for row in found.rows] == ["where-gradient", "unrolled"]
    for name in ("attention", "train", "resnet", "double_where", "huber", "contrastive"):
        fn, args = sound_programs.PROGRAMS[name]
        loss = lambda *args, fn=fn: sum(jnp.sum(x) for x in jax.tree.leaves(fn(*args)))
        step = jax.grad(loss, allow_int=True)
        real = [jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), one) for one in args]
        found = taxpr.check(step)(*real)
        # The step clips by the norm of a gradient, which has no gradient where it is 0.
        assert [row.rule for row in found.rows] == ["sqrt-gradient"] * (name == "train"), found
        if name == "train":
            w, x, y = real
            assert np.isnan(step(w, 0 * x, y)).any()
            assert not np.isnan(step(w, x, y)).any()


def test_long_programs_are_checked():
    def f(x):
        y, z = x, 1.0
        for _ in range(3000):
            y = y + y  # taxpr: ignore
            z = z * jnp.sum(y)
        return jnp.where(y > 0, jnp.sqrt(y / z), 0.0) + jnp.sqrt(jnp.sum(y * y))

    rows = taxpr.check(f)(X).rows
    assert "where-gradient" in {row.rule for row in rows}


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(taxpr.ArgumentError, match=r"no rule 'promotions'\. There are promotion, "):
        taxpr.check(jnp.sin, ignore=["promotions"])
    with pytest.raises(taxpr.ArgumentError, match="not a function"):
        taxpr.check(3)
