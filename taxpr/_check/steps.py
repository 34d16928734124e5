"""Values that are computed from one other value and constants, such as ``1 - x**2``."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from taxpr._check.follow import SHAPES
from taxpr._check.levels import Level
from taxpr._untyped import lax as _lax
from taxpr._untyped import np

_Of = Callable[[float], float]


def _same(x: float) -> float:
    return x


def _power(power: int) -> _Of:
    return lambda x: float(x) ** power


def _with_right(two: Callable[[float, float], float], right: float) -> _Of:
    return lambda x: two(x, right)


def _with_left(two: Callable[[float, float], float], left: float) -> _Of:
    return lambda x: two(left, x)


_OF_ONE: dict[Any, _Of] = {
    **dict.fromkeys(SHAPES, _same),
    _lax.neg_p: operator.neg,
    _lax.abs_p: math.fabs,
    _lax.square_p: _power(2),
}
_OF_TWO: dict[Any, Callable[[float, float], float]] = {
    _lax.add_p: operator.add,
    _lax.sub_p: operator.sub,
    _lax.mul_p: operator.mul,
    _lax.div_p: lambda x, y: x / y,
}


class ComputedStep(NamedTuple):
    """A value, and how the value before it is computed from it.

    Attributes:
        number: The value.
        apply: Computes what it is for.
    """

    number: int
    apply: _Of


def steps_to(level: Level, number: int) -> list[ComputedStep]:
    """The values that a value is computed from, itself first, each from the next one alone."""
    found = [ComputedStep(number, _same)]
    while (op := level.makers.get(number)) is not None:
        kind, ins = op.eqn.primitive, op.ins
        if kind in _OF_ONE:
            number, apply = ins[0], _OF_ONE[kind]
        elif kind is _lax.integer_pow_p:
            number, apply = ins[0], _power(op.eqn.params["y"])
        elif kind in _OF_TWO and (right := constant(level, ins[1])) is not None:
            number, apply = ins[0], _with_right(_OF_TWO[kind], right)
        elif kind in _OF_TWO and (left := constant(level, ins[0])) is not None:
            number, apply = ins[1], _with_left(_OF_TWO[kind], left)
        else:
            break
        found.append(ComputedStep(number, apply))
    return found


def constant(level: Level, number: int, depth: int = 8) -> float | None:
    """The number that all elements of a value are; None where that is not known.

    Args:
        level: The level of the value.
        number: The value.
        depth: How many equations are looked at, one below the other.
    """
    if number in level.literals:
        try:
            return float(np.asarray(level.literals[number]))
        except TypeError:  # complex, or several
            return None
    op = level.makers.get(number)
    if op is None or not depth:
        return None
    if op.eqn.primitive in SHAPES:
        return constant(level, op.ins[0], depth - 1)
    two = _OF_TWO.get(op.eqn.primitive)
    if two is None:
        return None
    left = constant(level, op.ins[0], depth - 1)
    right = None if left is None else constant(level, op.ins[1], depth - 1)
    try:
        return None if left is None or right is None else two(left, right)
    except (ZeroDivisionError, OverflowError):
        return None


def at_value(steps: Sequence[ComputedStep], value: float) -> Iterator[tuple[int, float]]:
    """Values of steps, each with its number, that give the first step a given value."""
    for step in steps:
        for one in (value, -value, abs(value) ** 0.5, value * value, 1.0, 0.0):
            there = after(steps, step.number, one)
            if there is not None and abs(there - value) < 1e-6 * max(1.0, abs(value)):
                yield step.number, one


def after(steps: Sequence[ComputedStep], number: int, value: float) -> float | None:
    """The first step's value where another one has a given value; None if that is not known."""
    at = next((k for k, step in enumerate(steps) if step.number == number), None)
    if at is None:
        return None
    for step in reversed(steps[: at + 1]):
        try:
            value = step.apply(value)
        except (ZeroDivisionError, OverflowError):
            return None
    return value
