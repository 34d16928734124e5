"""Run a cell up to the call at its end, and evaluate the parts of that call without making it.

taxpr traces the function of the call instead. The code is compiled such that tracebacks and JAX's
source info have the line numbers of the cell.
"""

import ast
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from taxpr_jupyter._errors import PanelError

_WANTED = "End the cell with a call such as `f(x)`, or put the call after the magic: `{magic} f(x)`"


@dataclasses.dataclass(frozen=True)
class CapturedCall:
    """A call that was not made, and its text as written, in one line."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    text: str


@dataclasses.dataclass(frozen=True)
class CodePosition:
    """The position of code: the name of its file and the number of lines before it."""

    filename: str
    lines_before: int = 0


def transformed(cell: str, shell: Any) -> str:
    """The cell as Python, with as many lines: IPython drops empty ones at the beginning."""
    body = shell.transform_cell(cell)
    lines = cell.splitlines(keepends=True)
    empty = next((k for k, line in enumerate(lines) if line.strip()), 0)
    return "\n" * empty + body


def run(source: str, shell: Any, place: CodePosition) -> None:
    """Runs statements in the namespace of the shell, and shows nothing."""
    tree = shell.transform_ast(_parsed(source, place))
    if tree.body:
        exec(shell.compile(tree, place.filename, "exec"), shell.user_global_ns, shell.user_ns)


def run_to_call(source: str, shell: Any, place: CodePosition, *, magic: str) -> CapturedCall:
    """Run ``source`` except the call at its end; only the parts of that call are evaluated.

    Raises:
        PanelError: If the last statement is no call.
    """
    tree = shell.transform_ast(_parsed(source, place))
    last = tree.body.pop() if tree.body else None
    call = _checked(last, source, place, magic)
    if tree.body:
        exec(shell.compile(tree, place.filename, "exec"), shell.user_global_ns, shell.user_ns)
    code = shell.compile(_taken_apart(call), place.filename, "eval")
    fun, args, parts = eval(code, shell.user_global_ns, shell.user_ns)
    kwargs: dict[str, Any] = {}
    for part in parts:
        twice = next((key for key in part if key in kwargs), None)
        if twice is not None:
            raise PanelError(f"The call gives the argument `{twice}` twice")
        kwargs.update(part)
    return CapturedCall(fun=fun, args=args, kwargs=kwargs, text=_text(call, source, place))


def _parsed(source: str, place: CodePosition) -> ast.Module:
    """The module of ``source`` with the line numbers of the cell."""
    return ast.parse("\n" * place.lines_before + source, place.filename)


def _checked(last: ast.stmt | None, source: str, place: CodePosition, magic: str) -> ast.Call:
    """The call of the last statement.

    Raises:
        PanelError: If it is no call.
    """
    wanted = _WANTED.format(magic=magic)
    if last is None:
        raise PanelError(f"There is no call to trace. {wanted}")
    if not isinstance(last, ast.Expr):
        name = type(last).__name__.lower().replace("def", " definition")
        words = "an assignment" if "assign" in name else f"a statement ({name.strip()})"
        raise PanelError(f"The cell ends with {words}, not with a call. {wanted}")
    if not isinstance(last.value, ast.Call):
        text = _text(last.value, source, place)
        raise PanelError(
            f"`{text}` is no call, and taxpr traces one call of a function. {wanted}; put other "
            "expressions into a function"
        )
    return last.value


def _taken_apart(call: ast.Call) -> ast.Expression:
    """``f(a, *b, k=c, **d)`` as the expression ``(f, (a, *b), ({"k": c}, {**d}))``.

    All parts are evaluated once, in the order of the call.
    """
    keywords: list[ast.expr] = [
        ast.Dict(keys=[ast.Constant(word.arg) if word.arg else None], values=[word.value])
        for word in call.keywords
    ]
    load = ast.Load()
    parts = [call.func, ast.Tuple(call.args, load), ast.Tuple(keywords, load)]
    apart = ast.copy_location(ast.Tuple(parts, load), call)
    return ast.fix_missing_locations(ast.Expression(apart))


def _text(node: ast.expr, source: str, place: CodePosition) -> str:
    """The node as written, in one line."""
    segment = ast.get_source_segment("\n" * place.lines_before + source, node)
    lines = (segment or ast.unparse(node)).splitlines()
    return lines[0] if len(lines) == 1 else ast.unparse(node)
