"""`Recorded`: what one name means in a recording."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from taxpr._answers.charts import Chart, Heat, Lines, optional
from taxpr._compat import is_extended
from taxpr._errors import ArgumentError
from taxpr._places import place_text
from taxpr._recordings.run import Kept
from taxpr._recordings.summary import Stats, each_of, has_stats, stats_of
from taxpr._variables.table import Variable

np: Any = numpy  # which leaves types of arrays unknown

_map: Any = jax.tree.map

_MOST = 64  # rows and columns of a picture of a value


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """One value of a program, by one of its names.

    Attributes:
        name: The name: a variable, a tag's name, or an address.
        path: Where in what the name means it is.
        address: The address of the value.
        file: The file of the source that made it; None where that is not known.
        line: The line.
        function: The function.
        variable: The variable; None where none is known.
        mapped: The axes of the value that `jax.vmap` has put into it.
        kept: What was kept.
        cotangent: Whether it is what flows back to the value of the variable.
    """

    name: str
    path: str
    address: str
    file: str | None
    line: int | None
    function: str
    variable: Variable | None
    mapped: tuple[int, ...]
    kept: Kept
    cotangent: bool = False

    @property
    def place(self) -> str:
        """The line, such as ``"model.py:12"``; empty where it is not known."""
        return place_text(self.file, self.line)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes of what was kept."""
        vmaps = {axis: f"vmap {k}" for k, axis in enumerate(self.mapped)}
        own = iter(range(len(self.kept.shape)))
        return (
            *self.kept.axes,
            *(vmaps.get(k) or f"axis {next(own)}" for k in range(len(self.kept.shape))),
        )

    def whole(self) -> Any:
        """All that was kept.

        Raises:
            ArgumentError: If only statistics were kept.
        """
        if self.kept.value is None:
            raise ArgumentError(
                f"{self.name}: only statistics of it were kept, which .stats() gives. Watch less "
                'at a time by where=, or give more by memory=, with keep="values".'
            )
        return self.kept.value

    def stats(self, each: bool) -> Stats | None:
        """Its statistics; None of what has none."""
        if not has_stats(self.kept.dtype):
            return None
        size = int(np.prod(self.kept.shape, dtype=np.int64))
        table = self.kept.summaries()
        if each:
            return each_of(table, size, self.kept.fired)
        if self.kept.value is not None and table.ndim > 1:
            whole = dataclasses.replace(self.kept, axes=(), table=None, value=self._fired())
            return each_of(whole.summaries(), int(whole.value.size))
        return stats_of(table, size, self.kept.fired)

    def _fired(self) -> Any:
        value = np.asarray(self.kept.value)
        return value if self.kept.fired is None else value[self.kept.fired]


