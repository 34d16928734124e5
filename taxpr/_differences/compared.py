"""Two recordings: which of their values and results differ, and by how much."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy

from taxpr._differences.aligned import Pair, order_of, reversed_loops, turns_of
from taxpr._differences.numbers import apart, numbers
from taxpr._differences.precision import Tolerance
from taxpr._differences.rounding import Key, Pairs, more_than
from taxpr._differences.runs import Record, Run
from taxpr._recordings.part import Part

np: Any = numpy  # which leaves types of arrays unknown


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value that differs between two runs.

    Attributes:
        variable: The variable, or the address of the value; ``out`` is the result.
        iteration: The iteration of the loops around it that ran first of those in which it differs.
        line: The line that made it.
        index: Where in the value the difference is greatest.
        a: The number there in the first run.
        b: The number there in the second run.
        difference: The greatest difference, in that iteration; None where there are no numbers
            to compare.
        what: What differs, where that is not a number.
        statement: The text of the line.
        file: The file.
        address: The address in the first run.
    """

    variable: str
    iteration: tuple[int, ...] | None
    line: str
    index: tuple[int, ...]
    a: Any
    b: Any
    difference: float | None
    what: str
    statement: str
    file: str
    address: str


class Compared:
    """Two recordings, with the values of both that belong together, and the results.

    Each pair has a key: of values its number, of results their name.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        both: Sequence[Record],
        pairs: Sequence[Pair],
        tolerance: Tolerance,
    ) -> None:
        self._both, self._pairs, self._tolerance = both, pairs, tolerance
        self._at = {id(part): k for one in both for k, part in enumerate(one.parts)}
        self._backwards = reversed_loops(runs[0].program)
        self._names = list(dict.fromkeys(name for one in both for name in one.out))
        self.dtypes: dict[Key, tuple[Any, ...]] = {
            k: tuple(map(Run.precision, runs, pair)) for k, pair in enumerate(pairs)
        }
        precise = [
            dict(zip(one.out, run.results, strict=False))  # an injected program has its ctx, too
            for one, run in zip(both, runs, strict=True)
        ]
        self.dtypes |= {name: tuple(of.get(name) for of in precise) for name in self._names}

    def rows(self, stays: Mapping[Key, Any]) -> dict[Key, Difference]:
        """What differs: values in the order of execution, under all their names, then results.

        Args:
            stays: For each number of some pairs whether its difference is more than rounding, see
                `lasting`.
        """
        found: list[tuple[tuple[tuple[float, ...], int], int, Difference]] = []
        for k, (one, _) in enumerate(self._pairs):
            row = self._value(k, stays.get(k))
            # Of the names of one value the one that was bound first comes first.
            found += [] if row is None else [((row[0], self._at[id(one)]), k, row[1])]
        results = {name: self._result(name, stays.get(name)) for name in self._names}
        values: dict[Key, Difference] = {
            k: row for _, k, row in sorted(found, key=lambda one: one[:2])
        }
        return values | {k: row for k, row in results.items() if row is not None}

    def doubtful(self, found: Mapping[Key, Difference]) -> list[Key]:
        """The keys of numbers that differ and were computed in one precision: rounding may do it.

        Where one of both is less precise, rounding is what is asked for.
        """
        return [k for k, row in found.items() if not row.what and len({*self.dtypes[k]}) == 1]

    def numbers(self, both: Sequence[Record], keys: Iterable[Key]) -> Pairs:
        """The numbers of some pairs, in recordings of the same programs."""
        found: dict[Key, tuple[Any, Any]] = {}
        for key in keys:
            if isinstance(key, int):
                at = [self._at[id(part)] for part in self._pairs[key]]
                values = [one.parts[k].whole() for one, k in zip(both, at, strict=True)]
            else:
                values = [one.out[key] for one in both]
            one, two = map(numbers, values)
            found[key] = one, two
        return found

    def _value(self, key: int, stays: Any) -> tuple[tuple[float, ...], Difference] | None:
        """How two values differ, and when that was computed; None where they do not."""
        one, two = self._pairs[key]

        def row(
            at: tuple[int, ...], what: str, *numbers: Any
        ) -> tuple[tuple[float, ...], Difference]:
            return order_of(one, at, self._backwards), _row(one, at, what, *numbers)

        values = [numbers(part.whole()) for part in (one, two)]
        lead = len(one.kept.axes)
        if one.kept.shape != two.kept.shape or lead != len(two.kept.axes):
            shapes = [f"{p.kept.dtype}{list(p.kept.shape)}" for p in (one, two)]
            return row((0,) * lead, f"{shapes[0]} and {shapes[1]}")
        # A while loop may have had other iterations: of those that one did not have it has nothing.
        most = tuple(map(max, *(x.shape[:lead] for x in values))) if lead else ()
        ran = [_extended(_ran(part, lead), most) for part in (one, two)]
        a, b = (_extended(x, most) for x in values)
        wrong = self._differ(a, b, key, stays, lead)
        own = tuple(range(lead, wrong.ndim))
        bad = np.where(ran[0] & ran[1], wrong.any(axis=own), ran[0] != ran[1])
        if not bad.any():
            return None
        every = [tuple(map(int, at)) for at in np.argwhere(bad)]
        at = min(every, key=lambda at: turns_of(one, at, self._backwards))
        if not (ran[0][at] and ran[1][at]):
            return row(at, _times(one, at, ran))
        return row(at, "", a[at], b[at], wrong[at])

    def _result(self, name: str, stays: Any) -> Difference | None:
        """How two results differ; None where they do not."""

        def row(what: str, *worst: Any) -> Difference:
            index, left, right, size = worst or ((), None, None, None)
            return Difference(name, None, "", index, left, right, size, what, "", "", name)

        own, others = (one.out for one in self._both)
        if not (name in own and name in others):
            return row(f"is in {'a' if name in own else 'b'} only")
        a, b = (numbers(of[name]) for of in (own, others))
        if a.shape != b.shape:
            return row(f"{list(a.shape)} and {list(b.shape)}")
        wrong = self._differ(a, b, name, stays)
        return row("", *_worst(a, b, wrong)) if wrong.any() else None

    def _differ(self, a: Any, b: Any, key: Key, stays: Any, lead: int = 0) -> Any:
        """For each number whether two arrays of one shape differ."""
        with np.errstate(all="ignore"):
            far = apart(a, b) > self._tolerance.of(a, b, self.dtypes[key])
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        wrong = ~same & (far | ~finite)
        if stays is None:
            return wrong
        return more_than(wrong, _extended(stays, wrong.shape[:lead]), lead)


def without_copies(found: Mapping[Key, Difference]) -> list[Difference]:
    """One row for each value, whatever names it has."""
    first: dict[str, Difference] = {}
    for row in found.values():
        first.setdefault(row.address, row)
    return list(first.values())


def _ran(part: Part, lead: int) -> Any:
    """For each iteration whether a value was computed."""
    fired = part.kept.fired
    return np.ones(part.whole().shape[:lead], bool) if fired is None else fired


def _extended(x: Any, lead: tuple[int, ...]) -> Any:
    """An array with so many iterations, zero or False in those that it had not."""
    if x.shape[: len(lead)] == lead:
        return x
    more = [(0, most - size) for most, size in zip(lead, x.shape, strict=False)]
    return np.pad(x, more + [(0, 0)] * (x.ndim - len(lead)))


def _times(part: Part, at: tuple[int, ...], ran: Sequence[Any]) -> str:
    """How often a value was computed in both runs, of which one computed it here."""
    loops = [k for k, axis in enumerate(part.kept.axes) if ":" in axis]
    only = f"was computed in {'a' if ran[0][at] else 'b'} only"
    if not loops:
        return only
    k = loops[-1]  # how often the outer loops run is not what differs here
    each = [of[(*at[:k], slice(None), *at[k + 1 :])] for of in ran]
    a, b = (int(of.sum()) for of in each)
    times = f"ran {a} and {b} times"
    return times if all(of[: of.sum()].all() for of in each) else f"{only}, {times}"


def _row(part: Part, at: tuple[int, ...], what: str, *numbers: Any) -> Difference:
    index, left, right, size = _worst(*numbers) if numbers else ((), None, None, None)
    file = part.file or ""
    each = list(zip(part.kept.axes, at, strict=False))
    lanes = tuple(k for axis, k in each if axis.startswith("vmap "))
    return Difference(
        part.name + part.path,
        tuple(k for axis, k in each if not axis.startswith("vmap ")) or None,
        part.place,
        (*lanes, *index),
        left,
        right,
        size,
        what,
        linecache.getline(file, part.line or 0).strip() if file else "",
        file,
        str(part.address),
    )


def _worst(a: Any, b: Any, wrong: Any) -> tuple[tuple[int, ...], Any, Any, float]:
    """Where two arrays differ most, both numbers, and by how much."""
    with np.errstate(all="ignore"):
        size = apart(a, b)
    size = np.where(wrong, np.where(np.isnan(size), np.inf, size), 0.0)
    at = np.unravel_index(int(np.argmax(size)), size.shape)
    return tuple(map(int, at)), a[at].item(), b[at].item(), float(size[at])
