"""Estimate from a jaxpr alone which arrays XLA will hold in memory.

The model follows XLA's behaviour on all devices: elementwise values are fused into their readers
and never written, unless a product reads them, they cost much and are read twice, or they leave a
loop; a value dies with its last reader, and a fresh one may take its place. Layouts, copies, and
the order that XLA chooses are not known before it compiles.
"""

import dataclasses
import sys
from collections.abc import Iterable

from jax import lax

from taxpr import _compat
from taxpr._estimates.flat import Datum, FlatProgram, Operation
from taxpr._questions.depends import EACH, REDUCES, named

# What XLA fuses into what reads it: element by element, or only other indices.
FUSIBLE = EACH | named(
    "bitcast_convert_type broadcast_in_dim concatenate dynamic_slice gather iota pad "
    "population_count rev select_n shift_left shift_right_arithmetic shift_right_logical slice"
)
# What it does not compute twice.
_EXPENSIVE = named(
    "atan2 cbrt cos div erf erf_inv exp exp2 expm1 log log1p logistic pow rem rsqrt sin sinh "
    "sqrt tan tanh acos acosh asin asinh atan atanh cosh gather concatenate"
)
_NEAR = 2  # operations between a fusion and a product for which it is written in another order
# What reads operands as they come out of a fusion: this, and what writes its result.
_READS_FUSED = FUSIBLE | REDUCES | named("argmax argmin")


@dataclasses.dataclass(eq=False)
class Estimate:
    """The estimated memory of a program.

    Attributes:
        line: The bytes of temporaries after each operation.
        alive: The values in memory at the peak.
        loops: For each loop its address, and its begin and end on the line.
    """

    line: list[int] = dataclasses.field(default_factory=list[int])
    alive: list[Datum] = dataclasses.field(default_factory=list[Datum])
    loops: list[tuple[str, int, int]] = dataclasses.field(
        default_factory=list[tuple[str, int, int]]
    )

    @property
    def peak(self) -> int:
        """The most that is there at a time."""
        return max(self.line, default=0)


def estimate(
    program: FlatProgram,
    *,
    written: Iterable[int] | None = None,
    copied: Iterable[int] = (),
) -> Estimate:
    """Guess the temporaries of a program, without its arguments and results.

    Args:
        program: The program.
        written: For the body of a loop, or a branch, the positions of outputs that are written into
            an array, one for each iteration. The others are temporaries, too.
        copied: The positions of outputs that are temporaries first.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr._estimates.flat import flat_program
        >>> program = trace(lambda x: jnp.sum(jnp.sin(x @ x) @ x))(jnp.ones((10, 10)))
        >>> found = estimate(flat_program(program.jaxpr))
        >>> found.peak, [one.address for one in found.alive]
        (800, ['1:sin.0', '2:dot_general.0'])
    """
    own = range(len(program.outputs)) if written is not None else copied
    return _Simulation(program, frozenset(written or ()), frozenset(own)).found


@dataclasses.dataclass(eq=False, slots=True)
class _Life:
    datum: Datum
    begin: int
    end: int = sys.maxsize


