"""Write the user's source, each line with its equations and its share of the FLOPs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.costs import Costs

_LEAST = 0.01  # of all operations; smaller shares are not written


def source_text(program: taxpr.Program) -> str:
    """The text of `Program.source`, with each line's share of all operations.

    There are no shares if the program has a loop of unknown length.

    Args:
        program: A program. If it was traced with names, the text has the variables.
    """
    costs = Costs()
    lines: list[float] = []

    def operations(found: Sequence[Any]) -> float:
        runs = (math.nan if one.runs is None else one.runs for one in found)
        each = (costs.of_eqn(one.eqn).operations for one in found)
        return sum(a * b for a, b in zip(runs, each, strict=True))

    def counted(found: Sequence[Any]) -> str:
        lines.append(operations(found))
        return ""

    program.source(counted)
    whole = sum(lines)

    def share(found: Sequence[Any]) -> str:
        part = operations(found) / whole if whole else 0.0
        return f"{part:.0%} of FLOPs" if part >= _LEAST else ""

    return program.source(share)
