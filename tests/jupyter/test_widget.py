"""The panel with no browser attached: what it would show, and what messages to it do."""

import re
import sys
import threading
import time
import types

import ipywidgets
import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, panel
from taxpr_jupyter._runs.run import Phase
from taxpr_jupyter._view import wire
from taxpr_jupyter._view.background import TICK
from taxpr_jupyter._view.widget import WIDGET_MIME, view_for

SECONDS = 60
TANH = "1:scan/body/2:tanh"


def f(w, xs):
    def body(h, x):
        h = jnp.tanh(w @ h + x)
        return h, taxpr.tag(h.sum(), name="sum")

    h, ys = jax.lax.scan(body, jnp.zeros(3), xs)
    return {"h": h, "total": ys.sum()}


def cut(ctx, token, params):
    """Changes the shape."""
    return token[:2], ctx


class Remote:
    """Does to a panel what a browser does, and keeps what would be sent to it."""

    def __init__(self, view):
        self.view = view
        self.sent = []
        view.graph.observe(lambda change: self.sent.append(change.name))

    def select(self, address):
        self.view.graph.set_state({"selected": address})
        return self.view.graph.inspection

    def send(self, do, address="", **more):
        self.view.graph._handle_custom_msg({"do": do, "address": address, **more}, [])
        assert self.view.wait(SECONDS)


@pytest.fixture
def session():
    session = panel(f)(0.1 * jnp.ones((3, 3)), jnp.ones((5, 3)))
    session.live = False  # `test_following.py` is about what it does by itself
    yield session
    view_for(session).close()


@pytest.fixture
def view(session):
    return view_for(session)


@pytest.fixture
def remote(view):
    return Remote(view)


def tanh_tag(graph):
    """What the inspector says about the tag of the selected value."""
    (value,) = graph.inspection["values"]
    return value["tag"]


def test_it_shows_the_session_at_once(session, view):
    graph = view.graph
    assert graph.svg == session.svg()
    assert f'data-address="{TANH}"' in graph.svg
    assert graph.call == "f(args[0], args[1])"
    assert graph.counts == "7 equations, 1 tag"
    assert [(tag["name"], tag["added"]) for tag in graph.tags] == [("sum", False)]
    assert "scan body" in graph.tags[0]["where"]
    assert "fires 5 times" in graph.tags[0]["where"]
    assert graph.code == session.code()
    assert graph.rows == {}  # nobody looks at them
    assert graph.inspection == {}
    assert graph.results == {}


def test_a_session_has_one_view(session, view):
    assert view_for(session) is view


def test_a_click_selects_and_inspects(remote):
    shown = remote.select(TANH)
    assert shown["title"] == "h = tanh"
    assert len(shown["inputs"]) == 1
    assert shown["values"][0]["address"] == f"{TANH}.0"
    assert "jnp.tanh(w @ h + x)" in shown["line"]
    assert "test_widget.py" in shown["source"]
    assert remote.select("") == {}


def test_the_picture_is_not_sent_again_for_selecting(remote):
    remote.select(TANH)
    remote.select("1:scan")
    assert "svg" not in remote.sent


def test_a_value_is_tagged_and_untagged(session, view, remote):
    remote.select(TANH)
    remote.send("tag", f"{TANH}.0", name="h")
    assert session.tags == {f"{TANH}.0": {"name": "h"}}
    assert tanh_tag(view.graph)["name"] == "h"
    assert view.graph.svg == session.svg()
    assert remote.sent.count("svg") == 1
    assert "name='h'" in view.graph.code
    remote.send("untag", f"{TANH}.0")
    assert session.tags == {}
    assert tanh_tag(view.graph) is None


def test_without_a_name_the_session_makes_one_up(session, remote):
    remote.send("tag", f"{TANH}.0", name="")
    assert session.tags == {f"{TANH}.0": {"name": "h"}}


def test_changes_made_in_python_are_shown(session, view, remote):
    remote.select(TANH)
    session.tag(TANH, name="h")
    assert tanh_tag(view.graph)["name"] == "h"
    session.attach("h", "scale", factor=0.5)
    assert tanh_tag(view.graph)["injector"] == "scale(factor=0.5)"
    assert view.graph.controls["injector"] == "scale"
    session.detach("h")
    assert view.graph.controls["injector"] == ""


def test_a_selected_tag_is_followed_when_its_address_moves(session, view, remote):
    before = session.sites()[0].address
    remote.select(before)
    session.tag("1:scan/body/1:add", name="early")
    after = next(site.address for site in session.sites() if site.name == "sum")
    assert after != before
    assert view.graph.selected == after
    assert view.graph.inspection["address"] == after


