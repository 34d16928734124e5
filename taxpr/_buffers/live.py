"""Find when each value of a scheduled HLO module is alive, and the peak of their bytes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

from taxpr._buffers.assignment import BufferPlace, Defined
from taxpr._compiled.hlo import Computation, HloModule, Instruction

# What hands on its operands and computes nothing.
_ALIASES = ("bitcast", "tuple", "get-tuple-element", "opt-barrier")


@dataclasses.dataclass(eq=False)
class Interval:
    """The life of a value, from the instruction that makes it to its last reader.

    Attributes:
        defined: The instruction, and which part of its result.
        begin: When it is made, by the number of the instruction; a loop's body counts once.
        end: When it is read last.
        reader: The instruction that reads it last; "" for a result.
        becomes: The values that a loop writes in its place.
    """

    defined: Defined
    begin: int
    end: int
    reader: str = ""
    becomes: set[Interval] = dataclasses.field(default_factory=set["Interval"])


# For each leaf of a result the values that may be there: several after a branch or a loop.
_Leaves = list[set[Interval]]


class Schedule:
    """The life of all values of a module.

    Args:
        module: The module, which is scheduled.
        is_value: Whether XLA has a buffer for an instruction's result; otherwise the result is the
            operand by another name.

    Attributes:
        intervals: The values.
        times: When each instruction runs, by its name; for a loop, its end.
        loops: For each loop its name, when it begins, and when it ends.
        order: The instruction that runs at each time, from the first on.
    """

    def __init__(self, module: HloModule, is_value: Callable[[Defined], bool]) -> None:
        self._module, self._is_value = module, is_value
        self.intervals: list[Interval] = []
        self.times: dict[str, int] = {}
        self.loops: list[tuple[str, int, int]] = []
        self.order: list[str] = []
        parameters = [self._new(one) for one in module.entry.parameters]
        for leaves in (*parameters, self._run(module.entry, parameters)):
            self._read(leaves)  # arguments and results are there to the end

    @property
    def length(self) -> int:
        """The number of instructions that have run."""
        return len(self.order)

    def _run(self, computation: Computation, given: Sequence[_Leaves]) -> _Leaves:
        """Run all instructions of a computation, and return its result."""
        values: dict[str, _Leaves] = {}
        for one in computation.instructions.values():
            self.order.append(one.name)
            operands = [values[name] for name in one.operands if name in values]
            values[one.name] = self._result(one, operands, given)
            self.times[one.name] = self.length
        root = values[computation.root.name]
        self._read(root)
        return root

    def _result(
        self, one: Instruction, operands: list[_Leaves], given: Sequence[_Leaves]
    ) -> _Leaves:
        if one.opcode == "parameter":
            number = one.number or 0
            return given[number] if number < len(given) else self._new(one)
        if one.opcode == "tuple":
            return [leaf for leaves in operands for leaf in leaves]
        if one.opcode == "get-tuple-element":
            shapes = self._module.operand(one, 0).shapes
            pairs = zip(shapes, operands[0], strict=True)
            return [leaf for shape, leaf in pairs if shape.path[:1] == (one.number,)]
        if one.opcode in _ALIASES and len(operands[0]) == len(one.shapes):
            return operands[0]
        if one.opcode.endswith("-done") and len(self._module.operand(one, 0).shapes) > 1:
            return self._awaited(one, operands[0])
        for leaves in operands:
            self._read(leaves, one.name)
        if one.opcode == "while":
            return self._loop(one, operands[0])
        if one.opcode == "conditional":
            return self._branches(one, operands)
        if one.opcode == "call":
            return self._run(self._module.computations[one.calls()[0]], operands)
        return self._new(one, operands)

    def _awaited(self, one: Instruction, started: _Leaves) -> _Leaves:
        """The result of an instruction that was started: its operands are free now."""
        self._read(started, one.name)
        number = 0 if one.opcode == "copy-done" else 1
        pairs = zip(self._module.operand(one, 0).shapes, started, strict=True)
        return [leaf for shape, leaf in pairs if shape.path[:1] == (number,)]

    def _loop(self, one: Instruction, carry: _Leaves) -> _Leaves:
        begin = self.length
        self._run(self._module.computations[one.calls("condition")[0]], [carry])
        after = self._run(self._module.computations[one.calls("body")[0]], [carry])
        self.order.append(one.name)
        self.loops.append((one.name, begin, self.length))
        self._read(after)
        for before, later in zip(carry, after, strict=True):
            for value in before:
                value.becomes |= later - before
        return after

    def _branches(self, one: Instruction, operands: list[_Leaves]) -> _Leaves:
        found: _Leaves = [set[Interval]() for _ in one.shapes]
        for k, name in enumerate(one.calls()):
            result = self._run(self._module.computations[name], operands[k + 1 : k + 2])
            for leaf, more in zip(found, result, strict=True):
                leaf |= more
        self.order.append(one.name)
        return found

    def _new(self, one: Instruction, operands: Sequence[_Leaves] = ()) -> _Leaves:
        leaves: _Leaves = []
        for shape in one.shapes:
            defined = one.name, shape.path
            if operands and not self._is_value(defined):
                leaves.append({value for of in operands for leaf in of for value in leaf})
                continue
            interval = Interval(defined, self.length, self.length)
            self.intervals.append(interval)
            leaves.append({interval})
        return leaves

    def _read(self, leaves: _Leaves, reader: str = "") -> None:
        for leaf in leaves:
            for value in leaf:
                value.end = self.length
                value.reader = reader or value.reader


def bytes_over_time(
    intervals: Sequence[Interval], place_of: Callable[[Interval], BufferPlace], length: int
) -> list[int]:
    """The bytes that are taken at each time; what lies in one place is counted once."""
    begins: list[list[BufferPlace]] = [[] for _ in range(length + 2)]
    ends: list[list[BufferPlace]] = [[] for _ in range(length + 2)]
    for one in intervals:
        place = place_of(one)
        begins[one.begin].append(place)
        ends[one.end + 1].append(place)
    taken: Counter[BufferPlace] = Counter()
    line: list[int] = []
    now = 0
    for begun, ended in zip(begins, ends, strict=True):
        for place in ended:
            taken[place] -= 1
            now -= 0 if taken[place] else place.size
        for place in begun:
            now += 0 if taken[place] else place.size
            taken[place] += 1
        line.append(now)
    return line[: length + 1]
