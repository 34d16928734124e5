"""What is under way is stopped, by Cancel and by the kernel's interrupt, and all stays usable."""

import signal
import threading
import time
import types

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._runs.run import LEFT
from taxpr_jupyter._stoppable import CancelledError, InterruptedWait, stoppable
from taxpr_jupyter._view import interrupts, widget
from taxpr_jupyter._view.jobs import CANCELLED
from taxpr_jupyter._view.widget import view_for

H = "0:mul.0"  # the key of the tag h
SECONDS = 60  # long after which something hangs


def f(x):
    return jnp.sin(taxpr.tag(x * 2, name="h"))


def long(x):
    """Runs for some seconds once it is compiled, and then ends: what is left behind takes time."""
    x = taxpr.tag(x, name="h")
    return jax.lax.fori_loop(0, 10**8, lambda i, x: jnp.sin(x) * 0 + x + 1e-3, x)


class Slow:
    """An injector whose tracing lasts until it is let go, in small steps of Python."""

    __name__ = "slow"

    def __init__(self):
        self.begun, self.go_on, self.stopped = (threading.Event() for _ in range(3))

    def __call__(self, ctx, token, params, factor=0.5):
        self.begun.set()
        try:
            end = time.monotonic() + SECONDS
            while not self.go_on.is_set() and time.monotonic() < end:
                time.sleep(0.01)
        except BaseException:
            self.stopped.set()
            raise
        return token * factor, ctx


class Panel:
    """A panel with the messages of its browser."""

    def __init__(self, session):
        self.session = session
        self.view = view_for(session)
        self.graph = self.view.graph

    def send(self, do, address="", **more):
        self.graph._handle_custom_msg({"do": do, "address": address, **more}, [])

    def settled(self):
        """Waits until nothing is under way."""
        while self.view.jobs.tasks():
            assert self.view.wait(SECONDS)


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """What a test leaves behind would take the processors from the next ones."""
    yield
    for thread in threading.enumerate():
        if thread.name == "taxpr work":
            thread.join(SECONDS)


@pytest.fixture
def slow():
    slow = Slow()
    yield slow
    slow.go_on.set()


@pytest.fixture
def session(slow):
    return Session(f, (1.0,), namespace={"slow": slow, "stuck": stuck, "cut": cut})


@pytest.fixture
def shown(session):
    panel = Panel(session)
    yield panel
    panel.view.close()


def stuck(ctx, token, params):
    stuck.begun.set()
    stuck.go_on.wait(SECONDS)  # no step of Python
    return token, ctx


@pytest.fixture(autouse=True)
def let_go():
    stuck.begun, stuck.go_on = threading.Event(), threading.Event()
    yield
    stuck.go_on.set()


def cut(ctx, token, params):
    raise ValueError("cut")


def test_messages_are_handled_while_an_injector_is_traced(session, shown, slow):
    shown.send("attach", "h", injector="slow")
    assert slow.begun.wait(SECONDS)
    assert shown.graph.progress["running"]
    assert shown.graph.progress["label"] == "tracing slow at h"
    shown.graph.set_state({"selected": "1:sin"})
    assert shown.graph.inspection["title"] == "sin"
    shown.send("tag", "1:sin", name="s")
    assert [site.name for site in session.sites()] == ["h", "s"]
    shown.send("value", H, param="factor", text="0.25")
    assert session.injectors[H].values == {"factor": 0.25}
    shown.send("run", device="cpu:0")
    assert shown.graph.progress["label"] == "tracing slow at h"
    assert session.last is None
    slow.go_on.set()
    shown.settled()
    assert session.untried == ()
    assert session.last.injectors[H].values == {"factor": 0.25}
    assert session.last.outputs == jnp.sin(0.5)
    assert shown.graph.progress == {"running": False}


def adds(ctx, token, params):
    return token + ctx, ctx


@pytest.fixture
def typed(session, shown, slow):
    """Somebody types a ctx at the tag h whose value takes a while; gives the ctx and its field."""
    session.namespace.update(adds=adds, found=lambda: slow((), 4.0, None)[0])
    session.attach("h", "adds", ctx=1.0)
    shown.graph.set_state({"selected": session.sites()[0].address})
    shown.send("value", H, param="ctx", text="found()")
    assert slow.begun.wait(SECONDS)

    def now():
        [field] = shown.graph.controls["fields"]
        return session.injectors[H].ctx, field["text"], field["mistake"]

    return now


