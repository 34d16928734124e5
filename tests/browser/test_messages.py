"""What the panel's modules send, without a kernel, is what is declared."""

from typing import get_args

import jax
import jax.numpy as jnp
import pytest
from browser.notebook_page import expect
from browser.panel_page import PanelPage
from declared import is_declared

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._view.widget import view_for

TANH = "1:scan/body/1:tanh"


def f(xs):
    def step(c, x):
        return jnp.tanh(c + x), taxpr.tag(c, name="carried")

    return jax.lax.scan(step, jnp.zeros(2), xs)


@pytest.fixture
def shown(shown):
    def show(change):
        session = Session(f, (jnp.ones((3, 2)),))
        change(session, view_for(session).graph)
        return shown(session, answers=False)

    return show


def selected(address):
    return lambda session, graph: setattr(graph, "selected", address)


def attached(session, graph):
    graph.selected = TANH
    session.attach(f"{TANH}.0", "scale", factor=0.5)


def all_sent(it):
    """The messages since the last time, as declared; without their numbers."""
    messages = it.take_sent()
    for message in messages:
        assert isinstance(message.pop("from"), str)
        assert isinstance(message.pop("number"), int)
        assert any(is_declared(message, kind) for kind in get_args(Message)), message
    return messages


def test_a_value_is_tagged_and_gets_an_injector(page, shown):
    it = shown(selected(TANH))
    field = page.locator(".tx-inspector .tx-field")
    field.fill("mine")
    field.press("Enter")
    page.locator("select[aria-label=Injector]").select_option("scale")
    page.get_by_role("button", name="Upstream").click()
    page.get_by_role("button", name="Downstream").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_label("Colour by").select_option("flops")
    value = f"{TANH}.0"
    assert all_sent(it) == [
        {"do": "tag", "address": value, "name": "mine"},
        {"do": "attach", "address": value, "injector": "scale"},
        {"do": "upstream", "address": TANH},
        {"do": "downstream", "address": TANH},
        {"do": "run", "device": "cpu:0"},
        {"do": "heat", "address": "flops"},
    ]


# As the browser sends it while an input method has words to choose from.
CHOSEN = """(field) => field.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true }))"""


def test_enter_in_an_input_method_chooses_a_word(page, shown):
    it = shown(selected(TANH))
    for one in (page.locator(".tx-inspector .tx-field"), page.get_by_role("searchbox")):
        one.fill("かな")
        one.evaluate(CHOSEN)
    assert [message for message in all_sent(it) if message["do"] != "find"] == []


def test_one_trait_that_cannot_be_shown_leaves_the_others(page):
    """Of one message of the kernel, and the panel says so."""
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    it = PanelPage(page, Session(f, (jnp.ones((3, 2)),)))
    it.view.graph.show(selected=TANH, svg="<no picture>", counts="counted", runs={"summary": 1})
    it.look()
    expect(page.locator(".tx-counted")).to_have_text("counted")
    expect(page.locator(".tx-message")).to_contain_text("The panel cannot show all of this (runs:")
    assert errors
    it.view.close()


def test_a_parameter_is_moved_and_typed(page, shown):
    it = shown(attached)
    to = {"do": "value", "address": f"{TANH}.0", "param": "factor"}
    page.locator(".tx-slider").press("ArrowLeft")
    [moved] = all_sent(it)
    assert moved == {**to, "position": moved["position"], "drag": moved["drag"]}
    field = page.locator(".tx-param input[type=text]")
    field.fill("2")
    field.press("Enter")
    assert all_sent(it) == [{**to, "text": "2"}]


def test_a_search_and_what_is_lit(page, shown):
    def lit(session, graph):
        graph.slice = {"words": "Lit", "elements": [], "edges": [], "only": True, "whole": False}

    it = shown(lit)
    search = page.get_by_role("searchbox")
    assert "prim:dot" in search.get_attribute("title")
    search.fill("tanh")
    search.press("Shift+Enter")
    page.get_by_role("button", name="Only this").click()
    page.get_by_role("button", name="Show all").click()
    # On a slow machine the text is also looked for before the key is pressed.
    assert [message for message in all_sent(it) if message.get("step") != 0] == [
        {"do": "find", "text": "tanh", "step": -1},
        {"do": "only"},
        {"do": "all"},
    ]


def test_folding(page, shown):
    it = shown(selected("1:scan"))
    page.get_by_role("button", name="Fold", exact=True).click()
    page.locator('svg [data-address="out1"]').press("o")
    assert all_sent(it) == [
        {"do": "fold", "address": "1:scan"},
        {"do": "toggle", "address": "out1"},
    ]


def test_several_values_are_selected(page, shown):
    both = [TANH, "1:scan"]

    def several(session, graph):
        session.attach(f"{TANH}.0", "scale", factor=0.5)
        graph.selected, graph.chosen = TANH, both
        graph.found = {"text": "", "count": 2, "at": 0, "turn": 0, "elements": []}

    it = shown(several)
    page.get_by_role("button", name="Select all 2").click()
    page.get_by_role("button", name="Tag 2", exact=True).click()
    page.get_by_role("button", name="Watch").click()
    page.get_by_role("button", name="Remove 1 injector").click()
    page.get_by_role("button", name="Remove 1 tag").click()
    page.get_by_role("button", name="Path between").click()
    page.get_by_label("Injector for all").select_option("clip")
    assert all_sent(it) == [
        {"do": "choose"},
        {"do": "tagAll", "addresses": both},
        {"do": "record", "iteration": -1, "example": -1, "injectors": True, "cotangents": False},
        {"do": "attachAll", "addresses": both, "injector": ""},
        {"do": "untagAll", "addresses": both},
        {"do": "between", "address": TANH, "to": "1:scan"},
        {"do": "attachAll", "addresses": both, "injector": "clip"},
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

    it = shown(busy)
    page.get_by_role("button", name="Cancel").click()
    assert all_sent(it) == [{"do": "cancel"}]
