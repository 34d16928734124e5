"""Find where a line goes on after an assignment, as in a loop whose body is on its line.

Python tells where lines begin. A variable that is assigned twice in one is looked at in between.
"""

import dis
import itertools
import types

from taxpr._watching.codes import instructions_of, of_code
from taxpr._watching.comprehensions import own_names, stored

_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")


@of_code
def goes_on(code: types.CodeType) -> frozenset[int]:
    """The offsets of instructions that follow an assignment in the same line.

    Assignments to variables of a comprehension are left out: they are not the function's.
    """
    found: set[int] = set()
    lines = {one.offset: _line(one) for one in instructions_of(code)}
    for now, then in itertools.pairwise(instructions_of(code)):
        line = _line(then)
        if not now.opname.startswith(_STORES) or _line(now) != line:
            continue
        # `a = b = x` and `a, b = x` store all of their variables at once.
        at_once = _only_stores(now.opname) and then.opname.startswith(_STORES)
        # The body of a loop ends with its line where the loop goes back to another one.
        ends = then.opname.startswith("JUMP") and lines.get(then.argval) != line
        names = stored(now)
        own = names and own_names(code, then.offset).issuperset(names)
        if not (at_once or ends or own):
            found.add(then.offset)
    return frozenset(found)


def _line(instruction: dis.Instruction) -> int | None:
    return instruction.positions.lineno if instruction.positions else None


def _only_stores(name: str) -> bool:
    return name in _STORES or name == "STORE_FAST_STORE_FAST"
