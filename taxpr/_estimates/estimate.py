"""Estimate from a jaxpr alone which arrays XLA will hold in memory.

The model follows XLA's behaviour on all devices: elementwise values are fused into their readers
and never written, unless a product reads them, they cost much and are read twice, or they leave a
loop; a value dies with its last reader, and a fresh one may take its place. Before a result is
written, temporaries may lie in its memory. Layouts, copies, and the order that XLA chooses are not
known before it compiles.
"""

import dataclasses
import itertools
import operator
import sys
from collections.abc import Iterable

from jax import lax

from taxpr import _compat
from taxpr._estimates.flat import Datum, FlatProgram, Operation
from taxpr._estimates.in_results import in_results
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
# These need copies of their operands, or tables.
_ARRANGES = {lax.dot_general_p, lax.conv_general_dilated_p, lax.select_and_scatter_add_p}


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
    free: Iterable[int] = (),
) -> Estimate:
    """Estimate the temporaries of a program, without its arguments and results.

    Args:
        program: The program.
        written: For the body of a loop, or a branch, the positions of outputs that are written into
            an array, one for each iteration. The others are temporaries, too.
        copied: The positions of outputs that are temporaries first.
        free: The positions of outputs with memory of their own, which temporaries use before.

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
    return _Simulation(program, frozenset(written or ()), frozenset(own), frozenset(free)).found


@dataclasses.dataclass(eq=False, slots=True)
class _Life:
    """When a value is needed, and where on the line it is in memory.

    Attributes:
        datum: The value.
        first: The position of the first operation that reads it and writes its result.
        last: The number of the last one, or -1.
        stored: Whether it is written to memory.
        maker: The position of the operation that makes it; None for an input.
        begin: Where it begins on the line.
        end: Where it ends; -1 while it is not there.
    """

    datum: Datum
    first: int
    last: int = -1
    stored: bool = False
    maker: int | None = None
    begin: int = 0
    end: int = -1


class _Simulation:
    def __init__(
        self,
        program: FlatProgram,
        written: frozenset[int],
        own: frozenset[int],
        free: frozenset[int],
    ) -> None:
        self._operations, self._inputs = program.operations, program.inputs
        outputs = program.outputs
        self._free = {outputs[k] for k in free}
        self._written = {outputs[k] for k in written}
        self._elsewhere = {one for k, one in enumerate(outputs) if k not in own}
        self._kept = {one for k, one in enumerate(outputs) if k not in written}
        self._end = len(program.operations)
        self._lives: dict[Datum, _Life] = {}
        self._slices: dict[Datum, int] = {}  # with their first readers
        # All that read a result come later.
        for position in range(self._end - 1, -1, -1):
            self._needed(position, program.operations[position])
        for datum in program.inputs:
            life = self._life(datum)
            self._decide(life, datum.role != "slice", is_cheap=False)
        self.found = self._simulated()

    def _life(self, datum: Datum) -> _Life:
        life = self._lives.get(datum)
        if life is None:
            life = self._lives[datum] = _Life(datum, self._end + 1)
        return life

    def _decide(self, life: _Life, stored: bool, *, is_cheap: bool) -> None:
        """Whether a value with known readers is written to memory."""
        if life.datum in self._kept:
            life.first, life.last, stored = min(life.first, self._end), self._end, True
        life.stored = life.stored or stored or (not is_cheap and life.first < life.last)

    def _needed(self, position: int, one: Operation) -> None:
        """When an operation needs its operands; a fused one needs them for its readers."""
        kind = one.eqn.primitive
        is_written, is_cheap = kind not in FUSIBLE, kind not in _EXPENSIVE
        first, last = (self._end + 1, -1) if one.makes else (position, position)
        for datum in one.makes:
            life = self._life(datum)
            life.maker = position
            if datum in self._written:
                life.first, life.last = min(life.first, position), max(life.last, position)
            self._decide(life, is_written, is_cheap=is_cheap)
            if life.stored or life.last < 0:
                first, last = min(first, position), max(last, position)
            else:
                first, last = min(first, life.first), max(last, life.last)
        is_stored = kind not in _READS_FUSED
        for datum in one.reads:
            if datum is None:
                continue
            life = self._life(datum)
            if first < life.first:
                life.first = first
            if last > life.last:
                life.last = last
            if is_stored:
                life.stored = True
            if datum.role == "slice":
                self._slices[datum] = position

    def _simulated(self) -> Estimate:
        found = Estimate()
        line, there, taken = found.line, list[_Life](), 0
        position: list[int] = []  # of each operation on the line
        inner: dict[int, Estimate] = {}
        ending: dict[int, list[_Life]] = {}
        before = self._before()
        for k, one in enumerate(self._operations):
            dying = ending.get(k)
            # Its result may lie where an operand was.
            if dying and (one.eqn.primitive in FUSIBLE or one.is_loop):
                taken -= _over(_replaced(dying, one.makes), len(line))
            begin = [self._lives[x] for x in one.makes]
            for life in (*before[k], *begin) if k in before else begin:
                if life.stored and life.datum not in self._elsewhere:
                    life.begin, life.end = len(line), sys.maxsize
                    there.append(life)
                    ending.setdefault(max(life.last, k), []).append(life)
                    taken += life.datum.bytes
            begins = len(line)
            for inside in _inner(one) if one.inner else ():
                at = len(line)
                inner.update(
                    (at + j, inside) for j, n in enumerate(inside.line) if n == inside.peak
                )
                line += [taken + n for n in inside.line]
            position.append(len(line))
            line.append(taken)
            if one.is_loop:
                found.loops.append((one.address, begins, len(line)))
            if k in ending:
                taken -= _over(ending[k], len(line))
        made = [self._lives[x] for x in self._free if x is not None and x in self._lives]
        rooms = [(x.datum.bytes, position[x.maker]) for x in made if x.maker is not None]
        inside = in_results([(x.datum.bytes, x.begin, x.end) for x in there], rooms, found.peak)
        change = [0] * (len(line) + 1)
        for life in (there[k] for k in inside):
            change[life.begin] -= life.datum.bytes
            change[min(life.end, len(line))] += life.datum.bytes
        line[:] = map(operator.add, line, itertools.accumulate(change))
        there = [one for k, one in enumerate(there) if k not in inside]
        at = line.index(found.peak) if line else 0
        found.alive = [one.datum for one in there if one.begin <= at < one.end]
        found.alive += inner[at].alive if at in inner else []
        return found

    def _before(self) -> dict[int, list[_Life]]:
        """The arrays that are made for an operation before it runs.

        These are a loop's slices of an array, for their first reader; copies of operands in another
        order of axes; and tables of indices, which need nothing and come first.
        """
        found: dict[int, list[_Life]] = {}
        for k, one in enumerate(self._operations):
            if one.eqn.primitive not in _ARRANGES:
                continue
            made = [(0, table) for table in _tables(one)]
            for datum in _turned(one):
                copied = self._copied(k, self._lives[datum].maker)
                made.append((copied, dataclasses.replace(datum)))
            for at, datum in made:
                found.setdefault(at, []).append(_Life(datum, at, k, stored=True))
        for datum in self._inputs:
            if datum in self._slices:
                found.setdefault(self._slices[datum], []).append(self._lives[datum])
        return found

    def _copied(self, reader: int, maker: int | None) -> int:
        """When an operand is copied for a product or convolution.

        CPUs run what is ready, so that copies for a convolution are there as soon as the operand.
        The copy for a product is computed with the operand where that is a fusion.
        """
        if self._operations[reader].eqn.primitive is lax.conv_general_dilated_p:
            return maker or 0
        if maker is None or self._operations[maker].eqn.primitive not in FUSIBLE:
            return reader
        return maker if reader - maker <= _NEAR else reader


def _over(lives: Iterable[_Life], end: int) -> int:
    """End the lives of values that are there; returns how many bytes that frees."""
    freed = 0
    for life in lives:
        if life.end > end:
            life.end, freed = end, freed + life.datum.bytes
    return freed


def _tables(one: Operation) -> list[Datum]:
    """The indices for the derivative of a maximum over windows.

    XLA finds each maximum among the indices of all elements, an array for each axis.
    """
    if one.eqn.primitive is not lax.select_and_scatter_add_p:
        return []
    operand = _compat.aval_of(one.eqn.invars[1])
    return [Datum(one.address.value(0), 4 * operand.size) for _ in operand.shape]


def _replaced(dying: Iterable[_Life], made: Iterable[Datum]) -> list[_Life]:
    """For each value that is made, a dying value of its size whose place it may take."""
    left, found = list(dying), list[_Life]()
    for new in made:
        old = next((x for x in left if x.datum.bytes == new.bytes), None)
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
    """The estimates for the bodies of a loop or the branches of a condition."""
    found: list[Estimate] = []
    for nested, program in one.inner:
        roles = nested.out_roles if one.is_loop else ()
        written = [k for k, role in enumerate(roles) if role == "y"]
        found.append(estimate(program, written=written))
    return found
