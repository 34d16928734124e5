"""Several values are selected, and tagged, injected and freed at once."""

import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found
from browser.test_calm import SMALL_TEXTS

from taxpr_jupyter import Session

X = jnp.array([0.5, -1.0, 2.0])


def model(x):
    h = jnp.sin(x)
    a = jnp.tanh(h)
    h = h * 2.0 + a
    b = jnp.tanh(h)
    y = b - h
    return (y**2).sum()


SIN, TANH, MUL, ADD, TANH2 = "0:sin", "1:tanh", "2:mul", "3:add", "4:tanh"


@pytest.fixture
def it(page, shown):
    page.set_viewport_size({"width": 1350, "height": 900})
    return shown(Session(model, (X,), namespace=globals(), call="model(X)"))


def chosen(it):
    """What the page shows as selected, and what Python knows."""
    it.page.evaluate("idle()")
    drawn = it.page.locator(".tx-stage svg [role=option][aria-selected=true]")
    seen = drawn.evaluate_all("(items) => items.map((one) => one.getAttribute('data-address'))")
    return set(seen), it.view.graph.chosen or [it.view.graph.selected]


def title(it):
    return it.page.locator(".tx-inspector h3")


def click(it, address, **options):
    it.node(address).locator("text").first.click(**options)
    it.page.evaluate("idle()")


def find(it, text):
    it.page.get_by_role("searchbox").fill(text)


def select_all(it, text, count):
    find(it, text)
    it.page.get_by_role("button", name=f"Select all {count}").click()
    it.page.evaluate("idle()")


def test_all_hits_are_selected(page, it):
    select_all(it, "tanh", 2)
    assert chosen(it) == ({TANH, TANH2}, [TANH, TANH2])
    expect(title(it)).to_have_text("2 values selected")
    find(it, "sin")
    expect(page.get_by_role("button", name="Select all")).to_be_hidden()  # a single one


def test_shift_and_a_click_add_and_take_away(page, it):
    click(it, SIN)
    click(it, TANH, modifiers=["Shift"])
    click(it, ADD, modifiers=["Shift"])
    assert chosen(it) == ({SIN, TANH, ADD}, [SIN, TANH, ADD])
    expect(title(it)).to_have_text("3 values selected")
    click(it, TANH, modifiers=["Shift"])
    assert chosen(it) == ({SIN, ADD}, [SIN, ADD])
    click(it, ADD, modifiers=["Shift"])
    assert chosen(it) == ({SIN}, [SIN])
    expect(title(it)).to_have_text("h = sin")
    click(it, ADD, modifiers=["Shift"])
    click(it, TANH)  # alone
    assert chosen(it) == ({TANH}, [TANH])


def test_it_goes_by_keys(page, it):
    click(it, SIN)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Enter")
    seen, known = chosen(it)
    assert len(known) == 2
    assert seen == set(known)
    page.keyboard.press("Escape")
    assert chosen(it) == (set(), [""])
    page.get_by_role("tab", name="Outline").click()
    rows = page.get_by_role("treeitem")
    rows.nth(1).click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Enter")
    page.evaluate("idle()")
    assert len(it.view.graph.chosen) == 2
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_have_count(2)


def place(page):
    """Where the picture is in its stage."""
    return page.evaluate("""() => {
      const { e, f, a } = new DOMMatrix(document.querySelector(".tx-stage > svg").style.transform);
      return { x: e, y: f, scale: a };
    }""")


def test_a_rubber_band_selects_and_moves_nothing(page, it):
    box, before = it.node(TANH2).bounding_box(), place(page)
    stage = page.locator(".tx-stage").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(stage["x"] + 4, box["y"] - 4)
    page.mouse.down()
    page.mouse.move(stage["x"] + 200, box["y"] + 20)
    page.mouse.move(stage["x"] + stage["width"] - 8, box["y"] + box["height"] + 4)
    expect(page.locator(".tx-band")).to_be_visible()
    page.screenshot(path=BUILD / "rubber-band.png")
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator(".tx-band")).to_have_count(0)
    assert place(page) == before
    seen, known = chosen(it)
    assert TANH2 in seen
    assert seen == set(known)
    assert SIN not in seen
    expect(page.locator(".tx-inspector")).to_contain_text(
        "Nothing can be tagged at 1 of the 2 places"
    )
    # Without Shift the picture is dragged as ever.
    page.mouse.move(stage["x"] + 4, stage["y"] + 40)
    page.mouse.down()
    page.mouse.move(stage["x"] + 54, stage["y"] + 70)
    page.mouse.up()
    moved = {**before, "x": before["x"] + 50, "y": before["y"] + 30}
    assert place(page) == pytest.approx(moved, abs=0.01)


