"""What of a program is open and what is folded, and how much there is in it.

A program is read as a tree: a `Block` is a jaxpr in its place, its `Item`s are equations, or, where
a jaxpr is too long to be drawn, groups: runs of equations, in groups again where there are very
many. An item that holds something can be open or folded.

Groups are cut by the number and the source lines of equations that are no tags, so that neither
tags nor what else is open moves them, and their addresses last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import taxpr
from taxpr_jupyter._picture._labels import path_parts, takes_part

HARD_LIMIT = 500  # nodes, also when the reader asks for more: layout takes minutes beyond
MANY = 40  # inputs, or outputs, of one jaxpr that are drawn one by one
_FANOUT = 40  # groups next to each other

STAYS_FOLDED = (
    "{what} stays folded: with it there would be about {nodes} nodes in the picture, and {limit} "
    "is the limit. Fold something else first."
)


@dataclass(eq=False)
class Item:
    """An equation, or a run of equations.

    Attributes:
        address: The equation's or the group's.
        eqns: The equation, or all those of the run, with their addresses.
        children: The items of a group; () for an equation.
        tags: The tags of a run that show next to it while it is folded. Its `eqns` are without
            them.
        blocks: The nested jaxprs of an open equation.
        open: Whether the picture shows what is inside.
    """

    address: str
    eqns: Sequence[tuple[str, Any]]
    children: Sequence[Item] = ()
    tags: Sequence[Item] = ()
    blocks: Sequence[tuple[Block, taxpr.Nested]] = ()
    open: bool = False

    @property
    def is_group(self) -> bool:
        """Whether it is a run of equations."""
        return bool(self.children)

    @property
    def nodes(self) -> int:
        """How many nodes it has when it is folded."""
        return 1 + len(self.tags)

    @property
    def eqn(self) -> Any:
        """The equation, of an item that is no group."""
        return self.eqns[0][1]


@dataclass(eq=False)
class Block:
    """A jaxpr in its place.

    Attributes:
        address: "" for the program, else as in `3:scan/body`.
        jaxpr: The program, or the open view of a nested jaxpr.
        nested: How it is nested; None for the program.
        ins: Ranges of inputs that share a node.
        outs: Ranges of outputs that share a node.
        items: What it consists of.
    """

    address: str
    jaxpr: Any
    nested: taxpr.Nested | None
    ins: Sequence[range]
    outs: Sequence[range]
    items: Sequence[Item] = ()

    @property
    def prefix(self) -> str:
        """What stands before the addresses inside."""
        return f"{self.address}/" if self.address else ""

    @property
    def nodes(self) -> int:
        """About how many nodes it has when everything in it is folded."""
        consts = len(self.jaxpr.constvars)
        return sum(item.nodes for item in self.items) + len(self.ins) + len(self.outs) + consts


class Fold:
    """Decides what is open.

    Args:
        program: A `taxpr.Program`.
        unfolded: Addresses that are to be open; None leaves it to the budget.
        budget: The number of nodes to aim at.
        wants: Which items are to be open, in place of `unfolded`, as far as the budget goes.

    Attributes:
        root: The program as a tree.
        note: A sentence for the user where something asked for stays folded, else "".
    """

    def __init__(
        self,
        program: Any,
        unfolded: Collection[str] | None,
        budget: int,
        wants: Callable[[Item], bool] | None = None,
    ):
        self._sizes: dict[int, tuple[Any, int, int]] = {}
        self._longest = budget * 4 // 5  # flat code up to here is drawn without groups
        self._run = max(2, budget // 6)  # equations in a group, or thereabouts
        self.note = ""
        self.root = self._block("", program, None)
        self._choose(unfolded, budget, wants or _opens_itself)

    # --- counting ---------------------------------------------------------------------------------

    def size(self, jaxpr: Any) -> tuple[int, int]:
        """How many equations, and besides how many tags, a jaxpr and all in it hold."""
        known = self._sizes.get(id(jaxpr))
        if known is None:
            sizes = [self.of_eqn(eqn) for eqn in jaxpr.eqns]
            eqns, tags = sum(eqns for eqns, _ in sizes), sum(tags for _, tags in sizes)
            # The jaxpr is kept, so that its id stays its own.
            known = self._sizes[id(jaxpr)] = (jaxpr, eqns, tags)
        return known[1:]

    def of_eqn(self, eqn: Any) -> tuple[int, int]:
        """The same for one equation, itself included."""
        if taxpr.is_tag(eqn):
            return 0, 1
        eqns, tags = self.inside(eqn)
        return 1 + eqns, tags

    def inside(self, eqn: Any) -> tuple[int, int]:
        """The same for the nested jaxprs of an equation."""
        sizes = [self.size(nested.jaxpr) for nested in taxpr.nested_jaxprs(eqn)]
        return sum(eqns for eqns, _ in sizes), sum(tags for _, tags in sizes)

    # --- the tree ---------------------------------------------------------------------------------

    def _block(self, address: str, jaxpr: Any, nested: taxpr.Nested | None) -> Block:
        ins = nested.in_roles if nested else jaxpr.in_names
        outs = nested.out_roles if nested else jaxpr.out_names
        block = Block(address, jaxpr, nested, bundles(ins), bundles(outs))
        items = [
            Item(f"{block.prefix}{local}", [(f"{block.prefix}{local}", eqn)])
            for local, eqn in taxpr.numbered(jaxpr)
        ]
        block.items = self._grouped(items, block.prefix)
        return block

    def _grouped(self, items: list[Item], prefix: str) -> Sequence[Item]:
        starts = [i for i, item in enumerate(items) if not taxpr.is_tag(item.eqn)]
        if len(starts) <= self._longest:
            return items
        show_tags = len(items) - len(starts) <= MANY
        keys = [_key(items[i].eqn) for i in starts]
        starts.append(len(items))

        def build(start: int, stop: int) -> list[Item]:
            """The items for the equations from `start` to `stop`, and the tags among them."""
            cuts = _cuts(start, stop, keys, self._run)
            if len(cuts) == 2:
                return items[starts[start] : starts[stop]]
            made = []
            for a, b in itertools.pairwise(cuts):
                inside = items[starts[a] : starts[b]]
                tags = [item for item in inside if show_tags and taxpr.is_tag(item.eqn)]
                eqns = [pair for item in inside if item not in tags for pair in item.eqns]
                made.append(Item(f"{prefix}group:{a}-{b - 1}", eqns, build(a, b), tags))
            return made

        return items[: starts[0]] + build(0, len(starts) - 1)

    def _unfolded_cost(self, item: Item) -> int:
        """How many nodes more there are when an item is open; makes its blocks."""
        if item.is_group:
            return sum(child.nodes for child in item.children) - item.nodes
        if not item.blocks:
            item.blocks = [
                (self._block(f"{item.address}/{nested.label}", nested.jaxpr, nested), nested)
                for nested in taxpr.nested_jaxprs(item.eqn)
            ]
        return sum(block.nodes for block, _ in item.blocks) - 1

    def _choose(
        self, unfolded: Collection[str] | None, budget: int, wants: Callable[[Item], bool]
    ) -> None:
        """Opens, level by level from the outside, what is asked for, or what fits the budget."""
        limit = budget if unfolded is None else max(budget, HARD_LIMIT)
        visible = self.root.nodes
        level = list(self.root.items)
        while level:
            below: list[Item] = []
            for item in level:
                wanted = wants(item) if unfolded is None else item.address in unfolded
                if not wanted or not _can_open(item):
                    continue
                more = self._unfolded_cost(item)
                if visible + more > limit:
                    if unfolded is not None:
                        self.note = STAYS_FOLDED.format(
                            what=item.address, nodes=visible + more, limit=limit
                        )
                    continue
                visible += more
                item.open = True
                below += item.children
                below += [inner for block, _ in item.blocks for inner in block.items]
            level = below


def _can_open(item: Item) -> bool:
    return item.is_group or taxpr.is_hop(item.eqn)


def _opens_itself(item: Item) -> bool:
    """Groups are there to be folded; and what takes no part in the flow of values is a detail."""
    return not item.is_group and any(map(takes_part, taxpr.nested_jaxprs(item.eqn)))


def bundles(names: Sequence[str]) -> list[range]:
    """Ranges of inputs or outputs that share a node.

    One each; or, where they are many, one for each argument, such as `params` for `params['w']` and
    `params['b']`, or for each part of the only one there is. In a nested jaxpr all of one role
    belong together.
    """
    if len(names) <= MANY:
        return [range(i, i + 1) for i in range(len(names))]
    paths = [path_parts(name) for name in names]
    whole, parts = _starts([path[:1] for path in paths]), _starts([path[:2] for path in paths])
    starts = parts if len(whole) == 1 and len(parts) <= MANY else whole
    if len(starts) > MANY:
        starts = list(range(0, len(names), -(-len(names) // MANY)))
    return [range(a, b) for a, b in itertools.pairwise([*starts, len(names)])]


def _starts(keys: Sequence[Any]) -> list[int]:
    """Where runs of equal keys begin."""
    return [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]


def _key(eqn: Any) -> tuple[str, str, int]:
    """Where an equation comes from: scope, function, line."""
    source = taxpr.source_of(eqn)
    return taxpr.scope_of(eqn), source.function if source else "", source.line if source else 0


def _cuts(start: int, stop: int, keys: Sequence[tuple[str, str, int]], run: int) -> list[int]:
    """Where to cut into pieces of about `run` equations; where the source changes, if possible."""
    length = stop - start
    if length <= 2 * run:
        return [start, stop]
    pieces = -(-length // run)
    levels = 1
    while pieces > _FANOUT**levels:
        levels += 1
    pieces = round(pieces ** (1 / levels))
    step = length / pieces

    def score(cut: int, ideal: float) -> tuple[int, float]:
        changes = [now != before for now, before in zip(keys[cut], keys[cut - 1], strict=True)]
        return (*changes, True).index(True), abs(cut - ideal)

    cuts = [start]
    for k in range(1, pieces):
        ideal = start + k * step
        window = range(int(ideal - step / 3), int(ideal + step / 3) + 1)
        cuts.append(min(window, key=lambda cut: score(cut, ideal)))
    return [*cuts, stop]
