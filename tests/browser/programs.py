"""What the browser tests show in a panel, and the way through it that they share."""

import json
from pathlib import Path
from typing import Any

from browser.lab_server import ROOT
from browser.notebook_page import SECONDS, NotebookPage, expect, in_python

IMPORTS = """\
%load_ext taxpr_jupyter
import jax, jax.numpy as jnp, taxpr
"""
SCAN = """\
%%taxpr --name p
def f(w, xs):
    def step(h, x):
        h = jnp.tanh(w @ h + x)
        return h, taxpr.tag(h.sum(), name="sum")
    h, sums = jax.lax.scan(step, jnp.zeros(4), xs)
    return {"h": h, "loss": sums.mean()}

def cut(ctx, token, params):
    "Changes the shape."
    return token[:2], ctx

w, xs = 0.1 * jnp.ones((4, 4)), jnp.ones((5, 4))
f(w, xs)
"""
QUICKSTART = ROOT / "notebooks" / "quickstart.ipynb"
COLLATZ = "def collatz"  # in the cell with the panel to click in
SCANNED = "1:scan"
ADD = "1:scan/body/1:add"
TANH = "1:scan/body/2:tanh"

# For each node that is coloured by cost its classes, and whether the legend has that colour.
HEAT = """() => {
  const swatches = [...document.querySelectorAll(".legend rect")];
  const wanted = swatches.map((rect) => getComputedStyle(rect).fill);
  return [...document.querySelectorAll(".tx-stage g.node[class*=heat-]")].map((node) => {
    const step = Number(node.getAttribute("class").match(/heat-(\\d)/)[1]);
    const drawn = getComputedStyle(node.querySelector("rect, path")).fill;
    return [node.getAttribute("class"), drawn === wanted[step]];
  });
}"""


def whole_way(page: Any, url: Any, screenshot: Path) -> None:
    """From opening the quickstart to the value in Python that clicks have changed."""
    book = NotebookPage(page, url(json.loads(QUICKSTART.read_text("utf-8"))))
    book.run_all()
    panel = book.panel(COLLATZ)
    for _ in range(2):  # what can be read, and then all of it
        panel.button("Fit the picture").click()
    carried = panel.node(kind="eqn").filter(has_text="add").get_attribute("data-address")
    assert "scan/body/" in carried
    panel.select(carried)
    panel.tag("sum")
    panel.attach("scale")
    panel.slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(panel.field).to_have_value("0.25")
    panel.run_button.click()
    chips = panel.results.locator(".tx-chip-injected")
    expect(chips.filter(has_text="sum: scale(factor=0.25)")).to_be_visible(timeout=180 * SECONDS)
    expect(panel.root.locator(".tx-progress")).to_be_hidden()
    before, after, largest = panel.output("out[0]")
    assert abs(float(after) - float(before)) > 0.5
    assert abs(float(largest) - abs(float(after) - float(before))) < 1e-3
    page.set_viewport_size({"width": 1400, "height": 1900})
    panel.stage.evaluate("stage => { stage.style.height = '1000px'; }")  # as its corner does
    panel.screenshot(screenshot)

    values = "{key: [one.name, one.values] for key, one in session.injectors.items()}"
    outputs = "float(session.last.outputs[0]), float(session.last.baseline[0])"
    page.keyboard.press("Escape")  # from the Run button back to the notebook
    book.add_below(in_python(f"[session.tags, {values}, {outputs}]"))
    tags, injectors, injected, untouched = book.python(values)
    assert tags[f"{carried}.0"] == {"name": "sum"}
    assert injectors[f"{carried}.0"] == ["scale", {"factor": 0.25}]
    assert abs(injected - float(after)) < 1e-3
    assert abs(untouched - float(before)) < 1e-3
