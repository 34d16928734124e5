"""Edits of the source, in a page that exchanges everything with a panel in this process."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect

from taxpr_jupyter import Session

W = jnp.array([[0.5, -0.2], [0.1, 0.7]])
X = jnp.array([[1.0, 0.5], [-1.0, 2.0]])


def attend(q, k, v):
    weights = jax.nn.softmax(q @ k.T)
    return weights @ v


def loss(w, x):
    h = attend(x @ w, x, x)
    h = h + x
    return (h**2).mean()


def step(w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    return value, grad


def by_hand(factor, residual):
    def loss(w):
        h = factor * jax.nn.softmax(X @ w @ X.T) @ X
        return (residual(h) ** 2).mean()

    return jax.value_and_grad(loss)(W)


@pytest.fixture
def it(page, shown):
    page.set_viewport_size({"width": 1250, "height": 900})
    return shown(Session(step, (W, X), namespace=globals(), call="step(W, X)"), "Source")


RIGHT = "Right-hand side"


def test_an_injector_and_a_line_before_anything_differentiates(it):
    it.panel.get_by_role("button", name="weights: f32[2,2]").click()
    it.page.locator("select[aria-label=Injector]").select_option("scale")
    expect(it.page.locator(".tx-remark")).to_contain_text("The source is edited here")
    it.page.get_by_role("button", name="Run", exact=True).click()
    results = it.page.locator(".tx-results")
    expect(results).to_contain_text("out[1]", timeout=20_000)
    expect(results).to_contain_text("Run 1 on", timeout=20_000)
    for a, b in zip(it.session.last.outputs, by_hand(0.5, lambda h: h + X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    it.root.screenshot(path=BUILD / "edit-injector.png")

    row = it.line("h = h + x")
    row.locator(".tx-of-line").dblclick()
    field = it.panel.get_by_role("textbox", name=RIGHT)
    expect(field).to_have_value("h + x")
    field.fill("h @ nothing")
    field.press("Enter")
    expect(it.panel.get_by_role("alert")).to_contain_text("nothing")
    it.root.screenshot(path=BUILD / "edit-mistake.png")
    field.fill("h - 2 * x")
    field.press("Enter")
    typed = it.line("h = h - 2 * x")
    expect(typed).to_contain_text("edited")
    expect(typed.get_by_role("alert")).to_have_count(0)
    expect(field).to_have_count(0)
    it.page.get_by_role("button", name="Run", exact=True).click()
    expect(results).to_contain_text("Run 2 on", timeout=20_000)
    for a, b in zip(it.session.last.outputs, by_hand(0.5, lambda h: h - 2 * X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    it.panel.get_by_text("The edits as a diff").click()
    expect(it.panel.locator(".tx-diff")).to_contain_text("+    h = h - 2 * x")
    it.root.screenshot(path=BUILD / "edit-line.png")

    it.page.get_by_role("tab", name="Compare").click()
    compare = it.page.get_by_role("tabpanel", name="Compare")
    expect(compare).to_contain_text(re.compile("loss.*test_edited.py"))
    it.root.screenshot(path=BUILD / "edit-compare.png")
    it.page.get_by_role("tab", name="Source").click()

    typed.get_by_role("button", name="Revert").click()
    expect(it.line("h = h + x")).not_to_contain_text("edited")
    assert not it.session.edits()
    assert [one.name for one in it.session.injectors.values()] == ["scale"]


def test_by_the_keyboard(it):
    row = it.line("h = h + x")
    row.locator(".tx-of-line").click()
    it.page.keyboard.press("ArrowRight")
    it.page.keyboard.press("ArrowRight")
    expect(row.get_by_role("button", name=re.compile("Edit line"))).to_be_focused()
    it.page.keyboard.press("Enter")
    field = it.panel.get_by_role("textbox", name=RIGHT)
    expect(field).to_be_focused()
    it.page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    expect(row.locator(".tx-of-line")).to_be_focused()
    assert not it.session.edits()


def test_a_mistake_goes_with_the_text_that_it_is_about(it):
    row = it.line("h = h + x")
    alert, field = it.panel.get_by_role("alert"), it.panel.get_by_role("textbox", name=RIGHT)
    for _ in range(2):
        row.locator(".tx-of-line").dblclick()
        field.fill("h @ nothing")
        field.press("Enter")
        expect(alert).to_contain_text("nothing")
        field.press("Escape")
        expect(alert).to_have_count(0)
    expect(row.locator(".tx-of-line")).to_be_focused()


SENT = """(field) => {
  field.value = "h - 2 * x";
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  return field.closest("[role=tabpanel]").querySelectorAll("[role=alert]").length;
}"""


def test_a_mistake_goes_when_another_text_is_sent(it):
    """The kernel takes a while to trace it."""
    it.line("h = h + x").locator(".tx-of-line").dblclick()
    field = it.panel.get_by_role("textbox", name=RIGHT)
    field.fill("h @ nothing")
    field.press("Enter")
    expect(it.panel.get_by_role("alert")).to_contain_text("nothing")
    assert field.evaluate(SENT) == 0
    expect(it.line("h = h - 2 * x")).to_contain_text("edited")


def test_what_is_being_typed_stays_when_the_lines_are_drawn_again(it):
    def draw_again(note):
        it.panel.get_by_text("def loss(w, x):").evaluate("(line) => (line.id = 'of-before')")
        it.view.graph.source = {**it.view.graph.source, "note": note}
        it.look()
        expect(it.panel.get_by_role("note")).to_have_text(note)
        expect(it.panel.locator("#of-before")).to_have_count(0)
        expect(field).to_be_focused()

    it.line("h = h + x").locator(".tx-of-line").dblclick()
    field = it.panel.get_by_role("textbox", name=RIGHT)
    draw_again("Nothing is typed yet.")
    field.fill("h - x")
    draw_again("Something is typed.")
    it.page.keyboard.press("End")
    it.page.keyboard.type(" * 2.0")
    expect(field).to_have_value("h - x * 2.0")
    field.press("Enter")
    expect(it.panel.get_by_text("edited", exact=True)).to_be_visible()
    expect(field).to_have_count(0)
    assert [one.text for one in it.session.written] == ["h - x * 2.0"]


def test_undo_and_redo_in_order(it):
    bar = it.page.get_by_role("group", name="History")
    undo, redo = (bar.get_by_role("button", name=re.compile(name)) for name in ("Undo", "Redo"))
    expect(undo).to_be_hidden()
    it.panel.get_by_role("button", name="weights: f32[2,2]").click()
    it.page.locator("select[aria-label=Injector]").select_option("scale")
    expect(it.page.locator(".tx-remark")).to_contain_text("The source is edited here")
    it.line("h = h + x").locator(".tx-of-line").dblclick()
    field = it.panel.get_by_role("textbox", name=RIGHT)
    field.fill("h - x")
    field.press("Control+z")  # is the field's own
    expect(field).to_have_value("h + x")
    field.fill("h - x")
    field.press("Enter")
    typed = it.line("h = h - x")
    expect(typed).to_contain_text("edited")
    it.line("return (h**2).mean()").locator(".tx-of-line").dblclick()
    expect(field).to_have_value("(h**2).mean()")
    field.fill("abs(h).mean()")
    field.press("Enter")
    expect(it.line("return abs(h).mean()")).to_contain_text("edited")
    expect(undo).to_have_attribute("title", re.compile(r"return abs\(h\).mean\(\)"))
    it.root.screenshot(path=BUILD / "edit-undo.png")

    undo.click()
    expect(it.line("return (h**2).mean()")).not_to_contain_text("edited")
    typed.locator(".tx-of-line").click()
    it.page.keyboard.press("Control+z")
    expect(it.line("h = h + x")).not_to_contain_text("edited")
    expect(it.page.locator(".tx-message")).to_contain_text("Undone: ")
    assert [one.name for one in it.session.injectors.values()] == ["scale"]
    it.page.keyboard.press("Control+z")
    expect(undo).to_be_disabled()
    assert it.session.program is it.session.untouched
    it.page.keyboard.press("Control+Shift+z")
    it.page.keyboard.press("Control+y")
    expect(typed).to_contain_text("edited")
    redo.click()
    expect(redo).to_be_disabled()
    assert len(it.session.edits()) == 2
    assert [one.edits for one in it.session.injectors.values()] == [True]


def test_a_run_compares_the_gradients_of_a_loss(page, shown):
    page.set_viewport_size({"width": 1250, "height": 900})
    it = shown(Session(loss, (W, X), namespace=globals(), call="loss(W, X)"), "Source")
    box = page.get_by_role("checkbox", name="Gradients")
    expect(box).to_be_hidden()
    it.line("return (h**2).mean()").locator(".tx-of-line").dblclick()
    field = it.panel.get_by_role("textbox", name=RIGHT)
    field.fill("abs(h).mean()")
    field.press("Enter")
    expect(box).to_be_checked()
    run = page.get_by_role("button", name="Run", exact=True)
    run.click()
    table = page.locator(".tx-results").get_by_label("Gradients", exact=True)
    expect(table).to_contain_text("∂out/∂w")
    expect(page.locator(".tx-ran")).to_contain_text("2 of 2 gradients changed")
    page.get_by_role("tab", name="Results").click()
    it.root.screenshot(path=BUILD / "edit-gradients.png")
    expect(table.get_by_role("row")).to_have_count(3)
    box.uncheck()
    run.click()
    expect(page.locator(".tx-results")).to_contain_text("Run 2 on")
    expect(table).to_have_count(0)


def many(ws, x):
    total = jnp.zeros(())
    for k, w in enumerate(ws):
        total = total + (jnp.sin(w) * x * (k + 1)).sum()
    half = (ws[0] * x).sum()
    return total + half


def test_the_gradients_that_changed_are_shown_and_the_others_counted(page, shown):
    page.set_viewport_size({"width": 1250, "height": 900})
    args = [W] * 30, X
    it = shown(Session(many, args, namespace=globals(), call="many(ws, x)"), "Source")
    it.line("half = (ws[0] * x).sum()").locator(".tx-of-line").dblclick()
    field = it.panel.get_by_role("textbox", name=RIGHT)
    field.fill("(ws[0] * x * ws[3]).sum()")
    field.press("Enter")
    expect(field).to_have_count(0)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".tx-ran")).to_contain_text("3 of 31 gradients changed")
    page.locator(".tx-ran").get_by_role("button").click()
    expect(page.get_by_role("table", name="Gradients").get_by_role("row")).to_have_count(4)
    expect(page.get_by_text("28 gradients unchanged", exact=True)).to_be_visible()
