"""Write the SVG that is shown, with coordinates from a layout engine.

Everything but the coordinates comes from the picture, so the result does not depend on the engine
or its version. Elements have `data-address` instead of ids, which would clash if a page has several
pictures, classes instead of colours, and tooltips as `<title>`.
"""

from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from taxpr_jupyter._layout.arranged import Layout
from taxpr_jupyter._layout.dot import plain
from taxpr_jupyter._layout.ends import named_by
from taxpr_jupyter._layout.geometry import Box, Point, middle_of
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.enclosing import depths_of
from taxpr_jupyter._model.model import Cluster, CodeLine, Edge, Node, Picture
from taxpr_jupyter._model.stylesheet import FONTS, css
from taxpr_jupyter._svg.heat_legend import legend_of
from taxpr_jupyter._svg.label_layout import BELOW, Placed, placed
from taxpr_jupyter._svg.shapes import Outline, outlines, texts

_PIXELS = 4 / 3  # in a point


def finish_svg(layout: Layout, picture: Picture) -> str:
    """The finished SVG of a picture."""
    where = placed(picture, layout)
    graph = left, top, width, height = _sized(where.view)
    legend = legend_of(picture.heat) if picture.heat else None
    if legend:  # above the graph: a panel shows the top of the picture first
        left, top, width, height = legend.above(*graph)
    depths = depths_of(picture.clusters)
    nodes = {node.id: node for node in picture.nodes}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="taxpr-svg" role="img" '
        f'viewBox="{_rounded(left)} {_rounded(top)} {_rounded(width)} {_rounded(height)}" '
        f'width="{width * _PIXELS:.0f}" height="{height * _PIXELS:.0f}">',
        f"<title>{escape(plain(picture.name))}</title>",
        f"<desc>A program of {picture.counts}.</desc>",
        f"<style>{css(picture.heat.kind if picture.heat else None)}</style>",
        f'<g font-family="{FONTS}" font-size="{theme.FONT_SIZE}" text-anchor="middle">',
        # Draw edges over the clusters that they cross and under the nodes that they touch.
        *(
            _cluster(cluster, layout, where.titles[cluster.id], depths[cluster.id])
            for cluster in picture.clusters
        ),
        *(_edge(edge, layout, where, nodes) for edge in picture.edges),
        *(_node(node, layout, where) for node in picture.nodes),
        "</g>",
        *([legend.drawn_at(left, top, graph)] if legend else []),
        "</svg>",
    ]
    return "\n".join(lines)


def _node(node: Node, layout: Layout, where: Placed) -> str:
    look, box = theme.look_of(node), layout.nodes[node.id]
    if node.on:
        shape, name = _outlined(outlines(look.shape, box, False)), where.badges.get(node.id)
        words = _text(node.lines[0], *_base(name), begins=True) if name else ""
        return _group(f"node {theme.classes(node)} badge", node, shape, words)
    if look.shape == "box":
        shape = _box(box, look.rounded)
    else:
        shape = _outlined(outlines(look.shape, box, look.double))
    places = zip(texts(box, node.lines, look.pad[0]), node.lines, strict=True)
    words = "".join(
        _text(line, x, y, begins=True, classes="code")
        if isinstance(line, CodeLine)
        else _text(line, x, y, classes="b" if 0 < k < node.titled else "")
        for k, ((x, y), line) in enumerate(places)
    )
    return _group(f"node {theme.classes(node)}", node, shape, words)


def _cluster(cluster: Cluster, layout: Layout, title: Sequence[Box], depth: int) -> str:
    words = "".join(
        _text(line, left, bottom - BELOW, begins=True)
        for line, (left, _, _, bottom) in zip(cluster.lines, title, strict=True)
    )
    shape = _box(layout.clusters[cluster.id], rounded=True)
    deep = ["deep"] if depth > theme.SHADES else []
    classes = " ".join(("cluster", cluster.kind, *cluster.marks, *deep))
    return _group(classes, cluster, shape, words)


