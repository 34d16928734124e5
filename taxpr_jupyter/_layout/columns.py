"""Cut a tall frame into columns, read like a newspaper's, and a wide one into rows.

The frame is laid out already. It is cut between two rows where few lines cross, and the lower part
moves to the right of the upper one. Each line that crosses goes on from the bottom of a column, up
between the two, and into the next one at its top. A wide frame is cut into rows only if nothing
joins its parts.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from taxpr_jupyter._layout.geometry import Curves, Point, around, flattened, split
from taxpr_jupyter._layout.pieces import Piece, PieceEnd
from taxpr_jupyter._layout.raw import moved
from taxpr_jupyter._layout.sheet import Sheet, bent, straight

# A frame is cut if its height is more than a number of points, and than a multiple of its width.
_TALL = (750.0, 1.4)
_SLIM = (140.0, 2.6)
_WANTED = 0.8  # the best height over width
_MOST = 7  # columns
_STEP = 0.1  # the cost of one cut, on the scale of the logarithm of height over width
_LINE = 0.02  # the cost of a line that crosses one, times their number
_SLACK = 0.45  # how far a cut may be from its ideal height, as a share of a column's height
_WIDE = 2.8  # the width over the height of a frame that is cut into rows
_ROW = 1.6  # the best width over height of all rows
_RAIL = 5.0  # points between the lines between two columns
_ROOM = 7.0  # points between those and the columns


@dataclasses.dataclass(frozen=True)
class _Cut:
    """A place where a frame may be cut.

    Attributes:
        at: The height.
        lines: Where the lines that cross it are, from the left, by where they begin.
    """

    at: float
    lines: dict[PieceEnd, float]


def in_columns(sheet: Sheet) -> Sheet:
    """The sheet in columns if that makes it easier to read, else as it is."""
    high = sheet.height
    if not any(high > max(least, share * sheet.width) for least, share in (_TALL, _SLIM)):
        return sheet
    paths = {piece: flattened(line) for piece, line in sheet.curves.items()}
    possible = _possible(sheet, paths)
    ways = [_chosen(possible, high, number) for number in range(_MOST)]
    if not any(ways) and high > _SLIM[1] * sheet.width:
        ways.append(possible[-1:])  # one part fills nearly all: what is below it goes beside it
    drawn = {len(way): way for way in ways}
    if len(drawn) == 1:
        return sheet
    best = min(drawn.values(), key=lambda cuts: _cost(_Columns(sheet, cuts, paths), cuts))
    return _Columns(sheet, best, paths).sheet() if best else sheet


def in_rows(sheet: Sheet) -> Sheet:
    """The sheet in rows if it is wide, and consists of parts that nothing joins."""
    if sheet.width < _WIDE * sheet.height or sheet.tops or sheet.bottoms:
        return sheet
    lines = list(sheet.curves.items())
    spans = [(box[0], box[2]) for box in sheet.boxes.values()]
    drawn = [[*flattened(line), *sheet.tips.get(piece, ())] for piece, line in lines]
    spans += [(box[0], box[2]) for box in map(around, drawn)]
    starts, end = [0.0], 0.0
    for left, right in sorted(spans):
        starts += [left] if left > end + 1 else []
        end = max(end, right)
    across = math.sqrt(sheet.width * sheet.height * _ROW)
    made = Sheet(0.0, 0.0, {}, {}, {}, {}, {})
    shifts: list[Point] = []
    begin, row = 0.0, 0
    for start, stop in itertools.pairwise([*starts, sheet.width]):
        if stop - begin > across and start > begin:
            begin, row = start, row + 1
        shifts.append((-begin, row * (sheet.height + _ROOM)))
        made.width = max(made.width, stop - begin)
    made.height = sheet.height + shifts[-1][1]
    for name, (left, top, right, bottom) in sheet.boxes.items():
        x, y = shifts[bisect.bisect(starts, left) - 1]
        made.boxes[name] = left + x, top + y, right + x, bottom + y
    for piece, line in lines:
        shift = shifts[bisect.bisect(starts, line[0][0]) - 1]
        made.curves[piece] = moved(line, *shift)
        if tip := sheet.tips.get(piece):
            made.tips[piece] = moved(tip, *shift)
    return made


def _possible(sheet: Sheet, paths: Mapping[Piece, Sequence[Point]]) -> list[_Cut]:
    """The places where no part is in the way, and no line turns back."""
    found: list[_Cut] = []
    low = 0.0
    for top, bottom in sorted((box[1], box[3]) for box in sheet.boxes.values()):
        if top > low + 2 and low > 0:
            cut = _cut((top + low) / 2, paths)
            found += [cut] if cut else []
        low = max(low, bottom)
    return found


def _cut(at: float, paths: Mapping[Piece, Sequence[Point]]) -> _Cut | None:
    lines: dict[PieceEnd, float] = {}
    for piece, path in paths.items():
        if not piece.target.part:  # it leads from its column to the bottom of all
            continue
        crossed = [
            (one, other)
            for one, other in itertools.pairwise(path)
            if (one[1] < at) != (other[1] < at)
        ]
        if len(crossed) > 1 or (crossed and crossed[0][0][1] > crossed[0][1][1]):
            return None
        for one, other in crossed:
            share = (at - one[1]) / (other[1] - one[1])
            lines.setdefault(piece.source, one[0] + share * (other[0] - one[0]))
    return _Cut(at, lines)


def _chosen(possible: Sequence[_Cut], high: float, number: int) -> list[_Cut]:
    """So many cuts, or fewer, that make columns of about the same height."""
    cuts: list[_Cut] = []
    part = high / (number + 1)
    for k in range(1, number + 1):
        near = [
            (abs(cut.at - part * k) / part + _LINE * len(cut.lines) ** 2, cut.at, cut)
            for cut in possible
            if abs(cut.at - part * k) <= _SLACK * part and cut not in cuts
        ]
        if near:
            cuts.append(min(near, key=lambda one: one[:2])[2])
    return sorted(cuts, key=lambda cut: cut.at)


def _cost(columns: _Columns, cuts: Sequence[_Cut]) -> float:
    lines = sum(len(cut.lines) ** 2 for cut in cuts)
    shape = abs(math.log(columns.height / columns.width / _WANTED))
    return shape + _STEP * len(cuts) + _LINE * lines


class _Columns:
    """A sheet that is cut."""

    def __init__(
        self, sheet: Sheet, cuts: Sequence[_Cut], paths: Mapping[Piece, Sequence[Point]]
    ) -> None:
        self._sheet, self._cuts = sheet, cuts
        self._ends = [*(cut.at for cut in cuts), math.inf]
        starts = [0.0, *(cut.at for cut in cuts)]
        rails = [_RAIL * len(cut.lines) for cut in cuts]
        spans = [(math.inf, -math.inf)] * len(starts)
        points = itertools.chain(
            (corner for box in sheet.boxes.values() for corner in (box[:2], box[2:])),
            itertools.chain.from_iterable(paths.values()),
        )
        for x, y in points:
            column = self._column(y)
            left, right = spans[column]
            spans[column] = min(left, x), max(right, x)
        self._shifts: list[Point] = []
        self._gutters: list[float] = []  # where the room between two columns begins
        self.width = self.height = 0.0
        for k, (left, right) in enumerate(spans):
            top = rails[k - 1] + _ROOM if k else 0.0
            if k:
                self._gutters.append(self.width)
                self.width += rails[k - 1] + 2 * _ROOM
            self._shifts.append((self.width - left, top - starts[k]))
            self.width += right - left
            low = min(self._ends[k], sheet.height) - starts[k] + top
            self.height = max(self.height, low + (rails[k] + _ROOM if k < len(cuts) else 0.0))

    def _column(self, y: float) -> int:
        return bisect.bisect_left(self._ends, y)

    def sheet(self) -> Sheet:
        """The columns side by side."""
        old = self._sheet
        made = Sheet(self.width, self.height, {}, {}, {}, {}, {}, is_cut=True)
        for name, (left, top, right, bottom) in old.boxes.items():
            across, down = self._shifts[self._column(top)]
            made.boxes[name] = left + across, top + down, right + across, bottom + down
        for piece, line in old.curves.items():
            made.curves[piece] = self._line(piece, line)
            if tip := old.tips.get(piece):
                made.tips[piece] = moved(tip, *self._shifts[self._column(line[-1][1])])
        made.tops = {port: x + self._shifts[0][0] for port, x in old.tops.items()}
        made.bottoms = {
            piece.target.port: line[-1][0]
            for piece, line in made.curves.items()
            if not piece.target.part
        }
        return made

    def _line(self, piece: Piece, line: Curves) -> Curves:
        """A line with its ways from column to column."""
        made: Curves = []
        first = self._column(line[0][1])
        if not piece.target.part and first < len(self._cuts):
            upper, _ = _split_at(line, self._cuts[first].at)
            upper = moved(upper, *self._shifts[first])
            return upper + straight(upper[-1], (upper[-1][0], self.height))[1:]
        for k in range(first, self._column(line[-1][1])):
            upper, line = _split_at(line, self._cuts[k].at)
            made += moved(upper, *self._shifts[k])[1 if made else 0 :]
            made += self._rail(k, piece, upper[-1])[1:]
        rest = moved(line, *self._shifts[self._column(line[-1][1])])
        return made + rest[1 if made else 0 :]

    def _rail(self, k: int, piece: Piece, end: Point) -> Curves:
        """The way from where a line leaves a column to where it enters the next one."""
        lines = self._cuts[k].lines
        number = sorted(lines, key=lambda source: lines[source]).index(piece.source)
        away = _RAIL * (len(lines) - number)
        start, goal = ((end[0] + across, end[1] + down) for across, down in self._shifts[k : k + 2])
        low, high = start[1] + away, goal[1] - away
        across = self._gutters[k] + _ROOM + away
        return bent([start, (start[0], low), (across, low), (across, high), (goal[0], high), goal])


def _split_at(line: Curves, at: float) -> tuple[Curves, Curves]:
    """The parts of a line above and below a height."""
    for k in range(0, len(line) - 3, 3):
        if line[k][1] <= at < line[k + 3][1]:
            low, high = 0.0, 1.0
            for _ in range(20):
                middle = (low + high) / 2
                first, _ = split(line[k : k + 4], middle)
                low, high = (middle, high) if first[-1][1] < at else (low, middle)
            first, second = split(line[k : k + 4], high)
            return [*line[:k], *first], [*second, *line[k + 4 :]]
    raise ValueError("the line does not cross")
