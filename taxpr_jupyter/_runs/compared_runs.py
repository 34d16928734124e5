"""Compare the results of any two runs of a session."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.outputs.array_diff import (
    GONE,
    ArrayDifference,
    Differing,
    compare,
    glance,
)
from taxpr_jupyter._runs.outputs.output_charts import OutputChart, output_charts
from taxpr_jupyter._runs.run import Run

_RELEASED = "only the first elements are known: the array of a run was released"


@dataclasses.dataclass(frozen=True)
class ComparedRuns(Differing):
    """The difference of the results of two runs, both with their injectors.

    Attributes:
        before: One run.
        after: The other run.
        differences: The difference of each flat output.
        records: The difference of each value that both runs recorded at a tag of one name.
        charts: The contents of the outputs that changed most, by their names.
    """

    before: Run
    after: Run
    differences: tuple[ArrayDifference, ...]
    records: tuple[ArrayDifference, ...]
    charts: Mapping[str, OutputChart] = dataclasses.field(repr=False)

    @property
    def changes(self) -> tuple[str, ...]:
        """How the injectors, lines and initial values of the runs differ, in words."""
        old, new = self.before.setup, self.after.setup
        return tuple(
            f"{name}: {old.get(name, '–')} → {new.get(name, '–')}"
            for name in old | new
            if old.get(name) != new.get(name)
        )

    def __str__(self) -> str:
        lines = [f"{self.before.title} → {self.after.title}", *self.changes]
        lines += map(str, self.by_interest)
        if self.records:
            lines += ["Values at the tags, after their injectors", *map(str, self.records)]
        return "\n  ".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def compared_runs(before: Run, after: Run) -> ComparedRuns:
    """Compares two runs.

    Raises:
        PanelError: One of them has no results.
    """
    for run in (before, after):
        if not run.ok:
            raise PanelError(f"{run.title} has no results to compare: {_why(run)}")
    sides = f"in {before.title}", f"in {after.title}"
    compared = functools.partial(
        glance if before.live or after.live else compare,
        sides=sides,
    )
    old, new = (
        {row.name: row for row in run.differences if row.after != GONE} for run in (before, after)
    )
    arrays = [run.by_name() for run in (before, after)]
    pairs = {name: (arrays[0].get(name), arrays[1].get(name)) for name in new | old}
    rows = tuple(
        compared(name, *pair)
        if all(one is not None for one in pair)
        else _by_texts(old.get(name), new.get(name), sides)
        for name, pair in pairs.items()
    )
    records = tuple(_records(before, after, compared))
    return ComparedRuns(before, after, rows, records, output_charts(rows, pairs))


def _by_texts(
    old: ArrayDifference | None, new: ArrayDifference | None, sides: tuple[str, str]
) -> ArrayDifference:
    """The difference of an output that one run has, or whose arrays are there no longer."""
    known = [one for one in (old, new) if one is not None]
    texts = [GONE if one is None else one.after for one in (old, new)]
    return ArrayDifference(
        name=known[0].name,
        aval=" → ".join(dict.fromkeys(one.aval.split(" → ")[-1] for one in known)),
        max=None,
        mean=None,
        equal=len(known) == 2 and texts[0] == texts[1],
        note=_RELEASED if len(known) == 2 else "new" if old is None else "gone",
        before=texts[0],
        after=texts[1],
        compared=len(known) < 2,
        # Each was compared with the untouched program.
        not_finite="; ".join(
            f"{side}: {one.not_finite}"
            for one, side in zip((old, new), sides, strict=True)
            if one is not None and one.not_finite
        ),
    )


def _records(
    before: Run, after: Run, compared: Callable[..., ArrayDifference]
) -> Iterator[ArrayDifference]:
    """The differences of the arrays that both runs recorded at tags of one name."""
    old, new = ({one.name: one.value for one in run.records.values()} for run in (before, after))
    for name in new:
        pair = [jax.tree.leaves(one.get(name)) for one in (old, new)]
        both = list(zip(*pair, strict=False)) if len(pair[0]) == len(pair[1]) else []
        for k, arrays in enumerate(both):
            if all(isinstance(one, jax.Array | np.ndarray) for one in arrays):
                yield compared(f"{name}[{k}]" if len(both) > 1 else name, *arrays)


def _why(run: Run) -> str:
    return "it was cancelled" if run.cancelled else f"it failed: {run.error}"
