"""What of a picture is saved with a notebook. tests/browser/test_saved.py sees what is shown."""

import re
import threading
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from documented_programs import PROGRAMS as DOCUMENTED
from drawn_programs import HOSTILE
from IPython.core.displaypub import CapturingDisplayPublisher

import taxpr
from taxpr_jupyter import Session, compare, draw, panel
from taxpr_jupyter._model.stylesheet import comparison_css, css
from taxpr_jupyter._output import saved
from taxpr_jupyter._svg.in_cells import UNSEEN, as_image, for_outputs
from taxpr_jupyter._view.parts import notebook_picture
from taxpr_jupyter._view.widget import view_for

NS = "{http://www.w3.org/2000/svg}"
WIDGET = {saved.WIDGET_MIME: {"model_id": "0a1b"}}


class Tags(HTMLParser):
    """The tags of a text with their attributes, and what stands between."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def loss(params, x):
    for layer in params:
        x = jnp.tanh(x @ layer["w"] + layer["b"][None]) * jnp.exp(-x)
    return x.sum()


LAYERS = [{"w": jnp.eye(4), "b": jnp.ones(4)}] * 6
DRAWN = {
    **{name: lambda make=make: draw(make()[0], *make()[1]) for name, make in DOCUMENTED.items()},
    "gradient": lambda: draw(jax.grad(loss), LAYERS, jnp.ones((3, 4)), heat="flops"),
    "comparison": lambda: compare(jnp.sin, lambda x: jnp.sin(x) * 3, 1.0),
}
every_drawing = pytest.mark.parametrize("name", DRAWN)


def imaged(svg):
    """The SVG in the address of the image, and the image's other attributes."""
    (_, _), (tag, image), (_, _) = Tags(as_image(svg)).found
    assert tag == "img"
    head, _, address = image.pop("src").partition(",")
    assert head == "data:image/svg+xml"
    return unquote(address), image


def texts(root):
    return [text.text for text in root.iter(f"{NS}text")]


def lines(root):
    """The parts of all paths; which of them are one element does not matter."""
    paths = "".join(path.get("d") for path in root.iter(f"{NS}path"))
    return sorted(line.strip() for line in paths.split("M"))


@every_drawing
def test_the_picture_of_an_output_needs_no_style_sheet(name):
    drawn = ElementTree.fromstring(DRAWN[name]().svg())
    shown = ElementTree.fromstring(for_outputs(DRAWN[name]().svg()))
    drawn.remove(drawn.find(f"{NS}style"))
    assert [e.tag for e in shown.iter()] == [e.tag for e in drawn.iter()]
    assert [e.text for e in shown.iter()] == [e.text for e in drawn.iter()]
    for element in shown.iter():
        assert not [key for key in element.attrib if key == "class" or key.startswith("data-")]
        if element.tag == f"{NS}rect":
            assert {"fill", "stroke"} <= set(element.attrib)


def test_all_selectors_are_understood():
    rules = for_outputs(
        f"<svg><style>{css(True)}{comparison_css()}</style><g><text>a</text></g></svg>"
    )
    assert "var(" not in rules


def test_a_selector_that_is_not_understood_is_an_error():
    with pytest.raises(ValueError, match=r"a selector that this does not know: g:hover"):
        for_outputs("<svg><style>.taxpr-svg g:hover{fill:red}</style><g/></svg>")


@every_drawing
def test_the_image_shows_the_same_and_is_smaller(name):
    svg = for_outputs(DRAWN[name]().svg())
    text, _ = imaged(svg)
    shown, root = ElementTree.fromstring(svg), ElementTree.fromstring(text)
    assert texts(root) == texts(shown)
    assert lines(root) == lines(shown)
    assert [e.attrib for e in root.iter(f"{NS}rect")] == [e.attrib for e in shown.iter(f"{NS}rect")]


def test_both_together_are_little_larger_than_the_picture_with_its_style_sheet():
    whole = [make().svg() for make in DRAWN.values()]
    shown = list(map(for_outputs, whole))
    both = sum(len(svg) + len(as_image(svg)) for svg in shown)
    assert both < 1.2 * sum(map(len, whole))


def test_the_image_has_one_pixel_without_its_style_and_says_what_it_shows():
    text, image = imaged(for_outputs(draw(jnp.tanh, 1.0).svg()))
    style = image.pop("style")
    assert image == {"width": "1", "height": "1", "alt": "tanh: A program of 1 equation."}
    width = ElementTree.fromstring(text).get("width")
    assert style == f"width:{width}px;max-width:100%;height:auto"


