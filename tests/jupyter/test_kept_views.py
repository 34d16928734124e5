"""Views by name: what is open, what is selected, and the zoom."""

import jax
import jax.numpy as jnp
import pytest

from taxpr_jupyter import PanelError, Session, draw
from taxpr_jupyter._view.widget import PanelView


@jax.jit
def scores(x):
    return jnp.tanh(x) + 1


@jax.jit
def attention(x):
    return scores(x) * 2


def model(x):
    with jax.named_scope("head"):
        y = attention(x)
    return jnp.sin(y)


TANH = "0:jit/call/0:jit/call/0:tanh"


def test_a_drawing_keeps_what_is_open():
    drawing = draw(model, 1.0).keep_view("all").fold("0:jit").keep_view("closed")
    assert drawing.picture.find(TANH) is None
    assert drawing.view("all").picture.find(TANH) is not None
    assert drawing.view("all").view("closed").picture.unfolded == drawing.picture.unfolded
    assert list(drawing.unfold("0:jit").views) == ["all", "closed"]


@pytest.mark.parametrize("name", [TANH, "prim:tanh", "fn:scores prim:tanh", "tanh"])
def test_a_name_that_was_not_kept_is_searched(name):
    drawing = draw(model, 1.0).fold("0:jit")
    assert drawing.view(name).picture.find(TANH) is not None


def test_a_name_of_nothing():
    drawing = draw(model, 1.0).keep_view("all")
    with pytest.raises(PanelError, match=r"no view 'decoder'.*Kept are 'all'\."):
        drawing.view("decoder")


def test_a_session_comes_back():
    session = Session(model, (1.0,))
    session.view_state.update(selected=TANH, place={"x": 3, "y": 4, "scale": 2})
    session.keep_view(" inner ")
    session.fold("0:jit")
    session.view_state.update(selected="", place={})
    session.show_only(["1:sin"])
    session.view("inner")
    assert session.picture().find(TANH) is not None
    assert session.shows_all
    assert session.view_state["selected"] == TANH
    assert session.view_state["place"] == {"x": 3, "y": 4, "scale": 2}
    session.drop_view("inner")
    assert session.views == {}
    with pytest.raises(PanelError, match="There is no view 'inner'"):
        session.drop_view("inner")
    with pytest.raises(PanelError, match="needs a name"):
        session.keep_view(" ")


def test_a_cell_that_runs_again_has_its_views():
    old, new = Session(model, (1.0,)), Session(model, (1.0,))
    old.keep_view("all")
    new.take_over(old)
    assert list(new.views) == ["all"]


def test_the_panel_goes_there_once_the_picture_is_there():
    session = Session(model, (1.0,))
    panel = PanelView(session)
    send = panel.messages.handle
    panel.graph.selected = TANH
    panel.graph.place = {"x": 3, "y": 4, "scale": 2}
    send({"do": "keepView", "address": "inner"})
    assert panel.graph.views == ["inner"]
    panel.graph.selected, panel.graph.place = "", {}
    send({"do": "fold", "address": "0:jit"})
    assert panel.wait(60)
    send({"do": "view", "address": "inner"})
    assert panel.wait(60)
    assert panel.graph.selected == TANH
    assert panel.graph.goes == {"place": {"x": 3, "y": 4, "scale": 2}, "number": 1}
    assert TANH in panel.graph.svg
    send({"do": "view", "address": "inner"})
    assert panel.wait(60)
    assert panel.graph.goes["number"] == 2
    send({"do": "dropView", "address": "inner"})
    assert panel.graph.views == []
