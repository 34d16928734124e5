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
# Of a node, or a title of a frame, that the panel's border cuts, axe takes the lines inside for all
# of its label, and a bracket that closes in the next one for another word: there all of its lines
# must be in its label as they stand.
FOUND = """async where => {
    const { violations } = await axe.run(where, { elementRef: true });
    const cut = element => {
        const panel = element.closest(".taxpr-panel")?.getBoundingClientRect();
        const lines = [...element.querySelectorAll("text")];
        const parts = element.matches(".cluster") ? lines : [element];
        return element.matches(".node, .cluster") && panel && parts.some(part => {
            const { top, bottom } = part.getBoundingClientRect();
            return top < panel.top || bottom > panel.bottom;
        });
    };
    const told = element => {
        const lines = [...element.querySelectorAll("text")].map(text => text.textContent.trim());
        return element.getAttribute("aria-label").includes(lines.join(" "));
    };
    const fine = element => cut(element) && told(element);
    return violations.flatMap(({ id, nodes }) =>
        nodes.filter(node => id !== "label-content-name-mismatch" || !fine(node.element))
            .map(node => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary}`));
}"""


def found(page, where):
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    return page.evaluate(FOUND, where)


@pytest.fixture
def opened(page, server):
    url = server.in_lab(notebook(IMPORTS, SCAN))
    book = NotebookPage(page, url)
    book.run(0)
    book.run(1)
    return book.panel(1)


