"""Keep what is found out about the code of a function, by the code."""

import dis
import functools
import types
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_MOST = 4096  # functions
_last: list[tuple[types.CodeType, tuple[dis.Instruction, ...]]] = []


def of_code(find: Callable[[types.CodeType], T]) -> Callable[[types.CodeType], T]:
    """Remembers results by the code itself: its hash is of all of its instructions."""
    known: dict[int, tuple[types.CodeType, T]] = {}

    @functools.wraps(find)
    def found(code: types.CodeType) -> T:
        if (one := known.get(id(code))) is None:
            if len(known) >= _MOST:
                known.clear()
            one = known[id(code)] = code, find(code)
        return one[1]

    return found


def instructions_of(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """Its instructions; reading them takes long, and several questions about them come at once."""
    for known, instructions in _last:
        if known is code:
            return instructions
    instructions = tuple(dis.get_instructions(code))
    _last[:] = [(code, instructions)]
    return instructions
