"""Draw a line from the loss to where the backward pass begins."""

from collections.abc import Sequence

from taxpr_jupyter._analysis.loss_boundary import is_one
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.scope import Scope
from taxpr_jupyter._tree.tree import Block, Item

LOSS = "the loss: the backward pass begins with its derivative by itself, 1.0"
_SEED = "the backward pass begins with the derivative of the loss by itself, 1.0"


def nodes(scope: Scope, block: Block, item: Item, node: str) -> Sequence[str]:
    """The ids of the nodes that make the loss, or take its derivative, of an item that is drawn."""
    loss, ends = block.loss, block.turns_in(item)
    if not item.open:
        return [node for _ in ends]
    if not loss or not ends or item.is_group:  # the items of an open group were drawn before
        return []
    if item.eqn is loss.eqn:
        return [scope.origins[loss.var].node]
    if sum(map(is_one, item.eqn.invars)) > 1:  # one of them is no derivative
        return []
    # Each branch takes it: mark only the first one.
    return [use.node for use in scope.literals if use.item == item.address and is_one(use.atom)][:1]


def draw(canvas: Canvas, scope: Scope) -> None:
    """Draw a line from the node of the loss to each other node of `Scope.turn`."""
    made, *begins = [*dict.fromkeys(scope.turn)] or [""]  # in program order, so the loss is first
    for node in begins:
        canvas.edge(made, node, "seed", tooltip=_SEED)
