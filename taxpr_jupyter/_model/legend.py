"""The legend of the panel and of pages: descriptions of the kinds of nodes and lines."""

import dataclasses
import html

from taxpr_jupyter._model import theme

_WIDTH, _HEIGHT = 34, 20  # of a sample, in pixels

# As Graphviz draws them, in a box of 2 to 32 by 2 to 18.
_SHAPES = {
    "box": '<rect x="2" y="3" width="30" height="14"/>',
    "round": '<rect x="2" y="3" width="30" height="14" rx="7"/>',
    "box3d": '<path d="M6 2H32V14L28 18H2V6zM2 6H28V18M28 6L32 2"/>',
    "folder": '<path d="M2 5H19L21 2H30L32 5V18H2z"/>',
    "hexagon": '<path d="M8 2H26L32 10L26 18H8L2 10z"/>',
    "octagon": '<path d="M9 2H25L32 7V13L25 18H9L2 13V7z"/>',
    "cylinder": '<path d="M2 5C2 1 32 1 32 5V16C32 20 2 20 2 16zM2 5C2 9 32 9 32 5"/>',
    "note": '<path d="M2 2H27L32 7V18H2zM27 2V7H32"/>',
    "diamond": '<path d="M17 2L32 10L17 18L2 10z"/>',
    "line": '<path d="M2 10H27"/><path class="tip" d="M26 6L33 10L26 14z"/>',
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of element.

    Attributes:
        classes: Its classes in the SVG.
        words: Its description.
        look: Its entry of `theme.LOOKS`; "" for a line or a frame.
    """

    classes: str
    words: str
    look: str = ""


KINDS: tuple[Kind, ...] = (
    Kind("node input", "an argument, or an input of a nested jaxpr", "input"),
    Kind("node input many", "several arguments in one: “params · 37 arrays”", "input"),
    Kind("node output", "a result, or an output of a nested jaxpr", "output"),
    Kind("node eqn", "an equation", "eqn"),
    Kind("node group", "equations folded into one, with their number", "group"),
    Kind("node hop", "an equation with jaxprs inside, folded: scan, jit, cond", "hop"),
    Kind("cluster jaxpr", "the same, open: a frame around what is inside"),
    Kind("node choice", "decides which branch runs", "choice"),
    Kind("node tag", "a tag; with a dashed border one that was added here", "tag"),
    Kind("node injected", "a tag with an injector", "injected"),
    Kind("node state", "a state: what a function reads and writes besides", "state"),
    Kind("node const", "a constant", "const"),
    Kind("node literal", "a number, or several", "literal"),
    Kind("node input stub", "dashed: the same once more, near a use far away", "input"),
    Kind("node eqn backward", "of the backward pass of a derivative", "eqn"),
    Kind("node eqn unused", "muted, [unused]: nothing uses what it makes", "eqn"),
    Kind("edge value", "a value, from where it is made to where it is used"),
    Kind("edge residual", "what the forward pass keeps for the backward pass"),
    Kind("edge seed", "from the loss to where its backward pass begins"),
    Kind("edge back", "to the next iteration of a loop"),
    Kind("edge control", "decides what runs"),
    Kind("edge read", "a state is read"),
    Kind("edge write", "a state is written"),
)


def legend_rows() -> list[tuple[str, str]]:
    """For each kind a sample as SVG, in the classes of the picture's style sheet, and words."""
    return [(_sample(kind), kind.words) for kind in KINDS]


def _sample(kind: Kind) -> str:
    name = "round" if kind.classes.startswith("cluster") else "line"
    if kind.look:
        look = theme.LOOKS[kind.look]
        name = "round" if look.rounded else look.shape
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="taxpr-svg" aria-hidden="true" '
        f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<g class="{html.escape(kind.classes)}">{_SHAPES[name]}</g></svg>'
    )
