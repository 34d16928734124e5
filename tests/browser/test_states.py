"""States of a function in the panel."""

import re

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
ADD = "1:scan/body/1:add"


@pytest.fixture
def opened(page, server):
    content = notebook(
        IMPORTS,
        STATES,
        in_python(
            "[p.run().outputs.tolist(), float(total.value), "
            "[float(p.initial_states['total']), p.initial_states['<b>unit</b>'].tolist()]]"
        ),
    )
    book = NotebookPage(page, f"{server.url}/lab/tree/{server.add(content)}?reset")
    book.run(0)
    book.run(1)
    return book, book.panel(1)


def test_states_are_edited_and_shown_after_each_iteration(page, opened):
    book, panel = opened
    assert panel.node(kind="state").count() == 2
    states = panel.root.locator(".tx-states")
    expect(states.locator("tbody th")).to_have_count(2)
    # What does not fit is refused in our words, and the old value stays.
    first = states.get_by_label("Initial value of total")
    expect(first).to_have_value("0.0")
    first.fill("[1, 2]")
    first.press("Enter")
    expect(panel.message).to_have_text("total is f32[], and the value is f32[2]")
    first = states.get_by_label("Initial value of total")
    first.fill("40")
    first.press("Enter")
    expect(panel.code).to_contain_text("states['total'] = np.array(40.0")
    expect(panel.message).to_have_text("")
    vector = states.get_by_label("Initial value of <b>unit</b>")
    vector.fill("[1, 1]")
    vector.press("Enter")
    expect(states.get_by_label("Reset <b>unit</b>")).to_be_visible()
    states.get_by_label("Show each write of total").click()
    expect(panel.node(kind="tag")).to_have_count(1)
    panel.run(1)
    row = states.locator("tbody tr").filter(has_text="total")
    expect(row.locator("td").nth(1)).to_have_text("46")
    expect(row.locator("td").nth(2)).to_have_text("the same")
    expect(row.locator("td").nth(3)).to_contain_text("42, 44, 46")
    panel.node(kind="tag").locator("text").first.click()
    panel.attach("scale")
    panel.run(2)
    expect(panel.root.locator(".tx-states h3")).to_have_text("States")
    page.set_viewport_size({"width": 1400, "height": 1900})
    panel.screenshot(BUILD / "panel-states.png")
    states.get_by_label(re.compile("^total")).or_(
        states.locator(".tx-chip-state").first
    ).first.click()
    expect(panel.inspector.locator("h3")).to_contain_text("state")
    page.keyboard.press("Escape")
    outputs, untouched, initial = book.python(2)
    assert initial == [40.0, [1.0, 1.0]]
    assert outputs == [42.0, 44.0, 46.0]
    assert untouched == 0.0
    states.get_by_role("button", name="Set the states to this").click()
    book.page.wait_for_timeout(300)
