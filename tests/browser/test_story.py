"""The whole way of a user: by mouse, by keys alone in the dark, and by fingers at 700 pixels.

A NaN is found and its line edited, a value is scaled live, its iterations are looked through, the
memory is asked for, a step is undone and done again; then all of it is saved, the kernel is
restarted and the notebook opened again, and everything is there.
"""

import re

import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, expect, in_python, notebook
from browser.programs import IMPORTS
from browser.test_accessibility import CHANGE, found

CELL = """\
%%taxpr --name p
def loss(w, xs):
    def step(h, x):
        new = jnp.tanh(w * h + x)
        size = jnp.sqrt(new - 0.5)
        return new, size
    return jax.lax.scan(step, 0.0, xs)[1].sum()

loss(0.5, jnp.array([2.0, 1.0, -3.0]))
"""
SIZE = "jnp.sqrt(jnp.maximum(new - 0.5, 0.01))"
SAVE = "p.save('work.json')"
LOAD = "p.load('work.json')"
# The result of the last run, and what the source edited by hand gives for the same factor.
RESULTS = f"""\
import json
def by_hand(factor):
    h, sizes = 0.0, 0.0
    for x in (2.0, 1.0, -3.0):
        new = h = factor * jnp.tanh(0.5 * h + x)
        sizes += {SIZE}
    return float(sizes)
[one] = p.injectors.values()
factor = one.values["factor"]
"""
RESULTS += in_python("[factor, float(p.last.outputs), by_hand(factor)]")


class Mouse:
    """Presses, types and moves sliders as one does with a mouse."""

    def __init__(self, page):
        self.page = page

    def press(self, locator):
        locator.click()

    def choose(self, select, option):
        select.select_option(option)

    def slide(self, slider):
        box = slider.bounding_box()
        self.press_at(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2)

    def press_at(self, x, y):
        self.page.mouse.click(x, y)

    def tab(self, panel, name):
        self.press(panel.root.get_by_role("tab", name=name))

    def edit(self, row):
        row.hover()
        self.press(row.get_by_role("button", name=re.compile("^Edit line")))

    def undo(self, panel):
        self.press(panel.button("Undo"))

    def redo(self, panel):
        self.press(panel.button("Redo"))


class Fingers(Mouse):
    """Taps; what only shows below a mouse is of no help."""

    def press(self, locator):
        locator.tap()

    def press_at(self, x, y):
        self.page.touchscreen.tap(x, y)

    def edit(self, row):
        pen = row.get_by_role("button", name=re.compile("^Edit line"))
        expect(pen).to_have_css("opacity", "1")
        self.press(pen)


class Keys(Mouse):
    """Goes by the Tab key, in both directions, and by arrow keys."""

    def reach(self, locator):
        """Tab, or Shift with Tab, until it has the focus."""
        expect(locator).to_have_count(1)
        for _ in range(90):
            at = locator.evaluate("""(one) => one === document.activeElement ? 0
                : one.compareDocumentPosition(document.activeElement) & 2 ? 1 : -1""")
            if not at:
                return
            self.page.keyboard.press("Tab" if at > 0 else "Shift+Tab")
        raise AssertionError(f"the Tab key does not reach {locator}")

    def press(self, locator):
        self.reach(locator)
        self.page.keyboard.press("Space")

    def choose(self, select, option):
        self.reach(select)
        self.page.keyboard.type(option)
        expect(select).to_have_value(option)

    def slide(self, slider):
        self.reach(slider)
        for _ in range(1 if slider.input_value() == "-1" else 8):
            self.page.keyboard.press("ArrowRight")

    def tab(self, panel, name):
        tabs = panel.root.get_by_role("tablist", name="View of the program")
        self.reach(tabs.get_by_role("tab", selected=True))
        wanted = tabs.get_by_role("tab", name=name)
        for _ in range(tabs.get_by_role("tab").count()):
            if wanted.get_attribute("aria-selected") == "true":
                return
            self.page.keyboard.press("ArrowRight")
        expect(wanted).to_have_attribute("aria-selected", "true")

    def to_row(self, row):
        """Into the grid of the source, down to a row, and from its text to the right."""
        grid = row.locator("xpath=ancestor::*[@role='grid']")
        self.reach(grid.locator("[tabindex='0']"))
        self.page.keyboard.press("Home")
        for _ in range(12):
            if row.evaluate("(one) => one.contains(document.activeElement)"):
                return
            self.page.keyboard.press("ArrowDown")
        raise AssertionError(f"the arrow keys do not reach {row}")

    def in_row(self, row, stop):
        self.to_row(row)
        for _ in range(6):
            if stop.evaluate("(one) => one === document.activeElement"):
                break
            self.page.keyboard.press("ArrowRight")
        self.page.keyboard.press("Enter")

    def edit(self, row):
        self.in_row(row, row.get_by_role("button", name=re.compile("^Edit line")))

    def undo(self, panel):
        self.page.keyboard.press("Control+z")

    def redo(self, panel):
        self.page.keyboard.press("Control+Shift+z")


