"""A Jupyter server and a Chromium for all browser tests of one session.

Without Chromium or playwright the tests are skipped; with TAXPR_REQUIRE_BROWSER=1 they fail. Where
there is Notebook 6, which has no JupyterLab beside it, or marimo, their own tests run, elsewhere
all others.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from browser.panel_page import PanelPage

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
CHROMIUM = shutil.which("chromium")
REQUIRED = os.environ.get("TAXPR_REQUIRE_BROWSER") == "1"
HERE = Path(__file__).parent
NOTEBOOK6 = "test_notebook6.py"
MARIMO = "test_marimo.py"
CLASSIC = bool(find_spec("notebook")) and version("notebook").startswith("6.")
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
    """Debian's Chromium, which makes no connection of its own."""
    flags = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += " disable-component-update disable-sync"
    args = [f"--{flag}" for flag in flags.split()]
    return {"executable_path": CHROMIUM, "args": args}


@pytest.fixture(scope="session")
def browser_context_args() -> dict:
    """A window in which the whole panel can be seen, and in which nothing is under way."""
    return {"viewport": {"width": 1400, "height": 1500}, "reduced_motion": "reduce"}


class Server:
    """A running Jupyter server.

    Attributes:
        url: Of the server, without a slash at the end.
        folder: Where its notebooks are.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._count = 0

    def add(self, notebook: dict) -> str:
        """Writes a notebook under a new name, since one opened again keeps its old kernel."""
        self._count += 1
        name = f"notebook{self._count}.ipynb"
        (self.folder / name).write_text(json.dumps(notebook))
        return name

    def in_lab(self, notebook: dict) -> str:
        """Writes a notebook. Returns where JupyterLab shows it, in a workspace of its own.

        In a shared one JupyterLab opens the notebooks of all earlier tests again.
        """
        name = self.add(notebook)
        return f"{self.url}/lab/workspaces/{name.removesuffix('.ipynb')}/tree/{name}"

    def in_notebook7(self, notebook: dict) -> str:
        """Writes a notebook. Returns where Notebook 7 shows it."""
        return f"{self.url}/notebooks/{self.add(notebook)}"

    def end_kernels(self) -> None:
        """Ends all kernels: with JAX loaded, each of them takes some hundred megabytes."""
        kernels = f"{self.url}/api/kernels"
        with urllib.request.urlopen(kernels, timeout=120) as answer:
            running = json.load(answer)
        for kernel in running:
            request = urllib.request.Request(f"{kernels}/{kernel['id']}", method="DELETE")
            with contextlib.suppress(urllib.error.HTTPError):  # it is gone, or restarts
                urllib.request.urlopen(request, timeout=120).close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab and Notebook 7, or Notebook 6, with all folders in a temporary one."""
    home = tmp_path_factory.mktemp("jupyter")
    folders = {
        name: home / name.lower()
        for name in (
            "HOME",
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "JUPYTERLAB_SETTINGS_DIR",
            "JUPYTERLAB_WORKSPACES_DIR",
        )
    }
    notebooks = home / "notebooks"
    for folder in (notebooks, *folders.values()):
        folder.mkdir()
    labconfig = folders["JUPYTER_CONFIG_DIR"] / "labconfig"
    labconfig.mkdir()
    notifications = {"fetchNews": "false", "checkForUpdates": False}
    (labconfig / "default_setting_overrides.json").write_text(
        json.dumps({"@jupyterlab/apputils-extension:notification": notifications})
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (classic_command if CLASSIC else lab_command)(port, notebooks)
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, **{name: str(path) for name, path in folders.items()}}
    env |= {"PYTHONPATH": python_path, "JAX_PLATFORMS": "cpu"}
    log = home / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=home, env=env, stdout=out, stderr=out)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(f"{url}/api", process, log)
        yield Server(url, notebooks)
    finally:
        process.terminate()  # also ends the kernels
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def lab_command(port: int, notebooks: Path) -> list[str]:
    """What starts JupyterLab and Notebook 7."""
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={notebooks}",
        "--IdentityProvider.token=",
        "--PasswordIdentityProvider.hashed_password=",
        "--ServerApp.disable_check_xsrf=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--LabApp.expose_app_in_browser=True",  # tests change the theme
    ]


def classic_command(port: int, notebooks: Path) -> list[str]:
    """What starts Notebook 6."""
    return [
        *(sys.executable, "-m", "notebook", "--no-browser", "--allow-root"),
        "--ip=127.0.0.1",
        f"--port={port}",
        "--port-retries=0",
        f"--notebook-dir={notebooks}",
        "--NotebookApp.token=",
        "--NotebookApp.password=",
        "--NotebookApp.disable_check_xsrf=True",
    ]


@pytest.fixture(autouse=True)
def _no_kernels_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").end_kernels()


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


def wait_until_up(url: str, process: subprocess.Popen, log: Path) -> None:
    """Waits until the server answers."""
    give_up = time.monotonic() + 240
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"no Jupyter server:\n{log.read_text()}") from None
            time.sleep(0.2)