def test_all_are_tagged_injected_and_freed_and_each_is_one_step(page, it):
    session = it.session
    bare = [site.name for site in session.sites()]
    select_all(it, "tanh", 2)
    page.get_by_role("button", name="Tag 2").click()
    page.evaluate("idle()")
    assert sorted(session.tags) == [f"{TANH}.0", f"{TANH2}.0"]
    assert session.undoes == "tag 2 values"
    page.get_by_label("Injector for all").select_option("scale")
    page.evaluate("idle()")
    assert [one.name for one in session.injectors.values()] == ["scale", "scale"]
    assert session.undoes == "scale at 2 values"
    expect(page.locator(".tx-chosen-values li")).to_have_count(2)
    expect(page.locator(".tx-chosen-values li").first).to_contain_text("scale(factor=0.5)")
    page.get_by_role("button", name="Watch").click()
    page.evaluate("idle()")
    page.evaluate("idle()")
    expect(page.locator(".tx-chosen-values li").first).to_contain_text("±")
    page.screenshot(path=BUILD / "several.png")
    page.get_by_role("button", name="Remove 2 injectors").click()
    page.evaluate("idle()")
    assert not session.injectors
    page.get_by_role("button", name="Remove 2 tags").click()
    page.evaluate("idle()")
    assert [site.name for site in session.sites()] == bare
    assert session.undoes == "no tag at 2 values"
    assert chosen(it)[1] == [TANH, TANH2]
    for _ in range(4):
        page.get_by_role("button", name="Undo").click()
        page.evaluate("idle()")
    assert session.undoes == ""
    assert not session.tags


def test_the_path_between_two(page, it):
    click(it, SIN)
    click(it, TANH2, modifiers=["Shift"])
    page.get_by_role("button", name="Path between").click()
    expect(page.locator(".tx-slice .tx-hint")).to_contain_text(f"The paths from {SIN} to {TANH2}")
    click(it, ADD, modifiers=["Shift"])
    expect(page.get_by_role("button", name="Path between")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1350, 700])
def test_axe_finds_nothing_and_it_fits(page, it, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    select_all(it, "tanh", 2)
    page.get_by_label("Injector for all").select_option("scale")
    page.evaluate("idle()")
    page.screenshot(path=BUILD / f"several-{scheme}-{width}.png")
    assert found(page, ".taxpr-panel") == []
    assert page.evaluate(SMALL_TEXTS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_selector_is_shown_while_it_is_typed_and_enter_selects_all(page, it):
    count = page.locator(".tx-hits")
    search = page.get_by_role("searchbox")
    search.fill('var("h')
    expect(count).to_contain_text("not complete")
    page.screenshot(path=BUILD / "selector-mistake.png")
    search.fill('var("h")')
    expect(count).to_have_text("2 hits")
    assert {SIN, ADD} == set(it.view.graph.found["elements"])
    expect(page.locator(".tx-found")).to_have_count(2)
    assert not it.view.graph.chosen
    search.press("Enter")
    page.evaluate("idle()")
    assert chosen(it) == ({SIN, ADD}, [SIN, ADD])
    search.fill("tanh")
    search.press("Enter")  # words go on from hit to hit
    expect(count).to_have_text("1 of 2")
    assert chosen(it) == ({TANH}, [TANH])


def test_one_slider_moves_all_of_them(page, it):
    it.session.attach([TANH, TANH2], "scale", factor=0.5)
    it.look()
    select_all(it, "tanh", 2)
    slider = page.locator(".tx-slider")
    expect(slider).to_have_count(1)
    slider.focus()
    page.keyboard.press("ArrowRight")
    it.page.evaluate("idle()")
    one, other = (one.values["factor"] for one in it.session.injectors.values())
    assert one == other != 0.5
    it.root.screenshot(path=BUILD / "several-slider.png")
    listed = page.get_by_label("Selected values").get_by_role("listitem")
    expect(listed.filter(has_text=f"scale(factor={one:.6g})")).to_have_count(2)
    assert found(page, ".taxpr-panel") == []
