"""Drives one notebook in the browser as a user does: runs cells, clicks, presses keys."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

SECONDS = 1000  # playwright counts milliseconds
expect.set_options(timeout=180 * SECONDS)  # a machine may be busy
MARK = "IN-PYTHON "  # begins the line that `python` looks for


def notebook(*cells: str) -> dict:
    """A notebook with these code cells."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell{number}",
                "metadata": {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for number, source in enumerate(cells)
        ],
    }


def in_python(expression: str) -> str:
    """A cell that prints the value of an expression for `NotebookPage.python`."""
    return f"import json; print({MARK!r} + json.dumps({expression}))"


def until(page: Any, condition: Callable[[], bool]) -> None:
    """Waits until a condition holds that `expect` does not know."""
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        page.wait_for_timeout(50)


def _listen(socket: Any, answers: list[Any]) -> None:
    if "/channels" in socket.url:
        socket.on("framereceived", lambda frame: answers.append(frame))


def is_save(response: Any) -> bool:
    """Whether the page saved the notebook."""
    return response.request.method == "PUT" and "/api/contents/" in response.url


def is_checkpoint(response: Any) -> bool:
    """Whether this ends a save: until then JupyterLab passes over the key for another one."""
    return response.request.method == "POST" and "/checkpoints" in response.url


class NotebookPage:
    """A notebook opened in JupyterLab or Notebook 7.

    Args:
        page: Of playwright.
        url: Of the notebook.
    """

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.dialogs: list[str] = []
        page.on("dialog", self._on_dialog)
        page.set_default_timeout(60 * SECONDS)
        self._answers: list[Any] = []  # of the kernel; before one the page says "idle", too
        page.on("websocket", lambda socket: _listen(socket, self._answers))
        for left in (2, 1, 0):  # on a loaded machine JupyterLab at times never shows the cells
            try:
                self._open(url)
                break
            except (AssertionError, sync_api.Error):
                if not left:
                    raise

    def _open(self, url: str) -> None:
        self._answers.clear()
        self.page.goto(url)
        give_up = time.monotonic() + 180
        while not self._answers:
            assert time.monotonic() < give_up, "the kernel does not answer"
            self.page.wait_for_timeout(50)
        idle = self.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']")
        # A narrow toolbar may have it in a menu.
        idle.first.wait_for(state="attached")
        expect(self.page.locator(".jp-Cell").first).to_be_visible(timeout=30 * SECONDS)

    def _on_dialog(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":
            dialog.accept()
            return
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def cell(self, which: int | str) -> Any:
        """The code cell with this number, from 0, or the one with this text in it."""
        cells = self.page.locator(".jp-CodeCell")
        return cells.nth(which) if isinstance(which, int) else cells.filter(has_text=which)

    def run(self, which: int | str) -> Any:
        """Runs a code cell and waits for its end. Returns its output."""
        cell = self.cell(which)
        before = cell.locator(".jp-InputPrompt").inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        expect(cell.locator(".jp-InputPrompt")).not_to_have_text(before, timeout=180 * SECONDS)
        self._wait_until_run(cell)
        return cell.locator(".jp-Cell-outputArea")

    def run_all(self) -> None:
        """Runs all cells as the menu does and waits for the end of the last one."""
        self.page.locator(".lm-MenuBar-item", has_text="Run").click()
        self.page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
        self._wait_until_run(self.page.locator(".jp-CodeCell").last)

    def _wait_until_run(self, cell: Any) -> None:
        prompt = cell.locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=180 * SECONDS)

    def python(self, which: int | str) -> Any:
        """Runs a cell made by `in_python` and returns the value that it prints."""
        text = self.run(which).inner_text()
        assert MARK in text, text
        return json.loads(text.partition(MARK)[2])

    def expect_python(self, which: int | str, wanted: Any) -> None:
        """Runs a cell made by `in_python` until it prints this value.

        What the browser sends arrives in another thread of the kernel, maybe after the cell runs.
        """
        give_up = time.monotonic() + 120
        while (value := self.python(which)) != wanted:
            assert time.monotonic() < give_up, value

    def add_below(self, source: str) -> None:
        """Adds a code cell below the active one."""
        cells = self.page.locator(".jp-CodeCell")
        before = cells.count()
        self.page.wait_for_function("!document.activeElement.closest('.taxpr-panel')")
        self.page.keyboard.press("b")
        expect(cells).to_have_count(before + 1)
        editor = self.page.locator(".jp-CodeCell.jp-mod-active .cm-content")
        expect(editor).to_have_text("")
        editor.click()
        self.page.keyboard.insert_text(source)

    def save(self) -> None:
        """Saves the notebook and waits until it is saved."""
        with self.page.expect_response(is_save) as saved:
            self.page.keyboard.press("Control+s")
        assert saved.value.ok

    def panel(self, which: int | str) -> "Panel":
        """The panel in the output of a code cell, once its picture is there."""
        panel = Panel(self.cell(which).locator(".taxpr-panel"))
        expect(panel.node().first).to_be_visible()
        return panel

    def count_cells(self) -> int:
        """How many code cells there are."""
        return self.page.locator(".jp-CodeCell").count()


