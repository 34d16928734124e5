"""The panel of a notebook beside a file browser: nothing is covered or lost."""

import re

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found

import taxpr
from taxpr_jupyter import Session


def attend(p, x):
    queries, keys, values = x @ p["queries"], x @ p["keys"], x @ p["values"]
    scores = queries @ keys.T / jnp.sqrt(jnp.asarray(queries.shape[-1], x.dtype))
    weights = jax.nn.softmax(scores, axis=-1)
    return weights @ values @ p["output"]


def block(p, x):
    attended = x + attend(p, x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5))
    hidden = jax.nn.gelu(attended @ p["up"])
    return attended + hidden @ p["down"]


def loss(params, x):
    for p in params:
        x = block(p, x)
    return (x**2).mean()


def train_step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    new = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return new, value


def arguments():
    shapes = dict.fromkeys(("queries", "keys", "values", "output"), (8, 8))
    shapes |= {"up": (8, 32), "down": (32, 8)}
    p = {name: jnp.ones(shape) / 8 for name, shape in shapes.items()}
    return [p, p], jnp.arange(40.0).reshape(5, 8) / 40


@pytest.fixture
def it(page, shown):
    page.set_viewport_size({"width": 970, "height": 900})
    return shown(Session(train_step, arguments(), namespace=globals()), "Source")


def settled(page):
    page.evaluate("idle()")
    page.wait_for_function("new Promise((done) => requestAnimationFrame(() => done(true)))")


def is_inside(inner, outer):
    below = outer["y"] + outer["height"] - inner["y"] - inner["height"]
    return min(inner["y"] - outer["y"], below) > -1


def test_the_line_of_a_variable_stays_in_sight_when_the_inspector_opens(it):
    row = it.line("    weights = jax.nn.softmax(scores, axis=-1)")
    row.get_by_role("button", name=re.compile("^weights")).click()
    expect(it.inspected).to_have_count(1)
    it.page.evaluate("idle()")
    it.page.wait_for_function(
        "() => new Promise((done) => requestAnimationFrame(() => done(true)))"
    )
    it.root.screenshot(path=BUILD / "narrow-selected.png")
    assert is_inside(row.bounding_box(), it.panel.bounding_box())


def test_the_map_covers_no_note(it):
    it.page.set_viewport_size(
        {"width": 1250, "height": 900}
    )  # else it would cover the selected node
    row = it.line("    weights = jax.nn.softmax(scores, axis=-1)")
    row.get_by_role("button", name=re.compile("^weights")).click()
    note, chart = it.page.locator(".tx-picture-note"), it.page.locator(".tx-stage .tx-map")
    expect(note).not_to_be_empty()
    expect(chart).to_be_visible()
    it.page.evaluate("idle()")
    it.page.wait_for_function(
        "() => new Promise((done) => requestAnimationFrame(() => done(true)))"
    )
    it.root.screenshot(path=BUILD / "narrow-note.png")
    above, below = chart.bounding_box(), note.bounding_box()
    assert above["y"] + above["height"] <= below["y"]


def test_values_of_states_have_room(page, shown):
    mean = taxpr.State(jnp.arange(6.0), name="mean")

    def track(x):
        mean.value = 0.9 * mean.value + 0.1 * x
        return mean.value.sum()

    page.set_viewport_size({"width": 970, "height": 900})
    it = shown(Session(track, (jnp.arange(6.0) / 7,)))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".tx-results")).to_contain_text("Run 1 on")
    cells = page.get_by_role("table", name="States").locator("tbody tr").first.locator("td")
    it.root.screenshot(path=BUILD / "narrow-states.png")
    ends, writes = (cells.nth(k).bounding_box()["width"] for k in (1, 3))
    assert ends > writes


def test_what_a_search_finds_is_lit(it):
    field = it.page.get_by_role("searchbox", name="Find in the program")
    field.fill("prim:dot_general")
    lit = it.page.locator(".tx-found")
    expect(lit).not_to_have_count(0)
    it.page.get_by_role("button", name="Fit").click()
    settled(it.page)
    it.root.screenshot(path=BUILD / "found.png")
    hits = {one.address for one in it.session.find("prim:dot_general")}
    shown = {one.get_attribute("data-address") for one in lit.all()}
    drawn = {node.address for node in it.session.picture().nodes}
    assert shown >= hits & drawn
    assert all("dot_general" in one or one not in hits for one in shown)
    field.fill("")
    expect(lit).to_have_count(0)


@pytest.mark.parametrize("height", [900, 1200])
def test_the_panel_keeps_its_part_of_a_narrow_window(page, shown, height):
    page.set_viewport_size({"width": 700, "height": height})
    session = Session(train_step, arguments(), namespace=globals())
    session.attach(taxpr.var("scores", occurrence=0), "scale", factor=0.5)
    it = shown(session, "Source")
    most = min(600, 0.6 * height)
    seen = {}

    def look(what):
        settled(page)
        seen[what] = it.root.bounding_box()["height"]
        it.root.screenshot(path=BUILD / f"narrow-700-{what}-{height}.png")

    look("source")
    row = it.line("    weights = jax.nn.softmax(scores, axis=-1)")
    row.get_by_role("button", name=re.compile("^weights")).first.click()
    expect(it.inspected).to_have_count(1)
    look("selected")
    page.get_by_role("tab", name="Picture").click()
    look("inspector")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".tx-results")).to_contain_text("Run 1 on", timeout=60_000)
    look("results")
    assert {what: box for what, box in seen.items() if box > most} == {}


