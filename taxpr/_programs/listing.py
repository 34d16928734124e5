"""The user's source, each line with its equations: as data, and as text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.count_of import count_of
from taxpr._places import file_text
from taxpr._sites.made_by import PlacedEquation, equations
from taxpr._source.parsed import functions_around, parsed_of
from taxpr._variables.variable import Variable

_WIDEST = 72  # characters of source; the notes of longer lines stand right behind them
_SHAPES = 3  # of one variable that are told
_NAMED = 3  # functions without a source whose names are told


TypeAt = Callable[[str, Any], str]  # of the value at an address, given its aval


@dataclass
class SourceLine:
    """A line of the user's source, with its equations and variables.

    Attributes:
        number: The number of the line, from 1.
        text: The line.
        equations: The equations that it made, in program order, without functions that it called,
            and without equations that hold others, such as loops.
        holding: The equations that hold others: the loops, branches and jitted functions that it
            called.
        variables: The variables that it bound, if the program was traced with names.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> def f(x):
        ...     y = jnp.sin(x) * 2
        ...     return y
        >>> line = trace(f, names=True)(1.0).listing().parts[0].lines[1]
        >>> line.number, len(line.equations), [one.address for one in line.variables]
        (2, 2, ['1:mul.0'])
    """

    number: int
    text: str
    equations: list[PlacedEquation] = field(default_factory=list[PlacedEquation])
    holding: list[PlacedEquation] = field(default_factory=list[PlacedEquation])
    variables: list[Variable] = field(default_factory=list[Variable])

    @property
    def counted(self) -> tuple[int, int]:
        """How many equations it made, and how many for derivatives; as in pictures and `summary`.

        An equation that holds others, such as a loop, counts as one. Those in it count for their
        own lines, each once however often it runs.
        """
        every = (*self.equations, *self.holding)
        derived = sum(found.derivative for found in every)
        return len(every) - derived, derived

    @property
    def runs(self) -> int | None:
        """How often all its equations run; None if this differs or is unknown."""
        runs = {found.runs for found in self.equations}
        return runs.pop() if len(runs) == 1 else 1 if not runs else None

    @property
    def held(self) -> Mapping[str, Mapping[str, list[Variable]]]:
        """The variables by name, and by the value's path in them."""
        held: dict[str, dict[str, list[Variable]]] = {}
        for one in self.variables:
            held.setdefault(one.name, {}).setdefault(one.path, []).append(one)
        return held


class SourcePart(NamedTuple):
    """A function or class of the user's, the outermost one, that a program went through.

    Attributes:
        file: The name of the file, or Python's name for a notebook cell.
        lines: Its lines.
    """

    file: str
    lines: tuple[SourceLine, ...]


class Listing(NamedTuple):
    """The source of a program, as `Program.listing` gives it.

    Attributes:
        parts: The functions of each file, both in the order of their calls.
        unknown: The equations from code whose source is not known, or that is not the user's.
        without_source: The names of the user's functions among that code.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> def f(x):
        ...     return jnp.sin(x) * 2
        >>> [part] = trace(f)(1.0).listing().parts
        >>> part.lines[1].text, [found.address for found in part.lines[1].equations]
        ('    return jnp.sin(x) * 2', ['0:sin', '1:mul'])
    """

    parts: tuple[SourcePart, ...]
    unknown: tuple[PlacedEquation, ...]
    without_source: tuple[str, ...]

    def text(
        self,
        notes: Callable[[list[PlacedEquation]], str] | None = None,
        typed: TypeAt | None = None,
    ) -> str:
        """All of it as text; see `Program.source`.

        Args:
            notes: Says more about a line.
            typed: Writes the type of a value, given its address and aval.
        """
        typed = typed or _type
        files: dict[str, list[str]] = {}
        for part in self.parts:
            files.setdefault(part.file, []).append(_part_text(part, notes, typed))
        text = [
            "\n".join([f"# {file_text(file)}", "\n\n".join(parts)]) for file, parts in files.items()
        ]
        return "\n\n".join([*text, f"# {self.rest}"] if self.unknown else text)

    @property
    def rest(self) -> str:
        """A sentence on equations without a line; empty if all have one."""
        if not self.unknown:
            return ""
        names = ", ".join(self.without_source[:_NAMED])
        names += " …" if len(self.without_source) > _NAMED else ""
        words = f"{count_of(len(self.unknown), 'equation')} from code without a known source"
        return f"{words}: {names}" if names else words


