"""`Scope`: where the values of one drawn jaxpr come from, and where they are used."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._drawing.roles import Role
from taxpr_jupyter._model.model import Node

# Long edges make a layout slow and a picture confusing. So an input or constant is drawn again, as
# a stub, next to a use that is more than this many steps below its first use.
_FAR = 6


class Origin(NamedTuple):
    """Where a value comes from.

    Attributes:
        node: The id of the node that it comes from.
        value: The address of the value.
        tooltip: The value for people.
        tail: Which result of the node it is; None if that has only one.
        stub: The node to draw again next to a far use; None if it is not drawn again.
        name: The name of an input; "" for other values.
        made: The address that a tagged value has without its tags; "" of others.
    """

    node: str
    value: str
    tooltip: str
    tail: Role | None = None
    stub: Node | None = None
    name: str = ""
    made: str = ""


class Use(NamedTuple):
    """A use of a value.

    Attributes:
        atom: The variable or literal.
        node: The id of the node that uses it.
        item: The address of the equation, group or output that uses it.
        cluster: The id of the cluster for the node of a literal, or for a stub.
        head: Which operand of the node it is; None if the order means nothing.
        name: The name of an output; "" for other uses.
    """

    atom: Any
    node: str
    item: str
    cluster: str | None
    head: Role | None = None
    name: str = ""


@dataclass
class Scope:
    """The values of one drawn jaxpr.

    Attributes:
        origins: The origin of each variable.
        uses: All uses, in program order.
        turn: The ids of the nodes where a forward pass ends and its backward pass begins.
    """

    origins: dict[Any, Origin] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    _made_by: dict[Any, str] = field(default_factory=dict)

    def wants(self, var: Any) -> bool:
        """Whether a variable is part of the drawing; all are, except in `PartScope`."""
        del var
        return True

    def define(self, var: Any, origin: Origin, item: str = "") -> None:
        """Register the origin of a variable, and the equation or group that makes it, if any."""
        if origin.node and self.wants(var):
            self.origins[var] = origin
            if item:
                self._made_by[var] = item

    def tagged(self, tag: Any) -> list[Origin]:
        """The origins of what a tag hands on; none where one is a literal, or is not drawn."""
        known = [None if taxpr.is_literal(a) else self.origins.get(a) for a in tag.invars]
        origins = [origin for origin in known if origin]
        return origins if len(origins) == len(known) else []

    def hand_on(self, atom: Any, var: Any, origin: Origin) -> None:
        """Register the origin of a tagged value: made by what makes the value."""
        self.define(var, origin, self._made_by.get(atom, ""))

    def use(
        self,
        atom: Any,
        node: str,
        item: str,
        cluster: str | None,
        head: Role | None = None,
        name: str = "",
    ) -> None:
        """Register a use of a value."""
        if taxpr.is_literal(atom) or self.wants(atom):
            self.uses.append(Use(atom, node, item, cluster, head, name))

    def maker(self, use: Use) -> str | None:
        """The equation or group that makes a used value; None for inputs, constants, literals."""
        return None if taxpr.is_literal(use.atom) else self._made_by.get(use.atom)

    def far_uses(self) -> set[int]:
        """The uses of inputs and constants that get a stub, as indices into `uses`."""
        steps = self._steps
        by_node: dict[str, list[int]] = {}
        for index, use in enumerate(self.uses):
            if not taxpr.is_literal(use.atom) and self.origins[use.atom].stub is not None:
                by_node.setdefault(self.origins[use.atom].node, []).append(index)
        far: set[int] = set()
        for indices in by_node.values():
            first = min(steps[self.uses[i].item] for i in indices)
            far.update(i for i in indices if steps[self.uses[i].item] > first + _FAR)
        return far

    def early_outs(self, bundles: Collection[str]) -> set[int]:
        """The uses by bundles of outputs that get a stub: of values made long before the last."""
        makers: dict[str, dict[int, int]] = {}
        for index, use in enumerate(self.uses):
            if use.node in bundles and (maker := self.maker(use)) is not None:
                makers.setdefault(use.node, {})[index] = self._steps.get(maker, 0)
        early: set[int] = set()
        for steps in makers.values():
            last = max(steps.values())
            early.update(index for index, step in steps.items() if step < last - _FAR)
        return early

    @functools.cached_property
    def _steps(self) -> dict[str, int]:
        """The latest step at which each item can be placed, counted from the inputs.

        The latest, as Graphviz puts an equation that only prepares an operand next to its use.
        """
        earliest: dict[str, int] = {}
        makers = list(map(self.maker, self.uses))
        for use, maker in zip(self.uses, makers, strict=True):  # in program order: it is known
            step = 1 + earliest.get(maker, 0) if maker else 1
            earliest[use.item] = max(step, earliest.get(use.item, 0))
        latest = dict.fromkeys(earliest, max(earliest.values(), default=0))
        for use, maker in zip(reversed(self.uses), reversed(makers), strict=True):
            if maker is not None and maker in latest:
                latest[maker] = min(latest[maker], latest[use.item] - 1)
        return latest
