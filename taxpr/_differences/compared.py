"""Two recordings: which of their values and results differ, and by how much.

Each process compares the parts that it has.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._devices.blocks import Processes
from taxpr._differences.aligned import iterations_of, order_of, reversed_loops
from taxpr._differences.in_both import InBoth, Numbers, extended, in_both, worst_of_all
from taxpr._differences.in_step import Pair
from taxpr._differences.numbers import apart, comparable, words
from taxpr._differences.precision import Tolerance
from taxpr._differences.rounding import OF, BlockPairs, Key
from taxpr._differences.rows import Difference, Worst, row_of, row_of_result, without_copies
from taxpr._differences.runs import Record, Run
from taxpr._recordings.part import Part
from taxpr._untyped import np


class Compared:
    """Two recordings, with the values of both that belong together, and the results.

    Each pair has a key: of values its number, of results their name.

    Attributes:
        known: The numbers of the pairs that can be compared, by their keys.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        both: Sequence[Record],
        pairs: Sequence[Pair],
        tolerance: Tolerance,
        together: Processes,
    ) -> None:
        self._both, self._pairs, self._tolerance = both, pairs, tolerance
        self._together = together
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

        self.known: dict[Key, InBoth] = {
            k: in_both(together, *pair) for k, pair in enumerate(pairs) if _comparable(*pair)
        }
        for name in self._names:
            one, two = (each.out.get(name) for each in both)
            if one is not None and two is not None and one.shape == two.shape:
                self.known[name] = InBoth(together, (one, two))
        inner = _compat.open_jaxpr(runs[0].program.jaxpr)
        made = {id(var): eqn for eqn in inner.eqns for var in eqn.outvars}
        # The results of the first run, in their order, with the equations that made them.
        self._made = {
            name: (k, made.get(id(atom)))
            for k, (name, atom) in enumerate(zip(both[0].out, inner.outvars, strict=False))
        }

    def rows(
        self, stays: Mapping[Any, Any] | None = None, doubtful: Collection[Key] = ()
    ) -> dict[Key, Difference]:
        """The differences: values in the order of execution, under all their names, then results.

        Args:
            stays: For each number of some pairs whether its difference is more than rounding, see
                `lasting`.
            doubtful: The keys of these pairs.
        """
        stays = stays or {}
        counts = self._counts(stays)
        bad: dict[Key, tuple[int, ...]] = {}
        for key, one in self.known.items():
            wrong, lasts = counts[key]
            # One may seem to last by chance, and one that does counts for all, so that it takes a
            # share of them.
            is_wrong = OF * lasts > wrong if key in doubtful else wrong > 0
            differs = np.where(one.ran[0] & one.ran[1], is_wrong, one.ran[0] != one.ran[1])
            at = self._first(key, differs)
            bad |= {} if at is None else {key: at}
        worst = worst_of_all(
            self._together,
            {
                key: self.known[key].worst(at, functools.partial(self._lasting, key, stays))
                for key, at in bad.items()
                if all(of[at] for of in self.known[key].ran) and not self.known[key].is_key
            },
        )
        found: list[tuple[tuple[tuple[float, ...], int], int, Difference]] = []
        for k, pair in enumerate(self._pairs):
            at, what = bad.get(k), ""
            if k not in self.known:
                at = (0,) * len(pair[0].kept.axes)
                what = " and ".join(f"{p.kept.dtype}{list(p.kept.shape)}" for p in pair)
            elif at is not None and k not in worst:
                ran = self.known[k].ran
                what = _KEY if all(of[at] for of in ran) else _times(pair[0], at, ran)
            if at is not None:
                row = row_of(pair, at, what, worst.get(k, Worst()))
                # Of the names of one value the one that was bound first comes first.
                order = order_of(pair[0], at, self.backwards), self._at[id(pair[0])]
                found.append((order, k, row))
        values: dict[Key, Difference] = {
            k: row for _, k, row in sorted(found, key=lambda one: one[:2])
        }
        own, others = (one.out for one in self._both)
        for name in self._names:
            what = (
                ""
                if name in own and name in others
                else f"is in {'a' if name in own else 'b'} only"
            )
            if not what and name not in self.known:
                what = f"{list(own[name].shape)} and {list(others[name].shape)}"
            elif not what and name in bad and name not in worst:
                what = _KEY
            if what or name in worst:
                values[name] = row_of_result(
                    name, own.get(name), None, what, worst.get(name, Worst())
                )
        return values

    def rows_at(self, places: Mapping[Key, tuple[int, ...]]) -> dict[Key, Difference]:
        """How values differ in some iterations; all processes ask for the same."""
        worst = worst_of_all(
            self._together, {key: self.known[key].worst(at, _unequal) for key, at in places.items()}
        )
        found: dict[Key, Difference] = {}
        for key, at in places.items():
            if isinstance(key, int):
                found[key] = row_of(self._pairs[key], at, "", worst[key])
            else:
                own = self._both[0].out[key]
                found[key] = row_of_result(key, own, self._made[key][1], "", worst[key])
        return found

    def nan_in_both(self) -> list[Difference]:
        """Values, in the order of execution, and results that are NaN at the same places."""

        def nan(key: Key) -> Any:
            one = self.known[key]

            def of(part: Numbers) -> Any:
                return [(np.isnan(part.a) & np.isnan(part.b)).sum(axis=one.own())]

            return one.table(1, of)

        tables = self._together.joined(
            "where both are NaN", {k: nan(k) for k in self.known}, np.add
        )
        found: list[tuple[tuple[float, ...], int, Key, Difference]] = []
        rows: dict[Key, Difference] = {}
        for key, [both] in tables.items():
            ran = self.known[key].ran
            at = self._first(key, (both > 0) & ran[0] & ran[1])
            if at is None:
                continue
            if isinstance(key, int):
                one = self._pairs[key][0]
                row = row_of(self._pairs[key], at, "")
                found.append((order_of(one, at, self.backwards), self._at[id(one)], key, row))
            else:
                rows[key] = row_of_result(key, self._both[0].out[key], None, "")
        return without_copies({k: row for *_, k, row in sorted(found, key=lambda x: x[:2])} | rows)

    def doubtful(self, found: Mapping[Key, Difference]) -> list[Key]:
        """The keys of numbers that differ and were computed in one precision: rounding may do it.

        If one of them is less precise, rounding is the question.
        """
        return [k for k, row in found.items() if not row.what and len({*self.dtypes[k]}) == 1]

    def numbers(self, both: Sequence[Record], keys: Iterable[Key]) -> BlockPairs:
        """The numbers of some pairs, in recordings of the same programs, by parts."""
        found: dict[tuple[Key, tuple[int, ...]], tuple[Any, Any]] = {}
        for key in keys:
            if isinstance(key, int):
                at = [self._at[id(part)] for part in self._pairs[key]]
                values = [one.parts[k].whole() for one, k in zip(both, at, strict=True)]
            else:
                values = [one.out[key] for one in both]
            for at, (a, b) in self._together.blocks(*map(words, values)):
                found[key, tuple(one.start or 0 for one in at)] = comparable(a), comparable(b)
        return found

    def values(self) -> Iterator[tuple[str, Key]]:
        """The values that have numbers in both runs, once each, by their addresses in the first."""
        done = set[str]()
        for key, (one, _) in enumerate(self._pairs):
            if one.address not in done and key in self.known:
                done.add(one.address)
                yield one.address, key

    def results(self) -> Iterator[tuple[int, Key]]:
        """The results that have numbers in both runs, by their places."""
        return ((k, name) for name, (k, _) in self._made.items() if name in self.known)

    @functools.cached_property
    def _most(self) -> dict[Key, Any]:
        """The greatest size of the numbers of each pair that are finite."""

        def most(one: InBoth) -> Any:
            each = (
                np.abs(x[np.isfinite(x)]).max(initial=0) for part in one for x in (part.a, part.b)
            )
            return np.float64(max(map(float, each), default=0.0))

        own = {} if self._tolerance.asked else {key: most(one) for key, one in self.known.items()}
        return self._together.joined("the greatest numbers", own, np.maximum)

    def _counts(self, stays: Mapping[Any, Any]) -> dict[Key, Any]:
        """For each iteration how many numbers differ, and how many by more than rounding."""

        def counts(key: Key, one: InBoth) -> Any:
            def of(part: Numbers) -> Any:
                both = self._differ(key, part), self._lasting(key, stays, part)
                return [x.sum(axis=one.own()) for x in both]

            return one.table(2, of)

        own = {key: counts(key, one) for key, one in self.known.items()}
        return self._together.joined("how many numbers differ", own, np.add)

    def _first(self, key: Key, bad: Any) -> tuple[int, ...] | None:
        """The first iteration with a true value; None if all are false."""
        every = [tuple(map(int, at)) for at in np.argwhere(bad)]
        if not every or not isinstance(key, int):
            return every[0] if every else None
        one = self._pairs[key][0]
        is_device = [axis.startswith("mesh ") for axis in one.kept.axes]

        def iterations(at: tuple[int, ...]) -> list[tuple[bool, int]]:
            # Of what devices do at once the first one is told.
            each = zip(is_device, iterations_of(one, at, self.backwards), strict=True)
            return sorted(each, key=lambda one: one[0])

        return min(every, key=iterations)

    def _differ(self, key: Key, part: Numbers) -> Any:
        """For each number whether both differ."""
        a, b = part.a, part.b
        with np.errstate(all="ignore"):
            most = self._most.get(key, 0.0)
            far = apart(a, b) > self._tolerance.of(float(most), b, self.dtypes[key])
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        return ~same & (far | ~finite)

    def _lasting(self, key: Key, stays: Mapping[Any, Any], part: Numbers) -> Any:
        """For each number whether both differ by more than rounding, as far as that was asked."""
        wrong = self._differ(key, part)
        known = stays.get((key, part.begin))
        return (
            wrong if known is None else wrong & extended(known, wrong.shape[: self.known[key].lead])
        )


_KEY = "another key"  # the words of random keys are no numbers to compare


def _comparable(one: Part, two: Part) -> bool:
    a, b = one.kept, two.kept
    return a.shape == b.shape and len(a.axes) == len(b.axes)


def _unequal(part: Numbers) -> Any:
    return part.a != part.b


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
