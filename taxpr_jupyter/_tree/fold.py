"""`Fold`: decide which parts of a program are open, and count the equations in each part."""

import heapq
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from taxpr import introspect
from taxpr_jupyter._analysis.sizes import NOTHING, Size, Sizes, is_loop, total
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.grow import Tree
from taxpr_jupyter._tree.labels import takes_part
from taxpr_jupyter._tree.lift import Lifts
from taxpr_jupyter._tree.tree import Block, BlockEnd, Item, Lift

BUDGET = 40  # nodes, unless the reader asks for more or fewer
HARD_LIMIT = 500  # nodes, also when the reader asks for more: layout takes minutes beyond
_ABOUT = 1.25  # of the budget may be used rather than less than half of it, by nothing open
_PARTS = frozenset({"pass", "scope", "loop", "statement", "function", "callback"})
_DEEPER = 2  # what is a level deeper must hold so many times as much to be as important
_BACKWARD = 8  # and what is in the backward pass so many times as much
_FUNCTION = 16  # and a function, which is no module or jit, so many times as much
_LIBRARY = 64  # and what has code of libraries alone in it, so many times as much

STAYS_FOLDED = (
    "{what} stays folded: with it there would be about {nodes} nodes in the picture, and {limit} "
    "is the limit. Fold something else first."
)
MORE_THAN = (
    "There are {nodes} nodes in the picture, more than the {budget} aimed at: it gets "
    "better to read when parts are folded."
)
# Equations of a function of JAX that is one box also in small programs: `relu` has three.
_ONE_BOX = 3


