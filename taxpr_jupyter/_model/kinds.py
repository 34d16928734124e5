"""The kinds of nodes, edges and clusters, and the quantities that colour nodes."""

import numbers
from collections.abc import Sequence
from typing import Literal, TypeVar, get_args

from taxpr_jupyter._errors import PanelError

NodeKind = Literal[
    "eqn",  # an equation without nested jaxprs; also the operands of an open one that enter none
    "hop",  # a folded equation with nested jaxprs
    "group",  # folded equations that belong together
    "tag",
    "injected",  # a tag with an injector
    "input",
    "state",  # the value of a state, which stands outside of the function
    "output",
    "const",
    "literal",
    "result",  # where the branches of an open equation meet again
    "empty",  # stands in a nested jaxpr that has nothing else to show
]
# The nodes for equations; the others only name a value.
COMPUTING: frozenset[NodeKind] = frozenset({"eqn", "hop", "group", "tag", "injected"})
EdgeKind = Literal[
    "value",  # a value, from where it is made to where it is used
    "residual",  # a value that the forward pass keeps for the backward pass
    "seed",  # from the loss to where the backward pass begins; no value goes along it
    "back",  # a carry's way back to the next iteration
    "control",  # decides what runs: a while condition, the index of a cond
    "read",  # the value of a state, from there to where it is used
    "write",  # the last value of a state, from where it is made to the state
]
CostKind = Literal["flops", "bytes"]  # what nodes are coloured by
COST_KINDS: tuple[CostKind, ...] = get_args(CostKind)
# The same, from an answer: seconds, bytes where the most is, bytes for a gradient, and the kernels.
MeasuredKind = Literal["time", "peak", "kept", "compiled"]
MEASURED_KINDS: tuple[MeasuredKind, ...] = get_args(MeasuredKind)
GivenKind = Literal["numbers"]  # the same, from the user
HeatKind = CostKind | MeasuredKind | GivenKind
DrawnKind = CostKind | Literal["compiled"]  # the same, that needs no run
DRAWN_KINDS: tuple[DrawnKind, ...] = (*COST_KINDS, "compiled")
ASKED_KINDS: tuple[CostKind | MeasuredKind, ...] = (*COST_KINDS, *MEASURED_KINDS)
HEAT_KINDS: tuple[HeatKind, ...] = (*ASKED_KINDS, "numbers")
ClusterKind = Literal[
    "jaxpr",  # a nested jaxpr
    "hop",  # an open equation that holds more than one nested jaxpr
    "group",  # open equations, or inputs or outputs, that belong together
    "function",  # all of a function that uses states, which stand outside
]
K = TypeVar("K", bound=HeatKind)


def checked_heat(kind: object, kinds: Sequence[K]) -> K | None:
    """Check the quantity to colour by.

    Raises:
        PanelError: It is nothing that nodes can be coloured by.
    """
    found = next((one for one in kinds if one == kind), None)
    if kind is not None and found is None:
        known = ", ".join(map(repr, kinds))
        raise PanelError(f"Nodes can be coloured by {known} or None, not by {kind!r}")
    return found


def checked_limits(budget: object, timeout: object) -> tuple[int, float]:
    """About how many nodes to show, and the seconds that a layout may take.

    Raises:
        PanelError: One of them is no such number.
    """
    if isinstance(budget, bool) or not isinstance(budget, numbers.Integral) or budget < 1:
        raise PanelError(
            f"budget={budget!r} is not about how many nodes to show: give a whole number from 1 on"
        )
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise PanelError(
            f"timeout={timeout!r} is not how many seconds a layout may take: give 0 or more"
        )
    return int(budget), float(timeout)
