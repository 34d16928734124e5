"""Takes the picture at the top of the README: the panel of a train step, and its source beside it.

.envs/newest/bin/python tools/shots.py      needs chromium, and writes docs/panel.png

The file says what it was taken of, so that a test can tell when it is older than what it shows.
"""

import hashlib
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import jax.numpy as jnp
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "panel.png"
SHOWN = ROOT / "taxpr_jupyter" / "_view" / "static"  # what a panel looks like
KEY = b"Source"  # of a text in a PNG
WIDTH, HEIGHT = 1100, 1000  # of the window, in pixels: narrow, as pages show the picture at 700

STEP = """\
import jax
import jax.numpy as jnp


def net(params, x):
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"]


def loss(params, x, y):
    error = net(params, x) - y
    return jnp.mean(error**2)


def train_step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, value
"""


def taken_of() -> str:
    """A fingerprint of what the picture shows: the looks of the panel, and the program."""
    found = hashlib.sha256(STEP.encode())
    for file in sorted(SHOWN.rglob("*.css")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def said(png: bytes) -> str:
    """The fingerprint that a picture was taken with; "" if it has none."""
    at = 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + length]
        if kind == b"tEXt" and data.startswith(KEY + b"\0"):
            return data[len(KEY) + 1 :].decode()
        at += 12 + length
    return ""


def saying(png: bytes, text: str) -> bytes:
    """A picture that says with which fingerprint it was taken."""
    body = b"tEXt" + KEY + b"\0" + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    first = 8 + 12 + struct.unpack(">I", png[8:12])[0]  # after the head
    return png[:first] + chunk + png[first:]


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from browser.panel_page import PanelPage

    from taxpr_jupyter import Session

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        (Path(folder) / "model.py").write_text(STEP)
        sys.path.insert(0, folder)
        import model

        params = {"w1": jnp.ones((4, 8)), "b1": jnp.zeros(8), "w2": jnp.ones((8, 1))}
        x, y = jnp.ones((16, 4)), jnp.zeros((16, 1))
        path = shutil.which("chromium")
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5
        )
        page.emulate_media(reduced_motion="reduce")
        session = Session(model.train_step, (params, x, y), call="train_step(params, x, y)")
        panel = PanelPage(page, session, "Source")
        page.get_by_role("button", name="Fit").click()
        page.wait_for_timeout(500)
        png = panel.root.screenshot()
        PICTURE.write_bytes(saying(png, taken_of()))
        browser.close()


if __name__ == "__main__":
    main()
