"""Two recordings: which of their values and results differ, and by how much."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._differences.aligned import order_of, reversed_loops, turns_of
from taxpr._differences.in_step import Pair
from taxpr._differences.numbers import apart, numbers
from taxpr._differences.precision import Tolerance
from taxpr._differences.rounding import Key, Pairs, more_than
from taxpr._differences.rows import Difference, row_of, row_of_result, without_copies, worst
from taxpr._differences.runs import Record, Run
from taxpr._programs.program import Program
from taxpr._recordings.part import Part
from taxpr._untyped import np


class Numbers(NamedTuple):
    """The numbers of a value in both runs.

    Attributes:
        axes: The loops and mesh axes around it, the leading axes of its numbers.
        a: Those of the first run.
        b: Those of the second run.
        ran: For each iteration whether both computed it.
        row: The `Difference` in one iteration.
    """

    axes: tuple[str, ...]
    a: Any
    b: Any
    ran: Any
    row: Callable[[tuple[int, ...]], Difference]


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
        self.backwards = reversed_loops(runs[0].program)
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
        """The differences: values in the order of execution, under all their names, then results.

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

    def nan_in_both(self) -> list[Difference]:
        """Values, in the order of execution, and results that are NaN at the same places."""
        found: list[tuple[tuple[float, ...], int, Difference]] = []
        for one, two in filter(lambda pair: _comparable(*pair), self._pairs):
            a, b, ran = _numbers_of(one, two)
            lead = len(one.kept.axes)
            both = (np.isnan(a) & np.isnan(b)).any(axis=tuple(range(lead, a.ndim)))
            every = [tuple(map(int, at)) for at in np.argwhere(both & ran[0] & ran[1])]
            if every:
                at = min(every, key=lambda at, one=one: turns_of(one, at, self.backwards))
                row = row_of((one, two), at, "")
                found.append((order_of(one, at, self.backwards), self._at[id(one)], row))
        rows: dict[Key, Difference] = {
            k: row for k, (*_, row) in enumerate(sorted(found, key=lambda one: one[:2]))
        }
        own, others = (one.out for one in self._both)
        for name in (name for name in own if name in others):
            a, b = (numbers(of[name]) for of in (own, others))
            if a.shape == b.shape and (np.isnan(a) & np.isnan(b)).any():
                rows[name] = row_of_result(name, None, a, b)
        return without_copies(rows)

    def doubtful(self, found: Mapping[Key, Difference]) -> list[Key]:
        """The keys of numbers that differ and were computed in one precision: rounding may do it.

        If one of them is less precise, rounding is the question.
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

    def values(self) -> Iterator[tuple[str, Numbers]]:
        """The values that have numbers in both runs, once each, by their addresses in the first."""
        done = set[str]()
        for one, two in self._pairs:
            if one.address not in done and _comparable(one, two):
                done.add(one.address)
                a, b, ran = _numbers_of(one, two)
                row = functools.partial(_row_of, one, two)
                yield one.address, Numbers(one.kept.axes, a, b, ran[0] & ran[1], row)

    def results(self, program: Program) -> Iterator[tuple[int, Numbers]]:
        """The results that have numbers in both runs, by their places."""
        inner = _compat.open_jaxpr(program.jaxpr)
        made = {id(var): eqn for eqn in inner.eqns for var in eqn.outvars}
        own, others = (one.out for one in self._both)
        for k, (name, atom) in enumerate(zip(own, inner.outvars, strict=False)):
            if name in others and own[name].shape == others[name].shape:
                a, b = (numbers(of[name]) for of in (own, others))
                row = functools.partial(row_of_result, name, made.get(id(atom)), a, b)
                yield k, Numbers((), a, b, np.True_, row)

    def _value(self, key: int, stays: Any) -> tuple[tuple[float, ...], Difference] | None:
        """How two values differ, and when that was computed; None where they do not."""
        one, two = self._pairs[key]

        def row(
            at: tuple[int, ...], what: str, *numbers: Any
        ) -> tuple[tuple[float, ...], Difference]:
            return order_of(one, at, self.backwards), row_of((one, two), at, what, *numbers)

        lead = len(one.kept.axes)
        if not _comparable(one, two):
            shapes = [f"{p.kept.dtype}{list(p.kept.shape)}" for p in (one, two)]
            return row((0,) * lead, f"{shapes[0]} and {shapes[1]}")
        a, b, ran = _numbers_of(one, two)
        wrong = self._differ(a, b, key, stays, lead)
        own = tuple(range(lead, wrong.ndim))
        bad = np.where(ran[0] & ran[1], wrong.any(axis=own), ran[0] != ran[1])
        if not bad.any():
            return None
        every = [tuple(map(int, at)) for at in np.argwhere(bad)]
        at = min(every, key=lambda at: turns_of(one, at, self.backwards))
        if not (ran[0][at] and ran[1][at]):
            return row(at, _times(one, at, ran))
        return row(at, "", a[at], b[at], wrong[at])

    def _result(self, name: str, stays: Any) -> Difference | None:
        """How two results differ; None where they do not."""

        def row(what: str, *most: Any) -> Difference:
            index, left, right, size = most or ((), None, None, None)
            return Difference(name, None, "", index, left, right, size, what, "", "", name)

        own, others = (one.out for one in self._both)
        if not (name in own and name in others):
            return row(f"is in {'a' if name in own else 'b'} only")
        a, b = (numbers(of[name]) for of in (own, others))
        if a.shape != b.shape:
            return row(f"{list(a.shape)} and {list(b.shape)}")
        wrong = self._differ(a, b, name, stays)
        return row("", *worst(a, b, wrong)) if wrong.any() else None

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


def _comparable(one: Part, two: Part) -> bool:
    a, b = one.kept, two.kept
    return a.shape == b.shape and len(a.axes) == len(b.axes)


def _numbers_of(one: Part, two: Part) -> tuple[Any, Any, list[Any]]:
    """Two values, and for each the iterations that computed it."""
    lead = len(one.kept.axes)
    values = [numbers(part.whole()) for part in (one, two)]
    # A while loop may have had other iterations: of those that one did not have it has nothing.
    most = tuple(map(max, *(x.shape[:lead] for x in values))) if lead else ()
    ran = [_extended(_ran(part, lead), most) for part in (one, two)]
    a, b = (_extended(x, most) for x in values)
    return a, b, ran


def _row_of(one: Part, two: Part, at: tuple[int, ...]) -> Difference:
    """How two values differ in one iteration."""
    a, b, _ = _numbers_of(one, two)
    return row_of((one, two), at, "", a[at], b[at], a[at] != b[at])


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
    """How often a value was computed in each run; only one run computed it here."""
    loops = [k for k, axis in enumerate(part.kept.axes) if ":" in axis]
    only = f"was computed in {'a' if ran[0][at] else 'b'} only"
    if not loops:
        return only
    k = loops[-1]  # how often the outer loops run is not what differs here
    each = [of[(*at[:k], slice(None), *at[k + 1 :])] for of in ran]
    a, b = (int(of.sum()) for of in each)
    times = f"ran {a} and {b} times"
    if all(of[: of.sum()].all() for of in each):
        return times
    return f"{only} in this iteration, {times} in all" if a and b else f"{only}, {times}"
