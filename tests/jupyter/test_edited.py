"""Injectors at variables that are differentiated, and lines that are typed over.

What they mean is the source edited by hand.
"""

import functools
import importlib.util
import linecache
import re
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._view.widget import view_for

W = jnp.array([[0.5, -0.2], [0.1, 0.7]])
X = jnp.array([[1.0, 0.5], [-1.0, 2.0]])


def attend(q, k, v):
    weights = jax.nn.softmax(q @ k.T)
    return weights @ v


def loss(w, x):
    h = attend(x @ w, x, x)
    h = h + x
    return (h**2).mean()


@jax.jit
def step(w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    new = w - 0.1 * grad
    return value, new


def by_hand(*, factor=1.0, attended="attend(x @ w, x, x)", residual="h = h + x"):
    """The step with other lines."""
    source = f"""
    def attend(q, k, v):
        weights = jax.nn.softmax(q @ k.T)
        weights = weights * {factor}
        return weights @ v

    def loss(w, x):
        h = {attended}
        {residual}
        return (h**2).mean()

    @jax.jit
    def step(w, x):
        value, grad = jax.value_and_grad(loss)(w, x)
        new = w - 0.1 * grad
        return value, new
    """
    space = {"jax": jax, "jnp": jnp}
    exec(textwrap.dedent(source), space)
    return space["step"](W, X)


def same(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-7)


def opened(fun=step, **more):
    return Session(fun, (W, X), namespace=globals(), call="step(W, X)", **more)


def ran(session):
    run = session.run()
    assert run.ok, run.error
    return run


def from_code(session):
    space = {**globals()}
    exec(session.code(), space)
    return space["out"]


@pytest.mark.parametrize("later", [False, True])
def test_an_injector_at_a_variable_that_is_differentiated_is_an_edit(later):
    session = opened()
    if later:
        with session.later():
            session.attach(taxpr.var("weights"), "scale", factor=0.5)
        session.settle()
    else:
        session.attach(taxpr.var("weights"), "scale", factor=0.5)
    [attached] = session.injectors.values()
    assert attached.edits
    assert "before it is differentiated" in attached.note
    run = ran(session)
    same(run.outputs, by_hand(factor=0.5))
    same(run.baseline, step(W, X))
    same(from_code(session), run.outputs)
    assert "taxpr.edit(step, taxpr.var('weights'), taxpr.scale(factor=0.5))" in session.code()
    assert "inject" not in session.code()
    [record] = run.records.values()
    np.testing.assert_allclose(record.value, 0.5 * jax.nn.softmax(X @ W @ X.T), rtol=2e-6)


def test_its_slider_compiles_nothing():
    session = opened()
    [weights] = taxpr.find_values(session.program, taxpr.var("weights"))
    session.attach(weights.address, "scale", factor=0.5)
    ran(session)
    program = session.program
    session.set_value(taxpr.var("weights"), "factor", -0.75)
    run = ran(session)
    assert run.reused
    assert session.program is program
    same(run.outputs, by_hand(factor=-0.75))
    same(from_code(session), run.outputs)


def test_detach_takes_the_edit_back_and_other_tags_stay():
    session = opened()
    session.tag(taxpr.var("grad"), name="g")
    session.attach(taxpr.var("step.grad"), "stats")
    session.unfold("0:jit")
    session.attach(taxpr.var("weights"), "zero")
    assert {one.name: one.edits for one in session.injectors.values()} == {
        "stats": False,
        "zero": True,
    }
    run = ran(session)
    same(run.outputs, by_hand(factor=0.0))
    assert "0:jit" in session.unfolded
    same(from_code(session), run.outputs)
    session.detach(taxpr.var("weights"))
    assert session.program is session.untouched
    assert [site.name for site in session.sites() if site.injector] == ["g"]
    same(ran(session).outputs, step(W, X))


def test_another_injector_in_its_place():
    session = opened()
    session.attach(taxpr.var("weights"), "scale", factor=0.5)
    session.attach(taxpr.var("weights"), "clip", high=0.4)
    same(ran(session).outputs, by_hand(factor="1.0; weights = jnp.clip(weights, None, 0.4)"))
    session.attach(taxpr.var("weights"), "stats")
    [attached] = session.injectors.values()
    assert not attached.edits
    assert session.program is session.untouched
    same(ran(session).outputs, step(W, X))


def test_what_stays_an_injection_says_why():
    def of_ctx(ctx, token, params):
        return token * ctx, ctx

    session = opened()
    with pytest.warns(taxpr.errors.StaleDerivativeWarning):
        attached = session.attach(taxpr.var("weights"), of_ctx, ctx=0.5)
    assert not attached.edits
    assert "It stays an injection, since a function of yours" in attached.note
    assert ran(session).ok


def test_noise_begins_with_a_seed_in_the_panel():
    session = opened()
    session.unfold("0:jit")
    view = view_for(session)
    take = view.messages.take
    [weights] = taxpr.find_values(session.program, taxpr.var("weights"))
    take({"do": "attach", "address": weights.address, "injector": "noise"})
    view.wait()
    assert not view.graph.message["text"]
    [(key, noise)] = session.injectors.items()
    assert (noise.name, dict(noise.values)) == ("noise", {"key": 0, "stddev": 0.1})
    assert noise.edits
    take({"do": "value", "address": key, "param": "key", "text": "7"})
    view.wait()
    assert session.injectors[key].values["key"] == 7
    assert "taxpr.noise(key=7, stddev=0.1)" in session.code()
    same(from_code(session), ran(session).outputs)
    take({"do": "value", "address": key, "param": "stddev", "text": "0.0"})
    view.wait()
    same(ran(session).outputs, step(W, X))
    assert session.last.reused
    view.close()


STRENGTH = 0.5


def of_mine(ctx, token, params, by=1.0, power=1):
    return token**power * by * STRENGTH, ctx


def test_a_function_without_a_context_is_an_edit_with_a_live_slider(monkeypatch):
    session = opened()
    attached = session.attach(taxpr.var("weights"), "of_mine", by=0.5)
    assert attached.edits
    assert "before it is differentiated" in attached.note
    same(ran(session).outputs, by_hand(factor=0.25))
    same(from_code(session), session.last.outputs)
    assert "taxpr.from_function(of_mine, by=0.5)" in session.code()
    program = session.program
    session.set_value(taxpr.var("weights"), "by", -1.5)
    same(ran(session).outputs, by_hand(factor=-0.75))
    assert session.last.reused
    assert session.program is program
    session.set_value(taxpr.var("weights"), "power", 2)
    same(ran(session).outputs, by_hand(factor="1.0; weights = -0.75 * weights**2"))
    same(from_code(session), session.last.outputs)
    session.set_value(taxpr.var("weights"), "power", 1)
    monkeypatch.setitem(globals(), "STRENGTH", 0.25)  # as a cell does
    same(ran(session).outputs, by_hand(factor=-0.375))
    session.detach(taxpr.var("weights"))
    assert session.program is session.untouched


def test_a_function_that_is_defined_anew_is_edited_by():
    space = {**globals()}
    session = Session(step, (W, X), namespace=space, call="step(W, X)")
    session.attach(taxpr.var("weights"), "of_mine")
    same(ran(session).outputs, by_hand(factor=0.5))
    exec("def of_mine(ctx, token, params, by=1.0): return token * by * 0.125, ctx", space)
    same(ran(session).outputs, by_hand(factor=0.125))


def twice(w):
    a = b = w * 2
    return (a * jnp.sin(b)).sum()


def test_a_value_of_two_variables():
    session = Session(jax.value_and_grad(twice), (W,), namespace=globals())
    with pytest.warns(taxpr.errors.StaleDerivativeWarning):
        attached = session.attach("0:mul", "zero")
    assert "since several variables hold the value (twice.a, twice.b)" in attached.note
    assert not attached.edits
    assert session.program is session.untouched
    assert session.attach(taxpr.var("twice.b"), "scale", factor=0.5).edits
    same(ran(session).outputs, jax.value_and_grad(lambda w: (2 * w * jnp.sin(w)).sum())(W))


def test_questions_are_of_the_edited_program():
    session = opened()
    session.attach(taxpr.var("weights"), "scale", factor=0.0)
    assert session.first_difference().first.variable == "weights"
    assert float(abs(session.watch()["weights"].value).max()) == 0.0
    assert float(abs(session.watch(injectors=False)["weights"].value).max()) > 0.0
    assert session.find_nan().headline
    assert session.changes().diff.counts["added"]
    for question in ("find_nan", "injectors", "bfloat16", "flow"):
        session.ask(question)
        exec(session.code(question), {**globals()})


def test_a_line_is_typed_over():
    session = opened()
    with pytest.raises(PanelError, match="means 2 lines"):
        session.edit("loss.h", "x")
    number = loss.__code__.co_firstlineno
    place = session.edit(f"test_edited.py:{number + 2}", "h - 2 * x")
    run = ran(session)
    same(run.outputs, by_hand(residual="h = h - 2 * x"))
    same(run.baseline, step(W, X))
    same(from_code(session), run.outputs)
    assert session.edits() == {place: "h = h - 2 * x"}
    assert "-    h = h + x\n+    h = h - 2 * x\n" in session.diff()
    assert session.changes().diff.counts["changed"] + session.changes().diff.counts["added"]
    [line] = [row.line for row in session.source().rows if row.line.number == number + 2]
    assert line.text.strip() == "h = h - 2 * x"
    session.attach(taxpr.var("weights"), "scale", factor=0.5)
    run = ran(session)
    same(run.outputs, by_hand(residual="h = h - 2 * x", factor=0.5))
    same(from_code(session), run.outputs)
    session.edit(place, "h * x")
    same(ran(session).outputs, by_hand(residual="h = h * x", factor=0.5))
    session.unedit(place)
    same(ran(session).outputs, by_hand(factor=0.5))
    session.detach(taxpr.var("weights"))
    assert session.program is session.untouched
    assert session.diff() == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h +", "is no expression of Python"),
        ("", "is no expression of Python"),
        ("h + nothing", "name 'nothing' is not defined"),
        ("h @ jnp.ones(7)", "dot_general|matmul"),
        ("{}['inn']", "^KeyError: inn$"),
        ("1 // 0", "^ZeroDivisionError: [^\n]*zero$"),
        ("h + 1j if h.sum() > 0 else h", r"^TracerBoolConversionError: [^\n]*bool\[\]\. Hint: "),
    ],
)
def test_a_mistake_in_a_line_leaves_all_as_it_was(text, message):
    session = opened()
    with pytest.raises(PanelError, match=message):
        session.edit(f"test_edited.py:{loss.__code__.co_firstlineno + 2}", text)
    assert session.program is session.untouched
    assert not session.edits()
    with pytest.raises(PanelError, match="as the source has it"):
        session.unedit(f"test_edited.py:{loss.__code__.co_firstlineno + 2}")
    with pytest.raises(PanelError, match=r"no line 'loss\.q'"):
        session.edit("loss.q", "1")


