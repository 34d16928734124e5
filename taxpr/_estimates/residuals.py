"""Find the values of the forward pass that a gradient keeps, in its jaxpr.

A *residual* is a value of the forward pass that the backward pass reads. JAX writes into the name
stack of an equation whether it comes from a transposition, so the backward pass begins where the
first such equation is. A loop of the forward pass returns its residuals stacked, and a loop of the
backward pass takes them apart: both are followed into their bodies, to the equation that made the
value and its readers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr, Var
from taxpr._hops.places import numbered
from taxpr._hops.table import is_loop, nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._questions.depends import EACH, named

# What costs nothing to make again from a number, so that XLA keeps the number.
_CHEAP = named("broadcast_in_dim iota")


class Residual(NamedTuple):
    """A value of a forward pass that its backward pass reads.

    Attributes:
        address: The value, in the innermost loop or call that makes it.
        bytes: The kept bytes, over all iterations.
        iterations: How often it is kept: once for each iteration of the loops that stack it.
        readers: The equations of the backward pass that read it.
        aval: The type of the kept array.
    """

    address: Address
    bytes: int
    iterations: int
    readers: tuple[Address, ...]
    aval: Any


def residuals(jaxpr: StoredJaxpr) -> list[Residual]:
    """The residuals of all gradients that a jaxpr computes, in program order.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import trace
        >>> def loss(xs):
        ...     def body(carry, x):
        ...         return jnp.sin(carry * x), None
        ...     return jax.lax.scan(body, xs[0], xs)[0]
        >>> program = trace(jax.grad(loss))(jnp.ones(100))
        >>> sorted((one.bytes, one.iterations) for one in residuals(program.jaxpr))
        [(400, 100), (400, 100)]
    """
    found: dict[Address, Residual] = {}
    for one in _within(_compat.open_jaxpr(jaxpr), Address()):
        known = found.get(one.address)
        found[one.address] = _together(known, one) if known else one
    return list(found.values())


def _together(first: Residual, second: Residual) -> Residual:
    """One value that leaves a loop under two names is kept once, if it is of one size."""
    readers = tuple(dict.fromkeys((*first.readers, *second.readers)))
    return max(first, second, key=lambda one: one.bytes)._replace(readers=readers)


def size_of(aval: Any) -> int:
    """The bytes of a value; 0 if it is no array, or its shape is symbolic."""
    dtype, shape = getattr(aval, "dtype", None), getattr(aval, "shape", None)
    size: Any = 1 if shape is None else math.prod(shape)
    if dtype is None or shape is None or not isinstance(size, int):
        return 0
    # Of a PRNG key that of its words; float0 is bool for XLA.
    return size * (dtype.itemsize or 1)


def _within(inner: Jaxpr, home: Address) -> Iterator[Residual]:
    """The residuals of the gradients of a jaxpr that is in no backward pass itself."""
    made: dict[Var, tuple[str, JaxprEqn, int]] = {}
    readers: dict[Var, list[Address]] = {}
    has_gradient = any(map(_compat.is_backward, inner.eqns))
    # The names of the equations take most of the time, and without a gradient only loops have some.
    holds_none = (one.primitive in EACH or not nested_jaxprs(one) for one in inner.eqns)
    if not has_gradient and all(holds_none):
        return
    for local, eqn in numbered(inner):
        if not _compat.is_backward(eqn):
            if has_gradient:
                made.update((var, (local, eqn, k)) for k, var in enumerate(eqn.outvars))
            for nested in () if eqn.primitive in EACH else nested_jaxprs(eqn):
                yield from _within(nested.jaxpr, home / local / nested.label)
            continue
        for number, atom in enumerate(eqn.invars):
            if not _compat.is_literal(atom) and atom in made:
                readers.setdefault(atom, []).extend(_readers(eqn, number, home / local))
    for var, found in readers.items():
        local, eqn, number = made[var]
        if _is_cheap(var, made):
            continue
        address, iterations = origin_of(eqn, number, home / local)
        aval = _compat.aval_of(var)
        yield Residual(address, size_of(aval), iterations, tuple(dict.fromkeys(found)), aval)


def _is_cheap(atom: Any, made: Mapping[Var, tuple[str, JaxprEqn, int]]) -> bool:
    """Whether a value is a number in many places."""
    if _compat.is_literal(atom):
        return True
    eqn = made[atom][1] if atom in made else None
    if eqn is None or eqn.primitive not in _CHEAP:
        return False
    return all(_is_cheap(one, made) or not _compat.aval_of(one).shape for one in eqn.invars)


def _readers(eqn: JaxprEqn, number: int, address: Address) -> list[Address]:
    """The innermost equations that read an operand of an equation."""
    found: list[Address] = []
    for nested in nested_jaxprs(eqn):
        for k, operand in enumerate(nested.operands):
            if operand == number:
                var = nested.jaxpr.invars[k]
                for local, inner in numbered(nested.jaxpr):
                    for position, atom in enumerate(inner.invars):
                        if atom is var:
                            at = address / nested.label / local
                            found += _readers(inner, position, at)
    return found or [address]


def origin_of(eqn: JaxprEqn, number: int, address: Address) -> tuple[Address, int]:
    """The innermost value that becomes a result of an equation, and how often it is stacked.

    Args:
        eqn: The equation.
        number: The number of the result.
        address: Its address.
    """
    if is_tag(eqn) and number < len(eqn.invars):
        return address.value(number), 1
    for nested in nested_jaxprs(eqn):
        if number not in nested.results:
            continue
        k = nested.results.index(number)
        stacked = is_loop(eqn) and nested.out_roles[k] == "y" and isinstance(nested.trips, int)
        times = nested.trips if stacked and nested.trips else 1
        inner, home = nested.jaxpr, address / nested.label
        atom = inner.outvars[k]
        if _compat.is_literal(atom):
            continue
        position = _position(inner.invars, atom)
        if position is not None:
            return home / f"in{position}", times
        for local, one in numbered(inner):
            if (result := _position(one.outvars, atom)) is not None:
                if nested.conditional and one.primitive in _CHEAP:
                    break  # what the branch that was not taken has in the place of residuals
                found, more = origin_of(one, result, home / local)
                return found, times * more
    return address.value(number), 1


def _position(variables: Sequence[Any], atom: Any) -> int | None:
    return next((k for k, var in enumerate(variables) if var is atom), None)
