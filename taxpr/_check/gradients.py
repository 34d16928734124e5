"""The rule on a `where` whose gradient is NaN where it hides one."""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from taxpr import _compat
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level, Op

np: Any = numpy  # which leaves types of arrays unknown
_lax: Any = jax.lax
_WRITTEN = re.compile(r"\b(where|select)\(")

# Which operand must stay away from a place where the derivative is not finite.
_UNSAFE: dict[Any, int] = {
    **dict.fromkeys((_lax.sqrt_p, _lax.rsqrt_p, _lax.log_p, _lax.log1p_p, _lax.cbrt_p), 0),
    **dict.fromkeys((_lax.asin_p, _lax.acos_p, _lax.acosh_p, _lax.atanh_p), 0),
    _lax.div_p: 1,
    _lax.pow_p: 0,
    _lax.atan2_p: 1,
}
_COMPARES = (_lax.gt_p, _lax.ge_p, _lax.lt_p, _lax.le_p, _lax.eq_p, _lax.ne_p, _lax.is_finite_p)
_LOGICAL = (_lax.and_p, _lax.or_p, _lax.not_p, _lax.xor_p)
# What stays zero, or out of the domain, where its operand is.
_SAME = (
    *(_lax.convert_element_type_p, _lax.broadcast_in_dim_p, _lax.reshape_p, _lax.squeeze_p),
    *(_lax.neg_p, _lax.abs_p, _lax.square_p, _lax.integer_pow_p, _lax.reduce_sum_p),
    *(_lax.sqrt_p, _lax.transpose_p, _lax.copy_p),
)
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
                operand = found.ins[_UNSAFE[found.eqn.primitive]]
                hidden = looked_at & {*found.outs, *_roots(level, operand)}
                if hidden and not _is_kept_away(level, operand):
                    shown = operand if looked_at & _roots(level, operand) else found.outs[0]
                    yield _said(program, level, op, found, shown)
                    break


def _said(program: Examined, level: Level, op: Op, found: Op, shown: int) -> Suspicion:
    name = program.name(level, shown)
    of = name.rpartition(".")[2] if name else "its operand"
    made = found.statement
    text = made.expression or made.text if made else found.eqn.primitive.name
    return Suspicion(
        f"`{text}` is computed also where the condition on {of} hides it, and its derivative "
        "there, inf or NaN, times zero is NaN.",
        op.statements,
        op.address,
        name,
    )


def _compared(level: Level, condition: int) -> set[int]:
    """The values that a condition compares, and those that they are of."""
    found: set[int] = set()
    waiting, seen = [condition], set[int]()
    while waiting:
        number = waiting.pop()
        op = level.makers.get(number)
        if number in seen or op is None:
            continue
        seen.add(number)
        if op.eqn.primitive in _COMPARES:
            for one in op.ins:
                if one not in level.literals and not _is_constant(level, one):
                    found |= _roots(level, one)
        elif op.eqn.primitive in _LOGICAL or op.eqn.primitive in _SAME:
            waiting.extend(op.ins)
    return found


def _is_constant(level: Level, number: int) -> bool:
    op = level.makers.get(number)
    return op is not None and all(n in level.literals or _is_constant(level, n) for n in op.ins)


def _roots(level: Level, number: int) -> set[int]:
    """A value, and those of which it is only another form."""
    found = {number}
    while (op := level.makers.get(number)) is not None and op.eqn.primitive in _SAME:
        number = op.ins[0]
        found.add(number)
    return found


def _is_kept_away(level: Level, number: int) -> bool:
    """Whether a value is bounded: a maximum, one that was chosen, a small number added to a sum."""
    while (op := level.makers.get(number)) is not None and op.eqn.primitive in _SAME:
        number = op.ins[0]
    if op is None:
        return False
    if op.eqn.primitive is _lax.add_p:
        added = [level.literals.get(n) for n in op.ins]
        positive = any(one is not None and np.all(np.asarray(one) > 0) for one in added)
        return positive and any(_is_not_negative(level, n) for n in op.ins)
    return op.eqn.primitive in _BOUNDED


def _is_not_negative(level: Level, number: int) -> bool:
    makers = (level.makers.get(n) for n in _roots(level, number))
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
