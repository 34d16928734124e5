"""Searching, and following values through the picture, in JupyterLab."""

import re

import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, expect, in_python, notebook, until
from browser.programs import IMPORTS

MODEL = """\
%%taxpr --name p
def model(params, xs):
    h = xs
    for k in range(2):
        with jax.named_scope(f"block_{k}"):
            q = jnp.tanh(h @ params["wq"])
            gate = jax.nn.sigmoid(h @ params["wg"])
            def step(c, x):
                c = taxpr.tag(0.9 * c + jnp.sin(x), name=f"memory_{k}")
                return c, jnp.exp(-c)
            c, ys = jax.lax.scan(step, jnp.zeros(q.shape[1:]), q)
            h = ys * gate + h
    with jax.named_scope("loss"):
        return jnp.mean((h - 1.0) ** 2)
model({"wq": 0.1 * jnp.ones((4, 4)), "wg": 0.2 * jnp.ones((4, 4))}, jnp.ones((5, 4)))
"""
FOLD = "for group in ('group:0-7', 'group:8-15', 'group:16-19'): p.fold(group)"
BLOCK, SCAN = "group:8-15", "13:scan"
MEMORY = "13:scan/body/t0"


@pytest.fixture
def opened(page, server):
    """The model with all modules folded, and a cell that asks Python."""

    def open_notebook(expression="0"):
        content = notebook(IMPORTS, MODEL, FOLD, in_python(expression))
        book = NotebookPage(page, server.in_lab(content))
        for cell in range(3):
            book.run(cell)
        panel = book.panel(1)
        expect(panel.node(BLOCK, "group")).to_be_visible()
        return book, panel

    return open_notebook


def in_sight(panel, address):
    """Whether an element is inside of the window of the picture."""
    stage, box = panel.stage.bounding_box(), panel.node(address).first.bounding_box()
    return (
        stage["x"] <= box["x"]
        and stage["y"] <= box["y"]
        and box["x"] + box["width"] <= stage["x"] + stage["width"]
        and box["y"] + box["height"] <= stage["y"] + stage["height"]
    )


def test_a_hit_in_a_folded_scan_in_a_folded_module_is_unfolded_selected_and_in_sight(page, opened):
    book, panel = opened("sorted(p.picture().unfolded)")
    search, count = panel.root.get_by_role("searchbox"), panel.root.locator(".tx-hits")
    expect(panel.node(MEMORY)).to_have_count(0)
    search.fill("sin f32[4]")
    expect(count).to_have_text("2 hits")
    search.fill("memory_")
    expect(count).to_have_text("2 hits")
    search.press("Enter")
    expect(count).to_have_text("1 of 2")
    panel.expect_selected("5:scan/body/t0")
    panel.button("Next hit").click()
    expect(count).to_have_text("2 of 2")
    panel.expect_selected(MEMORY)
    expect(panel.node(MEMORY, "tag")).to_be_visible()
    until(page, lambda: in_sight(panel, MEMORY))
    panel.screenshot(BUILD / "find-hit.png")
    search.focus()
    page.keyboard.press("Enter")  # round to the first one
    expect(count).to_have_text("1 of 2")
    page.keyboard.press("Shift+Enter")
    expect(count).to_have_text("2 of 2")
    panel.button("Next hit").click()
    expect(count).to_have_text("1 of 2")
    page.keyboard.press("Escape")  # from the arrow
    expect(search).to_have_value("")
    expect(search).to_be_focused()
    expect(count).to_have_text("")
    search.fill("shape:nonsense")
    expect(count).to_contain_text("is no shape")
    assert {BLOCK, SCAN} <= set(book.python(3))


@pytest.mark.slow
def test_what_is_upstream_is_lit_across_the_borders_of_clusters(page, opened):
    book, panel = opened("[p.shows_all, str(p.picture().counts)]")
    search = panel.root.get_by_role("searchbox")
    search.fill("tag:memory_1")
    search.press("Enter")
    panel.expect_selected(MEMORY)
    panel.button("Upstream").click()
    words = panel.root.locator(".tx-slice .tx-hint")
    expect(words).to_contain_text(f"What is upstream of {MEMORY}: ")
    pale = re.compile(r"\btx-pale\b")
    expect(panel.node("in2")).not_to_have_class(pale)  # outside of the scan and of the module
    expect(panel.node("group:0-7", "group")).not_to_have_class(pale)  # folded, and part of it
    expect(panel.node("group:16-19", "group")).to_have_class(pale)
    expect(panel.node(f"{SCAN}/body/group:3-4", "group")).to_have_class(pale)
    expect(panel.node("group:10-11", "group")).to_have_class(pale)
    assert panel.stage.locator(".edge.tx-lit").count() > 3
    panel.screenshot(BUILD / "find-upstream.png")

    panel.button("From here …").click()
    panel.node("out0").focus()  # it is out of sight
    page.keyboard.press("Enter")
    panel.button("… to here").click()
    expect(words).to_contain_text(f"The paths from {MEMORY} to out0")
    expect(panel.node(f"{SCAN}/body/group:3-4", "group")).not_to_have_class(pale)
    panel.button("Only this").click()
    rest = panel.stage.locator("svg .node.rest")
    expect(rest.first).to_be_visible()
    expect(rest.first).to_contain_text("not on the path")
    expect(panel.node("group:10-11", "group")).to_have_count(0)
    expect(words).to_contain_text("Only the paths from")
    panel.screenshot(BUILD / "find-only.png")
    book.expect_python(3, [False, "30 equations, 2 tags, 20 of them folded"])
    panel.button("Show all").click()
    expect(rest).to_have_count(0)
    expect(panel.root.locator(".tx-slice")).to_be_hidden()


@pytest.mark.slow
def test_the_paths_between_two_selected_elements_are_lit(page, opened):
    _, panel = opened()
    panel.button("Fit the picture").click()
    panel.select("in2")
    panel.node("out0").locator("text").first.click(modifiers=["Shift"])
    panel.button("Path between").click()
    expect(panel.root.locator(".tx-slice .tx-hint")).to_contain_text("The paths from in2 to out0")
    panel.button("Show all").click()
    panel.select("out0")
    panel.node("in2").focus()
    page.keyboard.press("Shift+Enter")  # whichever comes first
    panel.button("Path between").click()
    expect(panel.root.locator(".tx-slice .tx-hint")).to_contain_text("The paths from in2 to out0")
