"""Before and after the changes, side by side, in JupyterLab."""

import re

import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, expect, in_python, notebook
from browser.programs import IMPORTS, SCAN

CHANGE = """p.attach("sum", "scale", factor=0.5); p.tag("1:scan/body/2:tanh", name="h")"""
AGAIN = """p.attach("h", "add", value=1.0)"""


@pytest.fixture
def opened(page, server):
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    content = notebook(IMPORTS, SCAN, CHANGE, AGAIN, in_python("sorted(p.tags)"))
    book = NotebookPage(page, server.in_lab(content))
    book.run(0)
    errors.clear()  # of JupyterLab's own, before there is a panel
    book.run(1)
    yield book, book.panel(1)
    assert errors == []


def test_before_and_after_are_side_by_side(page, opened):
    book, panel = opened
    page.set_viewport_size({"width": 1700, "height": 1500})
    book.run(2)
    expect(panel.node(kind="injected")).to_have_count(1)
    expect(panel.tab_by_keys("Compare")).to_have_attribute("aria-selected", "true")
    compare = panel.root.get_by_role("tabpanel", name="Compare")
    sides = [compare.locator(f"svg g.{side}") for side in ("before", "after")]
    for side in sides:
        expect(side).to_be_visible()
    left, right = (side.bounding_box() for side in sides)
    assert left["x"] + left["width"] <= right["x"]
    counts = compare.get_by_role("list", name="Differences").get_by_role("listitem")
    expect(counts.filter(has_text=re.compile(r"^\+ \d+ added$"))).to_have_count(1)
    expect(counts.filter(has_text=re.compile(r"^\d+ the same$"))).to_have_count(1)
    new = sides[1].locator(".node.new")
    assert new.count() > 0
    fill, paper = (
        item.evaluate("item => getComputedStyle(item.querySelector('rect, path')).fill")
        for item in (new.first, sides[1].locator(".node.same").first)
    )
    assert fill != paper
    for theme in ("Dark", "Light"):
        change = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
        page.evaluate(change, f"JupyterLab {theme}")
        light = str(theme == "Light").lower()
        page.locator(f"[data-jp-theme-light={light}]").wait_for(state="attached")
        panel.screenshot(BUILD / f"compare-{theme.lower()}.png")

    following = panel.button("Next difference")
    following.focus()
    page.keyboard.press("Enter")
    words = compare.get_by_role("status")
    expect(words).to_contain_text(re.compile(r"^1 of \d+: .*before: 1:scan/body/t0"))
    expect(compare.locator("[aria-selected=true]").first).to_be_focused()
    panel.screenshot(BUILD / "compare-next.png")
    for _ in range(2):  # all of it
        panel.button("Fit the picture").click()
    same = sides[0].locator(".node[data-pair]").first
    same.locator("rect, path").first.click()
    expect(compare.locator("[aria-selected=true]")).to_have_count(2)  # and its partner
    expect(words).to_contain_text("before: ")
    expect(words).to_contain_text("after: ")

    tag = sides[1].locator(".node.new.tag")
    expect(tag).to_contain_text("tag h")
    book.run(3)
    expect(tag).to_have_count(0)  # the injector stands there
    panel.root.get_by_role("tab", name="Picture").click()
    expect(panel.node(kind="injected")).to_have_count(2)
    book.expect_python(4, ["1:scan/body/2:tanh.0"])
