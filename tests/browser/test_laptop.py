"""The panel at the widths of laptops: nothing takes the room of the picture by itself."""

import re

import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found
from browser.test_narrow import CUT, arguments, settled, train_step

import taxpr
from taxpr_jupyter import Session

MOST = 540  # 0.6 times the height of the window
OF_PANEL = 16  # of the page around it
WIDTHS = [900, 1000, 1150]
ROWS = """() => {
  const parts = ["run", "title", "tabs", "history", "heat", "search", "tools", "ran"];
  const middle = (one) => {
    const { top, height } = one.getBoundingClientRect();
    return top + height / 2;
  };
  const shown = parts.map((part) => document.querySelector(`.tx-${part}`))
    .filter((one) => one.checkVisibility());
  const places = shown.map(middle).sort((a, b) => a - b);
  return places.filter((at, k) => k === 0 || at - places[k - 1] > 12).length;
}"""
# Fields whose placeholder is wider than they are.
SHORT = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  const room = (field) => {
    const { font, paddingLeft, paddingRight } = getComputedStyle(field);
    pen.font = font;
    return field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
  };
  return [...document.querySelectorAll(".taxpr-panel input[placeholder]")]
    .filter((one) => one.checkVisibility())
    .filter((one) => room(one) + 1 < pen.measureText(one.placeholder).width)
    .map((one) => one.placeholder);
}"""
COVERED = """() => {
  const [stage, a, b] = [".tx-stage", ".tx-heat-legend", ".tx-map"].map((part) =>
    document.querySelector(part).getBoundingClientRect());
  const beside = a.right < b.left || b.right < a.left;
  const apart = a.bottom < b.top || b.bottom < a.top;
  const share = (a.width * a.height) / (stage.width * stage.height);
  return { share, meet: !(beside || apart) };
}"""


# Of the call in the header its width, or 0; and how far the memory over the steps ends before the
# right edge.
ENDS = """() => {
  const box = (part) => document.querySelector(part).getBoundingClientRect();
  return [box(".tx-title code").width && box(".tx-title").width,
    box(".taxpr-panel").right - box(".tx-strip").right];
}"""


@pytest.fixture(params=WIDTHS)
def it(page, shown, request):
    page.set_viewport_size({"width": request.param + OF_PANEL, "height": 900})
    page.emulate_media(color_scheme="dark" if request.param == 1000 else "light")
    session = Session(train_step, arguments(), namespace=globals())
    session.attach(taxpr.var("scores", occurrence=0), "scale", factor=0.5)
    session.watch()
    it = shown(session)
    assert it.root.bounding_box()["width"] == request.param
    return it


def looked_at(it, what):
    """What holds for the panel whatever is in it."""
    settled(it.page)
    it.root.screenshot(path=BUILD / f"laptop-{it.root.bounding_box()['width']:.0f}-{what}.png")
    assert it.root.bounding_box()["height"] <= MOST, what
    assert it.page.evaluate(ROWS) == 2, what
    assert it.page.evaluate(CUT) == [], what
    assert it.page.evaluate(SHORT) == [], what
    return it.page.locator(".tx-stage").bounding_box()


def ran(it):
    it.page.get_by_role("button", name="Run", exact=True).click()
    expect(it.page.locator(".tx-headline")).to_be_visible(timeout=60_000)


def test_the_picture_keeps_half_of_the_panel_until_the_user_wants_it_otherwise(it):
    whole = it.root.bounding_box()["width"]
    stage, inspector = it.page.locator(".tx-stage"), it.page.locator(".tx-inspector")
    assert looked_at(it, "start")["width"] >= whole / 2
    ran(it)
    assert looked_at(it, "ran")["width"] >= whole / 2 - 2
    expect(stage).to_be_visible()
    table = it.page.locator(".tx-results").get_by_label("Outputs", exact=True)
    assert table.evaluate("(one) => one.scrollWidth <= one.closest('.tx-scroll').clientWidth")
    assert found(it.page, ".taxpr-panel") == []
    it.page.get_by_role("tab", name="Results").click()  # now the user wants them
    looked_at(it, "results")
    expect(inspector).to_be_visible()
    it.page.get_by_role("tab", name="Picture").click()
    assert looked_at(it, "picture")["width"] >= whole / 2


def test_what_is_clicked_beside_results_is_inspected(it):
    whole = it.root.bounding_box()["width"]
    ran(it)
    settled(it.page)
    it.page.locator(".tx-stage svg .node").filter(has_text="integer_pow").first.click()
    expect(it.inspected).to_have_text("0:integer_pow")
    assert looked_at(it, "clicked")["width"] >= whole / 2
    expect(it.page.get_by_role("tab", name="Picture")).to_have_attribute("aria-selected", "true")


def test_a_slider_is_beside_the_picture_and_the_results(it):
    it.page.get_by_role("tab", name="Source").click()
    panel = it.page.get_by_role("tabpanel", name="Source")
    row = panel.get_by_role("row").filter(has_text="scores = queries @ keys.T")
    row.get_by_role("button", name=re.compile("^scores")).first.click()
    expect(it.inspected).to_have_count(1)
    looked_at(it, "source")
    it.page.get_by_role("tab", name="Picture").click()
    ran(it)
    stage = looked_at(it, "slider")
    slider = it.page.locator(".tx-slider").first.bounding_box()
    results = it.page.locator(".tx-results").bounding_box()
    headline = it.page.locator(".tx-headline").bounding_box()
    assert headline["y"] + headline["height"] <= results["y"] + results["height"]
    assert stage["width"] >= it.root.bounding_box()["width"] / 2 - 2
    assert slider["x"] > stage["x"] + stage["width"]
    assert slider["y"] >= results["y"] + results["height"]
    assert found(it.page, ".tx-controls, .tx-results") == []


def test_an_answer_is_not_cut_and_its_colours_leave_the_picture_alone(it):
    it.page.get_by_role("tab", name="Ask").click()
    it.page.get_by_role("button", name="Memory", exact=True).click()
    rows = it.page.locator(".tx-answer tbody tr")
    expect(rows).not_to_have_count(0, timeout=60_000)
    rows.nth(2).click()
    expect(it.inspected).to_have_count(1)
    looked_at(it, "memory")
    cut = "(one) => one.scrollWidth > one.clientWidth"
    for part in (".tx-ask", ".tx-answer", ".tx-answer .tx-scroll"):
        assert not any(one.evaluate(cut) for one in it.page.locator(part).all()), part
    cell = rows.nth(2).get_by_role("cell").filter(has_text="new = jax.tree.map")
    expect(cell).to_have_css("white-space-collapse", "collapse")
    assert found(it.page, ".taxpr-panel") == []
    if it.page.locator(".tx-stage").is_visible():
        covered = it.page.evaluate(COVERED)
        assert covered["share"] < 0.12
        assert not covered["meet"]
    it.page.get_by_role("tab", name="Picture").click()
    looked_at(it, "memory-picture")
    assert not it.page.evaluate(COVERED)["meet"]


def test_a_message_takes_its_room_from_the_picture(it):
    it.page.get_by_role("button", name="Undo").click()
    expect(it.page.locator(".tx-message")).not_to_be_empty()
    looked_at(it, "message")


def test_a_call_is_read_or_not_there_and_the_memory_over_the_steps_fits(it):
    it.session.ask("memory")
    it.session.heat = "peak"
    it.look()
    expect(it.page.locator(".tx-strip")).to_be_visible()
    title, right = it.page.evaluate(ENDS)
    assert title == 0 or title >= 90
    assert right >= 10