def test_a_mistake_says_the_line_that_it_comes_to_light_in_and_how_to_mend_it():
    session = opened()
    number = attend.__code__.co_firstlineno + 2
    shapes = (
        rf"^TypeError: dot_general requires [^\n]*\. \(test_edited\.py:{number} in attend\) Hint: "
    )
    with pytest.raises(PanelError, match=shapes):
        session.edit("attend.weights", "jnp.ones((2, 3))")
    with pytest.raises(PanelError, match=r"^edit: [^\n]*which nothing has bound before\.$"):
        session.edit("attend.weights", "weights * 2")
    if sys.version_info >= (3, 12):  # before, Python tells it to nobody but itself
        with pytest.raises(PanelError, match=r"'scors' is not defined\. Did you mean: 'scores'\?$"):
            Session(scored, (W,)).edit("scored.return", "scors.sum()")


def scored(w):
    scores = jnp.sin(w)
    return scores.sum()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("h = h - 2 * x", "h = h - 2 * x"),
        ("(k := h - x) - x", "h = (k := h - x) - x"),
        ("(h := h - 2 * x)", "h = (h := h - 2 * x)"),
        ("h\n- 2 * x", "h = (h\n- 2 * x)"),
        ("jnp.subtract(\n    h, 2 * x)  # twice", "h = jnp.subtract(\n    h, 2 * x)"),
    ],
)
def test_a_line_can_be_typed_as_python_takes_it(text, line):
    session = opened()
    place = session.edit(f"test_edited.py:{loss.__code__.co_firstlineno + 2}", text)
    assert session.edits() == {place: line}
    same(ran(session).outputs, by_hand(residual="h = h - 2 * x"))
    same(from_code(session), session.last.outputs)


