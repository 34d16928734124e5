"""States of a function in the panel."""

import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, expect, in_python, notebook
from browser.programs import IMPORTS

STATES = """\
%%taxpr --name p
total = taxpr.State(0.0, name="total")
unit = taxpr.State(jnp.asarray([1.0, 2.0]), name="<b>unit</b>")

def add(x):
    total.value += x * unit.value.sum()
    return total.value

def sums(xs):
    return jax.lax.map(add, xs)

xs = jnp.ones(3)
sums(xs)
"""
SEEN = in_python("[p.last.outputs.tolist(), float(total.value)]")


def fill(states, label, text):
    field = states.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")


@pytest.mark.slow
def test_states_are_edited_and_shown_after_each_iteration(page, server):
    content = notebook(IMPORTS, STATES, SEEN, SEEN)
    book = NotebookPage(page, server.in_lab(content))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    states = panel.root.locator(".tx-states")
    assert panel.node(kind="state").count() == 2
    expect(states.locator("tbody th")).to_contain_text(["<b>unit</b>", "total"])
    # What does not fit is refused in our words, beside the field, and the old value stays.
    field = states.get_by_label("Initial value of total", exact=True)
    wrong = states.get_by_role("alert")
    fill(states, "Initial value of total", "[1, 2]")
    expect(wrong).to_have_text(
        "total is f32[], and the value is f32[2]. Runs begin with 0.0 still."
    )
    expect(field).to_have_value("[1, 2]")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).not_to_have_css("font-weight", "600")
    expect(panel.message).to_have_text("")
    expect(panel.code).not_to_contain_text("states[")
    field.press("Escape")
    expect(wrong).to_have_count(0)
    expect(field).to_have_value("0.0")
    fill(states, "Initial value of total", "x")
    expect(wrong).to_contain_text("`x` is no number")
    fill(states, "Initial value of total", "40")
    expect(panel.code).to_contain_text("states['total'] = np.array(40.0")
    expect(panel.message).to_have_text("")
    fill(states, "Initial value of <b>unit</b>", "[1, 1]")
    expect(states.get_by_label("Reset <b>unit</b>")).to_be_visible()
    states.get_by_label("Show each write of total").click()
    expect(panel.node(kind="tag")).to_have_count(1)
    panel.run(1)
    expect(wrong).to_have_count(0)
    cells = states.locator("tbody tr").filter(has_text="total").locator("td")
    expect(cells.nth(1)).to_have_text("46")
    expect(cells.nth(2)).to_have_text("the same")
    expect(cells.nth(3)).to_contain_text("42, 44, 46")
    # In a narrow panel results have the room of the picture.
    panel.root.get_by_role("tab", name="Picture").click()
    panel.node(kind="tag").locator("text").first.click()
    panel.attach("scale")
    panel.field.fill("2")
    panel.field.press("Enter")
    panel.run(2)
    expect(cells.nth(1)).to_have_text("46")
    expect(cells.nth(2)).to_have_text("348")
    expect(cells.nth(3)).to_contain_text("84, 172, 348")
    page.set_viewport_size({"width": 1400, "height": 1900})
    panel.screenshot(BUILD / "panel-states.png")
    states.locator(".tx-chip-state", has_text="total").click()
    expect(panel.inspector.locator("h3")).to_have_text("state total")
    page.keyboard.press("Escape")
    outputs, kept = book.python(2)
    assert kept == 0.0  # a run leaves the user's own states as they are
    states.get_by_role("button", name="Set the states to this").click()
    page.keyboard.press("Escape")
    book.expect_python(3, [outputs, outputs[-1]])
