"""Split a picture into frames, which are laid out one by one, and its edges into pieces.

A frame is a cluster, a pair of passes, or the whole picture. In the frame around it, it is a box
with ports: values enter at its top border and leave at its bottom border. So an edge has a piece in
each frame that it crosses. An edge that leads upwards, such as a loop's carry to the next
iteration, goes along the margin of a frame. An edge whose ends are far from each other is not drawn
from end to end: its target has a twin of its source, with the source's name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taxpr_jupyter._layout.ends import (
    UPWARDS,
    EdgeEnds,
    box_of,
    is_cyclic,
    named_by,
    port_of,
    texts_of,
)
from taxpr_jupyter._layout.far import far_edges
from taxpr_jupyter._layout.pieces import Pair, Piece, PieceEnd
from taxpr_jupyter._model.model import Cluster, Edge, Node, Picture

_BESIDE = 8  # the most parts beside a node
_TWIN = 28  # characters of the name on a twin
# Operands that have an order enter from left to right.
_SIDES = {2: ("nw", "ne"), 3: ("nw", "n", "ne")}


class WayPart(NamedTuple):
    """A part of an edge's way.

    Attributes:
        frame: The id of the frame's cluster; None for the whole picture.
        piece: The piece; None for the way along the margin.
        margin: The port at the bottom and at the top where that begins and ends.
    """

    frame: str | None
    piece: Piece | None
    margin: str = ""


class Beside(NamedTuple):
    """A small part beside the only node that it is joined to.

    Attributes:
        part: Its name.
        piece: The piece that joins them.
        right: Whether it is on the right.
    """

    part: str
    piece: Piece
    right: bool


@dataclasses.dataclass(eq=False)
class Frame:
    """A part of the picture that is laid out in one go.

    Attributes:
        cluster: The cluster; None for the whole picture, and for a pair.
        pair: The two passes that are side by side in it.
        passing: Whether it is in one of two such passes: then it is not cut into columns.
        turned: Whether it is in the backward one: then it is turned upside down in the end.
        parts: The nodes, frames and twins in it by their names, in program order. A twin is the
            text on it.
        pieces: The pieces of edges, each once.
        tops: The ports at the top border.
        bottoms: The ports at the bottom border.
        margins: The ports of both that a way along the margin joins.
        leftmost: The nodes that are left of all others in their row.
        order: Pairs of parts: the first is above the second although no piece joins them.
        texts: The longest text at an end of a piece, in characters.
        beside: The parts beside a node, by its name. An engine does not lay them out.
    """

    cluster: Cluster | None
    pair: Pair | None = None
    passing: bool = False
    turned: bool = False
    parts: dict[str, Node | Frame | str] = dataclasses.field(default_factory=dict)
    pieces: dict[Piece, None] = dataclasses.field(default_factory=dict)
    tops: dict[str, None] = dataclasses.field(default_factory=dict)
    bottoms: dict[str, None] = dataclasses.field(default_factory=dict)
    margins: dict[str, None] = dataclasses.field(default_factory=dict)
    leftmost: dict[str, None] = dataclasses.field(default_factory=dict)
    order: dict[tuple[str, str], None] = dataclasses.field(default_factory=dict)
    texts: dict[Piece, int] = dataclasses.field(default_factory=dict)
    beside: dict[str, list[Beside]] = dataclasses.field(default_factory=dict)

    @property
    def id(self) -> str | None:
        """The id of its cluster, or pair; None for the whole picture."""
        here = self.cluster or self.pair
        return here.id if here else None

    def add(self, piece: Piece, text: int) -> None:
        """Add a piece with the length of its texts, and the port where it begins or ends."""
        self.pieces[piece] = None
        self.texts[piece] = max(text, self.texts.get(piece, 0))
        if not piece.source.part:
            self.tops[piece.source.port] = None
        if not piece.target.part:
            self.bottoms[piece.target.port] = None

    @property
    def branches(self) -> list[str]:
        """The names of the frames in it that are branches of a choice."""
        nodes = [part for part in self.parts.values() if isinstance(part, Node)]
        if not any(node.kind == "eqn" and "choice" in node.marks for node in nodes):
            return []
        inner = sorted(frame.id or "" for frame in self.inner())
        return [box_of(one) for one in inner]

    @property
    def is_cyclic(self) -> bool:
        """Whether lines lead from a part back to it: results of a function, to its call."""
        pairs = [(piece.source.part, piece.target.part) for piece in self.pieces]
        return is_cyclic([pair for pair in pairs if all(pair)])  # not from or to the border

    def put_beside(self) -> None:
        """Find the parts beside each node, when all pieces are there."""
        ins: dict[str, list[Piece]] = {}
        outs: dict[str, list[Piece]] = {}
        for piece in self.pieces:
            outs.setdefault(piece.source.part, []).append(piece)
            ins.setdefault(piece.target.part, []).append(piece)
        taken: set[str] = set()
        for name, part in self.parts.items():
            made, used = ins.get(name, []), outs.get(name, [])
            if len(made) + len(used) != 1 or name in self.beside:
                continue
            if not _is_small(part):
                continue
            (piece,) = (*made, *used)
            main = piece.source.part if made else piece.target.part
            if main in taken or not isinstance(self.parts.get(main), Node):
                continue
            others = self.beside.setdefault(main, [])
            if len(others) < _BESIDE:
                taken.add(name)
                others.append(Beside(name, piece, bool(made) or piece.side == "ne"))

    def inner(self) -> Iterator[Frame]:
        """The frames in it."""
        return (part for part in self.parts.values() if isinstance(part, Frame))


class Framed:
    """A picture in frames.

    Attributes:
        frames: The frames by the ids of their clusters, inner ones first.
        ways: The way of each edge by its id.
        twins: For each far edge, by its id, the name of its twin.
    """

    def __init__(self, picture: Picture, pairs: Sequence[Pair] = ()) -> None:
        self.ways: dict[str, list[WayPart]] = {}
        self.twins: dict[str, str] = {}
        self._at = EdgeEnds(picture, pairs)
        frames: dict[str | None, Frame] = {None: Frame(None)}
        pair_of = {one: pair for pair in pairs for one in (pair.forward, pair.backward)}
        for cluster in picture.clusters:
            if pair := pair_of.get(cluster.id):
                frames.setdefault(pair.id, Frame(None, pair))
            around = self._at.around(cluster.id)
            turned = any(pair.backward in around for pair in pairs)
            passing = turned or any(pair.forward in around for pair in pairs)
            frames[cluster.id] = Frame(cluster, passing=passing, turned=turned)
        self.frames = dict(reversed(frames.items()))
        self._put_parts(picture)
        heads: dict[str, list[str]] = {}
        for edge in picture.edges:
            if edge.head:
                heads.setdefault(edge.target, []).append(edge.head)
        again = {node.id for node in picture.nodes if "again" in node.marks}
        bare = {one.id for one in picture.edges if one.target in again and one.into is None}
        far, order = far_edges(picture, self._at, bare)
        for name, ordered in order.items():
            self.frames[name].order = ordered
        together: dict[tuple[str | None, str | None], list[WayPart]] = {}
        for edge in picture.edges:
            sides = _SIDES.get(len(heads.get(edge.target, ())))
            side = sides[heads[edge.target].index(edge.head)] if sides and edge.head else ""
            if edge.id in bare:
                self.ways[edge.id] = []
            elif edge.kind == "back":  # the carries of a loop go back together
                around = self._at.jaxpr_of(edge.source), self._at.jaxpr_of(edge.target)
                if around not in together:
                    together[around] = list(self._way(edge, side))
                self.ways[edge.id] = together[around]
            elif pair := self._at.entered(edge):
                self.ways[edge.id] = [self._twin(edge, side)]
                source, above, target, _ = self._at.of(edge)
                if pair.forward in self._at.around(above):
                    pair.rungs[edge.id] = Piece(source, target)
            elif edge.id in far:
                self.ways[edge.id] = [self._twin(edge, side)]
            else:
                self.ways[edge.id] = list(self._way(edge, side))
        for edge in picture.edges:
            for name, piece, margin in self.ways[edge.id]:
                if piece:
                    texts = texts_of(edge, self._at.nodes, edge.id in self.twins)
                    self.frames[name].add(piece, sum(map(len, texts)))
                else:
                    self.frames[name].margins[margin] = None
        for frame in self.frames.values():
            frame.put_beside()

    def _put_parts(self, picture: Picture) -> None:
        """Put nodes and frames into the frames around them, in program order."""
        for node in picture.nodes:
            if node.on:
                continue
            around = node.cluster
            self.frames[around].parts[node.id] = node
            while around is not None:
                parent = self._at.parents[around]
                self.frames[parent].parts.setdefault(box_of(around), self.frames[around])
                around = parent

    def _way(self, edge: Edge, side: str) -> Iterator[WayPart]:
        at, above, target, below = self._at.of(edge)
        outer, inner = self._at.around(above), self._at.around(below)
        common = next(frame for frame in outer if frame in inner)
        port, ahead = port_of(edge), outer[: outer.index(common)]
        for k, frame in enumerate(ahead):
            pair = self.frames[frame].pair
            if pair and pair.backward in ahead:  # out of a pass that leads upwards: at its side
                port, ahead = f"{edge.into or edge.target}|aside", ahead[k + 1 :]
                yield WayPart(frame, Piece(at, PieceEnd("", port)))
                at = PieceEnd(box_of(frame), port)
                break
        for frame in ahead:
            yield WayPart(frame, Piece(at, PieceEnd("", port)))
            at = PieceEnd(box_of(frame), port)
        if edge.kind in UPWARDS:
            margin = f"{port}|back"
            yield WayPart(common, Piece(at, PieceEnd("", margin)))
            yield WayPart(common, None, margin)
            if edge.kind == "back":
                self.frames[common].leftmost |= dict.fromkeys((at.part, target.part))
            at = PieceEnd("", margin)
        below_it = list(reversed(inner[: inner.index(common)]))
        for frame, parent in zip(below_it, [common, *below_it], strict=False):
            yield WayPart(parent, Piece(at, PieceEnd(box_of(frame), port)))
            at = PieceEnd("", port)
        yield WayPart(below, Piece(at, target, side))

    def _twin(self, edge: Edge, side: str) -> WayPart:
        """The way from the twin of the source of a far edge, or to the twin of its target."""
        source, above, target, below = self._at.of(edge)
        self.twins[edge.id] = name = f"~{edge.id}"
        named = named_by(edge, self._at.nodes)
        if named.id == edge.target:
            words, *more = named.lines
            if named.kind == "result" and not more:  # its name and its type
                words = words.rpartition(" ")[0] or words
            self.frames[above].parts[name] = _shortened(words)
            return WayPart(above, Piece(source, PieceEnd(name)))
        words = edge.name or named.lines[0]
        if edge.tail and not edge.name and not edge.tail.startswith("×"):
            words = f"{edge.tail} of {words}"
        self.frames[below].parts[name] = _shortened(words)
        return WayPart(below, Piece(PieceEnd(name), target, side))


def _is_small(part: Node | Frame | str) -> bool:
    """Whether a part may be beside a node: a twin, a literal, a constant, a repeated name."""
    if isinstance(part, Node):
        repeated = "stub" in part.marks or "again" in part.marks
        return repeated or part.kind in ("literal", "const")
    return isinstance(part, str)


def _shortened(words: str) -> str:
    """The text on a twin. The end of a path says most: `params…[0]['w']`."""
    if len(words) <= _TWIN:
        return words
    first = words.partition("[")[0].rstrip("…")
    end = words[len(first) + 1 - _TWIN :]
    if " " not in words and "[" in end:
        return f"{first}…{end[end.index('[') :]}"
    return f"{words[: _TWIN - 1]}…"