def lines(w, x):
    h: jax.Array = x @ w
    low, high = h.min(), h.max()
    h += low
    a = b = jnp.where(
        h > low,
        h,
        high,
    )
    if w.shape[0] > 9:
        return w
    return (a * b).mean()


def lines_by_hand(number, line):
    """The gradient with another line in the place of one of these."""
    file, start = lines.__code__.co_filename, lines.__code__.co_firstlineno
    text = [linecache.getline(file, start + k) for k in range(12)]
    space = {"jax": jax, "jnp": jnp}
    if number is not None:
        last = number + 4 if number == 4 else number
        text[number : last + 1] = [f"    {line}\n"]
    exec("".join(text), space)
    return jax.value_and_grad(space["lines"])(W, X)


@pytest.mark.parametrize(
    ("number", "where", "right", "line"),
    [
        (1, "lines.h", "x + w", "h: jax.Array = x + w"),
        (2, "lines.low", "h.mean(), h.sum()", "low, high = h.mean(), h.sum()"),
        (3, "lines.h", "high * 2", "h += high * 2"),
        (4, "lines.a", "jnp.cos(h)", "a = b = jnp.cos(h)"),
        (11, "lines.return", "(a * b).sum() + h[0, 0]", "return (a * b).sum() + h[0, 0]"),
    ],
)
def test_each_kind_of_line(number, where, right, line):
    start = lines.__code__.co_firstlineno
    space = {**globals(), "grad": jax.value_and_grad(lines)}
    session = Session(space["grad"], (W, X), namespace=space, call="grad(W, X)")
    same(ran(session).outputs, lines_by_hand(None, ""))
    place = session.edit(f"test_edited.py:{start + number}", right)
    run = ran(session)
    same(run.outputs, lines_by_hand(number, line))
    exec(session.code(), space)
    same(space["out"], run.outputs)
    assert f"+    {session.edits()[place]}\n" in session.diff() or number == 4
    session.unedit(place)
    assert session.program is session.untouched
    if where not in ("lines.h", "lines.return"):  # of which there are two
        assert session.edit(where, right) == place