def test_a_selected_tag_that_is_removed_is_no_longer_selected(session, view, remote):
    session.tag(TANH, name="h")
    remote.select(next(site.address for site in session.sites() if site.name == "h"))
    session.untag("h")
    assert view.graph.selected == ""
    assert view.graph.inspection == {}


def test_a_mistake_is_one_message_and_changes_nothing(session, view, remote):
    remote.send("tag", "9:nothing", name="h")
    assert "9:nothing" in view.graph.message["text"]
    assert view.graph.message["error"]
    assert "Traceback" not in view.graph.message["text"]
    assert session.tags == {}
    remote.send("tag", f"{TANH}.0", name="h")
    assert view.graph.message == {"text": "", "error": False}


@pytest.mark.parametrize("content", [{}, {"do": "close"}, {"do": "__class__", "address": TANH}])
def test_other_messages_do_nothing_and_are_told(session, view, content):
    view.graph._handle_custom_msg(content, [])
    assert session.tags == {}
    assert not session.closed
    assert view.graph.message["error"]
    assert f"No part of the panel takes the message {content!r}" in view.graph.message["text"]


def test_a_view_that_there_is_not_is_refused(view):
    view.graph.set_state({"view": "nonsense"})
    assert view.graph.view == "picture"
    assert view.graph.message["error"]
    assert "'nonsense'" in view.graph.message["text"]
    view.graph.set_state({"view": "text"})
    assert view.graph.view == "text"


def test_folding(session, view, remote):
    remote.send("fold", "1:scan")
    assert TANH not in view.graph.svg
    assert view.graph.counts == "7 equations, 1 tag, 5 of them folded"
    remote.send("toggle", "1:scan")
    assert TANH in view.graph.svg
    remote.send("toggle", "1:scan/body")
    assert TANH not in view.graph.svg
    remote.send("toggle", "in0")  # nothing to fold: a double click there means nothing
    assert view.graph.message == {"text": "", "error": False}


def the_field(view):
    """The one parameter that the controls show: its slider's position and end, and its text."""
    (field,) = view.graph.controls["fields"]
    return field["position"], field["last"], field["text"]


def test_an_injector_is_attached_and_its_slider_moved(session, view, remote):
    remote.select(TANH)
    key = f"{TANH}.0"
    remote.send("attach", key, injector="scale")
    assert session.injectors[key].values == {"factor": 0.5}
    assert view.graph.svg == session.svg()
    remote.sent.clear()
    remote.send("value", key, param="factor", position=45, drag=1)  # of 80
    assert session.injectors[key].values == {"factor": 0.25}
    assert the_field(view) == (45, 80, "0.25")
    assert "svg" not in remote.sent
    assert "scale(factor=0.25)" in session.text()
    remote.send("value", key, param="factor", text="9")  # beyond the slider's end
    assert session.injectors[key].values == {"factor": 9.0}
    assert the_field(view) == (80, 80, "9")
    session.set_value(key, "factor", -0.25)
    assert the_field(view) == (35, 80, "-0.25")
    remote.send("attach", key, injector="")
    assert session.injectors == {}
    assert view.graph.controls["fields"] == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("abc", "'abc' is not a number: factor is still 0.5"),
        ("", "'' is not a number: factor is still 0.5"),
    ],
)
def test_what_is_no_number_stays_with_a_message(session, view, remote, text, mistake):
    remote.select(TANH)
    key = f"{TANH}.0"
    remote.send("attach", key, injector="scale")
    remote.send("value", key, param="factor", text=text)
    session.attach("sum", "count")  # the controls are shown again
    (field,) = view.graph.controls["fields"]
    assert (field["text"], field["mistake"]) == (text, mistake)
    assert session.injectors[key].values == {"factor": 0.5}
    remote.send("value", key, param="factor", text=".5")
    (field,) = view.graph.controls["fields"]
    assert (field["text"], field["mistake"]) == (".5", "")


def test_what_cannot_be_set_is_said_beside_the_field(session, view, remote, monkeypatch):
    remote.select(TANH)
    remote.send("attach", f"{TANH}.0", injector="scale")

    def refuse(*args, step):
        raise PanelError("too large")

    monkeypatch.setattr(session, "set_value", refuse)
    remote.send("value", f"{TANH}.0", param="factor", text="9")
    (field,) = view.graph.controls["fields"]
    assert (field["text"], field["mistake"]) == ("9", "too large: factor is still 0.5")


