"""Pictures for papers and slides: words alone, as wide as a column, with their fonts."""

import re
import shutil
import struct

import jax
import jax.numpy as jnp
import pytest

from taxpr_jupyter import PanelError, draw
from taxpr_jupyter._model.model import CodeLine

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")
TYPE = re.compile(r"\b(?:f32|i32|bool|key<\w+>)\[[\d,]*\]")
COUNT = re.compile(r"\d+ (?:equation|array)|^×\d+$")


def layer(x, w):
    hidden = jnp.tanh(x @ w["first"])
    return hidden @ w["last"] + jnp.mean(hidden**2), None


def loss(params, x, y):
    out, _ = jax.lax.scan(layer, x, params["layers"])
    gap = out @ params["head"] - y
    return jnp.mean(gap**2)


def step(params, x, y):
    value, slopes = jax.value_and_grad(loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
    return params, value


X = jnp.ones((3, 3))
LAYERS = {"first": jnp.ones((4, 3, 3)), "last": jnp.ones((4, 3, 3))}
ARGS = ({"layers": LAYERS, "head": X, "more": [X] * 5}, X, X)


def texts(drawing):
    picture = drawing.picture
    lines = [line for one in (*picture.nodes, *picture.clusters) for line in one.lines]
    return lines + [text for edge in picture.edges for text in (edge.head, edge.tail) if text]


def test_it_has_the_words_of_the_other_picture_without_types_and_counts():
    usual, paper = draw(step, *ARGS), draw(step, *ARGS, style="paper")
    assert any(map(TYPE.search, texts(usual)))
    assert any(map(COUNT.search, texts(usual)))
    assert not [text for text in texts(paper) if TYPE.search(text) or COUNT.search(text)]
    assert [one.id for one in paper.picture.nodes] == [one.id for one in usual.picture.nodes]
    assert [one.lines[0] for one in paper.picture.nodes if one.kind == "group"] == [
        one.lines[0] for one in usual.picture.nodes if one.kind == "group"
    ]
    assert all(node.lines and all(node.lines) for node in paper.picture.nodes)


def codes(drawing):
    """The lines of code in the nodes of a picture, with their indentation."""
    lines = [line for node in drawing.picture.nodes for line in node.lines]
    return [" " * line.indent + line for line in lines if isinstance(line, CodeLine)]


def test_code_is_from_the_left_as_on_a_screen():
    def whole(params, x, y):
        for _ in range(2):
            params, value = jax.jit(step)(params, x, y)
        return params, value

    usual, paper = (draw(whole, *ARGS, budget=4, style=style) for style in ("screen", "paper"))
    assert any(line.startswith("  ") for line in codes(usual))
    assert any(line.startswith("in ") and line.endswith(":") for line in codes(usual))
    assert codes(paper) == codes(usual)
    assert "\\l  " in paper.dot
    narrow = draw(whole, *ARGS, budget=4, style="paper", width="4cm")
    assert "".join("".join(codes(narrow)).split()) == "".join("".join(codes(usual)).split())
    assert len(codes(narrow)) > len(codes(usual))


def test_types_come_where_they_are_asked_for():
    shown = texts(draw(step, *ARGS, style="paper", types=True))
    assert any(map(TYPE.search, shown))
    assert not any(map(COUNT.search, shown))


def test_parts_of_a_saved_page_look_the_same():
    page = draw(step, *ARGS, style="paper", budget=4).html()
    assert "tree.map" in page
    assert not [text for text in re.findall(r"<text[^>]*>([^<]*)<", page) if COUNT.search(text)]


def test_the_loops_in_a_folded_node_stay():
    [lines] = [
        node.lines
        for node in draw(loss, *ARGS, style="paper", budget=4).picture.nodes
        if node.lines[0].startswith("out, _ =")
    ]
    assert any("scan ×4" in line for line in lines)


@pytest.mark.parametrize(
    ("width", "points"), [("8.5cm", 240.94), ("85 mm", 240.94), ("3in", 216), ("240pt", 240)]
)
def test_the_svg_is_as_wide_as_asked(width, points):
    svg = draw(step, *ARGS, style="paper", width=width).svg()
    wide, high = map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups())
    assert wide == pytest.approx(points, abs=0.01)
    *_, own_wide, own_high = map(float, re.search(r'viewBox="([^"]*)"', svg)[1].split())
    assert high / wide == pytest.approx(own_high / own_wide, rel=0.01)


