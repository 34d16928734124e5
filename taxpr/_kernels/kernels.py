"""The instructions that run, each with the statements that it computes and how often it runs."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from taxpr._address import Address
from taxpr._compiled.attribution import Attribution, Attributions
from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.hlo import Computation, HloModule, Instruction
from taxpr._kernels.hlo_dataflow import MOVES, maker, readers
from taxpr._kernels.merged_products import merged_products

_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
# What runs nothing: it names a value, groups values, waits, or runs a computation whose
# instructions are told.
_RUNS_NOTHING = frozenset(
    (
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional"),
        *("call", "after-all", "partition-id", "replica-id", "optimization-barrier", "domain"),
        *("add-dependency", "async-start", "async-update"),
    )
)
_CALLED = ("body", "condition", "true_computation", "false_computation", "branch_computations")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An instruction that runs.

    Attributes:
        instruction: The instruction.
        equations: The addresses of the equations that it computes; empty if it is XLA's own.
        statements: Their statements, in order; several if XLA has put several into one kernel.
        times: How often it runs in a call; None in a while loop. In a branch, if that is taken.
        bytes: The bytes that it writes over all runs, or in one if their number is not known.
        added: For a kernel that XLA has added, the value that it copies or makes room for, if
            known.
    """

    instruction: Instruction
    equations: tuple[Address, ...]
    statements: tuple[Attribution, ...]
    times: int | None
    bytes: int
    added: Attribution | None = None

    @property
    def told(self) -> tuple[str, str, str]:
        """Its variables, lines and statements, as in one cell each."""
        if self.added is not None:
            return self.added[:3]
        variables = dict.fromkeys(one.variable for one in self.statements if one.variable)
        lines = dict.fromkeys(one.line for one in self.statements if one.line)
        codes = dict.fromkeys(one.code for one in self.statements if one.code)
        return ", ".join(variables), _lines(lines), "; ".join(codes)


def _lines(lines: Mapping[str, None]) -> str:
    """Lines, with the name of each file once: ``model.py:3, 5``."""
    files: dict[str, list[str]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        files.setdefault(file, []).append(number)
    return ", ".join(f"{file}:{', '.join(numbers)}" for file, numbers in files.items())


class Kernels:
    """The kernels of a compiled call.

    Attributes:
        call: The call.
        words: The variables and statements of its program.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr._compiled.compile_call import compile_call
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> [kernel] = Kernels(compile_call(f, (jnp.ones(50),), {})).every
        >>> [one.code for one in kernel.statements], kernel.times, kernel.bytes
        (['y = jnp.sin(x)', 'return y * 2'], 1, 200)
    """

    def __init__(self, call: CompiledCall) -> None:
        self.call, self.words = call, Attributions(call.program)
        self._merged = merged_products(call)

    @functools.cached_property
    def every(self) -> list[Kernel]:
        """The kernels, in the order of the program."""
        return [self._kernel(one) for one in running(self.call.hlo)]

    def _kernel(self, one: Instruction) -> Kernel:
        hlo = self.call.hlo
        every = self.call.equations(one)
        if not every and not _moves(hlo, one):
            # XLA computes in steps what one equation says, and names the last of them.
            read_by = {self.call.equations(reader) for reader in readers(hlo, (one.name, ()))}
            every = read_by.pop() if len(read_by) == 1 else ()
        # A loop that keeps what an equation in it makes, or a jitted function around it.
        equations = tuple(one for one in every if not any(other.is_in(one) for other in every))
        more = (self._merged.get(inner.name, ()) for inner in hlo.computed(one))
        equations = tuple(dict.fromkeys(itertools.chain(equations, *more)))
        times = times_of(hlo, one)
        size = written(hlo, one) * (1 if times is None else times)
        is_added = not equations and one.operands and _moves(hlo, one)
        added = self._added(one) if is_added else None
        return Kernel(one, equations, self.statements(equations), times, size, added)

    def _added(self, one: Instruction) -> Attribution | None:
        """The purpose of a kernel that XLA has added."""
        what, of = "copy of", self.made(maker(self.call, one))
        if of is None:  # zeros, into which a loop writes
            reading = readers(self.call.hlo, (one.name, ()))
            first = reading[0] if reading else None
            if first and (first.opcode, first.bytes) == ("dynamic-update-slice", one.bytes):
                what, of = "room for", self.made(maker(self.call, first, 1))
        told = of and (of.variable or of.code)
        return of._replace(code=f"{what} {told}") if of and told else None

    def made(self, instruction: Instruction | None) -> Attribution | None:
        """The user's name for an instruction's result, or for an input, if it is known."""
        if instruction is None:
            return None
        equations = self.call.equations(instruction)
        if equations:
            return self.words.of(equations[-1])
        number = self.call.inputs.get(instruction.name)
        return None if number is None else self.words.of(f"in{number}")

    def statements(self, equations: Sequence[Address]) -> tuple[Attribution, ...]:
        """The statements that some equations are of, each once with all variables that it bound."""
        found: dict[tuple[str, str], Attribution] = {}
        for address in equations:
            one = self.words.of(address)
            known = found.setdefault((one.line, one.code or one.variable), one)
            names = (*known.variable.split(", "), *one.variable.split(", "))
            variable = ", ".join(dict.fromkeys(filter(None, names)))
            found[one.line, one.code or one.variable] = known._replace(variable=variable)
        return tuple(found.values())


def _moves(hlo: HloModule, instruction: Instruction) -> bool:
    """Whether an instruction only moves values."""
    return all(
        one.is_fusion
        or one.opcode in (*MOVES, "parameter", "constant", "tuple", "get-tuple-element")
        for one in hlo.computed(instruction)
    )


def running(hlo: HloModule) -> Iterator[Instruction]:
    """The instructions that run by themselves, also in loops and branches, in order."""

    def below(computation: Computation) -> Iterator[Instruction]:
        for one in computation.instructions.values():
            if one.opcode not in _RUNS_NOTHING and not one.opcode.endswith("-done"):
                yield one
            inside = one.calls() if one.opcode in ("call", "async-start") else one.calls(*_CALLED)
            for name in inside:
                yield from below(hlo.computations[name])

    return below(hlo.entry)


def times_of(hlo: HloModule, instruction: Instruction) -> int | None:
    """How often an instruction runs in a call; None where a loop around it goes on as it likes."""
    times, caller = 1, hlo.callers.get(instruction.computation)
    while caller is not None:
        if caller.opcode == "while":
            trips = _TRIPS.search(caller.attributes)
            if trips is None:
                return None
            times *= int(trips[1])
        caller = hlo.callers.get(caller.computation)
    return times


def written(hlo: HloModule, instruction: Instruction) -> int:
    """How many bytes an instruction writes each time; for an update in place, only the part."""
    if instruction.is_fusion:
        return written(hlo, hlo.computations[instruction.calls("calls")[0]].root)
    if instruction.opcode == "dynamic-update-slice":
        return hlo.operand(instruction, 1).bytes
    if instruction.opcode == "bitcast":
        return written(hlo, hlo.operand(instruction, 0))
    if instruction.opcode == "tuple":
        return sum(written(hlo, hlo.instructions[name]) for name in instruction.operands)
    return instruction.bytes
