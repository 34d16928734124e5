"""Measured numbers by the lines of the source."""

from __future__ import annotations

from typing import NamedTuple

import taxpr
from taxpr import introspect
from taxpr_jupyter._heat.measured import Measured
from taxpr_jupyter._lines.source import SourceRow, SourceRows

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
    """Measured numbers by the numbers of lines; -1 has the rest.

    Args:
        source: The source of the program.
        measured: The numbers that were measured.
    """
    at: dict[str, list[int]] = {}  # several where files of one name have such a line
    for number, row in enumerate(source.rows):
        at.setdefault(f"{introspect.file_text(row.file)}:{row.line.number}", []).append(number)
    found: dict[int, tuple[float, float]] = {}
    rest = measured.whole
    for one in measured.portions:
        numbers = at.get(one.line, [])  # none of a line of a library
        if len(numbers) > 1:
            numbers = [k for k in numbers if _has(source.rows[k], one.address)]
        if len(numbers) == 1:
            before = found.get(numbers[0], (0.0, 0.0))
            found[numbers[0]] = before[0] + one.amount, before[1] + one.amount * one.shared
            rest -= one.amount
    told = {
        number: LineHeat(amount, amount / measured.whole, measured.text(amount, shared))
        for number, (amount, shared) in found.items()
        if amount
    }
    if rest > 0:
        told[ELSEWHERE] = LineHeat(rest, rest / measured.whole, measured.text(rest))
    return told


def _has(row: SourceRow, address: str) -> bool:
    """Whether a line has an equation."""
    eqn = taxpr.Address(address).eqn
    return any(one.address == eqn for one in (*row.line.equations, *row.line.holding))
