"""Add costs and traits of equations to the nodes and clusters of a drawing, by their addresses."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from taxpr import introspect
from taxpr_jupyter._analysis import traits as _traits
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._analysis.traits import Trait
from taxpr_jupyter._heat.as_compiled import AsCompiled
from taxpr_jupyter._heat.given import Given
from taxpr_jupyter._heat.measured import Colours, Measured
from taxpr_jupyter._model.kinds import CostKind
from taxpr_jupyter._model.model import Cluster, Heat, Node
from taxpr_jupyter._text import titles
from taxpr_jupyter._tree.tree import Block, Item, Lifted

_DECADES = 3  # powers of ten on the scale: matmuls stand out, and differ from each other
_OF_MEASURED = 2  # the same, of what was measured: a hundredth of the most is little
_COMPUTING = ("eqn", "hop", "group")
_REPEATED = frozenset(("stub", "again", "bar", "choice"))  # what is drawn elsewhere, too


@dataclass(frozen=True)
class _KnownTexts:
    """The facts about one address.

    Attributes:
        lines: Lines for its tooltip.
        traits: Its traits.
        cost: The cost of all its runs; None if it is no equation, or their number is unknown.
    """

    lines: tuple[str, ...] = ()
    traits: tuple[Trait, ...] = ()
    cost: introspect.Cost | None = None


@dataclass(frozen=True, eq=False)
class _OfItem:
    """The facts about an equation or group that do not depend on how it is drawn.

    Equations that are alike share theirs.

    Attributes:
        cost: The cost of one run.
        every: The traits of any of its equations.
        common: The traits of all of them.
    """

    cost: introspect.Cost
    every: Sequence[Trait]
    common: frozenset[Trait]

    @property
    def traits(self) -> list[Trait]:
        """Its traits: what any equation has of effects and conversions, else what all share."""
        return [t for t in self.every if t.mark in ("effect", "precision") or t in self.common]


class Facts:
    """The facts about the items of a program, computed once for all drawings.

    Args:
        keys: The structural hashes: equations that are alike have the same facts.
    """

    def __init__(self, keys: Keys) -> None:
        self.costs = introspect.Costs()
        self._keys = keys
        self._by_key: dict[tuple[int, tuple[str, ...]], _OfItem] = {}
        self._known: introspect.ByIdentity[_OfItem] = introspect.ByIdentity()
        self._eqns: introspect.ByIdentity[_OfItem] = introspect.ByIdentity()
        self._ends: introspect.ByIdentity[Mapping[str, Sequence[Trait]]] = introspect.ByIdentity()

    def of(self, item: Item) -> _OfItem:
        """The facts about an item."""
        return self._known.of(item, self._of)

    def _of(self, item: Item) -> _OfItem:
        if not item.is_group:
            return self._of_eqn(item.eqn)
        parts = Counter(self._eqns.of(eqn, self._of_eqn) for _, eqn in item.eqns)
        every = tuple(dict.fromkeys(trait for part in parts for trait in part.every))
        common = frozenset.intersection(*(part.common for part in parts)) if every else frozenset()
        cost = introspect.Cost.total(part.cost.times(number) for part, number in parts.items())
        return _OfItem(cost, every, common)

    def _of_eqn(self, eqn: introspect.JaxprEqn) -> _OfItem:
        key = self._keys.alike(eqn), introspect.transformations_of(eqn)
        known = self._by_key.get(key)
        if known is None:
            found = tuple(_traits.traits(eqn))
            known = _OfItem(self.costs.of_eqn(eqn), found, frozenset(found))
            self._by_key[key] = known
        return known

    def ends(self, block: Block) -> Mapping[str, Sequence[Trait]]:
        """The traits of the inputs of a jaxpr, by address."""
        return self._ends.of(block, self._of_ends)

    def _of_ends(self, block: Block) -> Mapping[str, Sequence[Trait]]:
        places = {var: block.address / f"in{i}" for i, var in enumerate(block.jaxpr.invars)}
        made = {places[var]: list(_traits.traits_of_value(var.aval)) for var in places}
        for eqn in block.jaxpr.eqns:
            if "donated_invars" not in eqn.params and "in_specs" not in eqn.params:
                continue
            for k, atom in enumerate(eqn.invars):
                if not introspect.is_literal(atom) and atom in places:
                    made[places[atom]] += _traits.traits_of_operand(eqn, k)
        return {address: found for address, found in made.items() if found}


class Annotator:
    """Adds the facts about a program's equations to a drawing of it."""

    def __init__(
        self,
        root: Block,
        facts: Facts,
        heat: Colours = None,
        hidden: Mapping[str, Sequence[str]] | None = None,
    ):
        self._facts = facts
        self._heat: Colours = heat
        self._hidden = hidden or {}
        self._open: dict[str, Sequence[str]] = {}  # what is in each open equation or group
        self._known: dict[str, _KnownTexts] = {}
        self._root = root
        self._batched: dict[str | None, frozenset[Trait]] = {None: frozenset()}
        self._block(root, 1)  # fills `_known`

    def clusters(self, clusters: Iterable[Cluster]) -> tuple[Cluster, ...]:
        """The clusters, outer ones first, with their costs. To be called before `nodes`."""
        made: list[Cluster] = []
        clusters = tuple(clusters)
        ids = {cluster.id for cluster in clusters}
        for cluster in clusters:
            made.append(self._cluster(cluster, ids))
            known = self._known.get(cluster.address, _KnownTexts())
            batched = {trait for trait in known.traits if trait.mark == "batched"}
            self._batched[cluster.id] = self._batched[cluster.parent] | batched
        return tuple(made)

    def nodes(self, nodes: Iterable[Node]) -> tuple[tuple[Node, ...], Heat | None]:
        """The nodes with their costs and traits, and the scale of their colours."""
        every, heat = tuple(self._node(node) for node in nodes), self._heat
        if heat is None:
            return every, None
        if isinstance(heat, AsCompiled):
            every = tuple(self._as_compiled(node, heat) for node in every)
            return every, Heat(heat.kind, notes=heat.notes)
        if isinstance(heat, Given):
            every = tuple(self._given(node, heat) for node in every)
            scale = Heat(heat.kind, heat.high, 0, (heat.note,), heat.low, heat.title)
            return every, scale
        if isinstance(heat, Measured):
            warmth = {node.id: self._measured(node, heat) for node in every}
        else:
            warmth = {node.id: self._warmth(node, heat) for node in every}
        top = max((value for value in warmth.values() if value is not None), default=0)
        if isinstance(heat, Measured):
            every = tuple(_told(node, heat.words(*self._stands_for(node))) for node in every)
            scale = Heat(heat.kind, top, _OF_MEASURED, (heat.note,))
        else:
            scale = Heat(heat, top, _DECADES)
        return tuple(_coloured(node, warmth[node.id], scale) for node in every), scale

    # --- the tree ---------------------------------------------------------------------------------

    def _block(self, block: Block, runs: int | None) -> None:
        for item in block.items:
            self._item(item, runs)
        for address, found in self._facts.ends(block).items():
            self._trait(address, found)

    def _item(self, item: Item, runs: int | None) -> None:
        """Note the facts about an equation or group; `runs` is how often it runs, if known."""
        if item.is_group or not introspect.is_tag(item.eqn):
            found = self._facts.of(item)
            lines = found.cost.lines(None if item.is_group else item.eqn)
            every = None if runs is None else found.cost.times(runs)
            if runs != 1 and every is not None:
                lines += (f"in all {runs:,} runs: {every}",)
            self._known[item.address] = _KnownTexts(lines, tuple(found.traits), every)
        if item.open:
            of_group = [address for address, _ in item.eqns]
            self._open[item.address] = of_group if item.is_group else [item.address]
        for child in (*item.children, *item.tags) if item.open else item.tags:
            self._item(child, runs)
        for call in item.lifted:
            self._lifted(item, call, runs)
        for block, nested in item.blocks if item.open else ():
            eqn = item.eqn
            trips = introspect.trips_of(eqn, nested)
            inside = None if runs is None or trips is None else runs * trips
            lines = self._known[item.address].lines
            once = self._facts.costs.of_jaxpr(block.jaxpr)
            if len(item.blocks) > 1 or inside != runs:
                lines += (f"{nested.title}, each time: {once}",)
            self._known[block.address] = _KnownTexts(lines)
            self._block(block, inside)
            for i, k in enumerate(nested.operands):
                if k is not None:
                    self._trait(block.address / f"in{i}", _traits.traits_of_operand(eqn, k))

    def _lifted(self, item: Item, call: Lifted, runs: int | None) -> None:
        """Note the facts about a call that is lifted out of an item, and about the rest of it."""
        for level in call.way:
            trips = introspect.trips_of(level.item.eqn, level.nested)
            runs = None if runs is None or trips is None else runs * trips
        self._item(call.item, runs)
        assert item.lift is not None
        whole = self._known[item.address]
        if item.lift.address not in self._known:
            self._known[item.lift.address] = whole
            lines = tuple(f"with the functions beside it: {line}" for line in whole.lines)
            self._known[item.address] = replace(whole, lines=lines)

    def _trait(self, address: str, more: Iterable[Trait]) -> None:
        known = self._known.get(address, _KnownTexts())
        found = dict.fromkeys((*known.traits, *more))
        if found:
            self._known[address] = replace(known, traits=tuple(found))

    # --- parts of the picture ---------------------------------------------------------------------

    def _cluster(self, cluster: Cluster, ids: Collection[str]) -> Cluster:
        if isinstance(self._heat, Measured | Given):
            # The frame of a nested jaxpr is that of its equation, unless there are several of them.
            at = cluster.id if cluster.fold in ids else cluster.fold
            cluster = _told(cluster, self._heat.words(*self._open.get(at, (at,))))
        known = self._known.get(cluster.address)
        if cluster.kind == "function":
            known = _KnownTexts(self._facts.costs.of_jaxpr(self._root.jaxpr).lines())
        if known is None:
            return cluster
        words = [trait.words for trait in known.traits]
        return replace(
            cluster,
            lines=_signed(cluster, self._new(known, cluster.parent)),
            tooltip=_joined(cluster.tooltip, (*words, *known.lines)),
            cost=(*cluster.cost, *known.lines),
        )

    def _node(self, node: Node) -> Node:
        known = self._known.get(node.address)
        if known is None or node.kind in ("tag", "injected"):
            return node
        # An open equation has its cost on its cluster, and a value's facts stand where it is made.
        if "choice" in node.marks or "bar" in node.marks:
            return node
        return replace(
            node,
            lines=_signed(node, self._new(known, node.cluster)),
            tooltip=_joined(node.tooltip, (*(t.words for t in known.traits), *known.lines)),
            marks=(*node.marks, *dict.fromkeys(trait.mark for trait in known.traits)),
            cost=known.lines,
        )

    def _new(self, known: _KnownTexts, cluster: str | None) -> list[Trait]:
        """The traits that the cluster around it does not say already."""
        return [trait for trait in known.traits if trait not in self._batched[cluster]]

    def _stands_for(self, node: Node) -> Sequence[str]:
        """The addresses that this node alone shows."""
        if node.address in self._open or not _REPEATED.isdisjoint(node.marks):
            return ()
        if node.kind not in (*_COMPUTING, "input", "const"):
            return ()
        return self._hidden.get(node.address, (node.address,))

    def _measured(self, node: Node, heat: Measured) -> float | None:
        """The measured number of a node; None if it computes nothing and holds nothing."""
        addresses = self._stands_for(node)
        amount = heat.inside(*addresses)
        return amount if amount or (addresses and node.kind in _COMPUTING) else None

    def _given(self, node: Node, heat: Given) -> Node:
        """A node with the numbers that the user gave its values."""
        addresses = self._stands_for(node)
        number = heat.of(*addresses)
        node = _told(node, heat.words(*addresses))
        return node if number is None else replace(node, heat=heat.share(number))

    def _as_compiled(self, node: Node, heat: AsCompiled) -> Node:
        """A node as XLA has compiled it."""
        addresses = self._stands_for(node)
        if not addresses or node.kind not in _COMPUTING:
            return node
        found = heat.at(*addresses)
        lines = titles.signed(node.lines, node.titled, found.signs)
        moved = [f"⇄ {found.moved}"] if found.moved else []
        return replace(
            node,
            lines=(*lines, *moved),
            tooltip=_joined(node.tooltip, found.words),
            cost=(*found.words, *node.cost),
            marks=(*node.marks, *found.marks),
            kernels=found.kernels,
        )

    def _warmth(self, node: Node, heat: CostKind) -> int | None:
        """The number that a node is coloured by; None if it has none, or that is unknown."""
        known = self._known.get(node.address)
        if known is None or known.cost is None or node.kind not in _COMPUTING:
            return None
        if "choice" in node.marks:
            return None
        if heat == "bytes":
            return known.cost.bytes
        if known.cost.unknown and not known.cost.operations:
            return None
        return known.cost.operations


T = TypeVar("T", Node, Cluster)


def _told(shown: T, words: str) -> T:
    """A part of the picture with measured numbers in its tooltip and beside its costs."""
    if not words:
        return shown
    return replace(shown, tooltip=_joined(shown.tooltip, [words]), cost=(words, *shown.cost))


def _coloured(node: Node, value: float | None, scale: Heat) -> Node:
    if value is None:
        return node
    share = value / scale.top if scale.top else 0.0
    heat = max(0.0, 1 + math.log10(share) / scale.decades) if share else 0.0
    return replace(node, heat=heat)


def _signed(shown: Node | Cluster, traits: Sequence[Trait]) -> tuple[str, ...]:
    """A label with the signs of traits after its title, and shardings below."""
    signs = dict.fromkeys(t.sign for t in traits if t.mark != "sharded")
    specs = dict.fromkeys(t.sign for t in traits if t.mark == "sharded" and t.sign)
    return (*titles.signed(shown.lines, shown.titled, signs), *specs)


def _joined(tooltip: str, lines: Iterable[str]) -> str:
    return "\n".join(line for line in (tooltip, *lines) if line)