def test_code_of_a_typed_line_runs_where_its_functions_have_other_lines(tmp_path):
    session = Session(attend, (X, X, X), call="attend(X, X, X)", namespace=globals())
    session.edit("attend.weights", "q @ k.T")
    session.edit("attend.return", "weights @ v * 2")
    assert "line=" not in session.code()
    source = linecache.getlines(attend.__code__.co_filename)
    start = attend.__code__.co_firstlineno - 1
    module = tmp_path / "elsewhere.py"
    head = "import jax, jax.numpy as jnp\n\n\n"
    module.write_text(head + "".join(source[start : start + 3]))
    spec = importlib.util.spec_from_file_location("elsewhere", module)
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    code = "\n".join(one for one in session.code().splitlines() if "import attend" not in one)
    space = {"attend": elsewhere.attend, "X": X}
    exec(code, space)
    same(space["out"], X @ X.T @ X * 2)
    number = loss.__code__.co_firstlineno + 2  # of two lines that bind h
    session = opened()
    session.edit(f"test_edited.py:{number}", "h - x")
    assert f"taxpr.var('loss.h', line={number})" in session.code()


def test_a_line_that_says_the_same_in_other_words_is_no_edit():
    session = Session(jax.value_and_grad(lines), (W, X))
    session.edit("lines.a", "jnp.where(h > low, h, high)")
    assert not session.edits()
    assert session.program is session.untouched


