"""A notebook that is saved and opened again without its kernel still shows its pictures."""

import json
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import nbformat
import pytest
from browser.notebook_page import NotebookPage, expect, notebook
from browser.pictures import COMPARED, DRAWN, SEEN, expect_seen
from browser.programs import ADD, IMPORTS, SCAN, TANH
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from taxpr_jupyter import Session, compare, draw
from taxpr_jupyter._svg.in_cells import for_outputs

CELLS = ".jp-CodeCell"
# How the shapes and texts of each picture look.
LOOKS = """\
() => [...document.querySelectorAll("svg")].map(svg =>
  [...svg.querySelectorAll("rect, path, text")].map(element => {
    const style = getComputedStyle(element);
    const names = ["fill", "stroke", "stroke-dasharray"];
    if (style.stroke != "none") names.push("stroke-width");
    if (element.localName == "text") {
      names.push("font-family", "font-size", "font-weight", "text-anchor");
    }
    return names.map(name => `${name}: ${style.getPropertyValue(name)}`).join("; ");
  }))
"""


def loss(w):
    return sum(jnp.tanh(w + k) for k in range(3)).sum()


def branches(x):
    return jax.lax.cond(x > 0, lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * x, x), jnp.cos, x)


def measured(question, heat):
    session = Session(jax.grad(loss), (jnp.ones(3),))
    session.ask(question)
    session.heat = heat
    return session


SHEETS = {
    "gradient": lambda: draw(jax.grad(loss), jnp.ones(3)),
    "branches": lambda: draw(branches, 1.0),
    "heat": lambda: draw(branches, 1.0, heat="flops"),
    "measured": lambda: measured("memory", "kept"),
    "kernels": lambda: measured("compiled", "compiled"),
    "comparison": lambda: compare(jnp.sin, lambda x: jnp.cos(jnp.sin(x)) * 3, 1.0),
}
in_both = pytest.mark.parametrize("place", ["in_lab", "in_notebook7"])


@pytest.mark.slow
@in_both
def test_pictures_are_seen_when_the_notebook_is_opened_again(page, context, server, place):
    url = getattr(server, place)(notebook(IMPORTS, SCAN, DRAWN, COMPARED, "1 + 1"))
    book = NotebookPage(page, url)
    for number in range(4):
        book.run(number)
    book.panel(1)
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)  # the panel, and not the picture besides
    book.save()
    page = reopened(page, context)  # its kernel lives on
    book = NotebookPage(page, url)
    book.panel(1)
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
    page = reopened(page, context)
    server.end_kernels()
    NotebookPage(page, url)
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
    gone = page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output").last
    expect(gone).to_contain_text("model not found")
    expect(gone).to_have_css("font-size", "0px")  # and instead of that:
    words = gone.evaluate("words => getComputedStyle(words, '::after').content")
    assert words == (
        '"The picture from when the cell ran; tags, injectors and results that came later are not '
        'in it. Run the cell to have its panel."'
    )


@in_both
def test_a_notebook_that_is_opened_again_has_the_picture_that_the_panel_had(
    page, context, server, place
):
    url = getattr(server, place)(notebook(IMPORTS, SCAN, "1 + 1"))
    book = NotebookPage(page, url)
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    panel.select(TANH)
    panel.attach("scale")
    panel.run(1)
    panel.root.get_by_role("tab", name="Picture").click()
    panel.select(ADD)
    panel.tag("seen_last")
    page.wait_for_timeout(2000)  # until the notebook has it
    panel.expect_selected(ADD)  # the panel was not built anew
    seen = drawn_texts(panel.stage)
    book.save()
    page = reopened(page, context)
    server.end_kernels()
    NotebookPage(page, url)
    cell = page.locator(CELLS).nth(1)
    expect_seen(page, CELLS, 0, 1, 0)
    picture = cell.locator(".jp-OutputArea-output > svg, .jp-OutputArea-output img:visible")
    assert shown_texts(picture) == seen
    assert "seen_last" in " ".join(seen)
    gone = cell.locator(".jp-OutputArea-output").last
    words = gone.evaluate("words => getComputedStyle(words, '::after').content")
    assert words.startswith('"The picture as the panel had it when the notebook was saved. Run 1')
    assert "scale(factor=0.5)" in words
    assert words.endswith('Run the cell to have its panel."')


def drawn_texts(stage):
    return stage.locator("svg text").all_text_contents()


def shown_texts(picture):
    """The texts of a picture that JupyterLab shows as SVG or as an image of it."""
    text = picture.evaluate("""async one => one.localName == "svg" ? one.outerHTML
        : await (await fetch(one.src)).text()""")
    return [
        one.text for one in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.slow
@in_both
def test_pictures_are_seen_in_a_notebook_that_is_not_trusted(page, server, saved, place):
    book = NotebookPage(page, getattr(server, place)(saved))
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)
    assert page.locator("[data-mime-type='image/svg+xml']").count() == 0
    book.run(0)
    book.run(2)  # is trusted now, and hides nothing in the others
    expect_seen(page, CELLS, 0, 1, 1, 1, 0)


def reopened(page, context):
    """Another page in place of this one."""
    page.close()
    return context.new_page()


@pytest.fixture(scope="module")
def saved():
    """A notebook as it is saved by whoever keeps the models of widgets: these are not found."""
    book = nbformat.from_dict(notebook(IMPORTS, SCAN, DRAWN, COMPARED, "1 + 1"))
    client = NotebookClient(book, timeout=120, kernel_name="python3", store_widget_state=False)
    client.execute()
    return json.loads(nbformat.writes(book))


@pytest.mark.parametrize("template", ["lab", "classic"])
def test_a_page_made_of_the_notebook_shows_each_picture_once(page, saved, template, tmp_path):
    """By nbconvert, as nbviewer does it."""
    exporter = HTMLExporter(template_name=template)
    text, _ = exporter.from_notebook_node(nbformat.reads(json.dumps(saved), as_version=4))
    (tmp_path / "page.html").write_text(text, "utf-8")
    page.route("http*://**", lambda route: route.abort())
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate(SEEN, "body") == [3]
    assert page.get_by_text("scan body").count() == 0  # the text stands for the picture


@pytest.mark.parametrize("name", SHEETS)
def test_attributes_say_what_the_style_sheet_says(page, name):
    """Of each shape and text, in a page that has its own colours."""
    svg = SHEETS[name]().svg()
    page.set_content(f"<style>body {{ font-weight: 900 }}</style>{svg}{for_outputs(svg)}")
    drawn, shown = page.evaluate(LOOKS)
    assert len(drawn) == len(shown) > 10
    assert shown == drawn
