"""The results of a run beside the picture: the loss first, then what changed most."""

import re

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found

from taxpr_jupyter import Session

NAMES = "abcdefgh"


def net(params, x):
    hidden = jnp.tanh(x @ params["w"] + params["b"][None])
    return hidden @ params["v"]


def loss(params, x):
    return jnp.mean(net(params["net"], x) ** 2) + sum((params["more"][k] ** 2).sum() for k in NAMES)


def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def program():
    keys = iter(jax.random.split(jax.random.key(0), 4))
    make = lambda *shape: jax.random.normal(next(keys), shape)
    net = {"w": make(8, 16), "b": make(16), "v": make(16, 1)}
    more = {k: jnp.arange(3.0) for k in NAMES}
    return {"net": net, "more": more}, make(32, 8)


@pytest.fixture
def it(page, shown):
    page.set_viewport_size({"width": 1350, "height": 900})
    return shown(Session(step, program()))


def run(page):
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".tx-results h3")).to_contain_text("Run ", timeout=60_000)


def test_a_run_shows_the_loss_and_what_changed_most(page, it):
    hidden = next(one for one in it.session.program.variables() if one.name == "hidden")
    it.session.tag(hidden.address, name="hidden")
    it.session.attach("hidden", "scale", factor=0.5)
    run(page)
    expect(page.get_by_role("tab", name="Results")).to_have_attribute("aria-selected", "true")
    results = page.get_by_role("tabpanel", name="Results")
    expect(results.locator(".tx-headline")).to_have_text(
        re.compile(r"^out\[1\] \S+ → \S+ \(−\d+ %\)$")
    )
    rows = results.get_by_role("table", name="Outputs").locator("tbody tr")
    expect(rows).to_have_count(4)  # of the others none has changed
    expect(rows.first).to_contain_text("out[1]")
    charts = results.get_by_role("table", name="Outputs").get_by_role("img")
    expect(charts.first).to_have_accessible_name(re.compile("from -?[0-9.]+ to [0-9.]+"))
    expect(results.get_by_text("8 outputs unchanged", exact=True)).to_be_visible()
    times = results.get_by_label("Times of the run")
    expect(times).to_be_hidden()
    it.root.screenshot(path=BUILD / "results.png")
    results.get_by_text("Times, FLOPs and memory").click()
    expect(times).to_be_visible()
    assert found(page, ".taxpr-panel") == []
    sizes = [one.bounding_box() for one in (results, page.locator(".tx-stage"))]
    assert abs(sizes[0]["height"] - sizes[1]["height"]) <= 2  # within the height of the picture
    run(page)
    expect(times).to_be_visible()  # as it was left


def test_without_injectors_there_is_one_column_of_values(page, it):
    run(page)
    results = page.get_by_role("tabpanel", name="Results")
    expect(results.locator(".tx-headline")).to_have_text(re.compile(r"^out\[1\] [0-9.]+$"))
    table = results.get_by_role("table", name="Outputs")
    expect(table.get_by_role("columnheader")).to_have_text(["output", "value"])
    expect(table.locator("tbody tr")).to_have_count(5)
    results.get_by_text("7 more outputs", exact=True).click()
    expect(results.get_by_text(re.compile(r"^out\[0\]\S*: \d arrays$")).first).to_be_visible()
    it.root.screenshot(path=BUILD / "results-plain.png")


def test_a_run_leaves_the_source_in_sight(page, it):
    page.get_by_role("tab", name="Source").click()
    run(page)
    source = page.get_by_role("tab", name="Source")
    expect(source).to_have_attribute("aria-selected", "true")
    page.locator(".tx-ran").get_by_role("button").click()
    expect(page.get_by_role("tabpanel", name="Results")).to_be_visible()


@pytest.mark.parametrize("first", ["Source", "Ask", "Picture"])
def test_what_is_chosen_while_a_run_is_under_way_stays(page, it, first):
    page.get_by_role("tab", name=first).click()
    it.page.evaluate("idle()")
    it.answers = False  # the run is under way
    page.get_by_role("button", name="Run", exact=True).click()
    picture = page.get_by_role("tab", name="Picture")
    if first == "Picture":
        page.locator(".tx-stage svg .node").first.click()
    else:
        picture.click()
    it.page.evaluate("idle()")
    it.view.graph.view = "picture"
    it.session.run()
    assert it.view.wait(60)
    it.answers = True
    it.look()
    expect(page.locator(".tx-ran")).to_contain_text("Run 1")
    expect(picture).to_have_attribute("aria-selected", "true")


