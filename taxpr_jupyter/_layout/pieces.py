"""Pieces of edges within one frame, and pairs of passes that are put side by side."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

KEPT = ("residual", "seed")  # kinds of edges that lead from the forward to the backward pass


class PieceEnd(NamedTuple):
    """An end of a piece of an edge.

    Attributes:
        part: The name of a part of the frame; "" for its own border.
        port: The port, where the part is a frame, or at the border. A piece begins at the bottom of
            a part, and at the top border; it ends at the top of a part, and at the bottom border.
    """

    part: str
    port: str = ""


class Piece(NamedTuple):
    """A piece of one or more edges in one frame.

    Attributes:
        source: Where it begins.
        target: Where it ends.
        side: The side of a node where it ends, as a compass point; "" for any.
    """

    source: PieceEnd
    target: PieceEnd
    side: str = ""


@dataclasses.dataclass(eq=False)
class Pair:
    """A forward pass and its backward pass, which make up one part of the frame around them.

    Attributes:
        forward: The id of the cluster of the first.
        backward: The id of the cluster of the second.
        parent: The id of the cluster around both; None for the whole picture.
        partners: Nodes of both, by their ids, that belong to one statement.
        rungs: The ids of edges that may be drawn from one to the other.
    """

    forward: str
    backward: str
    parent: str | None
    partners: dict[tuple[str, str], None] = dataclasses.field(default_factory=dict)
    rungs: dict[str, Piece] = dataclasses.field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the frame of both."""
        return f"{self.forward}&{self.backward}"

    @property
    def shared(self) -> int:
        """The number of statements that are in both, or whose values are."""
        kept = {(piece.source.part, piece.target.part) for piece in self.rungs.values()}
        return len(kept | self.partners.keys())
