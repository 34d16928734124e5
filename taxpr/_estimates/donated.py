"""Find which results may lie where donated arguments were, and which of these XLA copies."""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._estimates.estimate import FUSIBLE
from taxpr._estimates.flat import Datum, FlatProgram, Operation
from taxpr._estimates.residuals import size_of
from taxpr._programs.program import Program
from taxpr._questions.depends import EACH, named

_ALIGNED = EACH | named("select_n")
# What writes into its first operand.
_IN_PLACE = named("dynamic_update_slice scatter scatter_add scatter_mul scatter_min scatter_max")


class Donated(NamedTuple):
    """A result that lies where a donated argument was.

    Attributes:
        number: Its number.
        bytes: Its size.
        copied: Whether XLA computes it elsewhere, and copies it in the end.
    """

    number: int
    bytes: int
    copied: bool


def donated_results(program: Program, flat: FlatProgram, donated: Sequence[int]) -> list[Donated]:
    """The results that lie where a donated argument was.

    XLA computes one in its place only if no other operation may run later that reads the argument,
    and if the operation that makes the result reads of it what it has written over, or nothing.

    Args:
        program: The program.
        flat: The same as a list of operations.
        donated: The positions of the donated inputs that are read.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr._estimates.flat import flat_program
        >>> for fun in (lambda x: x * 2, lambda x: x @ x):
        ...     program = trace(fun)(jnp.ones((2, 2)))
        ...     donated_results(program, flat_program(program.jaxpr), [0])
        [Donated(number=0, bytes=16, copied=False)]
        [Donated(number=0, bytes=16, copied=True)]
    """
    types = [[_compat.aval_of(x) for x in every] for every in (program.invars, program.outvars)]
    pairs = _pairs({k: types[0][k] for k in donated}, types[1])
    data = [(flat.outputs[result], flat.inputs[given]) for result, given in pairs]
    elsewhere = _elsewhere(flat.operations, data)
    return [
        Donated(result, size_of(types[1][result]), k in elsewhere)
        for k, (result, _) in enumerate(pairs)
    ]


def _pairs(given: dict[int, Any], results: Sequence[Any]) -> list[tuple[int, int]]:
    """The numbers of results, each with the number of the donated input whose place it takes.

    JAX gives an input to the first result of its type. One that is left it hands to XLA, if a
    result that is left has as many elements; XLA gives it to one of as many bytes.

    Args:
        given: The types of the donated inputs, by their numbers.
        results: The types of the results.
    """
    found: list[tuple[int, int]] = []
    by_type: dict[Any, collections.deque[int]] = {}
    for number, aval in given.items():
        by_type.setdefault((aval.shape, aval.dtype), collections.deque()).append(number)
    left: list[int] = []
    for number, aval in enumerate(results):
        same = by_type.get((aval.shape, aval.dtype))
        if same:
            found.append((number, same.popleft()))
        else:
            left.append(number)
    if not left or not any(by_type.values()) or not _compat.hands_on_donated():
        return found
    counts = collections.Counter(results[number].size for number in left)
    sizes: dict[int, collections.deque[int]] = {}
    for number in sorted(x for numbers in by_type.values() for x in numbers):
        if counts[given[number].size]:
            counts[given[number].size] -= 1
            sizes.setdefault(size_of(given[number]), collections.deque()).append(number)
    for number in left:
        if same := sizes.get(size_of(results[number])):
            found.append((number, same.popleft()))
    return sorted(found)


def _elsewhere(
    operations: Sequence[Operation], pairs: Sequence[tuple[Datum | None, Datum]]
) -> set[int]:
    """The numbers of pairs whose result cannot be computed in the place of its argument.

    A set of pairs is an integer with a bit for each, so that one walk over the operations does.

    Args:
        operations: The operations of the program.
        pairs: Results, each with the argument whose place it takes.
    """
    makers: dict[Datum | None, Operation] = {}
    if pairs:
        makers.update((x, one) for one in operations for x in one.makes)
    found, open_pairs = set[int](), collections.defaultdict[Datum | None, int](int)
    # Of each operation the pairs for whose result it is needed, and those with which it is fused.
    needed, fused = dict.fromkeys(operations, 0), dict.fromkeys(operations, 0)
    for k, (result, given) in enumerate(pairs):
        maker = makers.get(result)
        if result is None or result is given:  # a number, or the argument
            continue
        if maker is None or not _begins_in_place(maker, given):
            found.add(k)
            continue
        open_pairs[given] |= 1 << k
        needed[maker] |= 1 << k
        if not (maker.is_loop or maker.eqn.primitive in _IN_PLACE):
            fused[maker] |= 1 << k
    wrong = 0
    for one in reversed(operations) if open_pairs else ():
        is_fusible, needed_for = one.eqn.primitive in FUSIBLE, needed[one]
        for x in one.reads:
            pairs_of = open_pairs.get(x, 0)
            wrong |= pairs_of & ~needed_for  # it may run later
            if is_fusible and one.eqn.primitive not in _ALIGNED:
                wrong |= pairs_of & fused[one]  # it reads what has been written over
            other = makers.get(x)
            if other is not None:
                needed[other] |= needed_for
                fused[other] |= fused[one] if is_fusible else 0
    return found | _bits(wrong)


def _begins_in_place(maker: Operation, given: Datum) -> bool:
    """Whether an operation reads of an argument only what it has not written over by then."""
    if maker.is_loop or maker.eqn.primitive in FUSIBLE:
        return True
    read = maker.reads[1:] if maker.eqn.primitive in _IN_PLACE else maker.reads
    return not any(x is given for x in read)


def _bits(number: int) -> set[int]:
    return {k for k, bit in enumerate(bin(number)[:1:-1]) if bit == "1"}
