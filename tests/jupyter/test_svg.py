"""The SVG that is shown."""

import re
import shutil
from importlib import resources
from xml.etree import ElementTree

import jax.numpy as jnp
import pytest
from documented_programs import PROGRAMS as DOCUMENTED
from drawn_hops import HOPS
from drawn_programs import HOSTILE
from drawn_programs import PROGRAMS as HARD
from line_ends import misread

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._drawing.build import build_picture
from taxpr_jupyter._layout import layout, wasm
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.dot import plain, to_dot
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._model import stylesheet, theme
from taxpr_jupyter._model.model import CodeLine, Marked
from taxpr_jupyter._svg.in_cells import READABLE, for_outputs
from taxpr_jupyter._svg.svg import finish_svg

# All of the gallery but the programs of other libraries.
PROGRAMS = {
    **HARD,
    **{f"hop_{name}": make for name, make in HOPS.items()},
    **{f"doc_{name}": lambda make=make: traced(*make()) for name, make in DOCUMENTED.items()},
}
NS = "{http://www.w3.org/2000/svg}"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")
every_program = pytest.mark.parametrize("name", PROGRAMS)


def traced(fn, args):
    return taxpr.trace(fn)(*args)


def finished(name, **more):
    picture = build_picture(PROGRAMS[name](), **more)
    return picture, finish_svg(laid_out(picture), picture)


def laid_out(picture):
    found = lay_out(lambda: arranged(picture, RecentLayouts()), 60)
    assert found.layout, found.note
    return found.layout


def elements(svg, kind):
    groups = ElementTree.fromstring(svg).iter(f"{NS}g")
    return [group for group in groups if kind in (group.get("class") or "").split()]


def canonical(svg):
    """All but coordinates, and but what depends on them.

    That is which texts of edges have a place, and which of the values that are kept have a twin.
    """
    root = ElementTree.fromstring(svg)
    for badge in [g for g in root.iter(f"{NS}g") if "badge" in (g.get("class") or "").split()]:
        for text in badge.findall(f"{NS}text"):
            badge.remove(text)
    for edge in [g for g in root.iter(f"{NS}g") if "edge" in (g.get("class") or "").split()]:
        for text in edge.findall(f"{NS}text[@class='again']"):
            edge.remove(text)
        texts = edge.findall(f"{NS}text")
        title = edge.find(f"{NS}title")
        lines = [] if title is None else (title.text or "").split("\n")
        told = [line.partition(": ")[2] for line in lines if line.startswith("at its ")]
        if {"residual", "seed"} & set((edge.get("class") or "").split()):
            for twin in edge.findall(f"{NS}g"):
                edge.remove(twin)
        edge.set("data-texts", repr(sorted([*told, *(text.text or "" for text in texts)])))
        for text in texts:
            edge.remove(text)
        if title is not None:
            title.text = "\n".join(line for line in lines if not line.startswith("at its "))
    return [
        (
            element.tag.removeprefix(NS),
            sorted((k, v) for k, v in element.attrib.items() if k.startswith(("class", "data-"))),
            (element.text or "").strip(),
            [child.tag.removeprefix(NS) for child in element],
        )
        for element in root.iter()
    ]


@pytest.mark.spread(4)
@needs_dot
@every_program
def test_both_engines_give_the_same_but_for_coordinates(name, monkeypatch):
    picture = build_picture(PROGRAMS[name]())
    first = laid_out(picture)
    monkeypatch.setattr(layout.dot_program, "engine", wasm.engine)
    one, other = (canonical(finish_svg(one, picture)) for one in (first, laid_out(picture)))
    assert one == other


def spread(x):
    def pairs(x):
        far = jnp.linalg.norm(x[:, None] - x[None], axis=-1) + jnp.sum(x**2, axis=-1)[:, None]
        near = jnp.exp(-far) * jnp.minimum(far, 1.0) + jnp.maximum(far, 2.0)
        return near / near.sum(axis=1, keepdims=True)

    shares_of_each_point_among_all_of_the_others = pairs(x * jnp.sin(x.sum()) + 1.0)
    return shares_of_each_point_among_all_of_the_others * 2.0


