"""`Recorded`: the values of one name in a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from taxpr._answers.charts import Chart, Heat, Lines, optional
from taxpr._answers.count_of import count_of
from taxpr._compat import is_extended
from taxpr._devices.fetched import fetched
from taxpr._errors import ArgumentError, is_whole
from taxpr._recordings.as_array import AsArray, index_of
from taxpr._recordings.part import Part
from taxpr._recordings.summary import Stats
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_map: Any = jax.tree.map

_MOST = 64  # rows and columns of a picture of a value
_SHOWN = 6  # values in a message


class Recorded(AsArray):
    """The values that a recording kept for one name; JAX and NumPy take it as an array.

    Indexing, arithmetic and comparison use its `value`. A name may also mean several values: a
    variable that is assigned again, one after the other, or the arrays of a PyTree. The values of a
    variable are stacked to one array if they have one shape. Else an error lists them: `at` gives
    one of them, and `value` all.

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
        >>> total[1:] - total[:-1], float(total.max())
        (Array([1., 2., 3.], dtype=float32), 6.0)
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
        types = {(p.kept.shape, p.kept.axes, p.kept.dtype, p.loops) for p in self.parts}
        return len(self.parts) > 1 and len(types) == 1 and not self._is_tree

    def _of_paths(self) -> dict[str, Recorded]:
        found: dict[str, list[Part]] = {}
        for part in self.parts:
            found.setdefault(part.path, []).append(part)
        return {path: Recorded(self.name + path, tuple(of)) for path, of in found.items()}

    @property
    def value(self) -> Any:
        """The value: an array with the axes `axes`.

        Several values of one shape are stacked on a leading axis, others are a tuple, and a PyTree
        is a dict by paths. If a value was not computed, as in a branch that was not taken, it is
        zero; see `fired`.

        Raises:
            ArgumentError: If only statistics were kept.
        """
        if self._is_tree:
            return {path: one.value for path, one in self._of_paths().items()}
        if self._is_stacked:
            return _stacked([part.whole() for part in self.parts])
        first, *more = self.parts
        return (first.whole(), *(one.whole() for one in more)) if more else first.whole()

    @property
    def array(self) -> Any:
        """The value, if it is a single array.

        Raises:
            ArgumentError: If there are several of different shapes, or only statistics were kept.
        """
        self._refuse_several()
        return self.value

    def _refuse_several(self) -> None:
        if len(self.parts) == 1 or self._is_stacked:
            return
        if self._is_tree:
            shown, whole = list(self._of_paths()), "dict"
            one = f"by its path, as rec[{self.name + shown[0]!r}]"
        else:
            shown = [f"{part.type} {part.place}".strip() for part in self.parts]
            numbers = [str(_number(k, part)) for k, part in enumerate(self.parts)]
            few = ", ".join(numbers[:_SHOWN] + ["…"] * (len(numbers) > _SHOWN))
            one, whole = f"by .at(k), where k is {few}", "tuple"
        more = [f"and {len(shown) - _SHOWN} more"] * (len(shown) > _SHOWN)
        raise ArgumentError(
            f"{self.name} is {len(self.parts)} arrays of different shapes, and no array: "
            f"{', '.join(shown[:_SHOWN] + more)}. Take one {one}; all of them are the {whole} "
            ".value."
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes: loops, mesh axes, axes of `jax.vmap`, and others."""
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
        """The dtype of `value`; an `ArgumentError` says where this is not one array."""
        self._refuse_several()
        return self.parts[0].kept.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `value`; an `ArgumentError` says where this is not one array."""
        self._refuse_several()
        own = self.parts[0].shape
        return (len(self.parts), *own) if self._is_stacked else own

    @property
    def ndim(self) -> int:
        """The number of axes of `value`."""
        return len(self.shape)

    @property
    def at(self) -> At:
        """Called, it gives one of several values, or one iteration; indexed, ``at`` of the array.

        ``at(k)`` is the value of occurrence ``k``, ``at(step=k)`` the value in iteration ``k``: see
        `At.__call__`. ``at[k].set(0)`` is a changed copy of the array, as in JAX.
        """
        return At(self._one, lambda: self.array)

    def _one(self, occurrence: int | None, step: int | tuple[int, ...] | None) -> Any:
        one = self if occurrence is None else Recorded(self.name, self._of_occurrence(occurrence))
        if step is None:
            return one.value
        steps: tuple[Any, ...] = step if isinstance(step, tuple) else (step,)
        first = one.parts[0]
        lead = 1 if one._is_stacked else 0
        loops = [k for k, axis in enumerate(first.axes) if ":" in axis]
        sizes = [first.shape[k] for k in loops]
        whole = all(is_whole(k) for k in steps)
        if (
            not whole
            or len(steps) > len(loops)
            or any(not -n <= s < n for s, n in zip(steps, sizes, strict=False))
        ):
            raise ArgumentError(
                f"at: step={step}: {self.name} has "
                + (f"{' × '.join(map(str, sizes))} iterations." if sizes else "no iterations.")
            )
        index: list[Any] = [slice(None)] * (lead + len(first.axes))
        for axis, number in zip(loops, steps, strict=False):
            index[lead + axis] = number

        def there(x: Any) -> Any:
            return x[tuple(index)]

        return _map(there, one.value)

    def _of_occurrence(self, number: Any) -> tuple[Part, ...]:
        found: list[Part] = []
        if is_whole(number):
            found = [part for part in self.parts if part.occurrence == number]
            found = found or list(self.parts[number : number + 1])
        if not found:
            n = len({_number(k, part) for k, part in enumerate(self.parts)})
            loops = any(":" in axis for axis in self.axes)
            raise ArgumentError(
                f"at: occurrence {number!r}: {self.name} has {count_of(n, 'value')}, from 0."
                + f" An iteration is at(step={number!r})." * loops
            )
        return tuple(found)

    def stats(self, *, each: bool = False) -> Any:
        """Statistics of all elements.

        Args:
            each: Whether to make them for each iteration and device, with their axes. If the value
                was not computed, all but the histogram is NaN.

        Returns:
            A `Stats`; a list of these for several values; None for PRNG keys.
        """
        found = [part.stats(each) for part in self.parts]
        return found[0] if len(found) == 1 else found

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
                value = fetched(part.whole())
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
        """Draw it, with matplotlib if that is installed; see `Answer.plot`.

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


class At:
    """The values of a `Recorded` by occurrence and iteration, and updates of its array."""

    def __init__(self, one: Callable[..., Any], array: Callable[[], Any]) -> None:
        self._one, self._array = one, array

    def __call__(
        self, occurrence: int | None = None, *, step: int | tuple[int, ...] | None = None
    ) -> Any:
        """One of several values, or the value in one iteration of the loops around it.

        Args:
            occurrence: Which of several values of a variable, from 0.
            step: The iteration, from 0; for nested loops one each, the outermost first.

        Raises:
            ArgumentError: If there is no such value or iteration.
        """
        return self._one(occurrence, step)

    def __getitem__(self, index: Any) -> Any:
        """The elements to update, as ``x.at[index]`` of a JAX array.

        Raises:
            ArgumentError: If the name means several arrays.
        """
        return jnp.asarray(self._array()).at[index_of(index)]


def _flat(one: Recorded) -> tuple[tuple[Any], None]:
    return (one.array,), None


def _from_flat(_: None, arrays: tuple[Any]) -> Any:
    return arrays[0]


# JAX takes no other objects as arguments of jitted functions; these get the array itself.
_jax.tree_util.register_pytree_node(Recorded, _flat, _from_flat)


def _stacked(values: list[Any]) -> Any:
    """Stack values on a new axis, with the first one's sharding if that is part of the type."""
    first, *rest = values
    expected = _jax.typeof(first).sharding
    alike = (
        x if _jax.typeof(x).sharding == expected else _jax.device_put(x, first.sharding)
        for x in rest
    )
    return jnp.stack([first, *alike])


def _number(place: int, part: Part) -> int:
    """The number of a part for `Recorded.at`."""
    return place if part.occurrence is None else part.occurrence


def _said(part: Part) -> str:
    kept, stats = part.kept, part.stats(each=False)
    text = f"{part.name}{part.path}: {part.type}"
    text += f" of ({', '.join(kept.axes)})" if kept.axes else ""
    if stats is not None and not stats.size:
        text += ", empty" if 0 in kept.shape else ", did not run"
    elif stats is not None:
        text += f", {stats.min:.4g} … {stats.max:.4g}, mean {stats.mean:.4g}"
        text += f", {nonfinite(stats)}" if stats.nonfinite else ""
    return text if kept.value is not None else f"{text}; statistics only"


def nonfinite(stats: Stats) -> str:
    """The shares that are not finite, such as ``"25% NaN, 5% -inf"``; empty if all is finite."""
    shares = {"NaN": stats.nan, "+inf": stats.posinf, "-inf": stats.neginf}
    return ", ".join(f"{100 * share:.3g}% {name}" for name, share in shares.items() if share)
