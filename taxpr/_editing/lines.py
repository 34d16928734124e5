"""Lines that take the place of lines of the source, in functions whose code is compiled anew."""

import ast
import dataclasses
import types
from collections.abc import Iterator
from typing import Any

from taxpr._editing.alteration import Statement, statement_of
from taxpr._editing.exchange import made_here, own_code
from taxpr._editing.reached import every_function
from taxpr._editing.recompiled import AnyFunction, functions_of, recompiled, spliced
from taxpr._editing.spelled import RETURN, Spelled, place_of
from taxpr._errors import ArgumentError, RefusedError
from taxpr._places import place_text
from taxpr._source.files import is_user_file
from taxpr._source.parsed import Parsed, codes_in, parsed_of, position_of

_RETURN = RETURN.removeprefix(".")


@dataclasses.dataclass(frozen=True)
class Owner:
    """A function that is there, and the code in it that binds the variable.

    Attributes:
        function: The function, or one around it.
        code: The code of its own function.
        name: The variable; ``"return"`` for a line that returns.
    """

    function: types.FunctionType
    code: types.CodeType
    name: str


def owners(of: Spelled) -> Iterator[Owner]:
    """The functions that may have a variable, among all that there are."""
    text = of.text if of.within is None else of.within[1]
    first, name = text.split(".")[0], text.split(".")[-1]
    for function in every_function():
        if function in made_here:
            continue
        whole = own_code(function)
        in_full = not is_user_file(whole.co_filename)
        if in_full and function.__qualname__.split(".")[0] != first:
            continue
        for code in codes_in(whole):
            if of.rest(code.co_filename, code.co_qualname, name) != "":
                continue
            known = name in (*code.co_varnames, *code.co_cellvars, _RETURN)
            if known and (of.line is None or of.line in _lines(code)):
                yield Owner(function, code, name)


def _lines(code: types.CodeType) -> range:
    found = [line for _, _, line in code.co_lines() if line]
    return range(min(found), max(found) + 1)


def with_line(
    now: types.FunctionType, owner: Owner, line: int | None, statement: str
) -> tuple[types.FunctionType, str]:
    """The function with another line in place of the line that binds a variable.

    Args:
        now: The present function, which may have been made here.
        owner: The function that has the line.
        line: Its number; None if only a single line binds it.
        statement: The other line.

    Returns:
        The function, and the place of the line.

    Raises:
        ArgumentError: If there is no such line, or several.
        RefusedError: If the source is not there.
    """
    code = now.__code__
    before = parsed_of(code)
    place = place_text(code.co_filename, line) if line else place_of(owner.code)
    said = f"edit: {statement!r} ({place})"
    if before is None:
        raise RefusedError(
            f"{said}: the source of {owner.code.co_qualname} is not there, or has changed since it "
            "was imported, so that no line of it can be another one. Give a function of the value."
        )
    node = _statement(before, owner, line, said)
    place = place_text(code.co_filename, node.lineno)
    said = f"edit: {statement!r} ({place})"
    new = statement_of(statement)
    if new is None or owner.name not in _bound(new):
        does = f"bind {owner.name}, which the line there binds"
        does = "return, as the line there does" if owner.name == _RETURN else does
        raise ArgumentError(f"{said} does not {does}.")
    lines = _replaced(before, node, statement)
    try:
        made = recompiled(now, before, lines)
    except KeyError as error:
        raise RefusedError(
            f"{said}: {error} is a variable of a function around {owner.code.co_qualname}, which "
            "did not read it when it was made. Let it read that in the source."
        ) from None
    if made is None:
        raise ArgumentError(f"{said}: Python cannot compile the source with it.")
    return made, place


def _statements(parsed: Parsed, code: types.CodeType, name: str) -> list[Statement]:
    """The statements of a function that bind a variable, or return from it."""
    return [
        node
        for function in functions_of(parsed, code)
        for node in _own(function)
        if isinstance(node, Statement) and name in _bound(node)
    ]


def returned_name(function: Any) -> str:
    """The variable that all ``return`` statements of a function return; "" if they differ."""
    code = getattr(function, "__code__", None)
    parsed = parsed_of(code) if isinstance(code, types.CodeType) else None
    nodes = _statements(parsed, code, _RETURN) if parsed and code else []
    names = {one.value.id if isinstance(one.value, ast.Name) else "" for one in nodes}
    return names.pop() if len(names) == 1 else ""


def _statement(parsed: Parsed, owner: Owner, line: int | None, said: str) -> Statement:
    found = [
        node
        for node in _statements(parsed, owner.code, owner.name)
        if line is None or node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if len(found) == 1:
        return found[0]
    returns = owner.name == _RETURN
    if not found:
        kind = "line returns a value" if returns else f"assignment binds {owner.name}"
        like = "return x" if returns else "x = f(y)"
        raise ArgumentError(f"{said}: no {kind} there, as {like!r} does. Give the new value alone.")
    does = "return" if returns else f"bind {owner.name}"
    lines = ", ".join(str(node.lineno) for node in found)
    raise ArgumentError(f"{said}: the lines {lines} {does}. Say which by line=.")


def reads_too_early(statement: str, owner: Owner, error: UnboundLocalError) -> str:
    """The reason if a new statement reads its own variable too early; else ""."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised = trace.tb_frame.f_code if trace is not None else owner.code
    here = raised.co_filename, raised.co_qualname, f"'{owner.name}'" in str(error)
    node = statement_of(statement)
    if here != (owner.code.co_filename, owner.code.co_qualname, True):
        return ""
    if node is None or node.value is None or isinstance(node, ast.Return):
        return ""
    value: ast.expr = node.value
    if isinstance(node, ast.AugAssign):
        value = ast.BinOp(ast.Name(owner.name, ast.Load()), node.op, value)
    if not any(isinstance(one, ast.Name) and one.id == owner.name for one in ast.walk(value)):
        return ""
    place = place_of(owner.code)
    return (
        f"{statement!r} takes the place of the line that binds {owner.name} in "
        f"{owner.code.co_qualname} ({place}), and reads {owner.name}, which nothing has bound "
        f"before. To change what the line gives, give the expression alone: {ast.unparse(value)!r}."
    )


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, AnyFunction | ast.ClassDef | ast.Lambda):
            yield from _own(child)


def _bound(node: Statement) -> set[str]:
    if isinstance(node, ast.Return):
        return {_RETURN} if node.value is not None else set()
    targets: list[Any] = node.targets if isinstance(node, ast.Assign) else [node.target]
    every = (one for target in targets for one in ast.walk(target))
    return {one.id for one in every if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _replaced(parsed: Parsed, node: Statement, statement: str) -> list[str]:
    """The lines with a statement replaced, as many as before."""
    position = position_of(node)
    assert position is not None
    return spliced(parsed.lines, position, ast.unparse(ast.parse(statement)))  # in one line
