"""The flags that a module is called with, such as `train=True`."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from taxpr import introspect
from taxpr_jupyter._closed.running import parsed
from taxpr_jupyter._closed.without_equations import function_at
from taxpr_jupyter._text.short import BLANK

_FLAG = re.compile(r"\bapply\(.*\b(True|False)\b")


def flags_of(eqns: Iterable[introspect.JaxprEqn], module: str) -> str:
    """`train=True`: the flags in the user's call `model.apply(variables, x, True)`; "" if none.

    Only flags that are `True` or `False` there, only if the module's class is the user's, and
    only if one call made all of the equations.

    Args:
        eqns: The equations of the module.
        module: The name of its class.
    """
    calls: dict[object, tuple[str, ast.FunctionDef | None]] = {}
    for eqn in eqns:
        stack = introspect.statements_of(eqn)[::-1]
        for by, inner in itertools.pairwise(stack):
            if inner.text and inner.function.rpartition("<locals>.")[2] == f"{module}.__call__":
                # A statement may call the module in several places.
                place = by.file, by.place, by.part
                if place not in calls:
                    found = introspect.parsed_at(eqn, inner)
                    calls[place] = by.expression, function_at(found, inner) if found else None
                break
        # Most calls have no flags, and then no other equation need be looked at.
        if len(calls) > 1 or not all(_FLAG.search(text) for text, _ in calls.values()):
            return ""
    for text, node in calls.values():
        given = (*node.args.args[1:], *node.args.kwonlyargs) if node else ()
        return ", ".join(_given(text, [one.arg for one in given]))
    return ""


def _given(text: str, names: Sequence[str]) -> Iterator[str]:
    """The flags in an expression that is a call of an `apply`, whose first argument is values.

    None in another one, such as `state.apply_fn(variables, x, True)`, which may be any function.
    """
    node = parsed(text.replace(BLANK, "_"))
    call = node.value if isinstance(node, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return
    if call.func.attr != "apply" or any(one.arg in (None, "method") for one in call.keywords):
        return
    plain = itertools.takewhile(lambda one: not isinstance(one, ast.Starred), call.args)
    given = [*zip(names, [*plain][1:], strict=False)]
    given += [(one.arg or "", one.value) for one in call.keywords]
    for name, value in given:
        if name in names and isinstance(value, ast.Constant) and isinstance(value.value, bool):
            yield f"{name}={value.value}"
