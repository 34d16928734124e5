"""Measured numbers, and the kernels of XLA, by the lines of the source."""

from __future__ import annotations

from typing import NamedTuple

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.as_compiled import AsCompiled, PlaceAsCompiled
from taxpr_jupyter._heat.measured import Measured
from taxpr_jupyter._lines.source import SourceRows

ELSEWHERE = -1  # what is of no line


class LineHeat(NamedTuple):
    """Seconds or bytes of a line.

    Attributes:
        amount: Seconds, or bytes.
        share: Their share of all that was measured.
        words: The same in words.
    """

    amount: float
    share: float
    words: str


def line_heat(source: SourceRows, measured: Measured) -> dict[int, LineHeat]:
    """Measured numbers by the numbers of lines; -1 has the rest."""
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


def line_kernels(source: SourceRows, compiled: AsCompiled) -> dict[int, PlaceAsCompiled]:
    """The equations of lines as XLA has compiled them, by the numbers of the lines."""
    return {
        number: compiled.at(*(one.address for one in row.line.equations))
        for number, row in enumerate(source.rows)
        if row.line.equations
    }
