"""`Scope`: the origins and uses of one jaxpr's values in a picture."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._drawing.roles import Role
from taxpr_jupyter._model.model import Node

# Long edges make a layout slow and a picture a knot. An input or constant is drawn once more where
# it is used this many steps below its first use.
_FAR = 6


class Origin(NamedTuple):
    """Where a value comes from.

    Attributes:
        node: The id of a node.
        value: The address of the value.
        tooltip: The value for people.
        tail: Which output of the node it is, None where it has one only.
        stub: What may be drawn again near a use far away, or None.
        name: Of an input its name.
    """

    node: str
    value: str
    tooltip: str
    tail: Role | None = None
    stub: Node | None = None
    name: str = ""


class Use(NamedTuple):
    """Where a value goes.

    Attributes:
        atom: The variable or literal.
        node: The id of the node that uses it.
        item: The address of the equation, group or output that uses it.
        cluster: Where a literal or a stub for it belongs.
        head: Which operand of the node it is, None where the order means nothing.
        name: Of an output its name.
    """

    atom: Any
    node: str
    item: str
    cluster: str | None
    head: Role | None = None
    name: str = ""


@dataclass
class Scope:
    """The values of one jaxpr in its place: where they come from and where they go.

    Attributes:
        origins: Where they come from.
        uses: Where they go.
        turn: The ids of the nodes where a forward pass ends and its backward pass begins.
    """

    origins: dict[Any, Origin] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    _made_by: dict[Any, str] = field(default_factory=dict)

    def wants(self, var: Any) -> bool:
        """Whether it is to be known where a variable comes from."""
        del var
        return True

    def define(self, var: Any, origin: Origin, item: str = "") -> None:
        """Says where a variable comes from, and which equation or group makes it, if any."""
        self.origins[var] = origin
        if item:
            self._made_by[var] = item

    def use(
        self,
        atom: Any,
        node: str,
        item: str,
        cluster: str | None,
        head: Role | None = None,
        name: str = "",
    ) -> None:
        """Says where a value goes."""
        self.uses.append(Use(atom, node, item, cluster, head, name))

    def far_uses(self) -> set[int]:
        """Which uses of inputs and constants get a stub, as indices into `uses`."""
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
        """Which uses by these bundles of outputs get a stub: what is made long before the last."""
        makers: dict[str, dict[int, int]] = {}
        for index, use in enumerate(self.uses):
            maker = None if taxpr.is_literal(use.atom) else self._made_by.get(use.atom)
            if use.node in bundles and maker is not None:
                makers.setdefault(use.node, {})[index] = self._steps.get(maker, 0)
        early: set[int] = set()
        for steps in makers.values():
            last = max(steps.values())
            early.update(index for index, step in steps.items() if step < last - _FAR)
        return early

    @functools.cached_property
    def _steps(self) -> dict[str, int]:
        """The latest step at which an item can be placed, counted from the inputs.

        The latest, because that is where a layout puts what only prepares an operand.
        """
        earliest: dict[str, int] = {}
        for use in self.uses:  # in program order, so that what is used is known
            maker = None if taxpr.is_literal(use.atom) else self._made_by.get(use.atom)
            step = 1 + earliest.get(maker, 0) if maker else 1
            earliest[use.item] = max(step, earliest.get(use.item, 0))
        latest = dict.fromkeys(earliest, max(earliest.values(), default=0))
        for use in reversed(self.uses):
            maker = None if taxpr.is_literal(use.atom) else self._made_by.get(use.atom)
            if maker is not None and maker in latest:
                latest[maker] = min(latest[maker], latest[use.item] - 1)
        return latest
