"""Which instructions of a function bind the variables that are edited."""

import dataclasses
import inspect
import itertools
import types
from collections.abc import Iterator, Sequence

from taxpr._editing.fused import FunctionVariable, FusedError
from taxpr._editing.spelled import RETURN, Key, Spelled, keys_of, owners_of
from taxpr._places import place_text
from taxpr._watching.assigned import goes_on
from taxpr._watching.codes import instructions_of
from taxpr._watching.comprehensions import own_names, stored
from taxpr._watching.watch import line_of_def


@dataclasses.dataclass(frozen=True)
class Binds:
    """A binding of an edited variable by an instruction, or by a call for its parameters.

    Attributes:
        edit: The number of the edit.
        name: The variable.
        keys: The part of its value that is edited.
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
    """The places where a function binds edited variables.

    Attributes:
        parameters: The bindings by a call.
        stores: The bindings by instructions, by their offsets.
        settled: Instructions, besides the first ones of lines, before which a line's binding is
            changed.
    """

    parameters: tuple[Binds, ...]
    stores: dict[int, tuple[Binds, ...]]
    settled: frozenset[int]

    @property
    def offsets(self) -> frozenset[int]:
        """The instructions that matter."""
        return self.settled.union(self.stores)

    @property
    def edits(self) -> set[int]:
        """The numbers of the edits whose variables it binds."""
        return {one.edit for one in itertools.chain(self.parameters, *self.stores.values())}


def plan_of(code: types.CodeType, wanted: Sequence[Spelled]) -> Plan | None:
    """The places where a function binds edited variables; None if nowhere.

    Args:
        code: The function's code.
        wanted: The variable of each edit.

    Raises:
        FusedError: If a variable is bound and read by one instruction.
    """
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return None
    names = code.co_varnames + code.co_cellvars + code.co_freevars
    if not any(
        _may_mean(one, code, name) for one in wanted for name in one.words.intersection(names)
    ):
        return None  # most of them: reading instructions takes long
    first = line_of_def(code)
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    parameters = tuple(
        one
        for k, name in enumerate(code.co_varnames[:count])
        for one in _meant(wanted, code, code.co_qualname, name, first, k)
    )
    stores: dict[int, tuple[Binds, ...]] = {}
    fused: list[tuple[str, int]] = []
    for one in instructions_of(code):
        names = set(stored(one)) - own_names(code, one.offset)
        line = (one.positions.lineno if one.positions else None) or first
        found = tuple(
            each
            for name in names
            for function in _owners(code, name)
            for each in _meant(wanted, code, function, name, line, one.offset)
        )
        if found:
            if one.opname == "STORE_FAST_LOAD_FAST" and len(set(one.argval)) == 1:
                fused.append((found[0].name, line))
            stores[one.offset] = found
    if fused:
        name, line = fused[0]
        raise FusedError(
            f"edit: {name} ({place_text(code.co_filename, line)}) is bound and read again in one "
            "line, between which nothing can come. Write what follows in a line of its own.",
            [
                FunctionVariable(code.co_filename, code.co_qualname, code.co_firstlineno, each)
                for each, _ in fused
            ],
        )
    if not parameters and not stores:
        return None
    return Plan(parameters, stores, goes_on(code) if stores else frozenset())


def _may_mean(one: Spelled, code: types.CodeType, name: str) -> bool:
    owners = _owners(code, name)
    return any(one.rest(code.co_filename, function, name) is not None for function in owners)


def _owners(code: types.CodeType, name: str) -> list[str]:
    """The functions whose variable this may be: for a free one those around the function."""
    if name not in code.co_freevars:
        return [code.co_qualname]
    parts = code.co_qualname.split(".<locals>.")
    return [".<locals>.".join(parts[:k]) for k in range(1, len(parts))]


def _meant(
    wanted: Sequence[Spelled], code: types.CodeType, function: str, name: str, line: int, order: int
) -> Iterator[Binds]:
    for edit, one in enumerate(wanted):
        rest = one.rest(code.co_filename, function, name)
        if rest is None or one.line not in (None, line):
            continue
        returned = rest.endswith(RETURN)
        keys = keys_of(rest.removesuffix(RETURN), one.text)
        yield Binds(edit, name, keys, returned, function, line, order)


def puts(code: types.CodeType, key: Key) -> bool:
    """Whether a function puts something into a container or an object, as ``d["h"] = x`` does."""
    stores = "STORE_ATTR" if key.is_attribute else "STORE_SUBSCR"
    return any(
        one.opname == stores and (not key.is_attribute or one.argval == key.key)
        for one in instructions_of(code)
    )


def near(codes: Sequence[types.CodeType], of: Spelled) -> tuple[list[str], list[int]]:
    """The variables of functions as they may be selected; the lines that bind what is meant."""
    known: dict[str, None] = {}
    lines: set[int] = set()
    for code in codes:
        file, function = code.co_filename, code.co_qualname
        owner = owners_of(function)[-1]
        for one in instructions_of(code):
            for name in stored(one):
                if own_names(code, one.offset).issuperset({name}):
                    continue
                known[f"{owner}.{name}" if "." in of.text else name] = None
                if of.rest(file, function, name) is not None and one.positions:
                    lines.add(one.positions.lineno or 0)
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            known[f"{owner}.{name}" if "." in of.text else name] = None
            if of.rest(file, function, name) is not None:
                lines.add(line_of_def(code))
    return list(known), sorted(lines)


def in_comprehension(codes: Sequence[types.CodeType], of: Spelled) -> bool:
    """Whether a comprehension binds what is meant."""
    return any(
        name in own_names(code, one.offset)
        and of.rest(code.co_filename, code.co_qualname, name) is not None
        for code in codes
        for one in instructions_of(code)
        for name in stored(one)
    )
