"""The rule on a square root whose gradient is NaN where its operand is zero."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from taxpr import _compat
from taxpr._check.findings import Suspicion
from taxpr._check.follow import SHAPES, is_constant, origin, readers
from taxpr._check.levels import Examined, Level, Op
from taxpr._check.steps import constant
from taxpr._untyped import lax as _lax
from taxpr._untyped import np

_SUMS = (_lax.reduce_sum_p, _lax.cumsum_p)
_PRODUCTS = (_lax.mul_p, _lax.dot_general_p)
_FACTORS = 8  # of a divisor that are followed


def unsafe_root(program: Examined) -> Iterator[Suspicion]:
    """The derivative of a root at zero is inf, and a sum of squares has derivative zero there."""
    derived = any(op.derivative for level in program.levels for op in level.ops)
    for k, level in enumerate(program.levels):
        if not level.users or level.own_rule:
            continue
        below = _below_loss(program, level) if k == 0 and not derived else set[int]()
        for op in level.ops:
            if op.backward or not op.is_users or _exponent(level, op) is None:
                continue
            differentiated = _is_differentiated(level, op) if derived else op.outs[0] in below
            # What is divided by a zero is not finite itself.
            if differentiated and _is_square(level, op.ins[0]) and not _is_divisor(level, op):
                statement = op.statements[0]
                text = statement.expression or statement.text or op.eqn.primitive.name
                yield Suspicion(
                    f"The gradient of `{text}` is NaN where the sum below the root is 0: the "
                    "derivative of the root is inf there, and inf times zero is NaN.",
                    op.statements,
                    op.address,
                    program.name(level, op.outs[0]),
                )


def _exponent(level: Level, op: Op) -> float | None:
    """The exponent of a root; None of other equations."""
    if op.eqn.primitive is _lax.sqrt_p:
        return 0.5
    if op.eqn.primitive is not _lax.pow_p:
        return None
    found = constant(level, op.ins[1])
    return found if found is not None and 0 < found < 1 else None


def _is_differentiated(level: Level, op: Op) -> bool:
    """Whether the derivative of a root is computed, too, and used."""
    if (exponent := _exponent(level, op)) is None:
        return False
    if op.eqn.primitive is _lax.sqrt_p:
        return any(_is_half_over(level, one, op) for one, _ in readers(level, op.outs[0]))
    for other, _ in readers(level, op.ins[0]):  # p * x ** (p - 1), whose exponent may be an input
        if other.eqn.primitive is _lax.pow_p and other.expression == op.expression:
            scaled = [
                one for one, _ in readers(level, other.outs[0]) if _scales(level, one, exponent)
            ]
            if any(_is_used(level, one.outs[0]) for one in scaled):
                return True
    return False


def _scales(level: Level, op: Op, factor: float) -> bool:
    is_product = op.eqn.primitive is _lax.mul_p and _is_used(level, op.outs[0])
    return is_product and factor in (constant(level, one) for one in op.ins)


def _is_half_over(level: Level, op: Op, root: Op) -> bool:
    """Whether an equation is the derivative of a root, ``0.5 / y``, which JAX puts beside it."""
    half = op.eqn.primitive is _lax.div_p and constant(level, op.ins[0]) == 0.5
    return half and op.expression == root.expression and _is_used(level, op.outs[0])


def _is_used(level: Level, number: int) -> bool:
    return number in level.outs or number in level.readers


def _below_loss(program: Examined, level: Level) -> set[int]:
    """The values behind a result that looks like a loss: a number, alone or the first of two."""
    results = program.results
    if isinstance(results, tuple):
        results = _first_of_two(*results)
    if not isinstance(results, int) or program.changes:
        return set()
    aval = program.program.out_avals[results]
    if getattr(aval, "shape", None) != () or not jnp.issubdtype(aval.dtype, jnp.floating):
        return set()
    given = {n for n in level.ins if _is_float(level, n)}
    below = _below(level, level.outs[results])
    for op in level.ops:  # what depends on an argument
        if not given.isdisjoint(op.ins):
            given.update(below.intersection(op.outs))
    return given


def _first_of_two(first: Any = None, *others: Any) -> Any:
    return first if len(others) == 1 else None


def _below(level: Level, number: int) -> set[int]:
    """The values through which a derivative of a value flows back."""
    found: set[int] = set()
    waiting = [number]
    while waiting:
        number = waiting.pop()
        op = level.makers.get(number)
        if number in found or not _is_float(level, number):
            continue
        found.add(number)
        if op is not None and op.eqn.primitive is not _compat.stop_gradient_p:
            waiting += op.ins
    return found


def _is_float(level: Level, number: int) -> bool:
    return jnp.issubdtype(getattr(level.avals[number], "dtype", int), jnp.floating)


def _is_square(level: Level, number: int) -> bool:
    """Whether a value is a sum of squares and of nothing else."""
    waiting, seen = [number], set[int]()
    while waiting:
        number = waiting.pop()
        # Python's `sum` begins with 0.
        if number in seen or constant(level, number) == 0:
            continue
        seen.add(number)
        op = origin(level, number)
        terms = None if op is None else _terms(level, op)
        if terms is None:
            return False
        waiting += terms
    return bool(seen)


def _terms(level: Level, op: Op) -> tuple[int, ...] | None:
    """The values that must be sums of squares to make this a sum of squares, or None."""
    kind, ins = op.eqn.primitive, op.ins
    if kind is _lax.square_p or (kind in _PRODUCTS and _same(level, *ins)):
        return ()
    if kind is _lax.integer_pow_p:
        return () if op.eqn.params["y"] in range(2, 100, 2) else None
    if kind is _lax.add_p:
        return ins
    if kind in _SUMS:
        return ins[:1]
    if kind is _lax.div_p:  # of a mean
        return ins[:1] if is_constant(level, ins[1]) else None
    if kind is _lax.mul_p:
        rest = tuple(n for n in ins if not is_constant(level, n))
    elif kind is _lax.select_n_p:  # jnp.var of nothing is NaN
        rest = tuple(n for n in ins[1:] if not _is_nan(level, n))
    else:
        return None
    return rest if len(rest) == 1 else None


def _is_nan(level: Level, number: int) -> bool:
    found = constant(level, number)
    return found is not None and bool(np.isnan(found))


def _same(level: Level, one: int, other: int) -> bool:
    """Whether two values have the same elements."""

    def first(number: int) -> int:
        while (op := level.makers.get(number)) is not None and op.eqn.primitive in SHAPES:
            number = op.ins[0]
        return number

    return first(one) == first(other)


def _is_divisor(level: Level, root: Op) -> bool:
    """Whether something is divided by a root, or a product with it, and nothing else is done."""
    products = [root.outs[0]]
    divides = False
    for number in products:  # which grows
        if number in level.outs or len(products) > _FACTORS:
            return False
        for op, read in readers(level, number):
            if op.backward or _is_half_over(level, op, root):
                continue
            if _divides(op, read):
                divides = True
            elif op.eqn.primitive is _lax.mul_p:
                products += op.outs
            else:
                return False
    return divides


def _divides(op: Op, number: int) -> bool:
    if op.eqn.primitive is _lax.integer_pow_p:
        return op.eqn.params["y"] < 0
    return op.eqn.primitive is _lax.div_p and op.ins[1] == number and op.ins[0] != number
