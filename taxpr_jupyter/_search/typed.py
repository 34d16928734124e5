"""Read a selector of taxpr that is typed as Python into a search: ``var("h", line=3)``.

Nothing is evaluated but calls of the makers of selectors, and literals.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import taxpr
from taxpr.libraries import parameters_of
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._search.grammar import PATTERNS
from taxpr_jupyter._text.short import shortened

_MAKERS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one for one in (taxpr.var, taxpr.scope, taxpr.line)
}
_KNOWN = 'var("h"), scope("block_*"), line(12), {"name": "loss"}'
EXAMPLE = 'var("h", line=3)', "a selector in Python; Enter selects all that it means"
_INSTEAD = {
    "cotangent": "The program of a panel does not know cotangents",
    "tag": 'tag marks values. Type tag:loss, or {"name": "loss"} for params',
    "prim": "Type prim:dot for a primitive",
}


def is_selector(text: str) -> bool:
    """Whether a search is a selector in Python, maybe not typed to its end.

    Example:
        >>> [is_selector(text) for text in ('var("h', '{"name": "loss"}', "tanh f32[2]", "[2,16]")]
        [True, True, False, False]
    """
    return PATTERNS["selector"].fullmatch(text) is not None


def selector_of(text: str) -> Any:
    """The selector.

    Raises:
        PanelError: The text is not a selector.

    Example:
        >>> selector_of('[var("h"), taxpr.line(12)]')
        [var('h'), line(12)]
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        raise PanelError("This selector in Python is not complete") from None
    except taxpr.TaxprError as error:
        raise PanelError(one_line(error)) from None
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        raise PanelError(f"{shortened(text, 200)}: {error}. Selectors are {_KNOWN}") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="taxpr"), attr=name)
        ):
            if name not in _MAKERS:
                raise PanelError(_INSTEAD.get(name, f"{name} is no selector. There are {_KNOWN}"))
            if packed := next((one.value for one in node.keywords if not one.arg), None):
                raise PanelError(f"{ast.unparse(packed)}: give arguments one by one")
            words = {str(one.arg): _value(one.value) for one in node.keywords}
            return _made(name, [_value(one) for one in node.args], words)
        case ast.List() | ast.Tuple():
            return [_value(one) for one in node.elts]
        case ast.Dict() if None not in node.keys:
            keys = (_value(key) for key in node.keys if key)
            return dict(zip(keys, map(_value, node.values), strict=True))
        case ast.Name(id=name):
            raise PanelError(f'{name} needs quotes, as in var("{name}")')
    try:
        return ast.literal_eval(node)
    except (TypeError, ValueError):
        said = shortened(ast.unparse(node), 60)
        raise PanelError(f"{said} is no text and no number. Selectors are {_KNOWN}") from None


def _made(name: str, given: list[Any], words: Mapping[str, Any]) -> Any:
    """The selector that a call makes; a mistake in the call says how it is called."""
    maker = _MAKERS[name]
    try:
        inspect.signature(maker).bind(*given, **words)
    except TypeError as error:
        takes = ", ".join(
            one.name if one.default is one.empty else f"{one.name}={one.default}"
            for one in parameters_of(maker)
        )
        raise PanelError(f"{name}({takes}): {error}. Selectors are {_KNOWN}") from None
    return maker(*given, **words)
