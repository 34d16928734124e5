"""Turn frames upside down: the backward pass leads upwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taxpr_jupyter._layout.frame_dot import TAB, TAB_WIDE
from taxpr_jupyter._layout.frames import Frame
from taxpr_jupyter._layout.geometry import Point
from taxpr_jupyter._layout.pieces import Piece
from taxpr_jupyter._layout.raw import moved
from taxpr_jupyter._layout.sheet import Sheet
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Node


def flipped(sheet: Sheet) -> Sheet:
    """The sheet upside down."""
    high = sheet.height

    def turned(points: Sequence[Point]) -> list[Point]:
        return [(x, high - y) for x, y in points]

    return Sheet(
        sheet.width,
        high,
        {n: (a, high - d, c, high - b) for n, (a, b, c, d) in sheet.boxes.items()},
        {piece: turned(line) for piece, line in sheet.curves.items()},
        {piece: turned(tip) for piece, tip in sheet.tips.items()},
        sheet.tops,
        sheet.bottoms,
        {port: turned(line) for port, line in sheet.rails.items()},
    )


def against(sheet: Sheet) -> Sheet:
    """The sheet upside down, and read against its lines: so these lead downwards again."""
    made = flipped(sheet)
    made.curves = {_back(piece): line[::-1] for piece, line in made.curves.items()}
    made.tips = {_back(piece): tip for piece, tip in made.tips.items()}
    made.rails = {port: line[::-1] for port, line in made.rails.items()}
    made.tops, made.bottoms = made.bottoms, made.tops
    return made


def _back(piece: Piece) -> Piece:
    return piece._replace(source=piece.target, target=piece.source)


def upwards(frame: Frame, sheets: Mapping[str | None, Sheet]) -> Sheet:
    """A finished frame upside down, but for its nodes.

    Args:
        frame: The frame.
        sheets: Its sheet, and the sheets of the frames in it, by their ids.
    """
    made = flipped(sheets[frame.id])
    beside = {one.piece for several in frame.beside.values() for one in several}
    for name, part in frame.parts.items():
        left, top, right, bottom = made.boxes[name]
        if isinstance(part, Frame):
            made.boxes[name] = left, bottom - sheets[part.id].height, right, bottom
        elif isinstance(part, Node) and theme.look_of(part).shape == "folder":
            # Its tab is at the top again: lines begin there, and end below it.
            made.boxes[name] = left, top + TAB, right, bottom + TAB
            for piece, line in made.curves.items():
                if piece in beside:
                    continue
                (x, y), low = line[0], abs(line[0][1] - top) < 2
                if piece.source.part == name and low and x < right - TAB_WIDE:
                    line[0] = x, y + TAB
                if piece.target.part == name and (tip := made.tips.get(piece)):
                    by = bottom + TAB - min(y for _, y in tip)
                    if 0 < by < TAB + 2:
                        made.tips[piece] = moved(tip, 0.0, by)
                        line[-1] = line[-1][0], line[-1][1] + by
    return made
