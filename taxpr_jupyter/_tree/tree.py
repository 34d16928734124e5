"""The tree of a program: a `Block` for each jaxpr, with an `Item` for each equation or group."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.liveness import Flow, pass_of
from taxpr_jupyter._analysis.loss_boundary import Loss, loss_of
from taxpr_jupyter._analysis.names import Names
from taxpr_jupyter._analysis.stateful import StateEnds
from taxpr_jupyter._text.elements import row_of

GroupKind = Literal[
    "pass",  # the forward or the backward pass of a derivative
    "scope",  # a part of the name stack: a module, a `jax.named_scope`
    "loop",  # a loop of Python, which is unrolled
    "statement",  # a statement of the user's source
    "expression",  # a part of one
    "function",  # a call of a function of the user's, where its source is not known
    "callback",  # a call of a function of the user's by a library, in what that traced
    "repeat",  # the same again and again
    "more",  # of a repeat, all but the first one
    "once",  # of a repeat, one
    "run",  # equations in a row, for want of a better reason
    "rest",  # what the reader left out
]


SOURCE = frozenset({"loop", "statement", "expression"})  # what has a title of the user's source
# A name of what enters or leaves computes nothing: so many take the room of a node of a picture.
ENDS_IN_A_NODE = 2


@dataclass(eq=False)
class Item:
    """An equation, or equations in a row that belong together.

    Attributes:
        address: The equation's or the group's.
        eqns: The equation, or all equations of the group, with their addresses.
        kind: Why a group was made; "" for an equation.
        title: The title of a group, or of an equation that is all of a statement or expression.
        note: More about a group in a few words; may be empty.
        children: The items of a group; () for an equation.
        tags: The tags of a group that show next to it while it is folded. Its `eqns` are without
            them.
        blocks: The nested jaxprs of an open equation.
        open: Whether the picture shows what is inside.
        forward: For a group of the backward pass, the address of its forward pass.
        stop: The end of a group: a position in the equations of the jaxpr.
        within_backward: Whether it is in a nested jaxpr of an equation of a backward pass.
        within_recomputed: Whether it is in one that `jax.checkpoint` computes again.
        called: The name of the user's function that a library calls here; else "".
        function: The same function as a key, which others of that name do not have: its file, its
            qualified name, from where it is called, and whether it is its derivative.
        parts: The transformations that a call of an optimizer chains.
        lift: The user's functions that a call of a library runs, to be drawn beside the rest.
    """

    address: taxpr.Address
    eqns: Sequence[tuple[taxpr.Address, Any]]
    kind: GroupKind | Literal[""] = ""
    title: str = ""
    note: str = ""
    children: Sequence[Item] = ()
    tags: Sequence[Item] = ()
    blocks: Sequence[tuple[Block, introspect.Nested]] = ()
    open: bool = False
    forward: str = ""
    stop: int = 0
    within_backward: bool = False
    within_recomputed: bool = False
    called: str = ""
    function: tuple[Any, ...] = ()
    parts: Sequence[str] = ()
    lift: Lift | None = None

    @property
    def is_recomputed(self) -> bool:
        """Whether `jax.checkpoint` computes it again for a backward pass."""
        return self.within_recomputed or introspect.is_recomputed(self.eqns[0][1])

    @property
    def is_backward(self) -> bool:
        """Whether it is part of a backward pass."""
        # What is nested has a name stack of its own, which says nothing of what it is nested in.
        return self.within_backward or pass_of(self.eqns[0][1]) == "backward"

    @property
    def is_group(self) -> bool:
        """Whether it is a group of equations."""
        return bool(self.children)

    @property
    def lifted(self) -> Sequence[Lifted]:
        """The user's functions that are drawn beside the rest of it now."""
        return self.lift.calls if self.lift and self.lift.open and not self.open else ()

    @property
    def rest(self) -> str:
        """Its name beside them; "" of an item without any."""
        return self.lift.rest if self.lift and self.lifted else ""

    @property
    def opens(self) -> taxpr.Address:
        """The address to unfold when it is closed: first to lift functions, then to show all."""
        return self.lift.address if self.lift and not self.lift.open else self.address

    @property
    def nodes(self) -> int:
        """How many nodes it has when it is folded."""
        return int(self.is_group or not introspect.is_tag(self.eqn))  # tags are badges on others

    @property
    def eqn(self) -> Any:
        """The equation, of an item that is no group."""
        return self.eqns[0][1]


class Level(NamedTuple):
    """A step from a call of a library down to a function of the user's.

    Attributes:
        item: An equation.
        block: Its nested jaxpr with the next step.
        nested: How it is nested.
    """

    item: Item
    block: Block
    nested: introspect.Nested


class Lifted(NamedTuple):
    """A call of a function of the user's, deep inside of a call of a library.

    Attributes:
        item: Its equations.
        way: The equations around it, outermost first.
    """

    item: Item
    way: tuple[Level, ...]

    @property
    def block(self) -> Block:
        """The jaxpr that it is in."""
        return self.way[-1].block


