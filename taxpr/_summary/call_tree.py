"""The tree of the user's functions that a program went through, down to their statements.

A function is a child of the one that called it, once for each line that did: all calls from one
line share a node. Equations of a library count for the statement that called the library.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn
from taxpr._compiled.attribution import Attributions
from taxpr._costs.costs import Cost
from taxpr._costs.placed_costs import PlacedJaxpr, placed
from taxpr._programs.program import Program
from taxpr._sites.made_by import equations
from taxpr._source.files import is_installed, is_users, own_of
from taxpr._source.own_modules import OwnModules
from taxpr._source.statements import Statement
from taxpr._watching.changes import is_of_jax

_SHAPES = 2  # that are told
# Functions for Python up to 3.11, and generators later, too.
_COMPREHENSIONS = "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"


# A jaxpr, and the frames that called a function in it.
_Place = tuple[Address, tuple[Any, ...]]


class Costed(NamedTuple):
    """An equation of a node that holds no others.

    Attributes:
        address: Its address.
        cost: The cost of all its runs; a while loop counts as one iteration.
        counted: Whether it counts for the nodes around, see `PlacedJaxpr.counted`.
        endless: Whether a while loop around it has an unknown number of iterations.
        backward: Whether it is of a backward pass, also one that is computed once more there.
    """

    address: Address
    cost: Cost
    counted: bool
    endless: bool
    backward: bool


@dataclasses.dataclass(eq=False)
class CallNode:
    """A function, called from one place, or a statement of a function.

    Attributes:
        name: The function, or the statement.
        is_function: Which of the two it is.
        line: The line of the call, or of the statement; "" of the program.
        code: The statement of the call, or itself.
        variable: The variables that this statement bound.
        parent: The function around it; None of the program.
        children: The functions and statements in it, in the order of the program.
        own: The equations that are of no child.
        addresses: The equations that are of no child, with those that hold others.
        chooses: Whether one of these is a cond.
        shapes: The types of the values that others read.
        votes: How often each equation was made by the calls of one place.
        in_library: The same of equations that a library made, which may loop.
        looped: Whether a Python loop is around this place, in the same jaxpr.
        times: How often each jaxpr runs that has a call of it; None if nobody knows.
    """

    name: str
    is_function: bool
    line: str = ""
    code: str = ""
    variable: str = ""
    parent: CallNode | None = None
    children: dict[Any, CallNode] = dataclasses.field(default_factory=dict[Any, "CallNode"])
    own: list[Costed] = dataclasses.field(default_factory=list[Costed])
    addresses: list[Address] = dataclasses.field(default_factory=list[Address])
    chooses: bool = False
    shapes: dict[str, None] = dataclasses.field(default_factory=dict[str, None])
    votes: dict[_Place, collections.Counter[Any]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    in_library: dict[_Place, collections.Counter[Any]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    looped: dict[_Place, bool] = dataclasses.field(default_factory=dict["_Place", bool])
    times: dict[Address, int | None] = dataclasses.field(
        default_factory=dict[Address, "int | None"]
    )

    def below(self) -> Iterator[CallNode]:
        """It, and all that is in it, outer ones first."""
        yield self
        for child in self.children.values():
            yield from child.below()

    def around(self) -> Iterator[CallNode]:
        """It, and the functions around it, inner ones first."""
        yield self
        if self.parent is not None:
            yield from self.parent.around()

    @property
    def calls(self) -> int | None:
        """How often it was called while the program was traced; None if that is not known.

        Equal equations of one place come from different calls, unless a loop in the function
        repeats them. The number of most equations counts. A library may make an equation often, as
        an optimizer does for each parameter: only one that is there once tells the number then.
        """
        total = 0
        for place, looped in self.looped.items():
            counts = collections.Counter(self.votes[place].values())
            if not counts and (looped or min(self.in_library[place].values(), default=1) > 1):
                return None
            total += max(counts, key=lambda n: (counts[n], -n), default=1)
        return total or None

    @property
    def iterations(self) -> int | None:
        """How often the loops around it run it; None if nobody knows, or its calls differ."""
        found = set(self.times.values())
        return found.pop() if len(found) == 1 else 1 if not found else None

    @property
    def shape(self) -> str:
        """The types of its results, such as ``"f32[8,64]"``."""
        told = [*self.shapes][:_SHAPES]
        return ", ".join([*told, *(["…"] if len(self.shapes) > _SHAPES else [])])


class CallTree:
    """The functions of a program.

    Attributes:
        root: The program, or the function that is all of it.
        node_of: The innermost node of each equation, by address.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> def layer(x):
        ...     return jnp.sin(x) * 2
        >>> def f(x):
        ...     for _ in range(3):
        ...         x = layer(x)
        ...     return x
        >>> program = trace(f, names=True)(1.0)
        >>> root = CallTree(program, Attributions(program)).root
        >>> [(one.name, one.calls) for one in root.below()]
        [('f', 1), ('layer', 3), ('return jnp.sin(x) * 2', 3)]
    """

    def __init__(self, program: Program, words: Attributions) -> None:
        self._words = words
        self._top = CallNode(program.name, True)
        self.node_of: dict[Address, CallNode] = {}
        statements = {found.address: made for found, _, made in equations(program)}
        for part in placed(program.jaxpr):
            self._part(part, statements)
        self._top.shapes.update((_type(aval), None) for aval in program.out_avals)
        _sort(self._top, {address: k for k, address in enumerate(statements)})
        self.root = self._top
        if len(self._top.children) == 1 and not self._top.own:
            [only] = self._top.children.values()
            if only.is_function:
                only.parent, only.shapes = None, only.shapes or self._top.shapes
                only.addresses += self._top.addresses  # of the jit around it
                self.root = only

    def node_at(self, address: Address) -> CallNode:
        """The innermost node of the equation at an address, or around it."""
        at = address.eqn
        while at and at not in self.node_of:
            at = at.home.home
        return self.node_of.get(at, self.root)

    def _part(self, part: PlacedJaxpr, statements: dict[Address, tuple[Statement, ...]]) -> None:
        """Take in a jaxpr of the program."""
        around = statements.get(part.home.home, ())
        outside = len(self._chain(around)) - bool(around and around[0].text)
        known: list[tuple[JaxprEqn, list[_Link]]] = []
        for address, eqn, cost in part.eqns:
            made = statements.get(address, ())
            chain = self._chain(made)
            node = self.node_of[address] = chain[-1].node
            node.addresses.append(address)
            node.chooses = node.chooses or eqn.primitive is _compat.cond_p
            backward = self._words.is_backward(address)
            if cost is not None:
                every = cost.times(part.times)
                node.own.append(Costed(address, every, part.counted, part.endless, backward))
            if not backward:
                # Of the functions that were called in this jaxpr, and not around it.
                is_within = not around or made[-len(around) :] == around
                begin = outside if is_within else 1
                own = chain[begin:] if len(made) > len(around) or not is_within else []
                _vote(part, eqn, own)
                known.append((eqn, own))
        _note_shapes(part, known)

    def _chain(self, made: Sequence[Statement]) -> list[_Link]:
        """The nodes of some functions, which are given innermost first, and of their statement."""
        site = Statement("", "", 0)
        chain = [_Link(self._top, False, site)]
        for one in reversed(made):
            name, node = one.function.rpartition("<locals>.")[2], chain[-1].node
            if name in _COMPREHENSIONS:
                chain[-1] = chain[-1]._replace(loops=True)
            else:
                chain.append(_Link(self._child(node, name, one, site), bool(one.loops), one))
            site = one
        if site.text:
            chain.append(_Link(self._child(chain[-1].node, "", site, site), False, None))
        return chain

    def _child(self, node: CallNode, name: str, of: Statement, site: Statement) -> CallNode:
        """The function of this name, called by a statement; or the statement, without a name."""
        key = name, of.file, of.function, site.file, site.line, site.text
        if key not in node.children:
            line = self._words.place(site.file, site.line) if site.file else ""
            bound = self._words.bound_by(site) if site.text else ""
            child = CallNode(name or site.text, bool(name), line, site.text, bound, node)
            node.children[key] = child
        return node.children[key]


class _Link(NamedTuple):
    """A node on the way to an equation.

    Attributes:
        node: The node.
        loops: Whether the next one is in a Python loop of this function.
        frame: Where the function was; None of a statement.
    """

    node: CallNode
    loops: bool
    frame: Statement | None


def _vote(part: PlacedJaxpr, eqn: JaxprEqn, own: Sequence[_Link]) -> None:
    """Count an equation for the number of calls of its functions, unless a loop repeats it."""
    codes, instructions = _compat.frames_of(eqn)
    frames = *zip(map(id, codes), instructions, strict=True), eqn.primitive
    modules = own_of(eqn)
    callers: list[Any] = []  # where each of the functions was, inner ones first
    libraries: list[bool] = []  # whether a library is further inside, likewise
    begin = 0
    for _, _, frame in reversed(own):
        while frame and begin < len(codes) and not _is_of(codes[begin], frame):
            begin += 1
        if frame:
            callers.append(frames[begin])
            libraries.append(any(_may_loop(code.co_filename, modules) for code in codes[:begin]))
            begin += 1
    inner = False
    for k, (node, loops, frame) in reversed(list(enumerate(own))):
        is_of_library = libraries[0] if libraries else False
        if frame:
            callers, libraries = callers[1:], libraries[1:]
        place = part.home, tuple(callers if frame else callers[1:])
        node.looped[place] = any(link.loops for link in own[:k])
        node.times[part.home] = None if part.endless else part.times
        inner = inner or loops
        if not inner:
            (node.in_library if is_of_library else node.votes)[place][frames] += 1


@functools.lru_cache(maxsize=4096)
def _may_loop(file: str, own: OwnModules | None) -> bool:
    """Whether a file is of a library that may call something for each layer or parameter."""
    return is_installed(file) and not is_users(file, own) and not is_of_jax(file)


def _is_of(code: CodeType, frame: Statement) -> bool:
    return (code.co_filename, code.co_qualname) == (frame.file, frame.function)


def _sort(node: CallNode, order: Mapping[Address, int]) -> int:
    """Put what is in a node into the order of the program; returns where the node begins."""
    begins = {key: _sort(child, order) for key, child in node.children.items()}
    node.children = {key: node.children[key] for key in sorted(begins, key=begins.__getitem__)}
    return min((*begins.values(), *(order[address] for address in node.addresses)), default=0)


def _note_shapes(part: PlacedJaxpr, known: Sequence[tuple[JaxprEqn, Sequence[_Link]]]) -> None:
    """Note the types of values that nodes make and others read, or the jaxpr returns."""
    made: dict[int, list[CallNode]] = {}
    for eqn, own in known:
        nodes = [one.node for one in own]
        for atom in eqn.invars:
            for node in made.get(id(atom), ()):
                if node not in nodes:
                    node.shapes[_type(_compat.aval_of(atom))] = None
        made.update((id(var), nodes) for var in eqn.outvars)
    for atom in part.jaxpr.outvars:
        for node in made.get(id(atom), ()):
            node.shapes[_type(_compat.aval_of(atom))] = None


def _type(aval: Any) -> str:
    return aval.str_short(short_dtypes=True)
