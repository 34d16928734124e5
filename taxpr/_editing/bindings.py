"""Which instructions of a function bind the variables that are edited."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterator, Sequence

from taxpr._editing.spelled import RETURN, Key, keys_of, owners_of, rest_of
from taxpr._errors import RefusedError
from taxpr._places import place_text
from taxpr._source.files import is_user_file
from taxpr._variables.assigned import goes_on
from taxpr._variables.codes import instructions_of
from taxpr._variables.comprehensions import own_names, stored
from taxpr._variables.watch import line_of_def


@dataclasses.dataclass(frozen=True)
class Binds:
    """That an instruction, or a call for its parameters, binds an edited variable.

    Attributes:
        edit: The number of the edit.
        name: The variable.
        keys: The part of what it holds that is edited.
        returned: Whether it is a function whose result is edited.
        function: The qualified name of the function that has the variable.
        line: The line.
        order: The parameter's number, or the offset of the instruction.
    """

    edit: int
    name: str
    keys: tuple[Key, ...]
    returned: bool
    function: str
    line: int
    order: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where a function binds edited variables.

    Attributes:
        parameters: What a call binds.
        stores: What instructions bind, by their offsets.
        settled: The instructions before which what a line has bound is changed, besides the first
            ones of lines.
    """

    parameters: tuple[Binds, ...]
    stores: dict[int, tuple[Binds, ...]]
    settled: frozenset[int]

    @property
    def offsets(self) -> frozenset[int]:
        """The instructions that matter."""
        return self.settled.union(self.stores)


def plan_of(code: types.CodeType, texts: Sequence[tuple[str, int | None]]) -> Plan | None:
    """Where a function binds what is edited; None if nowhere.

    Args:
        code: The function's code.
        texts: For each edit the text of its variable and its line.

    Raises:
        RefusedError: If a variable is bound and read by one instruction.
    """
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return None
    if not any(_may_mean(text, code, name) for text, _ in texts for name in _names(code)):
        return None  # most of them: reading instructions takes long
    first, in_full = line_of_def(code), not is_user_file(code.co_filename)
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    parameters = tuple(
        one
        for k, name in enumerate(code.co_varnames[:count])
        for one in _meant(texts, code.co_qualname, name, first, k, in_full)
    )
    stores: dict[int, tuple[Binds, ...]] = {}
    for one in instructions_of(code):
        names = set(stored(one)) - own_names(code, one.offset)
        line = (one.positions.lineno if one.positions else None) or first
        found = tuple(
            each
            for name in names
            for function in _owners(code, name)
            for each in _meant(texts, function, name, line, one.offset, in_full)
        )
        if found:
            if one.opname == "STORE_FAST_LOAD_FAST" and len(set(one.argval)) == 1:
                raise RefusedError(
                    f"edit: {found[0].name} ({place_text(code.co_filename, line)}) is bound and "
                    "read again in one line, between which nothing can come. Write what follows "
                    "in a line of its own."
                )
            stores[one.offset] = found
    if not parameters and not stores:
        return None
    return Plan(parameters, stores, goes_on(code) if stores else frozenset())


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_varnames
    yield from code.co_cellvars
    yield from code.co_freevars


def _may_mean(text: str, code: types.CodeType, name: str) -> bool:
    in_full = not is_user_file(code.co_filename)
    return any(
        rest_of(text, function, name, in_full) is not None for function in _owners(code, name)
    )


def _owners(code: types.CodeType, name: str) -> list[str]:
    """The functions whose variable this may be: for a free one those around the function."""
    if name not in code.co_freevars:
        return [code.co_qualname]
    parts = code.co_qualname.split(".<locals>.")
    return [".<locals>.".join(parts[:k]) for k in range(1, len(parts))]


def _meant(
    texts: Sequence[tuple[str, int | None]],
    function: str,
    name: str,
    line: int,
    order: int,
    in_full: bool,
) -> Iterator[Binds]:
    for edit, (text, wanted) in enumerate(texts):
        rest = rest_of(text, function, name, in_full)
        if rest is None or wanted not in (None, line):
            continue
        returned = rest.endswith(RETURN)
        keys = keys_of(rest.removesuffix(RETURN), text)
        yield Binds(edit, name, keys, returned, function, line, order)


def near(codes: Sequence[types.CodeType], text: str) -> tuple[list[str], list[int]]:
    """The variables of functions as they may be selected; the lines that bind one of this text."""
    known: dict[str, None] = {}
    lines: set[int] = set()
    for code in codes:
        owners = owners_of(code.co_qualname)
        for one in instructions_of(code):
            for name in stored(one):
                if own_names(code, one.offset).issuperset({name}):
                    continue
                known[f"{owners[-1]}.{name}" if "." in text else name] = None
                if rest_of(text, code.co_qualname, name) is not None and one.positions:
                    lines.add(one.positions.lineno or 0)
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            known[f"{owners[-1]}.{name}" if "." in text else name] = None
            if rest_of(text, code.co_qualname, name) is not None:
                lines.add(code.co_firstlineno)
    return list(known), sorted(lines)


def in_comprehension(codes: Sequence[types.CodeType], text: str) -> bool:
    """Whether a comprehension binds a variable of this text."""
    return any(
        name in own_names(code, one.offset) and rest_of(text, code.co_qualname, name) is not None
        for code in codes
        for one in instructions_of(code)
        for name in stored(one)
    )
