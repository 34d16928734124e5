"""The values that `hand_out` is to hand out, as a tree like their jaxprs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable

from taxpr._compat import Array
from taxpr._sites.site import Step, runs_once

# What is handed out of a value: itself, or what this computes of it.
Summary = Callable[[Array], Array]
Slot = tuple[str, int, int]  # kind, number and result, as in a `Located`


@dataclasses.dataclass
class WantedTree:
    """The values wanted of a jaxpr and of its nested jaxprs.

    Attributes:
        at: The function of each value whose result is handed out instead; None for the value.
        below: By the position of an equation and the label.
        repeated: Whether a loop is around it.
        slotted: Whether a while loop is.
        always: Whether it runs once whenever its equation does.
    """

    repeated: bool = False
    slotted: bool = False
    always: bool = False
    at: dict[Slot, Summary | None] = dataclasses.field(
        default_factory=dict["Slot", "Summary | None"]
    )
    below: dict[int, dict[str, WantedTree]] = dataclasses.field(
        default_factory=dict[int, "dict[str, WantedTree]"]
    )

    @functools.cached_property
    def key(self) -> Hashable:
        """Equal for equal work."""
        below = (
            (position, label, sub.key)
            for position, of_eqn in self.below.items()
            for label, sub in of_eqn.items()
        )
        around = self.repeated, self.slotted, self.always
        return around, frozenset(self.at.items()), frozenset(below)

    def inside(self, step: Step) -> WantedTree:
        """Those of a nested jaxpr."""
        of_eqn, nested = self.below.setdefault(step.position, {}), step.nested
        return of_eqn.setdefault(
            nested.label,
            WantedTree(
                self.repeated or step.is_loop,
                self.slotted or step.is_while,
                runs_once(step.eqn, nested),
            ),
        )
