"""A jaxpr as a list of operations on numbered values, with called functions inlined.

Calls such as a jitted function or `jax.checkpoint` are no operations for XLA, nor is a reshape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr
from taxpr._estimates.residuals import origin_of, size_of
from taxpr._hops.nested import Nested
from taxpr._hops.places import numbered
from taxpr._hops.table import is_loop, nested_jaxprs
from taxpr._primitives.tag_equation import tag_p
from taxpr._questions.depends import EACH, named

# The operand by another name: its bytes stay where they are.
_RENAMES = named("reshape squeeze transpose copy optimization_barrier reduce_precision") | {
    *(_compat.stop_gradient_p, _compat.name_p, _compat.pvary_p, _compat.sharding_constraint_p),
    tag_p,
}

_PROGRAM = Address()


@dataclasses.dataclass(eq=False, slots=True)
class Datum:
    """A value of a flat program.

    Attributes:
        place: Its address, or the equation that makes it.
        bytes: Its size.
        role: ``"argument"``, ``"constant"``, ``"carry"``, ``"slice"`` of a loop's ``xs``, or ``""``
            for the result of an operation.
        times: How often a loop keeps it, once for each iteration.
        number: Its number among the results of that equation.
    """

    place: Address
    bytes: int
    role: str = ""
    times: int = 1
    number: int | None = None

    @property
    def address(self) -> Address:
        """The address of its maker: for a loop's result, in its body."""
        return self.place if self.number is None else self.place.value(self.number)


