"""Read XLA's buffer assignment: the place of each value in an allocation.

It comes as a protocol buffer. This module reads the few fields that it needs by hand
(`xla/service/hlo.proto`: `BufferAssignmentProto`), so it needs no library for such messages.
"""

from typing import Any, NamedTuple

from taxpr._compiled.compile_call import CompiledCall

# The numbers of fields, from xla/service/hlo.proto.
_LOGICAL, _ALLOCATIONS = 1, 3
_ID, _DEFINED_AT = 1, 3
_SHAPE_INDEX, _INSTRUCTION_ID = 3, 4
_INDEX, _SIZE, _THREAD_LOCAL, _PARAMETER, _PARAMETER_NUMBER, _LIVE_OUT = 1, 2, 3, 5, 6, 7
_ASSIGNED, _CONSTANT = 9, 12
_BUFFER, _OFFSET, _LENGTH = 1, 2, 3
_COMPUTATIONS, _INSTRUCTIONS, _NAME, _INSTRUCTION_NUMBER = 3, 2, 1, 35
_COMPUTATION_NUMBER, _ROOT, _OPCODE, _CALLED = 5, 6, 2, 38
# Of `HloProto`, which XLA writes into files.
_MODULE, _ASSIGNMENT = 1, 3

# A leaf of what an instruction returns: its name, and the path in a tuple.
Defined = tuple[str, tuple[int, ...]]


class Allocation(NamedTuple):
    """A piece of memory that XLA allocates for a call.

    Attributes:
        number: Its number.
        size: In bytes.
        kind: ``"argument"``, ``"result"``, ``"temporary"``, or ``"other"``: constants and the
            stacks of threads, which are no part of the total.
        parameter: The number of the parameter of an argument; else None.
    """

    number: int
    size: int
    kind: str
    parameter: int | None


class BufferPlace(NamedTuple):
    """The place of a value: a range of bytes of an allocation."""

    allocation: Allocation
    offset: int
    size: int


def assignment(call: CompiledCall) -> dict[Defined, BufferPlace] | None:
    """The place of each value of a compiled program, by the instruction that makes it.

    None where the backend does not say it.
    """
    found = _messages(call)
    if found is None:
        return None
    module, given = found
    made_by = _made_by(module)
    message = _fields(given)
    defined: dict[int, Defined] = {}
    for one in map(_fields, message.get(_LOGICAL, ())):
        at = _fields(one[_DEFINED_AT][0])
        maker = made_by.get(_number(at, _INSTRUCTION_ID))
        if maker is not None:
            name, path = maker
            defined[_number(one, _ID)] = name, (*path, *_packed(at.get(_SHAPE_INDEX, ())))
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


def _messages(call: CompiledCall) -> tuple[bytes, bytes] | None:
    """The module and the assignment of a call, as messages."""
    stats = call.executable.memory_analysis()
    modules = call.executable.runtime_executable().hlo_modules()
    given = getattr(stats, "serialized_buffer_assignment_proto", b"")
    if given and len(modules) == 1:
        return modules[0].as_serialized_hlo_module_proto(), given
    message = _fields(call.plan)
    if _MODULE in message and _ASSIGNMENT in message:
        return message[_MODULE][0], message[_ASSIGNMENT][0]
    return None


def _made_by(module: bytes) -> dict[int, Defined]:
    """The instructions of a module by their ids.

    The text of a module leaves out the computation of an ``async-start``. So its result is told as
    the part of the start that follows the operands.
    """
    computations = [_fields(one) for one in _fields(module).get(_COMPUTATIONS, ())]
    roots = {_number(one, _COMPUTATION_NUMBER): _number(one, _ROOT) for one in computations}
    found: dict[int, Defined] = {}
    started: dict[int, Defined] = {}
    for computation in computations:
        for one in map(_fields, computation.get(_INSTRUCTIONS, ())):
            name = one[_NAME][0].decode()
            found[_number(one, _INSTRUCTION_NUMBER)] = name, ()
            if one[_OPCODE][0] == b"async-start":
                started |= {roots[k]: (name, (1,)) for k in _packed(one.get(_CALLED, ()))}
    return found | started


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
