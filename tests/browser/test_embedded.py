"""The panel in a page without Jupyter, by `@jupyter-widgets/html-manager`, as Colab shows widgets.

It takes packages of npm: `npm install @jupyter-widgets/html-manager requirejs` in some folder, and
`TAXPR_HTML_MANAGER` naming the folder `node_modules` that this makes. Without it, it is skipped.
"""

import functools
import http.server
import json
import os
import shutil
import threading
from pathlib import Path

import anywidget
import jax.numpy as jnp
import pytest
from ipywidgets import embed

import taxpr
from taxpr_jupyter import panel
from taxpr_jupyter._view.widget import view_for

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

PACKAGES = os.environ.get("TAXPR_HTML_MANAGER", "")
pytestmark = pytest.mark.skipif(not PACKAGES, reason="needs TAXPR_HTML_MANAGER")
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body>
<script src="node_modules/requirejs/require.js"></script>
<script>require.config({{paths: {{anywidget: "anywidget"}}}});</script>
<script src="node_modules/@jupyter-widgets/html-manager/dist/embed-amd.js"></script>
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
<script type="application/vnd.jupyter.widget-view+json">{view}</script>
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def folder(tmp_path):
    """A folder and the address at which it is served."""
    (tmp_path / "node_modules").symlink_to(Path(PACKAGES).resolve())
    module = Path(anywidget.__file__).parent / "nbextension" / "index.js"
    shutil.copy(module, tmp_path / "anywidget.js")
    serve = functools.partial(Quiet, directory=tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def embedded(value):
    return json.dumps(value).replace("</", "<\\/")


def test_the_panel_is_drawn_without_a_kernel(page, folder):
    where, url = folder
    session = panel(lambda x: taxpr.tag(jnp.tanh(x), name="h") * 2)(jnp.ones(3))
    view = view_for(session)
    session.attach("h", "scale", factor=0.5)
    assert view.wait(30)
    # Else anywidget leaves out its own code, which it takes for a default.
    data = embed.embed_data(views=[view], drop_defaults=False)
    [spec] = data["view_specs"]
    page_text = PAGE.format(state=embedded(data["manager_state"]), view=embedded(spec))
    (where / "it.html").write_text(page_text, "utf-8")
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{url}/it.html")
    root = page.locator(".taxpr-panel")
    tag = root.locator(".tx-stage svg g.node.injected")
    expect(tag).to_be_visible(timeout=30_000)
    tag.locator("text").first.click()
    expect(root.locator("svg [aria-selected=true]")).to_contain_text("tag h")
    scale = root.locator(".tx-scale")
    before = scale.inner_text()
    root.get_by_role("button", name="Zoom in").click()
    expect(scale).not_to_have_text(before)
    expect(root.get_by_role("button", name="Run", exact=True)).to_be_visible()
    root.get_by_text("What the nodes and lines of the picture are").click()
    expect(root.locator(".tx-legend")).to_be_visible()
    assert errors == []
    view.close()
