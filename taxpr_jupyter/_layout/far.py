"""Choose the edges that are not drawn from end to end, as they would be long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from taxpr_jupyter._layout.ends import UPWARDS, EdgeEnds, is_cyclic
from taxpr_jupyter._layout.pieces import KEPT
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Edge, Picture

# The number of rows from which on an edge is far, and one of these kinds. The latter are far also
# if they begin or end in a frame that does not hold both ends.
_FAR = (9, 3)
# What is given from outside has a line into the first frame that uses it, and is named in others;
# in all of them if it is used more often than this; and if it is used still more often, beside all
# nodes but the first that take more than it.
_USES, _MANY = 3, 5
_UP = 2  # the number of rows from which on an edge upwards, back to a call, is far
_WRITES = 2  # the most ways from values to states that are drawn from end to end

# For each frame pairs of its parts, the first above the second although no line joins them.
Order = dict[str | None, dict[tuple[str, str], None]]


def far_edges(picture: Picture, ends: EdgeEnds, bare: Collection[str]) -> tuple[set[str], Order]:
    """The ids of the edges that are not drawn from end to end, and pairs that keep their order.

    Args:
        picture: The picture.
        ends: The ends of its edges.
        bare: The ids of edges that have no line at all.
    """
    inside: dict[str | None, list[tuple[Edge, str, str]]] = {}
    for edge in picture.edges:
        if edge.kind not in UPWARDS and edge.id not in bare and not ends.entered(edge):
            frame, part, other = ends.common(edge)
            inside.setdefault(frame, []).append((edge, part, other))
    writes = [edge.id for edge in picture.edges if edge.kind == "write"]
    named = set(writes if len(writes) > _WRITES else ()) | _to_results(picture)
    far = {*named}
    uses = Counter(edge.source for edge in picture.edges if edge.kind in ("value", "read"))
    takes = Counter(edge.target for edge in picture.edges)
    order: Order = {}
    drawn: set[str] = set()  # what is given, and has a line
    entered: dict[str, str] = {}  # the first part into which it leads
    places = ends.places()
    for frame, edges in inside.items():
        joined = [(part, other) for _, part, other in edges]
        up = _upwards(joined, places)
        rows = _rows([pair for pair in joined if pair not in up])
        for edge, part, other in edges:
            kept = edge.kind in KEPT
            given = uses[edge.source] * (ends.nodes[edge.source].kind in theme.GIVEN)
            crosses = part != edge.source or other != edge.target
            several = given > _MANY and edge.source in drawn and takes[edge.target] > 1
            into = ends.beyond_function(edge, other)
            again_here = crosses and entered.setdefault(edge.source, into) != into
            often = (given > _USES and (crosses or several)) or (given > 0 and again_here)
            away = abs(rows.get(other, 0) - rows.get(part, 0))
            leads_up = (part, other) in up
            long = away >= (_UP if leads_up else _FAR[kept])
            if edge.id in far or long or often or (crosses and kept):
                far.add(edge.id)
                if part != other:
                    above, below = (other, part) if leads_up else (part, other)
                    order.setdefault(frame, {})[above, below] = None
            else:
                drawn.add(edge.source)
    for edges in inside.values():
        for edge, _, _ in edges:
            given = ends.nodes[edge.source].kind in theme.GIVEN
            if given and edge.source not in drawn and edge.id not in named:
                drawn.add(edge.source)  # without any line it looks as if nothing used it
                far.discard(edge.id)
    return far, order


def _to_results(picture: Picture) -> set[str]:
    """The ids of the edges from branches to results, if a choice has several results."""
    results = {node.id: node.cluster for node in picture.nodes if node.kind == "result"}
    number = Counter(results.values())
    return {
        edge.id
        for edge in picture.edges
        if edge.target in results and number[results[edge.target]] > 1
    }


def _upwards(edges: Sequence[tuple[str, str]], places: Mapping[str, int]) -> set[tuple[str, str]]:
    """The pairs of parts that are joined against their order in the program, and in a cycle.

    These are the results of a function that a library calls: they lead back to the call.
    """
    if not is_cyclic(edges):
        return set()
    targets: dict[str, set[str]] = {}
    for source, target in edges:
        targets.setdefault(source, set()).add(target)
    found: set[tuple[str, str]] = set()
    for source, target in edges:
        if places[target] < places[source]:
            reached: set[str] = set()
            todo = [target]
            while todo:
                part = todo.pop()
                if part not in reached:
                    reached.add(part)
                    todo += targets.get(part, ())
            found |= {(source, target)} if source in reached else set()
    return found


def _rows(edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The row of each part: below its sources; without sources, just above its first use."""
    parts = list(dict.fromkeys(part for ends in edges for part in ends))
    sources: dict[str, list[str]] = {part: [] for part in parts}
    targets: dict[str, list[str]] = {part: [] for part in parts}
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    rows: dict[str, int] = {}
    order = list(_in_order(parts, sources))
    for part in order:
        # In a cycle, one edge leads up.
        rows[part] = max(
            (rows[source] + 1 for source in sources[part] if source in rows), default=0
        )
    for part in reversed(order):
        below = [rows[target] for target in targets[part] if rows[target] > rows[part]]
        if not sources[part] and below:
            rows[part] = min(below) - 1
    return rows


def _in_order(nodes: Sequence[str], sources: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Nodes in topological order: sources first. A cycle is entered anywhere."""
    entered: set[str] = set()
    done: set[str] = set()
    for start in nodes:
        todo = [start]
        while todo:
            node = todo[-1]
            if node not in entered:
                entered.add(node)
                todo += [source for source in reversed(sources[node]) if source not in entered]
            else:
                todo.pop()
                if node not in done:
                    done.add(node)
                    yield node
