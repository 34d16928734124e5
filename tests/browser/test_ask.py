"""The Ask tab, in a page that exchanges everything with a panel in this process."""

import re

import jax
import pytest
from browser.conftest import BUILD
from browser.notebook_page import expect
from browser.test_accessibility import found
from browser.test_source import loss, program

from taxpr_jupyter import Session


@pytest.fixture
def shown(page, shown):
    def show(scheme="light", size=(1250, 900), fn=loss):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme)
        return shown(Session(fn, program(), names=True), "Ask")

    return show


def ask(it, name):
    it.panel.get_by_role("button", name=name, exact=True).click()
    it.page.evaluate("idle()")


def test_a_row_of_an_answer_selects_its_value_and_the_source_shows_its_line(shown):
    it = shown()
    ask(it, "First NaN")
    expect(it.panel).to_contain_text("NaN in ")
    row = it.panel.locator(".tx-finding").filter(has_text="jnp.log")
    row.get_by_role("button").click()
    [address] = [one.address for one in it.session.find_nan().rows]
    expect(it.inspected).to_have_text(re.compile(f"^{re.escape(address.rpartition('.')[0])}"))
    expect(row).to_have_class(re.compile("tx-chosen"))
    expect(it.page.locator(".tx-stage svg [aria-selected=true]")).not_to_have_count(0)
    it.root.screenshot(path=BUILD / "ask-light.png")
    it.page.get_by_role("tab", name="Source").click()
    line = "return total + jnp.log(means.sum() - 9e4).astype(jnp.float32)"
    source = it.page.get_by_role("tabpanel", name="Source").get_by_role("row")
    expect(source.filter(has_text=line)).to_be_in_viewport()
    expect(source.filter(has_text=line)).to_have_attribute("aria-selected", "true")


def layers(params, x):
    for _ in params:
        x = x + jax.numpy.where(x > 0, jax.numpy.log(x), 0.0)
    return x.sum()


def test_a_row_of_several_places_selects_one_after_the_other(shown):
    it = shown(fn=layers)
    ask(it, "Check")
    row = it.panel.locator(".tx-finding").filter(has_text="where-gradient")
    expect(row).to_contain_text("×3")
    found = next(one for one in it.session.check().rows if one.rule == "where-gradient")
    for address in [*found.addresses, found.address]:
        row.get_by_role("button").click()
        expect(it.inspected).to_have_text(re.compile(f"^{re.escape(address)}"))
        expect(row).to_have_class(re.compile("tx-chosen"))


def test_the_run_with_injectors_is_compared_when_there_are_some(shown):
    it = shown()
    compare = it.panel.get_by_role("button", name="with the changes")
    expect(compare).to_be_disabled()
    [h] = [v.address for v in it.session.program.variables() if v.name == "a" and v.line]
    it.session.attach(h, "scale", factor=0.5)
    it.page.evaluate("idle()")
    it.page.get_by_role("tab", name="Picture").click()
    it.page.get_by_role("tab", name="Ask").click()
    expect(compare).to_be_enabled()
    ask(it, "with the changes")
    expect(compare).to_have_attribute("aria-pressed", "true")
    expect(it.panel.get_by_role("row")).not_to_have_count(0)
    it.panel.get_by_text("Python code that asks this").click()
    expect(it.panel.locator("pre")).to_contain_text("taxpr.first_difference(program, injected)(")


def train_step(params, x):
    value, grad = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - g, params, grad), {"loss": value}


def test_of_a_step_it_says_at_once_whose_gradients_there_are(page, shown):
    it = shown(fn=train_step)
    expect(it.panel.get_by_role("button", name="Sizes and gradients")).to_be_hidden()
    of = it.panel.get_by_role("group", name="Sizes and gradients of")
    result = of.get_by_role("button", name="out[1]['loss']")
    result.click()
    expect(result).to_have_attribute("aria-pressed", "true")
    expect(it.panel.get_by_role("row").filter(has_text="layer.h")).not_to_have_count(0)
    it.root.screenshot(path=BUILD / "ask-step.png")
    assert found(it.page, ".tx-ask") == []


def test_without_a_loss_it_says_what_to_do_before_anything_runs(shown):
    it = shown(fn=lambda params, x: x * 2)
    expect(it.panel.get_by_role("button", name="Sizes and gradients")).to_be_disabled()
    expect(it.panel).to_contain_text("no result here is a single number of floats")


def test_an_error_stands_in_the_place_of_the_answer_and_goes_with_the_next(shown):
    it = shown()
    [h] = [v.address for v in it.session.program.variables() if v.name == "a" and v.line]
    it.session.attach(h, "scale", factor=0.5)
    it.page.get_by_role("tab", name="Picture").click()
    it.page.get_by_role("tab", name="Ask").click()
    ask(it, "First NaN")
    # Only an answer that is there was made before: a later one would disable the button below.
    expect(it.panel.locator(".tx-finding")).not_to_have_count(0)
    it.session.detach(h)  # behind the back of the page, whose button is still there
    ask(it, "with the changes")
    expect(it.panel.locator(".tx-error")).to_contain_text("No injector is attached")
    expect(it.panel.get_by_role("button", pressed=True)).to_have_text("with the changes")
    expect(it.page.locator(".tx-message")).to_be_empty()
    ask(it, "Check")
    expect(it.panel.locator(".tx-error")).to_have_count(0)
    expect(it.panel.get_by_role("button", pressed=True)).to_have_text("Check")


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", (1250, 900)), ("dark", (1250, 900)), ("light", (480, 1000))]
)
def test_answers_are_readable(shown, scheme, size):
    it = shown(scheme, size)
    ask(it, "Sizes and gradients")
    expect(it.panel.get_by_role("row").filter(has_text="layer.h")).not_to_have_count(0)
    it.root.screenshot(path=BUILD / f"ask-{scheme}-{size[0]}.png")
    assert found(it.page, ".tx-ask") == []
