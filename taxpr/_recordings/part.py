"""`KeptValue`: what a run kept of a value; and `Part`, that with one of the value's names."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr._devices.fetched import fetched, is_shared, lies_on
from taxpr._errors import ArgumentError
from taxpr._places import place_text
from taxpr._recordings.summary import Stats, each_of, has_stats, stats_of, summarized
from taxpr._untyped import np
from taxpr._variables.variable import Variable


@dataclasses.dataclass(eq=False)
class KeptValue:
    """One value as a run kept it.

    Attributes:
        axes: The loops and mesh axes that are the leading axes of the kept array.
        shape: The shape of the value each time.
        dtype: Its dtype.
        value: All of it; None if only statistics were kept.
        table: The summaries, with the leading axes, and with batch axes if it has each batch
            element apart; None if they are made on demand.
        fired: For each iteration and device whether the value was computed; None for all.
        sharding: How the value was divided among devices, where the host has it whole.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any
    value: Any = None
    table: Any = None
    fired: Any = None
    sharding: Any = None

    def lies_on(self, at: Mapping[str, int], place: Sequence[int] | None) -> tuple[str, int | None]:
        """The device that has an element, such as ``"d=5"``, and its process if there are several.

        Args:
            at: The iterations and devices, by the names of the leading axes.
            place: The place of the element in all that was kept; None where it is not known.
        """
        on, process = ("", None) if place is None else lies_on(self.value, place, self.sharding)
        mesh = {k.removeprefix("mesh "): n for k, n in at.items() if "mesh " in k}
        more = [one for one in on.split(", ") if one and one.partition("=")[0] not in mesh]
        return ", ".join([*(f"{name}={n}" for name, n in mesh.items()), *more]), process

    def summaries(self) -> Any:
        """The summaries of each iteration and device."""
        if self.table is None:
            self.table = summarized(self.value, len(self.axes))
        return self.table


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """One value of a program, by one of its names.

    Attributes:
        name: The name: a variable, a tag's name, or an address.
        path: Its path in the value of the name.
        address: The address of the value; a cotangent by ``grads`` has its value's.
        file: The file of the source that made it; None if it is not known.
        line: The line.
        function: The function.
        variable: The variable; None if unknown.
        mapped: The axes of the value that `jax.vmap` has put into it.
        kept: The kept value.
        cotangent: Whether it is the cotangent of the variable's value.
    """

    name: str
    path: str
    address: str
    file: str | None
    line: int | None
    function: str
    variable: Variable | None
    mapped: tuple[int, ...]
    kept: KeptValue
    cotangent: bool = False

    @property
    def place(self) -> str:
        """The line, such as ``"model.py:12"``; empty where it is not known."""
        return place_text(self.file, self.line)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes of the kept array."""
        vmaps = {axis: f"vmap {k}" for k, axis in enumerate(self.mapped)}
        own = iter(range(len(self.kept.shape)))
        return (
            *self.kept.axes,
            *(vmaps.get(k) or f"axis {next(own)}" for k in range(len(self.kept.shape))),
        )

    @property
    def loops(self) -> tuple[int, ...]:
        """The lengths of the loops and mesh axes."""
        held = self.kept.table if self.kept.value is None else self.kept.value
        return tuple(held.shape[: len(self.kept.axes)])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all that was kept."""
        return (*self.loops, *self.kept.shape)

    @property
    def type(self) -> str:
        """The dtype and the shape, such as ``"float32[3, 2]"``."""
        return f"{self.kept.dtype}{list(self.shape)}"

    @property
    def occurrence(self) -> int | None:
        """Which of the values of its variable it is; None where none is known."""
        return self.variable.occurrence if self.variable else None

    @property
    def examples(self) -> int:
        """How many examples the outermost `jax.vmap` around it has; 0 without one.

        Also 0 where the examples are not apart: only statistics of all of them were kept, or other
        processes have some.
        """
        at = self.example_axis
        return 0 if at is None else self.shape[at]

    @property
    def example_axis(self) -> int | None:
        """Which of its axes has the examples; None if it has none."""
        numbers = {k: axis for k, axis in enumerate(self.axes) if axis.startswith("vmap ")}
        if not numbers or is_shared(self.kept.value):
            return None
        at = max(numbers, key=lambda k: int(numbers[k].removeprefix("vmap ")))
        return at if at < len(self.kept.axes) or self.kept.value is not None else None

    def of_example(self, number: int) -> "Part":
        """The same of one example, without that axis.

        Args:
            number: Which of its `examples`, from 0.
        """
        at, kept, lead = self.example_axis, self.kept, len(self.kept.axes)
        assert at is not None, "it has no examples"
        index = (*[slice(None)] * at, number)
        value = None if kept.value is None else kept.value[index]
        if at >= lead:
            own = at - lead
            shape = kept.shape[:own] + kept.shape[own + 1 :]
            mapped = tuple(k - (k > own) for k in self.mapped if k != own)
            changed = dataclasses.replace(kept, shape=shape, value=value, table=None)
            return dataclasses.replace(self, mapped=mapped, kept=changed)
        axes = kept.axes[:at] + kept.axes[at + 1 :]
        table, fired = (None if x is None else x[index] for x in (kept.table, kept.fired))
        changed = dataclasses.replace(kept, axes=axes, value=value, table=table, fired=fired)
        return dataclasses.replace(self, kept=changed)

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
        """Its statistics; None if its dtype has none."""
        if not has_stats(self.kept.dtype):
            return None
        size = int(np.prod(self.kept.shape, dtype=np.int64))
        table = self.kept.summaries()
        if each:
            return each_of(table, size, self.kept.fired)
        # A table of all iterations has to wait for no other process.
        if self.kept.value is not None and table.ndim > 1 and not is_shared(self.kept.value):
            whole = dataclasses.replace(self.kept, axes=(), table=None, value=self._fired())
            return each_of(whole.summaries(), int(whole.value.size))
        return stats_of(table, size, self.kept.fired)

    def _fired(self) -> Any:
        value = fetched(self.kept.value)
        return value if self.kept.fired is None else value[self.kept.fired]
