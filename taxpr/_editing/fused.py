"""Variables that one instruction binds and reads, as Python 3.13 does in ``h = f(x); return h``.

Nothing can come between the two. So the function is compiled once more with a function inside of it
that reads the variable, too: then Python binds and reads it by an instruction each.
"""

import ast
import types
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from taxpr._editing.exchange import is_generator, made_here, own_code
from taxpr._editing.reached import every_function
from taxpr._editing.recompiled import functions_of, recompiled, spliced
from taxpr._errors import RefusedError
from taxpr._source.parsed import Position, codes_in, parsed_of, position_of


class FunctionVariable(NamedTuple):
    """A variable of a function."""

    file: str
    function: str
    first: int
    name: str

    def is_of(self, code: types.CodeType) -> bool:
        """Whether it is a variable of this function."""
        return (code.co_filename, code.co_qualname, code.co_firstlineno) == self[:3]


class FusedError(RefusedError):
    """Raised where one instruction binds and reads a variable."""

    def __init__(self, text: str, places: Iterable[FunctionVariable]) -> None:
        super().__init__(text)
        self.places = tuple(places)


def functions_with(places: Iterable[FunctionVariable]) -> Iterator[types.FunctionType]:
    """All functions that have one of these variables, or a function in them has."""
    places = list(places)
    for one in every_function() if places else ():
        if one in made_here or is_generator(one):
            continue
        if any(place.is_of(code) for code in codes_in(own_code(one)) for place in places):
            yield one


def set_apart(now: types.FunctionType, places: Iterable[FunctionVariable]) -> types.FunctionType:
    """The same function; it binds and reads these variables by an instruction each.

    Args:
        now: A function.
        places: The variables; other functions may have some of them.

    Returns:
        Another function; the same one where its source is not there.
    """
    before = parsed_of(now.__code__)
    if before is None:
        return now
    names: dict[Position, list[str]] = {}  # by the ends of functions
    for place in places:
        for code in filter(place.is_of, codes_in(now.__code__)):
            for node in functions_of(before, code):
                names.setdefault(_end(node), []).append(place.name)
    lines = before.lines
    for end in sorted(names, reverse=True):
        lines = spliced(lines, end, f"; lambda: ({', '.join(names[end])})")
    return recompiled(now, before, lines, before.lines) or now  # quoted as it was written


def _end(node: ast.AST) -> Position:
    """Where the last simple statement in another one ends."""
    inner = [
        one
        for _, value in ast.iter_fields(node)
        for one in (cast("list[ast.AST]", value) if isinstance(value, list) else ())
        if isinstance(one, ast.stmt | ast.ExceptHandler | ast.match_case)
    ]
    if inner:
        return _end(inner[-1])
    at = position_of(node)
    assert at is not None
    return Position(at.end_line, at.end_column, at.end_line, at.end_column)
