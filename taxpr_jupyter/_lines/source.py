"""The user's source, each line with what became of it and its share of the operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.costs import Costs

_LEAST = 0.01  # of all operations; lines with less are quiet


def source_text(program: taxpr.Program) -> str:
    """What `Program.source` says, with the share of each line in the operations of all.

    Args:
        program: A program; if it was traced with names, its lines tell its variables.
    """
    costs = Costs()
    lines: list[int] = []

    def operations(found: Sequence[Any]) -> int:
        return sum(costs.of_eqn(one.eqn).operations * (one.runs or 1) for one in found)

    def counted(found: Sequence[Any]) -> str:
        lines.append(operations(found))
        return ""

    program.source(counted)
    whole = sum(lines)

    def share(found: Sequence[Any]) -> str:
        part = operations(found) / whole if whole else 0.0
        return f"{part:.0%} of FLOPs" if part >= _LEAST else ""

    return program.source(share)
