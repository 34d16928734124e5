"""The source tab, in a page that exchanges everything with a panel in this process."""

import re

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found

import taxpr
from taxpr_jupyter import Session, draw


def attend(q, k, v):
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    weights = jax.nn.softmax(scores.astype(jnp.float32))
    return weights.astype(q.dtype) @ v


def loss(params, x):
    def layer(h, w):
        a = attend(h @ w["q"], h @ w["k"], h)
        h = jnp.tanh(h + a @ w["o"])
        return h, a.mean()

    h, means = jax.lax.scan(layer, x, params)
    total = (h.astype(jnp.float32) ** 2).mean()
    return total + jnp.log(means.sum() - 9e4).astype(jnp.float32)


def program():
    w = jnp.full((3, 16, 16), 0.1, jnp.bfloat16)
    return (dict.fromkeys("qko", w), jnp.ones((8, 16), jnp.bfloat16))


def repeated(x):
    for scale in (1.0, 2.0):
        y = jnp.sin(x) * scale
        x = y + x
    return x


@pytest.fixture
def shown(page, shown):
    def show(fn=loss, args=None, names=True, scheme="light", size=(1250, 900)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme)
        session = Session(fn, program() if args is None else args, names=names)
        return shown(session, "Source")

    return show


TANH = 'h = jnp.tanh(h + a @ w["o"])'


SOFTMAX = "weights = jax.nn.softmax(scores.astype(jnp.float32))"


def test_lines_say_what_became_of_them(shown):
    it = shown()
    row = it.line(TANH)
    expect(row).to_contain_text(re.compile(r"h: bf16\[8,16\].*\d equations · ×3"))
    shares = re.compile(r"\d+% of FLOPs, \d+% of bytes")
    expect(row.get_by_role("img")).to_have_accessible_name(shares)
    expect(it.line(SOFTMAX)).to_contain_text("bf16→f32")
    expect(it.panel.get_by_text("most FLOPs", exact=True)).to_have_count(1)
    expect(it.panel.get_by_role("note")).to_be_empty()
    it.root.screenshot(path=BUILD / "source-light.png")


def test_a_variable_selects_its_value(shown):
    it = shown()
    it.session.fold("0:scan")
    weights = it.panel.get_by_role("button", name="weights: f32[8,8]")
    weights.click()
    [address] = [one.address for one in it.session.program.variables() if one.name == "weights"]
    expect(it.inspected).to_have_text(address.eqn)
    expect(weights).to_have_attribute("aria-pressed", "true")
    expect(it.line(SOFTMAX)).to_have_attribute("aria-selected", "true")
    expect(it.page.locator(".tx-stage svg [aria-selected=true]")).not_to_have_count(0)
    expect(it.page.locator(".tx-inspector")).to_contain_text(SOFTMAX)  # its source
    it.page.get_by_role("textbox", name=re.compile("^Name of a tag")).fill("w")
    it.page.keyboard.press("Enter")
    expect(it.page.locator(".tx-inspector .tx-chip-tag")).to_have_text("w")
    assert list(it.session.tags) == [address]
    it.page.locator("select[aria-label=Injector]").select_option("scale")
    expect(it.page.locator(".tx-stage svg .injected")).to_have_count(1)


def test_the_arrays_of_a_variable_fold_into_one_chip(shown):
    it = shown()
    line = it.line("def loss(params, x):")
    tree = line.get_by_role("button", name="params: 3 arrays")
    parts = line.get_by_role("button", name=re.compile(r"^params\["))
    expect(tree).to_have_attribute("aria-expanded", "false")
    expect(parts).to_have_count(0)
    tree.click()
    expect(tree).to_have_attribute("aria-expanded", "true")
    expect(parts).to_have_text([re.compile(rf"^params\['{name}'\]: bf16") for name in "koq"])
    it.page.keyboard.press("ArrowRight")
    it.page.keyboard.press("Enter")
    expect(it.inspected).to_have_text("in0")
    tree.click()  # the selected one stays in sight
    expect(parts).to_have_count(1)
    it.page.keyboard.press("ArrowRight")
    expect(parts).to_be_focused()
    it.page.keyboard.press("ArrowRight")  # over those that are folded
    expect(line.get_by_role("button", name="x: bf16")).to_be_focused()


def test_a_click_goes_on_to_the_next_value_of_a_variable(shown):
    it = shown(repeated, (jnp.ones(3),))
    doubled = it.panel.get_by_role("button", name=re.compile("^y: f32"))
    doubled.click()
    expect(doubled).to_have_text("y: f32[3] 1 of 2")
    doubled.click()
    expect(doubled).to_have_text("y: f32[3] 2 of 2")
    values = [one.address for one in it.session.program.variables() if one.name == "y"]
    expect(it.inspected).to_have_text(values[1].eqn)


