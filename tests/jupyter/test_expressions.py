"""Expressions over recorded values: computed for each iteration and example, kept, saved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._view.widget import view_for

XS = jnp.arange(6.0).reshape(2, 3)


def walk(xs):
    def step(total, x):
        square = x * x
        total = total + square
        return total, None

    start = xs.sum()
    return jax.lax.scan(step, start, xs)[0]


def by_hand(k, example):
    """What the variables hold in an iteration, for an example."""
    xs = np.asarray(XS[example])
    x = xs[k]
    total = xs.sum() + (xs[: k + 1] ** 2).sum()
    return {"xs": xs, "x": x, "square": x * x, "total": total, "start": xs.sum(), "np": np}


@pytest.fixture
def session():
    session = Session(jax.vmap(walk), (XS,), names=True, namespace={"jnp": jnp, "half": 0.5})
    yield session
    view_for(session).close()


@pytest.mark.parametrize(
    ("text", "numpy"),
    [
        ("jnp.sqrt(square) + x", "np.sqrt(square) + x"),
        ("xs.max() - x", "xs.max() - x"),
        ("total * half", "total * 0.5"),
        ("step.total - start", "total - start"),
        ("xs @ xs", "xs @ xs"),
        ("(lambda y: y + 1)(x)", "x + 1"),
        ("sum(one for one in [x, x])", "x + x"),
        ("xs * x", "xs * x"),
        ("(lambda x: x + 1)(x) * x", "(x + 1) * x"),
        ("sum(x * 2 for x in xs) + x", "xs.sum() * 2 + x"),
    ],
)
def test_it_is_what_the_function_would_compute_there(session, text, numpy):
    session.watch()
    for k in range(3):
        for example in range(2):
            session.at(k, example)
            expected = eval(numpy, by_hand(k, example))
            found = session.evaluate(text)
            if np.ndim(expected) == 0:
                assert found.words == f"{expected:.4g}"
            else:
                same = expected.min() == expected.max()
                mean = f"{expected.mean():.4g} ± {expected.std():.3g}"
                assert found.words == (f"all {expected[0]:.4g}" if same else mean)
        session.at(k)
        each = np.concatenate([np.ravel(eval(numpy, by_hand(k, one))) for one in range(2)])
        found = session.evaluate(text)
        if each.min() != each.max():
            assert found.words == f"{each.mean():.4g} ± {each.std():.3g}"


def test_it_has_a_curve_and_says_what_is_not_finite(session):
    session.watch()
    chip = session.evaluate("jnp.log(x - 1)")
    assert chip.curve.iterations == 3
    assert chip.curve.wrong == (0, 1)  # the first example is 0 and 1 there
    assert session.evaluate("start * 2").curve is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("square[", r"'square\[' is no expression of Python: .* Write an expression of recorded"),
        ("x = 3", "is no expression of Python: invalid syntax"),
        ("3 + 3", r"'3 \+ 3' has no recorded variable"),
        ("foo + x", "no variable 'foo' was recorded, and the notebook has none"),
        ("str(x)", "gives array.*, and no numbers"),
        ("xs @ jnp.ones(7)", r"cannot be computed: TypeError"),
        ("jnp.ones(int(x) + 1)", "gives arrays of different types in different iterations"),
    ],
)
def test_a_mistake_is_said_in_a_line(session, text, message):
    with pytest.raises(PanelError, match="Nothing is recorded of the program as it is"):
        session.evaluate("x")
    session.watch()
    with pytest.raises(PanelError, match=message) as caught:
        session.evaluate(text)
    assert "\n" not in str(caught.value)
    with pytest.raises(PanelError, match=message):
        session.watch_expression(text)
    assert session.expressions == ()


def test_values_that_were_not_computed_do_not_count():
    def f(xs, limit):
        def step(total, x):
            def large(v):
                twice = v * 2
                return twice

            total = total + jax.lax.cond(x > limit, large, lambda v: v, x)
            return total, None

        return jax.lax.scan(step, 0.0, xs)[0]

    session = Session(f, (jnp.arange(4.0), 1.5), names=True)
    session.watch()
    assert [session.at(k) and str(session.evaluate("twice + 1")) for k in range(4)] == [
        "did not run",
        "did not run",
        "5",
        "7",
    ]
    assert session.evaluate("twice + 1").curve.points == (None, None, 0.0, 1.0)


def test_variables_of_two_loops_or_functions_are_refused():
    def f(xs):
        def first(c, x):
            one = x * 2
            return c, one

        def second(c, x):
            other = x * 3
            one = other + 1
            return c, one

        return jax.lax.scan(first, 0.0, xs)[1], jax.lax.scan(second, 0.0, xs)[1]

    session = Session(f, (jnp.arange(3.0),), names=True)
    session.watch()
    with pytest.raises(PanelError, match="one is a variable of several functions"):
        session.evaluate("one + 1")
    assert str(session.evaluate("second.one").words) == "4 ± 2.45"
    with pytest.raises(PanelError, match="its variables are in different loops"):
        session.evaluate("first.one - other")


def test_watched_expressions_are_steps_and_are_saved(session, tmp_path):
    session.watch_expression("jnp.abs(total).max()")  # before there are values
    session.watch_expression("x + 1")
    session.watch_expression("x + 1")
    assert session.expressions == ("jnp.abs(total).max()", "x + 1")
    assert session.undoes == "watch x + 1"
    session.save(tmp_path / "edits.json")
    session.undo()
    assert session.expressions == ("jnp.abs(total).max()",)
    session.redo()
    session.unwatch_expression("jnp.abs(total).max()")
    assert session.expressions == ("x + 1",)
    with pytest.raises(PanelError, match="'y' is not watched"):
        session.unwatch_expression("y")
    again = Session(jax.vmap(walk), (XS,), names=True, namespace={"jnp": jnp})
    again.load(tmp_path / "edits.json")
    assert again.expressions == ("jnp.abs(total).max()", "x + 1")
    again.watch()
    assert str(again.watched_expressions()["x + 1"]) == "3.5 ± 1.71 (1 … 6)"
    later = Session(jax.vmap(walk), (XS,), names=True)
    later.take_over(again)
    assert later.expressions == again.expressions


def test_what_the_notebook_calls_so_now_is_meant(session):
    session.watch()
    session.at(0, 0)
    session.watch_expression("start * half")
    first = session.evaluate("start * half").words
    session.namespace = {**session.namespace, "half": 2.0}
    assert (first, session.evaluate("start * half").words) == ("1.5", "6")
    assert session.watched_expressions()["start * half"].words == "6"


def test_the_panel_watches_them(session):
    view = view_for(session)
    graph = view.graph

    def send(do, text):
        graph._handle_custom_msg({"do": do, "address": text}, [])
        assert view.wait(60)

    session.watch()
    send("watchExpression", " x + 1 ")
    assert graph.expressions == [{"text": "x + 1", "mistake": ""}]
    assert graph.recorded["chips"]["= x + 1"]["words"] == "3.5 ± 1.71"
    assert graph.curves["= x + 1"]["iterations"] == 3
    session.at(iteration=0, example=1)
    assert graph.recorded["chips"]["= x + 1"]["words"] == "4"
    send("watchExpression", "nothing + 1")
    assert "no variable 'nothing' was recorded" in graph.message["text"]
    assert len(graph.expressions) == 1
    session.namespace = {}
    send("unwatchExpression", "x + 1")
    assert graph.expressions == []
    assert "= x + 1" not in graph.recorded["chips"]
    session.undo()
    assert "= x + 1" in graph.recorded["chips"]
