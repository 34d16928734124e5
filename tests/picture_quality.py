"""How well a laid-out picture uses its room, measured from its SVG."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

NS = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ADVANCE, _HEIGHT = 0.6, 1.0  # of a character, in ems

_STEPS = 12  # of each curve

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Quality:
    """What can be said without looking.

    Attributes:
        width: In points.
        height: In points.
        filled: The share of the picture that nodes, and boxes' titles, cover.
        overlaps: Pairs of texts that lie on each other, or text of an edge on a node.
        crossed: Titles of boxes, and texts of edges, through which an edge runs.
    """

    width: float
    height: float
    filled: float
    overlaps: tuple[tuple[str, str], ...]
    crossed: tuple[str, ...]

    @property
    def aspect(self) -> float:
        """The longer side through the shorter one."""
        return max(self.width, self.height) / max(1.0, min(self.width, self.height))

    @property
    def is_wide(self) -> bool:
        """Whether it lies."""
        return self.width > self.height


def quality_of(svg: str) -> Quality:
    """Measures a picture that `finish_svg` made."""
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, (root.get("viewBox") or "0 0 1 1").split())
    nodes: list[tuple[str, Box]] = []
    titles: list[tuple[str, Box]] = []
    labels: list[tuple[str, Box]] = []
    lines: list[tuple[Point, Point]] = []
    for group in root.iter(f"{NS}g"):
        kinds = (group.get("class") or "").split()
        if "badge" in kinds:
            labels += _texts(group, 8)
        elif "node" in kinds:
            nodes.append((group.get("data-address") or "", _shape(group)))
        elif "cluster" in kinds:
            titles += _texts(group, 10)
        elif "edge" in kinds:
            labels += _texts(group, 8)
            lines += _lines(group)
    covered = sum(map(_area, (box for _, box in (*nodes, *titles))))
    found = [
        (text, other)
        for text, box in labels
        for other, around in (*nodes, *titles)
        if _meet(box, around)
    ]
    found += [
        (text, other)
        for i, (text, box) in enumerate(labels)
        for other, around in labels[i + 1 :]
        if _meet(box, around)
    ]
    found += [(text, name) for text, box in titles for name, node in nodes if _meet(box, node)]
    crossed = [
        text
        for text, box in (*titles, *labels)
        if any(_enters(line, _shrunk(box)) for line in lines)
    ]
    filled = covered / (width * height or 1.0)
    return Quality(width, height, filled, tuple(found), tuple(crossed))


def measured(picture: Any, svg: str) -> dict[str, float]:
    """How quiet a picture is.

    Returns:
        The pairs of edges without a common end that cross, the pairs of an edge and a node that is
        not its own over which it runs, the pairs of texts that lie on each other, and the size.
    """
    root = ElementTree.fromstring(svg)
    groups = {kind: _of_kind(root, kind) for kind in ("node", "edge")}
    boxes = {
        node.id: _shrunk(_shape(group))
        for node, group in zip(picture.nodes, groups["node"], strict=True)
        if "badge" not in (group.get("class") or "").split()
    }
    ends = [{edge.source, edge.target, *edge.also} for edge in picture.edges]
    lines = [list(_lines(group)) for group in groups["edge"]]
    cells: dict[tuple[int, int], list[tuple[int, tuple[Point, Point]]]] = {}
    for number, pieces in enumerate(lines):
        for piece in pieces:
            for cell in _cells(piece):
                cells.setdefault(cell, []).append((number, piece))
    crossed = {
        (a, b)
        for here in cells.values()
        for (a, first), (b, second) in itertools.combinations(here, 2)
        if a != b and not ends[a] & ends[b] and _cross(first, second)
    }
    over = {
        (number, name)
        for name, box in boxes.items()
        for cell in _cells((box[:2], box[2:]))
        for number, piece in cells.get(cell, ())
        if name not in ends[number] and _enters(piece, box)
    }
    found = quality_of(svg)
    return {
        "crossings": len(crossed),
        "over": len(over),
        "texts": len(found.overlaps),
        "width": found.width,
        "height": found.height,
    }


def _of_kind(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [g for g in root.iter(f"{NS}g") if kind in (g.get("class") or "").split()]


def _cells(piece: tuple[Point, Point], size: float = 40.0) -> Iterator[tuple[int, int]]:
    """The cells of a grid that a piece of a line may run through."""
    (x, y), (to_x, to_y) = piece
    across, down = ([int(a // size) for a in sorted(pair)] for pair in ((x, to_x), (y, to_y)))
    return itertools.product(range(across[0], across[1] + 1), range(down[0], down[1] + 1))


def _cross(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    def side(a: Point, b: Point, c: Point) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    (a, b), (c, d) = one, other
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def _shape(group: ElementTree.Element) -> Box:
    xs: list[float] = []
    ys: list[float] = []
    for part in group:
        if part.tag == f"{NS}rect":
            x, y, w, h = (float(part.get(k, "0")) for k in ("x", "y", "width", "height"))
            xs += [x, x + w]
            ys += [y, y + h]
        elif part.tag == f"{NS}path":
            numbers = [float(n) for n in _NUMBER.findall(part.get("d") or "")]
            xs += numbers[::2]
            ys += numbers[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def _texts(group: ElementTree.Element, size: float) -> list[tuple[str, Box]]:
    """The texts of an element; each is centred at its place, or begins there."""
    found = []
    for text in group.iter(f"{NS}text"):
        x, y = float(text.get("x", "0")), float(text.get("y", "0"))
        half = len(text.text or "") * size * _ADVANCE / 2
        x += half * (text.get("text-anchor") == "start")
        box = x - half, y - 0.75 * size * _HEIGHT, x + half, y + 0.15 * size
        found.append((text.text or "", box))
    return found


def _lines(group: ElementTree.Element) -> Iterator[tuple[Point, Point]]:
    """The short straight lines that the line of an edge consists of."""
    path = next((part for part in group if part.tag == f"{NS}path"), None)
    for part in (path.get("d") or "" if path is not None else "").split("M")[1:]:
        numbers = list(map(float, _NUMBER.findall(part)))
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        for k in range(0, len(points) - 3, 3):
            on_it = [_on_curve(points[k : k + 4], step / _STEPS) for step in range(_STEPS + 1)]
            yield from itertools.pairwise(on_it)


def _on_curve(corners: list[Point], t: float) -> Point:
    u = 1 - t
    weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
    x, y = (sum(w * c[k] for w, c in zip(weights, corners, strict=True)) for k in (0, 1))
    return x, y


def _shrunk(box: Box) -> Box:
    return box[0] + 1, box[1] + 1, box[2] - 1, box[3] - 1


def _enters(line: tuple[Point, Point], box: Box) -> bool:
    """Whether a line runs through a box."""
    first, last = 0.0, 1.0
    for k in (0, 1):
        at, by = line[0][k], line[1][k] - line[0][k]
        if by == 0:
            if not box[k] < at < box[k + 2]:
                return False
            continue
        near, far = sorted(((box[k] - at) / by, (box[k + 2] - at) / by))
        first, last = max(first, near), min(last, far)
    return first < last


def _area(box: Box) -> float:
    left, top, right, bottom = box
    return (right - left) * (bottom - top)


def _meet(a: Box, b: Box) -> bool:
    """Whether they lie on each other by more than a touch."""
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    return across > 1.5 and down > 1.5
