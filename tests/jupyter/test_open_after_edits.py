"""The picture stays as open as it was when the source is edited, and shows the edit."""

import threading

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._view.widget import view_for


def attend(p, x):
    queries, keys, values = x @ p["queries"], x @ p["keys"], x @ p["values"]
    weights = jax.nn.softmax(queries @ keys.T, axis=-1)
    return weights @ values


def block(p, x):
    attended = x + attend(p, x / jnp.sqrt((x**2).mean(-1, keepdims=True)))
    hidden = jax.nn.gelu(attended @ p["up"])
    return attended + hidden @ p["down"]


def loss(params, x):
    for p in params:
        x = block(p, x)
    return (x**2).mean()


@jax.jit
def train_step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    new = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return new, value


def opened():
    shapes = dict.fromkeys(("queries", "keys", "values"), (8, 8)) | {"up": (8, 32), "down": (32, 8)}
    p = {name: jnp.ones(shape) / 8 for name, shape in shapes.items()}
    return Session(train_step, ([p, p], jnp.ones((5, 8))), namespace=globals())


@pytest.fixture
def session():
    return opened()


def titles(session):
    """The titles of the statements that are open."""
    return {one.lines[0] for one in session.picture().clusters if one.kind == "group"}


def test_an_edit_of_a_value_and_undo(session):
    session.reveal(taxpr.var("weights", occurrence=0))
    before = titles(session)
    assert "weights = jax.nn.softmax(queries @ keys.T, axis=-1)" in before
    attached = session.attach(taxpr.var("weights", occurrence=0), "scale", factor=0.5)
    assert attached.edits
    assert before <= titles(session)
    session.undo()
    assert session.program is session.untouched
    assert titles(session) == before


def test_a_line_that_is_typed_over(session):
    session.reveal(taxpr.var("weights", occurrence=0))
    before = titles(session)
    line = session.edit("attend.weights", "jax.nn.softmax(3 * queries @ keys.T, axis=-1)")
    typed = {"weights = jax.nn.softmax(3 * queries @ keys.T, axis=-1)"}
    assert titles(session) - before == typed
    assert before - titles(session) == {"weights = jax.nn.softmax(queries @ keys.T, axis=-1)"}
    session.unedit(line)
    assert titles(session) == before


def test_what_was_opened_by_hand_makes_room_for_nothing(session):
    first = titles(session)
    for title in "for p in params", "return (x**2).mean()":
        nodes = session.picture().nodes
        closed = [one.address for one in nodes if one.lines[0].startswith(title)]
        for address in closed[:1]:  # the loop may be open in the first picture
            session.unfold(address)
    by_hand = titles(session) - first
    session.edit("attend.return", "2 * weights @ values")
    assert "return (x**2).mean()" in by_hand
    session.reveal(taxpr.var("weights", occurrence=0))
    assert by_hand <= titles(session)


def test_a_part_alone_is_of_the_program_before(session):
    session.show_only(session.upstream(taxpr.var("attended", occurrence=0)))
    assert [one for one in session.picture().nodes if "rest:" in one.address]
    session.edit("attend.return", "2 * weights @ values")
    assert not [one for one in session.picture().nodes if "rest:" in one.address]


def run_after_typing(session, monkeypatch, text):
    """Run pressed while a typed line is traced: the panel, what lets tracing end, and the run."""
    view, goes_on, edit = view_for(session), threading.Event(), session.edit

    def slow(*args):
        assert goes_on.wait(60)
        return edit(*args)

    monkeypatch.setattr(session, "edit", slow)
    view.graph.view = "source"
    view.wait()
    [file] = {part["file"] for part in view.graph.source["parts"]}
    line = f"{file}:{attend.__code__.co_firstlineno + 2}"
    view.messages.take({"do": "edit", "address": line, "text": text})
    return view, goes_on, view.start_run()


def test_a_run_waits_for_the_line_that_was_typed_before(session, monkeypatch):
    """Tracing it may take seconds, and Run would run the line of before."""
    view, goes_on, task = run_after_typing(session, monkeypatch, "jax.nn.sigmoid(queries @ keys.T)")
    assert not task.wait(0.3)
    assert task.label == "waiting for the edited source"
    goes_on.set()
    assert task.wait(60)
    assert view.wait(60)
    assert any("sigmoid" in words for words in session.last.setup.values())


def test_a_run_after_a_mistake_runs_no_older_line_and_leaves_the_words(session, monkeypatch):
    view, goes_on, task = run_after_typing(session, monkeypatch, "jax.nn.nothing(queries)")
    goes_on.set()
    assert task.wait(60)
    assert view.wait(60)
    assert session.last is None
    assert "nothing" in view.graph.source_edits["mistake"]
    assert view.start_run().wait(60)  # who asks again runs what is there
    assert session.last.ok


def test_a_run_that_waits_for_an_edit_can_be_cancelled(session, monkeypatch):
    view, goes_on = view_for(session), threading.Event()
    monkeypatch.setattr(session, "edit", lambda *args: goes_on.wait(60))
    view.graph.view = "source"
    view.wait()
    [file] = {part["file"] for part in view.graph.source["parts"]}
    line = f"{file}:{attend.__code__.co_firstlineno + 2}"
    view.messages.take({"do": "edit", "address": line, "text": "jax.nn.relu(queries @ keys.T)"})
    task = view.start_run()
    task.cancel()
    assert task.wait(30)
    assert not goes_on.is_set()
    goes_on.set()
    assert view.wait(60)


def test_the_panel_shows_what_was_edited(session):
    view = view_for(session)
    graph, take = view.graph, view.messages.take
    graph.view = "source"
    view.wait()
    before = titles(session)
    assert "weights = jax.nn.softmax(queries @ keys.T, axis=-1)" not in before
    [file] = {part["file"] for part in graph.source["parts"]}
    line = f"{file}:{attend.__code__.co_firstlineno + 2}"
    take({"do": "edit", "address": line, "text": "jax.nn.sigmoid(queries @ keys.T)"})
    view.wait()
    assert not graph.source_edits["mistake"]
    drawn = ["".join(" ".join(one.lines).split()) for one in session.picture().nodes]
    assert [one for one in drawn if one.startswith("weights=jax.nn.sigmoid(queries@keys.T)")]
    graph.selected = session.reveal(taxpr.var("hidden", occurrence=0))
    take({"do": "attach", "address": graph.selected, "injector": "scale"})
    view.wait()
    [key] = session.injectors
    assert session.injectors[key].edits
    assert graph.selected == taxpr.Address(key).eqn  # as before: the equation, not its result
    assert session.picture().find(graph.selected)
    view.close()


def test_the_panel_of_a_cell_that_ran_again_says_which_lines_are_edited(session):
    line = session.edit("attend.weights", "jax.nn.sigmoid(queries @ keys.T)")
    again = opened()
    again.take_over(session)
    view = view_for(again)
    edits = view.graph.source_edits
    assert list(edits["lines"].values()) == ["jax.nn.sigmoid(queries @ keys.T)"]
    assert "+    weights = jax.nn.sigmoid(queries @ keys.T)" in edits["diff"]
    again.unedit(line)
    assert not view.graph.source_edits["lines"]
    view.wait()
    view.close()
