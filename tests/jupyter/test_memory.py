"""What is kept, and what is let go of: sessions, widgets, results of runs."""

import gc
import logging
import math
import re
import threading
import weakref

import ipywidgets
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session, panel
from taxpr_jupyter._runs.released import SMALL, Released, ReleasedTree, _clear_frames
from taxpr_jupyter._view.widget import view_for

SECONDS = 60
SQUARE = 40_000  # bytes of an array that is large


def f(x):
    return {"square": taxpr.tag(jnp.sin(x), name="h") * 2, "sum": x.sum(), "row": x[0]}


def square(value=0.5):
    return jnp.full((100, 100), value)


def are_gone(*refs):
    gc.collect()
    return [ref() for ref in refs] == [None] * len(refs)


# ---- sessions ----------------------------------------------------------------


def works(session):
    session.attach("h", "scale", factor=0.5)
    assert session.run().ok
    assert session.svg()
    assert session.changes().text()
    session.inspect("0:sin")


def opens_a_panel(session):
    view = view_for(session)
    view.graph.set_state({"selected": "0:sin"})
    works(session)
    assert view.start_run().wait(SECONDS)
    assert view.wait(SECONDS)


def closes_a_panel(session):
    opens_a_panel(session)
    view_for(session).close()


def is_closed(session):
    opens_a_panel(session)
    session.close()


def fails(session):
    session.attach("h", lambda ctx, token, params: (token[:3], ctx))
    assert not session.run().ok


@pytest.mark.spread(4)
@pytest.mark.parametrize("use", [works, opens_a_panel, closes_a_panel, is_closed, fails])
def test_a_session_ends_when_nobody_has_it(use):
    x = square()
    session = Session(f, (x,), call="f(x)")
    use(session)
    gone = weakref.ref(session), weakref.ref(x), weakref.ref(session.program)
    del session, x
    assert are_gone(*gone)


def page(view, do):
    """What a page says when it shows a panel, and when it no longer does."""
    view.graph._handle_custom_msg({"do": do}, [])


def let_go():
    """Another session is looked at, and closed again."""
    other = Session(jnp.sin, (1.0,))
    view_for(other).close()


@pytest.mark.slow
def test_a_panel_that_a_page_shows_keeps_its_session():
    session = Session(f, (square(),))
    gone = weakref.ref(session)
    view = view_for(session)
    view._repr_mimebundle_()
    del session
    let_go()
    assert not are_gone(gone)  # a page may be about to show it
    page(view, "shown")
    page(view, "shown")  # in a second view of the cell
    page(view, "gone")
    let_go()
    assert not are_gone(gone)
    page(view, "gone")
    assert not are_gone(gone)
    page(view, "shown")  # the cell was moved
    let_go()
    assert not are_gone(gone)
    assert view.session.run().ok
    page(view, "gone")
    let_go()
    assert are_gone(gone)
    page(view, "run")  # sent before it was closed
    assert "The session of this panel is gone: run the cell again" in view.graph.message["text"]
    let_go()
    assert view.comm is None


def test_a_panel_is_shown_again_by_a_page_that_comes_back():
    session = Session(f, (square(),))
    view = view_for(session)
    view._repr_mimebundle_()
    page(view, "shown")
    page(view, "gone")
    let_go()
    page(view, "shown")
    gone = weakref.ref(session)
    del session
    let_go()
    assert not are_gone(gone)
    view.close()
    assert are_gone(gone)


# ---- widgets -----------------------------------------------------------------


def widgets():
    """The open ones; ipywidgets 7 and 8 keep them in different places."""
    module = ipywidgets.widgets.widget
    found = module._instances if hasattr(module, "_instances") else ipywidgets.Widget.widgets
    return set(found.values())


def test_one_widget_stays_open_and_so_the_thread_of_jupyterlab_for_them():
    view_for(Session(f, (square(),))).close()
    stays = widgets()
    assert stays
    view_for(Session(f, (square(),))).close()
    assert widgets() == stays
    for one in stays:
        one.close()
    view_for(Session(f, (square(),))).close()
    assert widgets()


def test_a_panel_closes_all_its_widgets():
    view_for(Session(f, (square(),))).close()
    before = widgets()
    session = Session(f, (square(),))
    view = view_for(session)
    assert len(widgets() - before) > 1
    for injector in ("scale", "clip", "add"):
        session.attach("h", injector)
        view.graph.set_state({"selected": "h"})
    session.run()
    view.close()
    assert widgets() <= before


