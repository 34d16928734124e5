"""`Answer`: the base class of the results of all questions."""

import csv
import dataclasses
import html
import io
import json
import pathlib
from collections.abc import Sequence
from typing import Any, ClassVar

from taxpr._answers.charts import Chart, optional
from taxpr._answers.tables import as_dict, html_table, plain, text_table, texts
from taxpr._errors import ArgumentError, TaxprError, a_type
from taxpr._given import file_to_write
from taxpr._untyped import np


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The answer of a question: a table that shows itself, in a notebook with a picture.

    It is false if nothing was found, and `str` is its text.

    Attributes:
        headline: The question, and how much was found, in one line.
        rows: The findings, in order: dataclasses or dicts.
        notes: Remarks, one sentence each, such as which values were skipped, and why.
        complete: Whether everything was examined; False if it was stopped, with the rows so far.

    Example:
        >>> import taxpr
        >>> rows = [{"variable": "loss.h", "norm": 1.5}, {"variable": "loss.y", "norm": 20.0}]
        >>> taxpr.questions.Answer("norms of loss", rows, notes=("1 value was skipped.",))
        norms of loss
        variable  norm
        loss.h    1.5
        loss.y    20
        1 value was skipped.
        >>> bool(taxpr.questions.Answer("norms of loss", []))
        False
    """

    headline: str
    rows: Sequence[Any]
    notes: tuple[str, ...] = ()
    complete: bool = True

    # The fields of a row that are shown, in order; all without it. Those that are empty in all rows
    # are left out.
    _columns: ClassVar[tuple[str, ...] | None] = None

    def chart(self) -> Chart | None:
        """The picture; None if there is nothing to draw."""
        return None

    def plot(self, ax: Any = None) -> Any:
        """Draw it, with matplotlib if that is installed.

        Args:
            ax: The axes of matplotlib to draw into; None makes a figure.

        Returns:
            The axes; without matplotlib a `Chart`, which shows itself as SVG or text.

        Raises:
            ArgumentError: If there is nothing to draw.
        """
        chart = self.chart()
        if chart is None:
            raise ArgumentError(f"plot: {self.headline}: there is nothing to draw. See .rows.")
        pyplot = optional("matplotlib.pyplot")
        if pyplot is None:
            return chart
        if ax is not None and not hasattr(ax, "set_xlabel"):
            raise ArgumentError(
                f"plot: ax is {a_type(ax)}, and no axes of matplotlib, as plt.gca() is."
            )
        if ax is None:
            ax = pyplot.subplots(layout="constrained")[1]
        chart.draw(ax)
        ax.set_title(self.headline)
        return ax

    def listed(self) -> Sequence[Any]:
        """The rows as `texts` has them: some answers sort them, or show several as one.

        Example:
            >>> import taxpr
            >>> taxpr.questions.Answer("norms", [{"variable": "h", "norm": 1.5}]).listed()
            [{'variable': 'h', 'norm': 1.5}]
        """
        return self.rows

    def texts(self) -> list[list[str]]:
        """The table as it is shown, of 60 rows at most: the names of its columns, then its rows.

        Example:
            >>> import taxpr
            >>> taxpr.questions.Answer("norms", [{"variable": "h", "norm": 1.5}]).texts()
            [['variable', 'norm'], ['h', '1.5']]
        """
        return texts(self._shown())

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`.

        Raises:
            TaxprError: If pandas is not installed.
        """
        pandas = optional("pandas")
        if pandas is None:
            raise TaxprError(
                "to_pandas: pandas is not installed: pip install pandas. Without it there are "
                ".rows, .to_csv() and .to_json()."
            )
        return pandas.DataFrame(list(map(as_dict, self.rows)))

    def to_csv(self, path: str | pathlib.Path | None = None) -> str:
        """The rows as CSV; arrays in a cell are JSON.

        Args:
            path: A file to write it to, too.
        """
        rows = [plain(as_dict(row)) for row in self.rows]
        file = io.StringIO()
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        for row in rows:
            nested = {k: json.dumps(v) for k, v in row.items() if isinstance(v, (list, dict))}
            writer.writerow({**row, **nested})
        return _written("to_csv", file.getvalue(), path)

    def to_json(self, path: str | pathlib.Path | None = None) -> str:
        """The rows as JSON, with the numbers of the whole; NaN and infinities become texts.

        Args:
            path: A file to write it to, too.

        Example:
            >>> import json, jax.numpy as jnp, taxpr
            >>> text = taxpr.memory(lambda x: (x @ x) @ x)(jnp.ones((100, 100))).to_json()
            >>> json.loads(text)["total"]
            120000
        """
        text = json.dumps(
            {
                "headline": self.headline,
                "complete": self.complete,
                "notes": self.notes,
                **self._whole(),
                "rows": [plain(as_dict(row)) for row in self.rows],
            },
            indent=1,
        )
        return _written("to_json", text + "\n", path)

    def _whole(self) -> dict[str, Any]:
        """The fields of the whole that are numbers, or dicts of numbers and texts, by name."""
        shown = [field.name for field in dataclasses.fields(self) if field.repr]
        found = {name: getattr(self, name) for name in shown}
        return {
            name: plain(x)
            for name, x in found.items()
            if isinstance(x, (int, float, np.generic, type(None)))
            or (isinstance(x, dict) and _is_short(x))
        }

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        table = text_table(self._shown()) if self.rows else ""
        return "\n".join(filter(None, [self.headline, table, *self.notes]))

    def __repr__(self) -> str:
        return str(self)

    def _shown(self) -> list[dict[str, Any]]:
        rows = list(map(as_dict, self.listed()))
        if self._columns is None:
            return rows
        return [{name: row.get(name) for name in self._columns} for row in rows]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        chart = self.chart()
        parts = [f"<b>{html.escape(self.headline)}</b>"]
        parts += [chart.svg()] if chart else []
        parts += [html_table(self._shown())] if self.rows else []
        parts += [f"<div>{html.escape(note)}</div>" for note in self.notes]
        return {"text/plain": str(self), "text/html": f"<div>{''.join(parts)}</div>"}


def _is_short(x: Any) -> bool:
    """Whether there are only numbers and texts in it: a result of arrays may be large."""
    many: Any = x
    if isinstance(x, dict):
        return all(map(_is_short, many.values()))
    if isinstance(x, (list, tuple)):
        return all(map(_is_short, many))
    return isinstance(x, (str, int, float, np.generic, type(None)))


def _written(what: str, text: str, path: str | pathlib.Path | None) -> str:
    if path is not None:
        with file_to_write(what, path) as file:
            file.write_text(text, encoding="utf-8")
    return text
