"""Write a laid-out picture as DOT with a fixed position for everything, for PNG and PDF.

`dot` draws such a graph without a new layout (see `_layout.convert`), so a PNG or PDF looks like
the SVG. Titles and edge texts become nodes of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from taxpr_jupyter._layout import dot
from taxpr_jupyter._layout.arranged import Layout
from taxpr_jupyter._layout.ends import named_by
from taxpr_jupyter._layout.geometry import Box, Curves, Point, centred, middle_of, tip_of
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.enclosing import depths_of
from taxpr_jupyter._model.model import Cluster, Edge, Picture
from taxpr_jupyter._svg.heat_legend import FONT_SIZE, Legend, legend_of
from taxpr_jupyter._svg.interrupted_lines import finer
from taxpr_jupyter._svg.label_layout import Placed, placed

_TEXT = {"shape": "plaintext", "fixedsize": "true", "fontcolor": theme.MUTED}
_SMALL = {"fontsize": f"{theme.SMALL}"}
_MARGIN = 4.0  # points
_NO_PORTS = ("headport", "tailport", "constraint")


def with_positions(picture: Picture, layout: Layout, background: str) -> str:
    """Write a picture in the DOT language, with the positions of all its parts."""
    return "\n".join([*_lines(picture, layout, placed(picture, layout), background), ""])


def _lines(picture: Picture, layout: Layout, where: Placed, background: str) -> Iterator[str]:
    yield from dot.head(picture, {"bgcolor": background, "outputorder": "edgesfirst"})
    legend = legend_of(picture.heat) if picture.heat else None
    for k, corner in enumerate(_corners(where.view, legend)):
        yield f'  "corner {k}" [shape=point style=invis width=0 height=0 pos="{_point(corner)}"];'
    depths = depths_of(picture.clusters)
    for cluster in picture.clusters:
        yield f"  {_cluster(cluster, layout.clusters[cluster.id], depths[cluster.id])}"
    for node in picture.nodes:
        given = {"pos": _middle(layout.nodes[node.id])}
        if not node.on:
            yield f"  {dot.node_text(node, given)}"
            continue
        yield f"  {dot.node_text(replace(node, lines=()), given | _size(layout.nodes[node.id]))}"
        if box := where.badges.get(node.id):
            yield f"  {_text(f'{node.id} name', node.lines[0], box, _SMALL)}"
    for edge in filter(lambda edge: layout.curves[edge.id], picture.edges):
        yield f"  {_edge(edge, where.lines[edge.id], layout.tips.get(edge.id))}"
    for cluster in picture.clusters:
        for k, (line, box) in enumerate(zip(cluster.lines, where.titles[cluster.id], strict=True)):
            bold = {"fontname": f"{dot.GRAPH['fontname']}-Bold"}
            yield f"  {_text(f'{cluster.id} title {k}', line, box, bold)}"
    for edge in picture.edges:
        for k, label in enumerate(where.labels.get(edge.id, ())):
            if label.box:
                yield f"  {_text(f'{edge.id} text {k}', label.text, label.box, _SMALL)}"
    nodes = {node.id: node for node in picture.nodes}
    for edge in picture.edges:
        if edge.id not in layout.twins:
            continue
        box, text = layout.twins[edge.id]
        small = {**_SMALL, "shape": "box", "style": "rounded,dashed", "color": theme.LINE}
        named = named_by(edge, nodes)
        if named.kind in theme.GIVEN:
            look = theme.look_of(named)
            small |= {"style": "rounded,dashed,filled", "fillcolor": look.fill, "color": look.line}
            small["fontcolor"] = theme.TEXT
        yield f"  {_text(f'{edge.id} twin', text, box, small)}"
    if legend:
        yield from (f"  {line}" for line in _legend(legend, *_corner(where.view, legend)))
    yield "}"


def _legend(legend: Legend, x: float, y: float) -> Iterator[str]:
    """A legend with its upper left corner at a point."""
    pairs = zip(legend.colours, legend.swatches(), strict=True)
    for step, ((_, fill), (left, top, right, bottom)) in enumerate(pairs):
        box = x + left, y + top, x + right, y + bottom
        colours = {"color": theme.LINE, "fillcolor": fill}
        yield _text(f"legend {step}", "", box, {"shape": "box", "style": "filled", **colours})
    small = {"fontsize": f"{FONT_SIZE}"}
    for k, (left, base, words) in enumerate(legend.texts()):
        width = dot.text_width(words, FONT_SIZE)
        middle = y + base - 0.35 * FONT_SIZE  # the middle of a small letter
        box = centred((x + left + width / 2, middle), width, FONT_SIZE)
        yield _text(f"legend text {k}", words, box, small)


def _cluster(cluster: Cluster, bounds: Box, depth: int) -> str:
    given = {"bb": _sides(bounds), "label": "", **dot.ended(cluster)}
    if cluster.kind == "function":
        given["style"] = f"{dot.GRAPH['style']},dotted"
    if depth > theme.SHADES:
        given["fillcolor"] = "transparent"
    name = dot.quoted(f"cluster_{cluster.id}")
    return f"subgraph {name} {{ graph [{dot.listed(given)}]; }}"


def _edge(edge: Edge, lines: Sequence[Curves], tip: Sequence[Point] | None) -> str:
    # Graphviz includes Bézier control points in the bounding box. Those of short curves are close
    # to the line.
    parts = [" ".join(map(_point, finer(finer(line)))) for line in lines]
    if tip:
        parts[-1] = f"e,{_point(tip_of(tip, lines[-1][-1]))} {parts[-1]}"
    look = {k: v for k, v in dot.EDGE_KINDS[edge.kind].items() if k not in _NO_PORTS}
    given = dot.listed({**look, "pos": ";".join(parts)})
    return f"{dot.quoted(edge.source)} -> {dot.quoted(edge.target)} [{given}];"


def _text(name: str, text: str, box: Box, more: Mapping[str, str]) -> str:
    given = dot.listed({**_TEXT, **more, **_size(box), "pos": _middle(box)}, {"label": [text]})
    return f"{dot.quoted(name)} [{given}];"


def _size(box: Box) -> dict[str, str]:
    left, top, right, bottom = box
    sides = {"width": right - left, "height": bottom - top}
    return {name: f"{points / dot.POINTS:.3f}" for name, points in sides.items()}


def _corners(view: Box, legend: Legend | None) -> tuple[Point, Point]:
    """Two corners of the bounding box; Graphviz adds a margin."""
    left, top = _corner(view, legend)
    right, bottom = view[2:]
    right = max(right, left + legend.width) if legend else right
    return (left + _MARGIN, top + _MARGIN), (right - _MARGIN, bottom - _MARGIN)


def _corner(view: Box, legend: Legend | None) -> Point:
    """The upper left corner of the bounding box, where the legend is."""
    left, top, _, _ = view
    return left, top - (legend.height if legend else 0.0)


def _sides(box: Box) -> str:
    left, top, right, bottom = box
    return f"{left:.2f},{-bottom:.2f},{right:.2f},{-top:.2f}"


def _middle(box: Box) -> str:
    return _point(middle_of(box))


def _point(point: Point) -> str:
    """A point in DOT, where y grows upwards."""
    return f"{point[0]:.2f},{-point[1]:.2f}"
