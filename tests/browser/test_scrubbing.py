"""One cursor of iteration and example for picture, source and inspector."""

import re

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found

from taxpr_jupyter import Session

KEPT = "speed = 0.9 * speed - x"


def fall(x):
    def step(state, _):
        x, speed = state
        speed = 0.9 * speed - x
        x = jnp.sqrt(x + 0.5 * speed)
        return (x, speed), x

    start = x + 1.0
    (last, _), path = jax.lax.scan(step, (start, 0.0), None, 12)
    spread = path - last
    return spread.sum()


def every(xs):
    return jax.vmap(fall)(xs)


def layers(w, x):
    def layer(h, wi):
        z = h @ wi
        return jnp.tanh(z), None

    last, _ = jax.lax.scan(layer, x, w)
    error = last - 1.0
    return (error**2).mean()


@pytest.fixture(params=["light", "dark"])
def it(page, shown, request):
    page.set_viewport_size({"width": 1300, "height": 900})
    page.emulate_media(color_scheme=request.param)
    it = shown(Session(every, (jnp.linspace(0.0, 9.0, 8),), names=True), "Source")
    it.scheme = request.param
    return it


def move(it, name, keys):
    slider = it.page.get_by_role("slider", name=name)
    slider.focus()
    for key in keys:
        it.page.keyboard.press(key)
    it.page.evaluate("idle()")


def test_one_cursor_moves_picture_source_and_inspector(it):
    session = it.session
    [speed] = [one.address for one in session.program.variables() if one.text == "speed"][1:2]
    session.unfold(speed.eqn.home.eqn)
    it.look()
    it.panel.get_by_role("button", name="Record values").click()
    it.line(KEPT).get_by_role("button", name=re.compile("^speed: ")).click()
    expect(it.inspected).to_have_text(speed.eqn)
    picture = it.page.locator(".tx-badges .tx-held")
    places = [
        it.line(KEPT).locator(".tx-held").first,
        it.page.locator(".tx-inspector .tx-held").first,
        picture.first,  # what is selected comes first
    ]
    recorded = session.recorded

    def shows(chip, places=places):
        for place in places:
            expect(place).to_have_text(chip.words + chip.wrong)

    shows(recorded.chips[speed])
    for place in places:
        expect(place.locator("svg.tx-curve")).to_have_count(1)
    it.root.screenshot(path=BUILD / f"scrubbing-source-{it.scheme}.png")
    move(it, "Iteration of the loops", ["ArrowRight", "ArrowRight"])
    assert (session.recorded.iteration, session.recorded.example) == (1, None)
    shows(recorded.at(1).chips[speed])
    move(it, "Example of jax.vmap", ["End"])
    assert (session.recorded.iteration, session.recorded.example) == (1, 7)
    by_hand, x = 0.0, 10.0
    for _ in range(2):
        by_hand = 0.9 * by_hand - x
        x = (x + 0.5 * by_hand) ** 0.5
    expect(places[1]).to_have_text(f"{by_hand:.4g}")
    shows(recorded.at(1, 7).chips[speed])
    it.page.get_by_role("tab", name="Picture").click()
    expect(it.page.get_by_role("slider", name="Example of jax.vmap")).to_be_visible()
    expect(it.page.locator(".tx-record output")).to_have_text(
        ["iteration 1 of 0 to 11", "example 7 of 0 to 7"]
    )
    assert it.root.bounding_box()["height"] <= 0.6 * 900
    it.root.screenshot(path=BUILD / f"scrubbing-picture-{it.scheme}.png")
    assert found(it.page, ".taxpr-panel") == []
    session.at(iteration=0)  # from Python
    it.look()
    shows(recorded.at(0).chips[speed], places[1:])
    session.attach(speed, "scale", factor=2.0)
    it.look()
    expect(places[2]).to_have_text(recorded.at(0).chips[speed].words)  # it is of a run without


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cotangents_are_beside_their_values(page, shown, scheme):
    page.set_viewport_size({"width": 1300, "height": 900})
    page.emulate_media(color_scheme=scheme)
    arguments = jnp.full((6, 4, 4), 0.3), jnp.linspace(-1.0, 1.0, 8).reshape(2, 4)
    it = shown(Session(layers, arguments, names=True), "Source")
    page.get_by_role("button", name="Cotangents").click()
    expect(page.get_by_role("button", name="Cotangents")).to_be_disabled()
    variable = it.line("z = h @ wi").get_by_role("button", name=re.compile("^z: "))
    expect(variable.locator(".tx-held")).to_have_count(2)
    [z] = [one.address for one in it.session.program.variables() if one.name == "z"]
    variable.click()
    move(it, "Iteration of the loops", ["ArrowRight"])
    back = it.session.recorded.at(iteration=0).chips[f"∂ {z}"]
    for place in (variable, page.locator(".tx-inspector")):
        expect(place.locator(".tx-held").nth(1)).to_have_text(f"∂{back.words}")
    assert found(page, ".taxpr-panel") == []
    it.root.screenshot(path=BUILD / f"scrubbing-cotangents-{scheme}.png")


