"""Colours by measured numbers, in a page that exchanges everything with a panel in this process."""

import re

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.programs import HEAT
from browser.test_accessibility import found

from taxpr_jupyter import Session


def train(params, xs):
    def loss(params, xs):
        def step(state, x):
            state = jnp.tanh(state @ params + x)
            return state, state

        state, kept = jax.lax.scan(step, jnp.zeros((8, 64)), xs)
        return jnp.sum(state) + jnp.sum(kept**2)

    value, grads = jax.value_and_grad(loss)(params, xs)
    updated = params - 0.1 * grads
    return updated, value


@pytest.fixture
def panel(page, shown):
    def show(scheme):
        page.set_viewport_size({"width": 1250, "height": 900})
        page.emulate_media(color_scheme=scheme)
        return shown(Session(train, (jnp.ones((64, 64)), jnp.ones((10, 8, 64)))), "Ask")

    return show


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_colours_the_picture_and_the_lines(panel, scheme):
    it = panel(scheme)
    page = it.page
    it.panel.get_by_role("button", name="Memory", exact=True).click()
    page.evaluate("idle()")
    colours = page.get_by_label("Colour by")
    expect(colours).to_have_value("peak")
    legend = page.locator(".tx-stage > .tx-heat-legend")
    expect(legend).to_contain_text("bytes of a node where the most is in memory")
    expect(legend).to_contain_text(re.compile(r"In the picture: \d+% of [\d.]+ kB"))
    nodes = page.evaluate(HEAT)
    assert nodes
    assert all(same for _, same in nodes)
    page.get_by_role("tab", name="Source").click()
    colours.select_option("kept")
    page.evaluate("idle()")
    bar = it.page.get_by_role("img", name=re.compile(r"^kept bytes: [\d.]+ kB, [\d.]+% of"))
    expect(bar).not_to_have_count(0)
    expect(page.locator(".tx-key")).to_contain_text("kept bytes")
    it.root.screenshot(path=BUILD / f"heat-{scheme}.png")
    assert found(page, ".taxpr-panel") == []
    colours.select_option("")
    page.evaluate("idle()")
    expect(bar).to_have_count(0)
    expect(legend).to_be_empty()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_of_the_user_colour_the_picture_and_the_lines(panel, scheme):
    it = panel(scheme)
    page = it.page
    colours = page.get_by_label("Colour by")
    colours.select_option("numbers")
    page.evaluate("idle()")
    expect(page.locator(".tx-message")).to_contain_text("give them by session.color")
    expect(colours).to_have_value("")
    it.session.color({"params": -1.0, "updated": 2.5, "value": 1.0}, title="importance")
    it.look()
    expect(colours).to_have_value("numbers")
    legend = page.locator(".tx-stage > .tx-heat-legend")
    expect(legend).to_contain_text("Colour: importance")
    expect(legend).to_contain_text("2.5")
    nodes = page.evaluate(HEAT)
    assert nodes
    assert all(same for _, same in nodes)
    page.get_by_role("tab", name="Source").click()
    page.evaluate("idle()")
    bar = page.get_by_role("img", name="importance 2.5 of updated")
    expect(bar).to_have_count(1)
    expect(bar.locator("..")).to_contain_text("2.5")
    it.root.screenshot(path=BUILD / f"numbers-{scheme}.png")
    assert found(page, ".taxpr-panel") == []


