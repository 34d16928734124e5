"""Find the clusters that enclose an element."""

import itertools
from collections.abc import Iterable, Sequence

from taxpr_jupyter._model.model import Cluster, Node


def depths_of(clusters: Iterable[Cluster]) -> dict[str | None, int]:
    """The nesting depth of each cluster by its id, from 1, and 0 for None, outside of all."""
    depths: dict[str | None, int] = {None: 0}
    for cluster in clusters:  # outer clusters come first
        depths[cluster.id] = depths[cluster.parent] + 1
    return depths


class Around:
    """Finds the clusters around nodes."""

    def __init__(self, nodes: Iterable[Node], clusters: Iterable[Cluster]) -> None:
        self._clusters = {node.id: node.cluster for node in nodes}
        self._parents = {cluster.id: cluster.parent for cluster in clusters}

    def of(self, node: str) -> Sequence[str]:
        """The clusters around a node, outermost first."""
        found: list[str] = []
        cluster = self._clusters[node]
        while cluster is not None:
            found.append(cluster)
            cluster = self._parents[cluster]
        return found[::-1]

    def apart(self, node: str, other: str) -> str | None:
        """The outermost cluster that holds a node and not the other, or None."""
        shared = set(self.of(other))
        return next((cluster for cluster in self.of(node) if cluster not in shared), None)

    def common(self, nodes: Sequence[str]) -> str | None:
        """The innermost cluster that holds them all."""
        levels = zip(*map(self.of, nodes), strict=False)
        same = list(itertools.takewhile(lambda level: len(set(level)) == 1, levels))
        return same[-1][0] if same else None
