"""Follow facts about values through a program and all its jaxprs: forwards, or backwards.

An abstract interpreter. A subclass chooses the fact about a value, such as a set or a flag, joins
the facts of several values, and says how an equation changes them. The table of higher-order
primitives says which operands feed which jaxpr, and which values a loop hands on.

A loop is followed until nothing changes. Invariant: `join` only adds facts, and there are finitely
many, so this ends.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Atom, JaxprEqn, StoredJaxpr, Var
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._hops.table import nested_jaxprs

T = TypeVar("T")


class Forwards(Generic[T]):
    """From the inputs on: the fact about a value follows from its operands.

    Attributes:
        nothing: The fact about a literal; joined to anything it changes nothing.
        chooses: Whether the fact about a branch index, or a loop predicate, joins all results.
    """

    nothing: T
    chooses = False

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[T, ...]], list[T]] = {}

    def join(self, each: Sequence[T]) -> T:
        """Combine the facts about several values to the fact about a value made of them."""
        raise NotImplementedError

    def made(self, eqn: JaxprEqn, operands: Sequence[T]) -> Sequence[T]:
        """The transfer function: what is known of the results of an equation without jaxprs."""
        return [self.join(operands)] * len(eqn.outvars)

    def held(self, var: Var, of: T, address: Address | None) -> T:
        """Called with each value as it is bound; returns what is known of it from then on."""
        del var, address
        return of

    def entered(self, eqn: JaxprEqn, operands: Sequence[T]) -> Sequence[Nested]:
        """The jaxprs of an equation; `made` says what an equation without them makes."""
        del operands
        return nested_jaxprs(eqn)

    def handed_on(self, of: T, loop: Address | None) -> T:
        """Convert an iteration's carry into the next one's."""
        del loop
        return of

    def decided(self, eqn: JaxprEqn, by: T) -> None:
        """Called with the fact about a branch index or a loop predicate, once it is known."""

    def through(self, stored: StoredJaxpr, given: Sequence[T], home: Address | None) -> list[T]:
        """`run` of a nested jaxpr, which an outer loop follows again and again."""
        if home is not None:
            return self.run(stored, given, home)
        key = id(_compat.open_jaxpr(stored)), tuple(given)
        if key not in self._known:
            self._known[key] = self.run(stored, given)
        return self._known[key]

    def run(self, stored: StoredJaxpr, given: Sequence[T], home: Address | None = None) -> list[T]:
        """Follow a jaxpr from its inputs; returns the facts about its results.

        Args:
            stored: The jaxpr, which somebody keeps alive meanwhile.
            given: The facts about its inputs, or about its constants and its inputs.
            home: Its address, if addresses are wanted, which takes time.
        """
        inner, known = _compat.open_jaxpr(stored), dict[Var, T]()
        at = {} if home is None else addresses_of(stored, home)

        def put(var: Var, of: T) -> None:
            known[var] = self.held(var, of, at.get(id(var)))

        def read(atom: Atom) -> T:
            return known.get(atom, self.nothing) if isinstance(atom, Var) else self.nothing

        variables = [*inner.constvars, *inner.invars]
        first = len(variables) - len(given)
        for k, var in enumerate(variables):
            put(var, given[k - first] if k >= first else self.nothing)
        names = numbered(inner) if home is not None else (("", eqn) for eqn in inner.eqns)
        for local, eqn in names:
            operands = [read(atom) for atom in eqn.invars]
            if nested := self.entered(eqn, operands):
                here = None if home is None else home / local
                outs = self._nested(eqn, nested, operands, here)
            else:
                outs = self.made(eqn, operands)
            for var, of in zip(eqn.outvars, outs, strict=True):
                put(var, of)
            for atom in eqn.invars if eqn.effects else ():  # any operand may be written to a Ref
                if isinstance(atom, Var) and _compat.is_ref(atom.aval):
                    put(atom, self.join(operands))
        return [read(atom) for atom in inner.outvars]

    def _nested(
        self,
        eqn: JaxprEqn,
        nested: Sequence[Nested],
        operands: Sequence[T],
        here: Address | None,
    ) -> list[T]:
        """Follow the jaxprs of an equation until nothing changes; what is known of its results."""
        every, given = self.join(operands), list(operands)
        fed = {k for one in nested for k in one.operands}
        # An operand that feeds no jaxpr is the index of a branch.
        index = [of for k, of in enumerate(operands) if k not in fed]
        by = self.join(index) if self.chooses else self.nothing
        results: dict[int, T] = {}
        while True:
            before = by, list(given)
            for one in nested:
                ins = [every if k is None else given[k] for k in one.operands]
                home = None if here is None else here / one.label
                outs = self.through(one.stored, ins, home)
                if self.chooses:
                    ends = zip(outs, one.out_roles, strict=True)
                    by = self.join([by, *(of for of, role in ends if role == "predicate")])
                for of, to in zip(outs, one.results, strict=True):
                    if to is not None:
                        results[to] = self.join([results.get(to, self.nothing), of, by])
                # Operands are shared: the condition of a loop is given the carry, too.
                for out, k in one.back:
                    operand, to = one.operands[k], one.results[out]
                    if operand is None:
                        continue
                    if to is not None and not _runs(one):  # what it began with is its result
                        results[to] = self.join([results[to], operands[operand]])
                    on = self.handed_on(outs[out], here)
                    given[operand] = self.join([given[operand], on, by])
            if before == (by, given):
                break
        if self.chooses:
            self.decided(eqn, by)
        # A result of no nested jaxpr is computed by the equation itself.
        return [results.get(k, every) for k in range(len(eqn.outvars))]


def _runs(loop: Nested) -> bool:
    """Whether a loop is known to have an iteration."""
    return isinstance(loop.trips, int) and loop.trips > 0


class Backwards(Generic[T]):
    """From the results back: the fact about a value follows from its uses.

    Attributes:
        nothing: The fact about an operand that feeds no nested jaxpr; joined it changes nothing.
        unused: The fact about a value that nothing reads.
    """

    nothing: T
    unused: T

    def join(self, each: Sequence[T]) -> T:
        """Combine what several users say of a value."""
        raise NotImplementedError

    def needed(
        self, eqn: JaxprEqn, outs: Sequence[T], inside: Sequence[T] | None, here: Address
    ) -> Sequence[T]:
        """The transfer function: what an equation says of its operands.

        In a loop it is asked again, and the last answer counts.
        """
        raise NotImplementedError

    def entered(self, eqn: JaxprEqn, here: Address) -> Sequence[Nested]:
        """The jaxprs of an equation."""
        del here
        return nested_jaxprs(eqn)

    def run(self, stored: StoredJaxpr, wanted: Sequence[T], home: Address) -> list[T]:
        """Follow a jaxpr from its results back; returns what is known of its inputs."""
        inner, known = _compat.open_jaxpr(stored), dict[Var, T]()

        def add(atom: Atom, of: T) -> None:
            if isinstance(atom, Var):
                known[atom] = self.join([known[atom], of]) if atom in known else of

        for atom, of in zip(inner.outvars, wanted, strict=True):
            add(atom, of)
        for local, eqn in reversed(numbered(inner)):
            outs, here = [known.get(var, self.unused) for var in eqn.outvars], home / local
            inside: list[T] | None = None
            if nested := self.entered(eqn, here):
                inside = [self.nothing] * len(eqn.invars)
                for one in nested:
                    for k, of in zip(one.operands, self._turned(one, here, outs), strict=True):
                        for operand in range(len(inside)) if k is None else (k,):
                            inside[operand] = self.join([inside[operand], of])
            for atom, of in zip(eqn.invars, self.needed(eqn, outs, inside, here), strict=True):
                add(atom, of)
        return [known.get(var, self.nothing) for var in inner.invars]

    def _turned(self, nested: Nested, here: Address, outs: Sequence[T]) -> list[T]:
        """The same of a nested jaxpr, whose next iteration needs what this one hands on."""
        wanted = [self.unused if to is None else outs[to] for to in nested.results]
        while True:
            ins, more = self.run(nested.stored, wanted, here / nested.label), list(wanted)
            for out, k in nested.back:
                more[out] = self.join([more[out], ins[k]])
            if more == wanted:
                return ins
            wanted = more
