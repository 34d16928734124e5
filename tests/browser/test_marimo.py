"""The panel in marimo, which has no IPython and no boxes of ipywidgets."""

import os
import re
import socket
import subprocess
import sys

import pytest
from browser.conftest import BUILD
from browser.lab_server import ROOT, wait_until_up
from browser.notebook_page import SECONDS, Panel, expect
from browser.test_accessibility import FOUND

NOTEBOOK = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import jax, jax.numpy as jnp, taxpr
    from taxpr_jupyter import panel
    return jax, jnp, panel, taxpr


@app.cell
def _(
    jax,
    jnp,
    panel,
    taxpr,
):
    def f(w, xs):
        def step(h, x):
            h = jnp.tanh(w @ h + x)
            return h, taxpr.tag(h.sum(), name="sum")
        h, sums = jax.lax.scan(step, jnp.zeros(4), xs)
        return {"h": h, "loss": sums.mean()}

    session = panel(f)(0.1 * jnp.ones((4, 4)), jnp.ones((5, 4)))
    session
    return (session,)


if __name__ == "__main__":
    app.run()
"""
# There is no Node.js here; the environment of the other browser tests is made first.
AXE = ROOT / ".envs" / "newest" / "node_modules" / "axe-core" / "axe.min.js"
TANH = "1:scan/body/2:tanh"


@pytest.fixture(params=["light", "dark"])
def theme(request):
    return request.param


@pytest.fixture
def url(tmp_path, theme):
    """An app of marimo with a panel."""
    (tmp_path / ".marimo.toml").write_text(f'[display]\ntheme = "{theme}"\n')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file, log = tmp_path / "shown.py", tmp_path / "server.log"
    file.write_text(NOTEBOOK)
    options = f"run {file} --headless --no-token --host 127.0.0.1 --port {port}"
    command = [sys.executable, "-m", "marimo", *options.split()]
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=out, stderr=out)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(60)


def test_a_value_is_changed_and_followed_live(page, url, theme):
    page.set_default_timeout(60 * SECONDS)
    page.goto(url)
    panel = Panel(page.locator(".taxpr-panel"))
    expect(panel.node(TANH).first).to_be_visible()
    panel.select(TANH)
    expect(panel.inspector.locator("h3")).to_have_text("h = tanh")
    panel.attach("scale")
    panel.run_button.click()
    headline = panel.results.locator(".tx-headline")
    expect(headline).to_have_text(re.compile(r"out\['loss'\] .* → .*"))
    before = headline.inner_text()
    panel.root.get_by_label("Live", exact=True).check()
    panel.slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(panel.field).to_have_value("0.45")
    expect(headline).not_to_have_text(before)
    chips = panel.results.locator(".tx-chip-injected")
    expect(chips).to_have_text(["h: scale(factor=0.45)"])
    page.evaluate(AXE.read_text("utf-8"))
    assert panel.root.evaluate(FOUND) == []
    panel.root.get_by_role("tab", name="Compare").click()
    expect(panel.root.locator(".tx-sides g.node.new").first).to_be_visible()
    assert panel.root.evaluate(FOUND) == []
    panel.root.get_by_role("tab", name="Source").click()
    lines = panel.root.locator(".tx-source")  # marimo runs them at other columns than the file's
    expect(lines).to_contain_text("h, sums = jax.lax.scan(step, jnp.zeros(4), xs)")
    expect(lines).not_to_contain_text("from code without a known source")
    assert panel.root.evaluate(FOUND) == []
    panel.root.get_by_role("tab", name="Results").click()
    sizes = panel.root.evaluate("""(root) => [...root.querySelectorAll("*")]
        .filter((one) => !one.closest("svg") && one.innerText?.trim() && !one.children.length)
        .map((one) => parseFloat(getComputedStyle(one).fontSize))""")
    assert min(sizes) >= 12
    ground = panel.root.evaluate("(root) => getComputedStyle(root).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128) == (theme == "light")
    BUILD.mkdir(exist_ok=True)
    page.screenshot(path=BUILD / f"marimo-{theme}.png")