def test_a_wide_image_is_scrolled():
    def wide(x):
        return [jnp.tanh(jnp.sin(x + k)) @ x for k in range(20)]

    text, image = imaged(for_outputs(draw(wide, jnp.ones((3, 3)), budget=400).svg()))
    width = ElementTree.fromstring(text).get("width")
    assert int(width) > 960
    assert image["style"] == f"width:{width}px;max-width:none;height:auto"


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(name):
    def f(x):
        return taxpr.tag(x, name=f"%41#1{name}")

    f.__name__ = name.encode(errors="replace").decode()
    svg = for_outputs(draw(f, 1.0).svg())
    assert [tag for tag, _ in Tags(as_image(svg)).found] == ["template", "img", "style"]
    text, _ = imaged(svg)
    assert texts(ElementTree.fromstring(text)) == texts(ElementTree.fromstring(svg))
    assert "%41#1" in svg


def test_a_drawing_is_its_picture_and_then_an_image_with_the_text():
    bundle = draw(jnp.tanh, 1.0)._repr_mimebundle_()
    (picture, _), (rest, _) = saved.outputs(bundle, {})
    assert picture == {"image/svg+xml": bundle["image/svg+xml"]}
    assert rest == {
        "text/html": as_image(bundle["image/svg+xml"]),
        "text/plain": bundle["text/plain"],
    }


def test_between_a_picture_and_its_panel_are_words_for_when_the_panel_is_gone():
    bundle = {"image/svg+xml": "<svg><title>f</title></svg>", "text/plain": "f", **WIDGET}
    bundle["image/svg+xml"] = for_outputs(bundle["image/svg+xml"])
    (picture, _), (between, _), (rest, metadata) = saved.outputs(bundle, {"m": 1})
    assert picture["image/svg+xml"].startswith(f'<svg class="{saved.mark_of("0a1b")}"')
    assert metadata == {"m": 1}
    assert rest == {**WIDGET, "text/plain": "f", "text/html": UNSEEN}
    assert "Run the cell to have its panel." in between["text/html"]
    assert between["text/html"].startswith(as_image(bundle["image/svg+xml"]))
    assert set(between) == {"text/html"}


def test_where_styles_templates_and_images_are_taken_out_only_the_picture_is_left():
    """As on GitHub."""
    bundle = {**draw(jnp.tanh, 1.0)._repr_mimebundle_(), **WIDGET}
    picture, *others = [data for data, _ in saved.outputs(bundle, {})]
    assert "text/html" not in picture
    for data in others:
        taken = r"<style>.*?</style>|<(/?template|img)\b[^>]*>"
        left = re.sub(taken, "", data["text/html"], flags=re.DOTALL)
        assert left == ""


def test_all_kinds_of_outputs_can_be_shown():
    """IPython asks for this method first; without a notebook it shows the bundle."""
    shown = [draw(jnp.tanh, 1.0), compare(jnp.tanh, jnp.sin, 1.0), panel(jnp.tanh)(1.0)]
    for one in shown:
        with pytest.raises(NotImplementedError):
            one._ipython_display_()


class Outputs:
    """An IPython shell of a kernel that notes what it publishes."""

    kernel = object()

    def __init__(self):
        self.published = []
        self.display_pub = self

    def publish(self, data, metadata, **about):
        self.published.append((data, about))


def test_a_picture_that_a_cell_would_capture_waits_for_its_end(monkeypatch):
    shell = Outputs()
    monkeypatch.setattr(saved, "running_shell", lambda: shell)
    shell.display_pub = CapturingDisplayPublisher()
    svg = for_outputs(draw(jnp.sin, 1.0).svg())
    assert not saved.renew(svg, "m1", "words")
    assert shell.display_pub.outputs == shell.published == []
    shell.display_pub = shell
    assert saved.renew(svg, "m1", "words")
    assert [about["update"] for _, about in shell.published] == [True, True]


@pytest.mark.parametrize("changes", [True, False])
def test_what_a_later_cell_changes_before_the_page_shows_the_panel_is_saved(monkeypatch, changes):
    monkeypatch.setattr(notebook_picture, "AFTER", 0.01)
    seen, renewed = [], threading.Event()

    def renew(svg, model_id, words):
        seen.append((svg, model_id))
        renewed.set()
        return len(seen) > 1  # at first a cell captures all outputs

    monkeypatch.setattr(notebook_picture, "renew", renew)
    session = Session(loss, (LAYERS, jnp.ones((3, 4))))
    view = view_for(session)
    view.as_output()
    if changes:
        session.tag("0:dot_general", name="seen_tag")
    assert view.wait(60)
    view.graph._handle_custom_msg({"do": "shown"}, [])
    timer = view._picture._timer
    timer.join(60)
    assert renewed.is_set() == changes
    if changes:
        view._picture._timer.join(60)
        assert [("seen_tag" in svg, name) for svg, name in seen] == [(True, view.model_id)] * 2
    view.close()


def test_an_interrupt_of_the_first_layout_stays_one(monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "svg", interrupted)
    with pytest.raises(KeyboardInterrupt):
        view_for(Session(loss, (LAYERS, jnp.ones((3, 4)))))
