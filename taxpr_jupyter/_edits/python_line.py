"""Make an injector of a line of Python that the user types: ``2 * x`` or ``lambda h: 2 * h``."""

import ast
from collections.abc import Mapping
from typing import Any

from taxpr_jupyter._errors import PanelError

_VALUE = "x"  # how an expression calls the value
_HOW = "Write an expression of x, as in 2 * x, or a function of the value, as in lambda h: 2 * h"


def is_typed(text: str) -> bool:
    """Whether a text is a line of Python, and not the name of an injector."""
    return not text.isidentifier()


def typed_function(text: str, namespace: Mapping[str, Any]) -> Any:
    """The function ``(ctx, token, params) -> (token, ctx)`` that a line of Python means.

    Args:
        text: An expression of ``x``, or a lambda of one argument or of those three. Further
            arguments with numbers as defaults become parameters.
        namespace: The names that it can use.

    Raises:
        PanelError: It is neither.

    Example:
        >>> function = typed_function("lambda h, factor=3.0: factor * h", {})
        >>> function((), 2.0, {})
        (6.0, ())
        >>> text_of(function)
        'lambda ctx, h, params, factor=3.0: (factor * h, ctx)'
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise PanelError(f"{text!r} is no expression of Python: {error.msg}. {_HOW}") from None
    if not isinstance(tree, ast.Lambda):
        if _VALUE not in _names(tree):
            raise PanelError(f"{text!r} has no {_VALUE}, which is the value. {_HOW}")
        tree = ast.Lambda(ast.arguments([], [ast.arg(_VALUE)], None, [], [], None, []), tree)
    given = tree.args
    required = len(given.args) - len(given.defaults)
    if given.posonlyargs or given.vararg or required not in (1, 3):
        raise PanelError(f"{text!r} takes {required} values, and gets one. {_HOW}")
    if required == 1:
        taken = {one.arg for one in given.args} | _names(tree)
        ctx, params = (f"_{name}" if name in taken else name for name in ("ctx", "params"))
        given.args[0:1] = [ast.arg(ctx), given.args[0], ast.arg(params)]
        tree.body = ast.Tuple([tree.body, ast.Name(ctx, ast.Load())], ast.Load())
    whole = ast.unparse(ast.fix_missing_locations(tree))
    # Live names, so that what the notebook defines anew takes effect.
    live = namespace if isinstance(namespace, dict) and "__builtins__" in namespace else None
    function = eval(whole, dict(namespace) if live is None else live)
    function.typed = whole
    return function


def text_of(function: Any) -> str:
    """The text of a function that was typed; empty for others."""
    return getattr(function, "typed", "") if callable(function) else ""


def _names(tree: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
