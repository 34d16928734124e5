"""`Scope`: where the values of one drawn jaxpr come from, and where they are used."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
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
        repeated: The ids of nodes that have a stub at each use, as they are not drawn themselves.
    """

    origins: dict[Any, Origin] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    repeated: set[str] = field(default_factory=set)
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

    @functools.cached_property
    def sources(self) -> Sequence[Origin | None]:
        """The origin of each used value, once all uses are there; None of literals."""
        literal, origins = taxpr.is_literal, self.origins
        return [None if literal(use.atom) else origins[use.atom] for use in self.uses]

    def far_uses(self) -> set[int]:
        """The uses of inputs and constants that get a stub, as indices into `uses`."""
        steps = self._steps
        by_node: dict[str, list[tuple[int, int]]] = {}  # each with its step
        for index, (use, origin) in enumerate(zip(self.uses, self.sources, strict=True)):
            if origin is not None and origin.stub is not None:
                by_node.setdefault(origin.node, []).append((steps[use.item], index))
        far: set[int] = set()
        for node, uses in by_node.items():
            first = -_FAR if node in self.repeated else min(uses)[0]
            far.update(index for step, index in uses if step > first + _FAR)
        return far

    def early_outs(self, bundles: Collection[str]) -> set[int]:
        """The uses by bundles of outputs that get a stub: of values made long before the last."""
        found: dict[str, dict[int, int]] = {}
        for index, (use, maker) in enumerate(zip(self.uses, self._makers, strict=True)):
            if use.node in bundles and maker is not None:
                found.setdefault(use.node, {})[index] = self._steps.get(maker, 0)
        early: set[int] = set()
        for steps in found.values():
            last = max(steps.values())
            early.update(index for index, step in steps.items() if step < last - _FAR)
        return early

    @functools.cached_property
    def _steps(self) -> dict[str, int]:
        """The latest step at which each item can be placed, counted from the inputs.

        The latest, as Graphviz puts an equation that only prepares an operand next to its use.
        """
        earliest: dict[str, int] = {}
        ends = zip((use.item for use in self.uses), self._makers, strict=True)
        pairs = list(dict.fromkeys(ends))  # in program order: a maker is known
        for item, maker in pairs:
            step = 1 + earliest.get(maker, 0) if maker else 1
            earliest[item] = max(step, earliest.get(item, 0))
        latest = dict.fromkeys(earliest, max(earliest.values(), default=0))
        for item, maker in reversed(pairs):
            if maker is not None and maker in latest:
                latest[maker] = min(latest[maker], latest[item] - 1)
        return latest

    @functools.cached_property
    def _makers(self) -> Sequence[str | None]:
        """The maker of each used value."""
        return list(map(self.maker, self.uses))
