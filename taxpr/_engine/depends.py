"""Find the inputs with respect to which each result of a jaxpr may have a derivative.

A forward dataflow analysis with a fixed point for loops. Invariant: sets of inputs only grow, so
the iteration ends.
"""

import functools
from collections.abc import Iterable, Sequence

import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Atom, Jaxpr, JaxprEqn, StoredJaxpr, Var
from taxpr._hops.protocol import Nested
from taxpr._hops.table import has_rules, nested_jaxprs

# A set of inputs, as an int with one bit for each: a program has many variables.
Bits = int
# The results of known jaxprs, by id. The value has the jaxpr, so that its id stays unique.
Known = dict[int, tuple[Jaxpr, list[Bits]]]


def depends(jaxpr: StoredJaxpr) -> list[Bits]:
    """For each result, the inputs with respect to which it may have a derivative.

    Bit k stands for input k; constants come before arguments. Nothing flows through integers,
    Booleans and PRNG keys, so not through a branch index or a loop predicate either.
    """
    return _depends(jaxpr, {})


def _depends(jaxpr: StoredJaxpr, known: Known) -> list[Bits]:
    inner = _compat.open_jaxpr(jaxpr)
    if id(inner) in known:
        return known[id(inner)][1]
    variables = [*inner.constvars, *inner.invars]
    of: dict[Var, Bits] = {var: 1 << k for k, var in enumerate(variables) if _flows(var)}

    def bits(atom: Atom) -> Bits:
        return 0 if _compat.is_literal(atom) else of.get(atom, 0)

    for eqn in inner.eqns:
        operands = [bits(atom) for atom in eqn.invars]
        for var, value in zip(eqn.outvars, _results(eqn, operands, known), strict=True):
            if _flows(var):
                of[var] = value
        for atom in eqn.invars:
            if isinstance(atom, Var) and _compat.is_ref(atom.aval):
                of[atom] = _union(operands)
    known[id(inner)] = inner, [bits(atom) for atom in inner.outvars]
    return known[id(inner)][1]


def _flows(var: Var) -> bool:
    aval = getattr(var.aval, "inner_aval", var.aval)  # of a Ref, the aval of its value
    return jnp.issubdtype(getattr(aval, "dtype", bool), jnp.inexact)


def _union(each: Iterable[Bits]) -> Bits:
    return functools.reduce(int.__or__, each, 0)


def _results(eqn: JaxprEqn, operands: Sequence[Bits], known: Known) -> list[Bits]:
    nested = nested_jaxprs(eqn)
    refs = any(_compat.is_ref(atom.aval) for atom in eqn.invars)
    if not nested or refs or has_rules(eqn) or not _is_told(nested, operands):
        return [_union(operands)] * len(eqn.outvars)
    results: dict[int | None, Bits] = {}
    for one in nested:
        for k, value in zip(one.results, _outcomes(one, operands, known), strict=True):
            results[k] = results.get(k, 0) | value
    # A result of no nested jaxpr is computed by the equation itself.
    return [results.get(k, _union(operands)) for k in range(len(eqn.outvars))]


def _is_told(nested: Sequence[Nested], operands: Sequence[Bits]) -> bool:
    """Whether the entry tells for all operands, and for all iterations, where they go."""
    fed = {k for one in nested for k in one.operands}
    loops = any(one.trips != 1 and not one.back and "x" not in one.in_roles for one in nested)
    whole = all(k in fed for k, bits in enumerate(operands) if bits)
    return whole and None not in fed and not (loops and not any(one.back for one in nested))


def _outcomes(one: Nested, operands: Sequence[Bits], known: Known) -> list[Bits]:
    """The dependences of the results of a nested jaxpr, after any number of iterations."""
    through, n_consts = _depends(one.stored, known), len(one.jaxpr.constvars)
    now = [operands[k] for k in one.operands if k is not None]
    while True:
        out = [
            _union(bits for k, bits in enumerate(now) if value >> (n_consts + k) & 1)
            for value in through
        ]
        new = list(now)
        for outvar, invar in one.back:
            new[invar] |= out[outvar]
            out[outvar] |= new[invar]  # a loop that does not run returns its initial carry
        if new == now:
            return out
        now = new
