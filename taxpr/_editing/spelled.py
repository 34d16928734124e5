"""The meaning of a text for `edit`: a variable, a part of it, or a function's result."""

import ast
import copy
import dataclasses
import functools
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from taxpr._address import Address
from taxpr._errors import ArgumentError, SelectorError
from taxpr._places import place_text
from taxpr._source.files import is_user_file
from taxpr._variables.select import Var, named_var
from taxpr._watching.watch import line_of_def

RETURN = ".return"  # what a function returns, after its name
_SHOWN = 8  # parts in a message


class Key(NamedTuple):
    """One step into a container: an attribute, or an element."""

    key: Any
    is_attribute: bool

    def __str__(self) -> str:
        return f".{self.key}" if self.is_attribute else f"[{self.key!r}]"


def place_of(code: types.CodeType) -> str:
    """Where the ``def`` of a function is, such as ``"model.py:12"``."""
    return place_text(code.co_filename, line_of_def(code))


def owners_of(function: str) -> list[str]:
    """The parts of a function's qualified name."""
    return [part for part in function.split(".") if part != "<locals>"]


@dataclasses.dataclass(frozen=True)
class Spelled:
    """A variable as it is selected.

    Attributes:
        text: Such as ``"attend.params['w']"``; empty where none is meant.
        line: The line that binds it; None for all.
        within: If the text may begin with a module: the file, and the text from the function on.
    """

    text: str
    line: int | None = None
    within: tuple[str, str] | None = None

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """Its parts; the variable's name is in there."""
        return frozenset(re.split(r"[.\[]", self.text))

    def rest(self, file: str, function: str, name: str) -> str | None:
        """The text after a variable of a function; None if another variable is meant.

        A function of a library must be named in full: many have a variable ``x``, and many an inner
        function ``body``.

        Args:
            file: The file of the function.
            function: The qualified name of the function.
            name: The variable.
        """
        found = _rest(self.text, function, name, not is_user_file(file))
        if found is None and self.within is not None and self.within[0] == file:
            return _rest(self.within[1], function, name, True)
        return found


def _rest(text: str, function: str, name: str, in_full: bool) -> str | None:
    owners = owners_of(function)
    for k in range(0 if in_full else len(owners), -1, -1):
        written = ".".join([*owners[k:], name])
        if text.startswith(written) and text[len(written) :][:1] in ("", ".", "["):
            return text[len(written) :]
    return None


def selected(where: str | Var) -> Var:
    """The variable that is given, as the source and results have its name, such as ``"h#1"``.

    Raises:
        ArgumentError: If a line of the source cannot bind it.
    """
    text = where if isinstance(where, str) else where.text
    head = text.partition("[")[0]
    if isinstance(where, Address) or ":" in head:
        why = "is the address of a value in a traced program, and no line of the source binds one"
    elif text.startswith("∂"):
        why = "is the gradient of a variable, and no line of the source binds that"
    elif set("*?") & set(head):
        raise ArgumentError(
            f"edit: {where!r} is a glob. Give each variable with its change, in a mapping: "
            "edit(fun, {'net.h': taxpr.scale(0.5), 'net.y': 'y + 1'})."
        )
    elif isinstance(where, Var):
        return where
    else:
        return named_var(text)
    raise ArgumentError(
        f"edit: {where!r} {why}. Give a variable, such as 'attend.weights'; "
        f"inject(fun, injector, where={where!r}) changes the value as it was traced."
    )


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
            f"edit: {text!r}: {rest!r} is no path in a variable. Write it as in the source, such "
            "as params['w'] or state.h."
        ) from None
    return tuple(reversed(found))


def part_at(value: Any, keys: Sequence[Key]) -> Any:
    """A part of a variable's value.

    Raises:
        LookupError, AttributeError, TypeError: If it holds none there.
    """
    for key, is_attribute in keys:
        value = getattr(value, key) if is_attribute else value[key]
    return value


def with_part(value: Any, keys: Sequence[Key], new: Any) -> Any:
    """A copy of a variable's value, with another part. The containers stay unchanged."""
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
