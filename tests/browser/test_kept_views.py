"""Views that are kept by name, and the picture as PNG, in the panel."""

import jax
import jax.numpy as jnp
import pytest
from browser.notebook_page import expect
from PIL import Image

from taxpr_jupyter import Session, draw


@jax.jit
def scores(x):
    return jnp.tanh(x) + 1


def model(x):
    return jnp.sin(scores(x))


TANH = "0:jit/call/0:tanh"


def place(panel):
    return panel.page.locator(".tx-stage > svg").evaluate("svg => svg.style.transform")


def test_a_view_is_kept_and_comes_back(shown, page):
    panel = shown(Session(model, (1.0,)))
    panel.node(TANH).click()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(400)  # then the place is sent
    page.evaluate("idle()")
    before = place(panel)
    page.get_by_text("Views", exact=True).click()
    page.get_by_label("Name of the view").fill("inner")
    page.get_by_label("Name of the view").press("Enter")
    kept = page.get_by_role("list", name="Kept views").get_by_role("listitem")
    expect(kept).to_have_count(1)
    page.get_by_role("button", name="Fit the picture").click()
    panel.node("1:sin").click()
    panel.session.fold("0:jit")
    page.evaluate("idle()")
    kept.get_by_role("button", name="inner", exact=True).click()
    expect(panel.node(TANH)).to_have_attribute("aria-selected", "true")
    page.evaluate("idle()")
    assert place(panel) == before
    kept.get_by_role("button", name="Forget the view inner").click()
    expect(kept).to_have_count(0)


def copied(page):
    """The file of the copied picture."""
    with page.expect_download() as saved:  # a page without https may not write to the clipboard
        page.evaluate("() => Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.get_by_role("button", name="Copy the picture").click()
    assert saved.value.suggested_filename == "taxpr.png"
    return saved.value.path()


def test_a_saved_page_has_the_views(page, tmp_path):
    session = Session(model, (1.0,))
    session.view_state.update(selected=TANH, place={"x": -40, "y": -60, "scale": 2})
    session.keep_view("inner")
    session.fold("0:jit")
    session.view_state.update(selected="", place={})
    session.keep_view("outer")
    session.save(tmp_path / "model.html")
    page.goto((tmp_path / "model.html").as_uri())
    views = page.get_by_role("combobox", name="Kept views")
    node = page.locator(f".tx-stage svg .node[data-address='{TANH}']")
    expect(node).to_have_count(0)
    views.select_option("inner")
    expect(node).to_have_attribute("aria-selected", "true")
    expect(node).to_be_in_viewport()
    expect(page.locator(".tx-scale")).to_have_text("200%")
    expect(page.locator(".tx-path")).to_contain_text("whole program›inner")
    views.select_option("outer")
    expect(node).to_have_count(0)
    expect(page.locator(".tx-stage svg .node[data-address='0:jit']")).to_have_count(1)
    page.locator(".tx-stage svg .node[data-address='0:jit']").dblclick()
    expect(node).to_have_count(1)
    expect(views).to_have_value("")
    page.go_back()
    expect(views).to_have_value("view:outer")
    page.reload()
    expect(views).to_have_value("view:outer")


def test_a_page_without_views_offers_none(page, tmp_path):
    page.goto(draw(model, 1.0).save(tmp_path / "model.html").as_uri())
    expect(page.get_by_role("combobox", name="Kept views")).to_have_count(0)


@pytest.mark.parametrize("of", ["panel", "page"])
def test_the_picture_is_copied(shown, page, context, tmp_path, of):
    if of == "panel":
        shown(Session(model, (1.0,)))
    else:
        page.goto(draw(model, 1.0).save(tmp_path / "model.html").as_uri())
    svg = page.locator(".tx-stage > svg").first
    height = svg.evaluate("svg => svg.viewBox.baseVal.height")
    data = copied(page).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert abs(int.from_bytes(data[20:24], "big") - height * 8 / 3) < 2


def fails(x):
    return jax.jit(lambda y: jnp.tanh(y) @ jnp.ones(5))(x)


def test_the_copied_picture_has_the_colours(page, tmp_path):
    with pytest.raises(TypeError) as caught:
        draw(fails, jnp.ones(3))
    page.goto(draw(caught.value).save(tmp_path / "model.html").as_uri())
    svg = page.locator(".tx-stage > svg").first
    x, y, height = svg.locator(".cluster.unfinished rect").evaluate(
        """rect => {
          const [box, view] = [rect.getBBox(), rect.ownerSVGElement.viewBox.baseVal];
          return [box.x - view.x, box.y - view.y, box.height];
        }"""
    )
    with Image.open(copied(page)) as image:
        rows = range(int((y + height / 4) * 8 / 3), int((y + height * 3 / 4) * 8 / 3))
        border = [image.convert("RGB").getpixel((round(x * 8 / 3), row)) for row in rows]
        paper = image.convert("RGB").getpixel((round((x + 4) * 8 / 3), rows[0]))
    reddest = min(border, key=lambda colour: colour[1] + colour[2] - colour[0])
    assert reddest[0] - reddest[2] > 80
    assert min(paper) > 200