# What reaches beyond the sides of the panel, or, of what is always to be at hand, beyond its ends.
CUT = """() => {
  const root = document.querySelector(".taxpr-panel"), edges = root.getBoundingClientRect();
  const seen = (one) => one.checkVisibility({ visibilityProperty: true });
  const beyond = ".tx-stage, .tx-sides, .tx-lines, .tx-scroll, .tx-runs-list"; // these scroll
  const scrolls = (one) => one.closest(beyond);
  const wide = [...root.querySelectorAll("button, select, input, summary, .tx-headline, h3")]
    .filter((one) => seen(one) && !scrolls(one))
    .filter((one) => one.getBoundingClientRect().left < edges.left
      || one.getBoundingClientRect().right > edges.right + 1);
  const low = [...root.querySelectorAll(".tx-run-button, .tx-ran button:not([hidden])")]
    .filter((one) => one.getBoundingClientRect().bottom > edges.bottom);
  return [...wide, ...low].map((one) => one.outerHTML.slice(0, 120));
}"""


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (700, "light"),
        (480, "dark"),
        pytest.param(700, "dark", marks=pytest.mark.slow),
        pytest.param(480, "light", marks=pytest.mark.slow),
    ],
)
def test_a_narrow_panel_shows_one_pane_at_a_time(page, shown, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    session = Session(train_step, arguments(), namespace=globals())
    session.attach(taxpr.var("scores", occurrence=0), "scale", factor=0.5)
    it = shown(session, "Source")
    run = page.get_by_role("button", name="Run", exact=True)
    shown_panes = page.locator(".tx-stage, .tx-stage ~ [role=tabpanel]").filter(visible=True)

    def look(what, least):
        settled(page)
        it.root.screenshot(path=BUILD / f"one-pane-{width}-{scheme}-{what}.png")
        expect(shown_panes).to_have_count(1)
        pane = shown_panes.bounding_box()
        assert pane["height"] >= least
        assert pane["width"] > width - 30
        assert page.evaluate(CUT) == []
        assert is_inside(pane, it.root.bounding_box())
        assert found(page, ".taxpr-panel") == []

    look("source", 340)
    run.click()
    expect(page.locator(".tx-results")).to_contain_text("Run 1 on", timeout=60_000)
    page.get_by_role("button", name=re.compile("^Run 1: ")).click()
    look("results", 340)
    assert is_inside(page.locator(".tx-headline").bounding_box(), it.root.bounding_box())
    for tab in ("Ask", "Text", "Outline", "Compare"):
        page.get_by_role("tab", name=tab).click()
        look(tab.lower(), 340)
    page.get_by_role("tab", name="Picture").click()
    look("picture", 200)


@pytest.mark.parametrize("width", [700, 480])
def test_a_slider_stands_below_the_results_that_it_changes(page, shown, width):
    page.set_viewport_size({"width": width, "height": 900})
    session = Session(train_step, arguments(), namespace=globals())
    session.attach(taxpr.var("scores", occurrence=0), "scale", factor=0.5)
    it = shown(session, "Source")
    row = it.panel.get_by_role("row").filter(has_text="scores = queries @ keys.T")
    row.get_by_role("button", name=re.compile("^scores")).first.click()
    expect(it.inspected).to_have_count(1)
    settled(page)
    assert is_inside(row.bounding_box(), it.panel.bounding_box())
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name=re.compile("^Run 1: ")).click()
    headline, slider = page.locator(".tx-headline"), page.locator(".tx-slider")
    it.root.screenshot(path=BUILD / f"narrow-slider-{width}.png")
    foot = page.locator(".tx-run").bounding_box()["y"]
    for one in (headline, slider):
        assert is_inside(one.bounding_box(), it.root.bounding_box())
        assert one.bounding_box()["y"] + one.bounding_box()["height"] <= foot
    before = headline.inner_text()
    page.get_by_label("Live", exact=True).check()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(headline).not_to_have_text(before)


@pytest.mark.parametrize("width", [850, 970])
def test_the_source_is_beside_the_picture_where_both_can_be_read(it, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    settled(page)
    assert it.panel.bounding_box()["width"] > 330
    if width == 970:
        expect(page.locator(".tx-stage")).to_be_visible()
    else:
        expect(page.locator(".tx-stage")).to_be_hidden()


def test_beside_the_inspector_results_have_the_room_of_the_picture(page, shown):
    page.set_viewport_size({"width": 950, "height": 768})  # as beside the files of JupyterLab
    session = Session(train_step, arguments(), namespace=globals())
    session.attach(taxpr.var("scores", occurrence=0), "scale", factor=0.5)
    it = shown(session)
    page.get_by_role("button", name="Run", exact=True).click()
    table = page.locator(".tx-results").get_by_label("Outputs", exact=True)
    expect(table).to_be_visible(timeout=60_000)
    page.get_by_role("tab", name="Results").click()  # not only come by themselves
    settled(page)
    it.root.screenshot(path=BUILD / "results-beside-inspector.png")
    expect(page.locator(".tx-stage")).to_be_hidden()
    assert table.evaluate("(one) => one.scrollWidth <= one.closest('.tx-scroll').clientWidth")
    page.get_by_role("tab", name="Picture").click()
    expect(page.locator(".tx-stage")).to_be_visible()


def test_the_pen_of_a_line_stands_beside_it(it, page):
    page.set_viewport_size({"width": 910, "height": 900})
    row = it.panel.get_by_role("row").filter(has_text="value, grads = jax.value_and_grad")
    row.get_by_role("button", name=re.compile("^value")).click()
    page.set_viewport_size({"width": 905, "height": 900})
    settled(page)
    pen = row.get_by_role("button", name=re.compile("^Edit line")).bounding_box()
    line = row.locator(".tx-of-line").bounding_box()
    it.root.screenshot(path=BUILD / "narrow-pen.png")
    assert line["x"] + line["width"] <= pen["x"]
    assert line["y"] < pen["y"] + pen["height"] <= line["y"] + line["height"] + 4
