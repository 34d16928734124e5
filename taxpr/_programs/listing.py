"""The user's source, each line with what became of it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag import is_tag
from taxpr._source.parsed import Parsed, functions_around, parsed_of
from taxpr._source.statements import statements_of
from taxpr._variables.table import Variable

_WIDEST = 72  # characters of source; the notes of longer lines stand right behind them


class Found(NamedTuple):
    """An equation in its place.

    Attributes:
        eqn: The equation.
        runs: How often it runs; None where nobody knows.
        derivative: Whether it computes a derivative, in a backward pass.
    """

    eqn: Any
    runs: int | None
    derivative: bool


@dataclass
class _Line:
    """What became of a line of source."""

    eqns: list[Found] = field(default_factory=list[Found])
    variables: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def listing(
    program: Any,
    variables: Sequence[Variable],
    notes: Callable[[list[Found]], str] | None,
) -> str:
    """The functions of the user's that a program went through, line by line.

    Args:
        program: A program.
        variables: Its variables, where they are known.
        notes: Says more about the equations of a line.
    """
    regions: dict[str, tuple[Parsed, set[int]]] = {}
    lines: dict[tuple[str, int], _Line] = {}
    unknown = 0
    codes: dict[int, CodeType] = {}
    for found in _equations(program, 1, False):
        statements = statements_of(found.eqn)
        for code in _compat.frames_of(found.eqn)[0]:
            codes.setdefault(id(code), code)
        statement = next((one for one in statements if one.text), None)
        if statement is None:
            unknown += 1
        else:
            lines.setdefault((statement.file, statement.line), _Line()).eqns.append(found)
    for one in variables:
        line = lines.setdefault((one.file, one.line), _Line())
        line.variables.setdefault(one.name, {}).setdefault(one.path, _type(one.aval))
    files = {file for file, _ in lines}
    for code in reversed(codes.values()):
        if code.co_filename in files and code.co_name != "<module>":
            parsed = parsed_of(code)
            if parsed:
                _, shown = regions.setdefault(code.co_filename, (parsed, set()))
                shown.update(functions_around(parsed, code))
    text = [
        _file(file, parsed, sorted(shown), lines, notes)
        for file, (parsed, shown) in regions.items()
    ]
    if unknown:
        text.append(f"# {unknown:,} equations come from code of which the source is not known")
    return "\n\n".join(text)


def _file(
    file: str,
    parsed: Parsed,
    shown: list[int],
    lines: dict[tuple[str, int], _Line],
    notes: Callable[[list[Found]], str] | None,
) -> str:
    width = min(_WIDEST, max(len(parsed.lines[number - 1]) for number in shown))
    number_width = len(str(shown[-1]))
    rows = [f"# {pathlib.PurePath(file).name}"]
    last = shown[0]
    for number in shown:
        if number > last + 1:
            rows.append("")
        last = number
        source = parsed.lines[number - 1].rstrip()
        said = _said(lines.get((file, number)), notes)
        row = f"{number:>{number_width}}  "
        row += f"{source:<{width}}  # {said}" if said else source
        rows.append(row.rstrip())
    return "\n".join(rows)


def _said(line: _Line | None, notes: Callable[[list[Found]], str] | None) -> str:
    if line is None:
        return ""
    own = [found for found in line.eqns if not found.derivative]
    derived = len(line.eqns) - len(own)
    runs = {found.runs for found in line.eqns}
    words = [
        f"{name}: {len(types)} arrays" if len(types) > 1 else f"{name}{path}: {aval}"
        for name, types in line.variables.items()
        for path, aval in [*types.items()][:1]
    ]
    if own and not words and not derived:  # else JAX may have left its last equation out
        words.append(", ".join(_type(var.aval) for var in own[-1].eqn.outvars[:2]))
    words += [_counted(len(own))] if own else []
    words += [f"∂ {derived}"] if derived else []
    if len(runs) == 1 and (once := runs.pop()) != 1:
        words.append("in a loop" if once is None else f"×{once}")
    words += [notes(line.eqns)] if notes and line.eqns else []
    return " · ".join(filter(None, words))


def _type(aval: Any) -> str:
    return aval.str_short(short_dtypes=True)


def _counted(number: int) -> str:
    return f"{number:,} equation{'s' if number != 1 else ''}"


def _equations(jaxpr: Any, runs: int | None, derivative: bool) -> Iterator[Found]:
    for eqn in jaxpr.eqns:
        if is_tag(eqn):
            continue
        own = (derivative or _compat.is_transposed(eqn)) and not _compat.is_recomputed(eqn)
        nested = nested_jaxprs(eqn)
        if not nested:
            yield Found(eqn, runs, own)
        for one in nested:
            trips = one.trips if isinstance(one.trips, int) else None
            inside = None if runs is None or trips is None else runs * trips
            yield from _equations(one.jaxpr, inside, own)
