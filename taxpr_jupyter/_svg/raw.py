"""Read coordinates from the raw SVG of a layout engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from taxpr_jupyter._layout.dot import plain
from taxpr_jupyter._model.model import Cluster, Edge, Node
from taxpr_jupyter._svg.geometry import Box, Curves, Point

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_NS = "{http://www.w3.org/2000/svg}"


class Raw:
    """An engine's SVG.

    Args:
        svg: Its text.

    Attributes:
        view: Left, top, width and height of the picture, in points.
        shift: The translation of the content, to the right and down.
    """

    def __init__(self, svg: str) -> None:
        root = ElementTree.fromstring(svg)
        self._groups = {group.get("id"): group for group in root.iter(f"{_NS}g")}
        graph = next(g for g in self._groups.values() if g.get("class") == "graph")
        left, top, width, height = map(float, (root.get("viewBox") or "0 0 0 0").split())
        self.view = left, top, width, height
        moved = re.search(r"translate\(([^)]*)\)", graph.get("transform") or "")
        numbers = [float(n) for n in NUMBER.findall(moved[1])] if moved else []
        self.shift = (numbers[0], numbers[-1]) if numbers else (0.0, 0.0)

    def bounds(self, element: Node | Cluster) -> Box:
        """Left, top, right and bottom of a shape."""
        numbers = [float(n) for shape in self.shapes(element) for n in NUMBER.findall(drawn(shape))]
        return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])

    def shapes(self, element: Node | Cluster) -> list[ElementTree.Element]:
        """The SVG elements of a shape, see `drawn`."""
        return [shape for shape in self._group(element).iter() if drawn(shape)]

    def texts(self, element: Node | Cluster) -> Iterator[tuple[float, float, bool]]:
        """The position of each line of text, and whether that is its start or its middle."""
        for place in self._group(element).iter(f"{_NS}text"):
            x, y = float(place.get("x") or 0), float(place.get("y") or 0)
            yield x, y, place.get("text-anchor") == "start"

    def curves(self, edge: Edge) -> Curves:
        """The line of an edge."""
        line = next(self._group(edge).iter(f"{_NS}path")).get("d") or ""
        return _points(line)

    def tips(self, edge: Edge) -> list[list[Point]]:
        """The corners of each arrow tip of an edge; the last corner repeats the first."""
        polygons = self._group(edge).iter(f"{_NS}polygon")
        return [_points(polygon.get("points") or "") for polygon in polygons]

    def _group(self, element: Node | Edge | Cluster) -> ElementTree.Element:
        try:
            return self._groups[plain(element.id)]
        except KeyError:
            raise ValueError(f"the layout has lost {element.id}") from None


def drawn(shape: ElementTree.Element) -> str:
    """The coordinates of a part of a shape; "" if it has none."""
    return shape.get("points") or shape.get("d") or ""


def is_path(shape: ElementTree.Element) -> bool:
    """Whether a part of a shape has curves."""
    return shape.tag == f"{_NS}path"


def is_polygon(shape: ElementTree.Element) -> bool:
    """Whether a part of a shape is closed."""
    return shape.tag == f"{_NS}polygon"


def _points(text: str) -> list[Point]:
    numbers = [float(number) for number in NUMBER.findall(text)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))
