"""Find uses of a variable in a function's source that do not compute with its value.

The function asks for its shape, or hands it to another function.
"""

import ast
import functools
import linecache
from collections.abc import Iterator
from typing import NamedTuple

from taxpr._source.parsed import Position, parsed_text

# What can be asked of an array without its value, and what asks for it.
_ASKED = {"shape", "dtype", "ndim", "size", "aval", "nbytes", "itemsize", "weak_type", "sharding"}
_ASKING = {
    *("len", "shape", "ndim", "size", "dtype", "isinstance", "type", "typeof", "eval_shape"),
    *("result_type", "promote_types", "can_cast", "finfo", "iinfo", "issubdtype"),
    *("zeros_like", "ones_like", "empty_like", "full_like", "ShapeDtypeStruct"),
}


class Use(NamedTuple):
    """A place that uses a variable.

    Attributes:
        to: The name of the function that it is handed to; "" where it is used otherwise.
        asks: Whether the place needs no value.
    """

    to: str
    asks: bool


class _FunctionUses(NamedTuple):
    node: ast.AST
    parents: dict[ast.AST, ast.AST]


def uses(file: str, function: str, variable: str, line: int) -> list[Use]:
    """The uses of a variable from the line that bound it, until it is bound again.

    Args:
        file: The file of the function.
        function: Its qualified name.
        variable: The variable, such as ``"x"`` or ``"params['w']"``.
        line: The line that bound it; for an argument the first line of the function.
    """
    found = _function(file, "".join(linecache.getlines(file)), line, function.split(".")[-1])
    if found is None:
        return []
    first, last = _lines(found.node, variable, line)
    return [
        use
        for node in ast.walk(found.node)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and first <= node.lineno <= last
        and ast.unparse(node) == variable
        and (use := _use(node, found.parents)) is not None
    ]


def asks_for_type(file: str, part: tuple[int, ...]) -> bool:
    """Whether an expression is computed for its shape or dtype alone, as in ``(x @ w).shape``."""
    parsed = parsed_text("".join(linecache.getlines(file)), file) if part else None
    chain = parsed.around(Position(*part)) if parsed else []
    around = [node for node in chain[:-1] if isinstance(node, ast.expr)]
    return any(_asks(node) for node in around)


@functools.lru_cache(maxsize=1024)
def _function(file: str, text: str, line: int, name: str) -> _FunctionUses | None:
    """The innermost function of a name that holds a line."""
    parsed = parsed_text(text, file) if text else None
    found = None
    for node in ast.walk(parsed.tree) if parsed else ():  # those inside come later
        if isinstance(node, ast.Lambda):
            same, first = name == "<lambda>", node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            above = (one.lineno for one in node.decorator_list)
            same, first = name == node.name, min([node.lineno, *above])
        else:
            continue
        if same and first <= line <= (node.end_lineno or first):
            found = node
    if found is None:
        return None
    parents = {child: one for one in ast.walk(found) for child in ast.iter_child_nodes(one)}
    return _FunctionUses(found, parents)


def _lines(function: ast.AST, variable: str, line: int) -> tuple[int, float]:
    """The lines where a variable has the value that a line bound: up to its next binding."""
    stores = sorted(
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For)
        and variable in _targets(node)
    )
    end = next((end for start, end in stores if start <= line <= end), None)
    first = line if end is None else end + 1
    return first, next((end for start, end in stores if start >= first), float("inf"))


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = (one for target in targets for one in ast.walk(target))
    return {one.id for one in names if isinstance(one, ast.Name)}


def _use(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Use | None:
    """The use that a place makes of a value; None if it only gives it another name."""
    above = parents[node]
    match above:
        case ast.Attribute(value=whole) | ast.Subscript(value=whole) if whole is node:
            # Else it is a part of a PyTree.
            return Use("", True) if _asks(above) else _use(above, parents)
        case ast.Starred() | ast.keyword() | ast.Tuple() | ast.List() | ast.Dict():
            return _use(above, parents)
        case ast.Call() if above.func is not node:
            return Use(_called(above), _asks(above))
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            names = all(isinstance(one, ast.Name | ast.Tuple) for one in _left(above))
            return None if names else Use("", False)
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return None
        case _:
            return Use("", True)


def _left(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> Iterator[ast.expr]:
    yield from node.targets if isinstance(node, ast.Assign) else [node.target]


def _asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _called(node) in _ASKING
    return isinstance(node, ast.Attribute) and node.attr in _ASKED


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