def test_code_in_a_node_is_small_and_begins_at_its_left():
    picture = draw(spread, jnp.ones((4, 3)), budget=2).picture
    [node] = [one for one in picture.nodes if one.kind == "group"]
    [drawn] = elements(finish_svg(laid_out(picture), picture), "group")
    texts = drawn.findall(f"{NS}text")
    code = [one for one in texts if one.get("class") == "code"]
    lines = [line for line in node.lines if isinstance(line, CodeLine)]
    assert [one.text for one in code] == lines
    starts = [float(one.get("x")) for one in code]
    left = min(
        float(number) for number in re.findall(r"(-?[\d.]+),", drawn.find(f"{NS}path").get("d"))
    )
    for start, line in zip(starts, lines, strict=True):
        assert start == pytest.approx(left + 8 + line.indent * 0.602 * theme.CODE, abs=0.2)
    assert {one.get("text-anchor") for one in code} == {"start"}
    # Every line of the title is bold, and no other one.
    bold = [one.text for k, one in enumerate(texts) if k == 0 or one.get("class") == "b"]
    assert bold == [*node.lines[: node.titled]]
    assert node.titled > 1
    assert ".code{font-size:9px}" in finish_svg(laid_out(picture), picture)
    # In the DOT language, a line has its alignment behind it.
    text = to_dot(picture)
    assert all(f"{' ' * one.indent}{one}\\l".replace('"', '\\"') in text for one in lines)


@pytest.mark.spread(3)
@every_program
def test_each_text_of_an_edge_is_read_as_its_own(name):
    assert misread(*finished(name)) == []


@pytest.mark.spread(3)
@every_program
def test_every_element_of_the_picture_is_there_with_its_texts(name):
    picture, svg = finished(name)
    for kind, parts in (("node", picture.nodes), ("cluster", picture.clusters)):
        drawn = [
            (e.get("data-address"), e.get("data-fold"), [t.text for t in e.iter(f"{NS}text")])
            for e in elements(svg, kind)
            if "badge" not in e.get("class").split()
        ]
        expected = [
            (
                plain(p.address) or None,
                plain(p.fold) if p.fold else None,
                [plain(line) for line in p.lines],
            )
            for p in parts
            if not getattr(p, "on", "")
        ]
        assert drawn == expected
    badges = [p for p in picture.nodes if p.on]
    for tag, drawn in zip(badges, elements(svg, "badge"), strict=True):
        assert drawn.get("data-address") == plain(tag.address)
        # The name is left out where there is no room.
        assert [t.text for t in drawn.iter(f"{NS}text")] in ([], [plain(tag.lines[0])])
    assert len(elements(svg, "edge")) == len(picture.edges)


@pytest.mark.spread(3)
@every_program
def test_no_ids_no_links_no_scripts(name):
    _, svg = finished(name)
    root = ElementTree.fromstring(svg)
    tags = {element.tag.removeprefix(NS) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "rect", "path", "text"}
    names = {key for element in root.iter() for key in element.attrib}
    assert names.isdisjoint({"id", "href", "style"})
    assert not [key for key in names if key.startswith("on")]
    assert "<script" not in svg.lower()
    assert "<!--" not in svg


def test_kinds_are_classes():
    picture, svg = finished("scan_plain", marked=Marked({"0:scan/body/t0"}, {"0:scan/body/t0"}))
    classes = {e.get("data-address"): e.get("class") for e in elements(svg, "node")}
    assert classes["0:scan/body/t0"] == "node injected added badge"
    assert classes["in0"] == "node input"
    assert elements(svg, "cluster")[0].get("class") == "cluster jaxpr"
    assert elements(svg, "cluster")[0].get("data-fold") == "0:scan"
    assert [e.get("class") for e in elements(svg, "back")] == ["edge back"]
    values = {e.value for e in picture.edges if e.value}
    assert {e.get("data-value") for e in elements(svg, "edge")} - {None} == values