def not_jitted(w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    new = jax.tree.map(lambda a, b: a - 0.1 * b, w, grad)
    return value, new


@pytest.mark.parametrize("fun", [step, not_jitted])
@pytest.mark.parametrize(
    "change",
    [
        lambda session: None,
        lambda session: session.tag(taxpr.var("grad")),
        lambda session: session.attach(taxpr.var("weights"), "scale", factor=0.7),
        lambda session: session.attach(taxpr.var("new"), "clip", high=0.3),
        lambda session: session.edit("loss.return", "abs(h).sum() / 3"),
    ],
)
def test_the_code_gives_the_same_bits(fun, change):
    call = f"{fun.__name__}(W, X)"
    session = Session(fun, (W, X), namespace=globals(), call=call)
    change(session)
    for a, b in zip(*map(jax.tree.leaves, (from_code(session), ran(session).outputs)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_code_that_runs_equation_by_equation_says_so():
    fun = lambda w, x, how: (loss(w, x), how)
    args = W, X, object()
    session = Session(fun, args)
    space = {"fn": fun, "args": args}
    exec(session.code(), space)
    assert "# Equation by equation, since some arguments are no arrays" in session.code()
    same(space["out"][0], ran(session).outputs[0])
    assert session.last.outputs[1] is args[2]


def of_a_tree(w, x):
    p = {"w": w, "b": x[0]}
    grad = jax.grad(lambda p: loss(p["w"], x + p["b"][None]))(p)
    return jax.tree.map(lambda a, g: a - g, p, grad)


def test_a_variable_of_several_values_says_how_all_get_an_injector():
    session = Session(of_a_tree, (W, X))
    with pytest.raises(PanelError, match="means 2 values") as error:
        session.attach(taxpr.var("grad"), "scale", factor=0.5)
    found = re.search(r"A list means all of them: (\[.*\])\.$", str(error.value))[1]
    assert len(session.attach(eval(found, {"var": taxpr.var}), "scale", factor=0.5)) == 2
    wanted = jax.jit(taxpr.edit(of_a_tree, "of_a_tree.grad", taxpr.scale(0.5)))(W, X)
    same(ran(session).outputs, wanted)


def test_outputs_of_another_shape():
    session = opened()
    session.edit("step.new", "(w - 0.1 * grad).sum()")
    [_, new] = ran(session).differences
    assert new.aval == "f32[2,2] → f32[]"
    assert not new.equal


def test_a_cell_that_runs_again_keeps_them():
    old = opened()
    old.attach(taxpr.var("weights"), "scale", factor=0.5)
    old.edit("step.new", "w - 0.2 * grad")
    session = opened()
    session.take_over(old)
    same(ran(session).outputs, ran(old).outputs)
    assert "1 edited line" in session.notes[-1]


def test_a_function_with_states():
    total = taxpr.State(0.0, name="total")

    def counted(w):
        value, grad = jax.value_and_grad(loss)(w, X)
        total.value += value
        return w - grad

    session = Session(counted, (W,), namespace={**globals(), "counted": counted})
    session.attach(taxpr.var("weights"), "scale", factor=0.5)
    run = ran(session)
    same(run.final_states["total"], by_hand(factor=0.5)[0])
    same(run.baseline_states["total"], loss(W, X))


def test_a_function_that_another_cell_defines_anew_is_traced_anew():
    space = {"jax": jax, "jnp": jnp}
    cell = """
    def inner(x):
        y = jnp.FUN(x)
        return y

    class Net:
        def __call__(self, x):
            return outer(x)

        def go(self, x, *, times=1):
            return outer(x) * times
    """
    exec(textwrap.dedent(cell.replace("FUN", "sin")), space)
    exec("def outer(x): return jax.vmap(inner)(x).sum()\nnet = Net()", space)
    calls = [space["outer"], space["net"].go, functools.partial(space["net"].go, times=2)]
    x = jnp.ones(3)
    before = [Session(fun, (x,)).run().baseline for fun in calls]
    same(before, [fun(x) for fun in calls])
    exec(textwrap.dedent(cell.partition("class")[0].replace("FUN", "cos")), space)
    for fun, old in zip(calls, before, strict=True):
        run = ran(Session(fun, (x,), namespace=space))
        same(run.baseline, fun(x))
        assert abs(run.baseline - old) > 0.5


def test_the_panel_says_that_an_edit_draws_the_same_for_all_examples():
    def loss(x):
        h = jnp.sin(x)
        return (h**2).sum()

    session = Session(jax.vmap(jax.grad(loss)), (jnp.ones((3, 2)),), names=True)
    with pytest.warns(taxpr.errors.SameNoiseWarning):
        attached = session.attach("h", taxpr.noise(key=0, stddev=0.5))
    assert attached.edits
    assert "so that all examples draw the same" in attached.note
    session.set_value("h", "stddev", 0.25)
    assert "so that all examples draw the same" in session.injectors[attached.key].note


def test_the_warning_of_an_edit_stands_at_this_edit_alone():
    def loss(p, xs):
        def one(x):
            h = jnp.sin(p * x)
            return h.sum()

        total = jax.vmap(one)(xs).mean() * 3.0
        return total * total

    session = Session(jax.grad(loss), (1.0, jnp.ones((3, 2))), names=True)
    with pytest.warns(taxpr.errors.SameNoiseWarning):
        mapped = session.attach("h", "noise", key=0)
    outside = session.attach("total", "noise", key=1)
    notes = [session.injectors[one.key].note for one in (mapped, outside)]
    assert ["so that all examples draw the same" in one for one in notes] == [True, False]
