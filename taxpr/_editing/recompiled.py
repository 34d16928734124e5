"""Functions whose code is compiled from another text with the same numbers of lines."""

import ast
import types
from collections.abc import Iterator, Sequence

from taxpr._editing.exchange import with_code
from taxpr._source.parsed import Parsed, Position, parsed_text, remember

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


def recompiled(
    now: types.FunctionType,
    before: Parsed,
    lines: Sequence[str],
    shown: Sequence[str] | None = None,
) -> types.FunctionType | None:
    """A function as another text has it.

    Args:
        now: The function.
        before: The text that it was made of.
        lines: The other text.
        shown: The lines that answers quote; the other text if none are given.

    Returns:
        Another function; None if Python cannot compile the text.

    Raises:
        KeyError: If it reads variables of functions around it that ``now`` does not.
    """
    after = parsed_text("\n".join(lines), now.__code__.co_filename)
    found = after.made_like(now.__code__, before) if after else None
    if after is None or found is None:
        return None
    if shown is not None:
        after.lines = list(shown)
    remember(found, after, before)
    return with_code(now, found)


def functions_of(parsed: Parsed, code: types.CodeType) -> Iterator[AnyFunction]:
    """The function in a text that has some code."""
    for node in ast.walk(parsed.tree):
        if not isinstance(node, AnyFunction) or node.name != code.co_name:
            continue
        if code.co_firstlineno in range(_first(node), node.lineno + 1):
            yield node


def _first(function: AnyFunction) -> int:
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def spliced(lines: Sequence[str], position: Position, new: str) -> list[str]:
    """The lines with a part replaced by one line; their number stays."""
    first, last = lines[position.line - 1], lines[position.end_line - 1]
    left = first.encode()[: position.column].decode()
    right = last.encode()[position.end_column :].decode()
    more = [""] * (position.end_line - position.line)
    return [*lines[: position.line - 1], left + new + right, *more, *lines[position.end_line :]]
