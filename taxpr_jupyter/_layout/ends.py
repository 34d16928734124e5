"""Where the edges of a picture begin and end, in the frames of its clusters."""

from __future__ import annotations

import graphlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from taxpr_jupyter._layout.pieces import Pair, PieceEnd
from taxpr_jupyter._model.model import Edge, Node, Picture

UPWARDS = ("back", "write")  # kinds of edges that lead upwards
_COUNT = re.compile(r"×\d+$")  # the number of values along an edge, behind their name


class EdgeEnds:
    """The ends of the edges of a picture.

    Args:
        picture: The picture.
        pairs: Its passes that are put side by side, each in a frame of their own.

    Attributes:
        nodes: The nodes by their ids.
        parents: The frame around each frame; None for the whole picture.
    """

    def __init__(self, picture: Picture, pairs: Sequence[Pair] = ()) -> None:
        self._pairs = pairs
        self.nodes = {node.id: node for node in picture.nodes}
        self.parents = {cluster.id: cluster.parent for cluster in picture.clusters}
        for pair in pairs:
            self.parents |= {
                pair.id: pair.parent,
                pair.forward: pair.id,
                pair.backward: pair.id,
            }
        self._functions = {one.id for one in picture.clusters if one.kind == "function"}
        self._jaxprs = {cluster.id for cluster in picture.clusters if cluster.kind == "jaxpr"}

    def around(self, cluster: str | None) -> list[str | None]:
        """A cluster and those around it, up to None for the whole picture."""
        found = [cluster]
        while cluster is not None:
            cluster = self.parents[cluster]
            found.append(cluster)
        return found

    def places(self) -> dict[str, int]:
        """The place of each part, a node or a frame, among all in program order."""
        found: dict[str, int] = {}
        for node in self.nodes.values():
            for part in (node.id, *map(box_of, self.around(node.cluster))):
                found.setdefault(part, len(found))
        return found

    def entered(self, edge: Edge) -> Pair | None:
        """The pair whose backward pass an edge enters."""
        for pair in self._pairs:
            inner = self.around(self.nodes[edge.target].cluster)
            if pair.backward in inner:
                outer = self.around(self.nodes[edge.source].cluster)
                return None if pair.backward in outer else pair
        return None

    def jaxpr_of(self, node: str) -> str | None:
        """The cluster of a node's jaxpr; None for the program's own."""
        around = self.around(self.nodes[node].cluster)
        return next((cluster for cluster in around if cluster in self._jaxprs), None)

    def of(self, edge: Edge) -> tuple[PieceEnd, str | None, PieceEnd, str | None]:
        """The ends of an edge, each with the frame that it is a part of."""
        source, target = PieceEnd(edge.source), PieceEnd(edge.target)
        above, below = self.nodes[edge.source].cluster, self.nodes[edge.target].cluster
        if edge.out_of is not None and edge.out_of not in self.around(below):
            source, above = PieceEnd(box_of(edge.out_of), port_of(edge)), self.parents[edge.out_of]
        if edge.into is not None and edge.into not in self.around(above):
            target, below = PieceEnd(box_of(edge.into), port_of(edge)), self.parents[edge.into]
        return source, above, target, below

    def common(self, edge: Edge) -> tuple[str | None, str, str]:
        """The innermost frame that holds an edge, and its parts with the edge's ends."""
        source, above, target, below = self.of(edge)
        outer, inner = self.around(above), self.around(below)
        common = next(frame for frame in outer if frame in inner)
        part = source.part if above == common else box_of(outer[outer.index(common) - 1])
        other = target.part if below == common else box_of(inner[inner.index(common) - 1])
        return common, part, other

    def beyond_function(self, edge: Edge, part: str) -> str:
        """A part with the end of an edge; if it is a function as a whole, the one within."""
        _, _, target, below = self.of(edge)
        for frame, inner in itertools.pairwise(reversed(self.around(below))):
            if box_of(frame) == part and frame in self._functions:
                return box_of(inner)
        return target.part if box_of(below) == part and below in self._functions else part


def is_cyclic(edges: Iterable[tuple[str, str]]) -> bool:
    """Whether edges, from part to part, lead from a part back to it."""
    joined = graphlib.TopologicalSorter[str]()
    for source, target in edges:
        joined.add(target, source)
    try:
        joined.prepare()
    except graphlib.CycleError:
        return True
    return False


def named_by(edge: Edge, nodes: Mapping[str, Node]) -> Node:
    """The end that the twin of an edge names: writes and results are named beside their source."""
    target = nodes[edge.target]
    return target if edge.kind == "write" or target.kind == "result" else nodes[edge.source]


def texts_of(edge: Edge, nodes: Mapping[str, Node], twin: bool) -> tuple[str, str]:
    """The texts at the head and the tail of an edge, without what its twin says already."""
    if not twin or not edge.name or named_by(edge, nodes).id != edge.source:
        return edge.head, edge.tail
    tail = _COUNT.search(edge.tail)
    head = "" if edge.name.endswith(edge.head) else edge.head.removesuffix(f" {edge.name}")
    return head, tail[0] if tail else ""


def box_of(cluster: str | None) -> str:
    """The name of a frame as a part of another; nodes have their ids."""
    return f"[{cluster}"


def port_of(edge: Edge) -> str:
    """The port of an edge: edges of one value share it, and edges of several from one node."""
    kind = "" if edge.kind in ("value", "residual", "read") else edge.kind
    tail = edge.tail if edge.value else ""
    return "|".join((edge.source, edge.made or edge.value, tail, kind))