def test_a_choice_that_was_not_measured_yet_is_measured(panel):
    it = panel("light")
    it.page.get_by_label("Colour by").select_option("time")
    it.page.evaluate("idle()")
    expect(it.page.locator(".tx-stage > .tx-heat-legend")).to_contain_text(
        "measured time of a node"
    )
    expect(it.panel.get_by_role("button", name="Time", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    assert it.session.heat == "time"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_follows_the_slider_of_the_memory(panel, scheme):
    it = panel(scheme)
    page = it.page
    it.panel.get_by_role("button", name="Memory", exact=True).click()
    page.evaluate("idle()")
    slider = page.get_by_role("slider", name="Step of the program")
    use = it.session.memory_use
    peak = int(use.line.argmax())
    expect(slider).to_have_attribute("aria-valuetext", re.compile(f"after step {peak} of"))
    alive = page.locator(".tx-stage svg .tx-alive")
    expect(alive).not_to_have_count(0)
    slider.focus()
    slider.press("Home")
    expect(slider).to_have_attribute(
        "aria-valuetext", re.compile("after step 0 of .*: nothing has run yet")
    )
    expect(alive).to_have_count(2)  # its arguments
    now = page.locator(".tx-stage svg .tx-now")
    step = next(k for k, one in enumerate(use.steps) if one.equations)
    for _ in range(step):
        slider.press("ArrowRight")
    expect(now).not_to_have_count(0)
    slider.press("End")
    it.root.screenshot(path=BUILD / f"timeline-{scheme}.png")
    assert found(page, ".taxpr-panel") == []
    page.get_by_label("Colour by").select_option("")
    page.evaluate("idle()")
    expect(slider).to_be_hidden()
    expect(alive).to_have_count(0)


def test_without_a_kernel_the_timeline_goes_on_and_other_colours_say_what_they_need(panel):
    it = panel("light")
    page = it.page
    it.panel.get_by_role("button", name="Memory", exact=True).click()
    page.evaluate("idle()")
    gone = "(item) => item.classList.add('jupyter-widgets-disconnected')"
    page.locator(".taxpr-panel").evaluate(gone)
    expect(page.locator(".tx-orphan")).to_contain_text("This panel has no kernel")
    expect(page.get_by_label("Colour by")).to_be_disabled()
    slider = page.get_by_role("slider", name="Step of the program")
    slider.focus()
    slider.press("Home")
    expect(page.locator(".tx-stage svg .tx-alive")).to_have_count(2)  # its arguments
    page.get_by_role("tab", name="Source").click()
    expect(page.get_by_role("img", name=re.compile("^bytes at the peak: "))).not_to_have_count(0)


# The elements of each number of a kernel, and those that are outlined.
KERNELS = """() => {
  const every = [...document.querySelectorAll(".tx-stage [data-kernels]")];
  const addresses = (items) => items.map((item) => item.getAttribute("data-address"));
  const of = {};
  for (const item of every) {
    for (const number of item.dataset.kernels.split(" ")) (of[number] ??= []).push(item);
  }
  const found = Object.entries(of).map(([number, items]) => [number, addresses(items)]);
  const outlined = [...document.querySelectorAll(".tx-stage .tx-kernel")];
  return [Object.fromEntries(found), addresses(outlined)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_kernels_of_what_is_pointed_at_or_selected_are_outlined(panel, scheme):
    it = panel(scheme)
    page = it.page
    page.get_by_label("Colour by").select_option("compiled")
    page.evaluate("idle()")
    expect(page.locator(".tx-stage > .tx-heat-legend")).to_contain_text("kernels of XLA")
    page.get_by_role("button", name="Fit the picture").click()
    of, outlined = page.evaluate(KERNELS)
    assert outlined == []
    together = next(addresses for addresses in of.values() if len(addresses) > 1)
    node = page.locator(f'.tx-stage .node[data-address="{together[0]}"]').first
    node.hover()
    wanted = {a for addresses in of.values() if together[0] in addresses for a in addresses}
    assert set(page.evaluate(KERNELS)[1]) == wanted
    assert set(together) <= wanted
    node.click()
    page.evaluate("idle()")
    page.mouse.move(0, 0)
    it.root.screenshot(path=BUILD / f"kernels-{scheme}.png")
    assert set(page.evaluate(KERNELS)[1]) == wanted
    assert found(page, ".taxpr-panel") == []
    assert wanted < {a for addresses in of.values() for a in addresses}
    page.get_by_label("Colour by").select_option("")
    page.evaluate("idle()")
    assert page.evaluate(KERNELS) == [{}, []]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_have_the_colours_and_numbers_of_their_kernels(panel, scheme):
    it = panel(scheme)
    page = it.page
    page.get_by_label("Colour by").select_option("compiled")
    page.evaluate("idle()")
    page.get_by_role("tab", name="Source").click()
    page.evaluate("idle()")
    marks = page.get_by_role("img", name=re.compile("^kernels of XLA: "))
    expect(marks).not_to_have_count(0)
    shown = it.session.line_kernels()
    line = next(k for k, one in shown.items() if one.signs and not one.moved)
    mark = page.locator(".tx-source-row").nth(line).locator(".tx-measured b")
    expect(mark).to_have_text(shown[line].signs[0])
    look = "(item) => getComputedStyle(item.querySelector('rect, path') ?? item)"
    node = page.locator(f".tx-stage g.node.{shown[line].marks[0]}").first
    assert mark.evaluate(f"{look}.backgroundColor") == node.evaluate(f"{look}.fill")
    expect(page.locator(".tx-key")).to_contain_text(re.compile(r"kernels of XLA; \d+ kernels"))
    it.root.screenshot(path=BUILD / f"kernels-source-{scheme}.png")
    assert found(page, ".taxpr-panel") == []
