"""Put room between the rows of two passes, so that partners are at one height."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from taxpr_jupyter._layout.dot import text_width
from taxpr_jupyter._layout.ends import box_of
from taxpr_jupyter._layout.frame_dot import TAB
from taxpr_jupyter._layout.frames import Frame
from taxpr_jupyter._layout.geometry import Box, Curves, Point, middle_of
from taxpr_jupyter._layout.pieces import Pair, Piece
from taxpr_jupyter._layout.raw import moved
from taxpr_jupyter._layout.sheet import LINE, Sheet, clear
from taxpr_jupyter._model import theme

_ROW = 4.0  # points: the least height of what is free between two rows

Sheets = dict[str | None, Sheet]


class PassSide:
    """All of one pass, with the frames in it.

    Args:
        frame: The frame of the pass.
        sheets: The layouts of all frames. Those of this one are replaced by `stretch`.
        left: Where it begins, in points.
        top: The same from above.

    Attributes:
        boxes: The box of each node, twin and frame, by its name.
        solid: The boxes that no line may cross: titles of frames, but no frames.
        lines: All lines, with their pieces.
    """

    def __init__(self, frame: Frame, sheets: Sheets, left: float, top: float) -> None:
        self._sheets = sheets
        self._places = list(_places(frame, sheets, left, top))
        self.boxes: dict[str, Box] = {}
        self.solid: dict[str, Box] = {}
        self.lines: list[tuple[Piece, Curves]] = []
        for one, x, y in self._places:
            sheet = sheets[one.id]
            if one.cluster:
                self.boxes[box_of(one.id)] = x, y, x + sheet.width, y + sheet.height
                lines = one.cluster.lines
                wide = max(text_width(line, theme.FONT_SIZE) for line in lines)
                self.solid[box_of(one.id)] = x, y, x + wide + 10, y + LINE * len(lines) + 4
            for name, part in one.parts.items():
                if not isinstance(part, Frame):
                    a, b, c, d = sheet.boxes[name]
                    self.boxes[name] = a + x, b + y, c + x, d + y
                    self.solid[name] = a + x, b + y - TAB, c + x, d + y
            self.lines += [(piece, moved(line, x, y)) for piece, line in sheet.curves.items()]

    def free(self, above: float, below: float) -> list[float]:
        """Heights between two rows where it can be stretched, in the middle of free room."""
        boxes = sorted((top, bottom) for _, top, _, bottom in self.solid.values())
        lows = itertools.accumulate((bottom for _, bottom in boxes), max)
        return [
            (low + top) / 2
            for low, (top, _) in zip(lows, boxes[1:], strict=False)
            if top > low + _ROW and above < low and top < below
        ]

    def stretch(self, more: Mapping[float, float]) -> None:
        """Add room, in points by where it is, from the top."""
        if not more:
            return
        spots, sums = list(more), [0.0, *itertools.accumulate(more.values())]

        def down(y: float) -> float:
            return y + sums[bisect.bisect(spots, y)]

        for frame, _, top in self._places:
            self._sheets[frame.id] = _stretched(frame, self._sheets[frame.id], top, down)


def _places(
    frame: Frame, sheets: Sheets, x: float, y: float
) -> Iterator[tuple[Frame, float, float]]:
    yield frame, x, y
    for one in frame.inner():
        left, top, _, _ = sheets[frame.id].boxes[box_of(one.id)]
        yield from _places(one, sheets, x + left, y + top)


def _stretched(frame: Frame, sheet: Sheet, top: float, down: Callable[[float], float]) -> Sheet:
    """A sheet whose top is at some height, with the heights of all in it moved down."""

    def moved_to(y: float) -> float:
        return down(y + top) - down(top)

    boxes: dict[str, Box] = {}
    for name, (left, high, right, low) in sheet.boxes.items():
        if isinstance(frame.parts[name], Frame):
            boxes[name] = left, moved_to(high), right, moved_to(low)
        else:
            _, y = middle_of(sheet.boxes[name])
            by = moved_to(y) - y
            boxes[name] = left, high + by, right, low + by
    curves = {piece: [(x, moved_to(y)) for x, y in line] for piece, line in sheet.curves.items()}
    tips: dict[Piece, Sequence[Point]] = {}
    for piece, tip in sheet.tips.items():
        (_, y), (x, end) = tip[1], sheet.curves[piece][-1]
        tips[piece] = moved(tip, 0.0, moved_to(y) - y)
        curves[piece][-1] = x, end + moved_to(y) - y
    frames = {name for name, part in frame.parts.items() if isinstance(part, Frame)}
    curves = {piece: clear(piece, line, boxes, frames) for piece, line in curves.items()}
    return dataclasses.replace(
        sheet,
        height=moved_to(sheet.height),
        boxes=boxes,
        curves=curves,
        tips=tips,
        rails={port: [(x, moved_to(y)) for x, y in line] for port, line in sheet.rails.items()},
    )


def align(forward: PassSide, backward: PassSide, pair: Pair) -> tuple[float, float]:
    """Stretch both passes, and say how far each moves down."""
    weights = dict.fromkeys(pair.partners, 3)
    for rung in pair.rungs.values():
        weights.setdefault((rung.source.part, rung.target.part), 1)
    sides = forward, backward
    rows = sorted(
        (middle_of(forward.boxes[one])[1], middle_of(backward.boxes[other])[1], weight)
        for (one, other), weight in weights.items()
        if one in forward.solid and other in backward.solid  # no frames
    )
    more: list[dict[float, float]] = [{}, {}]
    done, starts = [0.0, 0.0], [0.0, 0.0]
    last: Sequence[float] = ()
    for heights in _chain(rows):
        by = heights[0] + done[0] - heights[1] - done[1]
        which = 1 if by > 0 else 0
        if not last:
            starts[which] = abs(by)
        else:
            spots = sides[which].free(last[which], heights[which])
            if not spots:
                continue
            more[which] |= {spot: abs(by) / len(spots) for spot in spots}
        done[which] += abs(by)
        last = heights
    for side, room in zip(sides, more, strict=True):
        side.stretch(room)
    return starts[0], starts[1]


def _chain(rows: Sequence[tuple[float, float, int]]) -> list[tuple[float, float]]:
    """The most important rows whose order is the same on both sides."""
    best: list[tuple[int, list[tuple[float, float]]]] = []
    for k, (y, other, weight) in enumerate(rows):
        before = [best[i] for i in range(k) if rows[i][0] < y - _ROW and rows[i][1] < other - _ROW]
        total, chain = max(before, key=lambda one: one[0], default=(0, []))
        best.append((total + weight, [*chain, (y, other)]))
    return max(best, key=lambda one: one[0], default=(0, []))[1]
