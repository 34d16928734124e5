"""A real IPython shell in this process, as found at the start of every test."""

import atexit
import re
import typing

import pytest
from declared import is_declared, why_not
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from taxpr_jupyter._messages.panel_traits import Traits
from taxpr_jupyter._session.cells import CELLS
from taxpr_jupyter._view.graph import Graph

ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Cell:
    """What became of one cell."""

    def __init__(self, result, captured):
        self.result = result.result
        self.error = result.error_before_exec or result.error_in_exec
        self.outputs = [output.data for output in captured.outputs]
        self.shown = ANSI.sub("", captured.stdout + captured.stderr)


class Notebook:
    """Runs cells as a notebook does, with the ids of cells where a test asks for them."""

    def __init__(self, shell):
        self.shell = shell
        self.names = shell.user_ns
        self._messages = 0

    def run(self, source, cell_id=None, metadata=None):
        """Runs a cell; the test goes on also when there is an error in it."""
        if cell_id:
            metadata = {"cellId": cell_id}
        self._messages += 1
        parent = {"header": {"msg_id": str(self._messages)}, "metadata": metadata or {}}
        self.shell.get_parent = lambda: {**parent, "content": {"code": source}}
        with capture_output() as captured:
            result = self.shell.run_cell(source, store_history=True)
        return Cell(result, captured)

    def good(self, source, **where):
        """The result of a cell without an error."""
        cell = self.run(source, **where)
        assert cell.error is None, cell.shown
        return cell.result


TRAITS = typing.get_type_hints(Traits)


@pytest.fixture(autouse=True)
def _panels_send_what_is_declared(monkeypatch):
    wrong = []
    notify = Graph.notify_change

    def checked(self, change):
        name, new = change["name"], change["new"]
        if name in TRAITS and not is_declared(new, TRAITS[name]):
            wrong.append(f"{name}: {why_not(new, TRAITS[name])}")
        notify(self, change)

    monkeypatch.setattr(Graph, "notify_change", checked)
    yield
    assert not wrong, "not as messages.Traits declares: " + "; ".join(wrong)


@pytest.fixture
def bare_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    notebook = Notebook(shell)
    yield notebook
    CELLS.clear()
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()


@pytest.fixture
def notebook(bare_notebook):
    """The shell with the extension, and the usual imports."""
    bare_notebook.good("%load_ext taxpr_jupyter")
    bare_notebook.good("import jax, jax.numpy as jnp, taxpr\nx = jnp.arange(3.0)")
    return bare_notebook