class Panel:
    """One panel on the page.

    Args:
        root: Its locator.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self.stage = root.locator(".tx-stage")
        self.inspector = root.locator(".tx-inspector")
        self.address = self.inspector.locator(".tx-address")
        self.message = root.locator(".tx-message")
        self.results = root.locator(".tx-results")
        self.code = root.locator("details pre.tx-code").first
        self.injector = root.locator("select[aria-label=Injector]")
        self.run_button = root.get_by_role("button", name="Run", exact=True)
        self.slider = root.locator(".tx-slider")
        self.field = root.locator(".tx-param input[type=text]")

    def node(self, address: str = "", kind: str = "") -> Any:
        """The elements of the picture with this address and of this kind."""
        where = f'[data-address="{address}"]' if address else "[data-address]"
        return self.stage.locator(f"svg {where}{'.' + kind if kind else ''}")

    def button(self, name: str) -> Any:
        """The button with this name."""
        return self.root.get_by_role("button", name=name, exact=True)

    def select(self, address: str) -> None:
        """Clicks a node and waits until the inspector shows it."""
        self.node(address).first.click()  # far away its text is hidden
        self.expect_selected(address)

    def expect_selected(self, address: str) -> None:
        """Waits until a node, and nothing else, is selected, and the inspector shows it."""
        expect(self.stage.locator("[aria-selected=true]")).to_have_count(1)
        expect(self.node(address)).to_have_attribute("aria-selected", "true")
        expect(self.address).to_have_text(address)

    def tag(self, name: str) -> None:
        """Tags the selected value and waits until it is tagged."""
        self.inspector.locator(".tx-field").fill(name)
        self.button("Tag").click()
        expect(self.inspector.locator(".tx-chip-tag")).to_have_text(name)
        expect(self.node(kind="added")).not_to_have_count(0)

    def attach(self, injector: str) -> None:
        """Chooses an injector for the selected value and waits until the picture shows it."""
        before = self.node(kind="injected").count()
        self.injector.select_option(injector)
        expect(self.node(kind="injected")).to_have_count(before + 1)

    def run(self, number: int) -> None:
        """Presses Run and waits for the results of the run with this number."""
        self.run_button.click()
        expect(self.results.locator("h3")).to_have_text(
            re.compile(f"^Run {number} on "), timeout=180 * SECONDS
        )

    def output(self, name: str) -> list[str]:
        """An output's row in the results: untouched, changed, greatest difference."""
        row = (
            self.results.get_by_label("Outputs", exact=True)
            .locator("tbody tr")
            .filter(has_text=name)
        )
        before, after, _, largest = row.locator("td").all_inner_texts()
        return [before, after, largest]

    def place(self) -> list[float]:
        """Where the picture is in its window, and its scale: x, y, scale."""
        transform = self.stage.locator("> svg").evaluate("svg => svg.style.transform")
        return [float(number) for number in re.findall(r"-?[\d.]+(?:e-?\d+)?", transform)]

    def tab_by_keys(self, name: str) -> Any:
        """Goes to the left from the chosen tab to the one with this name, round the corner."""
        tabs = self.root.get_by_role("tablist", name="View of the program").get_by_role("tab")
        self.root.get_by_role("tab", selected=True).focus()
        wanted = self.root.get_by_role("tab", name=name)
        for _ in range(tabs.count()):
            self.root.page.keyboard.press("ArrowLeft")
            if wanted.get_attribute("aria-selected") == "true":
                break
        expect(wanted).to_be_focused()
        return wanted

    def screenshot(self, path: Path) -> None:
        """Writes a picture of the panel."""
        path.parent.mkdir(exist_ok=True)
        self.root.screenshot(path=path)
