"""The syntax tree of the user's code, only if it is sure that both agree.

A file may have been edited since it was imported, and a decorator or an import hook may have
rewritten a function. So the file's text is compiled once more (nothing is run), and a function is
looked up in its tree only if the text gives the same instructions at the same places. So are the
cells of a file of marimo, each by itself.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import warnings
import weakref
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from taxpr._source.marimo_cells import marimo_cells

_CELL_MAGIC = re.compile(r"\A(\s*)%%.*")  # as `%%taxpr`, which runs the lines below it as Python


class Position(NamedTuple):
    """A part of a file, as Python counts: lines from 1, columns in bytes of UTF-8 from 0."""

    line: int
    column: int
    end_line: int
    end_column: int

    def holds(self, other: Position) -> bool:
        """Whether the other part is in this one."""
        return self[:2] <= other[:2] and other[2:] <= self[2:]


def position_of(node: ast.AST) -> Position | None:
    """The place of a node of a syntax tree; None for a node without one, as `ast.Load`."""
    if not isinstance(node, ast.stmt | ast.expr | ast.keyword | ast.arg | ast.pattern):
        return None
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Position(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


class Parsed:
    """A file that Python can parse.

    Attributes:
        tree: Its syntax tree.
        lines: Its lines.

    Example:
        >>> from taxpr.introspect import Parsed
        >>> parsed = Parsed("y = x * 2", "model.py")
        >>> parsed.text_of(parsed.tree.body[0].value)
        'x * 2'
    """

    def __init__(self, text: str, file: str) -> None:
        with warnings.catch_warnings():  # those of its author came when it was imported
            warnings.simplefilter("ignore")
            python = _CELL_MAGIC.sub(r"\1", text)
            self.tree = ast.parse(python, file)
            whole = compile(python, file, "exec", dont_inherit=True)
        self.lines = text.split("\n")  # as Python counts: a form feed ends no line
        self._file = file
        self._codes = _by_name([whole])

    def text_of(self, node: ast.AST) -> str:
        """The source of a node; on several lines, or with a comment in it, as Python writes it."""
        place = position_of(node)
        if place is not None and place.line == place.end_line:
            line = self.lines[place.line - 1].encode()
            return line[place.column : place.end_column].decode()
        return " ".join(ast.unparse(node).split("\n"))

    def explains(self, code: CodeType) -> bool:
        """Whether the code was made from this text."""
        key = code.co_qualname, code.co_firstlineno
        every = (codes.get(key, ()) for codes in self._each_way())
        return any(_same(code, other) for found in every for other in found)

    def made_like(self, code: CodeType, before: Parsed) -> CodeType | None:
        """The code that this text gives in place of a code that ``before`` gives, or None.

        Args:
            code: The code.
            before: The other text, with as many lines.
        """
        key = code.co_qualname, code.co_firstlineno
        for own, theirs in zip(self._each_way(), before._each_way(), strict=True):
            if any(_same(code, other) for other in theirs.get(key, ())):
                return next(iter(own.get(key, ())), None)
        return None

    def _each_way(self) -> Iterator[dict[tuple[str, int], list[CodeType]]]:
        yield self._codes
        yield self._codes_alone

    @functools.cached_property
    def _codes_alone(self) -> dict[tuple[str, int], list[CodeType]]:
        """Those of each statement compiled alone, as IPython does.

        Python calls ``jnp.tanh`` by other instructions where it sees that ``jnp`` is imported.
        """
        alone = (ast.Module([statement], []) for statement in self.tree.body)
        return _by_name([compile(one, self._file, "exec", dont_inherit=True) for one in alone])

    def around(self, position: Position) -> list[ast.AST]:
        """The nodes of the tree that hold a position, outermost first."""
        chain: list[ast.AST] = []
        nodes: list[ast.AST] = [self.tree]
        while nodes:
            node = nodes.pop()
            own = position_of(node)
            if own is not None:
                if not own.holds(position):
                    continue
                chain.append(node)
                nodes = []  # its neighbours do not hold the position
            nodes += reversed(list(ast.iter_child_nodes(node)))
        return chain


def functions_around(parsed: Parsed, code: CodeType) -> range:
    """The lines of the outermost function or class that holds some code."""
    for node in parsed.tree.body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        if first <= code.co_firstlineno <= (node.end_lineno or first):
            return range(first, (node.end_lineno or first) + 1)
    return range(0)


def parsed_of(code: CodeType) -> Parsed | None:
    """The file of some code; None where it is not there, or says something else than the code."""
    if (known := _another.get(code)) is not None:
        return known
    file = code.co_filename
    if not file.startswith("<"):
        linecache.checkcache(file)
    lines = linecache.getlines(file)
    found = parsed_text("".join(lines), file) if lines else None
    if found is None or found.explains(code):
        return found
    cells = (parsed_text(text, file) for text in marimo_cells(found.tree, found.lines))
    return next((cell for cell in cells if cell and cell.explains(code)), None)


# For code that was made of another text than its file has, that text.
_another: weakref.WeakKeyDictionary[CodeType, Parsed] = weakref.WeakKeyDictionary()


def another_text(code: CodeType) -> Parsed | None:
    """The text of code that was made of another one than its file has; None of other code."""
    return _another.get(code)


def remember(code: CodeType, parsed: Parsed, before: Parsed) -> None:
    """Keep the text of code that was made of another one than its file has."""
    for one in codes_in(code):
        if not before.explains(one):
            _another[one] = parsed


@functools.lru_cache(maxsize=64)
def parsed_text(text: str, file: str) -> Parsed | None:
    """The text of a file; None where Python cannot parse it."""
    try:
        return Parsed(text, file)
    except (SyntaxError, ValueError, RecursionError):  # not Python's, or not of this Python
        return None


_COMPARED = ("co_code", "co_linetable", "co_names", "co_varnames", "co_freevars", "co_cellvars")


def _same(code: CodeType, other: CodeType) -> bool:
    """Whether two code objects do the same at the same places."""
    if any(getattr(code, name) != getattr(other, name) for name in _COMPARED):
        return False
    return len(code.co_consts) == len(other.co_consts) and all(
        _same(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else repr(a) == repr(b)
        for a, b in zip(code.co_consts, other.co_consts, strict=True)
    )


def _by_name(codes: list[CodeType]) -> dict[tuple[str, int], list[CodeType]]:
    found: dict[tuple[str, int], list[CodeType]] = {}
    for whole in codes:
        for code in codes_in(whole):
            found.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
    return found


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Some code, and the functions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes_in(const)
