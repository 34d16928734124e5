"""Measured numbers, and the kernels of XLA, by the lines of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.as_compiled import AsCompiled, PlaceAsCompiled
from taxpr_jupyter._heat.given import Given
from taxpr_jupyter._heat.measured import Colours, Measured
from taxpr_jupyter._lines.source import SourceRows
from taxpr_jupyter._messages.source_tab import LineShare, SourceHeat
from taxpr_jupyter._model.kinds import HeatKind

ELSEWHERE = -1  # what is of no line
_TITLES: Mapping[HeatKind, str] = {
    "time": "measured time",
    "peak": "bytes at the peak",
    "kept": "kept bytes",
    "compiled": "kernels of XLA",
    "numbers": "numbers of values",
}


class LineHeat(NamedTuple):
    """Seconds or bytes of a line.

    Attributes:
        amount: Seconds, or bytes.
        share: Their share of all that was measured; the place of a user's number on its scale.
        words: The same in words.
    """

    amount: float
    share: float
    words: str


def line_heat(source: SourceRows, measured: Colours) -> dict[int, LineHeat]:
    """Measured numbers by the numbers of lines; -1 has the rest. Empty if nothing is measured."""
    if isinstance(measured, Given):
        return _given(source, measured)
    if not isinstance(measured, Measured):
        return {}
    numbers = {id(row): number for number, row in enumerate(source.rows)}
    found: dict[int, tuple[float, float]] = {}
    rest = measured.whole
    for place, (amount, shared) in measured.by_line().items():
        try:
            number = numbers[id(source.at(place))]
        except PanelError:  # a line of a library, or none
            continue
        before = found.get(number, (0.0, 0.0))
        found[number] = before[0] + amount, before[1] + shared
        rest -= amount
    told = {
        number: LineHeat(amount, amount / measured.whole, measured.text(amount, shared))
        for number, (amount, shared) in found.items()
        if amount
    }
    if rest > 0:
        told[ELSEWHERE] = LineHeat(rest, rest / measured.whole, measured.text(rest))
    return told


def _given(source: SourceRows, given: Given) -> dict[int, LineHeat]:
    """The numbers that the user gave the values of lines."""
    found: dict[int, LineHeat] = {}
    for number, row in enumerate(source.rows):
        addresses = [
            *(str(one.address) for one in row.line.variables),
            *(one.address for one in row.line.equations),
        ]
        amount = given.of(*addresses)
        if amount is not None:
            found[number] = LineHeat(amount, given.share(amount), given.words(*addresses))
    return found


def line_kernels(source: SourceRows, compiled: Colours) -> dict[int, PlaceAsCompiled]:
    """The equations of lines as XLA has compiled them, by the numbers of the lines.

    Empty if that is not known.
    """
    if not isinstance(compiled, AsCompiled):
        return {}
    return {
        number: compiled.at(*(one.address for one in row.line.equations))
        for number, row in enumerate(source.rows)
        if row.line.equations
    }


def source_heat(
    kind: HeatKind | None,
    notes: Sequence[str],
    heat: Mapping[int, LineHeat],
    kernels: Mapping[int, PlaceAsCompiled],
) -> SourceHeat:
    """The marks beside lines, for a browser.

    Args:
        kind: The colours of nodes.
        notes: How much there is of all kernels.
        heat: Of `line_heat`.
        kernels: Of `line_kernels`.
    """
    rest = heat.get(ELSEWHERE)
    lines: dict[str, LineShare] = {
        str(k): {
            "share": one.share,
            "label": f"{one.amount:.3g}" if kind == "numbers" else "",
            "words": one.words,
            "sign": "",
            "mark": "",
        }
        for k, one in heat.items()
        if k != ELSEWHERE
    }
    for k, made in kernels.items():
        sign = "gone" if made.removed else " ".join([*made.signs, *("⇄" * bool(made.moved))])
        if sign:
            words = "; ".join(made.words)
            lines[str(k)] = {
                "share": 0,
                "label": "",
                "words": words,
                "sign": sign,
                "mark": made.marks[0],
            }
    return {
        "title": _TITLES.get(kind, "") if kind else "",
        "rest": f"{rest.words} are of no line" if rest else "; ".join(notes),
        "lines": lines,
    }
