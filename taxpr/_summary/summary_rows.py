"""`Summary` and its rows: a tree that is folded to one screen."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart
from taxpr._answers.icicle import Box, Icicle
from taxpr._answers.tables import MOST, size_text
from taxpr._costs.quantities import quantity
from taxpr._profile.profile import time_text

_SMALL = 0.002  # of the whole, below which a box has no place in the plot


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    """A function or a statement in `Summary`.

    The numbers of a function include the functions and statements in it.

    Attributes:
        name: The function, or the statement.
        depth: How many functions are around it.
        calls: How often it was called while the program was traced; None if that is not known.
        iterations: How often the loops around it run each of these; None if unknown, as in a while
            loop, or if its calls differ.
        parameters: The number of elements of the parameters that it uses.
        parameter_bytes: Their bytes.
        shape: The types of its results, such as ``"f32[8,64]"``.
        equations: Its equations, as a picture counts them: each in a loop once.
        flops: The operations of one call of the program. A while loop of unknown length counts as
            one iteration.
        share: Their share of the whole.
        backward: The operations that are part of a backward pass.
        transcendentals: Evaluations of functions such as `exp`, which are not in ``flops``.
        moved: The bytes of the operands and results of all equations.
        kept: The bytes that a gradient keeps of its values for the backward pass.
        at_most: Whether it may take less: for a cond, the branch with most operations counts.
        endless: Whether it is in, or has, a while loop of unknown length.
        unknown: Primitives whose operations are not counted.
        seconds: The measured time of kernels that belong to it alone; None without
            ``measure=True``.
        at_peak: The bytes of its values at the peak of the memory; None without ``measure=True``.
        variable: The variables that the statement bound.
        line: The line of the statement, or of the statement that called the function.
        code: That statement.
        address: The first of its equations.
        equation_addresses: The addresses of all.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(w, x):
        ...     h = x @ w
        ...     return h.sum()
        >>> row = taxpr.summary(f)(jnp.ones((8, 4)), jnp.ones((2, 8))).rows[1]
        >>> row.name, row.variable, row.flops, row.parameters, row.shape
        ('h = x @ w', 'h', 128, 32, 'f32[2,4]')
    """

    name: str
    depth: int
    calls: int | None
    iterations: int | None
    parameters: int
    parameter_bytes: int
    shape: str
    equations: int
    flops: int
    share: float
    backward: int
    transcendentals: int
    moved: int
    kept: int
    at_most: bool
    endless: bool
    unknown: tuple[str, ...]
    seconds: float | None
    at_peak: int | None
    variable: str
    line: str
    code: str
    address: str
    equation_addresses: tuple[str, ...]

    @property
    def weight(self) -> float:
        """How much it takes: measured time, else operations."""
        return self.flops if self.seconds is None else self.seconds


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Summary(Answer):
    """The costs of the functions of a program, as a tree; `summary` makes it.

    Text and HTML show the most expensive rows, as many as a screen has; ``rows`` has all, each
    before those in it.

    Attributes:
        flops: The operations of one call.
        parameters: The number of elements of all parameters.
        parameter_bytes: Their bytes.
        kept: The bytes that a gradient keeps for its backward pass.
        wall: The measured seconds of one run; None without ``measure=True``.
        coverage: The share of these that has a statement; None without ``measure=True``.
        memory: The bytes that the call needs; None without ``measure=True``.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> found = taxpr.summary(lambda w, x: x @ w)(jnp.ones((8, 4)), jnp.ones((2, 8)))
        >>> found.flops, found.parameters, found.kept
        (128, 32, 0)
    """

    flops: int = 0
    parameters: int = 0
    parameter_bytes: int = 0
    kept: int = 0
    wall: float | None = None
    coverage: float | None = None
    memory: int | None = None

    _columns: ClassVar[tuple[str, ...]] = (
        *("name", "calls", "iterations", "parameters", "shape", "equations", "flops", "share"),
        *("backward", "kept", "seconds", "at_peak", "line"),
    )

    @property
    def hidden(self) -> int:
        """How many rows text and HTML leave out."""
        return len(self.rows) - len(self.listed())

    def listed(self) -> Sequence[SummaryRow]:
        if len(self.rows) <= MOST:
            return self.rows
        # What is around a row takes as much at least, and so comes before it.
        order = sorted(
            range(len(self.rows)),
            key=lambda k: (-self.rows[k].weight, -self.rows[k].equations, self.rows[k].depth, k),
        )
        return [self.rows[k] for k in sorted(order[:MOST])]

    def _shown(self) -> list[dict[str, Any]]:
        listed = self.listed()
        return [{name: _told(row, name) for name in self._columns} for row in listed]

    def chart(self) -> Chart | None:
        """The share of each function in the operations, or in the time if it was measured."""
        total = self.rows[0].weight if self.rows else 0
        if not total:
            return None
        boxes: list[Box] = []
        begins = [0.0] * (2 + max(row.depth for row in self.rows))
        for row in self.rows:
            begin, width = begins[row.depth], row.weight / total
            begins[row.depth] += width
            begins[row.depth + 1] = begin
            told = quantity(row.flops, "FLOP") if row.seconds is None else time_text(row.seconds)
            if width > _SMALL:
                boxes.append(Box(row.depth, begin, width, row.name, f"{told}, {width:.1%}"))
        return Icicle(boxes)


def _told(row: SummaryRow, name: str) -> Any:
    """A cell; numbers that say nothing are left out."""
    match name:
        case "name":
            return "│ " * (row.depth - 1) + "├ " * bool(row.depth) + row.name
        case "calls":
            return "" if row.calls == 1 else row.calls
        case "iterations":
            return "" if row.iterations == 1 else "?" if row.iterations is None else row.iterations
        case "parameters":
            return quantity(row.parameters, "") if row.parameters else ""
        case "flops":
            return flops_text(row)
        case "share":
            return f"{row.share:.1%}" if row.flops else ""
        case "backward":
            return quantity(row.backward, "FLOP") if row.backward else ""
        case "kept" | "at_peak":
            size = getattr(row, name)
            return size_text(size) if size else ""
        case "seconds":
            return "" if row.seconds is None else time_text(row.seconds)
        case _:
            return getattr(row, name)


def flops_text(row: SummaryRow) -> str:
    """The operations of a row; in a loop of one iteration, times their number."""
    before = "≥ " if row.unknown else "≤ " if row.at_most else ""
    if row.iterations is not None and row.iterations > 1 and row.flops % row.iterations == 0:
        return f"{before}{row.iterations} × {quantity(row.flops // row.iterations, 'FLOP')}"
    return f"{before}{quantity(row.flops, 'FLOP')}" + (" each" if row.endless else "")
