"""Build the tree of a program, one jaxpr at a time."""

import itertools
from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.liveness import Flow
from taxpr_jupyter._analysis.names import Names, names_inside, names_of
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._text.held import Held
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.groups import Groups
from taxpr_jupyter._tree.ports import ends_of
from taxpr_jupyter._tree.tree import Block, Item


class Tree:
    """Makes the tree of a program: what is in a nested jaxpr, when it is asked for.

    Args:
        few: So many equations need no groups; with None nothing is in a group.
        keys: Numbers equations.
        plain: Whether the whole program has no more than these.
        only: What the reader wants to see; None for all.
        limit: Of each jaxpr only so many equations.
    """

    def __init__(
        self,
        few: int | None,
        keys: Keys,
        plain: bool = False,
        only: Only | None = None,
        limit: int | None = None,
    ) -> None:
        self._few, self._keys, self._plain = few, keys, plain
        self._only, self._limit = only, limit
        self._names: dict[str, Names] = {}  # of the jaxprs in the tree, by address

    def root(self, program: taxpr.Program) -> Block:
        """The program."""
        self._held = Held(program)
        return self._block(taxpr.Address(), program, None, names_of(program))

    def inside(self, item: Item) -> Sequence[tuple[Block, taxpr.Nested]]:
        """The nested jaxprs of an equation, made once."""
        if not item.blocks:
            item.blocks = [
                (
                    self._block(
                        item.address / nested.label,
                        nested.jaxpr,
                        nested,
                        self._names_inside(item, nested),
                        item.is_backward,
                        item.is_recomputed,
                    ),
                    nested,
                )
                for nested in taxpr.nested_jaxprs(item.eqn)
            ]
        return item.blocks

    def _names_inside(self, item: Item, nested: taxpr.Nested) -> Names:
        home = item.address / nested.label
        carries = [
            self._held.name(home / f"in{k}") if role == "carry" else ""
            for k, role in enumerate(nested.in_roles)
        ]
        return names_inside(self._names[item.address.home], item.eqn, nested, carries)

    def open(self, block: Block) -> Block:
        """The jaxpr with all that is in it open."""
        for item in block.items:
            item.open = bool([self.open(inner) for inner, _ in self.inside(item)])
        return block

    def _block(
        self,
        address: taxpr.Address,
        jaxpr: Any,
        nested: taxpr.Nested | None,
        names: Names,
        backward: bool = False,
        recomputed: bool = False,
    ) -> Block:
        self._names[address] = names
        states, inside = () if nested else states_of(jaxpr), nested is not None
        ins, outs = (
            ends_of(own, word, address, states, inside, grouped=self._few is not None)
            for word, own in (("in", names.ins), ("out", names.outs))
        )
        row = items = [
            Item(
                place := address / local,
                [(place, eqn)],
                within_backward=backward,
                within_recomputed=recomputed,
            )
            for local, eqn in itertools.islice(taxpr.numbered(jaxpr), self._limit)
        ]
        if self._few is not None:
            items = Groups(row, address, self._few, self._keys, self._plain).items()
        if self._only:
            ins, outs = self._only.ends(ins, address), self._only.ends(outs, address)
            items = self._only.items(items, row, address)
        return Block(address, jaxpr, nested, ins, outs, items, Flow(jaxpr, backward), names)
