"""Live: whether runs follow new values without being asked for, and what the user chose."""

import math
import threading
import time

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._session import runner
from taxpr_jupyter._store import following
from taxpr_jupyter._view.widget import view_for

SECONDS = 60


def f(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    return h.sum()


def made(function=f, **choices):
    session = Session(function, (jnp.ones(3),), **choices)
    session.attach("h", "scale", factor=0.5)
    return session


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch):
    """What is quick here is not up to the machine."""
    monkeypatch.setattr(following, "QUICK", float(SECONDS))
    monkeypatch.setattr("taxpr_jupyter._view.running.REST", 0.01)


@pytest.fixture
def compiled():
    """Counts what XLA compiles."""
    names = []

    def found(name, seconds, **more):
        if name == "/jax/core/compile/backend_compile_duration":
            names.append(name)

    jax.monitoring.register_event_duration_secs_listener(found)
    yield lambda: len(names)
    jax.monitoring.clear_event_listeners()


@pytest.fixture
def shown():
    """Shows the panel of a session."""
    views = []

    def show(session):
        views.append(view_for(session))
        assert views[-1].wait(SECONDS)
        return views[-1]

    yield show
    for view in views:
        view.close()


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def set_and_run(session, factor):
    """Sets the factor, and waits until it has run, and is looked at as a whole."""
    session.set_value("h", "factor", factor)
    wait_for(lambda: not session.stale and not session.last.live)


def test_a_quick_run_is_followed_by_others_and_nothing_compiles(shown, compiled):
    session = made()
    view = shown(session)
    session.set_value("h", "factor", 0.25)
    assert view.wait(SECONDS)
    assert (session.last, session.live, view.graph.live) == (None, False, False)  # not asked for
    assert session.why_not_live == "the program has not run yet"
    session.run()
    assert (session.live, view.graph.live) == (True, True)
    set_and_run(session, 0.125)  # what compares arrays, and shows them
    before = compiled()
    for factor in (0.5, 0.75, 2.0):
        set_and_run(session, factor)
        assert session.last.reused
        assert session.last.outputs == pytest.approx(3 * factor * math.sin(1.0))
    assert compiled() == before


def test_a_changed_variable_of_a_train_step_is_followed_and_not_traced_again(compiled):
    traced = []

    def loss(w):
        traced.append(w)
        h = jnp.sin(w)
        return (h**2).sum()

    session = Session(jax.value_and_grad(loss), (jnp.ones(3),))
    h = next(one for one in session.program.variables() if one.name == "h")
    session.tag(h.address, name="h")
    assert session.attach("h", "scale", factor=0.5).edits
    assert session.run().ok
    assert session.live, session.why_not_live
    before = len(traced), compiled()
    session.set_value("h", "factor", 0.25)
    assert session.live, session.why_not_live
    value, slope = session.run(live=True).outputs
    assert (len(traced), compiled()) == before
    w = jnp.ones(3)
    assert jnp.allclose(value, ((0.25 * jnp.sin(w)) ** 2).sum())
    assert jnp.allclose(slope, 0.125 * jnp.sin(w) * jnp.cos(w))


def test_undo_and_redo_of_values_run_again_as_the_values_did(shown, compiled):
    session = made()
    view = shown(session)
    session.run()
    set_and_run(session, 0.25)
    set_and_run(session, 0.75)
    before = compiled()
    for step, factor in (("undo", 0.5), ("redo", 0.75), ("undo", 0.5), ("redo", 0.75)):
        view.messages.take({"do": step})
        wait_for(lambda: not session.stale and not session.last.live)
        assert session.last.outputs == pytest.approx(3 * factor * math.sin(1.0))
        assert view.graph.history == {"undo": session.undoes, "redo": session.redoes}
    assert compiled() == before
    count = len(session.runs)
    session.tag("in0")
    session.undo()  # nothing that runs otherwise
    assert view.wait(SECONDS)
    assert len(session.runs) == count


def test_a_slow_run_is_not_followed_and_one_that_becomes_slow_says_so(shown, monkeypatch):
    session = made()
    view = shown(session)
    session.run()
    assert view.graph.live
    run = session.run

    def slowly(*args, **more):
        monkeypatch.setattr(following, "QUICK", 0.0)
        return run(*args, **more)

    monkeypatch.setattr(session, "run", slowly)
    session.set_value("h", "factor", 0.25)
    wait_for(lambda: session.last.number == 2)
    wait_for(lambda: not view.graph.live)
    assert "Live is off: the last run took" in view.graph.message["text"]
    assert not session.live
    count = session.last.number
    session.set_value("h", "factor", 0.75)
    assert view.wait(SECONDS)
    assert session.last.number == count


