"""What a user types is what runs, however slow the kernel is."""

import pytest
from browser.notebook_page import NotebookPage, expect, in_python, notebook
from browser.programs import IMPORTS, SCAN, TANH

# The kernel takes messages of the browser in several threads; here all but the main one are late.
SLOWED = """\
import ipywidgets, threading, time
handle = ipywidgets.Widget._handle_msg
def late(widget, message):
    if threading.current_thread() is not threading.main_thread():
        time.sleep(1)
    handle(widget, message)
ipywidgets.Widget._handle_msg = late
"""
USED = in_python("[one.values for one in p.last.injectors.values()]")


@pytest.fixture
def opened(page, server):
    content = notebook(IMPORTS, SLOWED, SCAN, USED)
    book = NotebookPage(page, server.in_lab(content))
    for cell in range(3):
        book.run(cell)
    return book, book.panel(2)


@pytest.mark.slow
def test_a_number_typed_before_run_is_the_one_that_runs(opened):
    book, panel = opened
    panel.select(TANH)
    panel.attach("scale")
    panel.field.fill("2")
    panel.field.press("Enter")
    panel.run(1)
    book.expect_python(3, [{"factor": 2.0}])
    expect(panel.field).to_have_value("2")


@pytest.mark.slow
def test_an_injector_chosen_before_run_is_in_the_run(opened):
    book, panel = opened
    panel.select(TANH)
    panel.injector.select_option("zero")
    panel.run(1)
    book.expect_python(3, [{}])


LATER = """\
import threading
def change():
    p.attach("sum", "count")
    p.run()
timer = threading.Timer(4, change)
timer.start()
"""


@pytest.mark.slow
def test_what_is_being_typed_stays_while_the_panel_changes(page, server):
    content = notebook(IMPORTS, SCAN, LATER)
    book = NotebookPage(page, server.in_lab(content))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    panel.select(TANH)
    panel.attach("scale")
    book.run(2)
    panel.field.fill("2")
    expect(panel.results.locator("h3")).to_contain_text("Run 1 on ", timeout=120_000)
    expect(panel.field).to_have_value("2")
    expect(panel.field).to_be_focused()
    panel.field.press("Escape")
    expect(panel.field).to_have_value("0.5")