def test_messages_are_handled_while_a_ctx_is_computed_and_a_run_waits_for_it(
    session, shown, slow, typed
):
    assert shown.graph.progress["running"]
    shown.send("tag", "1:sin", name="s")
    assert [site.name for site in session.sites()] == ["h", "s"]
    assert typed() == (1.0, "found()", "")
    assert not session.stale
    shown.send("run", device="cpu:0")
    assert session.last is None
    slow.go_on.set()
    shown.settled()
    assert typed() == (2.0, "found()", "")
    assert session.last.outputs == jnp.sin(4.0)
    assert not shown.graph.stale
    shown.send("value", H, param="ctx", text="3.0")
    shown.settled()
    assert shown.graph.stale
    assert "3.0" in shown.graph.code


def test_a_ctx_that_is_computed_is_cancelled_and_the_one_before_comes_back(
    session, shown, slow, typed
):
    shown.send("cancel")
    shown.settled()
    assert slow.stopped.wait(SECONDS)
    assert typed() == (1.0, "1.0", "")
    assert shown.graph.message["text"] == CANCELLED
    assert session.run().outputs == jnp.sin(3.0)


def test_another_ctx_takes_the_place_of_the_one_that_is_computed(session, shown, slow, typed):
    shown.send("value", H, param="ctx", text="2.5 * 2")
    shown.settled()
    assert slow.stopped.wait(SECONDS)
    assert typed() == (5.0, "2.5 * 2", "")


@pytest.mark.parametrize("text", ["1 / 0", "exit(1)"])
def test_what_is_wrong_with_a_ctx_stands_at_its_field(session, shown, slow, typed, text):
    slow.go_on.set()
    shown.settled()
    shown.send("value", H, param="ctx", text=text)
    shown.settled()
    ctx, shown_text, mistake = typed()
    assert (ctx, shown_text) == (2.0, text)
    assert mistake in ("ZeroDivisionError: division by zero", "SystemExit: 1")
    assert shown.graph.message == {"text": f"adds at {H}, ctx: {mistake}", "error": True}
    assert session.run().outputs == jnp.sin(4.0)


def test_a_traced_injector_is_cancelled_and_what_was_there_comes_back(session, shown, slow):
    session.attach("h", "scale")
    shown.send("attach", "h", injector="slow")
    shown.send("attach", "1:sin", injector="slow")
    assert slow.begun.wait(SECONDS)
    shown.send("cancel")
    shown.settled()
    assert slow.stopped.wait(SECONDS)
    assert {key: one.name for key, one in session.injectors.items()} == {H: "scale"}
    assert session.tags == {}
    assert shown.graph.message["text"] == CANCELLED
    assert shown.graph.progress == {"running": False}
    assert session.run().ok


def test_a_run_that_waits_for_an_injector_is_cancelled_with_it(session, shown, slow):
    shown.send("attach", "h", injector="slow")
    shown.send("run", device="cpu:0")
    assert slow.begun.wait(SECONDS)
    shown.send("cancel")
    shown.settled()
    assert slow.stopped.wait(SECONDS)
    assert session.last.cancelled
    assert session.injectors == {}
    assert session.run().ok


def test_the_next_injector_ends_the_tracing_of_the_one_before(session, shown, slow):
    shown.send("attach", "h", injector="slow")
    assert slow.begun.wait(SECONDS)
    shown.send("attach", "h", injector="zero")
    assert slow.stopped.wait(SECONDS)
    shown.settled()
    assert session.injectors[H].name == "zero"
    assert session.untried == ()


def test_an_injector_that_fails_is_told_later(session, shown):
    shown.send("attach", "h", injector="cut")
    shown.settled()
    assert "raised ValueError: cut" in session.injectors[H].error
    assert shown.graph.marks


def test_what_is_no_step_of_python_is_left_behind_and_said(session, shown):
    shown.send("attach", "h", injector="stuck")
    assert stuck.begun.wait(SECONDS)
    shown.send("cancel")
    shown.settled()
    assert shown.graph.message["text"] == f"{CANCELLED} {LEFT['trace']}"
    assert session.injectors == {}
    assert session.run().ok
    assert not stuck.go_on.is_set()


def test_a_program_on_the_device_is_left_behind_and_said():
    session = Session(long, (jnp.zeros(()),))
    shown = Panel(session)
    reached = threading.Event()
    shown.graph.observe(
        lambda change: reached.set() if "· run" in change.new.get("label", "") else None, "progress"
    )
    shown.send("run", device="cpu:0")
    assert reached.wait(SECONDS)
    shown.send("cancel")
    shown.settled()
    assert shown.graph.message["text"] == f"{CANCELLED} {LEFT['run']}"
    assert shown.graph.results["cancelled"] == f"This run was cancelled. {LEFT['run']}"
    assert not session.running
    shown.send("attach", "h", injector="zero")
    shown.settled()
    assert session.injectors
    shown.view.close()


