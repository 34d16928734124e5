"""Follow the values of a level to their makers and readers."""

from collections.abc import Iterator

from taxpr._check.levels import Level, Op
from taxpr._untyped import lax as _lax

# What stays zero, or out of the domain, where its operand is.
SAME = (
    *(_lax.convert_element_type_p, _lax.broadcast_in_dim_p, _lax.reshape_p, _lax.squeeze_p),
    *(_lax.neg_p, _lax.abs_p, _lax.square_p, _lax.integer_pow_p, _lax.reduce_sum_p),
    *(_lax.sqrt_p, _lax.transpose_p, _lax.copy_p),
)
# Those that leave each element as it is.
SHAPES = (
    *(_lax.convert_element_type_p, _lax.broadcast_in_dim_p, _lax.reshape_p, _lax.squeeze_p),
    *(_lax.transpose_p, _lax.copy_p),
)


def is_constant(level: Level, number: int) -> bool:
    """Whether a value is made of literals alone."""
    waiting, seen = [number], set[int]()
    while waiting:
        number = waiting.pop()
        if number in level.literals or number in seen:
            continue
        seen.add(number)
        op = level.makers.get(number)
        if op is None:
            return False
        waiting += op.ins
    return True


def roots(level: Level, number: int) -> set[int]:
    """A value, and the values that it only reshapes or copies."""
    found = {number}
    while (op := level.makers.get(number)) is not None and op.eqn.primitive in SAME:
        number = op.ins[0]
        found.add(number)
    return found


def origin(level: Level, number: int) -> Op | None:
    """The equation that made the elements of a value; None if they come from outside."""
    while (op := level.makers.get(number)) is not None and op.eqn.primitive in SHAPES:
        number = op.ins[0]
    return op


def readers(level: Level, number: int) -> Iterator[tuple[Op, int]]:
    """The readers of the elements of a value, in any shape, each with the number that it reads."""
    for op in level.readers.get(number, ()):
        if op.eqn.primitive in SHAPES:
            yield from readers(level, op.outs[0])
        else:
            yield op, number
