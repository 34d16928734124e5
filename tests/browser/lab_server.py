"""A Jupyter server of its own, and how to start Chromium, for tests and benchmarks."""

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
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CLASSIC = bool(find_spec("notebook")) and version("notebook").startswith("6.")
CHROMIUM = shutil.which("chromium")


def chromium() -> dict[str, Any]:
    """How playwright launches Debian's Chromium, which makes no connection of its own."""
    flags = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += " disable-component-update disable-sync"
    args = [f"--{flag}" for flag in flags.split()]
    return {"executable_path": CHROMIUM, "args": args}


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


@contextlib.contextmanager
def running_server(home: Path) -> Iterator[Server]:
    """JupyterLab and Notebook 7, or Notebook 6, with all folders in this one, until it ends."""
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
