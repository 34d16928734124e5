"""Live, and a panel whose kernel is gone."""

import re

import pytest
from browser.notebook_page import NotebookPage, expect, in_python, notebook
from browser.programs import IMPORTS, SCAN, TANH


@pytest.mark.slow
@pytest.mark.parametrize("place", ["in_lab", "in_notebook7"])
def test_a_slider_runs_while_live_is_on_and_a_restart_is_said(page, server, place):
    """Live is on by itself after the first run, and stays as the user sets it."""
    used = in_python("[p.last.number, p.last.reused, *p.last.injectors.values()][2].values")
    book = NotebookPage(page, getattr(server, place)(notebook(IMPORTS, SCAN, used)))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    panel.select(TANH)
    panel.attach("scale")
    live = panel.root.get_by_label("Live", exact=True)
    expect(live).not_to_be_checked()  # nothing runs that was never asked for
    panel.run(1)
    expect(live).to_be_checked()
    live.uncheck()
    panel.slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(panel.field).to_have_value("0.45")
    expect(panel.root.locator(".tx-outcome.tx-stale")).to_be_visible()
    expect(panel.results.locator("h3")).to_have_text(re.compile("^Run 1 on "))
    live.check()
    expect(panel.results.locator(".tx-chip-injected")).to_have_text(["h: scale(factor=0.45)"])
    panel.slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(panel.field).to_have_value("0.3")
    chips = panel.results.locator(".tx-chip-injected")
    expect(chips).to_have_text(["h: scale(factor=0.3)"])
    book.expect_python(2, {"factor": 0.3})
    orphan = panel.root.locator(".tx-orphan")
    expect(orphan).to_be_hidden()
    page.locator(".lm-MenuBar-item", has_text="Kernel").click()
    page.locator(".lm-Menu-item[data-command='kernelmenu:restart']").click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(orphan).to_be_visible(timeout=120_000)
    expect(orphan).to_contain_text("Run the cell again")
    expect(panel.run_button).to_be_disabled()
    expect(panel.slider).to_be_disabled()
    expect(panel.injector).to_be_disabled()
    book.run(0)
    book.run(1)
    expect(book.panel(1).run_button).to_be_enabled()