def test_a_cell_that_runs_again_and_again_leaves_no_widgets(notebook):
    notebook.good("def f(x): return taxpr.tag(jnp.sin(x), name='h') * 2")

    def runs():
        session = notebook.good("%taxpr f(x)", cell_id="a")
        view_for(session)._repr_mimebundle_()
        return len(widgets())

    first = runs()
    assert [runs() for _ in range(5)] == [first] * 5


# ---- cells -------------------------------------------------------------------


def test_the_old_session_of_a_cell_lets_go_of_what_is_large(notebook):
    notebook.good("x = jnp.ones((100, 100))\ndef f(x): return jnp.sin(x), x.sum()")
    old = notebook.good("%taxpr f(x)", cell_id="a")
    run = old.run()
    gone = weakref.ref(run.outputs[0]), weakref.ref(run.baseline[0])
    del run
    assert not are_gone(*gone)
    new = notebook.good("%taxpr f(x)", cell_id="a")  # IPython keeps the old one among its outputs
    assert are_gone(*gone)
    assert isinstance(old.last.outputs[0], Released)
    assert float(old.last.outputs[1]) == 10_000
    assert old.run().ok  # it stays usable
    assert new.run().ok


def test_of_a_cell_that_runs_again_and_again_one_session_is_left(notebook):
    """IPython keeps each result in `Out`, `_4` and the like."""
    notebook.good("def f(x): return taxpr.tag(jnp.sin(x), name='h') * 2")
    made, arrays, shown = [], [], []
    for _ in range(50):
        session = notebook.good("%taxpr f(x)", cell_id="a")
        view_for(session)._repr_mimebundle_()
        assert session.run().ok
        made.append(weakref.ref(session))
        del session
        gc.collect()
        arrays.append(sum(x.nbytes for x in jax.live_arrays()))
        shown.append(len(widgets()))
    assert [ref() for ref in made[:-1]] == [None] * 49
    assert (arrays[-1], shown[-1]) == (arrays[9], shown[9])
    last = made[-1]()
    assert notebook.names["_"] is last
    outs = list(notebook.names["Out"].values())
    assert outs[-1] is last
    assert str(outs[0]) == (
        "<taxpr session f(x): its cell was run again, and the new session has taken its place>"
    )


def test_a_session_that_somebody_named_stays(notebook):
    notebook.good("def f(x): return jnp.sin(x)")
    notebook.good("%taxpr --name p f(x)", cell_id="a")
    notebook.good("q = p")
    notebook.good("%taxpr --name p f(x)", cell_id="a")
    assert notebook.good("q.run().ok")
    assert notebook.good("p is not q")
    other = notebook.good("%taxpr f(x)", cell_id="b")
    assert any(out is other for out in notebook.names["Out"].values())


def test_a_cell_keeps_no_session_that_nobody_has(notebook):
    notebook.good("def f(x): return jnp.sin(x)")
    gone = weakref.ref(notebook.good("%taxpr f(x)", cell_id="a"))
    notebook.shell.reset()
    assert are_gone(gone)


# ---- results of runs ---------------------------------------------------------


def large_of(run):
    """The large arrays of a run, by where they are."""
    trees = {
        "outputs": run.outputs,
        "baseline": run.baseline,
        "records": {key: (record.value, record.report) for key, record in run.records.items()},
        "ctx": run.ctx,
        "states": (run.final_states, run.baseline_states),
    }
    leaves = jax.tree_util.tree_flatten_with_path(trees)[0]
    return {
        jax.tree_util.keystr(path): leaf
        for path, leaf in leaves
        if isinstance(leaf, (jax.Array, np.ndarray)) and leaf.nbytes > SMALL
    }


def nbytes(*runs):
    """Of the large arrays of runs, each counted once."""
    arrays = {id(x): x.nbytes for run in runs for x in large_of(run).values()}
    return sum(arrays.values())


def with_runs(kept_bytes, count=4):
    session = Session(f, (square(),), kept_bytes=kept_bytes)
    for number in range(count):
        session.attach("h", "scale", factor=float(number))
        assert session.run().ok
    return session


