"""The lines of the source that can be typed over: ``x = <expression>``, ``return <expression>``."""

from __future__ import annotations

import ast
import dataclasses
import functools
import linecache
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from taxpr import introspect

_NOTHING = ast.Name("_")
_MAGIC = re.compile(r"^(\s*)[%!?].*$", re.MULTILINE)  # lines of a cell that are no Python


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A statement ``x = <expression>`` or ``return <expression>`` in a function.

    Attributes:
        file: The file, or Python's name of a cell.
        function: The functions and classes around it, such as ``"Net.__call__"``.
        name: A variable that it binds; ``"return"`` if it returns.
        head: The text before the right-hand side, such as ``"x = "``.
        text: The right-hand side, which is an expression.
        start: Line and column, from 1 and 0, where the right-hand side begins.
        stop: The end of it.
        line: The line of the statement.
        names: All variables that it binds.
        alone: Whether no other statement of the function binds ``name``.
        source: The whole text that it is in.
    """

    file: str
    function: str
    name: str
    head: str
    text: str
    start: tuple[int, int]
    stop: tuple[int, int]
    line: int
    names: tuple[str, ...] = ()
    alone: bool = True
    source: str = dataclasses.field(default="", repr=False, compare=False)

    @property
    def variable(self) -> str:
        """The variable with its function, as `taxpr.var` takes it."""
        return f"{self.function}.{self.name}"

    def says(self, text: str) -> bool:
        """Whether a right-hand side is the one in the source, maybe spaced in another way."""
        return text == self.text or _tree(text) == _tree(self.text)

    @property
    def place(self) -> str:
        """The line, as `Session.line` takes it."""
        return f"{introspect.file_text(self.file)}:{self.line}"


def assignments(file: str) -> Mapping[int, Assignment]:
    """The statements in the functions of a file that can be typed over, by their lines.

    A line with two of them is left out.

    Args:
        file: A file, or Python's name of a cell.
    """
    return _assignments(file, "".join(linecache.getlines(file)))


@functools.lru_cache(64)
def _assignments(file: str, source: str) -> Mapping[int, Assignment]:
    python = _MAGIC.sub(lambda found: f"{found[1]}pass", source)
    try:
        tree = ast.parse(python)
    except (SyntaxError, ValueError):
        return {}
    found = list(_within(file, python, tree, ()))
    lines = [one.line for one in found]
    binds = Counter((one.function, name) for one in found for name in set(one.names))
    return {
        one.line: dataclasses.replace(one, alone=binds[one.function, one.name] == 1, source=source)
        for one in found
        if lines.count(one.line) == 1
    }


def _within(
    file: str, source: str, node: ast.AST, around: tuple[ast.AST, ...]
) -> Iterator[Assignment]:
    """The assignments in a node, which is in functions and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _within(file, source, child, (*around, child))
            continue
        match child:
            case ast.Assign(targets=targets, value=value):
                head = "".join(f"{_target(one)} = " for one in targets)
            case ast.AugAssign(target=target, value=value):
                targets = [target]
                head = f"{ast.unparse(ast.AugAssign(target, child.op, _NOTHING))[:-1]}"
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
                head = f"{ast.unparse(target)}: {ast.unparse(child.annotation)} = "
            case ast.Return(value=ast.expr() as value):
                targets, head = [], "return "
            case _:
                yield from _within(file, source, child, around)
                continue
        text = ast.get_source_segment(source, value)
        names = [
            one.id
            for target in targets
            for one in ast.walk(target)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        ]
        names = names if targets else ["return"]
        if not around or isinstance(around[-1], ast.ClassDef) or not text or not names:
            continue
        lines, end = source.split("\n"), value.end_lineno or value.lineno
        yield Assignment(
            file,
            ".".join(getattr(one, "name", "") for one in around),
            names[0],
            head,
            text,
            (value.lineno, _column(lines[value.lineno - 1], value.col_offset)),
            (end, _column(lines[end - 1], value.end_col_offset or 0)),
            child.lineno,
            tuple(names),
        )


def in_one_line(text: str) -> str:
    """A right-hand side as a field for one line takes it."""
    return ast.unparse(ast.parse(f"({text}\n)")) if "\n" in text else text


def _tree(text: str) -> str:
    return ast.dump(ast.parse(f"({text}\n)"))


def _target(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) and len(node.elts) > 1 else text


def _column(line: str, offset: int) -> int:
    """The column of a byte; `ast` counts bytes."""
    return len(line.encode()[:offset].decode())
