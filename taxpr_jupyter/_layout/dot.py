"""`to_dot`: write a picture in the DOT language. The text depends on nothing else.

Labels are plain text, as not every build of Graphviz can draw HTML-like ones. Sizes of nodes are
computed here for a monospaced font, so that all engines, fonts and browsers agree on them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping

from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Cluster, CodeLine, Edge, Node, Picture

_ADVANCE = 0.602  # width of a character of Courier, Menlo, DejaVu Sans Mono ..., in ems
_LEADING = 1.2  # Graphviz' distance between lines, in ems
POINTS = 72  # in an inch
_MARGIN = "6"  # points inside the border of a cluster

GRAPH = {
    "rankdir": "TB",
    "nodesep": "0.14",
    "ranksep": "0.24",
    "compound": "true",
    # Limit the iterations of network simplex, which would take minutes for a gradient with many
    # edges back to its forward pass.
    "nslimit": "2",
    "nslimit1": "2",
    "fontname": "Courier",
    "fontsize": f"{theme.FONT_SIZE}",
    "fontcolor": theme.MUTED,
    "color": theme.LINE,
    "style": "filled,rounded",
    "fillcolor": theme.CLUSTER,
    "bgcolor": "transparent",
    "labeljust": "l",
}
NODE = {
    "fontname": "Courier",
    "fontsize": f"{theme.FONT_SIZE}",
    "fontcolor": theme.TEXT,
    "fixedsize": "true",
}
EDGE = {
    "fontname": "Courier",
    "fontsize": "8",
    "fontcolor": theme.MUTED,
    "color": theme.LINE,
    "penwidth": "0.8",
    "arrowsize": "0.5",
    "labeldistance": "1.1",
}
EDGE_KINDS: Mapping[str, Mapping[str, str]] = {
    "value": {},
    "residual": {"penwidth": "0.5"},
    "seed": {"style": "dotted", "color": theme.LINE, "penwidth": "1.2"},
    "back": {"style": "dashed", "constraint": "false"},
    "control": {"style": "dotted", "color": theme.CONTROL, "penwidth": "1.5"},
    # Reads leave a state at the bottom, writes enter at the top.
    "read": {"color": theme.STATE, "penwidth": "1.2", "tailport": "s"},
    "write": {
        "style": "dashed",
        "color": theme.STATE,
        "penwidth": "1.2",
        "headport": "n",
        "constraint": "false",  # a write leads upwards
    },
}
# Operands that have an order enter from left to right.
_PORTS = {2: ("nw", "ne"), 3: ("nw", "n", "ne")}


def to_dot(picture: Picture, background: str = GRAPH["bgcolor"]) -> str:
    """Write a whole picture in the DOT language, for Graphviz and other readers."""
    return "\n".join([*_lines(picture, background), ""])


def head(picture: Picture, more: Mapping[str, str]) -> Iterator[str]:
    """The first lines of a graph: its name and defaults, with more attributes of the graph."""
    yield f"digraph {quoted(picture.name)} {{"
    for what, attributes in (("graph", {**GRAPH, **more}), ("node", NODE), ("edge", EDGE)):
        yield f"  {what} [{listed(attributes)}];"


def _lines(picture: Picture, background: str) -> Iterator[str]:
    yield from head(picture, {"bgcolor": background})
    yield from _contents(None, _by_cluster(picture), 1)
    heads: dict[str, list[str]] = {}
    for edge in picture.edges:
        if edge.head:
            heads.setdefault(edge.target, []).append(edge.head)
    for edge in picture.edges:
        yield f"  {_edge(edge, heads.get(edge.target, []))}"
    for node in picture.nodes:
        if node.on:
            given = listed({"style": "dotted", "arrowhead": "none"})
            yield f"  {quoted(node.on)} -> {quoted(node.id)} [{given}];"
    yield "}"


def _by_cluster(picture: Picture) -> dict[str | None, list[Node | Cluster]]:
    """The content of each cluster in program order, as layouts put earlier nodes to the left."""
    clusters = {cluster.id: cluster for cluster in picture.clusters}
    inside: dict[str | None, list[Node | Cluster]] = {}
    known: set[str] = set()
    for node in picture.nodes:
        around, part = node.cluster, node
        inside.setdefault(around, []).append(part)
        while around is not None and around not in known:
            known.add(around)
            part = clusters[around]
            around = part.parent
            inside.setdefault(around, []).append(part)
    return inside


def _contents(
    cluster_id: str | None,
    inside: Mapping[str | None, Iterable[Node | Cluster]],
    depth: int,
) -> Iterator[str]:
    indent = "  " * depth
    for part in inside.get(cluster_id, ()):
        if isinstance(part, Node):
            yield f"{indent}{node_text(part)}"
            continue
        attributes = {"id": part.id, "class": part.kind, "margin": _MARGIN, **ended(part)}
        if depth > theme.SHADES:
            attributes["fillcolor"] = "transparent"
        # A single line is left-aligned anyway.
        title = f"label={_lines_of(part.lines, _LEFT if len(part.lines) > 1 else _BREAK)}"
        tooltip = listed({}, {"tooltip": [part.tooltip]})
        yield f"{indent}subgraph {quoted(f'cluster_{part.id}')} {{"
        yield f"{indent}  graph [{listed(attributes)} {title} {tooltip}];"
        yield from _contents(part.id, inside, depth + 1)
        yield f"{indent}}}"


def ended(cluster: Cluster) -> dict[str, str]:
    """The border of a cluster where an error ended the tracing; else empty."""
    if {"failed", "unfinished"}.isdisjoint(cluster.marks):
        return {}
    style = [GRAPH["style"], *(["dashed"] if "unfinished" in cluster.marks else [])]
    look = {"color": theme.FAILED_LINE, "penwidth": f"{theme.ENDED_BORDER}"}
    return {**look, "style": ",".join(style)}


def node_text(node: Node, more: Mapping[str, str] | None = None) -> str:
    """A node in the DOT language, with more attributes."""
    look = theme.look_of(node)
    width, height = size_of(node, look)
    styles = ["filled"] + ["rounded"] * look.rounded + ["dashed"] * theme.is_dashed(node)
    attributes = {
        "id": node.id,
        "class": theme.classes(node),
        "shape": look.shape,
        "style": ",".join(styles),
        "fillcolor": look.fill,
        "color": look.line,
        "penwidth": f"{look.border:g}",
        "width": f"{width / POINTS:.2f}",
        "height": f"{height / POINTS:.2f}",
        **(more or {}),
    }
    if look.double:
        attributes["peripheries"] = "2"
    if theme.is_small(node):
        attributes["fontsize"] = f"{theme.SMALL}"
    elif any(isinstance(line, CodeLine) for line in node.lines):
        attributes["fontsize"] = f"{theme.CODE}"  # a plain label has one size
    labels = {"label": node.lines, "tooltip": [node.tooltip]}
    return f"{quoted(node.id)} [{listed(attributes, labels)}];"


def size_of(node: Node, look: theme.Look) -> tuple[float, float]:
    """Width and height of a node in points, so that the text stays inside the shape."""
    if theme.is_small(node):
        return small_size_of(node.lines[0])
    across, down = look.pad
    line_height = _LEADING * theme.FONT_SIZE
    height = sum(line_height_of(line) for line in node.lines) + 2 * down
    width = 0.0
    for i, line in enumerate(node.lines):
        from_middle = (abs(i - (len(node.lines) - 1) / 2) + 0.4) * line_height / (height / 2)
        width_at = _WIDTH_AT.get(look.shape)
        room = width_at(from_middle) if width_at else 1.0
        width = max(width, width_in_node(line) / room)
    return width + 2 * across, height


def size_in_node(line: str) -> int:
    """The font size of a line in a node, in points."""
    return theme.CODE if isinstance(line, CodeLine) else theme.FONT_SIZE


def width_in_node(line: str) -> float:
    """The width of a line in a node with its indentation, in points."""
    indent = line.indent if isinstance(line, CodeLine) else 0
    return text_width(" " * indent + line, size_in_node(line))


def line_height_of(line: str) -> float:
    """The height of a line in a node, in points."""
    return _LEADING * size_in_node(line)


def small_size_of(text: str) -> tuple[float, float]:
    """Width and height of a repeated name, in points."""
    return text_width(text, theme.SMALL) + 8, theme.SMALL + 5.0


# The width of a shape of width 1, at a height between its middle (0) and its top (1).
_WIDTH_AT: Mapping[str, Callable[[float], float]] = {
    "hexagon": lambda y: 1 - 0.5 * y,
    "octagon": lambda y: 1 - max(0.0, y - 0.414),
    "diamond": lambda y: 1 - y,
}


def text_width(text: str, size: float) -> float:
    """The width of a text at a font size."""
    wide = 0  # East Asian characters and emoji, which are twice as wide as others
    if not text.isascii():
        wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return (len(text) + wide) * _ADVANCE * size


def _edge(edge: Edge, heads: list[str]) -> str:
    """An edge in the DOT language; `heads` are the texts of all edges at its target."""
    attributes = {"id": edge.id, "class": edge.kind, **EDGE_KINDS[edge.kind]}
    ports = _PORTS.get(len(heads))
    if ports and edge.head:
        attributes["headport"] = ports[heads.index(edge.head)]
    if edge.into is not None:
        attributes["lhead"] = f"cluster_{edge.into}"
    if edge.out_of is not None:
        attributes["ltail"] = f"cluster_{edge.out_of}"
    labels = {"tooltip": edge.tooltip, "taillabel": edge.tail, "headlabel": edge.head}
    texts = {name: [text] for name, text in labels.items() if text}
    ends = f"{quoted(edge.source)} -> {quoted(edge.target)}"
    return f"{ends} [{listed(attributes, texts)}];"


def listed(values: Mapping[str, str], labels: Mapping[str, Iterable[str]] | None = None) -> str:
    """Attributes in the DOT language; the values of `labels` are lines of text."""
    texts = [f"{name}={quoted(value)}" for name, value in values.items()]
    for name, lines in (labels or {}).items():
        texts.append(f"{name}={_lines_of(lines, _BREAK)}")
    return " ".join(texts)


def _lines_of(lines: Iterable[str], end: str) -> str:
    """Lines as a string in the DOT language; `end` says how they are aligned, but for code."""
    text, last = "", ""
    for line in lines:
        text += last
        last = _LEFT if isinstance(line, CodeLine) else end
        indent = " " * line.indent if isinstance(line, CodeLine) else ""
        text += indent + quoted(line)[1:-1].replace("\n", last)
    return f'"{text}{last if last is _LEFT else ""}"'  # a centred line needs no end


_BREAK, _LEFT = "\\n", "\\l"


def quoted(text: str) -> str:
    """Quote a text for DOT.

    Backslashes are doubled, because in labels and ids they begin an escape. In names they are
    literal, so doubling gives another name, but the same one everywhere.
    """
    return '"' + plain(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain(text: str) -> str:
    """Make a text safe for DOT and SVG.

    Replaces characters that XML forbids, and puts a zero-width space into entities such as `&lt;`,
    which Graphviz would decode, each version in its own way.
    """
    text = _FORBIDDEN.sub("\ufffd", text)
    return _ENTITY.sub("&\u200b", text)


_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ENTITY = re.compile(r"&(?=#?\w+;)")
