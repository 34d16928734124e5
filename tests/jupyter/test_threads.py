"""What several threads do with one session: a kernel with subshells, layouts, runs."""

import threading
import time

import jax.numpy as jnp
import pytest
from threads import at_once

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._layout.layout import LaidOut
from taxpr_jupyter._output import drawing
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._view.widget import view_for

pytestmark = pytest.mark.usefixtures("switches_often")

ROUNDS = 200


def program():
    return taxpr.trace(lambda x: jnp.sin(taxpr.tag(x * 2, name="h")))(1.0)


def yielding(kind):
    """The class, with a chance for other threads before each access to an attribute."""

    class Yielding(kind):
        def __getattribute__(self, name):
            time.sleep(0)
            return super().__getattribute__(name)

    return Yielding


def test_each_layout_is_of_its_own_text(monkeypatch):
    monkeypatch.setattr(drawing, "arranged", lambda picture, _: picture)
    monkeypatch.setattr(drawing, "lay_out", lambda plan, *_: LaidOut(plan(), "dot", 0.0, ""))
    layouts = yielding(drawing.Layouts)()

    def asks(dot):
        return lambda: {layouts.of(dot, 1.0, None).layout for _ in range(ROUNDS)}

    assert at_once(*map(asks, "abcd")) == [{dot} for dot in "abcd"]


def test_each_program_is_drawn_by_its_own_builder():
    renderer = Session(jnp.sin, (1.0,))._renderer
    renderer.__class__ = yielding(Renderer)
    edited = [Edited(program(), Edits()) for _ in range(4)]

    def asks(one):
        return lambda: {renderer.builder(one).program for _ in range(ROUNDS)}

    assert at_once(*map(asks, edited)) == [{one.program} for one in edited]


def test_what_is_known_of_a_program_is_taken_over_while_more_is_found():
    traced, edits = program(), Edits()
    before = Edited(traced, edits)

    def finds():
        for number in range(100 * ROUNDS):  # as a property does that is looked at first
            vars(before)[f"found {number}"] = number

    def takes_over():
        return {Edited(traced, edits, before).program for _ in range(ROUNDS)}

    _, *programs = at_once(finds, takes_over, takes_over)
    assert programs == [{traced}] * 2


def test_what_is_known_of_a_program_is_found_once_for_all_edits_with_its_tags():
    first = Edited(program(), Edits())
    second = first.changed(unfolded=frozenset())
    assert second.index is first.index  # also where the later one was asked first
    third = second.changed(tags={"in0": {"name": "x"}})
    assert third.index is not first.index


def test_a_session_has_one_panel_for_all_threads():
    session = Session(jnp.sin, (1.0,))
    views = at_once(*[lambda: view_for(session)] * 4)
    assert len(set(map(id, views))) == 1
    views[0].close()


def test_results_are_released_while_runs_go_on():
    session = Session(lambda x: jnp.sin(x), (jnp.ones((100, 100)),), kept_bytes=0)
    stop = threading.Event()

    def runs():
        try:
            return [session.run() for _ in range(10)]
        finally:
            stop.set()

    def releases():
        while not stop.is_set():
            session.release()
            session.kept_bytes = 0

    found, _ = at_once(runs, releases)
    assert [run.error for run in found] == [None] * 10
    assert all(run.outputs.shape == (100, 100) for run in found)