@pytest.mark.parametrize(
    ("kept_bytes", "whole"),
    [
        (0, 1),
        (2 * SQUARE - 1, 1),
        (2 * SQUARE, 2),  # a run has outputs and a record of its own
        (4 * SQUARE, 3),
        (math.inf, 4),
    ],
)
def test_the_last_run_is_whole_and_those_before_as_far_as_there_is_room(kept_bytes, whole):
    session = with_runs(kept_bytes)
    assert [bool(run.released) for run in session.runs] == [True] * (4 - whole) + [False] * whole
    assert nbytes(*session.runs) == (1 + 2 * whole) * SQUARE  # the baseline is one for all
    assert nbytes(session.last) == 3 * SQUARE
    assert all(run.released in (0, 2 * SQUARE) for run in session.runs)


def test_arrays_of_old_runs_are_gone():
    session = Session(f, (square(),), kept_bytes=0)
    gone = [weakref.ref(x) for x in large_of(session.run()).values()]
    kept = weakref.ref(session.last.baseline["square"])
    session.run()
    gc.collect()
    assert [ref() is None for ref in gone] == [ref is not kept for ref in gone]
    assert len(gone) == 3


@pytest.mark.slow
def test_memory_does_not_grow_with_the_runs():
    session = Session(f, (square(),), kept_bytes=0)
    sizes = []
    for number in range(4):
        session.attach("h", "scale", factor=float(number))
        session.run()
        gc.collect()
        sizes.append(sum(x.nbytes for x in jax.live_arrays() if x.nbytes >= SQUARE))
    assert sizes[1:] == sizes[:1] * 3


def test_a_run_that_somebody_holds_stays_as_it_is():
    session = Session(f, (square(),), kept_bytes=0)
    session.attach("h", "scale", factor=0.5)  # else its results are those of the untouched program
    first = session.run()
    session.run()
    assert first.outputs["square"].shape == (100, 100)
    assert first.released == 0
    assert session.runs[0].released == 2 * SQUARE


def test_what_is_small_stays_and_so_do_texts_and_differences():
    session = with_runs(math.inf)
    before = session.runs[0]
    session.kept_bytes = 0
    after = session.runs[0]
    assert (after.differences, after.times, after.code) == (
        before.differences,
        before.times,
        before.code,
    )
    assert after.outputs["sum"] is before.outputs["sum"]
    assert after.outputs["row"] is before.outputs["row"]
    assert after.baseline["square"] is before.baseline["square"]  # the last run has it, too
    (record,), (whole,) = after.records.values(), before.records.values()
    assert (record.stats, record.text) == (whole.stats, whole.text)


OF_RELEASED = "<f32[100,100] of run 1, released: print(run.code) shows how to have it again>"
WAS_RELEASED = (
    "The array f32[100,100] of run 1 was released. `print(run.code)` shows Python that makes it "
    "again, and `session.kept_bytes` is how much the runs before the last one keep"
)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        jnp.asarray,
        np.sum,
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: x[0],
        lambda x: list(x),
        lambda x: jnp.ones(3) * x,
        lambda x: x.mean(),
        lambda x: x.T,
        float,
    ],
)
def test_what_was_released_says_so_wherever_it_is_used(use):
    released = with_runs(0, 2).runs[0].outputs["square"]
    assert (released.shape, released.dtype, released.nbytes) == ((100, 100), jnp.float32, SQUARE)
    assert repr(released) == OF_RELEASED
    with pytest.raises((PanelError, AttributeError), match=re.escape(WAS_RELEASED)):
        use(released)


@pytest.mark.parametrize("use", [jnp.sum, jax.jit(jnp.sin), jax.vmap(jnp.sin)])
def test_errors_of_jax_say_that_it_was_released(use):
    with pytest.raises(TypeError, match=re.escape(OF_RELEASED)):
        use(with_runs(0, 2).runs[0].outputs["square"])


def test_a_run_says_that_it_was_released():
    first, last = with_runs(0, 2).runs
    assert "80 kB of this were released. `print(run.code)` shows Python that" in str(first)
    assert "released" not in str(last)


def test_the_last_run_that_came_to_its_end_is_the_one_that_is_kept():
    session = with_runs(0, 2)
    session.attach("h", lambda ctx, token, params: (token[:3], ctx))
    assert not session.run().ok
    assert [run.released for run in session.runs] == [2 * SQUARE, 0, 0]
    assert session.runs[1].outputs["square"].shape == (100, 100)


def test_a_failed_run_keeps_no_arrays(caplog):
    caplog.set_level(logging.CRITICAL)  # what JAX logs keeps them

    def raises(x):
        raise ValueError("no")

    def bad(ctx, token, params):
        return jax.pure_callback(raises, token, token), ctx

    session = Session(f, (square(),), kept_bytes=0)
    session.attach("h", bad)
    assert not session.run().ok
    before = sum(x.nbytes for x in jax.live_arrays())
    for _ in range(3):
        assert not session.run().ok
    gc.collect()
    assert sum(x.nbytes for x in jax.live_arrays()) <= before