@pytest.mark.parametrize("theme", ["Light", pytest.param("Dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_in_the_panel(page, opened, theme):
    page.evaluate(CHANGE, f"JupyterLab {theme}")
    page.locator(f"[data-jp-theme-light={'true' if theme == 'Light' else 'false'}]").wait_for(
        state="attached"
    )
    trouble = {"tags": troubles(page, ".taxpr-panel")}
    opened.select(TANH)
    opened.root.get_by_label("Colour by").select_option("flops")
    trouble["inspector"] = troubles(page, ".taxpr-panel")
    opened.select("in0")
    opened.attach("scale")
    opened.run(1)
    trouble["run"] = troubles(page, ".taxpr-panel")
    for view in ("Source", "Text", "Outline", "Compare"):
        opened.root.get_by_role("tab", name=view).click()
        filled = {"Text": ".tx-text .tx-row", "Outline": ".tx-outline .tx-row"}
        filled |= {"Source": ".tx-source-row", "Compare": ".tx-sides g.node.new"}
        expect(opened.root.locator(filled[view]).first).to_be_visible()
        trouble[view] = troubles(page, ".taxpr-panel")
    opened.screenshot(BUILD / f"accessible-{theme.lower()}.png")
    assert not any(trouble.values()), trouble


# Texts below a selector, without pictures and what is disabled, whose contrast with what is behind
# them is below 4.5:1. axe can say nothing of colours that are mixed, such as the panel's.
FAINT = """where => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const over = (colour, ground) => {
        canvas.fillStyle = `rgb(${ground.join(" ")})`;
        canvas.fillRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const ground = element => element
        ? over(getComputedStyle(element).backgroundColor, ground(element.parentElement))
        : [255, 255, 255];
    const light = rgb => rgb.map(part => part / 255)
        .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, k) => sum + part * [0.2126, 0.7152, 0.0722][k], 0);
    const said = element => [...element.childNodes]
        .filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data).join("").trim();
    return [...document.querySelectorAll(`${where} *`)]
        .filter(element => said(element) && element.checkVisibility({ visibilityProperty: true }))
        .filter(element => !element.closest("svg, style, option, :disabled, [aria-disabled=true]"))
        .flatMap(element => {
            const behind = ground(element);
            const pair = [light(behind), light(over(getComputedStyle(element).color, behind))];
            const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
            return contrast < 4.5 ? [`${contrast.toFixed(1)}: ${said(element).slice(0, 40)}`] : [];
        });
}"""


def troubles(page, where):
    return found(page, where) + page.evaluate(FAINT, where)


# VS Code names its theme in the page's body and its colours in variables, but those of its widget
# manager are for a white page.
VSCODE = """([theme, paper, ink]) => {
    delete document.body.dataset.jpThemeLight;
    document.body.classList.add(...theme.split(" "));
    const set = (name, value) => document.documentElement.style.setProperty(name, value);
    set("--vscode-editor-background", paper);
    set("--vscode-editor-foreground", ink);
    set("--jp-widgets-color", "black");
}"""


@pytest.mark.parametrize(
    ("theme", "paper", "ink", "scheme"),
    [
        ("vscode-dark", "#1e1e1e", "#d4d4d4", "light"),
        ("vscode-high-contrast", "#000000", "#ffffff", "light"),
        ("vscode-high-contrast vscode-high-contrast-light", "#ffffff", "#292929", "dark"),
    ],
)
def test_axe_finds_nothing_in_the_themes_of_vs_code(page, opened, theme, paper, ink, scheme):
    page.emulate_media(color_scheme=scheme)  # of the desktop, which the theme need not follow
    page.evaluate(VSCODE, [theme, paper, ink])
    opened.select("in0")
    opened.attach("scale")
    opened.run(1)
    assert not troubles(page, ".taxpr-panel")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_saved_page(page, tmp_path, scheme):
    page.emulate_media(color_scheme=scheme)
    file = tmp_path / "page.html"
    draw(lambda x: jnp.tanh(x @ x) @ x, jnp.ones((3, 3)), heat="flops").save(file)
    page.goto(file.as_uri())
    expect(page.locator(".tx-stage svg g.node")).not_to_have_count(0)
    trouble = troubles(page, "body")
    page.locator(".tx-stage svg g.node").nth(1).click()
    trouble += troubles(page, "body")
    page.get_by_role("tab", name="Source").click()
    assert not (trouble + troubles(page, "body"))


# The contrast with the paper of each line and border of the picture, the least one first.
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
    const lines = "svg .edge path:not(.tip, .tx-hit), svg .cluster > rect";
    const borders = "svg .node:not(.empty) > :is(rect, path)";
    return [...stage.querySelectorAll(`${lines}, ${borders}`)]
        .map(line => light(getComputedStyle(line).stroke))
        .map(line => (Math.max(line, paper) + 0.05) / (Math.min(line, paper) + 0.05))
        .sort((a, b) => a - b);
}"""


def gradient(x):
    return jnp.sum(jnp.tanh(x @ x) ** 2)


def with_literals(x):
    return jax.lax.cond(True, jnp.sin, lambda x: jax.jit(jnp.full_like)(x, 2.0), x)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_have_a_contrast_of_three_to_one(page, tmp_path, scheme):
    page.emulate_media(color_scheme=scheme)
    file = tmp_path / "page.html"
    for fn, shown in ((jax.grad(gradient), ".edge.residual"), (with_literals, ".node.literal")):
        draw(fn, jnp.ones((3, 3))).save(file)
        page.goto(file.as_uri())
        expect(page.locator(f".tx-stage svg {shown}")).not_to_have_count(0)
        assert page.evaluate(CONTRASTS, ".tx-stage")[0] >= 3


def test_forced_colours_leave_borders_and_texts(page, tmp_path):
    page.emulate_media(forced_colors="active")
    file = tmp_path / "page.html"
    draw(jax.grad(gradient), jnp.ones((3, 3))).save(file)
    page.goto(file.as_uri())
    expect(page.locator(".tx-stage svg g.node")).not_to_have_count(0)
    assert page.evaluate(CONTRASTS, ".tx-stage")[0] >= 3
    page.screenshot(path=BUILD / "forced-colours.png")


@pytest.mark.slow
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
    panel.button("Fit the picture").click()  # it is higher than its stage
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_focus_stays_at_the_control_that_was_used(page, opened):
    opened.select(TANH)
    opened.inspector.locator(".tx-field").fill("h")
    opened.button("Tag").press("Enter")
    expect(opened.inspector.locator(".tx-chip-tag")).to_have_text("h")
    assert page.evaluate("document.activeElement.closest('.tx-inspector') !== null")


UNTAGGED = """\
%%taxpr --name q
def g(xs):
    return jax.lax.scan(lambda c, x: (jnp.sin(c) + x, c), 0.0, xs)

g(jnp.ones(5))
"""


@pytest.mark.slow
def test_an_empty_inspector_gives_its_place_to_the_picture(page, server):
    page.set_viewport_size({"width": 1100, "height": 1200})
    content = notebook(IMPORTS, UNTAGGED)
    book = NotebookPage(page, f"{server.url}/notebooks/{server.add(content)}")
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    wide = panel.stage.bounding_box()["width"]
    assert wide > 0.95 * panel.root.bounding_box()["width"]
    sine = panel.node("0:scan/body/0:sin")
    before = sine.bounding_box()
    panel.select("0:scan/body/0:sin")
    expect(panel.inspector.locator(".tx-field")).to_be_visible()
    assert panel.stage.bounding_box()["width"] < 0.8 * wide
    after = sine.bounding_box()  # where the pointer is, for a second click
    middles = [
        [box[k] + box[side] / 2 for k, side in (("x", "width"), ("y", "height"))]
        for box in (before, after)
    ]
    assert middles[0] == pytest.approx(middles[1], abs=3)
    panel.button("Clear the selection").click()
    expect(panel.inspector.locator(".tx-field")).to_have_count(0)
    assert panel.stage.bounding_box()["width"] == pytest.approx(wide, abs=1)
    panel.node("0:scan/body").locator("text").first.dblclick()
    expect(panel.node("0:scan")).to_be_visible()


@pytest.mark.slow
def test_a_button_that_goes_hands_the_focus_on(page, opened):
    opened.select(TANH)
    opened.button("Upstream").click()
    opened.button("Show all").press("Enter")
    expect(opened.button("Show all")).to_be_hidden()
    expect(opened.root.get_by_role("searchbox")).to_be_focused()
    opened.run_button.click()
    opened.button("Cancel").focus()
    expect(opened.results.locator("h3")).to_contain_text("Run 1 on", timeout=180_000)
    expect(opened.button("Cancel")).to_be_hidden()
    expect(opened.run_button).to_be_focused()


def test_on_a_saved_page_the_focus_stays_where_it_is_used(page, tmp_path):
    file = tmp_path / "page.html"
    drawing = draw(lambda xs: jax.lax.scan(lambda c, x: (c + x, jnp.sin(c)), 0.0, xs), jnp.ones(4))
    drawing.fold("0:scan").save(file)
    page.goto(file.as_uri())
    inspector, keys = page.locator(".tx-inspector"), page.keyboard
    inside = "where => Boolean(document.activeElement.closest(where))"
    page.locator('.tx-stage [data-address="0:scan"]').focus()
    keys.press("Enter")
    inspector.get_by_role("button", name="xs").press("Enter")
    expect(inspector.locator(".tx-address")).to_have_text("in0")
    assert page.evaluate(inside, ".tx-inspector")
    page.locator('.tx-stage [data-address="0:scan"]').focus()
    keys.press("o")
    expect(page.locator(".tx-path button")).to_be_visible()
    assert page.evaluate(inside, ".tx-stage svg [data-address]")
    page.locator(".tx-path button").press("Enter")
    expect(page.locator('.tx-stage [data-address="0:scan"]')).to_be_focused()
    page.get_by_role("searchbox").press("Escape")
    assert page.evaluate(inside, ".tx-stage svg [data-address]")