def test_without_a_width_text_is_larger():
    paper = draw(step, *ARGS, style="paper").svg()
    wide = float(re.search(r'width="([\d.]+)pt"', paper)[1])
    own = float(re.search(r'viewBox="([^"]*)"', paper)[1].split()[2])
    assert wide == pytest.approx(1.2 * own, rel=0.01)  # 12 points of type instead of 10


@needs_dot
def test_a_pdf_has_its_width_and_all_fonts(tmp_path):
    file = draw(step, *ARGS, style="paper", width="8.5cm").save(tmp_path / "step.pdf")
    pdf = file.read_bytes()
    [box] = re.findall(rb"/MediaBox \[ 0 0 (\d+) (\d+) \]", pdf)
    assert int(box[0]) == pytest.approx(241, abs=1)
    fonts = re.findall(rb"/Type /Font\b(?!Descriptor).*?endobj", pdf, re.DOTALL)
    described = re.findall(rb"/Type /FontDescriptor.*?endobj", pdf, re.DOTALL)
    assert fonts
    assert described
    assert all(b"/FontFile" in one for one in described)
    # A font without a descriptor is not in the file, unless it is made of those that have one.
    assert all(b"/FontDescriptor" in one or b"/DescendantFonts" in one for one in fonts)


@needs_dot
def test_a_png_has_300_pixels_in_an_inch(tmp_path):
    png = draw(step, *ARGS, style="paper", width="2in").save(tmp_path / "step.png").read_bytes()
    assert struct.unpack(">I", png[16:20])[0] == pytest.approx(600, abs=2)


def test_wrong_options_are_refused_by_name():
    with pytest.raises(PanelError, match="style='poster': give 'screen' or 'paper'"):
        draw(step, *ARGS, style="poster")
    for width in ("8.5", "wide", 240, "0cm"):
        with pytest.raises(PanelError, match=f"width={width!r} is no length"):
            draw(step, *ARGS, style="paper", width=width)
    with pytest.raises(PanelError, match='width is for pictures on paper: add style="paper"'):
        draw(step, *ARGS, width="8cm")
    with pytest.raises(PanelError, match='types is for pictures on paper: add style="paper"'):
        draw(step, *ARGS, types=True)
    with pytest.raises(PanelError, match="width is an option of draw, and an argument"):
        draw(lambda x, width: x, X, style="paper", width="8cm")


def size_of_text(svg):
    wide = float(re.search(r'width="([\d.]+)pt"', svg)[1])
    return 10 * wide / float(re.search(r'viewBox="([^"]*)"', svg)[1].split()[2])


def test_text_in_a_column_can_be_read():
    column = draw(loss, *ARGS, style="paper", width="8.5cm")
    assert size_of_text(column.svg()) > 6
    wide = draw(step, *ARGS, style="paper")
    narrow = draw(step, *ARGS, style="paper", width="8.5cm")
    own = float(re.search(r'viewBox="([^"]*)"', wide.svg())[1].split()[2])
    assert size_of_text(narrow.svg()) > 1.3 * (10 * 240.94 / own)
    # Titles have the same words in more lines.
    for one, other in zip(wide.picture.nodes, narrow.picture.nodes, strict=True):
        if one.kind in ("eqn", "hop", "group"):
            assert "".join(one.lines).replace(" ", "") == "".join(other.lines).replace(" ", "")
            assert all(len(line) <= 17 or " " not in line for line in other.lines)
