"""The panel leaves room for the notebook, can fill the screen, and begins with Run."""

import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_results import program, run, step

from taxpr_jupyter import Session

SMALL_TEXTS = """() => [...document.querySelectorAll('.taxpr-panel *')].filter((one) =>
  !one.closest('svg') && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
  && parseFloat(getComputedStyle(one).fontSize) < 12).map((one) => one.outerHTML.slice(0, 80))"""


@pytest.fixture
def it(page, shown):
    page.set_viewport_size({"width": 1350, "height": 900})
    session = Session(step, program())
    hidden = next(one for one in session.program.variables() if one.name == "hidden")
    session.tag(hidden.address, name="hidden")
    session.attach("hidden", "scale", factor=0.5)
    return shown(session)


def test_the_panel_takes_no_more_than_its_part_of_the_window(page, it):
    for height in (900, 1400):
        page.set_viewport_size({"width": 1350, "height": height})
        assert it.root.bounding_box()["height"] <= min(600, 0.6 * height)
    run(page)
    assert it.root.bounding_box()["height"] <= 600
    for tab in ("Results", "Source", "Ask", "Picture"):
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate(SMALL_TEXTS) == []


def test_the_panel_fills_the_screen_and_comes_back(page, it):
    before = it.root.bounding_box()
    full = page.get_by_role("button", name="Full screen")
    full.click()
    page.wait_for_function("document.fullscreenElement !== null")
    box = it.root.bounding_box()
    assert (box["x"], box["y"], box["height"]) == (0, 0, 900)
    stage = page.locator(".tx-stage").bounding_box()
    assert stage["height"] >= 740
    it.page.screenshot(path=BUILD / "full-screen.png")
    full.click()
    page.wait_for_function("document.fullscreenElement === null")
    assert it.root.bounding_box() == before


def test_a_page_that_allows_no_full_screen_says_so(page, it):
    page.evaluate("() => { Element.prototype.requestFullscreen = () => Promise.reject(); }")
    page.get_by_role("button", name="Full screen").click()
    expect(page.locator(".tx-message")).to_have_text(
        "The page around this panel allows no full screen."
    )


def test_run_comes_first_with_the_tab_key(page, it):
    page.evaluate("""() => {
      const before = document.createElement('button');
      document.querySelector('.taxpr-panel').before(before);
      before.focus();
    }""")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_focused()


@pytest.mark.parametrize("width", [1350, 700])
def test_the_map_never_covers_what_is_selected(page, it, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.get_by_role("tab", name="Source").click()  # the picture has little room beside it
    covers = """address => {
      const [chart, node] = [document.querySelector('.tx-map'),
        document.querySelector(`.tx-stage svg [data-address="${CSS.escape(address)}"]`)];
      if (chart.hidden || getComputedStyle(chart).visibility === 'hidden') return false;
      const [a, b] = [chart.getBoundingClientRect(), node.getBoundingClientRect()];
      return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    }"""
    seen = 0
    for node in it.session.picture().nodes[:12]:
        if page.locator(f'.tx-stage svg [data-address="{node.address}"]').count() != 1:
            continue
        it.view.graph.selected = node.address
        it.look()
        assert not page.evaluate(covers, node.address), node.address
        seen += 1
    assert seen > 5


def test_the_map_goes_where_it_covers_fewer_nodes(page, it):
    chart = page.locator(".tx-stage .tx-map")
    page.get_by_role("tab", name="Source").click()
    covered = """() => {
      const a = document.querySelector('.tx-map').getBoundingClientRect();
      return [...document.querySelectorAll('.tx-stage > svg .node')].filter((one) => {
        const b = one.getBoundingClientRect();
        return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
      }).length;
    }"""
    stage = page.locator(".tx-stage").bounding_box()
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    seen = set()
    for dx, dy in [(0, -80), (60, -60), (60, 0), (-90, 0), (-90, -60), (-60, 0)]:
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + dx, y + dy, steps=3)
        page.mouse.up()
        here = page.evaluate(covered)
        corner = "tx-aside" in chart.get_attribute("class").split()
        chart.evaluate("one => one.classList.toggle('tx-aside')")
        there = page.evaluate(covered)
        chart.evaluate("one => one.classList.toggle('tx-aside')")
        assert here <= there, (dx, dy)
        assert ("tx-over" in chart.get_attribute("class").split()) == (here > 0)
        seen.add((corner, here > 0, there > 0))
    assert len(seen) > 1


def test_live_says_why_it_is_off(page, it):
    live = page.get_by_label("Live", exact=True).locator("xpath=..")
    assert "It is off: the program has not run yet" in live.get_attribute("title")
    run(page)
    expect(page.get_by_label("Live", exact=True)).to_be_checked()
    assert "It is off" not in live.get_attribute("title")
    page.get_by_label("Live", exact=True).uncheck()
    it.take_sent()
    assert "It is off: it was switched off" in live.get_attribute("title")


@pytest.mark.parametrize("width", [1350, 1000, 600])
def test_all_of_the_count_of_equations_is_there(page, it, width):
    page.set_viewport_size({"width": width, "height": 900})
    counts = page.locator(".tx-counted")
    expect(counts).to_have_text(str(it.session.picture().counts))
    words, panel = counts.bounding_box(), it.root.bounding_box()
    assert words["height"] < 30  # one line
    assert words["x"] + words["width"] < panel["x"] + panel["width"]