@dataclasses.dataclass(eq=False, slots=True)
class Operation:
    """An operation of a flat program.

    Attributes:
        eqn: The equation.
        address: Its address.
        reads: The values that it reads; None for a literal.
        makes: The values that it makes.
        inner: The flat programs of a loop or branch, each with its nested jaxpr.
    """

    eqn: JaxprEqn
    address: Address
    reads: list[Datum | None]
    makes: list[Datum]
    inner: Sequence[tuple[Nested, FlatProgram]] = ()

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop."""
        return bool(self.inner) and is_loop(self.eqn)


@dataclasses.dataclass(eq=False, slots=True)
class FlatProgram:
    """Operations in order of execution.

    Attributes:
        inputs: Its inputs.
        operations: Its operations, without unused ones.
        outputs: Its outputs; None for a literal.
    """

    inputs: list[Datum]
    operations: list[Operation]
    outputs: list[Datum | None]


def flat_program(
    stored: StoredJaxpr, home: Address = _PROGRAM, roles: Sequence[str] = ()
) -> FlatProgram:
    """A jaxpr as a flat program.

    Args:
        stored: The jaxpr.
        home: Its address.
        roles: Those of its inputs in a loop.

    Example:
        >>> import jax
        >>> from taxpr import trace
        >>> f = lambda x: jax.jit(jax.numpy.sin)(x.reshape(2, 2)) * 2
        >>> program = trace(f)(jax.numpy.ones(4))
        >>> [(one.eqn.primitive.name, one.reads[0].address)
        ...  for one in flat_program(program.jaxpr).operations]
        [('sin', 'in0'), ('mul', '1:jit/call/0:sin.0')]
    """
    inner = _compat.open_jaxpr(stored)
    names = [*roles, *[""] * (len(inner.invars) - len(roles))] if roles else None
    inputs: list[Datum] = []
    known: dict[int, Datum] = {}
    for k, var in enumerate(inner.constvars):
        known[id(var)] = Datum(home / f"const{k}", size_of(var.aval), "constant")
    for k, var in enumerate(inner.invars):
        role = names[k] if names else "argument"
        inputs.append(Datum(home / f"in{k}", size_of(var.aval), role))
        known[id(var)] = inputs[-1]
    operations: list[Operation] = []
    # XLA merges equal operations everywhere. Only where that undoes a checkpoint it matters much.
    merged = _compat.computes_checkpoints_once() and _recomputes(inner)
    _add(stored, home, known, operations, {} if merged else None)
    outputs = [_read(known, atom) for atom in inner.outvars]
    return FlatProgram(inputs, _needed(operations, outputs), outputs)


def _add(
    stored: StoredJaxpr,
    home: Address,
    known: dict[int, Datum],
    operations: list[Operation],
    equal: dict[object, Operation] | None,
) -> None:
    """Add the operations of a jaxpr, without those that are equal to known ones."""
    for local, eqn in numbered(_compat.open_jaxpr(stored)):
        address = home / local
        reads = [known.get(id(atom)) for atom in eqn.invars]  # None for a literal
        kind = eqn.primitive
        if kind in _RENAMES and len(reads) == len(eqn.outvars):
            for var, datum in zip(eqn.outvars, reads, strict=True):
                known[id(var)] = datum or Datum(address.value(0), 0, "constant")
            continue
        nested = () if kind in EACH else nested_jaxprs(eqn)
        if nested:
            nested = [one for one in nested if not (one.idle or one.rule)]
        if len(nested) == 1 and _is_call(eqn, nested[0]):
            _call(eqn, nested[0], address, reads, known, operations, equal)
            continue
        makes = [
            _made(eqn, k, address) if nested else Datum(address, size_of(var.aval), number=k)
            for k, var in enumerate(eqn.outvars)
        ]
        made = Operation(eqn, address, reads, makes)
        if nested:
            made.inner = [
                (one, flat_program(one.stored, address / one.label, _roles(eqn, one)))
                for one in nested
            ]
        same = made if equal is None else equal.setdefault(_key(made), made)
        for var, datum in zip(eqn.outvars, same.makes, strict=True):
            known[id(var)] = datum
        if same is made:
            operations.append(made)


def _recomputes(inner: Jaxpr) -> bool:
    """Whether `jax.checkpoint` computes something again outside of a loop."""
    for eqn in inner.eqns:
        if eqn.primitive is _compat.remat_p and eqn.params["differentiated"]:
            return True
        if not is_loop(eqn) and any(_recomputes(one.jaxpr) for one in nested_jaxprs(eqn)):
            return True
    return False


def _key(one: Operation) -> object:
    """A key that is equal for operations that compute the same."""
    atoms = zip(one.eqn.invars, one.reads, strict=True)
    ins: list[Any] = [
        (_compat.aval_of(atom).dtype, repr(atom.val)) if _compat.is_literal(atom) else id(datum)
        for atom, datum in atoms
    ]
    key: tuple[Any, ...] = one.eqn.primitive, *ins, *sorted(one.eqn.params.items())
    try:
        hash(key)
    except TypeError:  # a jaxpr, say
        return id(one)
    return id(one) if one.eqn.effects or one.inner else key


def _made(eqn: JaxprEqn, number: int, address: Address) -> Datum:
    at, times = origin_of(eqn, number, address)
    return Datum(at, size_of(_compat.aval_of(eqn.outvars[number])), times=times)


def _roles(eqn: JaxprEqn, nested: Nested) -> Sequence[str]:
    names: Mapping[str, str] = {"carry": "carry", "x": "slice"}
    return [names.get(role, "argument") if is_loop(eqn) else "argument" for role in nested.in_roles]


def _is_call(eqn: JaxprEqn, nested: Nested) -> bool:
    """Whether an equation runs its jaxpr once, on its operands."""
    mapped = None not in nested.operands and None not in nested.results
    return mapped and not (is_loop(eqn) or nested.conditional) and nested.trips == 1


def _call(
    eqn: JaxprEqn,
    nested: Nested,
    address: Address,
    reads: list[Datum | None],
    known: dict[int, Datum],
    operations: list[Operation],
    equal: dict[object, Operation] | None,
) -> None:
    home = address / nested.label
    inside: dict[int, Datum] = {}
    for k, var in enumerate(nested.jaxpr.constvars):
        inside[id(var)] = Datum(home / f"const{k}", size_of(var.aval), "constant")
    for var, operand in zip(nested.jaxpr.invars, nested.operands, strict=True):
        datum = reads[operand] if operand is not None else None
        inside[id(var)] = datum or Datum(home / "in0", 0, "constant")
    _add(nested.stored, home, inside, operations, equal)
    for atom, result in zip(nested.jaxpr.outvars, nested.results, strict=True):
        datum = _read(inside, atom)
        if result is not None:
            known[id(eqn.outvars[result])] = datum or Datum(address.value(result), 0, "constant")


def _read(known: Mapping[int, Datum], atom: Any) -> Datum | None:
    return None if _compat.is_literal(atom) else known[id(atom)]


def _needed(operations: list[Operation], outputs: Sequence[Datum | None]) -> list[Operation]:
    """The operations whose results are used, or that have an effect."""
    needed = set(outputs)
    kept: list[Operation] = []
    for one in reversed(operations):
        if one.eqn.effects or not needed.isdisjoint(one.makes):
            needed.update(one.reads)
            kept.append(one)
    return kept[::-1]
