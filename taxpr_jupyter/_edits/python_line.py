"""Make an injector of a line of Python that the user types: ``2 * x`` or ``lambda h: 2 * h``."""

import ast
import types
from collections.abc import Mapping
from typing import Any

from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._text.short import shortened

_VALUE = "x"  # how an expression calls the value
_HOW = "Write an expression of x, as in 2 * x, or a function of the value, as in lambda h: 2 * h"


def is_typed(text: str) -> bool:
    """Whether a text is a line of Python, and not the name of an injector."""
    return not text.isidentifier()


def typed_function(text: str, namespace: Mapping[str, Any]) -> Any:
    """The function ``(ctx, token, params) -> (token, ctx)`` that a line of Python means.

    Args:
        text: An expression of ``x``, or a lambda of one argument or of those three. Further
            arguments with numbers as defaults become parameters; all defaults are literals.
        namespace: The names that it can use. Those of a dict can change later.

    Raises:
        PanelError: It is neither.

    Example:
        >>> function = typed_function("lambda h, factor=3.0: factor * h", {})
        >>> function((), 2.0, {})
        (6.0, ())
        >>> text_of(function)
        'lambda ctx, h, params, factor=3.0: (factor * h, ctx)'
    """
    said = shortened(repr(text), 200)
    parsed = expression_of(text, said, _HOW)
    try:
        tree = _as_function(parsed, said)
        whole = ast.unparse(ast.fix_missing_locations(tree))
        made = eval(whole, {})  # defaults are literals, so nothing runs
    except PanelError:
        raise
    except Exception as error:  # such as RecursionError
        raise _no_expression(said, error, _HOW) from None
    # Live names, so that what the notebook defines anew takes effect. `eval` would write into them.
    live = namespace if isinstance(namespace, dict) else dict(namespace)
    function = types.FunctionType(made.__code__, live, made.__name__, made.__defaults__)
    function.__kwdefaults__ = made.__kwdefaults__
    vars(function)["typed"] = whole
    return function


def expression_of(text: str, said: str, how: str) -> ast.expr:
    """The tree of an expression that the user typed.

    Args:
        text: The expression.
        said: The same, short, for messages.
        how: A sentence about the right way.

    Raises:
        PanelError: It is no expression.
    """
    try:
        return ast.parse(text.strip(), mode="eval").body
    except Exception as error:  # such as RecursionError
        raise _no_expression(said, error, how) from None


def _no_expression(said: str, error: Exception, how: str) -> PanelError:
    why = error.msg if type(error) is SyntaxError else one_line(error)
    return PanelError(f"{said} is no expression of Python: {why}. {how}")


def _as_function(tree: ast.expr, said: str) -> ast.Lambda:
    """The lambda ``(ctx, token, params) -> (token, ctx)`` that an expression means.

    Raises:
        PanelError: It is no expression of ``x``, and no lambda of one or three arguments.
    """
    if not isinstance(tree, ast.Lambda):
        if _VALUE not in _names(tree):
            raise PanelError(f"{said} has no {_VALUE}, which is the value. {_HOW}")
        tree = ast.Lambda(ast.arguments([], [ast.arg(_VALUE)], None, [], [], None, []), tree)
    given = tree.args
    required = len(given.args) - len(given.defaults)
    if given.posonlyargs or given.vararg or required not in (1, 3):
        raise PanelError(f"{said} takes {required} values, and gets one. {_HOW}")
    names = [one.arg for one in (*given.args[required:], *given.kwonlyargs)]
    for name, default in zip(names, (*given.defaults, *given.kw_defaults), strict=True):
        if default is not None and not _is_literal(default):
            raise PanelError(
                f"{said}: the default of {name} is no literal, such as 3.0: "
                f"{shortened(ast.unparse(default), 60)}. {_HOW}"
            )
    if required == 1:
        taken = {one.arg for one in ast.walk(given) if isinstance(one, ast.arg)} | _names(tree)
        ctx, params = (f"_{name}" if name in taken else name for name in ("ctx", "params"))
        given.args[0:1] = [ast.arg(ctx), given.args[0], ast.arg(params)]
        tree.body = ast.Tuple([tree.body, ast.Name(ctx, ast.Load())], ast.Load())
    return tree


def _is_literal(tree: ast.expr) -> bool:
    try:
        ast.literal_eval(tree)
    except (ValueError, TypeError):
        return False
    return True


def text_of(function: Any) -> str:
    """The text of a function that was typed; empty for others."""
    return getattr(function, "typed", "") if callable(function) else ""


def _names(tree: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
