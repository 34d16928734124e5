"""Lay a picture out frame by frame, from the inside out, and join the frames."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from taxpr import introspect
from taxpr_jupyter._layout.columns import in_columns, in_rows
from taxpr_jupyter._layout.ends import EdgeEnds, box_of
from taxpr_jupyter._layout.frame_dot import FrameDot
from taxpr_jupyter._layout.frames import Frame, Framed
from taxpr_jupyter._layout.geometry import Box, Curves, Point, crossing, flattened
from taxpr_jupyter._layout.layout import Plan
from taxpr_jupyter._layout.passes.pair import pairs_of
from taxpr_jupyter._layout.passes.side_by_side import put_side_by_side
from taxpr_jupyter._layout.passes.turned import against
from taxpr_jupyter._layout.pieces import Pair, PieceEnd
from taxpr_jupyter._layout.raw import Raw, moved, read
from taxpr_jupyter._layout.sheet import LINE, Sheet, bordered, read_sheet
from taxpr_jupyter._model.model import Node, Picture

_PAD = 4.0  # points around a picture
_TITLE = 7.0  # points between the left border of a cluster and its title
# Points: the size of a badge, and between it and the corner of its node, or the next one.
_BADGE, _BADGE_IN = 9.0, 2.0
_FEWEST = 2  # statements that passes side by side share
_WIDEST = 3  # times as wide as high may a picture with passes side by side be
_MOST = 5000  # layouts of frames that are kept
_LINES = 50  # the most lines of a frame whose crossings are counted: it takes long for more
_LARGER = 1.15  # so much larger at most is a layout that is taken for its fewer crossings


@dataclasses.dataclass
class Layout:
    """Where the parts of a picture are, in points.

    Attributes:
        view: Left, top, right and bottom of the whole.
        nodes: The box of each node, by its id.
        clusters: The box of each cluster, by its id.
        titles: Where each line of a cluster's title begins, on its base line.
        curves: The line of each edge, by its id.
        tips: The corners of the arrow tip of each edge that has one.
        twins: For an edge that is not drawn from end to end, by its id: the box of the twin of its
            source, the begin of its line, and the text on it.
    """

    view: Box
    nodes: dict[str, Box] = dataclasses.field(default_factory=dict)
    clusters: dict[str, Box] = dataclasses.field(default_factory=dict)
    titles: dict[str, list[Point]] = dataclasses.field(default_factory=dict)
    curves: dict[str, Curves] = dataclasses.field(default_factory=dict)
    tips: dict[str, Sequence[Point]] = dataclasses.field(default_factory=dict)
    twins: dict[str, tuple[Box, str]] = dataclasses.field(default_factory=dict)


class RecentLayouts(introspect.Recent[Raw]):
    """Keeps the layouts of frames, by their DOT texts."""

    def __init__(self) -> None:
        super().__init__(_MOST)


def arranged(picture: Picture, kept: RecentLayouts) -> Plan[Layout]:
    """Lay out a picture: yields DOT texts, is sent their SVGs, returns the layout.

    Args:
        picture: The picture.
        kept: Layouts of frames; these are not laid out again.
    """
    pairs = pairs_of(picture, EdgeEnds(picture))
    layout = yield from _laid_out(picture, kept, pairs)
    if layout is None or (pairs and (picture.narrow or _width(layout) > _WIDEST)):
        alone = yield from _laid_out(picture, kept, [])
        assert alone is not None, "all fits without pairs"
        measure = _points if picture.narrow else _width
        layout = alone if layout is None or measure(alone) < measure(layout) else layout
    return layout


def _width(layout: Layout) -> float:
    """How many times as wide as high it is."""
    left, top, right, bottom = layout.view
    return (right - left) / max(1.0, bottom - top)


def _points(layout: Layout) -> float:
    """How wide it is."""
    left, _, right, _ = layout.view
    return right - left


def _laid_out(picture: Picture, kept: RecentLayouts, pairs: Sequence[Pair]) -> Plan[Layout | None]:
    """The layout with these passes side by side; None if that does not fit."""
    framed = Framed(picture, pairs)
    if any(pair.shared < _FEWEST for pair in pairs):
        return None
    sheets: dict[str | None, Sheet] = {}
    waiting = list(framed.frames.values())
    while waiting:
        ready = [f for f in waiting if all(one.id in sheets for one in f.inner())]
        waiting = [frame for frame in waiting if frame not in ready]  # by identity
        for frame in ready:
            _level(frame, sheets)
            if frame.pair and not put_side_by_side(frame, framed, sheets):
                return None
        ready = [frame for frame in ready if not frame.pair]
        sizes = [{box_of(one.id): sheets[one.id].size for one in f.inner()} for f in ready]
        dots = [FrameDot(frame, known) for frame, known in zip(ready, sizes, strict=True)]
        made = yield from _sheets(dots, kept, picture.narrow)
        crossings = [_crossings(sheet, frame) for sheet, frame in zip(made, ready, strict=True)]
        sheets |= {frame.id: sheet for frame, sheet in zip(ready, made, strict=True)}
        # Graphviz begins with the order in which the parts are given, and ends near to it.
        crossed = [k for k, n in enumerate(crossings) if n and not ready[k].is_cyclic]
        others = [FrameDot(ready[k], sizes[k], last_first=True) for k in crossed]
        made_again = yield from _sheets(others, kept, picture.narrow)
        for k, other in zip(crossed, made_again, strict=True):
            small = other.width * other.height < _LARGER * made[k].width * made[k].height
            if small and _crossings(other, ready[k]) < crossings[k]:
                sheets[ready[k].id] = other
    return _joined(picture, framed, sheets)


def _sheets(dots: Sequence[FrameDot], kept: RecentLayouts, narrow: bool) -> Plan[list[Sheet]]:
    """The sheets of frames, which an engine lays out together."""
    raws = {dot.text: kept.get(dot.text) for dot in dots}
    if missing := [text for text, raw in raws.items() if raw is None]:
        svgs = yield missing
        raws |= {text: read(svg) for text, svg in zip(missing, svgs, strict=True)}
    made: list[Sheet] = []
    for dot in dots:
        raw = raws[dot.text]
        assert raw is not None, "it was laid out"
        kept.put(dot.text, raw)
        made.append(_finished(read_sheet(dot, raw), dot.frame, narrow))
    return made


def _crossings(sheet: Sheet, frame: Frame) -> int:
    """The pairs of lines without a common end that cross; 0 where there are very many lines."""
    if len(sheet.curves) > _LINES:
        return 0

    def name(end: PieceEnd) -> str | PieceEnd:  # the ports of a node are one end
        return end.part if isinstance(frame.parts.get(end.part), Node) else end

    ends = [{name(piece.source), name(piece.target)} for piece in sheet.curves]
    return sum(
        ends[k].isdisjoint(ends[other])
        for k, other in crossing([flattened(line) for line in sheet.curves.values()])
    )


def _level(frame: Frame, sheets: Mapping[str | None, Sheet]) -> None:
    """Make the branches of a choice equally high."""
    branches = [sheets[one.id] for one in frame.inner() if box_of(one.id) in frame.branches]
    for sheet in branches:
        sheet.height = max(one.height for one in branches)
        for piece, line in sheet.curves.items():
            if not piece.target.part:
                line[-1] = line[-1][0], sheet.height


def _finished(sheet: Sheet, frame: Frame, narrow: bool) -> Sheet:
    if frame.turned:
        return against(bordered(against(sheet), frame))
    if not frame.passing:
        sheet = in_rows(sheet if narrow else in_columns(sheet))
    return bordered(sheet, frame)


def _joined(picture: Picture, framed: Framed, sheets: Mapping[str | None, Sheet]) -> Layout:
    whole = sheets[None]
    layout = Layout((0.0, 0.0, whole.width + 2 * _PAD, whole.height + 2 * _PAD))
    corners: dict[str | None, Point] = {None: (_PAD, _PAD)}
    for frame in reversed(framed.frames.values()):  # outer ones first
        right, down = corners[frame.id]
        sheet = sheets[frame.id]
        if frame.cluster:
            name = frame.cluster.id
            layout.clusters[name] = right, down, right + sheet.width, down + sheet.height
            layout.titles[name] = [
                (right + _TITLE, down + LINE * (k + 1) - 1) for k in range(len(frame.cluster.lines))
            ]
        for name, part in frame.parts.items():
            left, top, after, below = sheet.boxes[name]
            if isinstance(part, Frame):
                corners[part.id] = right + left, down + top
            elif not isinstance(part, str):
                layout.nodes[name] = left + right, top + down, after + right, below + down
    badges = Counter[str]()
    for node in picture.nodes:
        if node.on:
            _, _, right, bottom = layout.nodes[node.on]
            right -= _BADGE_IN + (_BADGE + _BADGE_IN) * badges[node.on]
            layout.nodes[node.id] = right - _BADGE, bottom - _BADGE / 2, right, bottom + _BADGE / 2
            badges[node.on] += 1
    for edge in picture.edges:
        line: Curves = []
        for name, piece, margin in framed.ways[edge.id]:
            sheet, corner = sheets[name], corners[name]
            points = moved(sheet.curves[piece] if piece else sheet.rails[margin], *corner)
            line += points[1:] if line else points
            if piece and piece in sheet.tips:
                layout.tips[edge.id] = moved(sheet.tips[piece], *corner)
        layout.curves[edge.id] = line
        if twin := framed.twins.get(edge.id):
            name, piece, _ = framed.ways[edge.id][0]
            assert piece is not None, "it begins at the twin"
            text = framed.frames[name].parts[twin]
            assert isinstance(text, str), "a twin is a text"
            left, top, after, below = sheets[name].boxes[twin]
            right, down = corners[name]
            layout.twins[edge.id] = (left + right, top + down, after + right, below + down), text
    return layout