class Recorded:
    """What a recording kept by one name.

    A name may mean several values: those of a variable that is assigned again, one after the other,
    and the arrays of a PyTree. `value` is the array, and so is ``jax.numpy.asarray`` of it.

    Attributes:
        name: The name.
        address: The address of the value; of the first of several.
        line: The line of the source that made it, such as ``"model.py:12"``.
        function: The function of that line.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(xs):
        ...     def step(total, x):
        ...         total = total + x
        ...         return total, None
        ...     return jax.lax.scan(step, 0.0, xs)[0]
        >>> total = taxpr.watch(f, taxpr.var("total", occurrence=1))(jnp.arange(4.0))["total"]
        >>> total
        total#1: float32[4] of (0:scan), 0 … 6, mean 2.5
        >>> total.value, total.axes, float(total.at(step=2))
        (Array([0., 1., 3., 6.], dtype=float32), ('0:scan',), 3.0)
    """

    def __init__(self, name: str, parts: tuple[Part, ...]) -> None:
        self.name, self.parts = name, parts
        self.address, self.line = parts[0].address, parts[0].place
        self.function = parts[0].function

    @property
    def _is_tree(self) -> bool:
        return len({part.path for part in self.parts}) > 1

    @property
    def _is_stacked(self) -> bool:
        types = {(p.kept.shape, p.kept.axes, p.kept.dtype, _shape(p)) for p in self.parts}
        return len(self.parts) > 1 and len(types) == 1 and not self._is_tree

    def _of_paths(self) -> dict[str, Recorded]:
        found: dict[str, list[Part]] = {}
        for part in self.parts:
            found.setdefault(part.path, []).append(part)
        return {path: Recorded(self.name + path, tuple(of)) for path, of in found.items()}

    @property
    def value(self) -> Any:
        """The value: an array with the axes `axes`.

        Several values of one shape are stacked on a leading axis, others are a tuple, and of a
        PyTree there is a dict by paths. Where a value was not computed, as in a branch that was not
        taken, it is zero; see `fired`.

        Raises:
            ArgumentError: If only statistics were kept.
        """
        if self._is_tree:
            return {path: one.value for path, one in self._of_paths().items()}
        if self._is_stacked:
            return jnp.stack([part.whole() for part in self.parts])
        first, *more = self.parts
        return (first.whole(), *(one.whole() for one in more)) if more else first.whole()

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes: loops and mesh axes, those of `jax.vmap`, and others."""
        return (("occurrence",) if self._is_stacked else ()) + self.parts[0].axes

    @property
    def fired(self) -> Any:
        """For each iteration and device whether the value was computed; None if always."""
        fired = [part.kept.fired for part in self.parts]
        if len(fired) == 1 or all(one is None for one in fired):
            return fired[0]
        return tuple(fired)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.parts[0].kept.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `value`, or of the first of several."""
        own = (*_shape(self.parts[0]), *self.parts[0].kept.shape)
        return (len(self.parts), *own) if self._is_stacked else own

    def at(
        self, *, step: int | tuple[int, ...] | None = None, occurrence: int | None = None
    ) -> Any:
        """The value in one iteration of the loops around it.

        Args:
            step: The iteration, from 0; for nested loops one each, the outermost first.
            occurrence: Which of several values of a variable, from 0.

        Raises:
            ArgumentError: If there is no such iteration.
        """
        one = self
        if occurrence is not None:
            found = [p for p in self.parts if _occurrence(p) == occurrence] or [
                *self.parts[occurrence : occurrence + 1]
            ]
            if not found:
                raise ArgumentError(f"at: {self.name} has {len(self.parts)} values, from 0.")
            one = Recorded(self.name, tuple(found))
        if step is None:
            return one.value
        steps = (step,) if isinstance(step, int) else tuple(step)
        loops = [k for k, axis in enumerate(one.axes) if ":" in axis]
        sizes = [one.shape[k] for k in loops]
        if len(steps) > len(loops) or any(
            not -n <= s < n for s, n in zip(steps, sizes, strict=False)
        ):
            raise ArgumentError(
                f"at: step={step}: {self.name} has "
                + (f"{' × '.join(map(str, sizes))} iterations." if sizes else "no iterations.")
            )
        index: list[Any] = [slice(None)] * len(one.axes)
        for axis, number in zip(loops, steps, strict=False):
            index[axis] = number

        def there(x: Any) -> Any:
            return x[tuple(index)]

        return _map(there, one.value)

    def stats(self, *, each: bool = False) -> Any:
        """Statistics of all elements.

        Args:
            each: Whether of each iteration and device, with their axes. Where the value was not
                computed all but the histogram is NaN.

        Returns:
            A `Stats`; a list of these for several values; None for PRNG keys.
        """
        found = [part.stats(each) for part in self.parts]
        return found[0] if len(found) == 1 else found

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        del copy
        value = self.value
        if isinstance(value, (dict, tuple)):
            raise ArgumentError(
                f"{self.name} is {len(self.parts)} arrays of different shapes, and no array: see "
                ".value."
            )
        return np.asarray(value, dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return "\n".join(map(_said, self.parts))

    def chart(self) -> Chart | None:
        """Its picture: a curve, a map, or for more axes a histogram."""
        part = self.parts[0]
        if is_extended(part.kept.dtype):
            return None
        if part.kept.value is not None and not self._is_tree:
            try:
                value = np.asarray(self)
            except ArgumentError:
                value = np.asarray(part.whole())
            value = np.squeeze(value)
            if value.ndim == 1:
                return Lines({self.name: value}, xlabel=self.axes[0] if self.axes else "")
            if value.ndim == 2 and max(value.shape) <= _MOST:
                rows, columns = (list(map(str, range(n))) for n in value.shape)
                return Heat(value, rows, columns)
        stats = part.stats(each=False)
        assert stats is not None, "only keys have none"
        at = np.linspace(stats.min, stats.max, len(stats.histogram))
        return Lines({self.name: stats.histogram}, x=at, xlabel="histogram")

    def plot(self, ax: Any = None) -> Any:
        """Draw it, with matplotlib where that is installed; see `Answer.plot`.

        Args:
            ax: The axes of matplotlib to draw into; None makes a figure.
        """
        chart = self.chart()
        if chart is None:
            raise ArgumentError(f"plot: {self.name} has no numbers.")
        pyplot = optional("matplotlib.pyplot")
        if pyplot is None:
            return chart
        ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        chart.draw(ax)
        return ax


def _shape(part: Part) -> tuple[int, ...]:
    """The lengths of the loops and mesh axes."""
    kept = part.kept
    held = kept.table if kept.value is None else kept.value
    return tuple(held.shape[: len(kept.axes)])


def _occurrence(part: Part) -> int | None:
    return part.variable.occurrence if part.variable else None


def _said(part: Part) -> str:
    kept, stats = part.kept, part.stats(each=False)
    text = f"{part.name}{part.path}: {kept.dtype}{list(_shape(part)) + list(kept.shape)}"
    text += f" of ({', '.join(kept.axes)})" if kept.axes else ""
    if stats is not None:
        text += f", {stats.min:.4g} … {stats.max:.4g}, mean {stats.mean:.4g}"
        text += f", {nonfinite(stats)}" if stats.nonfinite else ""
    return text if kept.value is not None else f"{text}; statistics only"


def nonfinite(stats: Stats) -> str:
    """What is not finite, in words, such as ``"25% NaN, 5% -inf"``; empty if all is."""
    shares = {"NaN": stats.nan, "+inf": stats.posinf, "-inf": stats.neginf}
    return ", ".join(f"{100 * share:.3g}% {name}" for name, share in shares.items() if share)
