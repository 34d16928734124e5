"""What a text means for `edit`: a variable, a part of it, or what a function returns."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from taxpr._errors import SelectorError

RETURN = ".return"  # what a function returns, after its name
_SHOWN = 8  # parts in a message


class Key(NamedTuple):
    """One step into a container: an attribute, or an element."""

    key: Any
    is_attribute: bool

    def __str__(self) -> str:
        return f".{self.key}" if self.is_attribute else f"[{self.key!r}]"


def owners_of(function: str) -> list[str]:
    """The parts of a function's qualified name."""
    return [part for part in function.split(".") if part != "<locals>"]


def rest_of(text: str, function: str, name: str, in_full: bool = False) -> str | None:
    """What follows in a text after a variable of a function; None if it means another variable.

    Args:
        text: Such as ``"attend.params['w']"``, whose rest is ``"['w']"``.
        function: The qualified name of the function.
        name: The variable.
        in_full: Whether all of the function's name is to be there, as for those of libraries, of
            which many have a variable ``x``, and many an inner function ``body``.
    """
    owners = owners_of(function)
    for k in range(0 if in_full else len(owners), -1, -1):
        written = ".".join([*owners[k:], name])
        if text.startswith(written) and text[len(written) :][:1] in ("", ".", "["):
            return text[len(written) :]
    return None


def keys_of(rest: str, text: str) -> tuple[Key, ...]:
    """The steps of a path such as ``".mlp['w'][0]"``.

    Raises:
        SelectorError: If it is no path.
    """
    found: list[Key] = []
    try:
        node: ast.AST = ast.parse(f"_{rest}", mode="eval").body
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                found.append(Key(node.attr, True))
            elif isinstance(node, ast.Subscript):
                found.append(Key(ast.literal_eval(node.slice), False))
            else:
                raise ValueError
            node = node.value
    except (SyntaxError, ValueError):
        raise SelectorError(
            f"edit: {text!r}: {rest!r} is no path in what a variable holds. Write it as in the "
            "source, such as params['w'] or state.h."
        ) from None
    return tuple(reversed(found))


def part_at(value: Any, keys: Sequence[Key]) -> Any:
    """A part of what a variable holds.

    Raises:
        LookupError, AttributeError, TypeError: If it holds none there.
    """
    for key, is_attribute in keys:
        value = getattr(value, key) if is_attribute else value[key]
    return value


def with_part(value: Any, keys: Sequence[Key], new: Any) -> Any:
    """A copy of what a variable holds, with another part. The containers stay as they are."""
    if not keys:
        return new
    (key, is_attribute), *deeper = keys
    new = with_part(part_at(value, keys[:1]), deeper, new)
    if is_attribute:
        if hasattr(value, "_replace"):  # a named tuple
            return value._replace(**{key: new})
        copied = copy.copy(value)
        object.__setattr__(copied, key, new)  # a frozen dataclass refuses its own
        return copied
    if isinstance(value, tuple):
        elements: list[Any] = list(cast("tuple[Any, ...]", value))
        elements[key] = new
        kind: Any = cast("Any", value).__class__
        return getattr(kind, "_make", kind)(elements)  # a named tuple takes no list
    copied = copy.copy(value)
    if hasattr(copied, "at"):  # an array
        return copied.at[key].set(new)
    if not hasattr(copied, "__setitem__"):  # a mapping that is frozen
        return type(copied)({**copied, key: new})
    copied[key] = new
    return copied


def parts_of(value: Any) -> str:
    """The parts that a value has, in words."""
    if isinstance(value, Mapping):
        keys: list[Any] = list(cast("Mapping[Any, Any]", value))
        return ", ".join(f"[{key!r}]" for key in keys[:_SHOWN])
    if isinstance(value, (list, tuple)):
        count = len(cast("Sequence[Any]", value))
        return f"[0] to [{count - 1}]" if count else ""
    names = [name for name in getattr(value, "__dict__", {}) if not name.startswith("_")]
    return ", ".join(f".{name}" for name in names[:_SHOWN])