def test_tooltips_are_titles():
    picture, svg = finished("flat")
    titles = {e.get("data-address"): e.findtext(f"{NS}title") for e in elements(svg, "node")}
    assert titles == {n.address: n.tooltip for n in picture.nodes}
    assert "cases.py:" in titles["0:sin"]


def test_it_scales_and_is_accessible():
    _, svg = finished("flat")
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert re.fullmatch(r"0 0 [\d.]+ [\d.]+", root.get("viewBox"))
    assert root.findtext(f"{NS}title") == "flat"
    assert root.findtext(f"{NS}desc") == ("A program of 3 equations, 2 tags.")
    assert "max-width:100%" in root.findtext(f"{NS}style")


@pytest.mark.parametrize(
    ("wide", "shown"),
    [(300, 300), (960, 960), (1200, 960), (1600, 960), (2000, 1200), (4040, 2424)],
)
def test_in_an_output_a_wide_picture_fits_a_page_or_can_be_read(wide, shown):
    size = f'width="{wide}" height="{wide // 2}"'
    text = f'<svg class="taxpr-svg" viewBox="0 0 9 3" {size}><g/></svg>'
    made = ElementTree.fromstring(for_outputs(text))
    assert int(made.get("width")) == shown >= READABLE * wide
    assert abs(int(made.get("height")) - shown / 2) <= 1
    assert made.get("viewBox") == "0 0 9 3"
    if shown == wide:
        assert made.get("style") == "max-width:100%;height:auto"
    else:
        least = int(re.search(r"max-width:max\(100%,(\d+)px\)", made.get("style"))[1])
        assert least == round(READABLE * wide)


def test_the_output_of_a_drawing_fits_and_its_file_does_not_change():
    def wide(x):
        return [jnp.tanh(jnp.sin(x + k)) @ x for k in range(20)]

    drawing = draw(wide, jnp.ones((3, 3)), budget=400)
    whole = ElementTree.fromstring(drawing.svg())
    output = ElementTree.fromstring(drawing._repr_mimebundle_()["image/svg+xml"])
    assert int(output.get("width")) < int(whole.get("width"))
    assert output.get("viewBox") == whole.get("viewBox")
    assert ElementTree.tostring(output[0]) == ElementTree.tostring(whole[0])


def test_styles_touch_nothing_else_and_work_without_variables():
    _, svg = finished("flat")
    style = ElementTree.fromstring(svg).findtext(f"{NS}style")
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    assert all(part.startswith(".taxpr-svg") for rule, _ in rules for part in rule.split(","))
    for _, body in rules:
        for variable in re.findall(r"(fill|stroke):var\(--taxpr-[a-z-]+,(#\w+)\)", body):
            assert f"{variable[0]}:{variable[1]};" in body


@pytest.mark.parametrize("name", ["long_and_flat", "mlp_step", "deep", "grad_scan_nested"])
def test_it_is_small(name):
    picture, svg = finished(name)
    style = ElementTree.fromstring(svg).findtext(f"{NS}style")
    assert (len(svg.encode()) - len(style)) / len(picture.nodes) < 1200
    assert len(style) < 6000


def test_hostile_texts_are_shown_as_they_are():
    picture, svg = finished("hostile")
    tags = [n for n in picture.nodes if n.kind == "tag"]
    shown = {e.get("data-address"): e for e in elements(svg, "tag")}
    assert len(tags) == len(HOSTILE)
    for tag in tags:
        assert shown[tag.address].findtext(f"{NS}title") == plain(tag.tooltip)
    texts = {t.text for e in shown.values() for t in e.iter(f"{NS}text")}
    assert 'tag double " quotes' in texts
    assert "tag back\\slash \\n \\N \\" in texts
    assert "tag new\\nline\\r\\ttab" in texts
    assert "\u202e" not in svg
    assert "\\u202e" in svg


