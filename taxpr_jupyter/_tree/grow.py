"""Build the tree of a program, one jaxpr at a time."""

import functools
import itertools
from collections.abc import Callable, Collection, Sequence, Set
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._analysis.liveness import Flow
from taxpr_jupyter._analysis.names import Names, is_of_library, names_inside, names_of
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.groups import Groups
from taxpr_jupyter._tree.ports import constants_of, ends_of
from taxpr_jupyter._tree.tree import Block, Item


class Tree:
    """Makes the tree of a program; the content of a nested jaxpr on demand.

    Args:
        few: So many equations need no groups; with None nothing is in a group.
        keys: Numbers equations.
        plain: Whether the whole program has no more than these.
        only: The part that the reader wants to see; None for all.
        limit: The most equations of each jaxpr.
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
        self._alone: str | None = None  # the only equation of the program
        self._states: Set[Any] = frozenset()  # the program's inputs that are values of states
        self._names: dict[str, Names] = {}  # of the jaxprs in the tree, by address
        self._values: dict[str, tuple[DefUse, Sequence[Item]]] = {}  # and their equations

    def root(self, program: taxpr.Program) -> Block:
        """The program."""
        self._held = HeldVariables(program)
        names = names_of(program, lambda k: self._held.name(f"in{k}", {"_", "args", "kwargs"}))
        root = self._block(taxpr.Address(), program, None, names)
        self._alone = root.items[0].address if len(root.items) == 1 else None
        # Their names are paths of objects, and inside of a call those of its arguments.
        numbers = itertools.chain.from_iterable(state.ins for state in states_of(program))
        self._states = {program.invars[i] for i in numbers}
        return root

    def inside(self, item: Item) -> Sequence[tuple[Block, introspect.Nested]]:
        """The nested jaxprs of an equation, made once."""
        if not item.blocks:
            every = introspect.nested_jaxprs(item.eqn)
            item.blocks = [
                (
                    self._block(
                        item.address / nested.label,
                        nested.jaxpr,
                        nested,
                        self._names_inside(item, nested),
                        item.is_backward,
                        item.is_recomputed,
                        functools.partial(self._wanted, item.address, nested),
                    ),
                    nested,
                )
                for nested in every
            ]
            for block, _ in item.blocks if len(every) == 1 else ():
                block.all_of_it = self._is_all(item, block)
        return item.blocks

    def names_in(self, item: Item) -> Sequence[Sequence[str]]:
        """The names of the inputs of each nested jaxpr, with their roles; makes no blocks."""
        if item.blocks:
            return [block.names.ins for block, _ in item.blocks]
        every = introspect.nested_jaxprs(item.eqn)
        return [self._names_inside(item, nested).ins for nested in every]

    def _is_all(self, item: Item, block: Block) -> bool:
        """Whether a call is the whole program, and its inputs are called like the program's."""
        nested = block.nested
        if item.address != self._alone or self._only or not nested or "in_specs" in nested.facts:
            return False
        if nested.back:
            return False
        known = self._names[item.address.home].known
        operands = [None if k is None else item.eqn.invars[k] for k in nested.operands]
        return set(nested.in_roles) <= {"arg"} and all(
            atom is not None
            and not introspect.is_literal(atom)
            and (known.get(atom) == name or atom in self._states)
            for atom, name in zip(operands, block.names.ins, strict=True)
        )

    def _names_inside(self, item: Item, nested: introspect.Nested) -> Names:
        outer = item.address.home
        held = self._carried(item, nested)
        return names_inside(
            self._names[outer],
            item.eqn,
            nested,
            held,
            lambda atom: self._variable(outer, atom),
            self._held_results(item.address / nested.label, nested),
        )

    def _carried(self, item: Item, nested: introspect.Nested) -> list[str]:
        """For each input of an iteration that is not a constant its variable; "" for others.

        Where the body has but a part of a variable, `state[1]`, the condition may have unpacked it.
        """
        found: dict[int | None, list[str]] = {}
        for one in (
            nested,
            *(n for n in introspect.nested_jaxprs(item.eqn) if n.label != nested.label),
        ):
            for i, (role, k) in enumerate(zip(one.in_roles, one.operands, strict=True)):
                if role in ("carry", "x"):
                    name = self._held.name(item.address / one.label / f"in{i}")
                    found.setdefault(k, []).append(name)
        names = [
            next((name for name in found[k] if name.isidentifier()), found[k][0])
            if role in ("carry", "x")
            else ""
            for role, k in zip(nested.in_roles, nested.operands, strict=True)
        ]
        places = [item.address / nested.label / f"in{i}" for i in range(len(names))]
        outer = self._names[item.address.home]
        closed = [
            outer.known.get(item.eqn.invars[k], "")
            or self._variable(item.address.home, item.eqn.invars[k])
            for role, k in zip(nested.in_roles, nested.operands, strict=True)
            if role == "const" and k is not None and not introspect.is_literal(item.eqn.invars[k])
        ]
        return self._held.passed_on(names, places, closed)

    def _held_results(self, home: taxpr.Address, nested: introspect.Nested) -> Callable[[int], str]:
        """Gives the variable that an iteration of a scan had a row of its `ys` in; or ""."""
        places: dict[Any, taxpr.Address] = {}
        for local, eqn in introspect.numbered(nested.jaxpr) if "y" in nested.out_roles else ():
            places |= {var: (home / local).value(k) for k, var in enumerate(eqn.outvars)}

        def held(j: int) -> str:
            atom = nested.jaxpr.outvars[j]
            return "" if introspect.is_literal(atom) else self._held.name(places.get(atom, ""))

        return held

    def _variable(self, home: taxpr.Address, atom: introspect.Atom) -> str:
        """The variable that holds a value of a jaxpr, or the value without its tags."""
        graph, row = self._values[home]
        for at, k in (graph.made[atom], graph.behind(atom)[0]):
            if at >= 0 and (name := self._held.name(row[at].address.value(k))):
                return name
        return ""

    def _wanted(self, at: taxpr.Address, nested: introspect.Nested) -> Collection[int]:
        """The numbers of the outputs of a nested jaxpr that something uses."""
        graph, _ = self._values[at.home]
        return graph.wanted_of(graph.positions[at.local], nested)

    def open(self, block: Block) -> Block:
        """The jaxpr with all that is in it open."""
        for item in block.items:
            item.open = bool([self.open(inner) for inner, _ in self.inside(item)])
        return block

    def _block(
        self,
        address: taxpr.Address,
        jaxpr: Any,
        nested: introspect.Nested | None,
        names: Names,
        backward: bool = False,
        recomputed: bool = False,
        wanted: Callable[[], Collection[int]] | None = None,
    ) -> Block:
        self._names[address] = names
        states, inside = () if nested else states_of(jaxpr), nested is not None
        ins, outs = (
            ends_of(own, word, address, states, inside, grouped=self._few is not None)
            for word, own in (("in", names.ins), ("out", names.outs))
        )
        held = [names.known.get(var, "") for var in jaxpr.constvars]
        consts = constants_of(held, address, inside, grouped=self._few is not None)
        row = items = [
            Item(
                place := address / local,
                [(place, eqn)],
                within_backward=backward,
                within_recomputed=recomputed,
            )
            for local, eqn in itertools.islice(introspect.numbered(jaxpr), self._limit)
        ]
        flow = Flow(jaxpr, backward, wanted)
        if self._few is not None:
            first = next((one.eqn for one in row if not introspect.is_tag(one.eqn)), None)
            of_library = nested is not None and is_of_library(nested, first)
            given = self._few, self._keys, self._plain, of_library, flow.graph
            items = Groups(row, address, *given).items()
        if self._only:
            ins, outs = self._only.ends(ins, address), self._only.ends(outs, address)
            items = self._only.items(items, row, address)
        self._values[address] = flow.graph, row
        return Block(address, jaxpr, nested, ins, outs, consts, items, flow, names)
