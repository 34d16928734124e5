"""Find the carries of a while's body that its condition uses, and those that it does not."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import taxpr
from taxpr_jupyter._tree.tree import Block


class WayBack(NamedTuple):
    """A way of a carry into another jaxpr of its loop.

    Attributes:
        source: The address of the jaxpr that makes the carry.
        out: The number of its output there.
        target: The address of the other jaxpr.
        into: The number of its input there.
    """

    source: str
    out: int
    target: str
    into: int


def ways_to_others(blocks: Sequence[tuple[Block, taxpr.Nested]]) -> Iterator[WayBack]:
    """The ways from the body of a while to its condition, for carries that this uses."""
    for block, nested in blocks:
        carries = {nested.operands[i]: j for j, i in nested.back}
        for other, reads in blocks if carries else ():
            if other is block:
                continue
            for i, k in enumerate(reads.operands):
                if k in carries and other.jaxpr.invars[i] in other.flow.graph.used:
                    yield WayBack(block.address, carries[k], other.address, i)


def shown_in_the_body(
    block: Block, blocks: Sequence[tuple[Block, taxpr.Nested]]
) -> dict[int, tuple[str, int]]:
    """The inputs of a jaxpr that nothing there uses, and that are carries of the loop.

    Returns:
        For the number of each the address of the body, and its number there.
    """
    carries: dict[int | None, tuple[str, int]] = {
        nested.operands[i]: (body.address, i)
        for body, nested in blocks
        if body is not block
        for _, i in nested.back
    }
    operands = next(nested.operands for other, nested in blocks if other is block)
    used = block.flow.graph.used
    return {
        i: carries[k]
        for i, k in enumerate(operands)
        if k in carries and block.jaxpr.invars[i] not in used
    }