def test_variables_tell_what_they_held_in_an_iteration(shown):
    it = shown()
    slider = it.panel.get_by_role("slider", name="Iteration of the loops")
    expect(slider).to_be_hidden()
    it.panel.get_by_role("button", name="Record values").click()
    a = it.line('a = attend(h @ w["q"], h @ w["k"], h)').locator("button.tx-variable")
    expect(a).to_have_text(re.compile(r"^a: bf16\[8,16\] = \S+ ± \S+$"))
    together = a.inner_text()
    slider.focus()
    it.page.keyboard.press("ArrowRight")
    expect(it.panel.get_by_role("status")).to_have_text("iteration 0 of 0 to 2")
    expect(a).not_to_have_text(together)
    recording = taxpr.watch(loss)(*program())
    stats = recording["a"].stats(each=True)
    expect(a).to_contain_text(f" = all {stats.min[0]:.4g}")
    expect(a.locator(".tx-held svg")).to_have_count(1)
    it.root.screenshot(path=BUILD / "source-values.png")


def test_a_line_lights_its_nodes_and_those_that_hold_them(shown):
    it = shown()
    it.code(SOFTMAX).click()
    expect(it.page.locator(".tx-slice")).to_contain_text("test_source.py makes: 10 equations")
    lit = it.page.locator(".tx-stage .node[data-address]:not(.tx-pale)")
    expect(lit).not_to_have_count(0)
    expect(it.page.locator(".tx-stage .node.tx-pale")).not_to_have_count(0)
    expect(it.line(SOFTMAX)).to_have_attribute("aria-current", "true")
    it.root.screenshot(path=BUILD / "source-lit.png")
    it.session.fold("0:scan")
    it.code(TANH).click()
    expect(it.line(TANH)).to_have_attribute("aria-current", "true")
    expect(it.node("0:scan")).not_to_have_class(re.compile("tx-pale"))
    it.code(TANH).click()
    expect(it.page.locator(".tx-stage .tx-pale")).to_have_count(0)
    it.code("h, means = jax.lax.scan(layer, x, params)").click()
    expect(it.node("0:scan")).not_to_have_class(re.compile("tx-pale"))
    expect(it.page.locator(".tx-stage .node.tx-pale")).not_to_have_count(0)


@pytest.mark.parametrize("width", [1300, 650])
def test_a_line_that_is_clicked_stays_under_the_pointer(shown, width):
    """The second click of a double click must reach the line of the first."""
    it = shown()
    it.page.set_viewport_size({"width": width, "height": 900})
    it.code(TANH).click(trial=True)  # scrolls to it
    before, panel = it.code(TANH).bounding_box(), it.root.bounding_box()
    it.code(TANH).click()
    expect(it.page.locator(".tx-slice")).to_contain_text("makes: ")
    expect(it.page.get_by_role("button", name="Only this")).to_be_in_viewport(ratio=1)
    assert (it.code(TANH).bounding_box(), it.root.bounding_box()) == (before, panel)
    it.root.screenshot(path=BUILD / f"source-clicked-{width}.png")


def test_a_node_lights_its_lines(shown):
    it = shown()
    it.node("in0").hover()
    expect(it.line("def loss(params, x):")).to_have_class(re.compile("tx-pointed"))
    it.page.mouse.move(5, 5)
    expect(it.panel.locator(".tx-pointed")).to_have_count(0)
    it.page.locator(".tx-source").evaluate("one => one.style.maxHeight = '120px'")
    it.page.get_by_role("tab", name="Text").click()
    it.page.locator(".tx-text [role=treeitem]").filter(has_text="log").first.click()
    it.page.get_by_role("tab", name="Source").click()
    last = it.panel.locator("[aria-selected=true]")
    expect(last).to_have_count(1)
    expect(last).to_contain_text("return total + jnp.log")
    expect(last).to_be_in_viewport(ratio=0.5)


def test_by_keys(shown):
    it = shown()
    it.page.get_by_role("tab", name="Source").focus()
    grid = it.panel.get_by_role("grid")
    for _ in range(40):
        it.page.keyboard.press("Tab")
        if grid.evaluate("one => one.contains(document.activeElement)"):
            break
    focused = it.page.locator(":focus")
    expect(focused).to_have_text("def loss(params, x):")
    it.page.keyboard.press("ArrowRight")
    it.page.keyboard.press("Enter")
    expect(focused).to_have_attribute("aria-expanded", "true")
    it.page.keyboard.press("ArrowRight")
    it.page.keyboard.press("Enter")
    expect(focused).to_have_attribute("aria-pressed", "true")
    expect(it.inspected).to_have_text("in0")
    it.page.keyboard.press("Escape")
    expect(it.inspected).to_have_count(0)
    for _ in range(3):
        it.page.keyboard.press("ArrowDown")
    expect(focused).to_have_text(TANH)
    it.page.keyboard.press("Enter")
    expect(it.page.locator(".tx-slice")).to_contain_text("makes: ")
    it.page.keyboard.press("End")
    expect(focused).to_have_text("return weights.astype(q.dtype) @ v")


def test_axe_finds_nothing(shown):
    it = shown(scheme="dark")
    it.code(TANH).click()
    it.panel.get_by_role("button", name="weights").click()
    expect(it.inspected).to_have_count(1)
    assert found(it.page, ".taxpr-panel") == []
    it.root.screenshot(path=BUILD / "source-dark.png")


