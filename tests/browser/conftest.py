"""A Jupyter server and a Chromium for all browser tests of one session.

Without Chromium or playwright the tests are skipped; with TAXPR_REQUIRE_BROWSER=1 they fail. Where
there is Notebook 6, which has no JupyterLab beside it, or marimo, their own tests run, elsewhere
all others.
"""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from browser.lab_server import CHROMIUM, CLASSIC, ROOT, Server, chromium, running_server
from browser.panel_page import PanelPage

from taxpr_jupyter._store import following

BUILD = ROOT / "build"
REQUIRED = os.environ.get("TAXPR_REQUIRE_BROWSER") == "1"
HERE = Path(__file__).parent
NOTEBOOK6 = "test_notebook6.py"
MARIMO = "test_marimo.py"
IN_MARIMO = bool(find_spec("marimo"))
SERVER = ("notebook",) if CLASSIC else ("marimo",) if IN_MARIMO else ("jupyterlab", "notebook")
PACKAGES = (*SERVER, "playwright", "pytest_playwright")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
if CHROMIUM is None:
    MISSING.append("chromium")
OWN = {NOTEBOOK6} if CLASSIC else {MARIMO} if IN_MARIMO else set[str]()
OTHERS = {path.name for path in HERE.glob("test_*.py")} - {NOTEBOOK6, MARIMO}
collect_ignore = sorted(({NOTEBOOK6, MARIMO} | (OTHERS if OWN else set())) - OWN)


def pytest_configure() -> None:
    if MISSING and REQUIRED:
        raise pytest.UsageError(f"browser tests are required: install {', '.join(MISSING)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if MISSING and HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(MISSING)}"))


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict:
    """Debian's Chromium."""
    return chromium()


@pytest.fixture(scope="session")
def browser_context_args() -> dict:
    """A window in which the whole panel can be seen, and in which nothing is under way."""
    return {"viewport": {"width": 1400, "height": 1500}, "reduced_motion": "reduce"}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab and Notebook 7, or Notebook 6."""
    with running_server(tmp_path_factory.mktemp("jupyter")) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_kernels_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").end_kernels()


@pytest.fixture(autouse=True)
def _live_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether Live goes on by itself is no matter of how busy the machine is.

    The tests' programs take milliseconds, but a run of one can wait longer for its turn.
    """
    monkeypatch.setattr(following, "QUICK", 60.0)


@pytest.fixture
def shown(page: Any) -> Iterator[Callable[..., PanelPage]]:
    """Shows the panel of a session in a page without Jupyter; takes what `PanelPage` takes."""
    opened, troubles = [], []
    page.on("pageerror", lambda error: troubles.append(str(error)))

    def show(*args: Any, **options: Any) -> PanelPage:
        opened.append(PanelPage(page, *args, **options))
        return opened[-1]

    yield show
    for panel in opened:
        panel.view.close()
    assert not troubles
