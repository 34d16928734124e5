"""Where a line goes on after it assigned something, as in a loop whose body is on its line.

Python tells where lines begin. A variable that is assigned twice in one is looked at in between.
"""

from __future__ import annotations

import dis
import functools
import itertools
import types

_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")


@functools.lru_cache(maxsize=4096)
def goes_on(code: types.CodeType) -> frozenset[int]:
    """The offsets of instructions that follow an assignment in the same line.

    None is within a comprehension, whose variables are among those of the function while it runs.
    """
    found: set[int] = set()
    lists: list[dis.Positions] = []
    lines = {one.offset: _position(one).lineno for one in dis.get_instructions(code)}
    for now, then in itertools.pairwise(dis.get_instructions(code)):
        at = _position(then)
        if now.opname == "LOAD_FAST_AND_CLEAR":  # here a comprehension begins
            lists.append(_position(now))
        if not now.opname.startswith(_STORES) or _position(now).lineno != at.lineno:
            continue
        # `a = b = x` and `a, b = x` store all of their variables at once.
        at_once = _only_stores(now.opname) and then.opname.startswith(_STORES)
        # The body of a loop ends with its line where the loop goes back to another one.
        ends = then.opname.startswith("JUMP") and lines.get(then.argval) != at.lineno
        if not (at_once or ends or any(_is_in(one, at) for one in lists)):
            found.add(then.offset)
    return frozenset(found)


def _position(instruction: dis.Instruction) -> dis.Positions:
    return instruction.positions or dis.Positions()


def _only_stores(name: str) -> bool:
    return name in _STORES or name == "STORE_FAST_STORE_FAST"


def _is_in(around: dis.Positions, one: dis.Positions) -> bool:
    """Whether an instruction is of a comprehension; Python can be told to forget columns."""
    if around.end_lineno is None or one.end_lineno is None:
        return around.lineno == one.lineno
    return _begin(around) <= _begin(one) and _end(one) <= _end(around)


def _begin(one: dis.Positions) -> tuple[int, int]:
    return one.lineno or 0, one.col_offset or 0


def _end(one: dis.Positions) -> tuple[int, int]:
    return one.end_lineno or 0, one.end_col_offset or 0