def test_the_users_choice_wins_over_time(shown, monkeypatch):
    session = made()
    view = shown(session)
    session.run()
    view.graph.set_state({"live": False})
    assert (session.live, view.graph.live) == (False, False)
    session.run()
    assert (session.live, view.graph.live) == (False, False)
    monkeypatch.setattr(following, "QUICK", 0.0)
    view.graph.set_state({"live": True})
    assert view.wait(SECONDS)
    session.run()
    assert (session.live, view.graph.live) == (True, True)
    session.live = None
    assert (session.live, view.graph.live) == (False, False)
    with pytest.raises(PanelError, match="live is True, False, or None: not 1"):
        session.live = 1


def test_the_choice_goes_with_a_file_and_with_a_cell_that_runs_again(tmp_path):
    for choice in (True, False, None):
        session = made()
        session.live = choice
        session.save(tmp_path / "edits.json")
        loaded, later = Session(f, (jnp.ones(3),)), Session(f, (jnp.ones(3),))
        loaded.load(tmp_path / "edits.json")
        later.take_over(session)
        for one in (session, loaded, later):
            one.run()
            assert one.live is (True if choice is None else choice)


def printed(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    jax.debug.print("{}", h.sum())
    return h.sum()


def called(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    return jax.pure_callback(lambda h: h, jax.typeof(h), h).sum()


def ordered(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    jax.experimental.io_callback(lambda h: None, None, h, ordered=True)
    return h.sum()


@pytest.mark.parametrize("function", [printed, called, ordered])
def test_what_has_effects_is_not_run_without_being_asked(shown, function, capsys):
    session = made(function)
    view = shown(session)
    assert session.run().ok
    assert (session.live, view.graph.live) == (False, False)
    assert "prints, calls the host" in session.why_not_live
    session.set_value("h", "factor", 0.75)
    assert view.wait(SECONDS)
    assert session.last.number == 1
    session.live = True  # the user may want that
    assert session.live


def test_an_injector_that_prints_is_not_run_without_being_asked():
    def loud(ctx, token, params):
        jax.debug.print("{}", token)
        return 2 * token, ctx

    session = Session(f, (jnp.ones(3),))
    session.attach("h", loud)
    assert session.run().ok
    assert not session.live


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.attach("1:reduce_sum", "scale"),
        lambda session: session.attach("h", "add", value=1.0),
        lambda session: session.switch("h", on=False),
        lambda session: session.append("h", "add"),
        lambda session: session.detach("h"),
        lambda session: session.tag("in0"),
        lambda session: session.release(),
    ],
)
def test_a_program_that_has_to_be_compiled_is_not_run_without_being_asked(change):
    session = made()
    session.run()
    assert session.live
    change(session)
    assert not session.live
    assert "has to be compiled first" in session.why_not_live
    assert session.run().ok
    assert session.live


def test_a_cancelled_run_is_not_followed():
    session = made()
    session.run()
    stop = threading.Event()
    stop.set()
    assert session.run(cancel=stop).cancelled
    assert not session.live


def test_a_run_that_is_asked_for_comes_after_the_one_that_follows(shown, monkeypatch):
    session = made()
    view = shown(session)
    assert session.run().ok
    assert session.live
    executor = session._runner._executor
    kinds, real = [], executor.run
    started, go_on = threading.Event(), threading.Event()

    def slow(plan, device, on_phase, cancel, live):
        kinds.append(live)
        started.set()
        assert go_on.wait(timeout=SECONDS)
        return real(plan, device, on_phase, cancel, live)

    monkeypatch.setattr(executor, "run", slow)
    session.set_value("h", "factor", 0.75)
    assert started.wait(timeout=SECONDS)
    view.graph._handle_custom_msg({"do": "run", "device": None}, [])
    go_on.set()
    assert view.wait(SECONDS)
    assert kinds == [True, False]
    assert not session.last.live
    assert view.graph.message["text"] != "A run is under way."


def test_a_slow_program_stays_slow_when_its_results_are_known():
    session = Session(lambda x: jnp.sin(x) * 2.0, (jnp.ones(3),))  # nothing to record
    first, second = session.run(), session.run()
    assert first.own > 0.0
    assert second.own == first.own


# ---- what has to be compiled, by the executor's own key ------------------------------

STEP = 2.0


def stepped(ctx, token, params, *, factor=1.0, power=1):
    return STEP * factor * token**power, ctx


@taxpr.injector(factor=taxpr.Param(1))
def times_factor(token, factor):
    return jnp.asarray(factor, token.dtype) * token


def times_ctx(ctx, token, params):
    return ctx.astype(token.dtype) * token, ctx


def with_function(injector, **more):
    session = Session(f, (jnp.ones(3),), namespace=globals())
    session.attach("h", injector, **more)
    session.run()
    assert session.live
    return session


def live_run(session, compiled):
    """A live run that Live makes by itself, which compiles nothing."""
    before = compiled()
    assert session.live
    run = session.run(live=True)
    assert run.ok, run.error
    assert (run.reused, compiled()) == (True, before)
    return run


def compiling_run(session, compiled):
    """A run that Live does not make by itself, since it compiles."""
    before = compiled()
    assert not session.live
    assert "has to be compiled first" in session.why_not_live
    assert compiled() == before
    run = session.run(live=True)
    assert run.ok, run.error
    assert not run.reused
    assert compiled() > before
    assert session.live
    return run


def test_a_global_that_an_injector_reads_has_changed(compiled, monkeypatch):
    session = with_function(stepped, factor=1.0)
    assert live_run(session, compiled).outputs == pytest.approx(6 * math.sin(1.0))
    monkeypatch.setitem(globals(), "STEP", 3.0)
    assert compiling_run(session, compiled).outputs == pytest.approx(9 * math.sin(1.0))
    monkeypatch.setitem(globals(), "STEP", 2.0)  # that program is still there
    assert live_run(session, compiled).outputs == pytest.approx(6 * math.sin(1.0))


def test_a_function_was_defined_anew(compiled, monkeypatch):
    session = with_function("stepped", factor=1.0)
    monkeypatch.setitem(globals(), "stepped", lambda ctx, token, params: (-token, ctx))
    assert compiling_run(session, compiled).outputs == pytest.approx(-3 * math.sin(1.0))


def test_a_context_of_another_dtype_compiles(compiled):
    session = with_function(times_ctx, ctx=jnp.float32(2.0))
    session.set_ctx("h", jnp.float32(3.0))
    assert live_run(session, compiled).outputs == pytest.approx(9 * math.sin(1.0))
    session.set_ctx("h", jnp.int32(3))
    assert compiling_run(session, compiled).outputs == pytest.approx(9 * math.sin(1.0))


def test_a_number_of_another_dtype_compiles(compiled):
    session = with_function(times_factor(1))
    session.set_value("h", "factor", 3)
    assert live_run(session, compiled).outputs == pytest.approx(9 * math.sin(1.0))
    session.set_value("h", "factor", 1.5)
    assert compiling_run(session, compiled).outputs == pytest.approx(4.5 * math.sin(1.0))


def test_a_number_that_is_fixed_when_traced_compiles(compiled):
    session = with_function(stepped)
    session.set_value("h", "factor", 3.0)
    assert live_run(session, compiled).outputs == pytest.approx(18 * math.sin(1.0))
    session.set_value("h", "power", 2)
    assert compiling_run(session, compiled).outputs == pytest.approx(18 * math.sin(1.0) ** 2)


def test_a_live_run_goes_where_the_run_before_it_went(compiled):
    session = made()
    session.run()
    (device,) = session.devices()
    assert not session.run(device).reused  # where arrays are moved to it, a program of its own
    session.set_value("h", "factor", 0.75)
    assert live_run(session, compiled).device == device


def test_what_was_undone_is_not_compiled_again(compiled):
    session = made()
    session.run()
    session.tag("in0")
    assert not session.live
    session.undo()
    assert live_run(session, compiled).outputs == pytest.approx(1.5 * math.sin(1.0))


def test_an_injector_that_cannot_be_tried_is_no_error_of_live(compiled):
    session = made()
    session.run()
    with session.later():
        session.attach("h", lambda ctx, token, params: (token[:1], ctx))
    assert not session.live


def test_live_says_in_the_panel_that_it_would_compile(shown, compiled, monkeypatch):
    session = with_function(stepped, factor=1.0)
    view = shown(session)
    assert view.graph.live
    monkeypatch.setitem(globals(), "STEP", 3.0)
    before, number = compiled(), session.last.number
    session.set_value("h", "factor", 2.0)
    assert view.wait(SECONDS)
    assert (compiled(), session.last.number, view.graph.live) == (before, number, False)
    assert "Live is off: the program with its changes has" in view.graph.message["text"]


def test_live_that_is_unticked_where_nothing_is_compiled_any_more_stays_off(shown, monkeypatch):
    session = made()
    session.run()
    view = shown(session)
    session.release()
    assert (session.live, view.graph.live) == (False, False)
    session.run()
    assert view.graph.live
    with monkeypatch.context() as patch:
        patch.setattr(session._store, "tell", lambda what: None)  # the page has not heard of it
        session.release()
    assert (session.live, view.graph.live) == (False, True)
    view.graph.set_state({"live": False})
    session.run()
    assert (session.live, view.graph.live) == (False, False)
    assert session.why_not_live == "it was switched off"


def test_a_live_run_waits_for_one_that_a_cell_asked_for(shown, monkeypatch):
    session = made()
    view = shown(session)
    session.run()
    executor = session._runner._executor
    kinds, real = [], executor.run
    started, go_on = threading.Event(), threading.Event()

    def slow(plan, device, on_phase, cancel, live):
        kinds.append(live)
        started.set()
        assert go_on.wait(timeout=SECONDS)
        return real(plan, device, on_phase, cancel, live)

    monkeypatch.setattr(executor, "run", slow)
    cell = threading.Thread(target=session.run)
    cell.start()
    assert started.wait(timeout=SECONDS)
    session.set_value("h", "factor", 0.75)
    go_on.set()
    cell.join(SECONDS)
    wait_for(lambda: not session.stale and not session.last.live)
    assert kinds[0] is False
    assert kinds[1:] == [True]
    assert session.last.outputs == pytest.approx(2.25 * math.sin(1.0))
    assert view.wait(SECONDS)


def test_a_value_that_comes_as_a_live_run_ends_is_run(shown, monkeypatch):
    session = made()
    view = shown(session)
    session.run()
    running = view._running
    ended, late = running._ended, []

    def slowly(*args):
        if not late:
            late.append(threading.Thread(target=session.set_value, args=("h", "factor", 0.75)))
            late[0].start()
            late[0].join(SECONDS)
        ended(*args)

    monkeypatch.setattr(running, "_ended", slowly)
    session.set_value("h", "factor", 0.5)
    wait_for(lambda: late and not session.stale)
    assert session.last.outputs == pytest.approx(2.25 * math.sin(1.0))
    assert view.wait(SECONDS)


def test_a_live_run_in_the_place_of_another_goes_through_no_older_run(monkeypatch):
    looked = []
    real = runner.trimmed
    monkeypatch.setattr(runner, "trimmed", lambda *args: looked.append(1) or real(*args))
    session = made()
    session.run()
    session.run(live=True)
    assert len(looked) == 2
    for factor in (0.1, 0.2, 0.3):
        session.set_value("h", "factor", factor)
        session.run(live=True)
    assert len(looked) == 2
    assert [run.number for run in session.runs] == [1, 2]
    session.finish(session.last)
    session.run()
    assert len(looked) == 4


def sent_value(view, session, factor):
    """Has the page set the factor."""
    key = next(iter(session.injectors))
    message = {"do": "value", "address": key, "param": "factor", "text": str(factor)}
    view.graph._handle_custom_msg(message, [])


def test_a_quick_live_run_is_done_when_the_message_that_it_follows_is_handled(shown, monkeypatch):
    monkeypatch.setattr("taxpr_jupyter._view.running.QUICK", SECONDS)
    session = made()
    view = shown(session)
    session.run()
    for factor in (0.125, 0.75):
        sent_value(view, session, factor)
        assert session.last.outputs == pytest.approx(3 * factor * math.sin(1.0))
    assert view.wait(SECONDS)
    sent_value(view, session, "no number")  # nothing follows, and nothing is waited for
    assert session.last.outputs == pytest.approx(2.25 * math.sin(1.0))


def test_a_live_run_that_is_slower_than_the_last_one_holds_no_message_up(shown, monkeypatch):
    monkeypatch.setattr("taxpr_jupyter._view.running.QUICK", 1.0)
    session = made()
    view = shown(session)
    session.run()
    executor = session._runner._executor
    real, go_on = executor.run, threading.Event()

    def slow(*args):
        assert go_on.wait(timeout=SECONDS)
        return real(*args)

    monkeypatch.setattr(executor, "run", slow)
    sent_value(view, session, 0.75)  # it returns, though nothing lets the run go on
    assert session.stale
    go_on.set()
    assert view.wait(SECONDS)
    assert session.last.outputs == pytest.approx(2.25 * math.sin(1.0))