def listing(program: Any, variables: Sequence[Variable]) -> Listing:
    """The user's functions that a program went through, line by line."""
    made: dict[tuple[str, int], list[PlacedEquation]] = {}
    holding: dict[tuple[str, int], list[PlacedEquation]] = {}
    unknown: list[PlacedEquation] = []
    without: dict[str, None] = {}
    codes: dict[int, CodeType] = {}
    for found, is_leaf, statements in equations(program):
        frames = _compat.frames_of(found.eqn)[0]
        if not codes.keys() >= set(map(id, frames)):  # there may be a hundred, mostly JAX's
            codes.update({id(code): code for code in reversed(frames) if id(code) not in codes})
        statement = next((one for one in statements if one.text), None)
        if statement is None and is_leaf:
            unknown.append(found)
            without.update(dict.fromkeys(one.function for one in statements[:1]))
        elif statement is not None:
            lines = made if is_leaf else holding
            lines.setdefault((statement.file, statement.line), []).append(found)
    held: dict[tuple[str, int], list[Variable]] = {}
    for one in variables:
        held.setdefault((one.file, one.line), []).append(one)
    parts: dict[str, dict[int, SourcePart]] = {}
    files = {file for file, _ in (*made, *held)}
    for code in codes.values():
        file = code.co_filename
        if file not in files or code.co_name == "<module>":
            continue
        if parsed := parsed_of(code):
            shown = functions_around(parsed, code)
            if shown and shown.start not in parts.setdefault(file, {}):
                of_part = [
                    SourceLine(
                        number,
                        parsed.lines[number - 1].rstrip(),
                        made.pop((file, number), []),
                        holding.get((file, number), []),
                        held.get((file, number), []),
                    )
                    for number in shown
                ]
                parts[file][shown.start] = SourcePart(file, tuple(of_part))
    unknown += [found for rest in made.values() for found in rest]
    every = tuple(part for of_file in parts.values() for part in of_file.values())
    return Listing(every, tuple(unknown), tuple(without))


def _part_text(
    part: SourcePart, notes: Callable[[list[PlacedEquation]], str] | None, typed: TypeAt
) -> str:
    width = min(_WIDEST, max(len(line.text) for line in part.lines))
    number_width = len(str(part.lines[-1].number))
    rows: list[str] = []
    for line in part.lines:
        said = _said(line, notes, typed)
        row = f"{line.number:>{number_width}}  "
        row += f"{line.text:<{width}}  # {said}" if said else line.text
        rows.append(row.rstrip())
    return "\n".join(rows)


def _said(
    line: SourceLine, notes: Callable[[list[PlacedEquation]], str] | None, typed: TypeAt
) -> str:
    own = [found for found in line.equations if not found.derivative]
    number, derived = line.counted
    words = [
        f"{name}: {len(held)} arrays"
        if len(held) > 1
        else f"{name}{path}: {_distinct(typed(one.address, one.aval) for one in every)}"
        for name, held in line.held.items()
        for path, every in [*held.items()][:1]
    ]
    calls = {found.call for found in own}
    if own and not words and not derived:  # else JAX may have left its last equation out
        words.append(_distinct(_results(found, typed) for found in _last(line)))
    in_calls = f" in {len(calls)} calls" if len(calls) > 1 and None not in calls else ""
    words += [count_of(number, "equation") + in_calls] if number else []
    words += [f"∂ {derived}"] if derived else []
    if len({found.runs for found in line.equations}) == 1 and line.runs != 1:
        words.append("in a loop" if line.runs is None else f"×{line.runs}")
    words += dict.fromkeys(f"edited: {one.edited}" for one in line.variables if one.edited)
    words += [notes(line.equations)] if notes and line.equations else []
    return " · ".join(filter(None, words))


def _type(address: str, aval: Any) -> str:
    del address
    return aval.str_short(short_dtypes=True)


def _results(found: PlacedEquation, typed: TypeAt) -> str:
    every = enumerate(found.eqn.outvars[:2])
    return ", ".join(typed(found.address.value(k), var.aval) for k, var in every)


def _distinct(texts: Iterable[str]) -> str:
    every = list(dict.fromkeys(texts))
    return " · ".join([*every[:_SHAPES], *(["…"] if len(every) > _SHAPES else [])])


def _last(line: SourceLine) -> Iterable[PlacedEquation]:
    """The equations that made the result of a line, in each call of its function."""
    holding = {found.address for found in line.holding}
    last: dict[Address, PlacedEquation] = {}
    for found in sorted((*line.equations, *line.holding), key=lambda found: found.address.number):
        if not found.derivative and holding.isdisjoint(around(found.address)):
            last[found.address.home] = found
    sure = len(last) == 1 or all(found.call is not None for found in last.values())
    return last.values() if sure else line.equations[-1:]


def around(address: Address) -> Iterator[Address]:
    """The equations around a place, the innermost first."""
    while address := address.home.home:
        yield address
