"""Write one frame in the DOT language, without what does not change its layout."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

from taxpr_jupyter._layout.dot import GRAPH, NODE, POINTS, listed, size_of, small_size_of
from taxpr_jupyter._layout.frames import Beside, Frame
from taxpr_jupyter._layout.geometry import Box
from taxpr_jupyter._layout.pieces import Piece, PieceEnd
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Node

TAB = 4.0  # points: the height of the tab of a folder, and its width
TAB_WIDE = 27.0
_GRAPH = {name: GRAPH[name] for name in ("nodesep", "ranksep", "nslimit", "nslimit1")}
_NODE = {"fixedsize": NODE["fixedsize"], "label": ""}
_EDGE = {"arrowsize": "0.5", "arrowhead": "none"}
_POINT = {"width": "0.01", "height": "0.01", "shape": "box"}
_TABLE = '<table border="0" cellborder="0" cellspacing="0" cellpadding="0">'
_PORT = 2  # points: the width of the cell of a port
_BROAD = 1500.0  # points: the greatest width of a row of inputs or outputs
_ROW_WIDE, _ROW_LONG = 440.0, 1.6  # points, and width over height, of nodes that stay in one row
_ROWS = 6  # the most rows made of one
_ARROW, _APART = 16.0, 3.0  # points between a node and what is beside it, and between such parts
_GAP = (10.0, 17.0)  # points between the nodes of a row, and between rows


@dataclasses.dataclass(frozen=True)
class BoxSize:
    """The size of a frame that is laid out, in points, and where its ports are, from the left."""

    width: float
    height: float
    tops: Mapping[str, float] = dataclasses.field(default_factory=dict)
    bottoms: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Together:
    """A node with the parts beside it, as one box.

    Args:
        main: The size of the node.
        beside: The parts beside it.
        sizes: Their sizes.
        texts: The lengths of the texts at the pieces between them, in characters.

    Attributes:
        size: The size of all, with the ports "n", "nw", "ne" and "s" of the node.
        boxes: The boxes of the parts beside it, in all.
        main: The box of the node.
    """

    def __init__(
        self,
        main: tuple[float, float],
        beside: Sequence[Beside],
        sizes: Mapping[str, tuple[float, float]],
        texts: Mapping[Piece, int],
    ) -> None:
        wide, high = main
        sides = [[one for one in beside if one.right is right] for right in (False, True)]
        widths = [max((sizes[one.part][0] for one in side), default=0.0) for side in sides]
        gaps = [max((_ARROW + 5 * texts[one.piece] for one in side), default=0.0) for side in sides]
        heights = [sum(sizes[one.part][1] + _APART for one in side) - _APART for side in sides]
        height = max(high, *heights)
        left, top = widths[0] + gaps[0], (height - high) / 2
        right = left + wide
        self.main = left, top, right, top + high
        self.boxes: dict[str, Box] = {}
        for side, width, gap, high_side in zip(sides, widths, gaps, heights, strict=True):
            y = (height - high_side) / 2
            for one in side:
                across, down = sizes[one.part]
                x = right + gap if one.right else width - across
                self.boxes[one.part] = x, y, x + across, y + down
                y += down + _APART
        tops = {"nw": left + wide / 4, "n": left + wide / 2, "ne": right - wide / 4}
        self.size = BoxSize(right + gaps[1] + widths[1], height, tops, {"s": left + wide / 2})


class FrameDot:
    """A frame in the DOT language.

    Args:
        frame: The frame.
        sizes: The sizes of the frames in it, by their names as its parts.
        last_first: Whether the parts are given from the last to the first: Graphviz, which begins
            with that order, may find another one with fewer crossings.

    Attributes:
        frame: The frame.
        sizes: The sizes of the frames in it.
        ids: The id of each part that an engine lays out.
        together: The nodes with parts beside them, by their names.
        tops: The id of each port at the top.
        bottoms: The id of each port at the bottom.
        pieces: The id of each piece that an engine lays out.
        boxes: The width and height of each part.
        text: The text: equal for frames that have the same layout, whatever their addresses are.
    """

    def __init__(
        self, frame: Frame, sizes: Mapping[str, BoxSize], *, last_first: bool = False
    ) -> None:
        self.frame, self.sizes = frame, sizes
        beside = {one.part: one for several in frame.beside.values() for one in several}
        names = [name for name in frame.parts if name not in beside]
        self.ids = {name: f"n{k}" for k, name in enumerate(names)}
        # The ways along the margin are left of the others.
        self.tops = {port: f"t{k}" for k, port in enumerate(_ordered(frame.tops, frame))}
        self.bottoms = {port: f"b{k}" for k, port in enumerate(_ordered(frame.bottoms, frame))}
        short = {one.piece for one in beside.values()}
        pieces = [piece for piece in frame.pieces if piece not in short]
        self.pieces = {piece: f"e{k}" for k, piece in enumerate(pieces)}
        self.boxes = {name: self._box(name) for name in frame.parts}
        self.together = {
            name: Together(self.boxes[name], several, self.boxes, frame.texts)
            for name, several in frame.beside.items()
        }
        self._known = {**sizes, **{name: one.size for name, one in self.together.items()}}
        given = reversed(self.ids) if last_first else self.ids
        self.text = "\n".join([*self._lines(given), ""])

    def _box(self, name: str) -> tuple[float, float]:
        part = self.frame.parts[name]
        if isinstance(part, Frame):
            return self.sizes[name].width, self.sizes[name].height
        if isinstance(part, Node):
            look = theme.look_of(part)
            width, height = size_of(part, look)
            return width, height + (TAB if look.shape == "folder" else 0.0)
        return small_size_of(part)

    def _lines(self, given_parts: Iterable[str]) -> Iterator[str]:
        frame = self.frame
        yield "digraph {"
        for what, given in (("graph", _GRAPH), ("node", _NODE), ("edge", _EDGE)):
            yield f"{what} [{listed(given)}];"
        for name in given_parts:
            yield self._part(name, frame.parts[name])
        for rank, ports in (("source", self.tops), ("sink", self.bottoms)):
            if ports:
                nodes = "".join(
                    f"{port} [{listed({'id': port, **_POINT})}];" for port in ports.values()
                )
                chain = [ports[port] for port in ports if port in frame.margins]
                rest = [port for port in ports.values() if port not in chain]
                yield f"{{ rank={rank}; {nodes} {_left_of(chain, rest)}}}"
        for row in self._rows():
            first = [self.ids[name] for name in row if name in frame.leftmost]
            rest = [self.ids[name] for name in row if name not in frame.leftmost]
            yield f"{{ rank=same; {'; '.join((*first, *rest))}; {_left_of(first, rest)}}}"
        if branches := [self.ids[name] for name in frame.branches]:
            yield f"{{ rank=same; {_left_of(branches, ())}}}"
            rows = self._bar()
            for row in rows:
                yield f"{{ rank=same; {'; '.join(row)} }}"
            for above, below in itertools.pairwise(rows):
                yield f"{above[0]} -> {below[0]} [style=invis];"
        steps = self._steps()
        for piece, name in self.pieces.items():
            given = {"id": name}
            if self._ends_at(piece.target):
                given["arrowhead"] = "normal"
            at_border = "" in (piece.source.part, piece.target.part)
            source = frame.parts.get(piece.source.part)
            if at_border and {piece.source.port, piece.target.port} & frame.margins.keys():
                given["weight"] = "8"
            elif isinstance(source, Frame) and source.pair:  # straight down from both passes
                given["weight"] = "2"
            if piece in steps:
                given["minlen"] = f"{steps[piece]}"
            ends = f"{self._end(piece.source, 1)} -> {self._end(piece.target, 0, piece.side)}"
            yield f"{ends} [{listed(given)}];"
        for above, below in frame.order:
            if above not in self.ids or below not in self.ids:
                continue  # it stands beside a node
            yield f"{self.ids[above]} -> {self.ids[below]} [style=invis weight=0];"
        yield "}"

    def _ends_at(self, target: PieceEnd) -> bool:
        """Whether an edge ends here, and does not go on at the other side of a border."""
        part = self.frame.parts.get(target.part)
        return isinstance(part, Node) or (isinstance(part, Frame) and target.port not in part.tops)

    def _part(self, name: str, part: Node | Frame | str) -> str:
        given = {"id": self.ids[name]}
        if known := self._known.get(name):
            width, half = math.ceil(known.width), math.ceil(known.height / 2)
            rows = (_row(width, half, side) for side in _sides(known))
            label = "".join(f"<tr><td>{row}</td></tr>" for row in rows)
            given |= {"width": _inches(width), "height": _inches(2 * half), "shape": "box"}
            return f"{self.ids[name]} [{listed(given)} label=<{_TABLE}{label}</table>>];"
        width, height = self.boxes[name]
        given |= {"width": _inches(width), "height": _inches(height)}
        look = theme.look_of(part) if isinstance(part, Node) else None
        given["shape"] = look.shape if look and look.shape != "folder" else "box"
        if look and look.double:
            given["peripheries"] = "2"
        return f"{self.ids[name]} [{listed(given)}];"

    def _end(self, end: PieceEnd, below: int, side: str = "") -> str:
        if not end.part:
            return f"{self.tops[end.port]}:s" if below else f"{self.bottoms[end.port]}:n"
        name = self.ids[end.part]
        if known := self._known.get(end.part):
            cell = _sides(known)[below].get(end.port or ("s" if below else side or "n"))
            # Without one it begins or ends at the border of a frame, anywhere.
            return f"{name}:{cell[0]}:{'ns'[below]}" if cell else name
        return f"{name}:{side}" if side else name

    def _rows(self) -> Iterator[Sequence[str]]:
        """The parts that share a row: the inputs of a nested jaxpr, and its outputs."""
        frame = self.frame
        kind = frame.cluster.kind if frame.cluster else "function"
        wanted = {"jaxpr": ("input", "output"), "function": ("output",)}.get(kind, ())
        for one in wanted:
            row = [
                name
                for name in self.ids
                if isinstance(part := frame.parts[name], Node)
                if part.kind == one and "stub" not in part.marks
            ]
            if len(row) > 1 and sum(self.boxes[name][0] for name in row) < _BROAD:
                yield row

    def _bar(self) -> list[list[str]]:
        """The rows of nodes above the branches of a choice; the last one has the predicate."""
        parts = self.frame.parts
        nodes = [(name, part) for name in self.ids if isinstance(part := parts[name], Node)]
        bar = [name for name, node in nodes if "bar" in node.marks]
        last = [name for name, node in nodes if "choice" in node.marks]
        width = max(_ROW_WIDE, sum(map(self._wide, self.frame.branches)))
        rows, room = [last], width - sum(map(self._wide, last))
        for name in reversed(bar):
            room -= self._wide(name) + _GAP[0]
            if room < 0:
                rows.insert(0, [])
                room = width - self._wide(name)
            rows[0].insert(0, name)
        return [[self.ids[name] for name in row] for row in rows]

    def _wide(self, name: str) -> float:
        """The width of a part with the parts beside it."""
        return self._known[name].width if name in self._known else self.boxes[name][0]

    def _steps(self) -> dict[Piece, int]:
        """The number of rows between the ends of a piece if it is not one.

        Many parts side by side that come from one part, or go to one, are put into several rows.
        """
        sources: dict[str, list[Piece]] = {name: [] for name in self.ids}
        targets: dict[str, list[Piece]] = {name: [] for name in self.ids}
        for piece in self.pieces:
            if piece.target.part:
                sources[piece.target.part].append(piece)
            if piece.source.part:
                targets[piece.source.part].append(piece)
        alike: dict[tuple[str, str], list[tuple[str, Piece]]] = {}
        for name in self.ids:
            ins, outs = sources[name], targets[name]
            # Not above what takes other values, too: their lines would cross.
            others = sources.get(outs[0].target.part, ()) if outs else ()
            alone = sum(piece.source.part not in ("", name) for piece in others) == 0
            if len(ins) == 1 and len(outs) <= 1 and alone and ins[0].source.part:
                alike.setdefault(("from", ins[0].source.part), []).append((name, ins[0]))
            elif not ins and len(outs) == 1:
                alike.setdefault(("to", outs[0].target.part), []).append((name, outs[0]))
        found: dict[Piece, int] = {}
        for (side, _), found_alike in alike.items():
            boxes = [self.boxes[name] for name, _ in found_alike]
            # What comes from one part stands above what is made of it alone.
            below = targets if side == "from" else {}
            stacks = [
                (name, *(piece.target.part for piece in below.get(name, ()) if piece.target.part))
                for name, _ in found_alike
            ]
            width = sum(max(map(self._wide, stack)) + _GAP[0] for stack in stacks)
            height = max(box[1] for box in boxes) + _GAP[1]
            rows = min(_ROWS, round(math.sqrt(width / height / _ROW_LONG)))
            if width > _ROW_WIDE and rows > 1:
                found |= {piece: 1 + k % rows for k, (_, piece) in enumerate(found_alike)}
        return {piece: step for piece, step in found.items() if step > 1}


def _ordered(ports: Mapping[str, None], frame: Frame) -> list[str]:
    return sorted(ports, key=lambda port: port not in frame.margins)


def _left_of(first: Sequence[str], rest: Sequence[str]) -> str:
    """Edges that are not seen, and put some nodes of a row left of others."""
    pairs = [*itertools.pairwise(first)]
    pairs += [(first[-1], name) for name in rest] if first else []
    return "".join(f"{a} -> {b} [style=invis]; " for a, b in pairs)


def _sides(size: BoxSize) -> list[dict[str, tuple[str, float]]]:
    """The ports at the top and the bottom: for each the id of its cell, and where it is."""
    return [
        {port: (f"{side}{k}", at) for k, (port, at) in enumerate(sorted(ports.items(), key=_by_at))}
        for side, ports in (("t", size.tops), ("b", size.bottoms))
    ]


_by_at = operator.itemgetter(1)


def _row(width: int, height: int, ports: Mapping[str, tuple[str, float]]) -> str:
    """A table of one row, with a narrow cell for each port.

    The ports of a `record` have cells, too, but all equally wide: many, and a text in each.
    """
    cells, end, left = "", 0, len(ports)
    for name, at in ports.values():
        begin = min(max(end, round(at) - _PORT // 2), width - _PORT * left)
        cells += _cell(begin - end, height) + _cell(_PORT, height, f' port="{name}"')
        end, left = begin + _PORT, left - 1
    return f"{_TABLE}<tr>{cells}{_cell(width - end, height)}</tr></table>"


def _cell(width: int, height: int, port: str = "") -> str:
    given = f'width="{width}" height="{height}" fixedsize="true"{port}'
    return f"<td {given}></td>" if width > 0 else ""


def _inches(points: float) -> str:
    return f"{points / POINTS:.3f}"
