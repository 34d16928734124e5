"""A program as rules look at it: jitted functions inlined, values known by number."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._hops.places import numbered
from taxpr._hops.table import in_loop, nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._sites.made_by import equations
from taxpr._source.files import is_library_file
from taxpr._source.statements import Statement, statements_of
from taxpr._variables.variable import Variable


class Op(NamedTuple):
    """An equation of a level.

    Attributes:
        eqn: The equation.
        address: Its address.
        ins: The numbers of its operands.
        outs: The numbers of its results.
        statements: Those of the user's source that made it, innermost first.
        derivative: Whether it was made by differentiating, or differentiated.
        backward: Whether it is of a backward pass.
    """

    eqn: Any
    address: Address
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    statements: tuple[Statement, ...]
    derivative: bool
    backward: bool

    @property
    def statement(self) -> Statement | None:
        """The innermost statement of the user's source."""
        return self.statements[0] if self.statements else None

    @property
    def expression(self) -> tuple[object, ...]:
        """A key that is equal for all that one expression made in one call."""
        return (*(one.place for one in self.statements), self.statements[:1])

    @property
    def is_users(self) -> bool:
        """Whether a function of the user's made it, by JAX alone and not by another library."""
        made = statements_of(self.eqn, libraries=True)
        return bool(self.statements) and not (made and made[0].of_library)


@dataclasses.dataclass
class Level:
    """The program, the body of a loop, or a branch, with the jitted functions in it.

    Attributes:
        home: Its address.
        ops: Its equations.
        ins: The numbers of its inputs.
        outs: The numbers of its results.
        avals: The types of values, by number.
        literals: The values of literals, by number.
        consts: The values that it closes over, by number.
        addresses: The addresses of a value, in each jaxpr that has it.
        in_loop: Whether it runs several times.
        passed_over: Whether an iteration may skip it, as a branch.
        tagged: The numbers of values with a tag, which somebody may want.
        own_rule: Whether it is differentiated by a rule of its own.
        users: Whether a function of the user's is in it.
    """

    home: Address
    in_loop: bool = False
    passed_over: bool = False
    own_rule: bool = False
    users: bool = True
    ops: list[Op] = dataclasses.field(default_factory=list[Op])
    ins: tuple[int, ...] = ()
    outs: tuple[int, ...] = ()
    avals: dict[int, Any] = dataclasses.field(default_factory=dict[int, Any])
    literals: dict[int, Any] = dataclasses.field(default_factory=dict[int, Any])
    consts: dict[int, Any] = dataclasses.field(default_factory=dict[int, Any])
    addresses: dict[int, list[Address]] = dataclasses.field(
        default_factory=dict[int, list[Address]]
    )

    def __post_init__(self) -> None:
        self.tagged: set[int] = set()
        self.makers: dict[int, Op] = {}
        self.readers: dict[int, list[Op]] = {}

    def value(self, aval: Any, address: Address | None) -> int:
        """A new value."""
        number = len(self.avals)
        self.avals[number] = aval
        if address is not None:
            self.addresses[number] = [address]
        return number

    def add(self, op: Op) -> None:
        """Add an equation after the others."""
        self.ops.append(op)
        self.makers.update(dict.fromkeys(op.outs, op))
        for number in dict.fromkeys(op.ins):
            self.readers.setdefault(number, []).append(op)


_Results = tuple[Any, Mapping[int, int]]


