"""The user's source, each line with what became of it and its share of the operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.costs import Costs

_LEAST = 0.01  # of all operations; lines with less are quiet


def source_text(program: taxpr.Program) -> str:
    """What `Program.source` says, with the share of each line in the operations of all.

    Without shares where a loop runs nobody knows how often.

    Args:
        program: A program; if it was traced with names, its lines tell its variables.
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
