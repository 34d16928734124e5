"""Find out which inputs of a while's condition are those of its body."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import introspect
from taxpr_jupyter._tree.tree import Block


class While(NamedTuple):
    """The two jaxprs of a loop with a condition.

    Attributes:
        condition: The address of the condition.
        body: The address of the body.
        shared: For the number of each input of the condition that the body has too, its number
            there: all of the state, and constants that both take.
    """

    condition: str
    body: str
    shared: Mapping[int, int]


def while_of(eqn: Any, blocks: Sequence[tuple[Block, introspect.Nested]]) -> While | None:
    """The two jaxprs of an equation that is a loop with a condition; None if it is none."""
    bodies = [(block, nested) for block, nested in blocks if nested.back]
    others = [(block, nested) for block, nested in blocks if not nested.back]
    if len(bodies) != 1 or len(others) != 1:
        return None
    (body, looping), (condition, reads) = *bodies, *others
    carried = {i for _, i in looping.back}
    states: dict[int, int] = {}
    constants: dict[int, int] = {}  # by the identity of the operand
    for i, k in enumerate(looping.operands):
        if k is not None and i in carried:
            states[k] = i
        elif k is not None and not introspect.is_literal(eqn.invars[k]):
            constants[id(eqn.invars[k])] = i
    shared = {
        i: states[k] if k in states else constants[id(eqn.invars[k])]
        for i, k in enumerate(reads.operands)
        if k is not None and (k in states or id(eqn.invars[k]) in constants)
    }
    return While(condition.address, body.address, shared)
