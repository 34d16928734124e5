"""The shapes of nodes, and where the lines of text in them are: those that Graphviz would draw."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from taxpr_jupyter._layout import dot
from taxpr_jupyter._layout.geometry import Box, Point, grown
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import CodeLine

_DEPTH = 4.0  # points: of a cube, the tab of a folder, and between two borders
_CORNER = 6.0  # points: of a note that is folded
_FLAT = 3.6  # points: half the height of the end of a cylinder
_CURVE = 0.448  # of an arc: where the control points are
_BASE = 0.28 * theme.FONT_SIZE  # points from the middle of a line of text down to its base

Outline = tuple[str, Sequence[Point]]  # "polygon", "line" or "curves", and its points


def outlines(shape: str, box: Box, double: bool) -> Iterator[Outline]:
    """The lines of a shape."""
    draw = _SHAPES[shape]
    yield from draw(*box)
    if double:
        yield from draw(*grown(box, _DEPTH, _DEPTH))


def texts(box: Box, lines: Sequence[str], pad: float) -> Iterator[Point]:
    """The middle of each line of text, on its base line; of a line of code its begin.

    Args:
        box: Where the node is.
        lines: Its lines.
        pad: The room at the left of code, in points.
    """
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    heights = [*map(dot.line_height_of, lines)]
    top = y - sum(heights) / 2
    for line, height in zip(lines, heights, strict=True):
        base = top + height / 2 + _BASE
        top += height
        if isinstance(line, CodeLine):
            yield box[0] + pad + dot.width_in_node(CodeLine("", line.indent)), base
        else:
            yield x, base


def _cube(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    front, low = right - _DEPTH, top + _DEPTH
    yield (
        "polygon",
        [
            (right, top),
            (left + _DEPTH, top),
            (left, low),
            (left, bottom),
            (front, bottom),
            (right, bottom - _DEPTH),
        ],
    )
    for end in ((left, low), (front, bottom), (right, top)):
        yield "line", [(front, low), end]


def _folder(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    tab = [(right, top), (right - 3, top - _DEPTH), (right - 24, top - _DEPTH), (right - 27, top)]
    yield "polygon", [*tab, (left, top), (left, bottom), (right, bottom)]


def _hexagon(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    middle, quarter = (top + bottom) / 2, (right - left) / 4
    ends = left + quarter, right - quarter
    yield (
        "polygon",
        [
            (right, middle),
            (ends[1], top),
            (ends[0], top),
            (left, middle),
            (ends[0], bottom),
            (ends[1], bottom),
        ],
    )


def _octagon(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    across, down = 0.293 * (right - left), 0.293 * (bottom - top)
    xs, ys = (left + across, right - across), (top + down, bottom - down)
    above = [(right, ys[0]), (xs[1], top), (xs[0], top), (left, ys[0])]
    yield "polygon", [*above, (left, ys[1]), (xs[0], bottom), (xs[1], bottom), (right, ys[1])]


def _diamond(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    x, y = (left + right) / 2, (top + bottom) / 2
    yield "polygon", [(x, top), (left, y), (x, bottom), (right, y)]


def _note(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    fold, low = right - _CORNER, top + _CORNER
    yield "polygon", [(fold, top), (left, top), (left, bottom), (right, bottom), (right, low)]
    yield "line", [(fold, top), (fold, low), (right, low)]


def _cylinder(left: float, top: float, right: float, bottom: float) -> Iterator[Outline]:
    x, high, low = (left + right) / 2, top + _FLAT, bottom - _FLAT
    near, away = (right - left) / 2 * _CURVE, _FLAT * _CURVE

    def arc(y: float, edge: float) -> list[Point]:
        """From left to right, by way of the middle of an edge."""
        end = edge + (away if edge < y else -away)
        first = [(left, y), (left, end), (x - near, edge), (x, edge)]
        return [*first, (x + near, edge), (right, end), (right, y)]

    over, under = arc(high, top), arc(low, bottom)
    side = [(right, high), (right, low), (right, low)]
    back = [(left, low), (left, high), (left, high)]
    yield "curves", [*over, *side, *under[::-1][1:], *back]
    yield "curves", arc(high, high + _FLAT)


_SHAPES: Mapping[str, Callable[[float, float, float, float], Iterator[Outline]]] = {
    "box3d": _cube,
    "folder": _folder,
    "hexagon": _hexagon,
    "octagon": _octagon,
    "diamond": _diamond,
    "note": _note,
    "cylinder": _cylinder,
}
