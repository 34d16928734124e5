"""Find which results may lie where donated arguments were, and which of these XLA copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from taxpr._memory.estimate import FUSIBLE
from taxpr._memory.flat import Datum, FlatProgram, Operation
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


def donated_results(program: FlatProgram, donated: Sequence[int]) -> list[Donated]:
    """The results that find a donated argument of their size.

    XLA computes one in its place only if no other operation may run later that reads the argument,
    and if the operation that makes the result reads of it what it has written over, or nothing.

    Args:
        program: The program.
        donated: The positions of the donated inputs.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr._memory.flat import flat_program
        >>> for fun in (lambda x: x * 2, lambda x: x @ x):
        ...     donated_results(flat_program(trace(fun)(jnp.ones((2, 2))).jaxpr), [0])
        [Donated(number=0, bytes=16, copied=False)]
        [Donated(number=0, bytes=16, copied=True)]
    """
    return list(_Donating(program).pairs([program.inputs[k] for k in donated]))


class _Donating:
    def __init__(self, program: FlatProgram) -> None:
        self._program = program
        self._makers = {id(x): one for one in program.operations for x in one.makes}

    def pairs(self, left: list[Datum]) -> Iterator[Donated]:
        for number, datum in enumerate(self._program.outputs):
            given = next((x for x in left if datum is not None and x.bytes == datum.bytes), None)
            if datum is None or given is None:
                continue
            left.remove(given)
            yield Donated(number, datum.bytes, not (datum is given or self._fits(datum, given)))

    def _fits(self, result: Datum, given: Datum) -> bool:
        maker = self._makers.get(id(result))
        if maker is None:  # another argument
            return False
        before = {id(one) for one in self._needed(maker, lambda _: True)}
        readers = (one for one in self._program.operations if given in one.reads)
        if any(id(one) not in before for one in readers):
            return False
        if maker.is_loop:
            return True
        if maker.eqn.primitive in _IN_PLACE:
            return given not in maker.reads[1:]
        if maker.eqn.primitive not in FUSIBLE:
            return given not in maker.reads
        # What is fused with it reads an element only for that of the result.
        fused = self._needed(maker, lambda one: one.eqn.primitive in FUSIBLE)
        return not any(
            given in one.reads and one.eqn.primitive not in _ALIGNED
            for one in fused
            if one.eqn.primitive in FUSIBLE
        )

    def _needed(
        self, maker: Operation, through: Callable[[Operation], bool]
    ) -> Iterator[Operation]:
        """An operation, and those that it needs, as far as these lead through others."""
        waiting, seen = [maker], {id(maker)}
        while waiting:
            one = waiting.pop()
            yield one
            for x in one.reads if through(one) else ():
                other = self._makers.get(id(x))
                if other is not None and id(other) not in seen:
                    seen.add(id(other))
                    waiting.append(other)
