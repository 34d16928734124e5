"""Draw states as nodes outside of the function's box, with edges for reads and writes."""

import re
from collections.abc import Sequence

from taxpr import introspect
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.model import Cluster, count_of
from taxpr_jupyter._text import short
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.tree import Block, BlockEnd

FUNCTION = "function"  # the id of the cluster around everything but states
_MOST = 150  # nodes: a cluster around more takes long to lay out


def around_function(canvas: Canvas, block: Block, name: str, nodes: int) -> str | None:
    """Draw the box of a function that uses states. Returns its id, or None if it gets no box."""
    if nodes > _MOST or not any(end.state for end in block.ins):
        return None
    title = short.shortened(name, 2 * short.LINE)
    canvas.clusters.append(Cluster(FUNCTION, "function", (title,), title, None, ""))
    return FUNCTION


def lines_of(end: BlockEnd, block: Block, names: Sequence[str], typed: short.TypeOf) -> list[str]:
    """The label of a state, or of a part of its value."""
    if end.states:
        return [labels.short_path(end.title), count_of(end.states, "state")]
    title = labels.state_title(end, names)
    if end.state and title == f"state {end.state.name}":
        title = _short(title)
    if end.children:
        return labels.bundle_lines(title, [names[i] for i in end.indices])
    return [labels.short_path(title), typed(block.jaxpr.invars[end.indices[0]])]


def _short(title: str) -> str:
    """The title of a state in one line, with the end of its path: `state …rngs.count`.

    Example:
        >>> _short("state model.encoder.dropout.rngs.count")
        'state …dropout.rngs.count'
        >>> _short("state net/norm/mean_ema/average")
        'state …norm/mean_ema/average'
    """
    parts = re.split(r"(?<=[./])|(?=\[)", title.removeprefix("state "))
    kept = ""
    while parts and len(kept) + len(parts[-1]) + len("state …") <= short.LINE:
        kept = parts.pop() + kept
    return f"state …{kept}" if parts and kept and len(title) > short.LINE else title


def marks_of(end: BlockEnd) -> tuple[str, ...]:
    """The marks of a state; () for other inputs."""
    return ("written",) if end.state and end.state.written else ()


def use_of(end: BlockEnd) -> str:
    """The use of a state by the function, in words."""
    one = count_of(end.states, "state") if end.states else "a state"
    return f"{one}, read and written" if marks_of(end) else f"{one}, only read"


def draw_writes(
    canvas: Canvas, tips: short.Tooltips, scope: Scope, block: Block, ids: Sequence[str]
) -> None:
    """Draw the edges from final values to their states; ``ids`` has the node of each input."""
    shown = {node.id for node in canvas.nodes if node.kind == "state"}
    written: dict[tuple[str, str], list[Origin]] = {}
    box = next((c.id for c in canvas.clusters if c.kind == "function"), None)
    ends = [end.state for end in block.outs if end.state and end.state.written]
    for state in dict.fromkeys(ends):
        for i, j in zip(state.ins, state.outs, strict=True):
            atom = block.jaxpr.outvars[j]
            if ids[i] in shown and atom is not block.jaxpr.invars[i]:
                if introspect.is_literal(atom):
                    origin = canvas.output_literal(f"out{j}", atom, box)
                else:
                    origin = scope.origins[atom]
                tip = f"the last value of {state.leaves[i - state.ins.start]}: {tips.value(atom)}"
                found = origin._replace(tooltip=tip)
                if origin.node == ids[i]:  # it is only tagged
                    continue
                written.setdefault((origin.node, ids[i]), []).append(found)
    for (source, target), found in written.items():
        tail = found[0].tail.name if found[0].tail else ""
        canvas.edge(
            source,
            target,
            "write",
            value=found[0].value if len(found) == 1 else "",
            tooltip=short.tooltip(origin.tooltip for origin in found),
            tail=tail if len(found) == 1 else f"×{len(found)}",
        )
