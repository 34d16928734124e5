"""`Swept`, the answer of `sweep` and `patch`: a row for each run, and the numbers on their axes."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Heat, Lines
from taxpr._answers.count_of import count_of
from taxpr._places import place_text
from taxpr._sites.criteria import Each
from taxpr._sites.site import Site
from taxpr._sweep.many_runs import Done
from taxpr._sweep.points import Point
from taxpr._untyped import np

Coordinate = tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Swept(Answer):
    """The answer of `sweep` and `patch`: a number for each run.

    Attributes:
        axes: For each axis of ``values`` its name and the labels along it.
        values: The numbers, an array of NumPy with these axes; NaN if a run is missing.
        baseline: The number without any change; in `patch` the numbers of both runs, by name.
    """

    axes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict[str, Any])
    values: Any = None
    baseline: Any = 0.0

    def chart(self) -> Chart | None:
        """A heat map over the last two axes; a line if there is only one."""
        if not self.rows:
            return None
        names, labels = list(self.axes), list(self.axes.values())
        values = np.asarray(self.values)
        if values.ndim == 1:
            return Lines({"metric": values}, labels[0], names[0])
        lead = [", ".join(one) for one in itertools.product(*labels[:-1])]
        return Heat(
            values.reshape(-1, values.shape[-1]), lead, labels[-1], ", ".join(names[:-1]), names[-1]
        )


def without_idle(rows: Sequence[dict[str, Any]], fired: Sequence[bool], done: Done) -> Done:
    """Put NaN into the rows of places that a run did not come to, and a note that says so."""
    idle = [row for row, one in zip(rows, fired, strict=True) if not one and "metric" in row]
    for row in idle:
        row |= {key: np.nan for key in ("metric", "effect", "change") if key in row}
    if not idle:
        return done
    note = f"Not computed: {count_of(len(idle), 'place')}, as the branch or iteration did not run."
    return done._replace(notes=(*done.notes, note))


def place_rows(sites: Sequence[Site], points: Sequence[Point], of: Each) -> list[dict[str, Any]]:
    """For each place what a row says of it."""
    rows: list[dict[str, Any]] = []
    for point in points:
        site = sites[point.site]
        iterations = [k for k in point.iteration if k >= 0]
        name = site.variable.name if site.variable else site.name or site.address
        row: dict[str, Any] = {"variable": str(name)}
        if iterations:
            row["iteration"] = iterations[0] if len(iterations) == 1 else tuple(iterations)
        if of.axis is not None:
            row["index"] = point.part
        row["line"] = site.variable.place if site.variable else _line(site)
        row["address"] = str(site.address)
        rows.append(row)
    return rows


def _line(site: Site) -> str:
    source = site.source
    return place_text(source.file, source.line) if source else ""


def axes_of(places: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[str]], list[Coordinate]]:
    """The axes of places, without axes of one label, and the position of each place."""
    tags = [f"{row['variable']} {row['address']}" for row in places]
    every = {
        "variable": [str(row["variable"]) for row in places],
        "iteration": [str(row.get("iteration", "")) for row in places],
        "index": [str(row.get("index", "")) for row in places],
    }
    if len({*every["variable"]}) < len({*tags}):
        every["variable"] = tags
    axes = {name: list(dict.fromkeys(labels)) for name, labels in every.items()}
    axes = {name: labels for name, labels in axes.items() if len(labels) > 1}
    axes = axes or {"variable": every["variable"][:1]}
    numbers = [[labels.index(one) for one in every[name]] for name, labels in axes.items()]
    return axes, list(zip(*numbers, strict=True))


def answer(
    headline: str,
    rows: list[dict[str, Any]],
    key: str,
    axes: Mapping[str, Sequence[str]],
    where: Sequence[Coordinate],
    done: Done,
    plain: Any,
) -> Swept:
    """The answer, with a row for each finished run; ``key`` is drawn."""
    values = np.full([len(labels) for labels in axes.values()], np.nan)
    ready = [row for row in rows if key in row]
    for at, row in zip(where, ready, strict=False):
        values[at] = row[key]
    n = f"{len(ready)} run{'s' if len(ready) != 1 else ''}"
    last = ("line", "address")
    ordered = [
        {k: row[k] for k in (*(k for k in row if k not in last), *(k for k in last if k in row))}
        for row in ready
    ]
    return Swept(f"{headline}: {n}", ordered, done.notes, done.complete, axes, values, plain)
