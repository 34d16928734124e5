"""The flags that a module is called with, such as `train=True`."""

import ast
import functools
import itertools
import linecache
import re
from collections.abc import Iterable, Iterator, Sequence

from taxpr import introspect
from taxpr_jupyter._closed.running import parsed

_FLAG = re.compile(r"\bapply\(.*\b(True|False)\b")


def flags_of(eqns: Iterable[introspect.JaxprEqn], module: str) -> str:
    """`train=True`: the flags in the user's call `model.apply(variables, x, True)`; "" if none.

    Only flags that are `True` or `False` there, only if the module's class is the user's, and
    only if one call made all of the equations.

    Args:
        eqns: The equations of the module.
        module: The name of its class.
    """
    calls: dict[object, tuple[str, str, int]] = {}
    for eqn in eqns:
        stack = introspect.statements_of(eqn)[::-1]
        for by, inner in itertools.pairwise(stack):
            if inner.text and inner.function.rpartition("<locals>.")[2] == f"{module}.__call__":
                calls.setdefault((by.file, by.place), (by.text, inner.file, inner.begins))
                break
        # Most calls have no flags, and then no other equation need be looked at.
        if len(calls) > 1 or not all(_FLAG.search(text) for text, _, _ in calls.values()):
            return ""
    for text, file, begins in calls.values():
        names = _arguments("".join(linecache.getlines(file)), begins)
        return ", ".join(_given(text, names))
    return ""


def _given(text: str, names: Sequence[str]) -> Iterator[str]:
    """The flags in the only call of an `apply` in a statement, whose first argument is values."""
    node = parsed(text)
    calls = [
        one
        for one in (ast.walk(node) if node else ())
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
        if one.func.attr == "apply"
    ]
    if len(calls) != 1 or any(one.arg in (None, "method") for one in calls[0].keywords):
        return
    plain = itertools.takewhile(lambda one: not isinstance(one, ast.Starred), calls[0].args)
    given = [*zip(names, [*plain][1:], strict=False)]
    given += [(one.arg or "", one.value) for one in calls[0].keywords]
    for name, value in given:
        if name in names and isinstance(value, ast.Constant) and isinstance(value.value, bool):
            yield f"{name}={value.value}"


@functools.lru_cache(maxsize=64)
def _arguments(text: str, line: int) -> Sequence[str]:
    """The arguments of the `__call__` that begins in a line, without `self`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__call__":
            lines = (node.lineno, *(one.lineno for one in node.decorator_list))
            if min(lines) == line:
                return [one.arg for one in (*node.args.args[1:], *node.args.kwonlyargs)]
    return ()
