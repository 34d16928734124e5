"""Put a forward pass and its backward pass side by side, with lines for what is kept.

The forward pass leads downwards and the backward pass upwards, so a statement and its derivative
stand beside each other. What is kept goes straight from the one to the other where the way is free;
else it has a twin. Gradients leave at the right, and go down along the margin together.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from taxpr_jupyter._layout.aligned import Sheets, Side, align
from taxpr_jupyter._layout.ends import box_of
from taxpr_jupyter._layout.frames import Frame, Framed, Piece, Step
from taxpr_jupyter._layout.geometry import (
    Box,
    Lines,
    Point,
    around,
    flattened,
    grown,
    meet,
    middle_of,
)
from taxpr_jupyter._layout.pair import Pair
from taxpr_jupyter._layout.sheet import Sheet, arrow, bent, straight
from taxpr_jupyter._layout.turned import upwards

_FEWEST = 2  # statements that both passes show
_GUTTER = 28.0  # points between the passes
_RAIL, _AWAY = 5.0, 8.0  # points between lines along a margin, and between these and a pass
_STEP = 60.0  # points: the most that a line between the passes goes up or down
_TURNS = (14.0, 8.0, 20.0)  # points from the forward pass to where it does so
_HEIGHTS = (0.5, 0.3, 0.7, 0.2, 0.8)  # where a line may begin or end at a side of a node
_ABOVE = (6.0, 10.0, 15.0)  # points above a node
_BOX = 1000  # what it costs to run over a node; to cross a line costs 1


def put_side_by_side(frame: Frame, framed: Framed, sheets: Sheets) -> bool:
    """Make the sheet of a pair, and change those of all frames in it.

    Args:
        frame: The frame of the pair.
        framed: The picture in frames. Where a line is drawn, its edge has no twin any more.
        sheets: The sheets by the ids of their frames.

    Returns:
        Whether it could be done: else the sheets are of no use.
    """
    pair = frame.pair
    assert pair, "its frame has one"
    forward, backward = framed.frames[pair.forward], framed.frames[pair.backward]
    both = {(piece.source.part, piece.target.part) for piece in pair.rungs.values()}
    if len(both | pair.partners.keys()) < _FEWEST:
        return False
    for one in _inside(backward):
        sheets[one.id] = upwards(one, sheets)
    left = sheets[pair.forward].width + _GUTTER
    starts = align(Side(forward, sheets, 0.0, 0.0), Side(backward, sheets, left, 0.0), pair)
    high = min(starts)
    one = Side(forward, sheets, 0.0, starts[0] - high)
    other = Side(backward, sheets, left, starts[1] - high)
    ours, its = one.boxes[box_of(pair.forward)], other.boxes[box_of(pair.backward)]
    height = max(ours[3], its[3])
    sheet = Sheet(its[2], height, {}, {}, {}, {}, {})
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


class _Room:
    """What is in the way of lines between both passes."""

    def __init__(self, forward: Side, backward: Side) -> None:
        self.boxes = forward.boxes | backward.boxes
        self._solid = forward.solid | backward.solid
        lines = (*forward.lines, *backward.lines)
        self._pieces = [piece for piece, _ in lines]
        self._lines = Lines([flattened(line) for _, line in lines])
        self._drawn: list[tuple[str, Sequence[Box]]] = []
        self._gone: set[str] = set()

    def cost(self, corners: Sequence[Point], own: Collection[str]) -> int:
        """What a way with right angles costs.

        Args:
            corners: Its corners.
            own: The names of parts that it may touch, with their lines, and of what is drawn.
        """
        own = self._gone.union(own)
        parts = [around(pair) for pair in itertools.pairwise(corners)]
        wide, bounds = [grown(part, 2.5, 2.5) for part in parts], grown(around(corners), 2.5, 2.5)
        over = sum(
            any(meet(part, box) for part in wide)
            for name, box in self._solid.items()
            if meet(bounds, box) and name not in own
        )
        crossed = {
            number
            for part in parts
            for number in self._lines.through(grown(part, 0.5, 0.5))
            if own.isdisjoint((self._pieces[number].source.part, self._pieces[number].target.part))
        }
        near = sum(
            any(meet(one, part) for one in drawn for part in parts)
            for name, drawn in self._drawn
            if name not in own
        )
        return _BOX * over + len(crossed) + near

    def best(
        self, ways: Iterable[Sequence[Point]], own: Collection[str]
    ) -> tuple[int, Sequence[Point]]:
        """What the cheapest of some ways costs, and its corners; the first one of several."""
        found: list[tuple[int, Sequence[Point]]] = []
        for way in ways:
            found.append((self.cost(way, own), way))
            if found[-1][0] == 0:
                break
        return min(found, key=lambda one: one[0])

    def draw(self, corners: Sequence[Point], name: str = "", twin: str = "") -> None:
        """Remember a line that was drawn, by a name, and instead of a twin."""
        parts = [grown(around(pair), 1.5, 1.5) for pair in itertools.pairwise(corners)]
        self._drawn.append((name, parts))
        self._gone |= {twin} - {""}


def _draw_rungs(pair: Pair, framed: Framed, room: _Room, sheet: Sheet) -> None:
    """Draw what is kept from the one pass to the other where nothing is in the way."""
    ours = sheet.boxes[box_of(pair.forward)]
    for edge, piece in pair.rungs.items():
        twin = framed.twins[edge]
        own = piece.source.part, piece.target.part, twin
        ways = _across(room.boxes, piece, twin, ours[2])
        corners = next((way for way in ways if room.cost(way, own) == 0), None)
        if corners:
            near, tip = arrow(*corners[-2:])
            sheet.curves[piece] = bent([*corners[:-1], near])
            sheet.tips[piece] = tip
            room.draw(corners, twin=twin)
            framed.ways[edge] = [Step(pair.id, piece)]
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
            cost, corners = room.best(_aside(room.boxes[own[0]], right, sheet.height), own)
            worst = max(worst, cost)
            sheet.curves[piece] = bent(corners)
            room.draw(corners, port)
        right += _RAIL
    sheet.width = right if exits else sheet.width
    return worst < _BOX


def _aside(box: Box, right: float, bottom: float) -> Iterator[Sequence[Point]]:
    """Ways from a part to the right and then down, the best one first."""
    for share in _HEIGHTS:
        y = box[1] + share * (box[3] - box[1])
        yield [(box[2], y), (right, y), (right, bottom)]
    for up in _ABOVE:
        x, y = box[2] - _AWAY, box[1] - up
        yield [(x, box[1]), (x, y), (right, y), (right, bottom)]