def test_an_svg_without_a_part_is_refused():
    plan = arranged(build_picture(PROGRAMS["flat"]()), RecentLayouts())
    (dot,) = next(plan)
    assert dot.startswith("digraph {")
    with pytest.raises(ValueError, match="the layout has lost 'n0'"):
        plan.send(["<svg/>"])


def test_no_text_is_wider_than_its_node():
    picture, svg = finished("flat_pytrees")
    for drawn, group in zip(picture.nodes, elements(svg, "node"), strict=True):
        box = group.find(f"{NS}rect")
        if box is not None:
            widest = max(len(line) for line in drawn.lines) * 6.02
            assert widest <= float(box.get("width"))


def boxes_of(group):
    """Left, top, right and bottom of all in a group, in the coordinates of the picture."""
    numbers = []
    for shape in group.iter(f"{NS}rect"):
        x, y, width, height = (float(shape.get(k)) for k in ("x", "y", "width", "height"))
        numbers.append((x, y, x + width, y + height))
    return numbers


@pytest.mark.parametrize("name", ["flat", "scan_plain", "identity"])
def test_the_legend_is_in_the_picture_and_above_the_graph(name):
    plain_picture, without = finished(name)
    picture, svg = finished(name, heat="flops")
    assert not elements(without, "legend")
    (legend,) = elements(svg, "legend")
    colours = [rect.get("class") for rect in legend.iter(f"{NS}rect")]
    assert colours == [f"heat-{step}" for step in range(7)]
    assert "operations (FLOP)" in "".join(legend.itertext())
    left, top, width, height = map(float, ElementTree.fromstring(svg).get("viewBox").split())
    graph = ElementTree.fromstring(without).get("viewBox").split()
    for x, y, right, bottom in boxes_of(legend):
        assert top <= y
        assert bottom <= float(graph[1])
        assert left <= x
        assert right <= left + width
    assert top + height == pytest.approx(float(graph[1]) + float(graph[3]))
    assert picture.counts == plain_picture.counts


def test_heat_is_a_class_with_a_colour_that_a_page_can_change():
    picture, svg = finished("flat", heat="bytes")
    steps = {
        e.get("data-address"): re.search(r"heat-(\d)", e.get("class"))
        for e in elements(svg, "node")
    }
    for node in picture.nodes:
        found = steps[node.address]
        assert (found is None) == (node.heat is None)
        assert found is None or int(found[1]) == round(node.heat * 6)
    assert "fill:var(--taxpr-heat-6,#" in svg
    assert "heat" not in finished("flat")[1]


def test_marks_are_classes():
    _, svg = finished("effects")
    assert len(elements(svg, "effect")) == 1


def test_the_panel_gives_every_colour_a_dark_one():
    """A fill that stays light has light text on it on a dark page."""
    css = resources.files("taxpr_jupyter._view").joinpath("static/panel.css").read_text("utf-8")
    used = re.findall(
        r"var\((--taxpr-[\w-]+),", f"{stylesheet.css(True)}{stylesheet.comparison_css()}"
    )
    colours = set(used) - {"--taxpr-empty-fill", "--taxpr-empty-line"}  # without any
    assert {name for name in colours if f"{name}:" not in css} == set()


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(*colours):
    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", ["#ffffff", "#000000"])
def test_lines_and_borders_stand_out_on_white_and_on_black(paper):
    looks = {**theme.LOOKS, **theme.CHANGES}
    lines = {name: look.line for name, look in looks.items() if name != "empty"}
    for name, line in {**lines, "control": theme.CONTROL, "state": theme.STATE}.items():
        assert contrast(line, paper) >= 3, name


def test_lines_stand_out_in_clusters_within_clusters():
    share = 1 - (1 - int(theme.CLUSTER[7:9], 16) / 255) ** theme.SHADES
    for paper in (255, 0):
        shade = round(paper + share * (int(theme.CLUSTER[1:3], 16) - paper))
        assert contrast(theme.LINE, f"#{shade:02x}{shade:02x}{shade:02x}") >= 3