class Fold:
    """A program as a tree; `choose` opens parts of it.

    The tree is made once; what is in a nested jaxpr, when it is opened for the first time.

    Attributes:
        root: The program.
        sizes: Counts equations.
        budget: The number of nodes to aim at.
        visible: About how many nodes there are in the picture, `extra` ones included.
        most: How many there may be.
        note: A sentence for the user where something asked for stays folded, else "".
    """

    def __init__(self, program: Any, budget: int, keys: Keys, only: Only | None = None):
        self.sizes = Sizes()
        self._item_sizes: introspect.ByIdentity[Size] = introspect.ByIdentity()
        self._parts: introspect.ByIdentity[bool] = introspect.ByIdentity()
        self._of_library: introspect.ByIdentity[bool] = introspect.ByIdentity()
        self._of_one_call: introspect.ByIdentity[bool] = introspect.ByIdentity()
        self._addresses: introspect.ByIdentity[tuple[str, ...]] = introspect.ByIdentity()
        self.budget = budget
        self.visible = 0
        self.most: float = budget
        self._only = only
        self.note = ""
        few = max(4, budget * 3 // 5)
        eqns = self.sizes.of_jaxpr(program).eqns
        # A reader who asks for more nodes than usual, and for as many as equations, wants them all.
        self._whole = budget > BUDGET and eqns <= budget and only is None
        self._plain = eqns <= few or self._whole
        self._tree = Tree(few, keys, self._plain, only)
        self.root = self._tree.root(program)
        self._lifts = Lifts(self._tree, self.sizes)
        self._opened: list[Item | BlockEnd | Lift] = []

    # --- counting ---------------------------------------------------------------------------------

    def of_item(self, item: Item) -> Size:
        """How many equations, and besides how many tags, an item and all in it hold."""
        return self._item_sizes.of(
            item, lambda item: self.sizes.of_eqns(eqn for _, eqn in item.eqns)
        )

    def lifted(self, item: Item) -> Size:
        """The size of the functions beside the rest of a call of a library."""
        return total([NOTHING, *(self.of_item(call.item) for call in item.lifted)])

    def addresses(self, item: Item) -> tuple[str, ...]:
        """The addresses of the equations of an item."""
        return self._addresses.of(item, lambda item: tuple(address for address, _ in item.eqns))

    # --- the tree ---------------------------------------------------------------------------------

    def unfolded_cost(self, item: Item | Lift) -> int:
        """How many nodes more there are when an item is open; makes its blocks."""
        if isinstance(item, Lift):
            return sum(call.item.nodes for call in item.calls)
        if item.is_group:
            return sum(child.nodes for child in item.children) - item.nodes
        return sum(block.nodes for block, _ in self._tree.inside(item)) - 1

    def names_in(self, item: Item) -> Sequence[Sequence[str]]:
        """The names of the inputs of each jaxpr that a loop repeats; () of another equation."""
        return self._tree.names_in(item) if is_loop(item.eqn) else ()

    def look_into(self, item: Item) -> None:
        """Make the insides of an item, and find the functions to lift out of it."""
        self._lifts.of(item)
        self.unfolded_cost(item)

    def choose(
        self,
        unfolded: Collection[str] | None,
        wants: Callable[[Item], bool] | None = None,
        extra: int = 0,
    ) -> None:
        """Choose the open nodes.

        Args:
            unfolded: Addresses to open; with None the most important nodes, as long as they fit the
                budget.
            wants: With None for `unfolded`, which items may be open.
            extra: How many nodes show no part of the program: stubs and literals, which only the
                drawing knows.
        """
        whole = self._whole and unfolded is None and wants is None
        lifts = wants is None and not self._only and not whole
        wants = wants or self._opens_itself
        for opened in self._opened:
            opened.open = False
        self._opened = []
        self.note = ""
        self.most = limit = HARD_LIMIT if whole else self.limit(unfolded)
        order = itertools.count()
        heap: list[tuple[float, int, int, Item | Lift]] = []

        def reach(items: Sequence[Item], level: int) -> None:
            for item in items:
                lift = item.lift = self._lifts.of(item) if lifts and _can_open(item) else None
                if lift and (unfolded is None or lift.address in unfolded):
                    weight = math.inf if unfolded is None else 0
                    heapq.heappush(heap, (-weight, next(order), level, lift))
                wanted = wants(item) if unfolded is None else item.address in unfolded
                if wanted and _can_open(item) and not (lift and unfolded is None):
                    weight = self._weight(item, level) if unfolded is None else 0
                    heapq.heappush(heap, (-weight, next(order), level, item))

        self._open_ends(self.root, unfolded or ())
        visible = self.root.nodes + extra
        reach(self.root.items, 0)
        while heap:
            _, _, level, item = heapq.heappop(heap)
            more = self.unfolded_cost(item)
            if visible + more > self._room(limit, visible, unfolded):
                if unfolded is not None:
                    self.note = STAYS_FOLDED.format(
                        what=item.address, nodes=visible + more, limit=limit
                    )
                continue
            self.most = self._room(limit, visible, unfolded)
            visible += more
            self.open(item)
            if isinstance(item, Lift):
                reach([call.item for call in item.calls], level + 1)
                continue
            # What only says how the same is arranged makes nothing deeper.
            reach(item.children, level + (item.kind not in ("pass", "repeat")))
            for block, _ in item.blocks:
                self._open_ends(block, unfolded or ())
                reach(block.items, level + 1)
        self.visible = visible

    def _room(self, limit: int, visible: int, unfolded: Collection[str] | None) -> float:
        """How many nodes there may be when one more item is opened."""
        little = unfolded is None and visible <= limit / 2 and not self.opens_items
        return limit * _ABOUT if little else limit

    def limit(self, unfolded: Collection[str] | None) -> int:
        """How many nodes there may be."""
        return self.budget if unfolded is None else max(self.budget, HARD_LIMIT)

    @property
    def opens_items(self) -> bool:
        """Whether equations or groups are open."""
        return any(isinstance(part, Item) for part in self._opened)

    def open(self, part: Item | BlockEnd | Lift) -> None:
        """Opens something until the next `choose`."""
        part.open = True
        self._opened.append(part)

    def _open_ends(self, block: Block, unfolded: Collection[str]) -> None:
        """Opens the inputs, outputs and constants that are asked for: they cost little."""
        ends = [*block.ends]
        for end in ends:  # which grows
            if end.children and end.address in unfolded:
                self.open(end)
                ends += end.children

    def _opens_itself(self, item: Item) -> bool:
        """Keep repeated parts and details of an equation folded."""
        if self._only:
            return self._only.opens(item)
        if self._whole:
            return True
        if not self._plain and self.root.items != [item] and self._is_inside_library(item):
            return False
        if item.kind in ("statement", "expression"):
            return self.root.items == [item] or self._has_parts(item)
        if item.is_group:
            return item.kind not in ("more", "run") and (
                self._plain or self.root.items == [item] or not self._is_of_library(item)
            )
        if self.root.items == [item] or (self._plain and not self._is_one_box(item)):
            return any(map(takes_part, introspect.nested_jaxprs(item.eqn)))
        return self._is_of_user(item.eqn)

    def _is_one_box(self, item: Item) -> bool:
        """Whether an equation is a call with little in it."""
        nested = introspect.nested_jaxprs(item.eqn)
        is_call = len(nested) == 1 and nested[0].trips == 1
        return is_call and self.of_item(item).total <= _ONE_BOX

    def _has_parts(self, item: Item) -> bool:
        """Whether there is more than equations: the user's functions, loops, several calls."""
        return self._parts.of(
            item,
            lambda item: any(
                # Scopes in a statement are the layers of a module that it calls.
                child.kind == "scope" or self._is_call(child) or self._is_part(child)
                for child in item.children
            ),
        )

    def _is_part(self, item: Item) -> bool:
        if not item.is_group:
            return self._is_of_user(item.eqn)
        return not self._is_of_library(item) if item.kind in _PARTS else self._has_parts(item)

    @staticmethod
    def _is_call(item: Item) -> bool:
        """Whether it is an expression that calls a function of a library."""
        return item.kind == "expression" and any(child.kind in _PARTS for child in item.children)

    def _is_of_library(self, item: Item) -> bool:
        """Whether it is all code of a library, without another module in it."""
        if not item.is_group:
            source = introspect.source_of(item.eqn)
            return source is not None and introspect.is_library_file(source.file, item.eqn)
        return self._of_library.of(
            item,
            lambda item: (
                item.kind in ("scope", "function", "run")
                and all(
                    child.kind != "scope" and self._is_of_library(child) for child in item.children
                )
            ),
        )

    def _is_of_user(self, eqn: introspect.JaxprEqn) -> bool:
        """Whether an equation runs functions of the user's, and not only those of a library."""
        inside = introspect.nested_jaxprs(eqn)
        return any(map(takes_part, inside)) and self._lifts.runs_users(eqn)

    def _is_of_one_call(self, item: Item) -> bool:
        """Whether one statement of the user's made all of it, by functions that are not theirs."""
        stacks = (introspect.statements_of(eqn)[:1] for _, eqn in item.eqns)
        places = (stack[0].place if stack else None for stack in stacks)
        first = next(places, None)
        if any(place != first for place in places):  # mostly one of the first equations
            return False
        return not any(self._lifts.runs_users(eqn) for _, eqn in item.eqns)

    def _is_inside_library(self, item: Item) -> bool:
        """Whether only a library could tell what is in it: its title says as much as its parts."""
        if item.kind not in ("statement", "expression", "function") or self._has_modules(item):
            return False
        several = sum(map(self._is_call, item.children)) > 1  # as in `self.norm(self.fc(x))`
        return not several and self._of_one_call.of(item, self._is_of_one_call)

    def _has_modules(self, item: Item) -> bool:
        """Whether there are scopes in it, such as the layers of a model of a library."""
        return any(child.kind == "scope" or self._has_modules(child) for child in item.children)

    def _weight(self, item: Item, level: int) -> float:
        """How much there is to see in it, for each node that it costs."""
        hidden = self.of_item(item).total
        # A reader wants to see the model before its derivative, and modules before functions.
        function = item.kind == "function"
        backward = _BACKWARD if item.is_backward else 1
        library = _LIBRARY if self._of_one_call.of(item, self._is_of_one_call) else 1
        dear = _DEEPER**level * backward * library * (_FUNCTION if function else 1)
        return hidden / dear / max(1, self.unfolded_cost(item))


def _can_open(item: Item) -> bool:
    return item.is_group or introspect.is_hop(item.eqn)
