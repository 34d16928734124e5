"""The runs of a session as a table."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from taxpr_jupyter._runs.outputs.array_diff import GONE
from taxpr_jupyter._runs.outputs.distances import is_key
from taxpr_jupyter._runs.run import Run


def run_rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """A row for each run, all with the same columns; see `KeptRuns.table`."""
    rows = [dict(_cells(run)) for run in runs]
    columns = dict.fromkeys(itertools.chain.from_iterable(rows))
    # What was changed stands before what came out.
    ordered = sorted(columns, key=lambda column: column[0])
    heads: dict[str, tuple[int, str]] = {}
    for place, name in ordered:  # a tag may be called "run"
        heads[f"{name}, changed" if name in heads else name] = place, name
    return [{head: row.get(column) for head, column in heads.items()} for row in rows]


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Rows in the format of a spreadsheet, with their heads."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cells(run: Run) -> Iterator[tuple[tuple[int, str], Any]]:
    """The cells of a run, by the place and name of their columns."""
    status = "failed" if run.error else "cancelled" if run.cancelled else "done"
    for name, value in ("run", run.title), ("device", run.device), ("status", status):
        yield (0, name), value
    injected = {run.names[key]: one for key, one in run.injectors.items()}
    for name, words in run.setup.items():
        one = injected.get(name)
        yield (1, name), one.name if one else words
        for param, value in one.values.items() if one else ():
            yield (1, f"{name}.{param}"), value
    arrays = run.by_name()
    for row in run.differences:
        if row.scalar and row.after != GONE:
            array = arrays.get(row.name)
            yield (2, row.name), row.after if array is None or is_key(array) else array.item()
    if run.ok:
        yield (3, "seconds"), run.times["run"]