def test_a_value_for_what_is_gone_does_nothing(session, view, remote):
    remote.select(TANH)
    remote.send("value", f"{TANH}.0", param="factor", text="9")
    remote.send("attach", f"{TANH}.0", injector="scale")
    remote.send("value", f"{TANH}.0", param="value", text="9")
    assert session.injectors[f"{TANH}.0"].values == {"factor": 0.5}
    assert view.graph.message == {"text": "", "error": False}


def test_messages_are_handled_in_the_order_in_which_they_were_sent(session, view):
    """Whatever the order and the threads in which the kernel gets them."""
    session.attach(TANH, "scale")
    view.graph.set_state({"selected": TANH})
    key, sent = f"{TANH}.0", {"from": "page"}
    first = {"do": "value", "address": key, "param": "factor", "text": "2", **sent, "number": 1}
    take = view.graph._handle_custom_msg
    take({"do": "run", "device": "cpu:0", **sent, "number": 2}, [])
    assert view.graph.handled == {}
    late = threading.Thread(target=take, args=(first, []))
    late.start()
    late.join(SECONDS)
    assert view.wait(SECONDS)
    assert view.graph.handled == {"page": 2}
    assert session.last.injectors[key].values == {"factor": 2.0}


def test_the_controls_of_a_tag_change_no_other_tag():
    def pairs(x):
        y, z = taxpr.tag((jnp.sin(x), x), name="first")
        a, b = taxpr.tag((y, z * 2), name="pair")
        return a * b

    session = panel(pairs)(1.0)
    view = view_for(session)
    remote = Remote(view)
    session.attach("first", "scale", factor=5.0)
    session.attach("pair", "scale", factor=2.0)
    session.tag("in0", name="n")
    rows = {row.name: row for row in session.sites()}
    remote.select(rows["pair"].address)
    address = view.graph.controls["address"]
    remote.send("value", address, param="factor", text="7.0")
    values = {row.name: row.injector.values for row in session.sites() if row.injector}
    assert values == {"first": {"factor": 5.0}, "pair": {"factor": 7.0}}
    remote.send("attach", address, injector="")
    assert [row.name for row in session.sites() if row.injector] == ["first"]
    view.close()


def test_where_nothing_can_be_injected_there_are_no_controls(view, remote):
    assert view.graph.controls == {}
    remote.select(TANH)
    assert view.graph.controls["address"] == f"{TANH}.0"
    remote.select("out0")
    assert view.graph.controls == {}


def test_an_equation_with_two_results_asks_which(session, view, remote):
    remote.select("1:scan")
    places = view.graph.controls["places"]
    assert [address for _, address in places] == ["1:scan.0", "1:scan.1"]
    assert places[1][0].endswith("f32[5]")
    remote.send("place", "1:scan.1")
    assert view.graph.controls["address"] == "1:scan.1"
    remote.send("attach", "1:scan.1", injector="zero")
    assert set(session.injectors) == {"1:scan.1"}


def test_a_derivative_that_stays_as_it_was_is_said_with_the_injector():
    def loss(w):
        return taxpr.tag(w * w, name="h") ** 2

    session = panel(jax.grad(loss))(3.0)
    view = view_for(session)
    remote = Remote(view)
    remote.select(session.sites()[0].address)
    address = view.graph.controls["address"]
    assert view.graph.controls["note"] == ""
    remote.send("attach", address, injector="scale")
    shown = view.graph.controls
    assert "the program was differentiated before this change" in shown["note"]
    assert shown["failure"] == ""
    assert view.graph.marks == {}
    view.start_run()
    assert view.wait(SECONDS)
    assert view.graph.results["status"] == "done"
    assert view.graph.runs["summary"].startswith("Run 1: ")
    remote.send("attach", address, injector="count")
    assert view.graph.controls["note"] == ""
    view.close()


def test_an_injector_that_changes_a_shape_is_marked(session, view, remote):
    remote.select(TANH)
    assert "cut" in view.graph.controls["injectors"]
    remote.send("attach", f"{TANH}.0", injector="cut")
    assert re.search(r"f(loat)?32\[2\]", view.graph.controls["failure"])
    (site,) = [site for site in session.sites() if site.injector]
    assert view.graph.marks == {site.address: "failed"}
    view.start_run()
    assert view.wait(SECONDS)
    assert view.graph.results["status"] == "error"
    assert "cut" in view.graph.results["error"]
    assert re.match(r"Run \d+: failed: .*", view.graph.runs["summary"])
    assert len(view.graph.runs["summary"]) < 70
    remote.send("attach", f"{TANH}.0", injector="scale")
    assert view.graph.marks == {}