@pytest.fixture
def interrupted():
    """Interrupts this process a while after an event."""
    threads = []

    def after(event, seconds=0.1):
        def wait():
            assert event.wait(SECONDS)
            time.sleep(seconds)
            signal.raise_signal(signal.SIGINT)

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    # A worker of pytest-xdist has another handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield after
    for thread in threads:
        thread.join(SECONDS)
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_a_cell_attaches_leaves_all_as_it_was(session, slow, interrupted):
    session.attach("h", "scale")
    interrupted(slow.begun)
    with pytest.raises(KeyboardInterrupt):
        session.attach("h", slow)
    slow.begun.clear()
    interrupted(slow.begun)
    with pytest.raises(KeyboardInterrupt):
        session.attach("1:sin", slow)
    assert {key: one.name for key, one in session.injectors.items()} == {H: "scale"}
    assert session.tags == {}
    assert session.run().ok


def test_an_interrupt_ends_the_wait_for_a_program_on_the_device(interrupted):
    session, running = Session(long, (jnp.zeros(()),)), threading.Event()

    def on_phase(phase):
        if phase.name == "run":
            running.set()

    interrupted(running, 0.5)
    with pytest.raises(KeyboardInterrupt, match="since XLA cannot be stopped"):
        session.run(on_phase=on_phase)
    assert not session.running
    assert session.runs == ()
    assert session.attach("h", "zero").error is None


def test_an_interrupt_ends_a_cells_wait_for_what_a_panel_traces(session, shown, slow, interrupted):
    shown.send("attach", "h", injector="slow")
    interrupted(slow.begun)
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert session.untried
    slow.go_on.set()
    shown.settled()
    assert session.run().outputs == jnp.sin(1.0)


def test_a_refused_injector_is_taken_away_with_its_tag(session, monkeypatch):
    def refuse(*args):
        raise PanelError("no")

    monkeypatch.setattr("taxpr_jupyter._store.tracer.tried", refuse)
    with session.later():
        session.attach("1:sin", "scale")
    assert session.tags
    with pytest.raises(PanelError, match="no"):
        session.settle()
    assert (session.tags, session.injectors, session.error) == ({}, {}, "no")


def test_settings_of_a_with_are_those_of_a_run():
    with jax.debug_nans(True):
        session = Session(lambda x: jnp.log(taxpr.tag(x, name="h")), (-1.0,))
        assert "nan" in session.run(cancel=threading.Event()).error


def test_another_change_while_the_comparison_traces_an_injector_keeps_it(session, shown, slow):
    shown.graph.set_state({"view": "compare"})
    shown.settled()
    with session.later():
        session.attach("h", "slow")
    assert slow.begun.wait(SECONDS)  # the comparison traces it
    shown.send("tag", "1:sin", name="s")
    shown.send("tag", "in0", name="x")
    slow.go_on.set()
    shown.settled()
    assert session.injectors[H].name == "slow"
    assert session.untried == ()
    assert sorted(session.tags) == ["1:sin.0", "in0"]


def test_what_waits_for_an_injector_and_is_stopped_leaves_it_in_place(session, slow):
    cancel = threading.Event()
    with session.later():
        session.attach("1:sin", "slow")
    threading.Thread(target=lambda: (slow.begun.wait(SECONDS), cancel.set())).start()
    with pytest.raises(CancelledError):
        session.changes(cancel)
    assert session.untried
    assert session.run(cancel=cancel).cancelled
    slow.go_on.set()
    assert session.run().outputs == jnp.sin(2.0) * 0.5
    assert session.untried == ()


def test_cancel_takes_away_what_the_comparison_traces(session, shown, slow):
    shown.graph.set_state({"view": "compare"})
    shown.settled()
    shown.send("attach", "h", injector="slow")
    assert slow.begun.wait(SECONDS)
    shown.send("cancel")
    shown.settled()
    assert session.injectors == {}
    end = time.monotonic() + SECONDS  # what the last task says may come after its end
    while shown.graph.message["text"] != CANCELLED:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("what", ["attach", "run"])
def test_a_panel_that_is_closed_while_an_injector_is_traced_takes_nothing_away(
    session, shown, slow, what
):
    if what == "attach":
        shown.send("attach", "h", injector="slow")
    else:
        with session.later():
            session.attach("h", "slow")
        shown.view.start_run()
    assert slow.begun.wait(SECONDS)
    tasks = shown.view.jobs.tasks()
    shown.view.close()
    assert all(task.wait(SECONDS) for task in tasks)
    assert session.injectors[H].name == "slow"
    slow.go_on.set()
    assert session.run().outputs == jnp.sin(1.0)


