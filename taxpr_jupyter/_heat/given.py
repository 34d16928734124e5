"""Numbers that a user gives to variables, to colour nodes by, and the files that have them."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.as_compiled import outward
from taxpr_jupyter._model.model import count_of

_TOLD = 4  # numbers that a tooltip tells
_STATISTICS = [
    *(one.name for one in dataclasses.fields(taxpr.questions.Stats) if one.name != "histogram"),
    "nonfinite",
]
_GRAPH = "main"  # what Model Explorer calls the graph of a file with one


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """Numbers of values of a program.

    Attributes:
        program: The program.
        title: The title of the legend.
        numbers: The number of each value, by its address.
        names: The name that the user wrote for each address; it may be the address itself.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> program = taxpr.trace(lambda x: jnp.sum(x * 2))(jnp.ones(5))
        >>> given = Given(program, "size", {"0:mul.0": 3.0, "in0": -1.0}, {"0:mul.0": "y"})
        >>> given.of("0:mul"), given.words("0:mul"), given.low, given.share(1.0)
        (3.0, 'size 3 of y', -1.0, 0.5)
    """

    program: taxpr.Program
    title: str
    numbers: Mapping[str, float]
    names: Mapping[str, str]
    kind: Literal["numbers"] = "numbers"

    @functools.cached_property
    def low(self) -> float:
        """The least finite number; 0 if none is finite."""
        return min(filter(math.isfinite, self.numbers.values()), default=0.0)

    @functools.cached_property
    def high(self) -> float:
        """The greatest finite number; 0 if none is finite."""
        return max(filter(math.isfinite, self.numbers.values()), default=0.0)

    def share(self, number: float) -> float:
        """The place of a finite number between the least one, 0, and the greatest one, 1."""
        width = self.high / 2 - self.low / 2  # the whole may be no float
        return (number / 2 - self.low / 2) / width if width else 1.0

    def of(self, *addresses: str) -> float | None:
        """The greatest finite number in these equations, nested jaxprs and inputs."""
        found = [self.numbers[value] for value in self._inside(addresses)]
        return max(filter(math.isfinite, found), default=None)

    def words(self, *addresses: str) -> str:
        """All numbers in these equations, nested jaxprs and inputs, in words."""
        found = self._inside(addresses)
        told = [f"{self.numbers[one]:.4g} of {self._name(one)}" for one in found[:_TOLD]]
        more = [f"{len(found) - _TOLD} more"] if len(found) > _TOLD else []
        return f"{self.title} {', '.join([*told, *more])}" if found else ""

    @property
    def note(self) -> str:
        """How many numbers there are, in a sentence."""
        wrong = sum(not math.isfinite(one) for one in self.numbers.values())
        also = f", {wrong} not finite and without a colour" if wrong else ""
        return f"{count_of(len(self.numbers), 'number')}{also}"

    def _name(self, value: str) -> str:
        name = self.names.get(value, value)
        return self._variables.get(value, value) if name == value else name

    def _inside(self, addresses: tuple[str, ...]) -> list[str]:
        every = (value for one in addresses for value in self._values.get(one, ()))
        return list(dict.fromkeys(every))

    @functools.cached_property
    def _variables(self) -> Mapping[str, str]:
        return {one.address: one.name for one in self.program.variables()}

    @functools.cached_property
    def _values(self) -> Mapping[str, list[str]]:
        """The values in each equation and nested jaxpr."""
        found: dict[str, list[str]] = {}
        for value in self.numbers:
            for at in dict.fromkeys((value, *outward(value))):
                found.setdefault(at, []).append(value)
        return found


def numbers_in(given: Any, by: str) -> tuple[str, dict[str, float]]:
    """A title, and the numbers by the names or addresses of their values.

    Args:
        given: A dict, a recording, an answer with rows, or the name of a file.
        by: The statistic of a recording, or the column of an answer.

    Raises:
        PanelError: There are no numbers in it.
    """
    if isinstance(given, str | os.PathLike):
        return _read(pathlib.Path(given))
    if isinstance(given, taxpr.questions.Recording):
        every = {part.address: part.stats(each=False) for part in given.parts}
        _check(by, _STATISTICS, "A recording")
        return by, {key: _number(key, getattr(one, by)) for key, one in every.items() if one}
    if isinstance(given, Mapping):
        return "number", {str(key): _number(key, one) for key, one in given.items()}
    rows = [one for one in getattr(given, "rows", ()) if getattr(one, "address", "")]
    if not rows:
        raise PanelError(
            f"{type(given).__name__} has no numbers of variables: give a dict such as "
            "{'h': 1.2}, a recording of session.watch(), an answer such as session.flow(), or the "
            "name of a file of node data of Model Explorer"
        )
    columns = (column.name for column in dataclasses.fields(rows[0]))
    known = [name for name in columns if any(_has(row, name) for row in rows)]
    properties = [by] if any(_has(row, by) for row in rows) else []
    _check(by, [*known, *properties], type(given).__name__)
    found = {row.address: getattr(row, by) for row in rows}
    return by, {key: _number(key, one) for key, one in found.items() if one is not None}


def _check(by: str, known: Sequence[str], whose: str) -> None:
    """Raises PanelError unless there are numbers of that name."""
    if by not in known:
        raise PanelError(
            f"{whose} has no numbers {by!r}. Give by= one of {', '.join(known) or 'none'}"
        )


def _has(row: Any, column: str) -> bool:
    """Whether a row of an answer has a number there."""
    try:
        _number(column, getattr(row, column, None))
    except PanelError:
        return False
    return True


def _number(key: object, given: Any) -> float:
    """The number itself; of the numbers of several iterations the greatest one, NaN aside."""
    try:
        array = np.asarray(given, dtype=np.float64)
        if array.size and None not in np.asarray(given, dtype=object):  # NumPy makes NaN of None
            return float(np.fmax.reduce(array, axis=None))
    except (TypeError, ValueError):
        pass
    raise PanelError(f"{given!r} of {key} is no number")


# ---- node data of Model Explorer ---------------------------------------------


def node_data(given: Given) -> dict[str, Any]:
    """The numbers as node data of Model Explorer, by the names that the user wrote."""
    results = {
        given.names.get(value, value): {"value": number}
        for value, number in given.numbers.items()
        if math.isfinite(number)  # JSON has no others
    }
    return {_GRAPH: {"name": given.title, "results": results}}


def _read(path: pathlib.Path) -> tuple[str, dict[str, float]]:
    try:
        data = json.loads(path.read_text("utf-8"))
        graphs = [data] if "results" in data else list(data.values())
        results = {key: one for graph in graphs for key, one in graph["results"].items()}
        title = next((str(graph["name"]) for graph in graphs if graph.get("name")), path.stem)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise PanelError(
            f"{path.name} is no file of node data of Model Explorer: {type(error).__name__}"
        ) from error
    values = {
        key: one.get("value") if isinstance(one, Mapping) else one for key, one in results.items()
    }
    return title, {key: _number(key, one) for key, one in values.items()}
