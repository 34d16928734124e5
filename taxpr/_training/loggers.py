"""Where the numbers of a training loop go: a function, a CSV file, wandb, TensorBoard."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from taxpr._errors import ArgumentError, a_type
from taxpr._given import file_to_write

Numbers = Mapping[str, Any]


def logger(log: Any) -> Callable[[int, Numbers], object]:
    """A function that hands the numbers of a step on.

    Args:
        log: A function of a dict; the path of a CSV file; an object with ``add_scalar(tag, value,
            step)``, as TensorBoard's ``SummaryWriter``, or with ``log(dict)``, as wandb.

    Raises:
        ArgumentError: If it is something else, or the file cannot be written.
    """
    if isinstance(log, (str, pathlib.Path)):
        return _CsvTable(log)
    add = getattr(log, "add_scalar", None)
    if callable(add):
        return lambda step, numbers: [add(name, x, step) for name, x in numbers.items()]
    take = getattr(log, "log", None)
    take = take if callable(take) else log
    if not callable(take):
        raise ArgumentError(
            f"every: log={log!r} is {a_type(log)}. Give a function of a dict, the path of "
            "a CSV file, or an object with log(dict) or add_scalar(tag, value, step)."
        )
    return lambda step, numbers: take({"step": step, **numbers})


class _CsvTable:
    """A CSV file with a row for each step that is told; the first one gives the columns."""

    def __init__(self, path: str | pathlib.Path) -> None:
        self._columns: list[str] = []
        with file_to_write("every", path) as self._path:
            self._path.write_text("", encoding="utf-8")

    def __call__(self, step: int, numbers: Numbers) -> None:
        first, row = not self._columns, {"step": step, **numbers}
        self._columns = self._columns or list(row)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore")
            if first:
                writer.writeheader()
            writer.writerow(row)
