"""How the kinds of nodes look: shapes and colours, shared by the DOT text and the SVG.

Kinds differ in shape or border as well as in colour. All fills are light and all texts on them are
dark; lines, and texts elsewhere, are of a middle tone. So a picture can be read on white and black.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from taxpr_jupyter._model.model import Node

FONT_SIZE = 10  # points
CODE = 9  # points, of lines of code in a node
SMALL = 8  # points, of texts at lines and of names that stand elsewhere, too
GIVEN = ("input", "const", "state")  # kinds of nodes that are given from outside
TEXT = "#1b2430"
MUTED = "#6d7684"  # texts outside of nodes; as far from white as from black
LINE = "#737d8c"  # edges, borders; 3:1 at least on white, on black, and on all shades of clusters
CONTROL = "#c26a17"
STATE = "#148f86"  # reads and writes of states
CLUSTER = "#8080800d"
SHADES = 5  # clusters in each other that have a shade; more would be too dark to read titles on


@dataclass(frozen=True)
class Look:
    """How a kind of node looks.

    Attributes:
        shape: A shape of Graphviz.
        fill: The colour inside.
        line: The colour of the border.
        pad: Room left and right of the text, and above and below it, in points.
        rounded: Whether a box has round ends.
        border: The width of the border, in points.
        double: Whether it has two borders.
    """

    shape: str
    fill: str
    line: str
    pad: tuple[float, float] = (6, 3)
    rounded: bool = False
    border: float = 0.8
    double: bool = False


LOOKS: Mapping[str, Look] = {
    "eqn": Look("box", "#eef1f5", LINE),
    "hop": Look("box3d", "#dde4f2", "#5a6c94", (8, 5)),
    "group": Look("folder", "#ece6da", "#857a66", (8, 6)),
    "tag": Look("hexagon", "#ffd66b", "#a86e00", (4, 5), border=1.2),
    "injected": Look("octagon", "#ffa9be", "#b4003c", (5, 5), border=1.2, double=True),
    "input": Look("box", "#d7ebff", "#2f78bf", (8, 3), rounded=True),
    "state": Look("cylinder", "#c9efec", STATE, (9, 8), border=1.4),
    "output": Look("box", "#d3f0d6", "#2e8540", (8, 3), rounded=True, border=2),
    "const": Look("note", "#ece2f7", "#7d5ba6", (8, 4)),
    "literal": Look("box", "#f7f7f7", LINE, (4, 1)),
    "result": Look("box", "#eef1f5", LINE, (8, 3), rounded=True),
    "empty": Look("box", "#ffffff00", "#ffffff00", (2, 1)),
    "choice": Look("diamond", "#ffe9d1", CONTROL, (0, 9)),
}

FAILED_FILL, FAILED_LINE = "#ffd6d2", "#c02a1d"  # where an error ended the tracing
FAILED_BORDER = 2.2  # points
ENDED_BORDER = 1.4  # of the frames around it

PLUMBING_OPACITY = 0.35  # of the fill of what only arranges values
PLUMBING_FILL = "#f9fafb"  # the same where nothing is seen through it
PRECISION_BORDER = 1.8  # points, of what changes how precise values are
REST_FILL = "#f7f7f7"  # of what was left out, and of what nothing uses
# What computes in the backward pass of a derivative; its groups are named, besides.
BACKWARD_FILLS: Mapping[str, str] = {"eqn": "#f7ecf3", "hop": "#efdcea", "group": "#f0dfe4"}
# From cold to hot, for people who see no red or no green, too; dark text can be read on all.
HEATS = ("#fffaf0", "#ffecc8", "#ffd99b", "#ffc072", "#ffa052", "#fb8048", "#f26450")
# By marks: kernels that follow each other differ, for people who see no red or no green, too.
KERNELS = ("#cfe2ff", "#ffe0b0", "#cbeed3", "#f5d0e8", "#dccffa", "#f3efa6")
AS_COMPILED: Mapping[str, str] = {
    **{f"kernel-{k}": fill for k, fill in enumerate(KERNELS)},
    "alone": "#fdfdfe",
    "removed": "#d5d8dd",
}
MOVED_BORDER = 2.2  # points, of what needs values of other devices


@dataclass(frozen=True)
class ChangeLook:
    """How a mark of a comparison looks, whatever the kind of node.

    Attributes:
        sign: The sign before the label.
        name: Its name in a legend.
        fill: The colour inside.
        line: The colour of the border.
        border: The width of the border, in points.
        dashes: The dashes of the border, in points; "" for none.
    """

    sign: str
    name: str
    fill: str
    line: str
    border: float
    dashes: str = ""


CHANGES: Mapping[str, ChangeLook] = {
    "new": ChangeLook("+", "added", "#c9f2c7", "#1a7f37", 2.2),
    "gone": ChangeLook("−", "removed", "#ffd6d2", "#c02a1d", 2.2, "5 3"),
    "changed": ChangeLook("~", "changed", "#ffecb0", "#9a6700", 2.2),
    "follows": ChangeLook(
        "≈", "other types, as its operands", "#e6effb", "#3f6fb5", 1.4, "1.5 2.5"
    ),
    "same": ChangeLook("", "the same", "#f7f8fa", LINE, 0.8),
}


def look_of(node: Node) -> Look:
    """How a node looks."""
    look = LOOKS["choice" if "choice" in node.marks else node.kind]
    if "failed" in node.marks:
        return replace(look, fill=FAILED_FILL, line=FAILED_LINE, border=FAILED_BORDER)
    step = heat_step(node)
    if step is not None:
        return replace(look, fill=HEATS[step])
    fill = next((AS_COMPILED[mark] for mark in node.marks if mark in AS_COMPILED), None)
    if fill is not None:
        look = replace(look, fill=fill)
        is_moved = "moved" in node.marks
        return replace(look, line=CONTROL, border=MOVED_BORDER) if is_moved else look
    for mark in node.marks:
        if change := CHANGES.get(mark):
            return replace(look, fill=change.fill, line=change.line, border=change.border)
    if "rest" in node.marks:
        return replace(look, shape="box", fill=REST_FILL, line=LINE)
    if "unused" in node.marks:
        return replace(look, fill=REST_FILL, line=LINE)
    if "plumbing" in node.marks:
        return replace(look, fill=PLUMBING_FILL, pad=(3, 1))
    if "precision" in node.marks:
        look = replace(look, line=CONTROL, border=PRECISION_BORDER)
    if "backward" in node.marks and node.kind in BACKWARD_FILLS:
        return replace(look, fill=BACKWARD_FILLS[node.kind])
    return look


def heat_step(node: Node) -> int | None:
    """Which of `HEATS` a node has; None where it has the colour of its kind."""
    return None if node.heat is None else round(node.heat * (len(HEATS) - 1))


def classes(node: Node) -> str:
    """The classes of a node, separated by spaces."""
    step = heat_step(node)
    more = (["small"] if is_small(node) else []) + ([] if step is None else [f"heat-{step}"])
    return " ".join((node.kind, *node.marks, *more))


def is_small(node: Node) -> bool:
    """Whether it is written small: a repeated name."""
    repeated = {"stub", "again"}.intersection(node.marks)
    return bool(repeated) and len(node.lines) == 1 and node.kind in ("input", "const", "output")


def is_dashed(node: Node) -> bool:
    """Whether its border is dashed."""
    return not {"stub", "again", "added", "gone", "follows", "rest"}.isdisjoint(node.marks)
