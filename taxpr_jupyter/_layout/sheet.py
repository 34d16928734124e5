"""`Sheet`: one frame that is laid out, before the frames in it are put in their places."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping, Sequence

from taxpr_jupyter._layout.dot import text_width
from taxpr_jupyter._layout.frame_dot import TAB, TAB_WIDE, BoxSize, FrameDot
from taxpr_jupyter._layout.frames import Beside, Frame
from taxpr_jupyter._layout.geometry import (
    Box,
    Curves,
    Point,
    around,
    enters,
    flattened,
    grown,
    meet,
)
from taxpr_jupyter._layout.pieces import Piece
from taxpr_jupyter._layout.raw import Raw, moved
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Node

LINE = 12.0  # points: the height of a line of a title
_SIDE = 7.0  # points between the border of a cluster and what is in it
_RAIL = 5.0  # points between two lines along a margin
_TIP = (5.0, 1.75)  # points: the length of the tip of an arrow, and half its width
_INSIDE = 1.0  # points: so far a line may reach into the frame where it ends
_NEAR = 8.0  # points from the end of a line to its nearest corner
_BEND = 4.0  # points: how round their corners are
_NO_PORTS = BoxSize(0.0, 0.0)


@dataclasses.dataclass
class Sheet:
    """The layout of one frame. Its upper left corner is the origin.

    Attributes:
        width: In points.
        height: In points.
        boxes: The box of each part.
        curves: The line of each piece.
        tips: The arrow tip of each piece that has one.
        tops: Where the ports at the top are, from the left.
        bottoms: The same of those at the bottom.
        rails: The line of each way along the margin, by its port.
        is_cut: Whether it is in columns: then lines lead from one to the next above the parts.
    """

    width: float
    height: float
    boxes: dict[str, Box]
    curves: dict[Piece, Curves]
    tips: dict[Piece, Sequence[Point]]
    tops: dict[str, float]
    bottoms: dict[str, float]
    rails: dict[str, Curves] = dataclasses.field(default_factory=dict)
    is_cut: bool = False

    @property
    def size(self) -> BoxSize:
        """The size and ports, for the frame around it."""
        return BoxSize(self.width, self.height, self.tops, self.bottoms)


def read_sheet(dot: FrameDot, raw: Raw) -> Sheet:
    """A frame as an engine laid it out.

    Raises:
        ValueError: If a part is missing there.
    """
    frame, sizes = dot.frame, dot.sizes
    try:
        boxes = {name: raw.nodes[given] for name, given in dot.ids.items()}
        tops = {port: _across(raw.nodes[given]) for port, given in dot.tops.items()}
        bottoms = {port: _across(raw.nodes[given]) for port, given in dot.bottoms.items()}
        curves = {piece: list(raw.curves[given]) for piece, given in dot.pieces.items()}
    except KeyError as error:
        raise ValueError(f"the layout has lost {error}") from None
    tips = {p: raw.tips[given] for p, given in dot.pieces.items() if given in raw.tips}
    known: dict[str, BoxSize] = {}
    for name, size in (*sizes.items(), *((name, one.size) for name, one in dot.together.items())):
        left = boxes[name][0]
        tops_here = {port: x + left for port, x in size.tops.items()}
        bottoms_here = {port: x + left for port, x in size.bottoms.items()}
        known[name] = BoxSize(size.width, size.height, tops_here, bottoms_here)
    # The height at which lines touch a part.
    ends = {name: (boxes[name][1], boxes[name][3]) for name in sizes}
    for name, one in dot.together.items():
        left, top, _, _ = boxes[name]
        inner = {**one.boxes, name: one.main}
        boxes |= {part: _moved(box, left, top) for part, box in inner.items()}
        ends[name] = boxes[name][1], boxes[name][3]
    for piece, line in curves.items():
        source, target = piece.source, piece.target
        if not source.part:
            line[:0] = straight((tops[source.port], 0.0), line[0])[:-1]
        elif (source.port or "s") in known.get(source.part, _NO_PORTS).bottoms:
            x = known[source.part].bottoms[source.port or "s"]
            _put(line, 0, x)
            line[:0] = straight((x, ends[source.part][1]), line[0])[:-1]
        if not target.part:
            line += straight(line[-1], (bottoms[target.port], raw.height))[1:]
        elif (target.port or "n") in known.get(target.part, _NO_PORTS).tops:
            x, y = known[target.part].tops[target.port or piece.side or "n"], ends[target.part][0]
            tip = tips.get(piece)
            if tip:
                low = max(tip, key=lambda corner: corner[1])
                tips[piece] = moved(tip, x - low[0], y - low[1])
                y -= low[1] - line[-1][1]
            _put(line, -1, x)
            line += straight(line[-1], (x, y))[1:]
    for piece in curves:
        curves[piece] = clear(piece, curves[piece], boxes, sizes)
    for name, several in frame.beside.items():
        for one in several:
            curves[one.piece], tips[one.piece] = _short(boxes, name, one, several)
    for name, part in frame.parts.items():
        if isinstance(part, Node):
            boxes[name] = _body(boxes[name], dot.boxes[name], theme.look_of(part))
    for piece, tip in tips.items():  # what ends beside the tab of a folder ends deeper
        part = frame.parts.get(piece.target.part)
        if not isinstance(part, Node) or theme.look_of(part).shape != "folder":
            continue
        _, top, right, _ = boxes[piece.target.part]
        x, y = max(tip, key=lambda corner: corner[1])
        if abs(y - (top - TAB)) < 2 and x < right - TAB_WIDE:
            tips[piece] = moved(tip, 0.0, TAB)
            line = curves[piece]
            line[-1] = line[-1][0], line[-1][1] + TAB
    return Sheet(raw.width, raw.height, boxes, curves, tips, tops, bottoms)


def clear(piece: Piece, line: Curves, boxes: Mapping[str, Box], frames: Collection[str]) -> Curves:
    """The line of a piece, or one with corners where it would run over a part.

    Graphviz lets a line to a port swing out, also back into the frame that it leaves, and does not
    know the parts beside a node.

    Args:
        piece: The piece.
        line: Its line.
        boxes: The boxes of all parts.
        frames: Which of these are frames.
    """
    own = piece.source.part, piece.target.part
    others = [
        grown(box, 0.0, -_INSIDE) if name in own else box
        for name, box in boxes.items()
        if name not in own or name in frames
    ]

    def is_free(path: Curves) -> bool:
        points = flattened(path)
        bounds = around(points)
        near = [box for box in others if meet(box, bounds)]
        return not any(enters(*part, box) for box in near for part in itertools.pairwise(points))

    if is_free(line):
        return line
    (x, y), (to_x, to_y) = line[0], line[-1]
    high = to_y - y
    near = math.copysign(min(_NEAR, abs(high) / 2), high)
    for down in (high * 0.5, high * 0.8, high * 0.2, high - near, near):
        middle = y + down
        path = bent([(x, y), (x, middle), (to_x, middle), (to_x, to_y)])
        if is_free(path):
            return path
    return line


def _short(
    boxes: Mapping[str, Box], main: str, one: Beside, several: Sequence[Beside]
) -> tuple[Curves, Sequence[Point]]:
    """The line, and its tip, between a node and a part beside it."""
    left, top, right, bottom = boxes[main]
    side = [other for other in several if other.right is one.right]
    at = (side.index(one) + 1) / (len(side) + 1)
    ours = (right if one.right else left), top + (bottom - top) * at
    small = boxes[one.part]
    its = (small[0] if one.right else small[2]), (small[1] + small[3]) / 2
    start, end = (ours, its) if one.piece.source.part == main else (its, ours)
    near, tip = arrow(start, end)
    return straight(start, near), tip


def arrow(start: Point, end: Point) -> tuple[Point, Sequence[Point]]:
    """The end of a straight line, and the tip of an arrow from there on."""
    length = math.dist(start, end) or 1.0
    across, down = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    near = end[0] - across * _TIP[0], end[1] - down * _TIP[0]
    wide = -down * _TIP[1], across * _TIP[1]
    tip = [
        (near[0] + wide[0], near[1] + wide[1]),
        end,
        (near[0] - wide[0], near[1] - wide[1]),
    ]
    return near, [*tip, tip[0]]


def _body(box: Box, size: tuple[float, float], look: theme.Look) -> Box:
    """The box of a node without the tab of a folder or a second border."""
    (width, height), middle = size, (box[0] + box[2]) / 2
    height -= TAB if look.shape == "folder" else 0.0
    bottom = box[3] - (TAB if look.double and box[3] - box[1] > height + 1 else 0.0)
    return middle - width / 2, bottom - height, middle + width / 2, bottom


def _moved(box: Box, right: float, down: float) -> Box:
    return box[0] + right, box[1] + down, box[2] + right, box[3] + down


def bordered(sheet: Sheet, frame: Frame) -> Sheet:
    """A sheet with room for the title and the margins of its cluster, and lines along these."""
    cluster, rails = frame.cluster, len(frame.margins)
    side, title = (_SIDE, len(cluster.lines) * LINE + 4) if cluster else (0.0, 0.0)
    rail = _RAIL * rails + _RAIL if rails else 0.0
    first = 0.0 if sheet.is_cut else min((box[1] for box in sheet.boxes.values()), default=0.0)
    left, top = side + rail, max(rail, title - first)
    texts = cluster.lines if cluster else ()
    wide = max((text_width(line, theme.FONT_SIZE) for line in texts), default=0.0)
    low = sheet.height + top
    bottom = low + (rail or (0.0 if sheet.bottoms else side))
    made = shifted(sheet, left, top)
    made.width = max(sheet.width + left + side, wide + 2 * side)
    made = _with_room(made, wide, title)
    made.height = bottom
    for piece, line in made.curves.items():
        if not piece.source.part:
            line[0] = line[0][0], 0.0
            line[1] = line[1][0], line[1][1] / 2
        if not piece.target.part:
            line[-1] = line[-1][0], bottom
    margins = [port for port in sheet.bottoms if port in frame.margins]
    for k, port in enumerate(margins):
        away = _RAIL * (k + 1)
        corners = [
            (made.bottoms[port], low),
            (made.bottoms[port], low + away),
            (left - away, low + away),
            (left - away, top - away),
            (made.tops[port], top - away),
            (made.tops[port], top),
        ]
        made.rails[port] = bent(corners)
        for piece, line in made.curves.items():
            if piece.target == ("", port):
                line[-1] = corners[0]
            if piece.source == ("", port):
                line[0] = corners[-1]
    return made


def _with_room(sheet: Sheet, wide: float, high: float) -> Sheet:
    """A sheet with room for a title at its top, between the lines that enter there."""
    spans: list[tuple[float, float]] = []
    for piece, line in sheet.curves.items():
        if not piece.source.part:
            xs = [x for x, y in [*flattened(line)[:1], *flattened(line)] if y < high]
            spans += [(min(xs), max(xs))] if xs else []
    if not wide or not spans:
        return sheet
    room = wide + 2 * _SIDE
    starts = [0.0, *(right for _, right in spans)]
    ends = [*(left for left, _ in spans), sheet.width]
    for start in starts:
        free = not any(left < start + room and start < right for left, right in spans)
        if free and start + room <= sheet.width:
            return sheet
    right, left = max(starts) + room - sheet.width, room - min(ends)
    made = shifted(sheet, left, 0.0) if left < right else sheet
    made.width = sheet.width + min(left, right)
    return made


def shifted(sheet: Sheet, right: float, down: float) -> Sheet:
    """The same sheet with all of its content elsewhere."""
    return Sheet(
        sheet.width,
        sheet.height,
        {n: (a + right, b + down, c + right, d + down) for n, (a, b, c, d) in sheet.boxes.items()},
        {piece: moved(line, right, down) for piece, line in sheet.curves.items()},
        {piece: moved(tip, right, down) for piece, tip in sheet.tips.items()},
        {port: x + right for port, x in sheet.tops.items()},
        {port: x + right for port, x in sheet.bottoms.items()},
        {port: moved(line, right, down) for port, line in sheet.rails.items()},
    )


def straight(start: Point, end: Point) -> Curves:
    """A straight line as a Bézier curve."""
    (x, y), (to_x, to_y) = start, end
    third, rest = ((to_x - x) / 3, (to_y - y) / 3), ((to_x - x) * 2 / 3, (to_y - y) * 2 / 3)
    return [start, (x + third[0], y + third[1]), (x + rest[0], y + rest[1]), end]


def bent(corners: Sequence[Point]) -> Curves:
    """A line through some corners, which are round."""
    line: Curves = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        line += straight(line[-1], _towards(corner, before))[1:]
        line += [corner, corner, _towards(corner, after)]
    return line + straight(line[-1], corners[-1])[1:]


def _towards(start: Point, end: Point) -> Point:
    """A point near to the start on the way to the end."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = abs(across) + abs(down)  # one of them is 0
    share = min(_BEND, length / 2) / length if length else 0.0
    return start[0] + across * share, start[1] + down * share


def _across(box: Box) -> float:
    left, _, right, _ = box
    return (left + right) / 2


def _put(line: Curves, end: int, x: float) -> None:
    """Move an end of a line to the left or right, and how it begins there."""
    by = x - line[end][0]
    for k in (end, 1 if end == 0 else -2):
        line[k] = line[k][0] + by, line[k][1]
