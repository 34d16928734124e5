"""The injector at a value: a line of Python, and its switch."""

import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found

from taxpr_jupyter import Session


def model(x):
    h = jnp.sin(x)
    return (h**2).sum()


@pytest.fixture
def it(page, shown):
    page.set_viewport_size({"width": 1350, "height": 900})
    it = shown(Session(model, (jnp.array([0.5, -1.0]),), namespace=globals(), call="model(x)"))
    it.node("0:sin").locator("text").first.click()
    page.evaluate("idle()")
    return it


def test_an_injector_is_typed_as_a_line_of_python(page, it):
    field = page.get_by_label("Injector as a line of Python")
    choice = page.locator("select[aria-label=Injector]")
    field.fill("lambda h, by=1.5: by *")
    field.press("Enter")
    expect(page.locator(".tx-message")).to_contain_text("is no expression of Python")
    assert not it.session.injectors
    field.fill("lambda h, by=1.5: by * h")
    field.press("Enter")
    expect(page.locator(".tx-message")).to_have_text("")
    page.evaluate("idle()")
    [attached] = it.session.injectors.values()
    assert (attached.kind, attached.error) == ("typed", None)
    assert choice.input_value() == "lambda h, by=1.5: by * h"
    expect(page.get_by_label("by", exact=True)).to_have_value("1.5")
    page.screenshot(path=BUILD / "typed-injector.png")
    assert found(page, ".taxpr-panel") == []
    choice.select_option("scale")
    page.evaluate("idle()")
    expect(field).to_have_value("")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_label("by", exact=True)).to_have_value("1.5")
    expect(field).to_have_value("lambda h, by=1.5: by * h")


def test_each_drag_of_a_slider_is_a_step_to_undo(page, it):
    page.locator("select[aria-label=Injector]").select_option("scale")
    page.evaluate("idle()")

    def drag(*shares):
        box = page.locator(".tx-slider").bounding_box()
        for share in shares:
            below = 60 * (share != shares[0])  # the pointer need not stay on the slider
            page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2 + below)
            page.mouse.down()  # the first time
            page.evaluate("idle()")
        page.mouse.up()
        page.evaluate("idle()")
        return factor()

    def factor():
        [attached] = it.session.injectors.values()
        return attached.values["factor"]

    seen = [factor(), drag(0.5, 0.6, 0.7), drag(0.7, 0.8, 0.9)]
    page.locator(".tx-slider").press("ArrowLeft")
    page.evaluate("idle()")
    seen.append(factor())
    assert seen == sorted(set(seen[:3])) + seen[3:]
    assert seen[1] < seen[3] < seen[2]
    for before in reversed(seen[:-1]):
        page.get_by_role("button", name="Undo").click()
        page.evaluate("idle()")
        assert factor() == before
    page.get_by_role("button", name="Undo").click()
    page.evaluate("idle()")
    assert not it.session.injectors


def test_an_injector_is_switched_off_and_on(page, it):
    choice = page.locator("select[aria-label=Injector]")
    switch = page.get_by_role("checkbox", name="On")
    expect(switch).to_be_hidden()  # there is nothing to switch
    choice.select_option("scale")
    page.evaluate("idle()")
    expect(switch).to_be_checked()
    run = page.get_by_role("button", name="Run", exact=True)
    run.click()
    page.evaluate("idle()")
    scaled = float(it.session.last.outputs)
    switch.uncheck()
    page.evaluate("idle()")
    expect(switch).not_to_be_checked()
    assert [one.off for one in it.session.injectors.values()] == [True]
    expect(page.locator(".tx-params")).to_contain_text("factor")
    page.screenshot(path=BUILD / "switched-off.png")
    assert found(page, ".tx-controls") == []
    run.click()
    page.evaluate("idle()")
    assert float(it.session.last.outputs) == pytest.approx(4 * scaled)
    page.get_by_role("button", name="Undo").click()
    expect(switch).to_be_checked()


def test_several_injectors_stand_in_order_each_with_a_switch(page, it):
    choice = page.locator("select[aria-label=Injector]")
    more = page.get_by_label("One more injector")
    order = page.get_by_role("list", name="Injectors in order")

    def texts():
        page.evaluate("idle()")
        return order.locator("code").all_text_contents()

    expect(more).to_be_hidden()  # there is none yet
    choice.select_option("scale")
    page.evaluate("idle()")
    expect(order).to_be_hidden()
    more.select_option("add")
    assert texts() == ["scale(factor=0.5)", "add(value=0)"]
    page.get_by_label("add.value", exact=True).fill("1")
    page.get_by_label("add.value", exact=True).press("Enter")
    page.evaluate("idle()")
    page.get_by_role("button", name="Later: scale(factor=0.5), number 1").press("Enter")
    assert texts() == ["add(value=1)", "scale(factor=0.5)"]
    [attached] = it.session.injectors.values()
    assert str(attached) == "add(value=1), scale(factor=0.5)"
    expect(page.get_by_role("button", name="Later: scale(factor=0.5), number 2")).to_be_disabled()
    page.get_by_role("checkbox", name="On: add(value=1), number 1").uncheck()
    page.evaluate("idle()")
    assert str(it.session.sites()[0].injector) == "add(value=1), off, scale(factor=0.5)"
    page.screenshot(path=BUILD / "in-order.png")
    assert found(page, ".taxpr-panel") == []
    page.get_by_role("button", name="Remove: add(value=1), number 1").click()
    page.evaluate("idle()")
    expect(order).to_be_hidden()
    assert choice.input_value() == "scale"
    page.get_by_role("button", name="Undo").click()
    assert texts() == ["add(value=1)", "scale(factor=0.5)"]


@pytest.mark.parametrize("twins", [True, False])
def test_the_focus_goes_with_an_injector_in_the_order(page, it, twins):
    """By the keyboard alone, also where two look the same."""
    names = ["scale", "scale", "scale"] if twins else ["scale", "add", "clip"]
    for name in names:
        it.session.append("h", name)
    if not twins:
        it.session.set_value("h", "scale.factor", 0.25)
    it.look()
    page.evaluate("idle()")
    texts = [str(one) for one in it.session.sites()[0].injector.each]
    keys = page.keyboard

    def focused():
        page.evaluate("idle()")
        return page.evaluate("document.activeElement.ariaLabel")

    page.get_by_role("button", name=f"Later: {texts[0]}, number 1", exact=True).focus()
    keys.press("Enter")
    assert focused() == f"Later: {texts[0]}, number 2"
    keys.press("Enter")
    assert focused() == f"Earlier: {texts[0]}, number 3"  # it cannot go further
    assert [str(one) for one in it.session.sites()[0].injector.each] == [*texts[1:], texts[0]]
    keys.press("Enter")
    assert focused() == f"Earlier: {texts[0]}, number 2"
    keys.press("Tab")
    keys.press("Tab")
    assert focused() == f"Remove: {texts[0]}, number 2"
    keys.press("Enter")
    assert focused() == f"Remove: {texts[2]}, number 2"
    keys.press("Enter")
    assert focused() == "Injector"  # only one is left, which has no order
    assert [str(one) for one in it.session.injectors.values()] == [texts[1]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_700_pixels(page, it, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 700, "height": 900})
    for name in ("scale", "clip"):
        it.session.append("h", name)
    it.session.switch("h", on=False, part=0)
    it.look()
    page.screenshot(path=BUILD / f"in-order-{scheme}-700.png")
    assert found(page, ".taxpr-panel") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
