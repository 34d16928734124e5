"""From the SVG of a layout engine to the one that is shown.

Only geometry is taken from the engine. Everything else comes from the picture, so that the result
is the same for all engines and versions but for coordinates: no ids, which would clash when a page
has several pictures, but `data-address`; classes instead of colours; tooltips as `<title>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from taxpr_jupyter._picture import _look
from taxpr_jupyter._picture._dot import plain, text_width
from taxpr_jupyter._picture._legend import legend_of
from taxpr_jupyter._picture._model import Cluster, Edge, Node, Picture
from taxpr_jupyter._picture._places import Box, Places, Point, flattened
from taxpr_jupyter._picture._style import EDGE_FONT, FONTS, css
from taxpr_jupyter._picture._titles import Titles

_NS = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_PIXELS = 4 / 3  # in a point
_BELOW = 2.0  # points of a line of text that are below its base


def finish_svg(raw_svg: str, picture: Picture) -> str:
    """Makes an engine's SVG of a picture into what is shown.

    Raises:
        ValueError: If the SVG is not one of this picture.
    """
    root = ElementTree.fromstring(raw_svg)
    groups = {group.get("id"): group for group in root.iter(f"{_NS}g")}
    graph = next(group for group in groups.values() if group.get("class") == "graph")
    left, top, width, height = map(float, (root.get("viewBox") or "0 0 0 0").split())

    def group_of(element: Node | Edge | Cluster) -> ElementTree.Element:
        try:
            return groups[plain(element.id)]
        except KeyError:
            raise ValueError(f"the layout has lost {element.id}") from None

    legend = legend_of(picture.heat) if picture.heat else None
    if legend:  # above the graph: a panel shows that end of the picture first
        width, height = max(width, legend.width), height + legend.height
        top -= legend.height
    shift = re.search(r"translate\([^)]*\)", graph.get("transform") or "")
    depths: dict[str | None, int] = {None: 0}
    for cluster in picture.clusters:  # outer ones come first
        depths[cluster.id] = depths[cluster.parent] + 1
    paths = {edge.id: _path(group_of(edge)) for edge in picture.edges}
    titles = _titles(picture, group_of, list(paths.values()))
    places = _places(picture, group_of, titles, (left, top, width, height), shift)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="taxpr-svg" role="img" '
        f'viewBox="{_rounded(left)} {_rounded(top)} {_rounded(width)} {_rounded(height)}" '
        f'width="{width * _PIXELS:.0f}" height="{height * _PIXELS:.0f}">',
        f"<title>{escape(plain(picture.name))}</title>",
        f"<desc>{escape(_description(picture))}</desc>",
        f"<style>{css(picture.heat is not None)}</style>",
        f'<g font-family="{FONTS}" font-size="{_look.FONT_SIZE}" text-anchor="middle" '
        f'transform="{shift.group() if shift else ""}">',
        # Edges lie above the clusters that they cross and below the nodes that they touch.
        *(
            _cluster(cluster, group_of(cluster), titles[cluster.id], depths[cluster.id])
            for cluster in picture.clusters
        ),
        *(_edge(edge, group_of(edge), paths[edge.id], places) for edge in picture.edges),
        *(_node(node, group_of(node)) for node in picture.nodes),
        "</g>",
        *([legend.drawn_at(left, top)] if legend else []),
        "</svg>",
    ]
    return "\n".join(lines)


def _description(picture: Picture) -> str:
    return f"A program of {picture.counts}."


def _node(node: Node, group: ElementTree.Element) -> str:
    look = _look.look_of(node)
    shape = _box(group, look.rounded) if look.shape == "box" else _outline(group)
    classes = f"node {_look.classes(node)}"
    return _group(classes, node, shape, _texts(group, node.lines))


def _cluster(cluster: Cluster, group: ElementTree.Element, title: Sequence[Box], depth: int) -> str:
    texts = "".join(
        f'<text x="{_rounded(left)}" y="{_rounded(bottom - _BELOW)}" text-anchor="start">'
        f"{escape(plain(line))}</text>"
        for line, (left, _, _, bottom) in zip(cluster.lines, title, strict=True)
    )
    shape = _box(group, rounded=True)
    deep = ["deep"] if depth > _look.SHADES else []
    classes = " ".join(("cluster", cluster.kind, *cluster.marks, *deep))
    return _group(classes, cluster, shape, texts)


def _group(classes: str, element: Node | Cluster, shape: str, texts: str) -> str:
    data = {"address": element.address, "fold": element.fold, "pair": element.pair}
    given = "".join(f" data-{k}={quoteattr(plain(v))}" for k, v in data.items() if v)
    return f'<g class="{classes}"{given}>{_title(element.tooltip)}{shape}{texts}</g>'


def _edge(edge: Edge, group: ElementTree.Element, path: Sequence[Point], places: Places) -> str:
    line = next(group.iter(f"{_NS}path")).get("d") or ""
    tips = [_closed(polygon) for polygon in group.iter(f"{_NS}polygon")]
    arrow = f'<path class="tip" d="{"".join(tips)}"/>' if tips else ""
    value = f" data-value={quoteattr(plain(edge.value))}" if edge.value else ""
    texts = ""
    if edge.head or edge.tail:
        texts = "".join(
            _text(text, *places.take(end, text_width(text, EDGE_FONT)))
            for text, end in ((edge.head, path[::-1]), (edge.tail, path))
            if text
        )
    return (
        f'<g class="edge {edge.kind}"{value}>{_title(edge.tooltip)}<path d="{_rounded_all(line)}"/>'
        f"{arrow}{texts}</g>"
    )


def _path(group: ElementTree.Element) -> list[Point]:
    """The points on an edge."""
    line = next(group.iter(f"{_NS}path")).get("d") or ""
    return flattened([float(number) for number in _NUMBER.findall(line)])


def _text(text: str, x: float, y: float) -> str:
    """A text at the end of an edge, with its middle there."""
    base = y + EDGE_FONT * 0.3
    return f'<text x="{_rounded(x)}" y="{_rounded(base)}">{escape(plain(text))}</text>'


def _places(
    picture: Picture,
    group_of: Callable[[Node | Cluster], ElementTree.Element],
    titles: Mapping[str, Sequence[Box]],
    view: tuple[float, float, float, float],
    shift: re.Match[str] | None,
) -> Places:
    """Where texts may go: not onto nodes, nor onto the titles of clusters."""
    taken = [_bounds(group_of(node)) for node in picture.nodes]
    taken += [box for boxes in titles.values() for box in boxes]
    numbers = [float(n) for n in _NUMBER.findall(shift.group())] if shift else [0.0, 0.0]
    left, top, width, height = view
    x, y = left - numbers[0], top - numbers[-1]
    return Places(taken, (x, y, x + width, y + height), EDGE_FONT)


def _titles(
    picture: Picture,
    group_of: Callable[[Node | Cluster], ElementTree.Element],
    paths: Sequence[Sequence[Point]],
) -> dict[str, list[Box]]:
    """Where the lines of the titles of clusters are."""
    titles = Titles(paths, [_bounds(group_of(node)) for node in picture.nodes])
    found = {}
    for cluster in picture.clusters:
        group = group_of(cluster)
        lines = []
        for place, line in zip(group.iter(f"{_NS}text"), cluster.lines, strict=True):
            x, y = float(place.get("x") or 0), float(place.get("y") or 0)
            wide = text_width(line, _look.FONT_SIZE)
            left = x - (0 if place.get("text-anchor") == "start" else wide / 2)
            lines.append((left, y - 0.8 * _look.FONT_SIZE, left + wide, y + _BELOW))
        # All lines move together.
        around = _around(lines)
        by = titles.left_of(around, _bounds(group)) - around[0]
        found[cluster.id] = [(a + by, top, b + by, bottom) for a, top, b, bottom in lines]
    return found


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _title(tooltip: str) -> str:
    return f"<title>{escape(plain(tooltip))}</title>" if tooltip else ""


def _texts(group: ElementTree.Element, lines: Iterable[str]) -> str:
    """The lines of a label where the engine put them."""
    places = list(group.iter(f"{_NS}text"))
    return "".join(
        f'<text x="{_rounded(place.get("x"))}" y="{_rounded(place.get("y"))}"{_anchor(place)}>'
        f"{escape(plain(line))}</text>"
        for place, line in zip(places, lines, strict=True)
    )


def _anchor(place: ElementTree.Element) -> str:
    return ' text-anchor="start"' if place.get("text-anchor") == "start" else ""


# --- geometry -------------------------------------------------------------------------------------


def _box(group: ElementTree.Element, rounded: bool) -> str:
    x, y, right, bottom = _bounds(group)
    corner = f' rx="{_rounded(min(10, (bottom - y) / 2))}"' if rounded else ""
    size = f'width="{_rounded(right - x)}" height="{_rounded(bottom - y)}"'
    return f'<rect x="{_rounded(x)}" y="{_rounded(y)}" {size}{corner}/>'


def _bounds(group: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a shape."""
    numbers = [float(n) for shape in _shapes(group) for n in _NUMBER.findall(_drawn(shape))]
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def _outline(group: ElementTree.Element) -> str:
    """All lines of a shape as one path; the curves of a cylinder as one each."""
    shapes = list(_shapes(group))
    lines = [_rounded_all(_drawn(shape)) for shape in shapes if shape.tag == f"{_NS}path"]
    rest = "".join(
        _closed(shape) if shape.tag == f"{_NS}polygon" else f"M{_rounded_all(_drawn(shape))}"
        for shape in shapes
        if shape.tag != f"{_NS}path"
    )
    return "".join(f'<path d="{line}"/>' for line in (*lines, rest) if line)


def _shapes(group: ElementTree.Element) -> Iterator[ElementTree.Element]:
    return (shape for shape in group.iter() if _drawn(shape))


def _drawn(shape: ElementTree.Element) -> str:
    return shape.get("points") or shape.get("d") or ""


def _closed(polygon: ElementTree.Element) -> str:
    points = _rounded_all(polygon.get("points") or "").split()
    return f"M{' '.join(points[:-1])}z"


def _rounded_all(text: str) -> str:
    return _NUMBER.sub(lambda match: _rounded(match.group()), text)


def _rounded(number: float | str | None) -> str:
    """With one digit after the point, which is a fraction of what a screen can show."""
    text = f"{float(number or 0):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
