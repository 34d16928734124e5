"""The rule on a `where` whose gradient is NaN where it hides one."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp

from taxpr import _compat
from taxpr._check.findings import Suspicion
from taxpr._check.follow import SAME, is_constant, roots
from taxpr._check.levels import Examined, Level, Op
from taxpr._check.steps import after, at_value, constant, steps_to
from taxpr._untyped import lax as _lax
from taxpr._untyped import np

_WRITTEN = re.compile(r"\b(where|select)\(")


class _Unsafe(NamedTuple):
    """The values that make the derivative of a primitive non-finite.

    Attributes:
        operand: The operand that must stay away from them.
        at: These values; beyond them the operand may be out of the domain.
        fix: The code to write, and the code that it replaces.
    """

    operand: int
    at: tuple[float, ...]
    fix: tuple[str, str]


def _of(function: str, condition: str = "x > 0", safe: float = 1.0) -> tuple[str, str]:
    return f"{function}(jnp.where({condition}, x, {safe}))", f"{function}(x)"


_UNSAFE: dict[Any, _Unsafe] = {
    _lax.sqrt_p: _Unsafe(0, (0.0,), _of("jnp.sqrt")),
    _lax.rsqrt_p: _Unsafe(0, (0.0,), _of("jax.lax.rsqrt")),
    _lax.log_p: _Unsafe(0, (0.0,), _of("jnp.log")),
    _lax.log1p_p: _Unsafe(0, (-1.0,), _of("jnp.log1p", "x > -1", 0.0)),
    _lax.cbrt_p: _Unsafe(0, (0.0,), _of("jnp.cbrt", "x != 0")),
    _lax.asin_p: _Unsafe(0, (1.0, -1.0), _of("jnp.arcsin", "jnp.abs(x) < 1", 0.0)),
    _lax.acos_p: _Unsafe(0, (1.0, -1.0), _of("jnp.arccos", "jnp.abs(x) < 1", 0.0)),
    _lax.acosh_p: _Unsafe(0, (1.0,), _of("jnp.arccosh", "x > 1", 2.0)),
    _lax.atanh_p: _Unsafe(0, (1.0, -1.0), _of("jnp.arctanh", "jnp.abs(x) < 1", 0.0)),
    _lax.div_p: _Unsafe(1, (0.0,), ("y / jnp.where(x != 0, x, 1.0)", "y / x")),
    _lax.pow_p: _Unsafe(0, (0.0,), ("jnp.where(x > 0, x, 1.0) ** p", "x ** p")),
    _lax.atan2_p: _Unsafe(
        1, (0.0,), ("jnp.arctan2(y, jnp.where(x != 0, x, 1.0))", "jnp.arctan2(y, x)")
    ),
}
_COMPARES = (_lax.gt_p, _lax.ge_p, _lax.lt_p, _lax.le_p, _lax.eq_p, _lax.ne_p, _lax.is_finite_p)
_LOGICAL = (_lax.and_p, _lax.or_p, _lax.not_p, _lax.xor_p)
_NOT_NEGATIVE = (_lax.square_p, _lax.integer_pow_p, _lax.abs_p, _lax.exp_p)
_BOUNDED = (_lax.max_p, _lax.clamp_p, _lax.exp_p, _lax.select_n_p)


def unsafe_where(program: Examined) -> Iterator[Suspicion]:
    """The side that is not chosen is computed from the value that the condition looks at."""
    for level in program.levels:
        if not level.users or level.own_rule:
            continue
        for op in level.ops:
            chosen = op.eqn.primitive is _lax.select_n_p and op.is_users and not op.backward
            if not chosen or not _WRITTEN.search(op.statements[0].expression):
                continue
            looked_at = _compared(level, op.ins[0])
            for found in _unsafe_below(level, op.ins[1:]):
                operand = found.ins[_UNSAFE[found.eqn.primitive].operand]
                if is_constant(level, operand) or _is_kept_away(level, operand):
                    continue
                shown = _hidden(level, op.ins[0], looked_at, found, operand)
                if shown is not None:
                    yield _said(program, level, op, found, shown)
                    break


def _said(program: Examined, level: Level, op: Op, found: Op, shown: int) -> Suspicion:
    forms = [shown, *sorted(roots(level, shown), reverse=True)]
    name = next(filter(None, (program.name(level, one) for one in forms)), "")
    of = name.rpartition(".")[2] if name else "its operand"
    made = found.statement
    text = found.eqn.primitive.name
    if made is not None:  # an expression with a dot is not what the user wrote
        text = made.text if "•" in made.expression else made.expression or made.text
    return Suspicion(
        f"`{text}` is also computed for elements that the condition on {of} hides. Its "
        "derivative there is inf or NaN, and times zero it is NaN.",
        op.statements,
        op.address,
        name,
        "Choose the operand, too: {} instead of {}.".format(*_UNSAFE[found.eqn.primitive].fix),
    )


def _hidden(
    level: Level, condition: int, looked_at: set[int], found: Op, operand: int
) -> int | None:
    """The value that makes a condition hide a non-finite derivative; else None."""
    if looked_at & roots(level, operand):
        return operand
    if looked_at & set(found.outs):
        return found.outs[0]
    unsafe = _UNSAFE[found.eqn.primitive].at
    if 0.0 in unsafe and (factors := looked_at & _factors(level, operand)):
        return max(factors)
    made = steps_to(level, operand)
    for comparison in _comparisons(level, condition):
        for k, side in enumerate(comparison.ins):
            threshold = constant(level, comparison.ins[1 - k]) if len(comparison.ins) == 2 else None
            if threshold is None:
                continue
            for number, value in at_value(steps_to(level, side), threshold):
                there = after(made, number, value)
                if there is not None and any(abs(there - one) < 1e-5 for one in unsafe):
                    return number
    return None


def _factors(level: Level, number: int) -> set[int]:
    """The values where a value is zero if they are: the factors of a product."""
    found: set[int] = set()
    waiting = [number]
    while waiting:
        number = waiting.pop()
        if number in found or _is_kept_away(level, number):
            continue
        found.add(number)
        op = level.makers.get(number)
        if op is not None and op.eqn.primitive in (*SAME, _lax.div_p):
            waiting.append(op.ins[0])
        elif op is not None and op.eqn.primitive is _lax.mul_p:
            waiting += [n for n in op.ins if not is_constant(level, n)]
    return found


def _compared(level: Level, condition: int) -> set[int]:
    """The values that a condition compares, and those that they are of."""
    sides = (one for op in _comparisons(level, condition) for one in op.ins)
    return {root for one in sides if not is_constant(level, one) for root in roots(level, one)}


def _comparisons(level: Level, condition: int) -> Iterator[Op]:
    waiting, seen = [condition], set[int]()
    while waiting:
        number = waiting.pop()
        op = level.makers.get(number)
        if number in seen or op is None:
            continue
        seen.add(number)
        if op.eqn.primitive in _COMPARES:
            yield op
        elif op.eqn.primitive in _LOGICAL or op.eqn.primitive in SAME:
            waiting.extend(op.ins)


def _is_kept_away(level: Level, number: int) -> bool:
    """Whether a value is bounded: a maximum, one that was chosen, a small number added to a sum."""
    while (op := level.makers.get(number)) is not None and op.eqn.primitive in SAME:
        number = op.ins[0]
    if op is None:
        return False
    if op.eqn.primitive is _lax.add_p:
        added = [level.literals.get(n) for n in op.ins]
        positive = any(one is not None and np.all(np.asarray(one) > 0) for one in added)
        return positive and any(_is_not_negative(level, n) for n in op.ins)
    return op.eqn.primitive in _BOUNDED


def _is_not_negative(level: Level, number: int) -> bool:
    makers = (level.makers.get(n) for n in roots(level, number))
    return any(op is not None and op.eqn.primitive in _NOT_NEGATIVE for op in makers)


def _unsafe_below(level: Level, cases: tuple[int, ...]) -> Iterator[Op]:
    """The equations on the way to a case whose derivative may not be finite."""
    waiting, seen = list(cases), set[int]()
    while waiting and len(seen) < 64:
        number = waiting.pop()
        op = level.makers.get(number)
        if number in seen or op is None:
            continue
        seen.add(number)
        kind = op.eqn.primitive
        floats = jnp.issubdtype(level.avals[number].dtype, jnp.inexact)
        if not floats or kind is _lax.select_n_p or kind is _compat.stop_gradient_p:
            continue  # chosen before, or without a gradient
        if kind in _UNSAFE and not (kind is _lax.pow_p and _is_smooth(level, op.ins[1])):
            yield op
        waiting.extend(op.ins)


def _is_smooth(level: Level, exponent: int) -> bool:
    """Whether a power is at least one, so that its derivative at zero is finite."""
    literal = level.literals.get(exponent)
    return literal is not None and float(np.asarray(literal)) >= 1