def test_a_run(session, view, remote):
    session.attach(TANH, "scale", factor=0.5)
    remote.send("run", device="cpu:0")
    assert session.last is not None
    assert session.last.ok
    shown = view.graph.results
    assert shown["title"] == "Run 1 on cpu:0"
    assert shown["changes"] == ["h: scale(factor=0.5)"]
    assert [row["name"] for row in shown["outputs"]] == ["out['total']", "out['h']"]
    assert not any(row["same"] for row in shown["outputs"])
    assert {row["name"] for row in shown["records"]} == {"h", "sum"}
    assert [phase for phase, _ in shown["times"]] == ["trace", "lower", "compile", "run"]
    assert view.graph.progress == {"running": False}
    assert not view.graph.stale
    session.set_value("h", "factor", 0.25)
    assert view.graph.stale


def _same_outputs(shown, made):
    kinds = ("times", "outputs", "more", "unchanged")
    return [shown.get(kind) for kind in kinds] == [made[kind] for kind in kinds]


def settled(view, seconds=SECONDS):
    """Waits until a live run is looked at as a whole, and shown."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        last = view.session.last
        # The live run has the same times as all of it, which is shown a moment later.
        if last and not last.live and _same_outputs(view.graph.results, wire.results_state(last)):
            with view.jobs.lock:  # what is shown at once is shown
                pass
            if view.wait(SECONDS) and not view.session.last.live:
                return
        time.sleep(0.02)
    raise AssertionError("it is live still")


def test_live_runs_with_each_value_and_then_looks_at_all(session, view, remote):
    key = f"{TANH}.0"
    remote.select(TANH)
    remote.send("attach", key, injector="scale")
    remote.send("run", device="cpu:0")
    assert session.last.number == 1
    remote.send("value", key, param="factor", text="0.25")
    assert session.last.number == 1  # Live is off
    view.graph.set_state({"live": True})
    assert view.wait(SECONDS)
    written = view.graph.code
    remote.send("value", key, param="factor", text="0.125")
    assert session.last.number == 2
    assert view.graph.code == written  # what nobody looks at during a move waits
    assert not view.graph.runs["csv"]  # nobody looks at it
    assert not view.graph.results["records"]
    assert view.graph.runs["runs"][0]["current"]
    assert session.last.reused
    assert session.last.injectors[key].values == {"factor": 0.125}
    assert not view.graph.stale
    settled(view)
    assert view.graph.results["records"]
    assert "0.125" in view.graph.code
    assert view.graph.code == session.code()
    assert session.last.number == 2
    view.graph.set_state({"live": False})
    remote.send("value", key, param="factor", text="0.5")
    assert view.graph.stale
    assert session.last.injectors[key].values == {"factor": 0.125}


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def sent(view, monkeypatch):
    """The names of the traits in each message to the browser that has some."""
    found = []
    # ipywidgets 7 sends nothing without a kernel.
    monkeypatch.setattr(type(view.graph.comm), "kernel", True, raising=False)

    def send(graph, key=None):
        found.append({key} if isinstance(key, str) else set(key))

    monkeypatch.setattr(ipywidgets.Widget, "send_state", send)
    return lambda: [names for names in found if names]


def test_a_step_of_the_slider_takes_one_message(session, view, remote, sent, monkeypatch):
    for limit in ("background.TICK", "running.QUICK"):  # also on a busy machine
        monkeypatch.setattr(f"taxpr_jupyter._view.{limit}", SECONDS)
    key = session.attach(TANH, "scale").key
    remote.select(TANH)
    remote.send("run", device="cpu:0")
    view.graph.set_state({"live": True})
    settled(view)
    before = len(sent())
    remote.send("value", key, param="factor", text="0.125", **{"from": "page", "number": 1})
    [names] = sent()[before:]
    assert {"tags", "controls", "handled", "results", "runs"} <= names


def test_a_new_picture_takes_one_message(session, view, remote, sent):
    [node, *_] = session.picture().foldable
    before = len(sent())
    remote.send("toggle", address=node)
    assert view.wait(SECONDS)
    wait_for(lambda: any("svg" in names for names in sent()[before:]))
    [names] = [names for names in sent()[before:] if "svg" in names]
    assert "counts" in names
    assert sent()[-1] is names


@pytest.mark.newest_only  # ipywidgets 7 sends nothing where there is no kernel
def test_a_new_panel_sends_all_with_its_picture(monkeypatch):
    found = []

    def send(graph, key=None):
        found.append({key} if isinstance(key, str) else set(key or ()))

    monkeypatch.setattr(ipywidgets.Widget, "send_state", send)
    view = view_for(panel(jnp.sin)(0.5))
    [names] = [names for names in found if "svg" in names]
    assert {"call", "counts", "code"} <= names
    view.close()


def test_a_step_of_the_slider_is_shown_before_a_run_that_takes_long(
    session, view, remote, sent, monkeypatch
):
    key = session.attach(TANH, "scale").key
    remote.select(TANH)
    remote.send("run", device="cpu:0")
    view.graph.set_state({"live": True})
    settled(view)
    before, go_on, run = len(sent()), threading.Event(), session.run

    def slowly(*args, **kwargs):
        assert go_on.wait(SECONDS)
        return run(*args, **kwargs)

    monkeypatch.setattr(session, "run", slowly)
    view.messages.take({"do": "value", "address": key, "param": "factor", "text": "0.125"})
    wait_for(lambda: len(sent()) > before)
    assert "controls" in sent()[before]
    assert "results" not in sent()[before]
    go_on.set()
    assert view.wait(SECONDS)
    wait_for(lambda: any("results" in names for names in sent()[before:]))


def test_the_table_of_runs_follows_live_runs_while_it_is_open(session, view, remote):
    key = session.attach(TANH, "scale").key
    remote.send("run", device="cpu:0")
    assert view.graph.runs["csv"] == ""
    remote.send("runTable", open=True)
    assert view.graph.runs["csv"] == session.runs.csv()
    view.graph.set_state({"live": True})
    settled(view)
    remote.send("value", key, param="factor", text="0.125")
    assert session.last.live
    assert view.graph.runs["csv"] == session.runs.csv()
    assert ",0.125," in view.graph.runs["csv"]
    remote.send("runTable", open=False)
    assert view.graph.runs["csv"] == ""


def test_a_live_run_sends_the_outputs_that_are_looked_at_first(monkeypatch):
    def f(x):
        h = taxpr.tag(x * 2, name="h")
        return {"loss": h.sum(), "parts": [h + k for k in range(30)], "same": [x, x + 1]}

    session = panel(f)(jnp.arange(3.0))
    view = view_for(session)
    session.attach("h", "scale")
    view.graph.set_state({"live": True})
    settled(view)
    assert len(view.graph.results["outputs"]) == 33
    assert view.graph.results["more"] == 0
    session.set_value("h", "factor", 0.25)
    assert view.wait(SECONDS)
    live = view.graph.results
    assert (len(live["outputs"]), live["more"]) == (wire.LIVE_OUTPUTS, 31 - wire.LIVE_OUTPUTS)
    assert live["outputs"][0]["name"] == "out['loss']"
    assert live["unchanged"] == "2 outputs with the same first elements, not compared while Live"
    settled(view)
    assert (len(view.graph.results["outputs"]), view.graph.results["more"]) == (33, 0)
    view.close()


def test_runs_are_compared_on_a_thread_and_the_last_ones_are_shown(
    session, view, remote, monkeypatch
):
    for factor in (0.1, 0.2, 0.3):
        session.attach(TANH, "scale", factor=factor)
        session.run()
    go_on, threads = threading.Event(), []
    compare = type(session.runs).compare

    def slow(runs, before, after):
        threads.append(threading.current_thread())
        assert go_on.wait(SECONDS)
        return compare(runs, before, after)

    monkeypatch.setattr(type(session.runs), "compare", slow)
    message = {"do": "showRun", "run": 3}
    view.graph._handle_custom_msg({**message, "against": 1}, [])
    assert view.graph.results["against"] == 0  # the page can ask for something else meanwhile
    view.graph._handle_custom_msg({**message, "against": 2}, [])
    go_on.set()
    assert view.wait(SECONDS)
    assert (view.graph.results["number"], view.graph.results["against"]) == (3, 2)
    assert threading.current_thread() not in threads


def test_of_the_values_that_come_during_a_live_run_the_latest_wins(session, view, monkeypatch):
    session.attach(TANH, "scale")
    key, used = f"{TANH}.0", []
    begun, go_on = threading.Event(), threading.Event()
    run = session.run

    def slow(*args, **more):
        used.append(session.injectors[key].values["factor"])
        begun.set()
        assert go_on.wait(SECONDS)
        return run(*args, **more)

    monkeypatch.setattr(session, "run", slow)
    view.graph.set_state({"live": True})
    assert begun.wait(SECONDS)
    for factor in (0.1, 0.2, 0.3):
        session.set_value(key, "factor", factor)
    go_on.set()
    settled(view)
    assert used == [0.5, 0.3]
    assert session.last.injectors[key].values == {"factor": 0.3}


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (lambda session, key: session.set_value(key, "factor", 0.25), True),
        (lambda session, key: session.tag("in0"), True),
        (lambda session, key: session.detach(key), True),
        (lambda session, key: session.fold("1:scan"), False),
        (lambda session, key: session.tag(key, "h"), False),
    ],
)
def test_what_is_changed_during_a_run_makes_its_results_old(session, view, change, stale):
    key = session.attach(TANH, "scale").key
    begun, go_on = threading.Event(), threading.Event()

    def on_phase(phase):
        begun.set()
        assert go_on.wait(SECONDS)

    run = threading.Thread(target=session.run, kwargs={"on_phase": on_phase})
    run.start()
    assert begun.wait(SECONDS)
    change(session, key)
    go_on.set()
    run.join(SECONDS)
    assert view.graph.results
    assert view.graph.stale is session.stale is stale
    session.run()
    assert view.graph.stale is session.stale is False


def test_live_makes_up_for_a_value_that_came_during_a_run_of_a_cell(session, view, remote):
    key = session.attach(TANH, "scale").key
    view.graph.set_state({"live": True})
    settled(view)
    begun, go_on = threading.Event(), threading.Event()

    def on_phase(phase):
        begun.set()
        assert go_on.wait(SECONDS)

    cell = threading.Thread(target=session.run, kwargs={"on_phase": on_phase})
    cell.start()
    assert begun.wait(SECONDS)
    remote.send("value", key, param="factor", text="0.125")
    assert view.graph.message == {"text": "", "error": False}
    go_on.set()
    cell.join(SECONDS)
    settled(view)
    assert session.last.injectors[key].values == {"factor": 0.125}
    assert not view.graph.stale
    remote.send("run", device="cpu:0")
    number = session.last.number
    session.run()
    settled(view)
    assert session.last.number == number + 1  # nothing is made up for twice


def test_each_message_is_answered_whatever_becomes_of_it(session, view, remote, monkeypatch):
    def raises(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "untag", raises)
    with pytest.raises(KeyboardInterrupt):
        remote.send("untag", "sum", **{"from": "page", "number": 1})
    assert view.graph.handled == {"page": 1}
    monkeypatch.setattr(view.jobs, "known", lambda: None)
    remote.send("untag", "sum", **{"from": "page", "number": 2})
    assert view.graph.handled == {"page": 2}
    monkeypatch.undo()


def test_results_begin_with_what_changed():
    def f(x):
        h = taxpr.tag(x * 2, name="h")
        return {"a": x, "b": h, "c": jnp.sin(x), "loss": h.sum()}

    session = panel(f)(jnp.arange(3.0))
    view = view_for(session)
    session.attach("h", "zero")
    assert view.start_run().wait(SECONDS)
    shown = view.graph.results
    assert [row["name"] for row in shown["outputs"]] == [
        f"out['{name}']" for name in ("loss", "b", "a", "c")
    ]
    assert [row["same"] for row in shown["outputs"]] == [False, False, True, True]
    assert shown["unchanged"] == "2 outputs unchanged"
    view.close()


def test_results_that_are_not_finite_are_not_folded_away():
    def f(x):
        h = taxpr.tag(x * 2, name="h")
        return {"a": x, "log": jnp.log(h - 9.0), "loss": jnp.sqrt(h.sum())}

    session = panel(f)(jnp.arange(3.0))
    view = view_for(session)
    assert view.start_run().wait(SECONDS)
    shown = view.graph.results
    assert view.graph.runs["summary"] == "Run 1: 1 of 3 outputs not finite, none changed"
    assert [(row["name"], row["same"], row["notFinite"]) for row in shown["outputs"]] == [
        ("out['log']", True, "not finite: 3 of 3 elements"),
        ("out['loss']", True, ""),
        ("out['a']", True, ""),
    ]
    assert shown["unchanged"] == "2 outputs unchanged"
    session.attach("h", "scale", factor=-1.0)
    assert view.start_run().wait(SECONDS)
    shown = view.graph.results
    assert shown["outputs"][0]["notFinite"] == "not finite: 1 of 1 element with the changes"
    assert view.graph.runs["summary"] == "Run 2: 2 of 3 outputs not finite, 1 changed"
    view.close()


def test_a_run_made_in_python_is_shown(session, view):
    session.run()
    assert view.graph.results["title"].startswith("Run 1")
    assert all(row["same"] for row in view.graph.results["outputs"])


class SlowRun:
    """Stands in for `Session.run`: many phases, until it is told to stop."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.cancelled = False

    def __call__(self, device=None, on_phase=None, cancel=None):
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not self.cancelled:
            on_phase(Phase("injected", "compile", 7, 8))
            self.cancelled = cancel.wait(0.001)


