"""Write the SVG that is shown, with coordinates from a layout engine.

Everything but the coordinates comes from the picture, so the result does not depend on the engine
or its version. Elements have `data-address` instead of ids, which would clash if a page has several
pictures, classes instead of colours, and tooltips as `<title>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from taxpr_jupyter._layout.dot import plain
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.enclosing import depths_of
from taxpr_jupyter._model.model import Cluster, Edge, Node, Picture
from taxpr_jupyter._model.stylesheet import EDGE_FONT, FONTS, css
from taxpr_jupyter._svg.geometry import Box, Point
from taxpr_jupyter._svg.heat_legend import legend_of
from taxpr_jupyter._svg.label_layout import BELOW, Placed, placed
from taxpr_jupyter._svg.raw import NUMBER, Raw, drawn, is_path, is_polygon

_PIXELS = 4 / 3  # in a point


def finish_svg(raw_svg: str, picture: Picture) -> str:
    """Turn an engine's SVG of a picture into the finished one.

    Raises:
        ValueError: If the SVG is not one of this picture.
    """
    raw = Raw(raw_svg)
    left, top, width, height = raw.view
    legend = legend_of(picture.heat) if picture.heat else None
    if legend:  # above the graph: a panel shows the top of the picture first
        left, top, width, height = legend.above(*raw.view)
    depths = depths_of(picture.clusters)
    where = placed(picture, raw)
    right, down = map(_rounded, raw.shift)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="taxpr-svg" role="img" '
        f'viewBox="{_rounded(left)} {_rounded(top)} {_rounded(width)} {_rounded(height)}" '
        f'width="{width * _PIXELS:.0f}" height="{height * _PIXELS:.0f}">',
        f"<title>{escape(plain(picture.name))}</title>",
        f"<desc>A program of {picture.counts}.</desc>",
        f"<style>{css(picture.heat is not None)}</style>",
        f'<g font-family="{FONTS}" font-size="{theme.FONT_SIZE}" text-anchor="middle" '
        f'transform="translate({right} {down})">',
        # Draw edges over the clusters that they cross and under the nodes that they touch.
        *(
            _cluster(cluster, raw, where.titles[cluster.id], depths[cluster.id])
            for cluster in picture.clusters
        ),
        *(_edge(edge, raw, where) for edge in picture.edges),
        *(_node(node, raw) for node in picture.nodes),
        "</g>",
        *([legend.drawn_at(left, top, raw.view)] if legend else []),
        "</svg>",
    ]
    return "\n".join(lines)


def _node(node: Node, raw: Raw) -> str:
    look = theme.look_of(node)
    is_box = look.shape == "box"
    shape = _box(raw.bounds(node), look.rounded) if is_box else _outline(raw.shapes(node))
    texts = "".join(
        _text(line, x, y, begins)
        for (x, y, begins), line in zip(raw.texts(node), node.lines, strict=True)
    )
    return _group(f"node {theme.classes(node)}", node, shape, texts)


def _cluster(cluster: Cluster, raw: Raw, title: Sequence[Box], depth: int) -> str:
    texts = "".join(
        _text(line, left, bottom - BELOW, begins=True)
        for line, (left, _, _, bottom) in zip(cluster.lines, title, strict=True)
    )
    shape = _box(raw.bounds(cluster), rounded=True)
    deep = ["deep"] if depth > theme.SHADES else []
    classes = " ".join(("cluster", cluster.kind, *cluster.marks, *deep))
    return _group(classes, cluster, shape, texts)


def _group(classes: str, element: Node | Cluster, shape: str, texts: str) -> str:
    data = {"address": element.address, "fold": element.fold, "pair": element.pair}
    given = "".join(f" data-{k}={quoteattr(plain(v))}" for k, v in data.items() if v)
    return f'<g class="{classes}"{given}>{_title(element.tooltip)}{shape}{texts}</g>'


def _edge(edge: Edge, raw: Raw, where: Placed) -> str:
    line = "".join(f"M{_pairs(part[:1])}C{_pairs(part[1:])}" for part in where.lines[edge.id])
    tips = [f"M{_pairs(tip[:-1])}z" for tip in raw.tips(edge)]
    arrow = f'<path class="tip" d="{"".join(tips)}"/>' if tips else ""
    value = f" data-value={quoteattr(plain(edge.value))}" if edge.value else ""
    labels = where.labels.get(edge.id, ())
    low = EDGE_FONT * 0.3  # from the middle of a text down to its base line
    texts = "".join(
        _text(label.text, label.middle[0], label.middle[1] + low)
        for label in labels
        if label.middle
    )
    # A text without a position is shown in the tooltip of the line.
    unplaced = [f"{_ENDS[label.end]}: {label.text}" for label in labels if not label.middle]
    tip = "\n".join(filter(None, [edge.tooltip, *unplaced]))
    return f'<g class="edge {edge.kind}"{value}>{_title(tip)}<path d="{line}"/>{arrow}{texts}</g>'


_ENDS = {"head": "at its end", "tail": "at its start"}


def _text(text: str, x: float, base: float, begins: bool = False) -> str:
    """A text on a base line, with its middle at `x`, or its start if it `begins` there."""
    start = ' text-anchor="start"' * begins
    return f'<text x="{_rounded(x)}" y="{_rounded(base)}"{start}>{escape(plain(text))}</text>'


def _title(tooltip: str) -> str:
    return f"<title>{escape(plain(tooltip))}</title>" if tooltip else ""


# --- geometry -------------------------------------------------------------------------------------


def _box(bounds: Box, rounded: bool) -> str:
    x, y, right, bottom = bounds
    corner = f' rx="{_rounded(min(10, (bottom - y) / 2))}"' if rounded else ""
    size = f'width="{_rounded(right - x)}" height="{_rounded(bottom - y)}"'
    return f'<rect x="{_rounded(x)}" y="{_rounded(y)}" {size}{corner}/>'


def _outline(shapes: Sequence[ElementTree.Element]) -> str:
    """All lines of a shape as one path. Each curve of a cylinder is a path of its own."""
    lines = [_rounded_all(drawn(shape)) for shape in shapes if is_path(shape)]
    rest = ""
    for shape in shapes:
        if not is_path(shape):
            points = _rounded_all(drawn(shape))
            # The last point of a polygon repeats the first.
            rest += f"M{' '.join(points.split()[:-1])}z" if is_polygon(shape) else f"M{points}"
    return "".join(f'<path d="{line}"/>' for line in (*lines, rest) if line)


def _pairs(points: Sequence[Point]) -> str:
    return " ".join(f"{_rounded(x)},{_rounded(y)}" for x, y in points)


def _rounded_all(text: str) -> str:
    return NUMBER.sub(lambda match: _rounded(match.group()), text)


def _rounded(number: float | str) -> str:
    """Round to one decimal, which is finer than a pixel."""
    text = f"{float(number):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
