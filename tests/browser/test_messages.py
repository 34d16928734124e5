"""What the panel's modules send, without a kernel, is what is declared."""

import json
from typing import get_args, get_type_hints

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import MISSING
from declared import is_declared

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._model.messages import Message, Traits
from taxpr_jupyter._view.widget import view_for

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")

# A page with one panel, whose model keeps what it is to send.
PAGE = """
<style>{css}</style>
<div class="taxpr-panel widget-vbox">
<div class="taxpr-grid widget-vbox"><div id="el"></div></div>
</div>
"""
START = """async ([code, state]) => {
  window.sent = [];
  window.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; sent.push({ do: "set", name, value }); },
    save_changes: () => {},
    send: (message) => sent.push(message),
    on: () => {},
    off: () => {},
  };
  const module = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  await module.default.render({ model, el: document.getElementById("el") });
}"""
TANH = "1:scan/body/1:tanh"


@pytest.fixture(autouse=True)
def _no_kernels_left():
    """These tests need no server."""


def f(xs):
    def step(c, x):
        return jnp.tanh(c + x), taxpr.tag(c, name="carried")

    return jax.lax.scan(step, jnp.zeros(2), xs)


@pytest.fixture
def shown(page):
    """Shows the panel of a session, and tells what it has sent since."""
    session = Session(f, (jnp.ones((3, 2)),))
    view = view_for(session)
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))

    def show(change=lambda session, graph: None):
        change(session, view.graph)
        assert view.wait(60)
        state = {name: getattr(view.graph, name) for name in get_type_hints(Traits)}
        page.set_content(PAGE.format(css=view.graph._css))
        page.evaluate(START, [str(view.graph._esm), json.loads(json.dumps(state))])
        page.evaluate("sent.length = 0")

    show.sent = lambda: page.evaluate("sent.splice(0)")
    yield show
    view.close()
    assert not troubles


def selected(address):
    return lambda session, graph: setattr(graph, "selected", address)


def attached(session, graph):
    graph.selected = TANH
    session.attach(f"{TANH}.0", "scale", factor=0.5)


def all_sent(shown):
    """The messages since the last time, as declared; without their numbers."""
    messages = [message for message in shown.sent() if message["do"] != "set"]
    for message in messages:
        assert isinstance(message.pop("from"), str)
        assert isinstance(message.pop("number"), int)
        assert any(is_declared(message, kind) for kind in get_args(Message)), message
    return messages


def test_a_value_is_tagged_and_gets_an_injector(page, shown):
    shown(selected(TANH))
    field = page.locator(".tx-inspector .tx-field")
    field.fill("mine")
    field.press("Enter")
    page.locator("select[aria-label=Injector]").select_option("scale")
    page.get_by_role("button", name="Upstream").click()
    page.get_by_role("button", name="Downstream").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_label("Colour by").select_option("flops")
    value = f"{TANH}.0"
    assert all_sent(shown) == [
        {"do": "tag", "address": value, "name": "mine"},
        {"do": "attach", "address": value, "injector": "scale"},
        {"do": "upstream", "address": TANH},
        {"do": "downstream", "address": TANH},
        {"do": "run", "device": "cpu:0"},
        {"do": "heat", "address": "flops"},
    ]


def test_a_parameter_is_typed_and_moved(page, shown):
    shown(attached)
    page.locator(".tx-param input[type=text]").fill("2")
    page.keyboard.press("Enter")
    to = {"do": "value", "address": f"{TANH}.0", "param": "factor"}
    assert all_sent(shown) == [{**to, "text": "2"}]
    shown(attached)
    page.locator(".tx-slider").focus()
    page.keyboard.press("ArrowLeft")
    [moved] = all_sent(shown)
    assert moved == {**to, "position": moved["position"]}


def test_a_search_and_what_is_lit(page, shown):
    def lit(session, graph):
        graph.slice = {"words": "Lit", "elements": [], "edges": [], "only": True, "whole": False}

    shown(lit)
    search = page.get_by_role("searchbox")
    assert "prim:dot" in search.get_attribute("title")
    search.fill("tanh")
    search.press("Shift+Enter")
    page.get_by_role("button", name="Only this").click()
    page.get_by_role("button", name="Show all").click()
    assert all_sent(shown) == [
        {"do": "find", "text": "tanh", "step": -1},
        {"do": "only"},
        {"do": "all"},
    ]


def test_a_path_and_folding(page, shown):
    shown(selected("1:scan"))
    page.get_by_role("button", name="Fold", exact=True).click()
    page.locator('svg [data-address="out1"]').click(modifiers=["Shift"])
    page.locator('svg [data-address="out1"]').press("o")
    assert all_sent(shown) == [
        {"do": "fold", "address": "1:scan"},
        {"do": "between", "address": "1:scan", "to": "out1"},
        {"do": "toggle", "address": "out1"},
    ]


def test_progress_is_cancelled(page, shown):
    def busy(session, graph):
        graph.progress = {
            "running": True,
            "label": "running",
            "fraction": 0.5,
            "elapsed": 1.0,
            "cancelling": False,
        }

    shown(busy)
    page.get_by_role("button", name="Cancel").click()
    assert all_sent(shown) == [{"do": "cancel"}]