def test_a_run_reports_its_phase_and_time_and_not_too_often(session, view, remote, monkeypatch):
    monkeypatch.setattr(session, "run", SlowRun(5 * TICK))
    task = view.start_run()
    assert view.start_run() is task  # there is one at a time
    assert view.graph.message["text"] == "A run is under way."
    seen = []
    view.graph.observe(lambda change: seen.append(change.new), "progress")
    assert task.wait(SECONDS)
    assert 2 <= len(seen) <= 7
    assert seen[1]["label"] == "injected · compile"
    assert seen[1]["fraction"] == 0.75
    assert seen[1]["elapsed"] > 0
    assert seen[-1] == {"running": False}


def test_a_run_can_be_cancelled_and_the_next_one_works(session, view, remote, monkeypatch):
    slow = SlowRun(SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(session, "run", slow)
        task = view.start_run()
        said = []
        view.graph.observe(lambda change: said.append(change.new["text"]), "message")
        remote.send("cancel")
        assert task.wait(SECONDS)
    assert slow.cancelled
    assert said == ["Cancelling.", "Cancelled."]
    assert view.start_run().wait(SECONDS)
    assert view.graph.results["status"] == "done"


def test_what_goes_wrong_in_a_run_is_a_message(session, view, monkeypatch, caplog):
    monkeypatch.setattr(session, "run", lambda *args, **more: 1 / 0)
    assert view.start_run().wait(SECONDS)
    assert view.graph.message == {"text": "ZeroDivisionError: division by zero", "error": True}
    assert [record.name for record in caplog.records] == ["taxpr_jupyter"]
    assert "1 / 0" in caplog.text


def test_only_the_newest_layout_is_shown(session, view, monkeypatch):
    real, first = session.svg, threading.Event()

    def slow_at_first(cancel):
        if not first.is_set():
            first.set()
            assert cancel.wait(SECONDS)
            return "<svg>old</svg>"
        return real(cancel)

    monkeypatch.setattr(session, "svg", slow_at_first)
    session.tag(TANH, name="h")
    assert first.wait(SECONDS)
    session.untag("h")
    assert view.wait(SECONDS)
    assert view.graph.svg == real()
    assert view.graph.progress == {"running": False}


def test_a_layout_that_is_cancelled_leaves_the_picture(session, view, remote, monkeypatch):
    before = view.graph.svg
    with monkeypatch.context() as patch:
        patch.setattr(session, "svg", lambda cancel: cancel.wait(SECONDS) and None)
        session.tag(TANH, name="h")
        remote.send("cancel")
    assert view.graph.svg == before
    assert "cancelled" in view.graph.message["text"]
    assert view.graph.progress == {"running": False}
    session.attach("h", "scale")  # the next change draws it
    assert view.wait(SECONDS)
    assert view.graph.svg == session.svg()


def test_what_is_no_longer_there_is_not_selected(session, view, remote):
    assert remote.select("7:gone") == {}
    assert view.graph.selected == ""


def test_without_a_layout_there_is_a_note(session, view, remote, monkeypatch):
    monkeypatch.setattr(session, "svg", lambda cancel: None)
    monkeypatch.setattr(type(session), "layout_note", "No picture: it took too long.")
    remote.send("tag", f"{TANH}.0", name="h")
    assert view.graph.svg == ""
    assert view.graph.note == "No picture: it took too long."
    assert view.graph.view == "outline"
    assert view.graph.rows["note"] == "No picture: it took too long."
    assert TANH in [row["address"] for row in view.graph.rows["rows"]]
    assert "view" not in session.view_state
    monkeypatch.undo()
    remote.send("untag", "h")  # the next picture is shown again
    assert view.graph.svg
    assert view.graph.view == "picture"


def rows_of(graph):
    """The rows as text, and how many there are of each address."""
    texts = ["".join(text for text, _, _ in row["spans"]) for row in graph.rows["rows"]]
    return texts, [row["address"] for row in graph.rows["rows"]]


def test_the_view_that_is_looked_at_is_sent(session, view, remote):
    graph = view.graph
    graph.set_state({"view": "text"})
    texts, addresses = rows_of(graph)
    assert texts[0].startswith("{ lambda ")
    assert TANH in addresses
    assert (graph.rows["view"], graph.rows["more"], graph.rows["note"]) == ("text", 0, "")
    remote.sent.clear()
    remote.send("fold", "1:scan")
    texts, addresses = rows_of(graph)
    assert TANH not in addresses
    assert any("⟨scan ×5 · " in text for text in texts)
    graph.set_state({"view": "outline"})
    assert graph.rows["view"] == "outline"
    graph.set_state({"view": "picture"})
    remote.sent.clear()
    remote.send("unfold", "1:scan")
    assert "rows" not in remote.sent
    assert session.view_state["view"] == "picture"


def test_the_view_is_kept_when_a_cell_is_run_again(session, view):
    view.graph.set_state({"view": "text"})
    view.close()
    again = view_for(session).graph
    assert again.view == "text"
    assert again.rows["view"] == "text"


def test_of_many_lines_the_first_ones_are_sent(session, view, monkeypatch):
    monkeypatch.setattr(wire, "MOST_LINES", 4)
    view.graph.set_state({"view": "text"})
    texts, _ = rows_of(view.graph)
    assert view.graph.rows["more"] == len(session.lines()) - 4
    assert not any(text.startswith("in (") for text in texts)  # the end is not there


def test_changes_from_many_threads(session, view, remote):
    threads = [
        threading.Thread(target=act, args=(address,))
        for address in ("1:scan/body/0:dot_general", "1:scan/body/1:add", TANH, "2:reduce_sum")
        for act in (remote.select, session.inspect, session.tag)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert view.wait(SECONDS)
    assert len(session.tags) == 4
    assert {tag["name"] for tag in view.graph.tags} == {site.name for site in session.sites()}
    assert view.graph.svg == session.svg()


def test_the_output_is_a_widget_and_text(session, view):
    data, metadata = view._repr_mimebundle_(include=None, exclude=None)
    assert data[WIDGET_MIME]["model_id"] == view.model_id
    assert data["text/plain"] == session.text()
    assert metadata == {}
    assert view._ipython_display_ is None


def test_on_colab_the_output_names_the_widget_manager(view, monkeypatch):
    manager = types.SimpleNamespace(_installed_url="https://manager.invalid")
    output = types.SimpleNamespace(enable_custom_widget_manager=lambda: None, _widgets=manager)
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    _, metadata = view._repr_mimebundle_()
    colab = {"custom_widget_manager": {"url": "https://manager.invalid"}}
    assert metadata == {WIDGET_MIME: {"colab": colab}}


def test_closing_the_view_loses_nothing(session, view, remote):
    session.tag(TANH, name="h")
    remote.select(TANH)
    view.close()
    view.close()
    assert session.tags
    session.attach("h", "scale")  # nobody listens any more
    again = view_for(session)
    assert again is not view
    assert again.graph.selected == TANH
    assert tanh_tag(again.graph)["injector"] == "scale(factor=0.5)"


def test_a_closed_session_closes_its_view(session, view):
    session.close()
    assert view.comm is None
    assert view.graph.comm is None
    assert all(box.comm is None for box in view.children)
    assert view_for(session) is not view


def test_the_next_session_of_a_cell_shows_the_same_node_and_place(session, view, remote):
    remote.select(TANH)
    place = {"x": 1.5, "y": -20.0, "scale": 2.0}
    view.graph.set_state({"place": place})
    new = panel(f)(0.1 * jnp.ones((3, 3)), jnp.ones((5, 3)))
    new.take_over(session)
    try:
        assert view_for(new).graph.place == place
        assert view_for(new).graph.selected == TANH
        assert view_for(new).graph.inspection["title"] == "h = tanh"
    finally:
        view_for(new).close()


def test_the_colours_can_be_chosen_in_the_browser_and_in_python(view, remote, session):
    assert view.graph.heat == ""
    remote.send("heat", "flops")
    assert session.heat == view.graph.heat == "flops"
    assert 'class="legend"' in view.graph.svg
    assert remote.select(TANH)["cost"][0].endswith(" moved")
    session.heat = None
    assert view.wait(SECONDS)
    assert view.graph.heat == ""
    assert 'class="legend"' not in view.graph.svg


def test_colours_that_there_are_not_are_a_message(view, remote, session):
    remote.send("heat", "<b>")
    assert "not by '<b>'" in view.graph.message["text"]
    assert session.heat is None


def test_marimo_gets_the_widget_without_boxes_and_plain_texts(session, view, remote):
    assert session._display_() is view.graph
    remote.select(TANH)
    remote.send("attach", f"{TANH}.0", injector="scale")
    view.graph.set_state({"view": "source"})
    assert view.wait(SECONDS)

    def kinds(value):
        yield type(value)
        for one in value.items() if isinstance(value, dict) else ():
            yield from kinds(list(one))
        for one in value if isinstance(value, list) else ():
            yield from kinds(one)

    assert view.graph.controls["address"] == f"{TANH}.0"
    assert set(kinds(view.graph.get_state())) <= {dict, list, str, int, float, bool, type(None)}
