"""A comparison in the panel: it begins at the first change, and both sides fold alike."""

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect

from taxpr_jupyter import Session


@jax.jit
def block(x):
    return jnp.tanh(x) + 1


def model(x):
    for _ in range(12):
        x = jnp.sin(block(x)) * x
    return x


@pytest.fixture
def compared(shown):
    session = Session(model, (1.0,))
    session.attach("30:jit.0", "scale", factor=2.0)
    return shown(session, "Compare")


def sides(panel):
    svg = panel.panel.locator("svg.comparison")
    return [svg.locator(f"g.compared.{side}").bounding_box() for side in ("before", "after")]


def test_both_sides_fold_alike(compared, page):
    def closed():
        of = "svg.comparison g.{} .node[data-fold]"
        return [page.locator(of.format(side)).count() for side in ("before", "after")]

    first = closed()
    assert first[0] == first[1] > 0
    node = page.locator("svg.comparison g.before .node[data-fold]").first
    address = node.get_attribute("data-address")
    node.focus()
    page.keyboard.press("o")
    page.evaluate("idle()")
    after = page.locator(f'svg.comparison g.after .cluster[data-fold="{address}"]')
    expect(after).to_have_count(1)


MAPPED = """map => {
  const svg = map.parentElement.querySelector("svg.comparison");
  const { width, height } = svg.viewBox.baseVal;
  const seen = [...svg.querySelectorAll("g.compared")].map((side) => side.getBoundingClientRect());
  const wide = (ends) =>
    Math.max(...ends.map((one) => one[1])) - Math.min(...ends.map((one) => one[0]));
  const sides = wide(seen.map(({ left, right }) => [left, right]));
  const boxes = [...map.querySelectorAll("path")].map((path) => path.getBBox());
  const outlines = wide(boxes.filter((box) => box.width).map((box) => [box.x, box.x + box.width]));
  const view = map.querySelector("svg").viewBox.baseVal;
  const scale = svg.getBoundingClientRect().width / width;
  return [
    view.width * 3 / 4 - width, view.height * 3 / 4 - height, outlines * 3 / 4 - sides / scale
  ];
}"""


def test_the_map_shows_the_sides_as_they_stand(compared, page):
    for width in (1400, 700):
        page.set_viewport_size({"width": width, "height": 500})
        page.wait_for_timeout(200)
        off = compared.panel.locator(".tx-sides .tx-map").evaluate(MAPPED)
        assert max(map(abs, off)) < 12, (width, off)


@pytest.mark.parametrize(("width", "stacked"), [(1400, False), (700, True)])
def test_it_begins_at_the_first_change(compared, page, width, stacked):
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(200)
    one, other = sides(compared)
    assert (one["y"] + one["height"] <= other["y"]) == stacked
    assert (one["x"] + one["width"] <= other["x"]) == (not stacked)
    compared.root.screenshot(path=BUILD / f"compared-{width}.png")
    stage = compared.panel.locator(".tx-sides").bounding_box()
    first = page.locator(
        "svg.comparison .compared .node[data-address]:is(.new, .gone, .changed)"
    ).first.bounding_box()
    assert stage["y"] <= first["y"] <= stage["y"] + stage["height"]
    assert stage["x"] <= first["x"] <= stage["x"] + stage["width"]
