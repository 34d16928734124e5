"""Read coordinates from the raw SVG of a layout engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from taxpr_jupyter._layout.geometry import Box, Curves, Point, around

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_NS = "{http://www.w3.org/2000/svg}"
_PAD = 4.0  # points that Graphviz leaves around a graph


class Raw(NamedTuple):
    """The content of an engine's SVG, with the upper left corner of the graph at the origin.

    Attributes:
        width: The width of the graph, in points.
        height: Its height.
        nodes: The box of each node, by its id.
        curves: The line of each edge, by its id.
        tips: The corners of the arrow tip of each edge that has one, by its id.
    """

    width: float
    height: float
    nodes: Mapping[str, Box]
    curves: Mapping[str, Curves]
    tips: Mapping[str, Sequence[Point]]


def read(svg: str) -> Raw:
    """Read an engine's SVG of a graph.

    Raises:
        ValueError: If it is no such SVG.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"the layout is no SVG: {error}") from error
    _, _, wide, high = map(float, (root.get("viewBox") or "0 0 8 8").split())
    width, height = wide - 2 * _PAD, high - 2 * _PAD
    nodes: dict[str, Box] = {}
    curves: dict[str, Curves] = {}
    tips: dict[str, Sequence[Point]] = {}
    for group in root.iter(f"{_NS}g"):
        name, kind = group.get("id") or "", group.get("class")
        if kind == "node":
            corners = [part.get("points") or part.get("d") for part in group.iter()]
            nodes[name] = around([p for text in corners if text for p in _points(text, height)])
        elif kind == "edge":
            for part in group.iter():
                if part.tag == f"{_NS}path":
                    curves[name] = _points(part.get("d") or "", height)
                elif part.tag == f"{_NS}polygon":
                    tips[name] = _points(part.get("points") or "", height)
    return Raw(width, height, nodes, curves, tips)


def moved(points: Sequence[Point], right: float, down: float) -> list[Point]:
    """The same points elsewhere."""
    return [(x + right, y + down) for x, y in points]


def _points(text: str, down: float) -> list[Point]:
    numbers = [float(number) for number in _NUMBER.findall(text)]
    return [(x, y + down) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
