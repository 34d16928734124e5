"""The picture under fingers, and the map beside what is selected."""

import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.panel_page import PanelPage
from browser.test_steady import session, tall

from taxpr_jupyter import Session, draw


@pytest.fixture
def fingers(browser):
    """Shows a page on a device with a touch screen: a low one, which has to be scrolled."""
    contexts, panels = [], []

    def begin():
        size = {"width": 900, "height": 600}
        context = browser.new_context(viewport=size, has_touch=True, reduced_motion="reduce")
        contexts.append(context)
        return context.new_page()

    def show(one):
        panels.append(PanelPage(begin(), one))
        tall(panels[-1].page)
        return panels[-1]

    show.page = begin
    yield show
    for panel in panels:
        panel.view.close()
    for context in contexts:
        context.close()


def of(page):
    """Where the picture is in its stage, and how large it is drawn."""
    page.evaluate("window.idle?.()")
    return page.evaluate("""() => {
      const box = (one) => document.querySelector(one).getBoundingClientRect();
      const [svg, stage] = [box(".tx-stage > svg"), box(".tx-stage")];
      return [svg.x - stage.x, svg.y - stage.y, svg.width];
    }""")


def fingers_go(page, begins, ends, steps=12):
    """Fingers go from places to others, one after the other put down."""
    client = page.context.new_cdp_session(page)

    def touch(kind, places):
        points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(places)]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    for count in range(1, len(begins) + 1):
        touch("touchStart", begins[:count])
    for step in range(1, steps + 1):
        done = step / steps
        pairs = zip(begins, ends, strict=True)
        touch("touchMove", [(x + done * (u - x), y + done * (v - y)) for (x, y), (u, v) in pairs])
    touch("touchEnd", [])


def swipe(page, x, y):
    box = page.locator(".tx-stage").bounding_box()
    begin = [box["x"] + box["width"] / 2, box["y"] + 250]
    fingers_go(page, [begin], [[begin[0] + x, begin[1] + y]])


def test_one_finger_scrolls_the_page_and_two_move_the_picture(fingers):
    panel = fingers(session())
    page = panel.page
    before = of(page)
    swipe(page, 0, -150)
    page.wait_for_function("scrollY > 60")
    assert of(page) == pytest.approx(before, abs=0.1)
    page.wait_for_timeout(500)  # it slides on for a while
    page.evaluate("scrollTo(0, 0)")
    fingers_go(page, [[300, 300], [400, 300]], [[340, 360], [440, 360]])
    after = of(page)
    assert after[0] - before[0] == pytest.approx(40, abs=2)
    assert after[1] - before[1] == pytest.approx(60, abs=2)
    assert after[2] == pytest.approx(before[2])
    assert page.evaluate("scrollY") == 0
    fingers_go(page, [[300, 300], [400, 300]], [[250, 300], [450, 300]])
    assert of(page)[2] == pytest.approx(2 * before[2], rel=0.02)
    expect(panel.inspected).to_have_count(0)  # that selects nothing


def test_a_touch_selects(fingers):
    panel = fingers(Session(lambda x: jnp.sin(x) * 2, (1.0,)))
    panel.node("0:sin").tap()
    expect(panel.inspected).to_have_text("0:sin")


def test_where_nothing_scrolls_one_finger_moves_the_picture(fingers, tmp_path):
    page = fingers.page()
    draw(lambda x: jnp.sin(x) * 2, 1.0).save(tmp_path / "page.html")
    page.goto((tmp_path / "page.html").as_uri())
    before = of(page)
    swipe(page, 60, 40)
    after = of(page)
    assert after[0] - before[0] > 30
    assert after[1] - before[1] > 20
    page.set_viewport_size({"width": 420, "height": 400})
    expect(page.locator(".tx-stage")).to_have_css("touch-action", "pan-x pan-y")
    expect(page.locator(".tx-stage")).to_have_css("height", "320px")
    page.get_by_role("button", name="Fit the picture").click()
    before = of(page)
    expect(page.locator(".tx-bar")).to_be_in_viewport()
    swipe(page, 0, -200)
    expect(page.locator(".tx-bar")).not_to_be_in_viewport(timeout=20_000)
    assert of(page) == pytest.approx(before, abs=0.1)


def overlaps(panel):
    """Whether the map covers a part of what is selected."""
    chosen = panel.page.locator(".tx-stage svg [aria-selected=true]").first.bounding_box()
    chart = panel.page.locator(".tx-stage .tx-map").bounding_box()
    return all(
        chosen[at] < chart[at] + chart[size] and chart[at] < chosen[at] + chosen[size]
        for at, size in (("x", "width"), ("y", "height"))
    )


def test_the_map_steps_aside_for_what_is_selected(shown, page):
    page.set_viewport_size({"width": 1200, "height": 800})
    panel = shown(session())
    stage = page.locator(".tx-stage").bounding_box()
    chart = page.locator(".tx-stage .tx-map")
    nodes = page.locator(".tx-stage > svg .node[data-address]").all()
    node = next(one for one in nodes if one.bounding_box()["width"] < 150)
    node.click()
    page.evaluate("idle()")
    corner, chosen = chart.bounding_box(), node.bounding_box()
    page.mouse.move(stage["x"] + 20, stage["y"] + 20)
    page.mouse.down()  # drags the node below the map
    right = corner["x"] + 40 - chosen["x"]
    below = corner["y"] + 30 - chosen["y"]
    page.mouse.move(stage["x"] + 20 + right, stage["y"] + 20 + below, steps=3)
    page.mouse.up()
    assert node.bounding_box()["x"] == pytest.approx(corner["x"] + 40, abs=2)
    assert not overlaps(panel)
    assert chart.bounding_box() != corner
    page.locator(".tx-stage").screenshot(path=BUILD / "map-aside.png")
    page.mouse.down()
    page.mouse.move(stage["x"] + 20, stage["y"] + 20, steps=3)
    page.mouse.up()
    assert chart.bounding_box() == corner
