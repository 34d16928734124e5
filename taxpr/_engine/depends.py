"""Find the inputs with respect to which each result of a jaxpr may have a derivative."""

import functools
from collections.abc import Iterable, Sequence

import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr, Var
from taxpr._hops.interpreter import Forwards
from taxpr._hops.protocol import Nested
from taxpr._hops.table import has_rules, nested_jaxprs

# A set of inputs, as an int with one bit for each: a program has many variables.
Bits = int


def depends(jaxpr: StoredJaxpr) -> list[Bits]:
    """For each result, the inputs with respect to which it may have a derivative.

    Bit k stands for input k; constants come before arguments. Nothing flows through integers,
    Booleans and PRNG keys, so not through a branch index or a loop predicate either.
    """
    return _MayDerive().of(jaxpr)


class _MayDerive(Forwards[Bits]):
    nothing = 0

    def __init__(self) -> None:
        super().__init__()
        # By id, with the jaxpr, so that its id stays unique.
        self._of: dict[int, tuple[Jaxpr, list[Bits]]] = {}

    def of(self, jaxpr: StoredJaxpr) -> list[Bits]:
        inner = _compat.open_jaxpr(jaxpr)
        if id(inner) not in self._of:
            inputs = len(inner.constvars) + len(inner.invars)
            self._of[id(inner)] = inner, self.run(inner, [1 << k for k in range(inputs)])
        return self._of[id(inner)][1]

    def join(self, each: Iterable[Bits]) -> Bits:
        return functools.reduce(int.__or__, each, 0)

    def held(self, var: Var, of: Bits, address: Address | None) -> Bits:
        aval = getattr(var.aval, "inner_aval", var.aval)  # of a Ref, the aval of its value
        return of if jnp.issubdtype(getattr(aval, "dtype", bool), jnp.inexact) else 0

    def entered(self, eqn: JaxprEqn, operands: Sequence[Bits]) -> Sequence[Nested]:
        if not (nested := nested_jaxprs(eqn)):
            return ()
        refs = any(_compat.is_ref(atom.aval) for atom in eqn.invars)
        return () if refs or has_rules(eqn) or not _is_told(nested, operands) else nested

    def through(
        self, stored: StoredJaxpr, given: Sequence[Bits], home: Address | None
    ) -> list[Bits]:
        """Each jaxpr is followed once, however often it is called, and with whatever."""
        first = len(_compat.open_jaxpr(stored).constvars)
        return [
            self.join(bits for k, bits in enumerate(given, first) if value >> k & 1)
            for value in self.of(stored)
        ]


def _is_told(nested: Sequence[Nested], operands: Sequence[Bits]) -> bool:
    """Whether the entry tells for all operands, and for all iterations, where they go."""
    fed = {k for one in nested for k in one.operands}
    loops = any(one.trips != 1 and not one.back and "x" not in one.in_roles for one in nested)
    whole = all(k in fed for k, bits in enumerate(operands) if bits)
    return whole and None not in fed and not (loops and not any(one.back for one in nested))