def test_runs_are_compared_restored_and_named_in_a_strip(page, it):
    session = it.session
    hidden = next(one for one in session.program.variables() if one.name == "hidden")
    session.tag(hidden.address, name="hidden")
    for factor in (0.5, 0.9, 0.1):
        session.attach("hidden", "scale", factor=factor)
        session.run()
    it.look()
    page.get_by_role("tab", name="Results").click()
    results = page.get_by_role("tabpanel", name="Results")
    strip = results.get_by_role("group", name="Runs, the newest first")
    chips = strip.get_by_role("button")
    expect(chips).to_have_count(3)
    expect(chips.first).to_contain_text("run 3now")
    expect(chips.first).to_contain_text("hidden: scale(factor=0.1)")
    chips.nth(2).click()
    expect(results.locator("h3")).to_have_text("Run 1 on cpu:0")
    expect(chips.nth(2)).to_have_attribute("aria-pressed", "true")
    expect(results.locator(".tx-outdated")).to_be_hidden()  # it is not the last one
    chips.nth(1).click(modifiers=["Shift"])
    expect(results.locator("h3")).to_have_text("Run 2 → run 1")
    expect(results.locator(".tx-head")).to_contain_text("scale(factor=0.9) → scale(factor=0.5)")
    before, after = (session.runs[k].headline.after for k in (1, 0))
    expect(results.locator(".tx-headline")).to_contain_text(f"out[1] {before} → {after}")
    table = results.get_by_role("table", name="Outputs")
    heads = ["output", "run 2", "run 1", "relative", "max |Δ|"]
    expect(table.get_by_role("columnheader")).to_have_text(heads)
    it.root.screenshot(path=BUILD / "runs.png")
    assert found(page, ".taxpr-panel") == []
    results.get_by_label("Compared with").select_option("run 3")
    expect(results.locator("h3")).to_have_text("Run 3 → run 1")
    results.get_by_role("button", name="Restore").click()
    expect(chips.nth(2)).to_contain_text("now")
    expect(results.get_by_role("button", name="Restore")).to_have_count(0)
    it.take_sent()
    assert session.injectors[session.sites()[0].key].values == {"factor": 0.5}
    name = results.get_by_label("Name of the run")
    name.fill("half <b>")
    name.press("Enter")
    expect(chips.nth(2)).to_contain_text("half <b>")
    run(page)
    expect(results.locator("h3")).to_have_text("Run 3 → run 4")  # as it was chosen
    results.get_by_text("Table", exact=True).click()
    expect(results.locator(".tx-runs pre")).to_contain_text(
        "run,device,status,hidden,hidden.factor"
    )
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 1100})
    it.root.screenshot(path=BUILD / "runs-narrow-dark.png")
    assert found(page, ".taxpr-panel") == []


# The rules with `:has` whose last part may be any element: with each word that comes or goes, the
# browser then computes the styles of the whole panel anew.
ANY_ELEMENT = """() => {
  const found = [];
  const seen = (rules, around) => {
    for (const rule of rules) {
      const own = rule.selectorText;
      const whole = own === undefined ? around : own.replaceAll("&", around);
      if (own !== undefined && whole.includes(":has(")) {
        let flat = own; // without what is in parentheses
        for (let before = ""; before !== flat; ) {
          before = flat;
          flat = flat.replace(/:(not|has)\\([^()]*\\)/g, "").replace(/\\([^()]*\\)/g, "");
        }
        const last = flat.trim().split(/[\\s>~+]+/).pop();
        if (!/[.#\\[&]|^[a-z]|:is|:where/.test(last)) found.push(own);
      }
      if (rule.cssRules) seen(rule.cssRules, whole);
    }
  };
  for (const sheet of document.styleSheets) seen(sheet.cssRules, "");
  return found;
}"""


def test_no_rule_has_all_of_the_panel_styled_anew_with_each_word(page, it):
    assert page.evaluate("document.styleSheets.length") > 0
    assert page.evaluate(ANY_ELEMENT) == []


def test_the_next_run_changes_numbers_and_leaves_the_rest_of_the_results_in_place(page, it):
    hidden = next(one for one in it.session.program.variables() if one.name == "hidden")
    it.session.tag(hidden.address, name="hidden")
    it.session.attach("hidden", "scale", factor=0.5)
    run(page)
    results = page.get_by_role("tabpanel", name="Results")
    results.get_by_text("Times, FLOPs and memory").click()
    before = results.locator(".tx-headline").text_content()
    marked = ".tx-outcome :is(h3, tr, td, polyline, details)"
    number = page.evaluate(
        "(all) => [...document.querySelectorAll(all)].map((one) => (one.kept = true)).length",
        marked,
    )
    it.session.set_value("hidden", "factor", 0.25)
    it.session.run()
    it.look()
    expect(results.locator("h3")).to_contain_text("Run 2")
    expect(results.locator(".tx-headline")).not_to_have_text(before)
    expect(results.locator(".tx-chip-injected")).to_have_text(["hidden: scale(factor=0.25)"])
    assert results.locator("details[open]").count() == 1
    kept = page.evaluate(
        "(all) => [...document.querySelectorAll(all)].filter((one) => one.kept).length", marked
    )
    assert kept == number > 30
