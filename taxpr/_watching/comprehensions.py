"""Which variables are a comprehension's own, while the function around it runs.

A comprehension of a list, set or dict has variables of its own. Up to Python 3.11 it is a function
with a frame. From 3.12 it runs in the frame of the function around it: variables of that which have
the same names are put aside until it ends.
"""

import dis
import itertools
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

from taxpr._watching.codes import instructions_of, of_code

_CODES = {"<listcomp>", "<setcomp>", "<dictcomp>"}
_NONE: frozenset[str] = frozenset()


class _CodeSpan(NamedTuple):
    """The offsets between which a variable of a function is put aside."""

    name: str
    start: int
    stop: int


def is_comprehension(code: types.CodeType) -> bool:
    """Whether it is the code of a comprehension that has a frame of its own."""
    return code.co_name in _CODES


def function_of(frame: types.FrameType) -> types.FrameType:
    """The frame of the function around a comprehension; any other frame itself."""
    while is_comprehension(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def own_names(code: types.CodeType, offset: int) -> frozenset[str]:
    """The variables that are a comprehension's own before the instruction at an offset runs.

    Variables of assignment expressions in it are not its own.
    """
    if is_comprehension(code):
        return frozenset(code.co_varnames + code.co_cellvars)
    spans = _spans(code)
    return frozenset(s.name for s in spans if s.start < offset <= s.stop) if spans else _NONE


def stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction stores."""
    if not instruction.opname.startswith(("STORE_FAST", "STORE_DEREF", "STORE_NAME")):
        return ()
    names: Any = instruction.argval
    if isinstance(names, str):
        return (names,)
    # Python 3.13 has instructions that store two, and such that store one and load another.
    return tuple(names) if instruction.opname == "STORE_FAST_STORE_FAST" else tuple(names[:1])


@of_code
def _spans(code: types.CodeType) -> tuple[_CodeSpan, ...]:
    if "LOAD_FAST_AND_CLEAR" not in dis.opmap:
        return ()
    found: list[_CodeSpan] = []
    instructions = instructions_of(code)
    untyped: Any = dis.Bytecode(code)
    handlers = untyped.exception_entries
    for k, one in enumerate(instructions):
        if one.opname != "LOAD_FAST_AND_CLEAR":
            continue
        rest = instructions[k + 1 :]
        # Its first iterable is evaluated before, so this is its own loop, then come the stores that
        # give the variables back.
        loop = next((then for then in rest if then.opname == "FOR_ITER"), None)
        if loop is None:  # an asynchronous one
            continue
        found.append(_CodeSpan(one.argval, one.offset, _given_back(one.argval, rest, loop.argval)))
        # Where an error ends it, or one in it, they are given back elsewhere.
        for target in {e.target for e in handlers if one.offset < e.start < loop.argval}:
            end = _given_back(one.argval, instructions, target)
            found.append(_CodeSpan(one.argval, target - 1, end))
    return tuple(found)


def _given_back(name: str, instructions: Sequence[dis.Instruction], start: int) -> int:
    """The offset of the first instruction from some offset on that stores a variable."""
    after = itertools.dropwhile(lambda one: one.offset < start, instructions)
    return next((one.offset for one in after if name in stored(one)), start)
