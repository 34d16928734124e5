"""Statements of a function that make no equations, but explain the ones that do."""

import ast
import functools
import linecache
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from taxpr import introspect
from taxpr_jupyter._closed.listed import StatementWords

_PARAMETERS = frozenset({"get_parameter", "param"})  # of a module, by haiku and by flax


def completed(
    said: Sequence[StatementWords], frames: Iterable[introspect.Statement], ends: bool
) -> list[StatementWords]:
    """Statements of a function, with those besides that compute nothing.

    Lines that define a function or take a parameter of a module, `cost = lambda x: x**2` and
    `slope = jax.grad(cost)`, are in front of the first statement that uses it. Last is the
    `return`, if the function has one only and returns more than variables.

    Args:
        said: The statements.
        frames: The function's statements that have made equations.
        ends: Whether the function ends with them.
    """
    made = {(frame.file, frame.begins): frame.text for frame in frames}
    places = {frame.place for frame in frames}
    every = [*said]
    if len(made) != 1 or not all(made.values()):
        return every
    [(file, line)] = made
    node = function_at(file, line)
    for target, use, one in reversed([*_definitions(node)] if node else []):
        k = next((k for k, other in enumerate(every) if use.search(other.source)), None)
        if k is not None and _place(one) not in places:
            every.insert(k, _words(one, file, (target,)))
    last = _result(node) if node and ends else None
    if last and _place(last) not in places:
        every.append(_words(last, file)._replace(result=True))
    return every


def _definitions(node: ast.FunctionDef) -> Iterator[tuple[str, re.Pattern[str], ast.stmt]]:
    """The variables that hold a function or parameter, each with how a text that uses it looks."""
    parts = [*_in_function(node)]
    times = Counter(
        part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    )
    for one in node.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                use = rf"\b{name}\b"
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr=called))
            ):
                use = rf"\b{name}\b" if called in _PARAMETERS else rf"\b{name}\("
            case _:
                continue
        if times[name] == 1:
            yield name, re.compile(use), one


def _result(node: ast.FunctionDef) -> ast.Return | None:
    """The `return` of a function; None if it has several, or one of nothing but variables."""
    last = node.body[-1]
    returns = [one for one in _in_function(node) if isinstance(one, ast.Return)]
    if not isinstance(last, ast.Return) or returns != [last] or _is_plain(last.value):
        return None
    return last


def _is_plain(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Tuple):
        return all(map(_is_plain, value.elts))
    return value is None or isinstance(value, ast.Name)


def _in_function(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function; inner functions have their own."""
    for part in ast.iter_child_nodes(node):
        yield part
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _in_function(part)


def _words(node: ast.stmt, file: str, targets: tuple[str, ...] = ()) -> StatementWords:
    is_short = node.lineno == node.end_lineno
    text = (is_short and ast.get_source_segment(source_of(file), node)) or ast.unparse(node)
    return StatementWords(targets, source=text, place=_place(node))


def _place(node: ast.stmt) -> tuple[int, ...]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def function_at(file: str, line: int) -> ast.FunctionDef | None:
    """The function of a file that begins in a line, or whose first decorator does."""
    return _functions(source_of(file)).get(line)


@functools.lru_cache(maxsize=64)
def _functions(text: str) -> Mapping[int, ast.FunctionDef]:
    return {
        min([node.lineno, *(one.lineno for one in node.decorator_list)]): node
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.FunctionDef)
    }


@functools.lru_cache(maxsize=64)
def tree_of(text: str) -> ast.Module:
    """The tree of a file's text; an empty one if it is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def source_of(file: str) -> str:
    """The text of a file; "" if it is not there."""
    return "".join(linecache.getlines(file))