def test_after_cancel_no_other_injector_is_traced(session, shown, slow):
    with session.later():
        for address in ("h", "1:sin", "in0"):
            session.attach(address, "slow")
    shown.send("other")
    assert slow.begun.wait(SECONDS)
    slow.begun.clear()
    shown.send("cancel")
    shown.settled()
    assert not slow.begun.is_set()
    assert (session.injectors, session.tags) == ({}, {})


def leaves_python(ctx, token, params, axis=0):
    if axis:
        raise SystemExit("out")
    return token * 2, ctx


def test_an_injector_that_leaves_python_is_an_error_and_the_panel_goes_on(session, shown):
    session.attach("1:sin", leaves_python)
    with session.later():
        session.set_value("1:sin", "axis", 1)
    shown.send("run", device="cpu:0")
    shown.settled()
    assert "raised SystemExit: out" in session.injectors["1:sin.0"].error
    assert "SystemExit: out" in session.last.error
    session.set_value("1:sin", "axis", 0)
    shown.send("run", device="cpu:0")
    shown.settled()
    assert session.last.ok
    assert shown.graph.progress == {"running": False}


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_the_panel_is_idle_again_whatever_is_raised(session, shown, monkeypatch, kind):
    def raises(*args, **more):
        raise kind("out")

    monkeypatch.setattr(session._trials, "settle", raises)
    monkeypatch.setattr(session, "svg", raises)
    shown.send("run", device="cpu:0")
    shown.settled()
    shown.send("fold", "h")
    shown.view.showing.redraw()
    shown.settled()
    assert shown.graph.progress == {"running": False}
    assert "out" in shown.graph.message["text"]
    monkeypatch.undo()
    shown.send("run", device="cpu:0")
    shown.settled()
    assert session.last.ok


def test_a_run_that_leaves_python_is_an_error(session, monkeypatch):
    def leaves(*args):
        raise SystemExit("out")

    monkeypatch.setattr("taxpr_jupyter._runs.ready._called", lambda program: leaves)
    run = session.run()
    assert run.error == "SystemExit: out"
    assert isinstance(run.exception, SystemExit)


def fixed(ctx, token, params, times=1, flag=False, factor=0.5):
    if times > 3:
        raise ValueError("too often")
    return token * factor * times, ctx


def test_a_value_that_is_fixed_when_tracing_is_tried_out(session):
    session.attach("h", fixed)
    session.set_value("h", "times", 7)
    assert "raised ValueError: too often" in session.injectors[H].error
    with pytest.raises(PanelError, match="too often"):
        session.changes()
    session.set_value("h", "times", 2)
    assert session.injectors[H].error is None
    session.set_value("h", "factor", 0.25)
    assert session.untried == ()
    assert session.run().outputs == jnp.sin(1.0)


def test_a_value_that_is_set_during_a_trial_is_tried_out_too(session, shown, slow):
    def waits(ctx, token, params, times=1):
        slow(ctx, token, params)
        return fixed(ctx, token, params, times=times)

    with session.later():
        session.attach("h", waits)
    shown.send("other")
    assert slow.begun.wait(SECONDS)
    shown.send("value", H, param="times", text="7")
    slow.go_on.set()
    shown.settled()
    assert "too often" in session.injectors[H].error


def test_what_changed_outside_is_no_raw_error_of_a_comparison(session):
    def reads(ctx, token, params):
        if outside:
            raise ValueError("changed")
        return token, ctx

    outside = []
    session.attach("h", reads)
    outside.append(1)
    with pytest.raises(PanelError, match="changed"):
        session.changes()


def test_interrupts_are_left_to_the_kernel_when_the_last_panel_is_closed(session, monkeypatch):
    kernel = types.SimpleNamespace(saved_sigint_handler=signal.SIG_IGN)
    shell = types.SimpleNamespace(kernel=kernel)
    monkeypatch.setattr(interrupts, "running_shell", lambda: shell)
    monkeypatch.setattr(widget, "_open", [])
    first, second = view_for(session), view_for(Session(f, (1.0,)))
    assert kernel.saved_sigint_handler is not signal.SIG_IGN
    first.close()
    assert kernel.saved_sigint_handler is not signal.SIG_IGN
    before = signal.signal(signal.SIGINT, kernel.saved_sigint_handler)  # as the end of a cell does
    try:
        second.close()
        assert kernel.saved_sigint_handler is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupt_while_the_work_begins_ends_it(begun, monkeypatch):
    ended, start = threading.Event(), threading.Thread.start

    def work():
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    def interrupted(thread):
        if begun:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(InterruptedWait) as caught:
        stoppable(work, python=False)
    assert not caught.value.left
    assert ended.is_set() == begun
