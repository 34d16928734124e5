"""The comparison in the panel, with no browser attached."""

import re

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session, compare, panel
from taxpr_jupyter._layout import layout
from taxpr_jupyter._view.parts import comparing
from taxpr_jupyter._view.widget import view_for

SECONDS = 60
SAME = {"the same": 5}  # the tag, too


def f(x):
    y = taxpr.tag(jnp.sin(x), name="y")
    return y + jnp.sum(jnp.cos(y))


def cut(ctx, token, params):
    """Changes the shape."""
    return token[:2], ctx


@pytest.fixture
def session():
    session = panel(f)(jnp.ones(3))
    yield session
    view_for(session).close()


@pytest.fixture
def view(session):
    return view_for(session)


def opened(view, name="compare"):
    view.graph.set_state({"view": name})
    assert view.wait(SECONDS)
    return view.graph.comparison


def counted(state):
    return {one["name"]: one["count"] for one in state["counts"]}


def test_nothing_is_compared_before_somebody_looks(session, view):
    session.attach("y", "scale", factor=2.0)
    assert view.wait(SECONDS)
    assert view.graph.comparison == {}


def test_it_shows_both_sides_and_what_is_different(session, view):
    session.attach("y", "scale", factor=2.0)
    state = opened(view)
    changes = session.changes()
    assert 'class="compared before"' in state["svg"]
    assert 'class="compared after"' in state["svg"]
    assert state["svg"].count('class="node ') == changes.svg().count('class="node ')
    assert state["changes"] == [one.text() for one in changes.diff.changes]
    assert state["changes"][-1].endswith(" added")
    found = counted(state)
    assert found["added"] == changes.diff.counts["added"] > 0
    assert found["the same"] == changes.diff.counts["same"] == 4  # sin, cos, sum and add
    assert sum(found.values()) == sum(changes.diff.counts.values())
    assert state["note"] == ""
    assert state["text"] == ""
    assert {one["mark"] for one in state["counts"]} <= {"new", "gone", "changed", "follows", "same"}


def test_without_changes_it_says_so(view):
    state = opened(view)
    assert counted(state) == SAME
    assert state["changes"] == []
    assert state["note"] == comparing.UNCHANGED


def test_it_follows_the_session_while_it_is_looked_at(session, view):
    opened(view)
    session.attach("y", "scale", factor=2.0)
    assert view.wait(SECONDS)
    assert counted(view.graph.comparison)["added"] > 0
    session.detach("y")
    assert view.wait(SECONDS)
    assert counted(view.graph.comparison) == SAME


def test_what_has_changed_meanwhile_is_compared_when_it_is_opened_again(session, view):
    opened(view)
    opened(view, "picture")
    session.attach("y", "scale", factor=2.0)
    assert view.wait(SECONDS)
    assert counted(view.graph.comparison) == SAME  # nobody looks
    assert counted(opened(view))["added"] > 0


def test_it_is_not_made_again_for_another_value_or_fold(session, view):
    session.attach("y", "scale", factor=2.0)
    opened(view)
    sent = []
    view.graph.observe(lambda change: sent.append(change.name), "comparison")
    session.set_value("y", "factor", 3.0)
    session.heat = "flops"
    opened(view, "picture")
    opened(view)
    assert sent == []


def test_an_injector_that_cannot_work(session, view):
    session.attach("y", cut)
    state = opened(view)
    assert state.keys() == {"note"}
    assert re.search(r"The injector at tag '\w+' \(.*at t0\) cannot work", state["note"])


def test_without_a_layout_it_is_text(session, view, monkeypatch):
    session.attach("y", "scale", factor=2.0)
    nothing = layout.LaidOut(None, "", 0.0, "No picture: there is no engine.")
    monkeypatch.setattr("taxpr_jupyter._output.comparison.lay_out", lambda *_: nothing)
    monkeypatch.setattr(comparing, "LINES", 3)
    state = opened(view)
    assert state["svg"] == ""
    assert state["note"] == "No picture: there is no engine."
    lines = state["text"].split("\n")
    assert len(lines) == 4
    assert lines[-1].endswith("more lines")


def test_a_cell_that_is_run_again_shows_it_again(session, view):
    opened(view)
    view.close()
    again = view_for(session)
    assert again.wait(SECONDS)
    assert counted(again.graph.comparison) == SAME


def test_it_can_be_cancelled(session, view, monkeypatch):
    session.attach("y", "scale", factor=2.0)
    shown = []

    def svg(self, cancel=None):
        view.cancel()
        shown.append(cancel.is_set())
        return None

    monkeypatch.setattr("taxpr_jupyter._output.comparison.Comparison.svg", svg)
    assert opened(view) == {}
    assert shown == [True]
    monkeypatch.undo()
    opened(view, "picture")
    assert "svg" in opened(view)


def test_both_sides_open_alike():
    def before(x):
        return jnp.cos(jax.jit(lambda y: jnp.sin(y) + 1)(x))

    def after(x):
        return jnp.cos(jax.jit(lambda y: jnp.sin(y) + 1)(x)) * 2

    found = compare(before, after, 1.0)
    opened = found.unfold("0:jit", "before")
    assert ["0:jit" in picture.unfolded for picture in opened.pictures] == [True, True]
    closed = opened.fold("0:jit")
    assert ["0:jit" in picture.unfolded for picture in closed.pictures] == [False, False]
    assert closed.toggled("0:jit", "before").pictures == opened.pictures
    with pytest.raises(PanelError, match="1:cos holds nothing that could be drawn open"):
        found.unfold("1:cos")


def test_the_comparison_says_in_words_what_injectors_did():
    def model(w, x):
        h = jnp.sin(x @ w)
        g = h * 2
        return g.sum()

    def smoothed(ctx, token, params):
        return token * ctx["a"], {**ctx, "a": ctx["a"] + 1}

    session = Session(model, (jnp.ones((3, 3)), jnp.ones((3, 3))), names=True)
    session.attach("h", "scale", factor=3.0)
    found = session.changes()
    said = [change.text(lambda source: "") for change in found.diff.changes]
    assert said[1:] == ["input factor of scale at h added", "output factor of scale at h added"]
    assert "+++ model with scale(factor=3) at h\n" in found.text()
    assert "ctx" not in found.text()
    session.attach("g", smoothed, ctx={"a": 1.0, "b": jnp.ones(2)})
    text = session.changes().text()
    assert "ctx['a'] of smoothed at g" in text
    assert "'t0'" not in text
    session.append("h", "add", value=1.0)
    assert "value of add at h" in session.changes().text()
