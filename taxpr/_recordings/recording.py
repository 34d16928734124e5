"""`Recording`: the values that a run of a program kept."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.count_of import count_of
from taxpr._answers.tables import as_dict, once
from taxpr._answers.trees import FOLDED, common, folded
from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, SelectorError, is_whole
from taxpr._given import file_to_write, refuse_no_path
from taxpr._places import is_called
from taxpr._recordings.files import read, write
from taxpr._recordings.part import Part
from taxpr._recordings.recorded import Recorded, nonfinite
from taxpr._sites.criteria import nearest
from taxpr._sites.skipped import Skipped
from taxpr._untyped import np
from taxpr._variables.select import Var, chosen, named_var


@dataclasses.dataclass(frozen=True)
class RecordedRow:
    """A row of the table of a recording: one value by one name; see `Recording.table`."""

    variable: str
    function: str
    line: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    ran: str
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    norm: float | None
    zeros: float | None
    nonfinite: str
    address: str
    path: str = ""
    size: int = 0


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RecordingTable(Answer):
    """The table of a recording."""

    _columns = (
        "variable",
        "line",
        "axes",
        "shape",
        "dtype",
        "ran",
        "mean",
        "std",
        "min",
        "max",
        "nonfinite",
    )

    def listed(self) -> list[Any]:
        groups = folded(self.each, lambda row: Address(row.address).is_argument)
        return [group[0] if len(group) == 1 else _joined(name, group) for name, group in groups]

    @property
    def each(self) -> list[RecordedRow]:
        """The rows without those that show a value again, by another of its names."""
        return once(self.rows, lambda row: (row.address or row.variable, row.axes, row.shape))

    def chart(self) -> Chart | None:
        """The norm of each value, in the order of execution."""
        norms = [row.norm if row.norm is not None else np.nan for row in self.each]
        return Lines({"norm": np.array(norms)}, xlabel="values in order") if norms else None


class Recording:
    """The values that a run kept, by the names of variables; `taxpr.watch` makes it.

    ``rec["attention.scores"]`` is the value of a variable: a `Recorded`. A key may also be the name
    of a tag, an address, or a `var`.

    Attributes:
        out: The result of the program; in a loaded recording, a dict by names.
        parts: The kept values, in the order of execution.
        skipped: Values that could not be read, with the reasons.
        notes: How it was kept, in sentences.
        complete: Whether it was not interrupted.
        states: The new values of states, such as ``"model.norm.mean"`` of a model of flax nnx; the
            objects themselves are unchanged. Empty in a loaded recording.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def loss(w, x):
        ...     h = jnp.tanh(x @ w)
        ...     return jnp.mean(h)
        >>> rec = taxpr.watch(loss)(jnp.ones((2, 3)), jnp.ones((4, 2)))
        >>> rec
        <recording of loss: w, x, h>
        >>> rec["h"].value.shape, rec["h"].line.endswith(":2")
        ((4, 3), True)
    """

    def __init__(
        self,
        name: str,
        out: PyTree,
        parts: Sequence[Part],
        skipped: tuple[Skipped, ...],
        notes: tuple[str, ...],
        complete: bool = True,
        states: Mapping[str, PyTree] = MappingProxyType({}),
    ) -> None:
        self.name, self.out, self.parts = name, out, tuple(parts)
        self.skipped, self.notes, self.complete = skipped, notes, complete
        self.states = dict(states)

    def __getitem__(self, key: str | Var) -> Recorded:
        if isinstance(key, str):
            named = [part for part in self.parts if part.name == key]
            named = named or [part for part in self.parts if part.name + part.path == key]
            named = named or [part for part in self.parts if part.address == key][:1]
            if named:
                return Recorded(key, tuple(named))
        if not isinstance(key, (str, Var)):
            raise SelectorError(
                f"the recording of {self.name} has no {key!r}. Give the name of a variable, one of "
                ".keys(), or a var()."
            )
        back = isinstance(key, str) and key.startswith("∂")
        where = key if isinstance(key, Var) else named_var(key.removeprefix("∂"))
        by_variable = {
            part.variable: part for part in self.parts if part.variable and part.cotangent == back
        }
        found = chosen(list(by_variable), where, may_be_empty=True)
        if not found:
            known = (part.name for part in self.parts)
            raise SelectorError(
                f"the recording of {self.name} has no {key!r}."
                + "".join(f" {note}" for note in self.notes if not self.complete)
                + nearest(where.text, dict.fromkeys(known))
            )
        paths = {one.path for one in found}
        parts = tuple(
            dataclasses.replace(by_variable[one], path=one.path if len(paths) > 1 else "")
            for one in found
        )
        return Recorded(f"∂ {where.text}" if back else where.text, parts)

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, (str, Var)) and bool(self[key].parts)
        except SelectorError:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[str]:
        """The names, in the order of execution."""
        return list(dict.fromkeys(part.name for part in self.parts))

    def at_line(self, file: str, line: int | None = None) -> list[Recorded]:
        """The values that a line of the source bound.

        Args:
            file: The file, or the end of its path; or with the line, as in ``"model.py:12"`` or
                ``"cell 3:12"``.
            line: The line, from 1.

        Raises:
            ArgumentError: If there is no number of a line.
        """
        text, number = file, line
        if line is None and isinstance(file, str):
            text, _, number = file.rpartition(":")
            number = int(number) if number.isdecimal() else None
        if not (isinstance(text, str) and is_whole(number)):
            given = repr(file) if line is None else f"{file!r}, {line!r}"
            raise ArgumentError(
                f"at_line: {given} is no line of a file. Give both, as at_line('model.py', 12) or "
                "at_line('model.py:12')."
            )
        return [
            Recorded(part.name, (part,))
            for part in self.parts
            if part.file and part.line == number and is_called(part.file, text)
        ]

    def table(self) -> RecordingTable:
        """The kept values as a table: a row for each value by its name, with statistics.

        The table shows itself, and each value once, even a parameter that is passed from function
        to function. If it is long, arguments come last, and arrays of one tree share a row, such as
        the weights of a layer. ``.rows``, ``.to_pandas()``, ``.to_csv()`` and ``.to_json()`` give
        all names as data.
        """
        table = RecordingTable(self.name, [_row(part) for part in self.parts])
        many, all_names = len(table.each), len(table.rows)
        names = f", by {all_names} names, which .rows has" if many < all_names else ""
        notes = (*self.notes, *map(_passed, self.skipped))
        return dataclasses.replace(
            table,
            headline=f"{count_of(many, 'value')} of {self.name}{names}",
            notes=(*notes, FOLDED) if len(table.listed()) < many else notes,
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the norms of all values, in the order of execution; see `Answer.plot`.

        Args:
            ax: The axes of matplotlib to draw into; None makes a figure.
        """
        return self.table().plot(ax)

    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a file, which `load_recording` reads.

        It is a `.npz` of NumPy, with a description of the arrays as JSON in the array ``about``. It
        is not compressed: compressing takes twenty times as long. If arrays are on devices of
        several processes, each process writes its own parts into a file of its own, such as
        ``run.0-of-2.npz`` and ``run.1-of-2.npz`` for ``run.npz``.

        Args:
            path: The file.

        Raises:
            ArgumentError: If there can be no such file.
        """
        parts = list(self.parts)
        with file_to_write("save", path) as file:
            write(file, (self.name, self.out, parts, self.skipped, self.notes, self.complete))

    def __repr__(self) -> str:
        return f"<recording of {self.name}: {few(self.keys())}>"

    def _repr_mimebundle_(self, **more: object) -> dict[str, str]:
        del more
        table: Any = self.table()
        return table._repr_mimebundle_()


def few(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" … {len(names) - 8} more" if len(names) > 8 else ""
    return f"{', '.join(names[:8])}{more}"


def load_recording(path: str | pathlib.Path) -> Recording:
    """Read a file of `Recording.save`.

    Args:
        path: The file. Its arrays are NumPy arrays; nothing in it is run. If several processes
            saved the recording, give the path that they gave; all their files must be there.

    Returns:
        The `Recording`. Its ``out`` is a dict from the path in the result, such as ``"[0]"``, to
        the array.

    Raises:
        ArgumentError: If the file is no recording, or a file of a process is missing.

    Example:
        >>> import os, tempfile
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> path = os.path.join(tempfile.mkdtemp(), "run.npz")
        >>> taxpr.watch(f)(jnp.zeros(2)).save(path)
        >>> taxpr.load_recording(path)["y"].value
        array([0., 0.], dtype=float32)
    """
    refuse_no_path("load_recording", path)
    return Recording(*read(path))


def _passed(skipped: Skipped) -> str:
    return f"Not read: {skipped}."


def _of_calls(name: str, rows: Sequence[RecordedRow]) -> dict[str, Any]:
    """A row with the statistics of each of the values that a line made, one after the other."""
    row = dict(as_dict(rows[0]))
    for of in ("mean", "std", "min", "max"):
        each = [getattr(one, of) for one in rows]
        row[of] = None if None in each else np.array(each)
    wrong = [one for one in rows if one.nonfinite]
    return {
        **row,
        "variable": name,
        "axes": common([one.axes for one in rows], ()),
        "dtype": common([one.dtype for one in rows], ""),
        "ran": common([one.ran for one in rows], ""),
        "nonfinite": f"in {len(wrong)} of {len(rows)} values" if wrong else "",
        "addresses": tuple(one.address for one in rows),
    }


def _joined(name: str, rows: Sequence[RecordedRow]) -> dict[str, Any]:
    """A row for arrays of one tree with their statistics together, or for the arrays of calls."""
    if not rows[0].path:
        return _of_calls(name, rows)
    wrong = [row for row in rows if row.nonfinite]
    held = [row for row in rows if row.mean is not None]
    sizes = np.array([row.size for row in held])
    numbers: dict[str, Any] = {}
    if held:
        low, high = [np.array([getattr(row, of) for row in held]) for of in ("min", "max")]
        finite = np.isfinite(low)
        if finite.any():
            numbers = {"min": float(low[finite].min()), "max": float(high[finite].max())}
    if held and not wrong:  # else the number of finite elements is not known
        mean, std = [np.array([getattr(row, of) for row in held]) for of in ("mean", "std")]
        middle = (mean * sizes).sum() / sizes.sum()
        # Squares of large deviations are infinite.
        spread = np.hypot.reduce(np.hypot(std, mean - middle) * np.sqrt(sizes / sizes.sum()))
        numbers |= {"mean": float(middle), "std": float(spread)}
    return {
        "variable": name,
        "line": common([row.line for row in rows], ""),
        "axes": common([row.axes for row in rows], ()),
        "shape": f"{len(rows)} arrays",
        "dtype": ", ".join(dict.fromkeys(row.dtype for row in rows)),
        "ran": common([row.ran for row in rows], ""),
        **numbers,
        "nonfinite": f"in {len(wrong)} of {len(rows)} arrays" if wrong else "",
        "address": rows[0].address,
        "addresses": tuple(row.address for row in rows),
    }


def _row(part: Part) -> RecordedRow:
    stats = part.stats(each=False)
    names = "mean", "std", "min", "max", "norm", "zeros"
    known = stats is not None and stats.size > 0
    numbers: dict[str, Any] = {
        name: float(getattr(stats, name)) if known else None for name in names
    }
    fired = part.kept.fired
    return RecordedRow(
        part.name + part.path,
        part.function,
        part.place,
        part.kept.axes,
        part.kept.shape,
        str(part.kept.dtype),
        "" if fired is None else f"{fired.sum()} of {fired.size}",
        nonfinite=nonfinite(stats) if stats else "",
        address=part.address,
        path=part.variable.path if part.variable else part.path,
        size=stats.size if stats else 0,
        **numbers,
    )
