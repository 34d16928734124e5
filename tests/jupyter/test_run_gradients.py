"""A run compares the gradients of a loss, too; they are those of the line edited by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._runs.outputs.array_diff import compare
from taxpr_jupyter._view.widget import view_for
from taxpr_jupyter._view.wire import results_state, summary

P = {"w": jnp.array([[0.5, -0.2], [0.1, 0.7]]), "b": jnp.array([[0.3, -0.1]]), "n": jnp.array(3)}
X = jnp.array([[1.0, 0.5], [-1.0, 2.0]])


def loss(p, x, scale=2.0):
    h = jnp.tanh(x @ p["w"]) * scale
    y = h + p["b"]
    return (y**2).mean()


def by_hand(p, x, scale=2.0):
    h = jnp.tanh(x @ p["w"]) * scale
    y = h * 3 + x
    return (y**2).mean()


def opened(fun=loss, *args, **words):
    return Session(fun, args or (P, X), words, namespace=globals())


def ran(session, **more):
    run = session.run(**more)
    assert run.ok, run.error
    return run


def gradients(fun, *args):
    return jax.grad(fun, argnums=tuple(range(len(args))), allow_int=True)(*args)


def test_the_gradients_before_and_after_a_line_was_typed_over():
    session = opened()
    assert ran(session).gradients == ()
    session.edit("loss.y", "h * 3 + x")
    run = ran(session)
    old, new = gradients(loss, P, X), gradients(by_hand, P, X)
    pairs = {
        "∂out/∂p['b']": (old[0]["b"], new[0]["b"]),
        "∂out/∂p['w']": (old[0]["w"], new[0]["w"]),
        "∂out/∂x": (old[1], new[1]),
    }
    assert [row.name for row in run.gradients] == list(pairs)
    for row in run.gradients:
        wanted = compare(row.name, *pairs[row.name])
        assert row.aval == wanted.aval
        assert row.equal == wanted.equal is False
        np.testing.assert_allclose([row.max, row.mean], [wanted.max, wanted.mean], rtol=1e-5)
    text = str(run)
    assert "∂out/∂p['b'] f32[1,2]: [" in text
    assert "→ [0, 0]" in text
    state = results_state(run)
    assert [row["name"] for row in state["gradients"]] == list(pairs)
    assert summary(run).endswith("3 of 3 gradients changed")
    session.undo()
    assert ran(session).gradients == ()


def test_an_edit_that_leaves_gradients_as_they_are_says_so():
    session = opened()
    session.edit("loss.return", "(y**2).mean() + 1.0")
    run = ran(session)
    assert [row.equal for row in run.gradients] == [True] * 3
    assert summary(run).endswith("no gradient changed")


def test_a_slider_compiles_nothing_and_changes_them():
    session = opened()
    session.attach(
        taxpr.var("h"), "scale", factor=0.5
    )  # which is no edit, as nothing differentiates
    assert ran(session).gradients == ()
    assert not ran(session, gradients=True).reused
    session.set_value(taxpr.var("h"), "factor", 0.25)
    run = ran(session, gradients=True)
    assert run.reused
    new = gradients(lambda p, x: loss(p, x, scale=0.5), P, X)
    [row] = [row for row in run.gradients if row.name == "∂out/∂p['w']"]
    wanted = compare("", gradients(loss, P, X)[0]["w"], new[0]["w"])
    np.testing.assert_allclose(row.max, wanted.max, rtol=1e-5)
    assert ran(session, live=True, gradients=True).gradients == ()
    session.edit("loss.y", "h * 3 + x")
    assert not ran(session).reused
    session.set_value(taxpr.var("h"), "factor", 0.5)
    assert ran(session).reused


def scaled(w, x, *, 数):
    value, gradient = jax.value_and_grad(inner)(w, x)
    return value + gradient * 数**2


def inner(w, x):
    h = jnp.tanh(w * x)
    return (h * w).sum()


def test_the_numbers_of_edits_are_behind_keywords_of_any_name():
    session = Session(scaled, (1.5, X), {"数": jnp.float32(3.0)}, namespace=globals())
    assert session.attach(taxpr.var("inner.h"), "scale", factor=0.25).edits
    [*_, row] = ran(session, gradients=True).gradients
    # Scaling h by a number scales the result of `inner`, and so all that follows from it.
    old = jax.grad(lambda number: scaled(1.5, X, 数=number))(3.0)
    wanted = compare("∂out/∂数", old, old / 4)
    assert row.name == wanted.name
    np.testing.assert_allclose(row.max, wanted.max, rtol=1e-5)


def printing(x):
    jax.debug.print("here")
    y = jnp.sin(x)
    return y.sum()


def test_what_calls_the_host_is_not_run_once_more_unasked(capsys):
    session = opened(printing, X)
    session.edit("printing.y", "jnp.cos(x)")
    assert ran(session).gradients == ()
    jax.effects_barrier()
    assert capsys.readouterr().out.count("here") == 2
    assert ran(session, gradients=True).gradients


def step(p, x):
    value, grad = jax.value_and_grad(loss, allow_int=True)(p, x)
    return {"loss": value, "new": p["w"] - grad["w"]}


def test_where_the_result_is_not_a_loss_alone_one_asks_for_them():
    session = opened(step)
    session.edit("loss.y", "h * 3 + x")
    assert ran(session).gradients == ()
    rows = ran(session, gradients=True).gradients
    assert [row.name for row in rows] == [
        "∂out['loss']/∂p['b']",
        "∂out['loss']/∂p['w']",
        "∂out['loss']/∂x",
    ]
    wanted = compare("", gradients(loss, P, X)[0]["w"], gradients(by_hand, P, X)[0]["w"])
    np.testing.assert_allclose(rows[1].max, wanted.max, rtol=1e-5)
    assert ran(opened(), gradients=True).gradients[0].equal  # of an untouched program


@pytest.mark.parametrize(
    ("fun", "edit", "said"),
    [
        (lambda x: x * 2, None, "no result is a single float"),
        (lambda x: x.astype(int).sum().astype(float), None, ""),
        (lambda x: jax.lax.while_loop(lambda s: s < 9, lambda s: s + 1, x.sum()), None, "while"),
    ],
)
def test_where_there_are_none_the_run_says_why(fun, edit, said):
    del edit
    run = ran(Session(fun, (X,)), gradients=True)
    assert said in run.gradient_note
    assert bool(run.gradients) == (not said)
    if said:
        assert f"No gradients: {run.gradient_note}" in str(run)
        assert run.gradient_note in results_state(run)["gradientNote"]


def test_a_function_with_a_state_and_an_injector_that_is_no_edit():
    total = taxpr.State(0.0, name="total")

    def counted(w):
        value = jnp.sin(w) * 2
        total.value += value
        return value

    session = Session(counted, (0.5,))
    session.attach(taxpr.var("value"), "scale", factor=0.5)
    [row] = ran(session, gradients=True).gradients
    assert row.name == "∂out/∂w"
    np.testing.assert_allclose(float(row.before), 2 * np.cos(0.5), rtol=1e-5)
    np.testing.assert_allclose(float(row.after), np.cos(0.5), rtol=1e-5)


def test_the_panel_offers_them_once_the_source_is_another_one():
    session = opened()
    graph = view_for(session).graph
    assert graph.gradients == ""
    session.edit("loss.y", "h * 3 + x")
    assert graph.gradients == "on"
    session.undo()
    assert graph.gradients == ""
    session = opened(step)
    view = view_for(session)
    session.edit("loss.y", "h * 3 + x")
    assert view.graph.gradients == "off"
    view.graph.set_state({"gradients": "on"})
    session.edit("loss.y", "h * 2")
    assert view.graph.gradients == "on"
    view.start_run()
    assert view.wait(60)
    assert len(session.last.gradients) == 3
    assert len(view.graph.results["gradients"]) == 3
