"""Read the text of an optimized HLO module: computations, instructions, shapes, who calls whom.

``compiled.as_text()`` gives this text: XLA's own form of a program, after all its passes. If
`HloModule.scheduled` is true, the instructions of a computation are in the order of execution.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taxpr._compiled.stamped import stamps_in
from taxpr._errors import RefusedError

_INSTRUCTION = re.compile(r"\s+(?P<root>ROOT )?%?(?P<name>[^\s=]+) = (?P<rest>.+)")
_COMPUTATION = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[^\s(]+) (?:\(.*\) -> .* )?\{$")
_CALLED = re.compile(
    r"\b(calls|body|condition|to_apply|true_computation|false_computation"
    r"|branch_computations|called_computations|async_execution_thread_body)="
    r"(\{[^}]*\}|%?[^\s,]+)"
)
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_ARRAY = re.compile(r"(?P<dtype>[a-z][a-z0-9]*)\[(?P<dims>[^\]]*)\]")
_ALIAS = re.compile(r"\{([\d, ]*)\}: \((\d+), \{[\d, ]*\}, (?:may|must)-alias\)")
_COMMENT = re.compile(r"/\*.*?\*/")
# What moves or names a value, and what computes none.
_MOVES = ("bitcast", "transpose", "copy", "reshape")
_HANDS_ON = ("bitcast", "get-tuple-element")
_UNNAMED = (*_MOVES, "parameter", "constant", "tuple", "get-tuple-element", "while", "conditional")
# A call in the place of what is computed, not a loop or a branch.
_INLINE = ("calls", "to_apply")


class ArrayShape(NamedTuple):
    """An array among the results of an instruction.

    Attributes:
        dtype: XLA's name of its type, such as ``"f32"``.
        dims: Its shape.
        path: Where it is in the result: ``()`` of an array, ``(1,)`` in a tuple.
    """

    dtype: str
    dims: tuple[int, ...]
    path: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Its size, without what a device adds to fill its tiles."""
        bits = re.search(r"\d+", self.dtype)
        width = int(bits[0]) if bits else 8 if self.dtype == "pred" else 0
        return -(-math.prod(self.dims) * width // 8)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of an HLO module.

    Attributes:
        name: Its name, which no other instruction of the module has.
        opcode: Its kind, such as ``"fusion"``.
        shapes: The arrays that it returns: one, or the leaves of a tuple.
        operands: The names of the instructions that it reads.
        number: The position of a ``parameter``, or the index of a ``get-tuple-element``.
        called: The computations that it calls, each with its role: ``("body", "region_1.2")``.
        op_name: Its origin, by JAX; "" if XLA has added it.
        stamps: The numbers in it, see `stamped`: the last one is the equation's.
        attributes: The text behind the operands.
        computation: The name of the computation that it is in.
        literal: The text of a ``constant``, such as ``"0.5"``.

    Example:
        >>> text = '  ROOT %a.1 = f32[2,3]{1,0} add(%x, %y), metadata={op_name="taxpr.7./add"}'
        >>> one = instruction_of(text, "main")
        >>> one.name, one.opcode, one.operands, one.bytes, one.stamps
        ('a.1', 'add', ('x', 'y'), 24, (7,))
    """

    name: str
    opcode: str
    shapes: tuple[ArrayShape, ...]
    operands: tuple[str, ...]
    number: int | None
    called: tuple[tuple[str, str], ...]
    op_name: str
    stamps: tuple[int, ...]
    attributes: str
    computation: str
    literal: str = ""

    @property
    def bytes(self) -> int:
        """The size of all that it returns."""
        return sum(shape.bytes for shape in self.shapes)

    @property
    def is_fusion(self) -> bool:
        """Whether it is a fusion, also one that a GPU starts here and awaits elsewhere."""
        return self.opcode in ("fusion", "fusion-start")

    @property
    def shardings(self) -> list[str]:
        """For each array that it returns how devices divide it, as XLA writes it; "" of wholes."""
        told = self.attributes.partition("metadata={")[0].partition("sharding=")[2]
        text = next(iter(_split(told)), "")
        if not text.startswith("{{"):
            return [text] * len(self.shapes)
        return [one.strip() for one in _split(text[1:-1])]

    def calls(self, *roles: str) -> list[str]:
        """The computations that it calls in some roles, all without them."""
        return [name for role, name in self.called if not roles or role in roles]


@dataclasses.dataclass(frozen=True)
class Computation:
    """A function of an HLO module.

    Attributes:
        name: Its name.
        instructions: Its instructions, by name; in the order of execution, if it is scheduled.
        root: The instruction that is its result.
    """

    name: str
    instructions: dict[str, Instruction]
    root: Instruction

    @functools.cached_property
    def parameters(self) -> list[Instruction]:
        """Its parameters, by position."""
        found = [one for one in self.instructions.values() if one.opcode == "parameter"]
        return sorted(found, key=lambda one: one.number or 0)


@dataclasses.dataclass(frozen=True)
class HloModule:
    """An optimized program.

    Attributes:
        computations: Its functions by name.
        entry: The function that runs.
        scheduled: Whether the text is in the order of execution.
        aliases: The results that take the place of an argument: the path in the result, and the
            number of the parameter.

    Example:
        >>> import jax
        >>> text = jax.jit(lambda x: x * 2).lower(1.0).compile().as_text()
        >>> hlo_module(text).entry.root.bytes
        4
    """

    computations: dict[str, Computation]
    entry: Computation
    scheduled: bool
    aliases: tuple[tuple[tuple[int, ...], int], ...] = ()

    @functools.cached_property
    def instructions(self) -> dict[str, Instruction]:
        """The instructions of all computations by name."""
        return {
            name: one
            for computation in self.computations.values()
            for name, one in computation.instructions.items()
        }

    @functools.cached_property
    def callers(self) -> dict[str, Instruction]:
        """The instruction that calls each computation but the entry, by the computation's name."""
        return {name: one for one in self.instructions.values() for name in one.calls()}

    @functools.cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """The instructions that read each instruction, by its name."""
        found: dict[str, list[Instruction]] = {}
        for one in self.instructions.values():
            for name in dict.fromkeys(one.operands):
                found.setdefault(name, []).append(one)
        return found

    def stamp(self, instruction: Instruction) -> int | None:
        """The number of the equation that an instruction comes from; None for XLA's own.

        If XLA writes an instruction anew, as a convolution in another layout, the name stays at the
        instruction that moves its result back.
        """
        if instruction.stamps:
            return instruction.stamps[-1]
        users = self.users.get(instruction.name, [])
        if instruction.opcode in _UNNAMED or len(users) != 1 or users[0].opcode not in _MOVES:
            return None
        return self.stamp(users[0])

    def unmoved(self, name: str) -> str:
        """The instruction that makes what one of a name hands on."""
        one = self.instructions[name]
        return self.unmoved(one.operands[0]) if one.opcode in _HANDS_ON else name

    def computed(self, instruction: Instruction) -> Iterator[Instruction]:
        """An instruction, and the instructions of its fusion or call."""
        yield instruction
        if instruction.is_fusion or instruction.opcode in ("call", "async-start"):
            for name in instruction.calls(*_INLINE):
                for one in self.computations[name].instructions.values():
                    yield from self.computed(one)

    def operand(self, instruction: Instruction, number: int) -> Instruction:
        """The instruction that is an operand."""
        return self.instructions[instruction.operands[number]]


def hlo_module(text: str) -> HloModule:
    """Parse the text of a module.

    Raises:
        RefusedError: If no computation of it is the entry: XLA writes another form.
    """
    computations: dict[str, Computation] = {}
    entry = name = ""
    lines: list[Instruction] = []
    root: Instruction | None = None
    for line in text.splitlines():
        if name and line.startswith("}"):
            root = root or lines[-1]
            computations[name] = Computation(name, {one.name: one for one in lines}, root)
            name, lines, root = "", [], None
        elif name and (match := _INSTRUCTION.match(line)):
            lines.append(_instruction(match["name"], match["rest"], name))
            root = lines[-1] if match["root"] else root
        elif not name and line.endswith("{") and (match := _COMPUTATION.match(line)):
            name = match["name"]
            entry = name if match["entry"] else entry
    if entry not in computations:
        raise RefusedError(
            "The text of the compiled program has no ENTRY computation, so its instructions cannot "
            f"be read: {text[:80]!r}. Does this backend write HLO? See compiled.as_text()."
        )
    head = text[: text.find("\n")]
    aliases = [
        (tuple(int(k) for k in path.split(",") if k.strip()), int(number))
        for path, number in _ALIAS.findall(head)
    ]
    is_scheduled = "is_scheduled=true" in head
    return HloModule(computations, computations[entry], is_scheduled, tuple(aliases))


def instruction_of(line: str, computation: str) -> Instruction:
    """The instruction that a line of a module says."""
    match = _INSTRUCTION.match(line)
    assert match, "a line of a computation is an instruction"
    return _instruction(match["name"], match["rest"], computation)


def _instruction(name: str, rest: str, computation: str) -> Instruction:
    rest = _COMMENT.sub("", rest)
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    begin = rest.index("(")
    end = _closing(rest, begin)
    opcode, given, attributes = rest[:begin], rest[begin + 1 : end], rest[end + 1 :]
    op_name = _OP_NAME.search(attributes)
    told = attributes.partition("metadata={")[0]
    number = None
    if opcode == "parameter":
        number, given = int(given), ""
    elif opcode == "get-tuple-element" and (index := re.search(r"\bindex=(\d+)", told)):
        number = int(index[1])
    called = [
        (role, one.strip().lstrip("%"))
        for role, names in _CALLED.findall(told)
        for one in names.strip("{}").split(",")
    ]
    return Instruction(
        name,
        opcode,
        tuple(_arrays(shape)),
        () if opcode == "constant" else tuple(_operands(given)),
        number,
        tuple(called),
        op_name[1] if op_name else "",
        tuple(stamps_in(op_name[1])) if op_name else (),
        attributes.lstrip(", "),
        computation,
        given if opcode == "constant" else "",
    )


def _closing(text: str, begin: int) -> int:
    """Where the parenthesis closes that opens at a position."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, begin):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.start()
    raise RefusedError(f"A line of the compiled program cannot be read: {text[:80]!r}.")


def _operands(given: str) -> Iterator[str]:
    """The names of operands; in some versions they come after their types."""
    if "%" in given:
        yield from re.findall(r"%([^\s,(){}]+)", given)
    elif given.strip():
        yield from (one.split()[-1] for one in _split(given))


def _split(text: str) -> list[str]:
    """The parts between commas that are in no bracket."""
    parts, depth, begin = list[str](), 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [one for one in (*parts, text[begin:]) if one.strip()]


def _arrays(shape: str, path: Sequence[int] = ()) -> Iterator[ArrayShape]:
    shape = shape.strip()
    if shape.startswith("("):
        for k, part in enumerate(_split(shape[1:-1])):
            yield from _arrays(part, (*path, k))
    elif match := _ARRAY.match(shape):
        dims = [int(one.lstrip("<=")) for one in match["dims"].split(",") if one.strip()]
        yield ArrayShape(match["dtype"], tuple(dims), tuple(path))
    else:
        yield ArrayShape(shape.partition("[")[0], (), tuple(path))  # a token
