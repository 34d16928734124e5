"""Statements of a function that make no equations, but explain the ones that do."""

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from taxpr import introspect
from taxpr_jupyter._closed.listed import StatementWords
from taxpr_jupyter._closed.running import parsed as statement_of

_PARAMETERS = frozenset({"get_parameter", "param"})  # of a module, by haiku and by flax


Ran = tuple[introspect.JaxprEqn, introspect.Statement]  # an equation and one of its statements


def completed(
    said: Sequence[StatementWords], ran: Iterable[Ran], ends: bool
) -> list[StatementWords]:
    """Statements of a function, with those besides that compute nothing.

    Lines that define a function or take a parameter of a module, `cost = lambda x: x**2` and
    `slope = jax.grad(cost)`, are in front of the first statement after them that uses it. Last is
    the `return`, if the function has one only and returns more than variables. All are of the text
    that ran, which an edit may have changed; none if there are several.

    Args:
        said: The statements.
        ran: The equations, each with its statement in the function.
        ends: Whether the function ends with them.
    """
    ran = [*ran]
    every = [*said]
    places = {frame.place for _, frame in ran}
    made = {(frame.file, frame.begins) for _, frame in ran}
    parsed = parsed_of(ran) if len(made) == 1 else None
    node = function_at(parsed, ran[0][1]) if parsed else None
    if not (parsed and node):
        return every
    for name, called, one in reversed([*_definitions(node)]):
        uses = (
            k
            for k, other in enumerate(every)
            if other.place > _place(one) and _uses(other.source, name, called)
        )
        k = next(uses, None)
        if k is not None and _place(one) not in places:
            every.insert(k, _words(one, parsed, (name,)))
    last = _result(node) if ends else None
    if last and _place(last) not in places:
        every.append(_words(last, parsed)._replace(result=True))
    return every


def parsed_of(ran: Iterable[Ran]) -> introspect.Parsed | None:
    """The text that all statements are from; None if they are from several."""
    # An instruction has one statement, for all equations that it made.
    unlike = {id(frame): (eqn, frame) for eqn, frame in ran}
    found = {introspect.parsed_at(*one) for one in unlike.values()}
    return found.pop() if len(found) == 1 else None


def _uses(text: str, name: str, called: bool) -> bool:
    """Whether a statement uses a variable; as a function, if it is to be `called`."""
    node = statement_of(text)
    parts = [*ast.walk(node)] if node else []
    if called:
        parts = [part.func for part in parts if isinstance(part, ast.Call)]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)


def _definitions(node: ast.FunctionDef) -> Iterator[tuple[str, bool, ast.stmt]]:
    """The variables that hold a function or parameter, each with whether a use has to call it."""
    parts = [*_in_function(node)]
    times = Counter(
        part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    )
    for one in node.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                called = False
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr=maker))
            ):
                called = maker not in _PARAMETERS
            case _:
                continue
        if times[name] == 1:
            yield name, called, one


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


def _words(
    node: ast.stmt, parsed: introspect.Parsed, targets: tuple[str, ...] = ()
) -> StatementWords:
    return StatementWords(targets, source=parsed.text_of(node), place=_place(node))


def _place(node: ast.stmt) -> tuple[int, ...]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def function_at(
    parsed: introspect.Parsed, statement: introspect.Statement
) -> ast.FunctionDef | None:
    """The function of a statement, in the text that the statement is from."""
    return _functions(parsed).get(statement.begins)


@functools.lru_cache(maxsize=64)
def _functions(parsed: introspect.Parsed) -> Mapping[int, ast.FunctionDef]:
    """The functions by the lines that they, or their first decorators, begin in."""
    return {
        min([node.lineno, *(one.lineno for one in node.decorator_list)]): node
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.FunctionDef)
    }
