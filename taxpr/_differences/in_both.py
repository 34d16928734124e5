"""The numbers of a value in both runs, by the parts that this process has."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._devices.blocks import Processes
from taxpr._differences.numbers import apart, comparable, words
from taxpr._differences.rounding import Key
from taxpr._differences.rows import Worst
from taxpr._recordings.part import Part
from taxpr._untyped import np


class Numbers(NamedTuple):
    """A part of the numbers in both runs.

    Attributes:
        begin: The place of its first number among all.
        a: Those of the first run.
        b: Those of the second run.
    """

    begin: tuple[int, ...]
    a: Any
    b: Any


class InBoth:
    """The numbers of a value in both runs.

    Args:
        together: The processes that share arrays.
        values: The value in both runs.
        axes: The loops and mesh axes around it, the leading axes of its numbers.
        fired: For each iteration whether a run computed it; None for all.

    Attributes:
        axes: The loops and mesh axes around it.
        is_key: Whether it is of random keys, whose words are these numbers.
        shape: The shape of all its numbers.
        ran: For each iteration whether the first run computed it, and whether the second did.
    """

    def __init__(
        self,
        together: Processes,
        values: tuple[Any, Any],
        axes: tuple[str, ...] = (),
        fired: tuple[Any, Any] = (None, None),
    ) -> None:
        self.is_key = any(_compat.is_extended(one.dtype) for one in values)
        self._values = one, two = tuple(map(words, values))
        self.axes, lead = axes, len(axes)
        # A while loop may have had other iterations: of those that one did not have it has nothing.
        most = tuple(map(max, one.shape[:lead], two.shape[:lead]))
        self.shape = (*most, *one.shape[lead:])
        self.ran = tuple(
            extended(np.ones(x.shape[:lead], bool) if of is None else of, most)
            for x, of in zip((one, two), fired, strict=True)
        )
        self._blocks = together.blocks(one, two)

    @property
    def lead(self) -> int:
        """The number of leading axes."""
        return len(self.axes)

    @property
    def is_exact(self) -> bool:
        """Whether its numbers are whole ones or truths."""
        return comparable(np.zeros((), self._values[0].dtype)).dtype.kind in "biu"

    def __iter__(self) -> Iterator[Numbers]:
        for at, (a, b) in self._blocks:
            most = tuple(map(max, a.shape[: self.lead], b.shape[: self.lead]))
            begin = tuple(one.start or 0 for one in at)
            yield Numbers(begin, *(extended(comparable(x), most) for x in (a, b)))

    def own(self) -> tuple[int, ...]:
        """The axes of its numbers in one iteration."""
        return tuple(range(self.lead, len(self.shape)))

    def table(self, many: int, of: Callable[[Numbers], Any], dtype: Any = np.int64) -> Any:
        """Sums of each iteration, together for all parts that are here.

        Args:
            many: How many they are.
            of: A function of a part: so many arrays with the leading axes.
            dtype: Their type.
        """
        found = np.zeros((many, *self.shape[: self.lead]), dtype)
        for one in self:
            lead = zip(one.begin, one.a.shape[: self.lead], strict=False)
            found[(slice(None), *(slice(start, start + n) for start, n in lead))] += of(one)
        return found

    def least(self) -> dict[str, Any]:
        """As `worst`, of a process that has no part."""
        none = [np.zeros((), comparable(np.zeros((), x.dtype)).dtype) for x in self._values]
        own = np.zeros(len(self.shape) - self.lead, np.int64)
        return {"size": np.float64(-1), "index": own, "a": none[0], "b": none[1]}

    def worst(self, at: tuple[int, ...], wrong: Callable[[Numbers], Any]) -> dict[str, Any]:
        """The greatest difference in an iteration, among the parts that are here.

        Args:
            at: The iteration.
            wrong: A function of a part: for each of its numbers whether it counts.

        Returns:
            The difference, its place, and both numbers.
        """
        found = self.least()
        for one in self:
            here = tuple(k - start for k, start in zip(at, one.begin, strict=False))
            lead = one.a.shape[: self.lead]
            if not all(0 <= k < n for k, n in zip(here, lead, strict=True)) or not one.a.size:
                continue
            a, b = one.a[here], one.b[here]
            with np.errstate(all="ignore"):
                size = apart(a, b)
            size = np.where(wrong(one)[here], np.where(np.isnan(size), np.inf, size), 0.0)
            place = np.unravel_index(int(np.argmax(size)), size.shape)
            if size[place] > found["size"]:
                index = np.add(one.begin[self.lead :], place).astype(np.int64)
                found = {"size": np.float64(size[place]), "index": index}
                found |= {"a": np.asarray(a[place]), "b": np.asarray(b[place])}
        return found


def worst_of_all(together: Processes, own: Mapping[Key, Mapping[str, Any]]) -> dict[Key, Worst]:
    """The greatest of the differences that `InBoth.worst` found in each process."""
    flat = {(key, name): x for key, one in own.items() for name, x in one.items()}
    each = together.everyones("where values differ most", flat)
    found: dict[Key, Worst] = {}
    for key in own:
        most = max(each, key=lambda one, key=key: float(one[key, "size"]))
        index, a, b, size = (most[key, name] for name in ("index", "a", "b", "size"))
        found[key] = Worst(tuple(map(int, index)), a.item(), b.item(), float(size))
    return found


def in_both(together: Processes, one: Part, two: Part) -> InBoth:
    """The numbers of a value that two runs kept."""
    kept = one.kept, two.kept
    fired = kept[0].fired, kept[1].fired
    return InBoth(together, (one.whole(), two.whole()), kept[0].axes, fired)


def extended(x: Any, lead: tuple[int, ...]) -> Any:
    """An array with so many iterations, zero or False in those that it had not."""
    if x.shape[: len(lead)] == lead:
        return x
    more = [(0, most - size) for most, size in zip(lead, x.shape, strict=False)]
    return np.pad(x, more + [(0, 0)] * (x.ndim - len(lead)))