def test_release_lets_go_of_everything_that_another_run_makes():
    session = with_runs(math.inf)
    gone = [weakref.ref(x) for run in session.runs for x in large_of(run).values()]
    session.release()
    assert are_gone(*gone)
    assert session.last.outputs["sum"] == 5000
    again = session.run()
    assert not again.reused
    assert again.outputs["square"].shape == (100, 100)


def test_states_that_were_released_are_not_written():
    total = taxpr.State(jnp.zeros((100, 100)), name="total")

    def add(x):
        total.value += x
        return total.value.sum()

    session = Session(add, (1.0,))
    session.watch_state("total")
    session.run()
    session.release()
    assert isinstance(session.last.final_states["total"], Released)
    (state,) = session.last.states
    assert state.writes[0].values is None
    assert state.writes[0].lines() == []
    assert state.writes[0].note.endswith("released")
    with pytest.raises(PanelError, match="values of the states were released: run again first"):
        session.write_states()
    session.run()
    session.write_states()
    assert float(total.value.sum()) == 10_000


@pytest.mark.parametrize("number", [-1, "1 GB", None, True, math.nan])
def test_what_is_no_number_of_bytes_is_refused(number):
    session = Session(f, (square(),))
    text = "kept_bytes is a number of bytes, such as"
    with pytest.raises(PanelError, match=text):
        session.kept_bytes = number
    with pytest.raises(PanelError, match=text):
        panel(f, kept_bytes=number)(square())
    assert session.kept_bytes == 2**28


def test_the_magic_has_a_setting_for_it(notebook):
    assert notebook.good("%taxpr jnp.sin(x)").kept_bytes == 2**28
    notebook.good("%config TaxprMagics.kept_bytes = 1e6")
    assert notebook.good("%taxpr jnp.sin(x)").kept_bytes == 1e6


def test_results_of_other_devices_are_kept_as_far_as_there_is_room():
    session = with_runs(0, 1)
    executor = session._runner._executor
    outputs, totals = next(iter(executor._baselines.values()))
    copies = [jax.tree.map(jnp.copy, outputs) for _ in range(3)]
    executor._baselines = {k: (copy, totals) for k, copy in enumerate(copies)}
    room = sum(x.nbytes for x in jax.tree.leaves(outputs))
    assert len(executor.trimmed(2 * room)) == 3
    assert len(executor.trimmed(room)) == 2
    (last,) = executor.trimmed(0)
    assert last is copies[2]


class Vector:
    """Takes nothing but an array, of which it reads this."""

    def __init__(self, array, what="ndim"):
        self.array, self.what = array, what
        if hasattr(array, "nbytes"):
            assert getattr(array, what)


jax.tree_util.register_pytree_node(
    Vector, lambda v: ((v.array,), v.what), lambda what, leaves: Vector(*leaves, what)
)


@pytest.mark.parametrize(
    ("what", "released"),
    [("ndim", Vector), ("size", Vector), ("itemsize", Vector), ("sum", ReleasedTree)],
)
def test_a_class_that_reads_its_arrays_can_be_released(what, released):
    session = Session(lambda x: Vector(x * 2, what), (square(),), kept_bytes=0)
    session.attach("0:mul", "scale", factor=0.5)
    first = session.run()
    second = session.run()
    assert first.ok
    assert second.ok
    assert type(session.runs[0].outputs) is released
    session.release()
    assert "released" in repr(getattr(session.last.outputs, "array", session.last.outputs))


def test_a_whole_value_that_was_released_says_so():
    session = Session(lambda x: Vector(x * 2, "sum"), (square(),), kept_bytes=0)
    session.run()
    session.release()
    with pytest.raises(AttributeError, match="The value Vector of run 1 was released"):
        _ = session.last.outputs.array


@pytest.mark.parametrize("before", [ValueError("before"), None])
def test_the_frames_of_an_error_that_is_its_own_cause_are_cleared(before):
    error = ValueError("no")
    error.__cause__ = error.__context__ = before or error
    if before is not None:
        before.__context__ = error
    clearing = threading.Thread(target=_clear_frames, args=(error,), daemon=True)
    clearing.start()
    clearing.join(60)
    assert not clearing.is_alive()
