"""The buffers of a call: those that XLA has planned, or an estimate of them."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from taxpr import _compat
from taxpr._address import Address
from taxpr._buffers.assignment import Allocation, BufferPlace, Defined, assignment
from taxpr._buffers.contents_of import UNKNOWN, Content, Contents
from taxpr._buffers.last_readers import LastReaders
from taxpr._buffers.live import Interval, Schedule, bytes_over_time
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import CompiledCall, jit_options
from taxpr._errors import RefusedError
from taxpr._estimates.donated import donated_results
from taxpr._estimates.doubts import doubts
from taxpr._estimates.estimate import estimate
from taxpr._estimates.flat import flat_program
from taxpr._estimates.residuals import size_of
from taxpr._memory.held import XLAS_OWN, Holding
from taxpr._memory.lives import Life, lives_of
from taxpr._programs.program import Program


@dataclasses.dataclass(frozen=True)
class Used:
    """The memory of a call.

    Attributes:
        arguments: The bytes of its arguments.
        results: The bytes of its results.
        alias: The bytes of results that take the place of a donated argument.
        temporaries: The bytes reserved for all other arrays.
        held: The arrays in memory at the peak.
        line: The bytes that are taken after each step.
        loops: For each loop its address, and its begin and end on the line.
        known: Whether the buffers are known, and not only their sum.
        lives: All arrays, each with the time that it is in memory.
        steps: The equations that are computed in each step; empty before the first.
        notes: Possible errors of an estimate.
    """

    arguments: int
    results: int
    alias: int
    temporaries: int
    held: list[Holding]
    line: list[int]
    loops: Sequence[tuple[str, int, int]]
    known: bool = True
    lives: Sequence[Life] = ()
    steps: Sequence[tuple[Address, ...]] = ()
    notes: Sequence[str] = ()

    @property
    def total(self) -> int:
        """The bytes that the call needs in all."""
        return self.arguments + self.results - self.alias + self.temporaries


def planned(call: CompiledCall, words: Attributions) -> Used:
    """XLA's plan of the memory for a compiled call.

    Raises:
        RefusedError: If the backend does not say how much it needs.
    """
    stats: Any = call.executable.memory_analysis()
    if stats is None:
        raise RefusedError(
            "memory: this backend does not say how much memory a compiled program needs. "
            "memory(fun, compile=False) estimates it from the program."
        )
    sizes = (
        int(stats.argument_size_in_bytes),
        int(stats.output_size_in_bytes),
        int(stats.alias_size_in_bytes),
        int(stats.temp_size_in_bytes),
    )
    places = assignment(call) if call.hlo.scheduled else None
    if places is None:
        named = [Holding(sizes[3], UNKNOWN, "temporaries; this backend says no more about them")]
        base = sizes[0] + sizes[1] - sizes[2]
        return Used(*sizes, [*_ends(call, words), *named], [base + sizes[3]], [], known=False)
    schedule = Schedule(call.hlo, places.__contains__)
    temporary = [
        one
        for one in schedule.intervals
        if one.defined in places and places[one.defined].allocation.kind == "temporary"
    ]
    line = bytes_over_time(temporary, lambda one: places[one.defined], schedule.length)
    at = line.index(max(line))
    alive = [one for one in temporary if one.begin <= at <= one.end]
    ends = list(_ends(call, words))
    held = [*ends, *_parts(alive, places, call, words)]
    base = sizes[0] + sizes[1] - sizes[2]
    loops = [
        (next(iter(call.equations(call.hlo.instructions[name])), Address()), begin, end)
        for name, begin, end in schedule.loops
    ]
    steps = [(), *(call.equations(call.hlo.instructions[name]) for name in schedule.order)]
    lives = [Life(0, schedule.length, one) for one in ends]
    lives += lives_of(temporary, places, Contents(call, words))
    used = Used(*sizes, held, [base + n for n in line], loops, lives=lives, steps=steps)
    left = used.total - sum(one.bytes for one in held)
    return dataclasses.replace(used, held=[*held, Holding(left, UNKNOWN, _LEFT)])


_LEFT = f"{XLAS_OWN}: tables, and room between buffers"


def _ends(call: CompiledCall, words: Attributions) -> Iterator[Holding]:
    """Arguments, and the results that lie in memory of their own."""
    entry, program = call.hlo.entry, call.program
    for one in entry.parameters:
        number = call.inputs.get(one.name)
        name = "" if number is None else program.in_names[number]
        place = "" if number is None else Address(f"in{number}")
        is_given = number in call.donated
        why = "argument, whose memory a result may take" if is_given else "argument"
        yield Holding(one.bytes, UNKNOWN, why, name or one.name, place)
    contents = Contents(call, words)
    names = program.out_names
    aliased = _aliased(call)
    for k, shape in enumerate(entry.root.shapes):
        if shape.path not in aliased:
            made = contents.of((entry.root.name, shape.path))
            made = UNKNOWN if made.address is None or made.address.is_argument else made
            name = names[k] if k < len(names) else ""
            yield Holding(shape.bytes, made, "result", name)


def _aliased(call: CompiledCall) -> set[tuple[int, ...]]:
    """The results that lie where an argument was."""
    return {path for path, _ in call.hlo.aliases}


def _parts(
    alive: Sequence[Interval],
    places: dict[Defined, BufferPlace],
    call: CompiledCall,
    words: Attributions,
) -> Iterator[Holding]:
    """The temporaries at a time; of several in one place, the one that says the most."""
    contents, readers = Contents(call, words), LastReaders(call, words)
    at: dict[BufferPlace, list[Interval]] = {}
    for one in alive:
        at.setdefault(places[one.defined], []).append(one)
    ends: dict[Allocation, int] = {}
    for place in sorted(at, key=lambda one: (one.allocation.number, one.offset, -one.size)):
        end = ends.get(place.allocation, 0)
        size = place.offset + place.size - max(end, place.offset)
        ends[place.allocation] = max(end, place.offset + place.size)
        found = [(contents.of(one.defined), one) for one in _with_later(at[place])]
        made, value = max(found, key=lambda pair: (pair[0].exact, pair[1].begin))
        yield Holding(max(size, 0), made, readers=readers.of(value))


def _with_later(values: Sequence[Interval]) -> list[Interval]:
    """Values, and the values that loops write in their places: a loop begins with zeros."""
    found = list(values)
    for one in found:
        found += [later for later in one.becomes if later not in found]
    return found


def guessed(program: Program) -> Used:
    """The estimated memory of a program, without compiling it."""
    flat = flat_program(program.jaxpr)
    options, donated = jit_options(program)
    read = {x for one in flat.operations for x in one.reads}.union(flat.outputs)
    kept = {k for k, one in enumerate(flat.inputs) if options.get("keep_unused") or one in read}
    reused = donated_results(program, flat, [k for k in donated if k in kept])
    copied = {one.number for one in reused if one.copied}
    in_arguments = {one.number for one in reused}
    free = [k for k in range(len(flat.outputs)) if k not in in_arguments]
    found = estimate(flat, copied=copied, free=free)
    arguments = [one for k, one in enumerate(flat.inputs) if k in kept]
    results = [size_of(_compat.aval_of(atom)) for atom in program.outvars]
    alias = sum(one.bytes for one in reused)
    names = dict(zip(flat.inputs, program.in_names, strict=True))
    made_for = dict(zip(flat.outputs, program.out_names, strict=True))
    held = [Holding(one.bytes, UNKNOWN, "argument", names[one], one.address) for one in arguments]
    for number, (datum, size) in enumerate(zip(flat.outputs, results, strict=True)):
        if number in in_arguments:
            continue
        made = UNKNOWN if datum is None or datum.role else Content(datum.address, datum.times > 1)
        held.append(Holding(size, made, "result", made_for.get(datum, "")))
    outputs = {x for k, x in enumerate(flat.outputs) if k not in copied}
    for one in found.alive:
        if one not in outputs:
            held.append(Holding(one.bytes, Content(one.address, one.times > 1)))
    sizes = sum(one.bytes for one in arguments), sum(results), alias
    base = sizes[0] + sizes[1] - sizes[2]
    line, notes = [base + n for n in found.line], doubts(flat, found.peak)
    return Used(*sizes, found.peak, held, line, found.loops, notes=notes)
