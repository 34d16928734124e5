"""Find the frames of a forward pass and of its backward pass that are drawn side by side."""

from __future__ import annotations

from collections import Counter

from taxpr_jupyter._layout.ends import EdgeEnds
from taxpr_jupyter._layout.pieces import KEPT, Pair
from taxpr_jupyter._model.model import Node, Picture


def pairs_of(picture: Picture, ends: EdgeEnds) -> list[Pair]:
    """The pairs of a picture; none in another one."""
    groups = {cluster.id: cluster for cluster in picture.clusters if cluster.kind == "group"}
    kept = Counter(ends.common(edge)[1:] for edge in picture.edges if edge.kind in KEPT)
    # Lines that end at the border of a pass have no place between the two.
    barred = {edge.into for edge in picture.edges}
    barred |= {edge.out_of for edge in picture.edges if edge.kind == "write"}
    found: list[Pair] = []
    taken: set[str | None] = set()
    for (part, other), _ in kept.most_common():
        forward, backward = part[1:], other[1:]
        if not {forward, backward} <= groups.keys() - barred - taken:
            continue
        marks = ["backward" in groups[one].marks for one in (forward, backward)]
        if marks == [False, True] and taken.isdisjoint(ends.around(forward)):
            found.append(Pair(forward, backward, groups[forward].parent))
            taken |= {forward, backward}
    for pair in found:
        for node in picture.nodes:
            if node.forward and pair.backward in ends.around(node.cluster):
                partner = picture.element_of(node.forward)
                if isinstance(partner, Node) and pair.forward in ends.around(partner.cluster):
                    pair.partners[partner.id, node.id] = None
    return found