def tell(hands, book, panel, shot):
    """The way until everything is done. Returns the factor of the injector."""
    page, root = book.page, panel.root
    ask, source = (root.get_by_role("tabpanel", name=name) for name in ("Ask", "Source"))

    def line(text):
        return source.get_by_role("row").filter(has_text=text)

    # Where does the NaN come from? The row of the answer leads to the line.
    hands.tab(panel, "Ask")
    hands.press(ask.get_by_role("button", name="First NaN", exact=True))
    row = ask.locator(".tx-finding").filter(has_text="jnp.sqrt")
    hands.press(row.get_by_role("button"))
    hands.tab(panel, "Source")
    size = line("size = jnp.sqrt(")
    expect(size).to_have_attribute("aria-selected", "true")
    expect(size).to_be_in_viewport()

    # Another line, and the loss is a number.
    hands.edit(size)
    field = source.get_by_role("textbox", name="Right-hand side")
    expect(field).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(SIZE)
    page.keyboard.press("Enter")
    expect(line("size = ")).to_contain_text("edited")
    hands.press(panel.run_button)
    hands.tab(panel, "Results")
    headline = panel.results.locator(".tx-headline")
    expect(headline).to_have_text(re.compile(r"out nan → \d"))
    shot("edited")

    # A variable of the source is scaled, live.
    hands.tab(panel, "Source")
    chip = line("new = jnp.tanh(").get_by_role("button", name=re.compile("^new"))
    if isinstance(hands, Keys):
        hands.in_row(line("new = jnp.tanh("), chip)
    else:
        hands.press(chip)
    expect(chip).to_have_attribute("aria-pressed", "true")
    hands.choose(panel.injector, "scale")
    expect(panel.field).to_have_value("0.5")
    hands.press(panel.run_button)
    hands.tab(panel, "Results")
    chip_of_run = panel.results.locator(".tx-chip-injected").first
    expect(chip_of_run).to_have_text("new: scale(factor=0.5)")
    live = root.get_by_label("Live", exact=True)
    if not live.is_checked():
        hands.press(live)
    before = headline.inner_text()
    hands.slide(panel.slider)
    expect(panel.field).to_have_value("0.9" if isinstance(hands, Keys) else re.compile("^-0"))
    expect(headline).not_to_have_text(before)
    factor = panel.field.input_value()
    expect(chip_of_run).to_have_text(f"new: scale(factor={factor})")
    shot("live")

    # What the variable held in each iteration.
    hands.tab(panel, "Source")
    recorded = root.get_by_role("group", name="Recorded values")
    hands.press(recorded.get_by_role("button", name="Record values"))
    expect(chip).to_contain_text("=")
    together = chip.inner_text()
    hands.slide(recorded.get_by_role("slider", name="Iteration of the loops"))
    expect(recorded.get_by_role("status").first).to_contain_text(re.compile(r"iteration \d"))
    expect(chip).not_to_have_text(together)
    shot("iteration")

    # What holds the memory.
    hands.tab(panel, "Ask")
    hands.press(ask.get_by_role("button", name="Memory", exact=True))
    expect(ask.get_by_role("table").first).to_contain_text("xs")
    shot("memory")

    # All moves of the slider are undone, and done again. By keys they may be several steps.
    steps = 0
    while (value := panel.field.input_value()) != "0.5":
        hands.undo(panel)
        expect(panel.field).not_to_have_value(value)
        steps += 1
    for _ in range(steps):
        hands.redo(panel)
    expect(panel.field).to_have_value(factor)
    return factor


@pytest.mark.parametrize("way", [pytest.param("mouse", marks=pytest.mark.slow), "keys", "fingers"])
def test_the_whole_way(browser, server, way):
    narrow = way == "fingers"
    size = {"width": 700, "height": 900} if narrow else {"width": 1400, "height": 1000}
    context = browser.new_context(viewport=size, has_touch=narrow, reduced_motion="reduce")
    page = context.new_page()
    url = (server.in_notebook7 if narrow else server.in_lab)(
        notebook(IMPORTS, CELL, LOAD, SAVE, RESULTS)
    )
    book = NotebookPage(page, url)
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    if way == "keys":  # in the dark
        page.evaluate(CHANGE, "JupyterLab Dark")
        page.locator("[data-jp-theme-light=false]").wait_for(state="attached")

    def shot(name):
        assert found(page, ".taxpr-panel") == []
        page.screenshot(path=BUILD / f"story-{way}-{name}.png")

    hands = {"mouse": Mouse, "keys": Keys, "fingers": Fingers}[way](page)
    factor = tell(hands, book, panel, shot)
    asked = book.python(4)
    assert asked[0] == pytest.approx(float(factor))
    assert asked[1] == pytest.approx(asked[2], rel=1e-5)

    book.run(3)
    book.save()
    page.locator(".lm-MenuBar-item", has_text="Kernel").click()
    page.locator(".lm-Menu-item[data-command='kernelmenu:restart']").click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(panel.root.locator(".tx-orphan")).to_be_visible(timeout=120_000)
    again = NotebookPage(page, url)
    again.run(0)
    again.run(1)
    again.run(2)
    panel = again.panel(1)
    expect(panel.root.get_by_role("tab", name="Picture")).to_be_visible()
    hands.tab(panel, "Source")
    row = panel.root.get_by_role("tabpanel", name="Source").get_by_role("row")
    expect(row.filter(has_text="size = ")).to_contain_text(SIZE)
    hands.press(panel.run_button)
    hands.tab(panel, "Results")
    chip = panel.results.locator(".tx-chip-injected").first
    expect(chip).to_have_text(f"new: scale(factor={factor})")
    shot("again")
    assert again.python(4) == asked
    context.close()
