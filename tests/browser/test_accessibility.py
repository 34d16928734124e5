"""The panel and the saved page for those who use keys, a screen reader, large or plain colours."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, expect, notebook
from browser.programs import IMPORTS, SCAN, SCANNED, TANH

from taxpr_jupyter import draw

AXE = Path(sys.prefix, "node_modules", "axe-core", "axe.min.js")
CHANGE = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
# What axe finds in the part of the page below a selector: rule, and elements.
FOUND = """async where => {
    const { violations } = await axe.run(where);
    return violations.flatMap(({ id, nodes }) =>
        nodes.map(node => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary}`));
}"""


def found(page, where):
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    return page.evaluate(FOUND, where)


@pytest.fixture
def opened(page, server):
    url = f"{server.url}/lab/tree/{server.add(notebook(IMPORTS, SCAN))}?reset"
    book = NotebookPage(page, url)
    book.run(0)
    book.run(1)
    return book.panel(1)


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_axe_finds_nothing_in_the_panel(page, opened, theme):
    page.evaluate(CHANGE, f"JupyterLab {theme}")
    page.locator(f"[data-jp-theme-light={'true' if theme == 'Light' else 'false'}]").wait_for(
        state="attached"
    )
    trouble = {"tags": found(page, ".taxpr-panel")}
    opened.select(TANH)
    opened.root.get_by_label("Colour by").select_option("flops")
    trouble["inspector"] = found(page, ".taxpr-panel")
    opened.select("in0")
    opened.attach("scale")
    opened.run(1)
    trouble["run"] = found(page, ".taxpr-panel")
    for view in ("Text", "Outline", "Compare"):
        opened.root.get_by_role("tab", name=view).click()
        expect(opened.root.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
        trouble[view] = found(page, ".taxpr-panel")
    opened.screenshot(BUILD / f"accessible-{theme.lower()}.png")
    assert not any(trouble.values()), trouble


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_saved_page(page, tmp_path, scheme):
    page.emulate_media(color_scheme=scheme)
    file = tmp_path / "page.html"
    draw(lambda x: jnp.tanh(x @ x) @ x, jnp.ones((3, 3)), heat="flops").save(file)
    page.goto(file.as_uri())
    expect(page.locator(".tx-stage svg g.node")).not_to_have_count(0)
    trouble = found(page, "body")
    page.locator(".tx-stage svg g.node").nth(1).click()
    assert not (trouble + found(page, "body"))


# The contrast with the paper of each line of the picture, the least one first.
CONTRASTS = """where => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = colour => rgb(colour).map(part => part / 255)
        .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, k) => sum + part * [0.2126, 0.7152, 0.0722][k], 0);
    const stage = document.querySelector(where);
    const paper = light(getComputedStyle(stage).backgroundColor);
    return [...stage.querySelectorAll("svg .edge path:not(.tip, .tx-hit), svg .cluster > rect")]
        .map(line => light(getComputedStyle(line).stroke))
        .map(line => (Math.max(line, paper) + 0.05) / (Math.min(line, paper) + 0.05))
        .sort((a, b) => a - b);
}"""


def gradient(x):
    return jnp.sum(jnp.tanh(x @ x) ** 2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_have_a_contrast_of_three_to_one(page, tmp_path, scheme):
    page.emulate_media(color_scheme=scheme)
    file = tmp_path / "page.html"
    draw(jax.grad(gradient), jnp.ones((3, 3))).save(file)
    page.goto(file.as_uri())
    expect(page.locator(".tx-stage svg .edge.residual")).not_to_have_count(0)
    assert page.evaluate(CONTRASTS, ".tx-stage")[0] >= 3


def test_forced_colours_leave_borders_and_texts(page, tmp_path):
    page.emulate_media(forced_colors="active")
    file = tmp_path / "page.html"
    draw(jax.grad(gradient), jnp.ones((3, 3))).save(file)
    page.goto(file.as_uri())
    expect(page.locator(".tx-stage svg g.node")).not_to_have_count(0)
    assert page.evaluate(CONTRASTS, ".tx-stage")[0] >= 3
    page.screenshot(path=BUILD / "forced-colours.png")


@pytest.mark.parametrize("scale", [1, 2])
def test_narrow_pages_and_large_letters_lose_no_control(browser, server, scale):
    """700 pixels, and 1400 pixels at 200 %, which is as many pixels of the page."""
    context = browser.new_context(viewport={"width": 700, "height": 900}, device_scale_factor=scale)
    page = context.new_page()
    book = NotebookPage(page, f"{server.url}/notebooks/{server.add(notebook(IMPORTS, SCAN))}")
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    panel.screenshot(BUILD / f"narrow-{scale}-empty.png")
    panel.select(TANH)
    panel.attach("scale")
    panel.screenshot(BUILD / f"narrow-{scale}.png")
    edges = panel.root.bounding_box()
    assert panel.stage.bounding_box()["width"] > 0.9 * edges["width"]
    controls = panel.root.locator("button:visible, select:visible, input:visible, summary:visible")
    assert controls.count() > 15
    for control in controls.all():
        box = control.bounding_box()
        assert box["x"] >= edges["x"], control
        assert box["x"] + box["width"] <= edges["x"] + edges["width"] + 1, control
    context.close()


def test_a_key_folds_and_the_focus_stays(page, opened):
    opened.node(TANH).focus()
    page.keyboard.press("ArrowUp")
    focused = "document.activeElement.getAttribute('data-address')"
    assert page.evaluate(focused)
    body = opened.node("1:scan/body")
    body.focus()
    page.keyboard.press("o")
    expect(opened.node(SCANNED)).to_be_focused()
    page.keyboard.press("o")
    expect(opened.node("1:scan/body")).to_be_focused()


def test_the_focus_stays_at_the_control_that_was_used(page, opened):
    opened.select(TANH)
    opened.inspector.locator(".tx-field").fill("h")
    opened.button("Tag").press("Enter")
    expect(opened.inspector.locator(".tx-chip-tag")).to_have_text("h")
    assert page.evaluate("document.activeElement.closest('.tx-inspector') !== null")