@dataclass(eq=False)
class Lift:
    """The user's functions that a call of a library runs, each once.

    Attributes:
        address: The frame around them and the rest of the call.
        calls: One call of each function.
        title: The statement of the user's that calls the library, or the function that it calls.
        rest: The name of all else.
        open: Whether they are drawn beside the rest, as long as the call itself is not open.
    """

    address: taxpr.Address
    calls: Sequence[Lifted]
    title: str
    rest: str
    open: bool = False


@dataclass(eq=False)
class BlockEnd:
    """Inputs, outputs or constants of a jaxpr that share a node, or belong together.

    Attributes:
        address: `in3` for a single input; `group:in0-7` for several that belong together.
        indices: Their indices.
        title: The common part of their names; "" for one.
        children: Their parts; () for one.
        open: Whether the children have nodes of their own.
        rest: Whether the reader left it out.
        state: The state whose value, or a part of it, this is; else None. As an output it has no
            node: it goes back to the state's node. Several states are joined to one.
        states: The number of several states; 0 for one, or a part of one.
    """

    address: taxpr.Address
    indices: Sequence[int]
    title: str = ""
    children: Sequence[BlockEnd] = ()
    open: bool = False
    rest: bool = False
    state: StateEnds | None = None
    states: int = 0

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return sum(child.nodes for child in self.children) if self.open else 1

    @functools.cached_property
    def word(self) -> str:
        """``"in"``, ``"out"`` or ``"const"``: which of these they are."""
        row = row_of(self.address)
        return row.word if row else self.address.kind

    @functools.cached_property
    def addresses(self) -> tuple[taxpr.Address, ...]:
        """The address of each."""
        home = self.address.home
        return tuple(home / f"{self.word}{i}" for i in self.indices)

    @property
    def finals(self) -> tuple[str, ...]:
        """The addresses of the final values of the state, or the part of it, that it shows."""
        assert self.state is not None
        shift = self.state.outs.start - self.state.ins.start
        return tuple(f"out{i + shift}" for i in self.indices)


@dataclass(eq=False)
class Block:
    """A jaxpr in its place.

    Attributes:
        address: "" for the program, else as in `3:scan/body`.
        jaxpr: The program, or the open view of a nested jaxpr.
        nested: How it is nested; None for the program.
        ins: Its inputs.
        outs: Its outputs.
        consts: Its constants.
        items: Its items.
        flow: The values that its groups take and give.
        names: The names of its inputs and outputs.
        all_of_it: Whether the program is a call of it and nothing else: then its inputs are those
            of the program, which have nodes.
    """

    address: taxpr.Address
    jaxpr: Any
    nested: introspect.Nested | None
    ins: Sequence[BlockEnd]
    outs: Sequence[BlockEnd]
    consts: Sequence[BlockEnd]
    items: Sequence[Item]
    flow: Flow
    names: Names
    all_of_it: bool = False
    _turns: introspect.ByIdentity[list[Any]] = field(
        default_factory=introspect.ByIdentity, init=False
    )

    @property
    def ends(self) -> Sequence[BlockEnd]:
        """Its constants, inputs and outputs."""
        return (*self.consts, *self.ins, *self.outs)

    @functools.cached_property
    def const_names(self) -> Sequence[str]:
        """The name of each constant; "" for one without."""
        return [self.names.known.get(var, "") for var in self.jaxpr.constvars]

    @functools.cached_property
    def loss(self) -> Loss | None:
        """Where the backward pass of a gradient begins, or None."""
        return loss_of(self.flow.graph)

    def turns_in(self, item: Item) -> list[Any]:
        """The equations of an item that make the loss, or take its derivative first."""
        if self.loss is None:
            return []
        ends = {id(eqn) for eqn in (self.loss.eqn, *self.loss.firsts)}
        return self._turns.of(item, lambda item: [e for _, e in item.eqns if id(e) in ends])

    @functools.cached_property
    def _own_ends(self) -> Sequence[BlockEnd]:
        """The ends that have a node here."""
        outs = [end for end in self.outs if not end.state]  # which are drawn where they enter
        if self.nested:
            own = own_outputs(self.nested)
            outs = [end for end in outs if any(own[j] for j in end.indices)]
        return (*self.consts, *(() if self.all_of_it else self.ins), *outs)

    @property
    def nodes(self) -> int:
        """About how many nodes it has when everything in it is folded."""
        ends = sum(end.nodes for end in self._own_ends)
        return sum(item.nodes for item in self.items) + room_of_ends(ends)


def own_outputs(nested: introspect.Nested) -> list[bool]:
    """Whether each output of a nested jaxpr has a node of its own.

    So has one that is carried, stacked or not returned. The results of a call come straight from
    where they are made.
    """
    return [
        result is None or role != "out"
        for result, role in zip(nested.results, nested.out_roles, strict=True)
    ]


def room_of_ends(number: int) -> int:
    """How many nodes of a picture take as much room as so many inputs, constants and outputs."""
    return -(-number // ENDS_IN_A_NODE)
