"""The panel in Notebook 7."""

import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, expect, notebook
from browser.programs import IMPORTS, SCAN, TANH, whole_way


@pytest.mark.slow
def test_from_a_click_to_the_changed_value_in_python(page, server):
    whole_way(page, server.in_notebook7, BUILD / "panel-notebook7.png")


@pytest.mark.slow
def test_keys_pressed_in_the_panel_do_nothing_to_the_notebook(page, server):
    book = NotebookPage(page, server.in_notebook7(notebook(IMPORTS, SCAN)))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    cells = book.count_cells()
    panel.select(TANH)
    expect(panel.node(TANH)).to_be_focused()
    panel.attach("scale")
    for focused in (panel.node(TANH), panel.slider, panel.field, panel.run_button, panel.code):
        if focused is panel.code:
            panel.root.get_by_text("Python code").click()
        focused.focus()
        for key in ("a", "b", "x", "d", "d"):  # cells above and below, cut, delete
            page.keyboard.press(key)
    assert book.count_cells() == cells
    panel.node(TANH).focus()
    page.keyboard.press("Escape")
    expect(panel.address).to_have_count(0)
    expect(panel.node(TANH)).to_be_focused()
    page.keyboard.press("Escape")  # nothing is selected: back to the notebook
    page.keyboard.press("b")
    assert book.count_cells() == cells + 1
