"""Read XLA's buffer assignment: which value lies where in which allocation.

It comes as a protocol buffer, of which these few fields are read by hand (`xla/service/hlo.proto`:
`BufferAssignmentProto`), so that no library for such messages is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# The numbers of fields, from xla/service/hlo.proto.
_LOGICAL, _ALLOCATIONS = 1, 3
_ID, _DEFINED_AT = 1, 3
_SHAPE_INDEX, _INSTRUCTION_ID = 3, 4
_INDEX, _SIZE, _THREAD_LOCAL, _PARAMETER, _PARAMETER_NUMBER, _LIVE_OUT = 1, 2, 3, 5, 6, 7
_ASSIGNED, _CONSTANT = 9, 12
_BUFFER, _OFFSET, _LENGTH = 1, 2, 3
_COMPUTATIONS, _INSTRUCTIONS, _NAME, _INSTRUCTION_NUMBER = 3, 2, 1, 35

# A leaf of what an instruction returns: its name, and the path in a tuple.
Defined = tuple[str, tuple[int, ...]]


class Allocation(NamedTuple):
    """A piece of memory that XLA allocates for a call.

    Attributes:
        number: Its number.
        size: In bytes.
        kind: ``"argument"``, ``"result"``, ``"temporary"``, or ``"other"``: constants, and what
            threads have on their stacks, which are no part of the total.
        parameter: The number of the parameter of an argument; None of others.
    """

    number: int
    size: int
    kind: str
    parameter: int | None


class BufferPlace(NamedTuple):
    """Where a value lies: a range of bytes of an allocation."""

    allocation: Allocation
    offset: int
    size: int


def assignment(executable: Any) -> dict[Defined, BufferPlace] | None:
    """The place of each value of a compiled program, by the instruction that makes it.

    None where the backend does not say it.
    """
    stats = executable.memory_analysis()
    given = getattr(stats, "serialized_buffer_assignment_proto", b"")
    modules = executable.runtime_executable().hlo_modules()
    if not given or len(modules) != 1:
        return None
    names = _names(modules[0].as_serialized_hlo_module_proto())
    message = _fields(given)
    defined: dict[int, Defined] = {}
    for one in map(_fields, message.get(_LOGICAL, ())):
        at = _fields(one[_DEFINED_AT][0])
        name = names.get(_number(at, _INSTRUCTION_ID))
        if name is not None:
            defined[_number(one, _ID)] = name, _packed(at.get(_SHAPE_INDEX, ()))
    places: dict[Defined, BufferPlace] = {}
    for one in map(_fields, message.get(_ALLOCATIONS, ())):
        allocation = _allocation(one)
        for held in map(_fields, one.get(_ASSIGNED, ())):
            if (value := defined.get(_number(held, _BUFFER))) is not None:
                offset, size = _number(held, _OFFSET), _number(held, _LENGTH)
                places[value] = BufferPlace(allocation, offset, size)
    return places


def _allocation(fields: dict[int, list[Any]]) -> Allocation:
    is_result, is_argument = bool(_number(fields, _LIVE_OUT)), bool(_number(fields, _PARAMETER))
    kind = "argument" if is_argument else "result" if is_result else "temporary"
    if _number(fields, _THREAD_LOCAL) or _number(fields, _CONSTANT):
        kind = "other"
    parameter = _number(fields, _PARAMETER_NUMBER) if is_argument else None
    return Allocation(_number(fields, _INDEX), _number(fields, _SIZE), kind, parameter)


def _names(module: bytes) -> dict[int, str]:
    """The names of the instructions of a module, by their ids."""
    return {
        _number(one, _INSTRUCTION_NUMBER): one[_NAME][0].decode()
        for computation in map(_fields, _fields(module).get(_COMPUTATIONS, ()))
        for one in map(_fields, computation.get(_INSTRUCTIONS, ()))
    }


def _number(fields: dict[int, list[Any]], field: int) -> int:
    """An integer field, which is left out where it is 0."""
    return fields[field][0] if field in fields else 0


def _packed(values: Any) -> tuple[int, ...]:
    """A repeated field of integers, packed or not."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(number)
    return tuple(found)


def _fields(message: bytes) -> dict[int, list[Any]]:
    """The fields of a message by their numbers: integers, and bytes of all that is longer."""
    found: dict[int, list[Any]] = {}
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
        else:
            length, at = _varint(message, at) if kind == 2 else (8 if kind == 1 else 4, at)
            value, at = message[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """An integer in groups of seven bits, and where the next field begins."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