def test_a_watched_expression_has_the_same_chip(it):
    before = it.root.bounding_box()["height"]
    it.page.get_by_role("button", name="Record values").click()
    field = it.page.get_by_role("textbox", name="Watch an expression")
    field.fill("speed.nothing")
    it.page.keyboard.press("Enter")
    expect(it.page.locator(".tx-message")).to_contain_text("cannot be computed")
    expect(field).to_have_value("speed.nothing")
    field.fill("abs(speed) + start")
    it.page.keyboard.press("Enter")
    watched = it.page.get_by_role("list", name="Watched expressions").get_by_role("listitem")
    expect(watched).to_have_count(1)
    expect(field).to_have_value("")
    chip = it.session.evaluate("abs(speed) + start")
    expect(watched.locator(".tx-held")).to_have_text(chip.words + chip.wrong)
    expect(watched.locator("svg.tx-curve")).to_have_count(1)
    it.root.screenshot(path=BUILD / f"scrubbing-watched-{it.scheme}.png")
    move(it, "Iteration of the loops", ["ArrowRight"])
    move(it, "Example of jax.vmap", ["ArrowRight"])
    expect(watched.locator(".tx-held")).to_have_text("2")  # x is 1, and the speed is -1
    it.page.get_by_role("tab", name="Picture").click()
    expect(watched).to_be_visible()
    assert it.root.bounding_box()["height"] <= before + 4  # the picture makes room
    it.root.screenshot(path=BUILD / f"scrubbing-watched-picture-{it.scheme}.png")
    assert found(it.page, ".taxpr-panel") == []
    watched.get_by_role("button", name="Watch abs(speed) + start no longer").click()
    expect(watched).to_have_count(0)


@pytest.mark.parametrize("by", ["pointer", "keys"])
def test_all_of_a_chip_is_shown_for_what_is_pointed_at(it, by):
    it.page.get_by_role("button", name="Record values").click()
    it.page.get_by_role("tab", name="Picture").click()
    it.look()
    address, value = next(iter(it.view.graph.held.items()))
    pointed = it.page.locator(".tx-badges .tx-pointed")
    expect(pointed).to_have_count(0)
    if by == "pointer":
        it.node(address).locator("text").first.hover()
    else:
        it.node(address).focus()
    chip = it.session.recorded.chips[value]
    expect(pointed).to_have_text(chip.words + chip.wrong)
    if by == "pointer":
        it.page.mouse.move(1, 1)
    else:
        it.node(address).blur()
    expect(pointed).to_have_count(0)


LINE = """(known) => {  // the middle of a line that is in sight, with no node there
  for (const edge of document.querySelectorAll('.tx-stage > svg .edge[data-value]')) {
    const path = edge.querySelector('path');
    const middle = path.getPointAtLength(path.getTotalLength() / 2);
    const at = middle.matrixTransform(path.getScreenCTM());
    const about = [-60, 2].map((dx) => document.elementFromPoint(at.x + dx, at.y));
    const free = (one) => one?.closest('.tx-stage > svg') && !one.closest('.node');
    if (known.includes(edge.dataset.value) && about.every(free))
      return [at.x + 2, at.y, edge.dataset.value];
  }
}"""


def test_a_line_that_is_pointed_at_says_what_its_value_was(it):
    record = it.panel.get_by_role("button", name=re.compile("^Record"))
    record.click()
    expect(record).to_have_text("Recorded")
    it.page.get_by_role("tab", name="Picture").click()
    expect(it.page.locator(".tx-badges > *").first).to_be_visible()  # nothing moves any more
    x, y, value = it.page.evaluate(LINE, list(it.session.recorded.chips))
    pointed = it.page.locator(".tx-badges .tx-pointed")
    it.page.mouse.move(x - 60, y)
    it.page.mouse.move(x, y)  # beside the line, which is thin
    chip = it.session.recorded.chips[value]
    expect(pointed).to_have_text(chip.words + chip.wrong)
    it.page.mouse.move(5, 5)
    expect(pointed).to_have_count(0)


def test_recorded_values_stay_when_an_injector_changes_and_are_grey(it):
    session = it.session
    session.attach("in0", "scale", factor=2.0)
    it.look()
    record = it.panel.get_by_role("button", name=re.compile("^Record"))
    record.click()
    expect(record).to_have_text("Recorded")
    chips = it.panel.locator(".tx-held")
    before = chips.all_text_contents()
    assert len(before) > 5
    session.set_value("in0", "factor", 3.0)
    it.look()
    assert chips.all_text_contents() == before
    assert it.panel.locator(".tx-held:not(.tx-past)").count() == 0
    expect(it.page.locator(".tx-record")).to_contain_text("From a run before the last change.")
    record.click()
    expect(record).to_have_text("Recorded")
    assert it.panel.locator(".tx-held.tx-past").count() == 0
    assert chips.all_text_contents() != before