def _group(classes: str, element: Node | Cluster, shape: str, words: str) -> str:
    data = {"address": element.address, "fold": element.fold, "pair": element.pair}
    if isinstance(element, Node):
        data["kernels"] = " ".join(map(str, element.kernels))
    given = "".join(f" data-{k}={quoteattr(plain(v))}" for k, v in data.items() if v)
    return f'<g class="{classes}"{given}>{_title(element.tooltip)}{shape}{words}</g>'


def _edge(edge: Edge, layout: Layout, where: Placed, nodes: Mapping[str, Node]) -> str:
    line = "".join(f"M{_pairs(part[:1])}C{_pairs(part[1:])}" for part in where.lines[edge.id])
    tip = layout.tips.get(edge.id)
    arrow = f'<path class="tip" d="M{_pairs(tip[:-1])}z"/>' if tip else ""
    value = f" data-value={quoteattr(plain(edge.value))}" if edge.value else ""
    labels = where.labels.get(edge.id, ())
    low = theme.SMALL * 0.3  # from the middle of a text down to its base line
    words = "".join(
        _text(label.text, label.middle[0], label.middle[1] + low, classes="again" * label.again)
        for label in labels
        if label.middle
    )
    # A text without a position is shown in the tooltip of the line.
    unplaced = [f"{_ENDS[label.end]}: {label.text}" for label in labels if not label.middle]
    about = _title("\n".join(filter(None, [edge.tooltip, *unplaced])))
    twin = _twin(edge, layout, nodes)
    path = f'<path d="{line}"/>' if line else ""
    return f'<g class="edge {edge.kind}"{value}>{about}{path}{arrow}{words}{twin}</g>'


def _twin(edge: Edge, layout: Layout, nodes: Mapping[str, Node]) -> str:
    """The twin of an end of an edge that is not drawn through, with the address of that end."""
    if edge.id not in layout.twins:
        return ""
    box, text = layout.twins[edge.id]
    middle = middle_of(box)
    name = _text(text, middle[0], middle[1] + theme.SMALL * 0.3)
    stands_for = named_by(edge, nodes)
    data = f"data-twin={quoteattr(plain(stands_for.address))}"
    return f'<g class="twin {stands_for.kind}" {data}>{_box(box, rounded=True)}{name}</g>'


_ENDS = {"head": "at its end", "tail": "at its start"}


def _text(text: str, x: float, base: float, begins: bool = False, classes: str = "") -> str:
    """A text on a base line, with its middle at `x`, or its start if it `begins` there."""
    more = ' text-anchor="start"' * begins + (f' class="{classes}"' if classes else "")
    return f'<text x="{_rounded(x)}" y="{_rounded(base)}"{more}>{escape(plain(text))}</text>'


def _base(box: Box) -> Point:
    """The begin of a small text, on its base line."""
    return box[0], middle_of(box)[1] + theme.SMALL * 0.3


def _title(tooltip: str) -> str:
    return f"<title>{escape(plain(tooltip))}</title>" if tooltip else ""


# --- geometry -------------------------------------------------------------------------------------


def _box(bounds: Box, rounded: bool) -> str:
    x, y, right, bottom = bounds
    corner = f' rx="{_rounded(min(10, (bottom - y) / 2))}"' if rounded else ""
    size = f'width="{_rounded(right - x)}" height="{_rounded(bottom - y)}"'
    return f'<rect x="{_rounded(x)}" y="{_rounded(y)}" {size}{corner}/>'


def _outlined(drawn: Iterable[Outline]) -> str:
    """All straight lines of a shape as one path, and one for each line with curves."""
    paths: list[str] = []
    rest = ""
    for kind, points in drawn:
        if kind == "curves":
            paths.append(f"M{_pairs(points[:1])}C{_pairs(points[1:])}")
        else:
            rest += f"M{_pairs(points)}{'z' if kind == 'polygon' else ''}"
    return "".join(f'<path d="{line}"/>' for line in (*paths, rest) if line)


def _sized(box: Box) -> tuple[float, float, float, float]:
    left, top, right, bottom = box
    return left, top, right - left, bottom - top


def _pairs(points: Sequence[Point]) -> str:
    return " ".join(f"{_rounded(x)},{_rounded(y)}" for x, y in points)


def _rounded(number: float) -> str:
    """Round to one decimal, which is finer than a pixel."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
