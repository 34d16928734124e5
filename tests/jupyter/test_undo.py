"""Undo goes back through all edits, in their order, and redo forward."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._errors import PanelError

W = jnp.array([[0.5, -0.2], [0.1, 0.7]])
X = jnp.array([[1.0, 0.5], [-1.0, 2.0]])


def loss(w, x):
    h = jnp.tanh(x @ w)
    y = h + x
    return (y**2).mean()


@jax.jit
def step(w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    new = w - 0.1 * grad
    return value, new


def opened():
    return Session(step, (W, X), namespace=globals(), call="step(W, X)")


def state(session):
    """What a user sees of the edits."""
    tags = [(site.name, site.address, site.added) for site in session.sites()]
    attached = [(one.key, one.name, dict(one.values)) for one in session.injectors.values()]
    return session.code(), session.edits(), session.diff(), tags, attached


LINE = f"test_undo.py:{loss.__code__.co_firstlineno + 2}"
EDITS = {
    "a tag": lambda s: s.tag(taxpr.var("grad"), name="g"),
    "another name": lambda s: s.rename("g", "gradient"),
    "an edit of the source": lambda s: s.attach(taxpr.var("h"), "scale", factor=0.5),
    "its value": lambda s: s.set_value(taxpr.var("h"), "factor", 0.25),
    "an injection": lambda s: s.attach(taxpr.var("new"), "clip", high=0.1),
    "a line": lambda s: s.edit(LINE, "h - x"),
    "the line again": lambda s: s.edit(LINE, "h * x"),
    "another injector there": lambda s: s.attach(taxpr.var("h"), "zero"),
    "the line as it was": lambda s: s.unedit(LINE),
    "no injector": lambda s: s.detach(taxpr.var("h")),
    "no tag": lambda s: s.untag(taxpr.var("new")),
}


def test_undo_goes_back_step_by_step_and_redo_forward():
    session = opened()
    seen, outputs = [state(session)], [session.run().outputs]
    for change in EDITS.values():
        change(session)
        seen.append(state(session))
        outputs.append(session.run().outputs)
    for before in reversed(range(len(EDITS))):
        session.undo()
        assert state(session) == seen[before]
        same(session.run().outputs, outputs[before])
    assert session.program is session.untouched
    assert session.undoes == ""
    with pytest.raises(PanelError, match="There is nothing to undo"):
        session.undo()
    for after in range(1, len(seen)):
        session.redo()
        assert state(session) == seen[after]
    same(session.run().outputs, outputs[-1])
    assert session.redoes == ""
    with pytest.raises(PanelError, match="There is nothing to redo"):
        session.redo()


def same(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_step_says_what_it_is():
    session = opened()
    said = []
    for change in EDITS.values():
        change(session)
        said.append(session.undoes)
    assert said == [
        "tag g",
        "tag g is gradient",
        "scale at h",
        "scale(factor=0.25) at h",
        "clip at new",
        f"{LINE}: y = h - x",
        f"{LINE}: y = h * x",
        "zero at h",
        f"{LINE} as in the source",
        "no injector at h",
        "no tag new",
    ]
    assert session.undo() == "no tag new"
    assert session.undoes == "no injector at h"
    assert session.redoes == "no tag new"
    assert session.redo() == "no tag new"


def test_something_new_takes_the_place_of_what_was_undone():
    session = opened()
    session.edit("loss.y", "h - x")
    session.undo()
    session.attach(taxpr.var("h"), "zero")
    assert session.redoes == ""
    session.undo()
    assert not session.edits()
    assert not session.injectors


def test_values_of_one_slider_are_one_step():
    session = opened()
    session.attach(taxpr.var("h"), "scale", factor=0.5)
    for value in (0.6, 0.7, 0.8):
        session.set_value(taxpr.var("h"), "factor", value)
        session.run(live=True)
    session.undo()
    [one] = session.injectors.values()
    assert one.values == {"factor": 0.5}
    session.undo()
    assert not session.injectors


def test_two_drags_and_a_run_between_values_are_steps_of_their_own():
    session = opened()
    session.attach(taxpr.var("h"), "scale", factor=0.5)
    for drag, value in ((1, 0.6), (1, 0.7), (2, 0.8), (2, 0.9)):
        session.set_value(taxpr.var("h"), "factor", value, step=drag)
    session.run()
    session.set_value(taxpr.var("h"), "factor", 1.0, step=2)
    for before in (0.9, 0.7, 0.5):
        session.undo()
        [one] = session.injectors.values()
        assert one.values == {"factor": before}


def test_a_drag_that_comes_back_to_its_start_is_no_step():
    session = opened()
    session.attach(taxpr.var("h"), "scale", factor=0.5)
    said = session.undoes
    for value in (0.6, 0.7, 0.5):
        session.set_value(taxpr.var("h"), "factor", value, step=1)
    assert session.undoes == said
    for value in (0.8, 0.9):  # the drag goes on
        session.set_value(taxpr.var("h"), "factor", value, step=1)
    session.undo()
    [one] = session.injectors.values()
    assert one.values == {"factor": 0.5}
    assert session.undoes == said


def test_what_went_wrong_is_no_step_and_folding_is_none():
    session = opened()
    session.edit("loss.y", "h - x")
    said = session.undoes
    with pytest.raises(PanelError):
        session.edit("loss.y", "nothing")
    with pytest.raises(PanelError):
        session.attach(taxpr.var("h"), "scale", factr=1.0)
    with pytest.raises(PanelError):
        session.tag("gone")
    session.unfold("0:jit")
    session.heat = "flops"
    session.run()
    assert session.undoes == said
    session.undo()
    assert "0:jit" in session.unfolded  # what is open stays as it is


def test_what_is_tried_out_later():
    session = opened()
    with session.later():
        session.attach(taxpr.var("h"), "scale", factor=0.5)
    session.undo()
    session.settle()
    assert not session.injectors
    session.redo()
    session.settle()
    [one] = session.injectors.values()
    assert one.edits
    with session.later():
        session.attach(taxpr.var("new"), lambda ctx, token, params: 1 / 0)
    session.settle()
    assert session.undoes.endswith("at new")


def test_states_and_a_cell_that_runs_again():
    total = taxpr.State(0.0, name="total")

    def add(x):
        total.value += x
        return total.value

    old = Session(add, (2.0,))
    old.set_state("total", 40.0)
    assert old.undoes == "initial value of total"
    session = Session(add, (2.0,))
    session.take_over(old)
    assert float(session.run().outputs) == 42.0
    assert session.undoes == "what was kept from the last run of this cell"
    session.undo()
    assert float(session.run().outputs) == 2.0


def test_random_orders():
    rng = random.Random(0)
    session, seen, at = opened(), [], 0
    seen.append(state(session))
    for _ in range(60):
        way = rng.random()
        if way < 0.3 and at:
            session.undo()
            at -= 1
        elif way < 0.45 and at < len(seen) - 1:
            session.redo()
            at += 1
        else:
            try:
                rng.choice(list(EDITS.values()))(session)
            except PanelError:
                continue
            now = state(session)
            if now != seen[at]:
                seen, at = [*seen[: at + 1], now], at + 1
        assert state(session) == seen[at]