def test_narrow_and_without_names(shown):
    it = shown(size=(560, 1100), names=False)
    it.code(TANH).click()
    expect(it.panel.get_by_role("note")).to_contain_text("names=True")
    expect(it.panel.locator(".tx-variable")).to_have_count(0)
    expect(it.line(TANH)).to_have_attribute("aria-current", "true")
    it.page.screenshot(path=BUILD / "source-narrow.png")
    assert found(it.page, ".taxpr-panel") == []


def test_after_a_run_lines_say_what_is_not_finite(shown):
    it = shown()
    it.page.get_by_role("button", name="Run", exact=True).click()
    bad = it.panel.get_by_role("row").filter(has_text="not finite: 1 element")
    expect(bad).to_have_count(1)
    expect(bad).to_contain_text("return total + jnp.log")


def broken(x):
    y = taxpr.tag(jnp.sin(x), name="y")
    z = jnp.log(y - 2.0)
    return {"log": z, "sum": y.sum(), "x": x}


def test_what_runs_say_of_lines_has_a_legend(shown):
    it = shown(broken, (jnp.ones(3),))
    tagged, log = it.line('y = taxpr.tag(jnp.sin(x), name="y")'), it.line("z = jnp.log(y - 2.0)")
    legend = it.panel.locator(".tx-marks-key")
    expect(tagged.get_by_role("img", name="has the tag y: a run records it")).to_have_text("○")
    expect(legend).to_have_text("○ a tag: the next run records its value")
    it.page.get_by_role("button", name="Run", exact=True).click()
    expect(tagged.get_by_role("img", name="recorded at the tag y")).to_have_text("●")
    expect(log).to_contain_text("not finite: 3 elements")
    expect(legend).to_contain_text("● a run recorded a value of the line")
    expect(legend).to_contain_text("not finite a value of the line is NaN or infinite")
    expect(legend).not_to_contain_text("○")
    expect(legend).not_to_contain_text("From a run before")
    it.session.attach("y", "scale", factor=2.0)
    it.page.evaluate("idle()")
    it.page.get_by_role("tab", name="Ask").click()
    it.page.get_by_role("tab", name="Source").click()
    expect(legend).to_contain_text("From a run before the last change.")
    it.page.get_by_role("button", name="Run", exact=True).click()
    expect(legend).not_to_contain_text("From a run before")
    expect(it.line('return {"log": z, "sum": y.sum(), "x": x}')).to_contain_text("changed by 2.52")
    it.root.screenshot(path=BUILD / "source-marks.png")
    assert found(it.page, ".tx-source") == []


def test_results_that_are_not_finite_stand_with_those_that_changed(shown):
    it = shown(broken, (jnp.ones(3),))
    it.page.get_by_role("button", name="Run", exact=True).click()
    outputs = it.page.get_by_role("table", name="Outputs", exact=True)
    it.page.locator(".tx-ran").get_by_role("button").click()
    expect(outputs.locator("tbody tr").first).to_contain_text("out['log']")
    expect(outputs.get_by_role("row")).to_have_count(4)  # with the heads
    expect(outputs.locator(".tx-bad")).to_have_text("not finite: 3 of 3 elements")
    expect(it.page.locator(".tx-ran")).to_contain_text("1 of 3 outputs not finite, none changed")
    it.root.screenshot(path=BUILD / "results-not-finite.png")


def test_a_saved_page_has_the_source(page, tmp_path):
    file = tmp_path / "page.html"
    draw(taxpr.trace(loss, names=True)(*program())).save(file)
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(file.as_uri())
    page.get_by_role("tab", name="Source").click()
    panel = page.get_by_role("tabpanel", name="Source")
    row = panel.get_by_role("row").filter(has=page.get_by_text(TANH, exact=True))
    panel.get_by_text(TANH, exact=True).click()
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator(".tx-stage .node.tx-pale")).not_to_have_count(0)
    expect(page.locator(".tx-stage .node[data-address]:not(.tx-pale)")).not_to_have_count(0)
    expect(page.locator(".tx-slice")).to_contain_text("of test_source.py makes")
    page.screenshot(path=BUILD / "source-page.png")
    panel.get_by_text(TANH, exact=True).click()
    expect(page.locator(".tx-stage .tx-pale")).to_have_count(0)
    panel.get_by_text(TANH, exact=True).click()
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".tx-stage .tx-pale")).to_have_count(0)
    expect(row).not_to_have_attribute("aria-current", "true")
    panel.get_by_role("button", name="x: bf16[8,16]").click()
    expect(page.locator(".tx-inspector .tx-address")).to_have_text(re.compile("^in"))
    expect(panel.locator("[aria-selected=true]")).to_contain_text("def loss(params, x):")
    page.get_by_role("button", name="Fit the picture").click()
    page.locator(".tx-stage svg g.node[data-fold]").first.hover()
    expect(panel.locator(".tx-pointed")).not_to_have_count(0)
