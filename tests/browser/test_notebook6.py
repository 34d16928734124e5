"""The panel and the pictures in Notebook 6, with ipywidgets 7."""

import json
import re

from browser.notebook_page import SECONDS, Panel, expect, notebook
from browser.pictures import COMPARED, DRAWN, expect_seen
from browser.programs import IMPORTS, SCAN

CELLS = ".code_cell"
READY = "window.Jupyter?.notebook?.kernel?.is_connected() && Jupyter.notebook._fully_loaded"


def opened(page, server, name):
    page.set_default_timeout(60 * SECONDS)
    page.goto(f"{server.url}/notebooks/{name}")
    page.wait_for_function(READY)


def run(page, *numbers):
    for number in numbers:
        page.evaluate(f"Jupyter.notebook.execute_cells([{number}])")
        prompt = page.locator(f"{CELLS} .input_prompt").nth(number)
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=120 * SECONDS)


def test_pictures_are_seen_when_the_notebook_is_opened_again(page, context, server):
    name = server.add(notebook(IMPORTS, SCAN, DRAWN, COMPARED, "1 + 1"))
    opened(page, server, name)
    run(page, 0, 1, 2, 3)
    panel = Panel(page.locator(f"{CELLS} .taxpr-panel"))
    panel.select("1:scan/body/2:tanh")  # it is alive
    panel.tag("seen_last")
    page.wait_for_timeout(2000)  # until the notebook has the picture with it
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
    page.evaluate("Jupyter.notebook.save_notebook()")
    page.close()
    server.end_kernels()

    page = context.new_page()
    opened(page, server, name)
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
    expect(page.locator(CELLS).nth(1).locator("svg")).to_contain_text("seen_last")
    gone = page.locator(CELLS).nth(1).locator(".output_subarea").last
    expect(gone).to_contain_text("could not be displayed")
    expect(gone).to_have_css("font-size", "0px")
    page.close()

    saved = json.loads((server.folder / name).read_text())
    saved["metadata"]["downloaded"] = True
    page = context.new_page()
    opened(page, server, server.add(saved))
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
    assert page.locator(".output_subarea svg").count() == 0
    run(page, 0, 2)
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