class Examined:
    """A program, to be looked at by rules.

    Attributes:
        program: The program.
        fun: The function that it was traced from; None if only a program was given.
        results: The tree of the results, each as its position.
        changes: The positions of results that are changes of an argument, by the number of its
            leaf.
        levels: The program itself, and the bodies of its loops and the like, outermost first.
    """

    def __init__(self, program: Program, fun: Any, results: _Results | None = None) -> None:
        self.program, self.fun = program, fun
        tree = program.out_tree
        self.results, self.changes = results or (tree.unflatten(range(tree.num_leaves)), {})
        self._held: dict[Address, list[Variable]] = {}
        for one in program.variables():
            self._held.setdefault(one.address, []).append(one)
        self._made = {
            found.address: (statements, found.derivative)
            for found, _, statements in equations(program)
        }
        self.levels: list[Level] = []
        self._level(program.jaxpr, Level(Address()))

    def name(self, level: Level, number: int) -> str:
        """The variable that held a value, such as ``"loss.h"``; "" where none did."""
        return next((one.short for one in self.held(level, number)), "")

    def held(self, level: Level, number: int) -> list[Variable]:
        """The variables that held a value."""
        addresses = level.addresses.get(number, ())
        return [one for address in addresses for one in self._held.get(address, ())]

    def statements(self, address: Address) -> tuple[Statement, ...]:
        """The statements of the user's source that made an equation, innermost first."""
        return self._made[address][0]

    def _level(self, stored: Any, level: Level) -> None:
        self.levels.append(level)
        inner = _compat.open_jaxpr(stored)
        level.ins = tuple(
            level.value(var.aval, level.home / f"in{k}") for k, var in enumerate(inner.invars)
        )
        level.outs = self._inline(level, stored, level.ins, level.home, False)

    def _inline(
        self, level: Level, stored: Any, ins: Sequence[int], home: Address, derivative: bool
    ) -> tuple[int, ...]:
        """Add the equations of a jaxpr to a level; the numbers of its results."""
        inner = _compat.open_jaxpr(stored)
        at: dict[Any, int] = dict(zip(inner.invars, ins, strict=True))
        for k, number in enumerate(ins):
            level.addresses.setdefault(number, []).append(home / f"in{k}")
        consts: Sequence[Any] = _compat.consts_of(stored)
        for k, var in enumerate(inner.constvars):
            at[var] = level.value(var.aval, home / f"const{k}")
            if k < len(consts):
                level.consts[at[var]] = consts[k]

        def read(atom: Any) -> int:
            if not _compat.is_literal(atom):
                return at[atom]
            number = level.value(atom.aval, None)
            level.literals[number] = atom.val
            return number

        for local, eqn in numbered(inner):
            numbers = tuple(map(read, eqn.invars))
            if is_tag(eqn):
                level.tagged.update(numbers)
                at.update(zip(eqn.outvars, numbers, strict=True))
                continue
            address = home / local
            made = {"jvp", "transpose"}.intersection(_compat.transformations_of(eqn))
            statements, transposed = self._made[address]
            derived = derivative or transposed or bool(made)
            nested = nested_jaxprs(eqn)
            if eqn.primitive is _compat.jit_p:
                results = self._inline(
                    level, nested[0].stored, numbers, address / nested[0].label, derived
                )
                at.update(zip(eqn.outvars, results, strict=True))
                for k, number in enumerate(results):
                    level.addresses.setdefault(number, []).append(address.value(k))
                continue
            outs = tuple(
                level.value(var.aval, address.value(k)) for k, var in enumerate(eqn.outvars)
            )
            at.update(zip(eqn.outvars, outs, strict=True))
            level.add(Op(eqn, address, numbers, outs, statements, derived, transposed))
            for one in nested:
                self._level(one.stored, _below(level, eqn, one, address / one.label))
        return tuple(map(read, inner.outvars))


def _below(level: Level, eqn: Any, nested: Any, home: Address) -> Level:
    function = _compat.function_of(nested.stored)
    rule = eqn.primitive in (_compat.custom_jvp_call_p, _compat.custom_vjp_call_p)
    return Level(
        home,
        in_loop=level.in_loop or in_loop(eqn, nested),
        passed_over=not in_loop(eqn, nested) and (level.passed_over or nested.conditional),
        own_rule=level.own_rule or rule,
        users=level.users and not (function and is_library_file(function[0], eqn)),
    )
