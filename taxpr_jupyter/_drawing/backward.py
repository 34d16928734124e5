"""Mark where a forward pass ends and its backward pass begins."""

from __future__ import annotations

from collections.abc import Sequence

from taxpr_jupyter._analysis.loss_boundary import is_one
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.scope import Scope
from taxpr_jupyter._tree.tree import Block, Item

LOSS = "the loss: the backward pass begins with its derivative by itself, 1.0"
_SEED = "the backward pass begins with the derivative of the loss by itself, 1.0"


def nodes(scope: Scope, block: Block, item: Item, node: str) -> Sequence[str]:
    """The ids of the nodes of a drawn item that make the loss, or take its derivative.

    Args:
        scope: The values of its jaxpr.
        block: That jaxpr.
        item: The item.
        node: The id of its first node.
    """
    loss, ends = block.loss, block.turns_in(item)
    if not item.open:
        return [node for _ in ends]
    if not loss or not ends or item.is_group:  # what is inside of a group was asked before
        return []
    if item.eqn is loss.eqn:
        return [scope.origins[loss.var].node]
    if sum(map(is_one, item.eqn.invars)) > 1:  # of which one is no derivative
        return []
    # Each branch takes it: the first stands for all.
    return [use.node for use in scope.uses if use.item == item.address and is_one(use.atom)][:1]


def draw(canvas: Canvas, scope: Scope) -> None:
    """Draws a line from the one to each of the others, where they are not the same node."""
    made, *begins = [*dict.fromkeys(scope.turn)] or [""]  # which is the order of the program
    for node in begins:
        canvas.edge(made, node, "seed", tooltip=_SEED)
