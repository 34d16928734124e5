"""Put a forward pass and its backward pass side by side, with lines for kept values.

The forward pass leads downwards and the backward pass upwards, so a statement and its derivative
are beside each other. A kept value goes straight from one to the other if the way is free; else it
has a twin. Gradients leave at the right, and go down along the margin together.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from taxpr_jupyter._layout.ends import box_of
from taxpr_jupyter._layout.frames import Frame, Framed, WayPart
from taxpr_jupyter._layout.geometry import (
    Box,
    Point,
    around,
    enters,
    flattened,
    grown,
    middle_of,
)
from taxpr_jupyter._layout.passes.aligned import PassSide, Sheets, align
from taxpr_jupyter._layout.passes.turned import upwards
from taxpr_jupyter._layout.pieces import Pair, Piece
from taxpr_jupyter._layout.sheet import Sheet, arrow, bent, straight

_LONG = 3.0  # the most of the height over the width
_WIDE = (1600.0, 3.5)  # a width in points, and over the height: one of them may be exceeded
_GUTTER = 28.0  # points between the passes
_RAIL, _AWAY = 5.0, 8.0  # points between lines along a margin, and between these and a pass
_STEP = 60.0  # points: the most that a line between the passes goes up or down
_TURNS = (14.0, 8.0, 20.0)  # points from the forward pass to where it does so
_HEIGHTS = (0.5, 0.3, 0.7, 0.2, 0.8)  # where a line may begin or end at a side of a node
_ABOVE = (6.0, 10.0, 15.0)  # points above a node
_BOX = 1000  # what it costs to run over a node; to cross a line costs 1


def put_side_by_side(frame: Frame, framed: Framed, sheets: Sheets) -> bool:
    """Make the sheet of a pair, and change the sheets of all frames in it.

    Args:
        frame: The frame of the pair.
        framed: The picture in frames. An edge with a drawn line loses its twin.
        sheets: The sheets by the ids of their frames.

    Returns:
        Whether it could be done: else the sheets are of no use.
    """
    pair = frame.pair
    assert pair, "its frame has one"
    forward, backward = framed.frames[pair.forward], framed.frames[pair.backward]
    for one in _inside(backward):
        sheets[one.id] = upwards(one, sheets)
    left = sheets[pair.forward].width + _GUTTER
    starts = align(PassSide(forward, sheets, 0.0, 0.0), PassSide(backward, sheets, left, 0.0), pair)
    high = min(starts)
    one = PassSide(forward, sheets, 0.0, starts[0] - high)
    other = PassSide(backward, sheets, left, starts[1] - high)
    ours, its = one.boxes[box_of(pair.forward)], other.boxes[box_of(pair.backward)]
    width, height = its[2], max(ours[3], its[3])
    if height > _LONG * width or width > max(_WIDE[0], _WIDE[1] * height):
        return False
    sheet = Sheet(width, height, {}, {}, {}, {}, {})
    sheet.boxes = {box_of(pair.forward): ours, box_of(pair.backward): its}
    _through(frame, sheets[pair.forward], ours, sheet)
    room = _Room(one, other)
    _draw_rungs(pair, framed, room, sheet)
    sheets[frame.id] = sheet
    return _draw_exits(frame, room, sheet)


def _inside(frame: Frame) -> Iterator[Frame]:
    yield frame
    for one in frame.inner():
        yield from _inside(one)


def _through(frame: Frame, forward: Sheet, box: Box, sheet: Sheet) -> None:
    """Draw the lines into the forward pass and out of it, straight on."""
    name = box_of(frame.pair.forward if frame.pair else None)
    for k, piece in enumerate(frame.pieces):
        if piece.target.part == name:
            sheet.tops[piece.source.port] = x = forward.tops[piece.target.port]
            sheet.curves[piece] = straight((x, 0.0), (x, box[1]))
        elif piece.source.part == name:
            # Without a port it begins anywhere at the border.
            x = forward.bottoms.get(piece.source.port, _AWAY + _RAIL * k)
            sheet.bottoms[piece.target.port] = x
            sheet.curves[piece] = straight((x, box[3]), (x, sheet.height))


_Name = TypeVar("_Name", str, int)


class _LineWay(NamedTuple):
    """A way that a line may take, and its cost."""

    cost: int
    corners: Sequence[Point]


class _Room:
    """The nodes and lines that are in the way of lines between both passes."""

    def __init__(self, forward: PassSide, backward: PassSide) -> None:
        self.boxes = forward.boxes | backward.boxes
        self._solid = [*forward.solid.items(), *backward.solid.items()]
        self._lines = [*forward.lines, *backward.lines]
        self._bounds = [(number, around(line)) for number, (_, line) in enumerate(self._lines)]
        self._paths: dict[int, Sequence[Point]] = {}
        self._names: list[str] = []  # of lines that were drawn
        self._drawn: list[tuple[int, Box]] = []
        self._gone: set[str] = set()

    def best(self, ways: Iterable[Sequence[Point]], own: Collection[str]) -> _LineWay | None:
        """The way that costs least, and the first one of these.

        Args:
            ways: The corners of ways with right angles.
            own: The names of parts that it may touch, with their lines, and of drawn ones.
        """
        best = None
        for corners in ways:
            cost = self._cost(corners, own)
            if best is None or cost < best.cost:
                best = _LineWay(cost, corners)
            if cost == 0:
                break
        return best

    def _cost(self, corners: Sequence[Point], own: Collection[str]) -> int:
        own = self._gone.union(own)
        over: set[str] = set()
        near: set[int] = set()
        crossed: set[int] = set()
        for part in (around(pair) for pair in itertools.pairwise(corners)):
            over.update(_met(self._solid, grown(part, 2.5, 2.5)))
            beside = _met(self._drawn, grown(part, 1.5, 1.5))
            near.update(number for number in beside if self._names[number] not in own)
            thin = grown(part, 0.5, 0.5)
            crossed.update(n for n in _met(self._bounds, thin) if self._runs_through(n, thin, own))
        return _BOX * len(over - own) + len(crossed) + len(near)

    def _runs_through(self, number: int, box: Box, own: Collection[str]) -> bool:
        piece, line = self._lines[number]
        if piece.source.part in own or piece.target.part in own:
            return False
        if number not in self._paths:
            self._paths[number] = flattened(line)
        return any(enters(*part, box) for part in itertools.pairwise(self._paths[number]))

    def beside(self, box: Box) -> tuple[float, float]:
        """The top and the bottom of a box with all boxes at its right."""
        left, high, _, low = box
        after = [one for _, one in self._solid if one[0] > left and one[1] < low and high < one[3]]
        _, top, _, bottom = around(
            [corner for one in (box, *after) for corner in (one[:2], one[2:])]
        )
        return top, bottom

    def draw(self, corners: Sequence[Point], name: str, twin: str = "") -> None:
        """Remember a line that was drawn, by a name, and instead of a twin."""
        number = len(self._names)
        self._names.append(name)
        self._drawn += [(number, around(pair)) for pair in itertools.pairwise(corners)]
        self._gone |= {twin} - {""}


def _met(boxes: Iterable[tuple[_Name, Box]], box: Box) -> list[_Name]:
    """The names of boxes that share room with one."""
    left, top, right, bottom = box
    return [
        name
        for name, (x, y, to_x, to_y) in boxes
        if y < bottom and top < to_y and x < right and left < to_x
    ]


def _draw_rungs(pair: Pair, framed: Framed, room: _Room, sheet: Sheet) -> None:
    """Draw what is kept from the one pass to the other where nothing is in the way."""
    ours = sheet.boxes[box_of(pair.forward)]
    for edge, piece in pair.rungs.items():
        twin = framed.twins[edge]
        own = piece.source.part, piece.target.part, twin
        best = room.best(_across(room.boxes, piece, twin, ours[2]), own)
        if best and best.cost == 0:
            near, tip = arrow(*best.corners[-2:])
            sheet.curves[piece] = bent([*best.corners[:-1], near])
            sheet.tips[piece] = tip
            room.draw(best.corners, edge, twin)
            framed.ways[edge] = [WayPart(pair.id, piece)]
            del framed.twins[edge]


def _across(
    boxes: Mapping[str, Box], piece: Piece, twin: str, right: float
) -> Iterator[Sequence[Point]]:
    """Ways from the right side of a part to the left side of another, the best one first."""
    source, target = boxes[piece.source.part], boxes[piece.target.part]
    low, high = source[1] + _RAIL, source[3] - _RAIL
    ends = [middle_of(boxes[twin])[1]]
    ends += [target[1] + share * (target[3] - target[1]) for share in _HEIGHTS]
    ends = [min(max(y, target[1] + _RAIL), target[3] - _RAIL) for y in ends]
    yield from ([(source[2], y), (target[0], y)] for y in ends if low <= y <= high)
    for y, turn in itertools.product(ends, _TURNS):
        start = min(max(y, low), high)
        if 0 < abs(y - start) <= _STEP:
            x = right + turn
            yield [(source[2], start), (x, start), (x, y), (target[0], y)]


def _draw_exits(frame: Frame, room: _Room, sheet: Sheet) -> bool:
    """Draw what leaves the backward pass. Returns whether no line runs over a node."""
    exits: dict[str, list[Piece]] = {}
    for piece in frame.pieces:
        if piece not in sheet.curves and not piece.target.part:
            exits.setdefault(piece.target.port, []).append(piece)
    tops = {
        port: min(room.boxes[piece.source.part][1] for piece in pieces)
        for port, pieces in exits.items()
    }
    right = sheet.width + _AWAY
    worst = 0
    for port in sorted(exits, key=lambda port: -tops[port]):  # what begins lowest is innermost
        sheet.bottoms[port] = right
        for piece in exits[port]:
            own = piece.source.part, port
            best = room.best(_aside(room, room.boxes[own[0]], right, sheet.height), own)
            assert best is not None, "there are several ways"
            worst = max(worst, best.cost)
            sheet.curves[piece] = bent(best.corners)
            room.draw(best.corners, port)
        right += _RAIL
    sheet.width = right if exits else sheet.width
    return worst < _BOX


def _aside(room: _Room, box: Box, right: float, bottom: float) -> Iterator[Sequence[Point]]:
    """Ways from a part to the right and then down, the best one first."""
    for share in _HEIGHTS:
        y = box[1] + share * (box[3] - box[1])
        yield [(box[2], y), (right, y), (right, bottom)]
    for up in _ABOVE:
        x, y = box[2] - _AWAY, box[1] - up
        yield [(x, box[1]), (x, y), (right, y), (right, bottom)]
    x, (_, y) = box[2] + _RAIL, middle_of(box)
    top, low = room.beside(box)
    for more in _ABOVE:  # below or above all that stands in the way
        for at in (low + more, top - more):
            yield [(box[2], y), (x, y), (x, at), (right, at), (right, bottom)]