class _Simulation:
    def __init__(self, program: FlatProgram, written: frozenset[int], own: frozenset[int]) -> None:
        self._program = program
        outputs = program.outputs
        self._written = {outputs[k] for k in written}
        self._elsewhere = {one for k, one in enumerate(outputs) if k not in own}
        self._kept = {one for k, one in enumerate(outputs) if k not in written}
        self._readers: dict[Datum | None, list[Operation]] = {}
        for one in program.operations:
            for datum in set(one.reads):
                self._readers.setdefault(datum, []).append(one)
        self._position = {one: k for k, one in enumerate(program.operations)}
        self._end = len(program.operations)
        # When it is read last and first: by an operation that writes its result.
        self._last: dict[Datum, int] = {}
        self._first: dict[Datum, int] = {}
        self._stored: dict[Datum, bool] = {}
        for one in reversed(program.operations):
            for datum in one.makes:
                self._decide(datum, one)
        for datum in program.inputs:
            self._decide(datum, None)
        self.found = self._simulated()

    def _decide(self, datum: Datum, maker: Operation | None) -> None:
        """Decide whether a value is written to memory, and find its last reader."""
        readers, kept = self._readers.get(datum, ()), datum in self._kept
        kind = None if maker is None else maker.eqn.primitive
        stored = kept or not (datum.role == "slice" if maker is None else kind in FUSIBLE)
        first, last = self._end + 1, -1
        for one in readers:
            begin, end = self._ends(one)
            first, last = min(first, begin), max(last, end)
            stored = stored or one.eqn.primitive not in _READS_FUSED
        if datum in self._written and maker is not None:
            position = self._position[maker]
            first, last = min(first, position), max(last, position)
        if kept:
            first, last = min(first, self._end), self._end
        self._first[datum], self._last[datum] = first, last
        self._stored[datum] = stored or (first < last and (maker is None or kind in _EXPENSIVE))

    def _ends(self, reader: Operation) -> tuple[int, int]:
        """When a reader has read: where it is fused, what it is fused into, first and last."""
        first, last = self._end + 1, -1
        for made in reader.makes:
            if self._stored[made] or self._last[made] < 0:
                position = self._position[reader]
                first, last = min(first, position), max(last, position)
            else:
                first, last = min(first, self._first[made]), max(last, self._last[made])
        position = self._position[reader]
        return (first, last) if reader.makes else (position, position)

    def _simulated(self) -> Estimate:
        found, self._alive = Estimate(), dict[Datum, _Life]()
        lives: list[_Life] = []
        inner: dict[int, Estimate] = {}
        taken = 0
        ending: dict[int, list[Datum]] = {}
        first = self._before()
        for k, one in enumerate(self._program.operations):
            dying = ending.get(k)
            # Its result may lie where an operand was.
            if dying and (one.eqn.primitive in FUSIBLE or one.is_loop):
                taken -= self._over(_replaced(dying, one.makes), found)
            for datum in (*first.get(k, ()), *one.makes):
                if self._stored[datum] and datum not in self._elsewhere:
                    self._alive[datum] = _Life(datum, len(found.line))
                    lives.append(self._alive[datum])
                    ending.setdefault(max(self._last[datum], k), []).append(datum)
                    taken += datum.bytes
            begins = len(found.line)
            for inside in _inner(one) if one.inner else ():
                at = len(found.line)
                inner.update(
                    (at + j, inside) for j, n in enumerate(inside.line) if n == inside.peak
                )
                found.line += [taken + n for n in inside.line]
            found.line.append(taken)
            if one.is_loop:
                found.loops.append((one.address, begins, len(found.line)))
            if k in ending:
                taken -= self._over(ending[k], found)
        at = found.line.index(found.peak) if found.line else 0
        found.alive = [one.datum for one in lives if one.begin <= at < one.end]
        found.alive += inner[at].alive if at in inner else []
        return found

    def _over(self, data: Iterable[Datum], found: Estimate) -> int:
        """End the lives of values; returns how many bytes that frees."""
        freed = 0
        for datum in data:
            life = self._alive.pop(datum, None)
            if life is not None:
                life.end, freed = len(found.line), freed + datum.bytes
        return freed

    def _before(self) -> dict[int, list[Datum]]:
        """What is made for an operation before it runs.

        These are a loop's slices of an array, for their first reader; copies of operands in another
        order of axes; and tables of indices, which need nothing and come first.
        """
        found: dict[int, list[Datum]] = {}
        made = {x: one for one in self._program.operations for x in one.makes}
        for k, one in enumerate(self._program.operations):
            copies = [
                (self._copied(one, made.get(x)), dataclasses.replace(x)) for x in _turned(one)
            ]
            for at, datum in (*copies, *((0, table) for table in _tables(one))):
                self._stored[datum], self._last[datum] = True, k
                found.setdefault(at, []).append(datum)
        for datum in self._program.inputs:
            readers = self._readers.get(datum)
            if datum.role == "slice" and readers:
                found.setdefault(self._position[readers[0]], []).append(datum)
        return found

    def _copied(self, reader: Operation, maker: Operation | None) -> int:
        """When an operand is copied for a product or convolution.

        CPUs run what is ready, so that copies for a convolution are there as soon as the operand.
        The copy for a product is computed with the operand where that is a fusion.
        """
        if reader.eqn.primitive is lax.conv_general_dilated_p:
            return self._position[maker] if maker else 0
        now = self._position[reader]
        at = self._position[maker] if maker and maker.eqn.primitive in FUSIBLE else now
        return at if now - at <= _NEAR else now


def _tables(one: Operation) -> list[Datum]:
    """The indices for the derivative of a maximum over windows.

    XLA finds each maximum among the indices of all elements, an array for each axis.
    """
    if one.eqn.primitive is not lax.select_and_scatter_add_p:
        return []
    operand = _compat.aval_of(one.eqn.invars[1])
    return [Datum(one.address.value(0), 4 * operand.size) for _ in operand.shape]


def _replaced(dying: Iterable[Datum], made: Iterable[Datum]) -> list[Datum]:
    """For each value that is made, a dying value of its size whose place it may take."""
    left, found = list(dying), list[Datum]()
    for new in made:
        old = next((x for x in left if x.bytes == new.bytes), None)
        if old is not None:
            left.remove(old)
            found.append(old)
    return found


def _turned(one: Operation) -> list[Datum]:
    """The operands of a product or convolution that XLA copies, with their axes in its own order.

    A product has one axis of each kind: of a batch, of a sum, and free. If there are more, they are
    brought together, the left operand with the axes of the sum behind, the right one in front.
    """
    if one.eqn.primitive is lax.conv_general_dilated_p:
        # In the derivative with respect to a kernel, batch and features are changed.
        is_turned = one.eqn.params["dimension_numbers"].lhs_spec[0] != 0
        return [datum for datum in one.reads if is_turned and datum is not None]
    if one.eqn.primitive is not lax.dot_general_p:
        return []
    sums, batches = one.eqn.params["dimension_numbers"]
    ranks = [_compat.aval_of(atom).ndim for atom in one.eqn.invars]
    pairs = [*zip(one.reads, ranks, sums, batches, strict=True)]
    free = [rank - len(summed) - len(batch) for _, rank, summed, batch in pairs]
    if len(sums[0]) < 2 and max(free) < 2 and all(list(b) == [*range(len(b))] for b in batches):
        return []
    found: list[Datum] = []
    for k, (datum, rank, summed, batch) in enumerate(pairs):
        axes = [x for x in range(rank) if x not in (*summed, *batch)]
        order = [*batch, *axes, *summed] if k == 0 else [*batch, *summed, *axes]
        if datum is not None and order != sorted(order):
            found.append(datum)
    return found


def _inner(one: Operation) -> list[Estimate]:
    """The guesses for the bodies of a loop or the branches of a condition."""
    found: list[Estimate] = []
    for nested, program in one.inner:
        roles = nested.out_roles if one.is_loop else ()
        written = [k for k, role in enumerate(roles) if role == "y"]
        found.append(estimate(program, written=written))
    return found
