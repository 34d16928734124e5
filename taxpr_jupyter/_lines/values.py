"""The values of a recording at a cursor: one iteration and one example, or all of them.

Each value has a `Chip`: a few words with a curve over the iterations. Source, picture and inspector
show the same chips.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import taxpr
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._model.model import count_of

NOT_RUN = "did not run"
POINTS = 48  # of a curve
COTANGENT = "∂ "  # before the address of a value: its cotangent
_NOT_FINITE = {"nan": "NaN", "posinf": "+inf", "neginf": "-inf"}
_NUMBERS = ("min", "max", "mean", "std", *_NOT_FINITE)
_SHOWN = 40  # values in the text


class Curve(NamedTuple):
    """The means of a value over the iterations of the outermost loop around it.

    Attributes:
        points: At most `POINTS` means, on a scale from the least one, 0, to the greatest one, 1.
            Of more iterations each is the mean of neighbours. None where none ran or was finite.
        wrong: The places of points with an element that is not finite.
        iterations: How many iterations there are.
    """

    points: tuple[float | None, ...]
    wrong: tuple[int, ...]
    iterations: int


class Chip(NamedTuple):
    """A value at a glance.

    Attributes:
        name: The variables that held it.
        words: The mean and the standard deviation of its finite elements, ``"2.5 ± 1.9"``; a single
            number as it is; ``"all 3"`` where all are equal; or that it did not run.
        wrong: How much is not finite, such as ``"25% NaN"``; empty if all is finite.
        span: The least and the greatest finite element, ``"0 … 6"``; empty if they are equal.
        curve: Its curve; None if it was in no loop.
    """

    name: str
    words: str
    wrong: str
    span: str
    curve: Curve | None

    def __str__(self) -> str:
        parts = self.words, self.span and f"({self.span})", self.wrong
        return " ".join(filter(None, parts))


class ValuesAt:
    """The values that variables held in a recorded run.

    Attributes:
        recording: The recording.
        iteration: Which iteration of the outermost loops it shows, from 0; None for all.
        example: Which example it shows, from 0: the index of the outermost `jax.vmap`. None for
            all. A value outside of it has no examples, and is shown as it is.
        iterations: How many iterations the longest loop has that is in no other.
        examples: How many examples there are; 0 without a `jax.vmap`. Of several the first one
            counts.
        nonfinite: How many elements are not finite, by address; without those that all are.
        changed: Whether the changes of a session took part.
        curves: The curves of values in loops, by address.

    Args:
        recording: The recording.
        places: The addresses in the present program, by the addresses in the recording; None if
            they are the same.
        changed: As the attribute.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(xs):
        ...     return jax.lax.scan(lambda t, x: (taxpr.tag(t + x, name="t"), t), 0 * xs[0], xs)
        >>> values = ValuesAt(taxpr.watch(f, {"name": "t"})(jnp.arange(4.0)))
        >>> print(values)
        t  2.5 ± 2.29 (0 … 6)
        >>> print(values.at(iteration=2))
        t  3
        >>> values["t"][0].curve.points
        (0.0, 0.167, 0.5, 1.0)
    """

    def __init__(
        self,
        recording: taxpr.questions.Recording,
        places: Mapping[str, str] | None = None,
        *,
        changed: bool = False,
    ) -> None:
        self.recording = recording
        self.changed = changed
        self._places = places
        self.iteration: int | None = None
        self.example: int | None = None
        self._parts: dict[str, Any] = {}
        self._names: dict[str, dict[str, None]] = {}
        made: dict[str, set[str]] = {}  # by a value the addresses of its cotangents
        for part in recording.parts:
            if at := self._place(part):
                self._parts.setdefault(at, part)
                made.setdefault(at, set()).add(part.address)
                self._names.setdefault(at, {})[part.name + part.path] = None
        for at, addresses in made.items():
            if len(addresses) > 1:  # of two derivatives, or of one argument of a call alone
                del self._parts[at]
        self.examples = next(filter(None, (part.examples for part in self._parts.values())), 0)
        self._look()
        self.iterations = max((one.iterations for one in self._rows.values()), default=0)
        values = ((at, rows) for at, rows in self._rows.items() if not at.startswith(COTANGENT))
        counts = {address: one.nonfinite for address, one in values}
        self.nonfinite = {address: number for address, number in counts.items() if number}

    def at(self, iteration: int | None = None, example: int | None = None) -> ValuesAt:
        """The same at an iteration and an example.

        Args:
            iteration: See the attribute.
            example: See the attribute.

        Raises:
            PanelError: There is no such iteration or example.
        """
        made = copy.copy(self)
        made.iteration = _one_of(iteration, self.iterations, "iteration", "no value is in a loop")
        why = "no value is in a jax.vmap, or only statistics were kept"
        made.example = _one_of(example, self.examples, "example", why)
        if made.example != self.example:
            made._look()
        return made

    def _look(self) -> None:
        """Looks at the values of the example."""
        self._rows = {address: self._rows_of(part) for address, part in self._parts.items()}
        loops: dict[str, int] = {}  # a branch may not have run in the last iteration
        for one in self._rows.values():
            loops[one.loop] = max(one.iterations, loops.get(one.loop, 0))
        for one in self._rows.values():
            one.curve = one.made_curve(loops[one.loop])
        self.curves = {at: one.curve for at, one in self._rows.items() if one.curve is not None}

    def near(self, other: ValuesAt) -> ValuesAt:
        """The same where another recording is shown, as far as this one has that."""
        iteration, example = (
            None if at is None or at >= many else at
            for at, many in ((other.iteration, self.iterations), (other.example, self.examples))
        )
        return self.at(iteration, example)

    def _rows_of(self, part: Any) -> _Rows:
        """The statistics of a value, of the example if it has that one apart."""
        if self.example is None:
            return _Rows(part)
        if part.examples == self.examples:
            return _Rows(part.of_example(self.example))
        # The axes of a cotangent may not be known.
        is_mapped = part.variable is not None and bool(part.variable.mapped)
        return _Rows(part, "all examples: " if is_mapped else "")

    def _place(self, part: Any) -> str | None:
        """The address of a value, after `COTANGENT` of the value that a cotangent belongs to."""
        own = str(part.variable.address) if part.cotangent else part.address
        at = own if self._places is None else self._places.get(own)
        return f"{COTANGENT}{at}" if at and part.cotangent else at

    @property
    def with_cotangents(self) -> bool:
        """Whether cotangents were recorded."""
        return any(part.cotangent for part in self.recording.parts)

    @property
    def chips(self) -> dict[str, Chip]:
        """The chip of each value, by its address, in the order of execution.

        The chip of its cotangent has the key ``"∂ "`` and this address. It is missing if the value
        has several, as where two functions are differentiated with respect to it.
        """
        found = {
            address: rows.chip(" = ".join(self._names[address]), self.iteration)
            for address, rows in self._rows.items()
        }
        return {address: chip for address, chip in found.items() if chip is not None}

    def chip_of(self, part: Any, name: str) -> Chip:
        """The chip of another value of the same iterations, at the cursor.

        Args:
            part: The value, as a recording has it; of the example alone if there is a cursor on it.
            name: Its name.
        """
        rows = _Rows(part)
        rows.curve = rows.made_curve(rows.iterations)
        return rows.chip(name, self.iteration) or Chip(name, "no elements", "", "", None)

    def values(self) -> list[str]:
        """The addresses of the values that have numbers, without cotangents."""
        there = (address for address, rows in self._rows.items() if rows.table is not None)
        return [address for address in there if not address.startswith(COTANGENT)]

    def __getitem__(self, name: str) -> list[Chip]:
        """The chips of a variable, of a tag, or of an address: one for each value.

        Raises:
            PanelError: Nothing of this name was recorded.
        """
        try:
            parts = self.recording[name].parts
        except taxpr.TaxprError as error:
            raise PanelError(one_line(error)) from None
        chips = self.chips
        return [chips[one] for one in dict.fromkeys(map(self._place, parts)) if one in chips]

    def __repr__(self) -> str:
        chips = list(self.chips.values())
        shown = chips[:_SHOWN]
        width = max((len(one.name) for one in shown), default=0)
        lines = [f"{one.name.ljust(width)}  {one}" for one in shown]
        more = len(chips) - len(shown)
        return "\n".join([*lines, *[f"… {count_of(more, 'more value')}"] * bool(more)])


def _one_of(number: Any, many: int, what: str, why: str) -> int | None:
    """The number itself, as an int.

    Raises:
        PanelError: There are not so many.
    """
    if number is None:
        return None
    try:
        found = operator.index(number)
    except TypeError:
        found = -1
    if isinstance(number, bool) or not 0 <= found < many:
        there = f"there are {many}, from 0" if many else why
        raise PanelError(f"There is no {what} {number!r}: {there}; None means all of them")
    return found


class _Rows:
    """The statistics of each firing of a value."""

    def __init__(self, part: Any, prefix: str = "") -> None:
        one = taxpr.questions.Recorded(part.name, (part,))
        stats = one.stats(each=True)
        self.prefix = prefix
        self.iterations = _iterations(one)
        self.loop = one.axes[0] if one.axes and ":" in one.axes[0] else ""
        self.curve: Curve | None = None
        self.table = None
        self.nonfinite = 0
        if stats is None:  # of a PRNG key
            return
        self.size = stats.size
        table = np.stack([np.asarray(getattr(stats, name), float) for name in _NUMBERS], -1)
        ran = np.broadcast_to(
            True if one.fired is None else np.asarray(one.fired), table.shape[:-1]
        )
        lead = (table.shape[0], -1) if self.loop else (1, -1)
        self.table = table.reshape((*lead, len(_NUMBERS)))
        self.ran = ran.reshape(lead)
        wrong = self.table[self.ran][:, 4:]
        self.nonfinite = round(float(np.nan_to_num(wrong).sum()) * self.size)

    def chip(self, name: str, iteration: int | None) -> Chip | None:
        """The chip of one iteration, or of all; None if it has no numbers."""
        if self.table is None:
            return None
        table, ran = self.table, self.ran
        if iteration is not None and self.iterations:
            if iteration >= self.iterations:
                return Chip(name, NOT_RUN, "", "", self.curve)
            table, ran = table[iteration : iteration + 1], ran[iteration : iteration + 1]
        rows = table[ran]
        if not len(rows):
            return Chip(name, NOT_RUN, "", "", self.curve)
        words, wrong, span = _said(rows, self.size)
        if not words and not wrong:  # it has no elements
            return None
        return Chip(name, self.prefix + words, wrong, span, self.curve)

    def made_curve(self, iterations: int) -> Curve | None:
        """The curve over so many iterations; None if there are not several."""
        if self.table is None or iterations < 2:
            return None
        table, ran = self.table, self.ran
        means, wrong = list[float](), list[int]()
        if table.shape[1] == 1 and iterations <= POINTS:  # the same, quicker
            there = ran[:iterations, 0]
            rows = table[:iterations, 0]
            means = [*np.where(there, rows[:, 2], np.nan), *[np.nan] * (iterations - len(rows))]
            wrong = np.flatnonzero(there & (rows[:, 4:] > 0).any(-1)).tolist()
            return _curve(np.array(means), wrong, iterations)
        groups = np.array_split(np.arange(iterations), min(POINTS, iterations))
        for k, group in enumerate(groups):
            there = group[group < len(table)]
            rows = table[there][ran[there]]
            finite = rows[~np.isnan(rows[:, 2])]
            weights = 1 - finite[:, 4:].sum(-1)
            mean = np.average(finite[:, 2], weights=weights) if len(finite) else np.nan
            means.append(float(mean))
            if len(rows) and rows[:, 4:].any():
                wrong.append(k)
        return _curve(np.array(means), wrong, iterations)


def _curve(known: Any, wrong: Sequence[int], iterations: int) -> Curve:
    """The curve through means, with gaps at NaN."""
    finite = known[np.isfinite(known)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    width = high / 2 - low / 2  # the whole may be no float
    places = (known / 2 - low / 2) / width if width else np.where(np.isfinite(known), 0.5, known)
    points = tuple(None if np.isnan(one) else round(float(one), 3) for one in places)
    return Curve(points, tuple(wrong), iterations)


def _iterations(one: taxpr.questions.Recorded) -> int:
    """How often the outermost loop around a value ran; 0 without a loop."""
    if not one.axes or ":" not in one.axes[0]:
        return 0
    if one.fired is None:
        return one.shape[0]
    fired = np.asarray(one.fired)
    ran = fired.any(tuple(range(1, fired.ndim)))
    return int(ran.nonzero()[0].max(initial=-1)) + 1


def _said(rows: Any, size: int) -> tuple[str, str, str]:
    """The words, what is wrong, and the span of all firings together."""
    low, high, means, stds = rows[:, :4].T
    shares = dict(zip(_NOT_FINITE.values(), 100 * rows[:, 4:].mean(0), strict=True))
    wrong = ", ".join(f"{share:.3g}% {word}" for word, share in shares.items() if share)
    finite = ~np.isnan(means)
    if not finite.any():
        single = size == 1 and len(rows) == 1
        return "", wrong.removeprefix("100% ") if single else wrong, ""
    weights = (1 - rows[:, 4:].sum(-1))[finite]
    low, high, means, stds = (one[finite] for one in (low, high, means, stds))
    least, most = low.min(), high.max()
    if size == 1 and len(rows) == 1:
        return f"{least:.4g}", wrong, ""
    if least == most:
        return f"all {least:.4g}", wrong, ""
    mean = np.average(means, weights=weights)
    # Squares of large deviations are infinite.
    parts = np.hypot(stds, means - mean) * np.sqrt(weights / weights.sum())
    return f"{mean:.4g} ± {np.hypot.reduce(parts):.3g}", wrong, f"{least:.4g} … {most:.4g}"
