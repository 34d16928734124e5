"""`edit`: the meaning of an edit is the source edited by hand, bit by bit."""

import concurrent.futures
import functools
import json
import random
import sys
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from edited_programs import PROGRAMS, loaded
from threads import at_once

import taxpr
from taxpr._watching import frames


def scaled(x):
    return jax.tree.map(lambda one: one * 0.5, x)


def bent(x):
    return jax.tree.map(lambda one: jnp.where(one > 0.2, one * one, one), x)


def outcome(module, fun):
    """The result and, if it can be had, the gradient by the first argument."""
    out = [jax.jit(fun)(*module.args)]
    try:
        out += [jax.jit(jax.grad(fun))(*module.args)]
    except (ValueError, TypeError) as error:
        if "while_loop" not in str(error) and "differentiat" not in str(error):
            raise
    return jax.tree.map(np.asarray, out)


def same(a, b):
    assert len(a) == len(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("change", [scaled, pytest.param(bent, marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_an_edit_is_the_source_edited_by_hand(program, change, tmp_path):
    plain = loaded(program.source, tmp_path, f"plain_{program}")
    by_hand = loaded(program.by_hand, tmp_path, f"by_hand_{program}", change)
    before = outcome(plain, plain.f)
    edited = taxpr.edit(plain.f, program.text, change)
    wanted = str(jax.make_jaxpr(by_hand.f)(*by_hand.args))
    assert str(jax.make_jaxpr(edited)(*plain.args)) == wanted
    if "bwd" in program.name:
        assert float(edited(*plain.args)) == float(by_hand.f(*by_hand.args))
    same(outcome(plain, edited), outcome(by_hand, by_hand.f))
    same(outcome(plain, plain.f), before)  # nothing of it stays


X = jnp.arange(6.0).reshape(2, 3) / 7 + 0.1
WS = jnp.stack([jnp.eye(3) * k for k in (1.0, 2.0, 3.0)])


def layers(x):
    for w in WS:
        h = jnp.tanh(x @ w)
        x = x + h
    return x.sum()


def layers_with(x, which, change):
    for k, w in enumerate(WS):
        h = jnp.tanh(x @ w)
        x = x + (change(h) if k in which else h)
    return x.sum()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_occurrence(which):
    edited = taxpr.edit(layers, taxpr.var("h", occurrence=which), taxpr.scale(0.5))
    by_hand = layers_with(X, [which], lambda h: h * 0.5)
    assert float(edited(X)) == float(by_hand)
    assert float(jax.jit(edited)(X)) == float(
        jax.jit(lambda x: layers_with(x, [which], lambda h: h * 0.5))(X)
    )


@jax.jit
def shared(x):
    h = jnp.sin(x)
    return h * 2


def twice(x):
    return (shared(x) + shared(x * 2)).sum()


def test_an_occurrence_that_jax_traced_once_with_another_is_refused():
    edited = taxpr.edit(twice, taxpr.var("h", occurrence=0), taxpr.zero())
    with pytest.raises(taxpr.RefusedError, match=r"is shared.h 1, too: JAX has traced"):
        edited(X)
    assert float(taxpr.edit(twice, "h", taxpr.zero())(X)) == 0.0


def test_an_occurrence_in_a_body_that_is_traced_twice_to_find_its_types():
    def f(x):
        def body(c, w):
            d = c + (x @ w).sum()
            return d, d

        return jax.lax.scan(body, 0, WS)[0]

    edited = taxpr.edit(f, taxpr.var("d", occurrence=0), lambda d: d * 0.5)
    c = 0.0
    for w in WS:
        c = (c + (X @ w).sum()) * 0.5
    np.testing.assert_allclose(edited(X), c, rtol=1e-6)


def block(w, x):
    return x + jnp.tanh(x @ w)


def model(ws, x):
    for w in ws:
        x = block(w, x)
    return (x**2).sum()


def test_functions_of_modules():
    plain = str(jax.make_jaxpr(jax.grad(model))(WS, X))
    for where in (block, taxpr.var("block"), taxpr.var("test_edit.block")):
        text = str(jax.make_jaxpr(jax.grad(taxpr.edit(model, where, jax.checkpoint)))(WS, X))
        assert "remat2" in text or "checkpoint" in text
        same_value = taxpr.edit(model, where, jax.checkpoint)(WS, X)
        assert float(same_value) == float(model(WS, X))
    assert str(jax.make_jaxpr(jax.grad(model))(WS, X)) == plain
    other = taxpr.edit(model, "jax.numpy.tanh", lambda x: x)
    by_hand = model.__globals__["jnp"].tanh
    assert by_hand is jnp.tanh
    x = X
    for w in WS:
        x = x + x @ w
    assert float(other(WS, X)) == float((x**2).sum())


def test_a_local_function():
    def outer(x):
        def inner(x):
            return jnp.sin(x) * 2

        return inner(x).sum()

    edited = taxpr.edit(outer, "inner", lambda f: lambda x: f(x) * 0.5)
    assert float(edited(X)) == float((jnp.sin(X) * 2 * 0.5).sum())


def test_a_generator_of_another_module_is_not_meant(monkeypatch):
    def outer(x):
        def lonely(x):
            return jnp.sin(x) * 2

        return lonely(x).sum()

    def lonely(x):
        yield x

    elsewhere = types.ModuleType("elsewhere")
    elsewhere.__file__, elsewhere.lonely = __file__, lonely
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    edited = taxpr.edit(outer, "lonely", lambda f: lambda x: f(x) * 0.5)
    assert float(edited(X)) == float((jnp.sin(X) * 2 * 0.5).sum())
    with pytest.raises(taxpr.errors.ArgumentError, match="lonely is a generator"):
        taxpr.edit(outer, "elsewhere.lonely", lambda f: f)(X)


def test_only_this_thread_sees_another_function():
    at_work, done = threading.Event(), threading.Event()

    def waiting(x):
        at_work.set()
        assert done.wait(60)
        return x * 0

    edited = taxpr.edit(model, block, lambda b: lambda w, x: waiting(x))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        one = pool.submit(edited, WS, X)
        assert at_work.wait(60)
        here = float(model(WS, X))
        done.set()
        assert float(one.result()) == 0.0
    assert here == float(model(WS, X)) != 0.0
    assert block.__code__.co_name == "block"
    assert "__signature__" not in vars(block)


def test_each_call_is_as_if_it_were_alone():
    """Plain and edited calls in random orders, in two threads."""

    def train(w, x):
        value, grad = jax.value_and_grad(lambda w: (shared(x @ w) ** 2).sum())(w)
        return value, jax.checkpoint(lambda g: w - 0.1 * g)(grad)

    edits = {
        "plain": train,
        "half": taxpr.edit(train, "shared.h", taxpr.scale(0.5)),
        "bent": taxpr.edit(train, {"shared.h": "jnp.where(h > 0.2, h * x, h)"}),
        "both": taxpr.edit(taxpr.edit(train, "shared.h", "h + 1"), "value", "value * 2"),
        "function": taxpr.edit(train, shared, lambda f: lambda x: x),
        "error": taxpr.edit(train, "shared.h", lambda h: h @ h),
    }

    def call(name, jits):
        try:
            out = (jax.jit(edits[name]) if jits else edits[name])(WS[0], X)
        except TypeError:
            return None if name == "error" else "failed"
        return tuple(np.asarray(one).tobytes() for one in out)

    alone = {}
    for name in edits:
        for jits in (False, True):
            jax.clear_caches()
            alone[name, jits] = call(name, jits)
    assert len({alone[name, True] for name in edits}) == len(edits)
    rng = random.Random(0)
    orders = [[rng.choice(list(alone)) for _ in range(100)] for _ in range(2)]

    def run(order):
        return [call(*one) == alone[one] for one in order]

    assert all(map(all, at_once(*(lambda order=order: run(order) for order in orders))))
    assert not frames.changers()


def test_the_edit_of_an_edit():
    inner = taxpr.edit(layers, "h", "h + 1")
    outer = taxpr.edit(inner, "h", "h * 2")  # the inner one comes first
    assert float(outer(X)) == float(layers_with(X, range(3), lambda h: (h + 1) * 2))


def test_the_users_containers_stay():
    def f(params):
        return params["w"].sum()

    params = {"w": X}
    assert float(taxpr.edit(f, "params['w']", taxpr.zero())(params)) == 0.0
    assert params["w"] is X


def test_noise_is_another_each_time():
    zeros = jnp.zeros((2, 3))

    def f(x):
        h = x + zeros
        first = h
        h = x * 1.0
        return first, h

    one, other = taxpr.edit(f, "h", taxpr.noise(key=0, stddev=1.0))(zeros)
    assert not np.array_equal(one, other)
    again = jax.jit(taxpr.edit(f, "h", taxpr.noise(key=0, stddev=1.0)))(zeros)
    np.testing.assert_allclose(again[0], one, rtol=1e-5)


def test_a_traced_number_is_an_input():
    traces = []

    @jax.jit
    def run(factor, x):
        traces.append(1)
        return taxpr.edit(twice, "h", lambda h: h * factor)(x)

    for factor in (0.0, 0.5, 1.0):
        wanted = 2 * factor * (jnp.sin(X) + jnp.sin(2 * X)).sum()
        np.testing.assert_allclose(run(factor, X), wanted, rtol=1e-6)
    assert len(traces) == 1
    grad = jax.grad(run)(0.5, X)
    np.testing.assert_allclose(grad, 2 * (jnp.sin(X) + jnp.sin(2 * X)).sum(), rtol=1e-6)


def test_python_numbers_and_flags():
    def f(x, deep=False):
        n = 3
        return x * n if not deep else x

    assert float(taxpr.edit(f, "n", "n + 1")(2.0)) == 8.0
    assert float(taxpr.edit(f, "n", 5)(2.0)) == 10.0
    assert float(taxpr.edit(f, "deep", lambda deep: True)(2.0)) == 2.0


def test_static_arguments_of_a_jitted_function():
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        h = x
        for _ in range(n):
            h = h * x
        return h

    edited = taxpr.edit(f, "h", taxpr.scale(0.5))
    assert float(edited(2.0, n=2)) == 1.0
    assert float(taxpr.watch(edited)(2.0, n=2)["h"][2]) == 1.0


def test_questions_go_around_an_edit():
    edited = taxpr.edit(layers, "h", "jnp.log(h - 1)")
    [row] = taxpr.find_nan(edited)(X).rows[:1]
    assert row.variable == "layers.h" or row.variable == "h"
    found = taxpr.first_difference(layers, taxpr.edit(layers, "h", taxpr.scale(0.5)))(X)
    assert found.first.variable.startswith("h")
    rec = taxpr.watch(taxpr.edit(layers, "h", taxpr.zero()))(X)
    assert not np.any(rec["h"][0])


def stores(x):
    d = {}
    d["h"] = x * 2
    return d["h"].sum()


def of_a_global(x):
    return (X * x).sum()


def captured(x):
    return sum([jnp.sin(x * number).sum() for number in range(3)])


def generates(x):
    yield x


def divided(x):
    y = x / 2
    return y


def namesakes(layers, block):
    """Never called: its variables have the names of functions."""
    return layers, block


MISTAKES = [
    (
        layers,
        {"where": "g"},
        taxpr.errors.SelectorError,
        r"var\('g'\): no line .*Nearest|There are",
    ),
    # Other functions of this process have variables `layers` and `block`.
    (layers, {"where": "layers.hh"}, taxpr.errors.SelectorError, r"Nearest: layers\.h"),
    (layers, {"where": taxpr.var("h", line=3)}, taxpr.errors.SelectorError, r"bound in line \d+\."),
    (layers, {"where": taxpr.var("h", occurrence=7)}, taxpr.errors.SelectorError, "other values"),
    (layers, {"where": "h['w']"}, taxpr.errors.SelectorError, r"h holds .*has no \['w'\]"),
    (layers, {"where": "h["}, taxpr.errors.SelectorError, "is no path"),
    (layers, {"where": taxpr.line(3)}, taxpr.errors.ArgumentError, "Give a variable"),
    (layers, {"where": {}}, taxpr.errors.ArgumentError, "mapping is empty"),
    (layers, {"where": "h", "change": None}, taxpr.errors.ArgumentError, "None changes nothing"),
    (
        layers,
        {"where": "h", "change": "h *"},
        taxpr.errors.ArgumentError,
        "no expression of Python",
    ),
    (
        layers,
        {"where": "layers.h", "change": "h *"},
        taxpr.errors.ArgumentError,
        r"layers\.h: 'h \*' is no expression of Python: invalid syntax at its end\.",
    ),
    (layers, {"where": block}, taxpr.errors.SelectorError, r"block \(.*:\d+\) was not called\."),
    (
        layers,
        {"where": "block.return"},
        taxpr.errors.SelectorError,
        r"block \(.*:\d+\) was not called\.",
    ),
    (layers, {"where": "block.x"}, taxpr.errors.SelectorError, r"block \(.*:\d+\) was not call"),
    (of_a_global, {"where": "X"}, taxpr.errors.SelectorError, "it is a global variable"),
    (
        stores,
        {"where": "d['h']"},
        taxpr.errors.SelectorError,
        r"has no \['h'\]\. A line that puts it there binds no variable",
    ),
    (
        taxpr.trace(layers)(X),
        {"where": "h"},
        taxpr.errors.SelectorError,
        "a Program, has no lines: edit the function",
    ),
    (layers, {"where": "h", "change": "h * sacle"}, taxpr.errors.ArgumentError, "no 'sacle' where"),
    (layers, {"where": "h", "change": taxpr.scale}, taxpr.errors.InjectorError, "no values yet"),
    (layers, {"where": "h", "change": taxpr.count()}, taxpr.errors.InjectorError, "has a state"),
    (
        layers,
        {"where": "h", "change": lambda a, b, c: a},
        taxpr.errors.ArgumentError,
        "the value al",
    ),
    (layers, {"where": "h", "change": lambda h: print(end="")}, taxpr.errors.ArgumentError, "None"),
    (layers, {"where": "h", "change": lambda h: h.foo}, AttributeError, r"raised by the change of"),
    (
        layers,
        {"where": "h", "change": lambda h: h[:1, :2]},
        TypeError,
        "Meanwhile var.* was changed",
    ),
    (captured, {"where": "number"}, taxpr.errors.SelectorError, "a comprehension binds it"),
    (generates, {"where": "generates.return"}, taxpr.errors.ArgumentError, "returns a generator"),
    (model, {"where": block, "change": lambda b: 3}, taxpr.errors.ArgumentError, "made 3 of the"),
]


@pytest.mark.parametrize(("fun", "given", "kind", "text"), MISTAKES)
def test_a_mistake_is_named(fun, given, kind, text):
    args = (WS, X) if fun is model else (X,)
    change = () if isinstance(given["where"], dict) else (given.get("change", taxpr.scale(0.5)),)
    with pytest.raises(kind, match=text):
        taxpr.edit(fun, given["where"], *change)(*args)
    assert not frames.changers()


def test_an_error_that_the_program_catches_is_raised_all_the_same():
    def f(x):
        try:
            y = jnp.sin(x)
            z = y * 2
        except ZeroDivisionError:
            z = x
        return z

    with pytest.raises(ZeroDivisionError, match=r"raised by the change of var\('y'\)"):
        taxpr.edit(f, "y", lambda y: 1 / 0)(X)


@pytest.mark.parametrize(
    ("where", "change", "text"),
    [
        (
            "divided.return",
            lambda y: 1 / 0,
            r"division by zero\nThis is raised by the change of var",
        ),
        ("local.return", lambda y: 1 / 0, r"division by zero\nThis is raised by the change of var"),
        ("divided.return", "result * zz", "there is no 'zz'"),
        ("divided.y", "z = 2", "does not bind y"),
        (divided, lambda _: 3, "made 3 of the function divided"),
    ],
)
def test_an_error_at_a_function_that_the_program_catches_is_raised_all_the_same(
    where, change, text
):
    def f(x):
        def local(x):
            return x * 2

        try:
            return divided(x) + local(x)
        except Exception:
            return x

    with pytest.raises(Exception, match=text):
        taxpr.edit(f, where, change)(X)
    same([f(X)], [X / 2 + X * 2])


def test_two_lines_in_the_place_of_one():
    lines = {"divided.y": "y = x / 3", taxpr.var("divided.y"): "y = x / 4"}
    with pytest.raises(taxpr.ArgumentError, match=r"'y = x / 3' and 'y = x / 4' take the place of"):
        taxpr.edit(divided, lines)(X)
    inner = taxpr.edit(divided, "divided.y", "y = x / 3")
    same([taxpr.edit(inner, "divided.y", "y = x / 4")(X)], [X / 4])


def test_a_variable_of_several_functions_is_said():
    def g(x):
        h = jnp.sin(x)
        return h

    def f(x):
        h = g(x)
        return h

    with pytest.raises(taxpr.errors.SelectorError, match=r"several functions: .*g\.h .*f\.h"):
        taxpr.edit(f, "h", taxpr.zero())(X)
    assert not np.any(taxpr.edit(f, "f.h", taxpr.zero())(X))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there is room for several from 3.12 on")
def test_another_tool_that_traces_is_said():
    def tracer(*_):
        return None

    sys.settrace(tracer)
    try:
        with pytest.raises(taxpr.RefusedError, match="Run without the debugger"):
            taxpr.edit(layers, "h", taxpr.zero())(X)
        assert sys.gettrace() is tracer
        plain = float(layers(X))
    finally:
        sys.settrace(None)
    assert plain == float(layers(X))
    assert float(taxpr.edit(layers, "h", taxpr.zero())(X)) == float(X.sum())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is room for one alone up to 3.11")
def test_tools_that_take_all_the_room_are_said():
    monitoring = sys.monitoring
    taken = [k for k in (3, 4, 5) if monitoring.get_tool(k) is None]
    for k in taken:
        monitoring.use_tool_id(k, "another")
    try:
        with pytest.raises(taxpr.RefusedError, match="Python has no room for another"):
            taxpr.edit(layers, "h", taxpr.zero())(X)
    finally:
        for k in taken:
            monitoring.free_tool_id(k)
    assert float(taxpr.edit(layers, "h", taxpr.zero())(X)) == float(X.sum())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is room for one alone up to 3.11")
def test_a_debugger_beside_an_edit_is_told_of_all_lines():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code is layers.__code__ and event == "line":
            lines.append(frame.f_lineno)
        return tracer

    edited, seen = taxpr.edit(layers, "h", taxpr.zero()), []
    sys.settrace(tracer)
    try:
        for fun in (layers, edited, layers):
            lines.clear()
            seen.append((float(fun(X)), list(lines)))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    assert len(seen[0][1]) > 9
    assert [at for _, at in seen] == [seen[0][1]] * 3
    assert [value for value, _ in seen] == [float(layers(X)), float(X.sum()), float(layers(X))]


def test_a_record_of_a_variable_with_several_values():
    def all_of(which):
        x, held = X, []
        for k, w in enumerate(WS):
            h = jnp.tanh(x @ w)
            held.append(h * 0.5 if k in which else h)
            x = x + held[-1]
        return jnp.stack(held)

    def number(address):
        return int(address.partition(":")[0])

    for which, where in ((range(3), "h"), ([1], taxpr.var("h", occurrence=1))):
        edited = taxpr.edit(layers, where, taxpr.scale(0.5))
        same([taxpr.watch(edited)(X)["h"].value], [all_of(which)])
        injected = taxpr.inject(edited, taxpr.record(slots=1), where=taxpr.var("h"))
        _, ctx = injected(injected.init(X), X)
        report = injected.report(ctx, X)  # which JAX sorts by the addresses as texts
        report = [report[at]["values"][-1] for at in sorted(report, key=number)]
        np.testing.assert_allclose(jnp.stack(report), all_of(which), rtol=1e-6)


def three(x):
    for k in (1.0, 2.0, 3.0):
        part = x * k
        yield part


def test_a_generator_that_began_before_or_goes_on_in_a_further_call():
    edited = taxpr.edit(next, "three.part", taxpr.scale(0.5))
    parts = three(X)
    same([next(parts), edited(parts), edited(parts)], [X, X * 2.0 * 0.5, X * 3.0 * 0.5])


def test_defaults_that_became_others_since_the_last_call():
    def of(x, factor=2.0, *, more=1.0):
        return x * factor + more

    edited = taxpr.edit(lambda x: of(x), of, lambda of: lambda x: of(x) * 0.5)
    same([edited(X)], [(X * 2.0 + 1.0) * 0.5])
    of.__defaults__, of.__kwdefaults__ = (3.0,), {"more": 4.0}
    same([edited(X)], [(X * 3.0 + 4.0) * 0.5])


def test_a_generator_of_the_same_name_in_another_module(tmp_path):
    loaded("def doubled(x):\n    yield x\n", tmp_path, "has_a_generator")

    def f(x):
        return doubled(x)

    same([taxpr.edit(f, "doubled.return", taxpr.scale(0.5))(X)], [X * 2 * 0.5])


def doubled(x):
    return x * 2


@pytest.mark.parametrize("change", ["y = x * k * 2", lambda inner: lambda x: inner(x) * 2])
def test_nothing_holds_a_function_that_was_edited(change):
    def of(k):
        def inner(x):
            y = x * k
            return y

        return inner

    @jax.jit
    def f(k, x):
        inner = of(k)
        where = "of.inner.y" if isinstance(change, str) else inner
        return taxpr.edit(inner, where, change)(x)

    with jax.checking_leaks():
        same([f(3.0, X)], [X * 3.0 * 2])


# ---- sweep and patch of what is differentiated ---------------------------------


def loss(w, x, change=lambda h: h):
    hidden = jnp.tanh(x @ w)
    h2 = change(hidden)
    return (h2**2).mean()


def step(w, x, change=lambda h: h):
    _, grad = jax.value_and_grad(loss)(w, x, change)
    new = w - grad
    return (new**2).sum()


W = jnp.eye(3) * 0.7


def test_a_sweep_over_a_train_step_shows_the_new_parameters():
    ask = taxpr.sweep(step, taxpr.var("hidden"), taxpr.scale, [0.0, 0.5, 1.0])
    found = ask(W, X)
    by_hand = [float(step(W, X, lambda h, f=f: h * f)) for f in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(found.values, by_hand, rtol=1e-6)
    assert any("the derivative is the changed function's" in note for note in found.notes)
    of_program = taxpr.sweep(
        taxpr.trace(step, names=True)(W, X), taxpr.var("hidden"), taxpr.scale, [0.0, 0.5]
    )
    with pytest.warns(taxpr.errors.StaleDerivativeWarning, match=r"taxpr\.edit\("):
        assert of_program(W, X).values[1] != by_hand[1]


def test_a_sweep_over_columns_of_what_is_differentiated():
    found = taxpr.sweep(step, taxpr.each(taxpr.var("hidden"), axis=1), taxpr.zero())(W, X)
    by_hand = [float(step(W, X, lambda h, k=k: h.at[:, k].set(0.0))) for k in range(3)]
    np.testing.assert_allclose(found.values, by_hand, rtol=1e-6)


def test_a_patch_of_what_is_differentiated():
    found = taxpr.patch(step, taxpr.var("hidden"), sources="clean")((W, X), (W, X * 2))
    by_hand = step(W, X * 2, lambda h: jnp.tanh(X @ W))
    assert found.rows[0]["metric"] == pytest.approx(float(by_hand), rel=1e-6)


def residual(x):
    for w in WS:
        h = jnp.tanh(x @ w)
        x = x + h
    return (x * 2).sum()


def residual_less(x):
    for w in WS:
        h = jnp.tanh(x @ w)
        x = x - h
    return (x * 2).sum()


def residual_unchanged(x):
    for w in WS:
        h = jnp.tanh(x @ w)
        x = x + h
        x = x - h
    return (x * 2).sum()


def first_line(fun):
    return fun.__code__.co_firstlineno


def test_a_line_takes_the_place_of_the_line_and_reads_the_old_value_of_its_variable():
    where = taxpr.var("residual.x", line=first_line(residual) + 3)
    edited = taxpr.edit(residual, where, "x = x - h")
    for one in (lambda fun: fun, jax.jit, jax.grad):
        same([one(edited)(X)], [one(residual_less)(X)])
    plus = taxpr.edit(residual, where, "x - h")
    same([plus(X)], [residual_unchanged(X)])


def test_a_line_whose_variable_an_inner_function_reads():
    def f(x):
        h = x * 2

        def inner(y):
            return y * h

        h = h + 1
        return inner(x).sum()

    def by_hand(x):
        h = x * 2

        def inner(y):
            return y * h

        h = h * 3
        return inner(x).sum()

    edited = taxpr.edit(f, taxpr.var("h", line=first_line(f) + 6), "h = h * 3")
    same([jax.grad(edited)(X)], [jax.grad(by_hand)(X)])


y = jnp.ones(3)  # is no value of the variable below


def first_bound(x):
    y = jnp.sin(x)
    return y.sum()


def test_a_line_that_reads_its_own_variable_before_it_is_bound():
    for line in ("y = y + 1", "y += 1"):
        with pytest.raises(taxpr.ArgumentError, match=r"reads y, .* expression alone: 'y \+ 1'"):
            taxpr.edit(first_bound, "first_bound.y", line)(X)
    with pytest.raises(taxpr.TaxprError, match="there is no 'z'"):
        taxpr.edit(late, "late.y", "y * z")(X)


z = jnp.ones(3)


def late(x):
    y = jnp.sin(x)
    z = y * 2
    return z.sum()


def count_of_side_effects(x):
    rows = [x]
    h = rows.pop() * 2
    return h.sum() + len(rows)


def test_a_line_takes_the_place_with_what_it_does_besides():
    edited = taxpr.edit(count_of_side_effects, "count_of_side_effects.h", "h = x * 3")
    same([edited(X)], [(X * 3).sum() + 1])


def attention(q):
    weights = jax.nn.softmax(q)
    return weights * q


def with_attention(q):
    h = attention(q)
    return (h**2).sum()


def with_less_attention(q):
    def attention(q):
        weights = jax.nn.softmax(q) * 0.5
        return weights * q

    h = 2 * attention(q)
    return (h**2).sum()


def test_a_line_and_a_variable_of_a_function_that_it_calls():
    lines = {"with_attention.h": "h = 2 * attention(q)", "attention.weights": taxpr.scale(0.5)}
    nested = taxpr.edit(with_attention, "with_attention.h", "h = 2 * attention(q)")
    for edited in (
        taxpr.edit(with_attention, lines),
        taxpr.edit(nested, "attention.weights", taxpr.scale(0.5)),
    ):
        wanted = str(jax.make_jaxpr(jax.grad(with_less_attention))(X))
        assert str(jax.make_jaxpr(jax.grad(edited))(X)) == wanted
    program = taxpr.trace(nested, names=True)(X)
    assert [one.short for one in program.variables() if one.name == "weights"] == [
        "attention.weights"
    ]


def test_two_lines_of_one_function_in_any_nesting():
    start = first_line(residual)
    h, x = (taxpr.var(f"residual.{name}", line=start + k) for name, k in (("h", 2), ("x", 3)))
    both = taxpr.edit(residual, {h: "h = jnp.sin(x @ w)", x: "x -= h"})
    other = taxpr.edit(taxpr.edit(residual, x, "x -= h"), h, "h = jnp.sin(x @ w)")

    def by_hand(x):
        for w in WS:
            h = jnp.sin(x @ w)
            x -= h
        return (x * 2).sum()

    for edited in (both, other):
        same([jax.jit(jax.grad(edited))(X)], [jax.jit(jax.grad(by_hand))(X)])
    same([residual(X)], [by_hand_plain(X)])


def by_hand_plain(x):
    for w in WS:
        x = x + jnp.tanh(x @ w)
    return (x * 2).sum()


def made(factor):
    bias = jnp.ones((2, 3))

    def inner(x):
        h = x * factor
        return h.sum()

    return inner, bias


def test_a_line_of_a_closure_that_was_made_before():
    inner, _ = made(2.0)
    same([taxpr.edit(inner, "made.inner.h", "h = x * factor * 2")(X)], [(X * 4.0).sum()])
    with pytest.raises(taxpr.RefusedError, match="'bias' is a variable of a function around"):
        taxpr.edit(inner, "made.inner.h", "h = x * bias")(X)
    of_new = taxpr.edit(lambda x: made(2.0)[0](x), "made.inner.h", "h = x * bias")
    same([of_new(X)], [X.sum()])


def with_returns(x, early):
    if early:
        return x.sum()

    def inner(y):
        return y * 3

    return inner(x).sum()


def test_a_line_that_returns_takes_the_place_of_one_that_does():
    start = first_line(with_returns)
    early, last = start + 2, start + 7
    less = taxpr.var("with_returns.return", line=last)
    edited = taxpr.edit(with_returns, less, "return inner(x).sum() - x[0, 0]")
    for one in (lambda fun: fun, jax.grad):
        same([one(lambda x: edited(x, False))(X)], [one(lambda x: (x * 3).sum() - x[0, 0])(X)])
        same([one(lambda x: edited(x, True))(X)], [one(jnp.sum)(X)])
    where = taxpr.var("with_returns.return", line=early)
    same([taxpr.edit(with_returns, where, "return x.mean()")(X, True)], [X.mean()])
    twice = {less: "return inner(x).sum() / 2", "with_returns.inner.return": "return y * x"}
    same([taxpr.edit(with_returns, twice)(X, False)], [(X * X).sum() / 2])
    with pytest.raises(taxpr.ArgumentError, match=f"the lines {early}, {last} return"):
        taxpr.edit(with_returns, "with_returns.return", "return x.sum()")(X, False)


@pytest.mark.parametrize(
    ("where", "text", "message"),
    [
        ("first_bound.y", "return x", "'return x' .* does not bind y"),
        ("first_bound.return", "y = x", "does not return, as the line there does"),
        ("first_bound.return", "return", "is no expression of Python"),
        ("first_bound.y", "z = x", "does not bind y, which the line there binds"),
        ("first_bound.x", "x = x * 2", "no assignment binds x there"),
        ("first_bound.y", "y = x; z = x", "is no expression of Python"),
        ("residual.x", "x = x * 2", r"residual \(.*\) was not called"),
        (taxpr.var("first_bound.y", occurrence=0), "y = x", "takes its place in all runs"),
        (taxpr.var("first_bound.y", line=1), "y = x", "it is bound in line"),
    ],
)
def test_lines_that_cannot_take_the_place(where, text, message):
    with pytest.raises(taxpr.TaxprError, match=message):
        taxpr.edit(first_bound, where, text)(X)


@pytest.mark.parametrize("where", [jax.nn.relu, "jax.nn.relu", "jax.nn.relu.return"])
def test_a_function_with_a_derivative_rule_of_its_own_is_refused(where):
    def f(x):
        return jax.nn.relu(x).sum()

    with pytest.raises(taxpr.RefusedError, match="relu has a derivative rule of its own"):
        taxpr.edit(f, where, lambda fun: jnp.tanh)(X)


def on_one_line(x):
    h = jnp.sin(x); h = jnp.cos(h); return h * h  # fmt: skip # noqa: E702


def on_lines(x, first=1.0, second=1.0):
    h = jnp.sin(x) * first
    h = jnp.cos(h) * second
    return h * h


def test_one_line_that_binds_and_reads_it():
    where = taxpr.var("h", occurrence=1)
    same([taxpr.edit(on_one_line, where, "h * 0.5")(X)], [on_lines(X, 1.0, 0.5)])
    twice = {"on_one_line.h": taxpr.scale(0.5), "total": "total * 2"}

    def loss(x):
        total = on_one_line(x).sum(); return total * total  # fmt: skip # noqa: E702

    edited = taxpr.edit(loss, twice)
    by_hand = jax.grad(lambda x: (on_lines(x, 0.5, 0.5).sum() * 2) ** 2)(X)
    np.testing.assert_allclose(jax.grad(edited)(X), by_hand, rtol=1e-5)
    [*_, last] = taxpr.trace(edited, names=True)(X).variables()
    assert last.edited == "total = total * 2"
    injected = taxpr.inject(jax.grad(loss), taxpr.scale(0.5), where="total")
    out, _ = injected(injected.init(X), X)
    np.testing.assert_allclose(out, jax.grad(lambda x: (loss(x)) * 0.25)(X), rtol=1e-5)
    same([on_one_line(X)], [on_lines(X)])


def test_one_line_that_binds_and_reads_it_runs_once():
    ran = []

    def f(x):
        ran.append(1)
        jax.debug.callback(ran.append, x.sum())
        h = jnp.sin(x); return h * h  # fmt: skip # noqa: E702

    text = str(jax.make_jaxpr(taxpr.edit(f, "f.h", taxpr.scale(0.5)))(X))
    assert (len(ran), text.count("callback["), text.count(" sin ")) == (1, 1, 1)


class Held:
    def __init__(self, ran):
        def inner(x):
            ran.append(1)
            h = jnp.sin(x); return h * h  # fmt: skip # noqa: E702

        self.inner = inner

    def __call__(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    "way", ["object", "method", "argument", "decorator", "container", "library"]
)
def test_one_line_is_found_before_anything_runs(way, monkeypatch):
    ran, started = [], []
    held = Held(ran)
    monkeypatch.setattr(json, "held", held.inner, raising=False)
    parts = {
        "object": held,
        "method": held.__call__,
        "argument": None,
        "decorator": jax.vmap(jax.jit(held.inner)),
        "container": [{"f": held.inner}],
        "library": None,
    }
    part = parts[way]

    def run(x, inner=held.inner if way == "argument" else None):
        started.append(1)
        if way == "library":
            inner = json.held
        elif way == "container":
            inner = part[0]["f"]
        return (inner or part)(x)

    edited = taxpr.edit(run, "inner.h", taxpr.scale(0.5))
    same([edited(X)], [(jnp.sin(X) * 0.5) ** 2])
    assert len(started) == len(ran) == 1


def test_one_line_that_binds_and_reads_it_and_takes_the_place_of_another():
    edits = {"on_one_line.return": "return h * h * x", "on_one_line.h": "h + 1"}
    by_hand = jnp.cos(jnp.sin(X) + 1) + 1
    same([taxpr.edit(on_one_line, edits)(X)], [by_hand * by_hand * X])


@pytest.mark.skipif(sys.version_info < (3, 13), reason="one instruction does so from 3.13 on")
def test_one_line_that_binds_and_reads_it_without_a_source():
    names = {"jnp": jnp}
    exec("def f(x):\n    h = jnp.sin(x); return h * h\n", names)
    with pytest.raises(taxpr.RefusedError, match="in one line, between which nothing can come"):
        taxpr.edit(names["f"], "f.h", taxpr.zero())(X)
    bound = lambda x: (h := jnp.sin(x)) * h
    with pytest.raises(taxpr.RefusedError, match="Write what follows in a line of its own"):
        taxpr.edit(bound, "h", taxpr.zero())(X)


def gelu_by_hand(x, factor=3.0, tanh=jnp.tanh):
    inner = np.sqrt(2 / np.pi).astype(np.float32) * (x + 0.044715 * x**3)
    return (x * (0.5 * (1.0 + tanh(inner)) * factor)).sum()


@pytest.mark.parametrize(
    ("where", "change", "expected"),
    [
        ("gelu.cdf", lambda cdf: cdf * 3.0, gelu_by_hand),
        ("jax.nn.gelu.cdf", lambda cdf: cdf * 3.0, gelu_by_hand),
        ("jax.nn.gelu.return", lambda y: y * 3.0, gelu_by_hand),
        ("scale", lambda s: s * 3.0, gelu_by_hand),
        ("jnp.tanh", lambda _: jnp.sin, lambda x: gelu_by_hand(x, 1.0, jnp.sin)),
    ],
)
def test_jitted_functions_of_jax_are_changed_for_an_edit_of_them_and_for_no_others(
    where, change, expected
):
    def fun(x):
        scale = 1.0
        return (jax.nn.gelu(x) * scale).sum()

    x = jnp.linspace(-2.0, 2.0, 7)
    plain = fun(x)
    for ask in (taxpr.edit(fun, where, change), jax.jit(taxpr.edit(fun, where, change))):
        np.testing.assert_allclose(ask(x), expected(x), rtol=1e-6)
    for _ in range(2):
        np.testing.assert_array_equal(fun(x), plain)
        np.testing.assert_allclose(jax.jit(lambda x: fun(x))(x), plain, rtol=1e-6)
        jax.clear_caches()


def test_one_key_for_all_examples_of_a_vmap_is_warned_of():
    def f(x, w):
        h = x * 2
        v = w + 1
        return h * v.sum()

    x, w, noise = jnp.zeros(3), jnp.ones(2), taxpr.noise(key=0)
    mapped = jax.vmap(f, (0, None))
    jitted = jax.vmap(jax.jit(f), (0, None))
    for fun in (mapped, jax.vmap(jax.grad(f), (0, None)), jitted):
        # In a jaxpr that is made before it is mapped, no one knows whether this value will be.
        word = "may draw" if fun is jitted else "draw"
        with pytest.warns(taxpr.errors.SameNoiseWarning, match=f"h .*all examples {word} the same"):
            out = taxpr.edit(fun, "h", noise)(x, w)
        assert np.unique(out).size == 1
    taxpr.edit(mapped, "v", noise)(x, w)  # which is no example's own
    taxpr.edit(f, "h", noise)(jnp.ones(()), w)
    keys = jax.random.split(jax.random.key(0), 3)
    apart = jax.vmap(lambda k, x: taxpr.edit(f, "h", taxpr.noise(key=k))(x, w))(keys, x)
    assert np.unique(apart).size == 3
