"""Find where a run in another precision loses most: how much error each statement adds.

The error of a value is the RMS of the difference divided by the RMS of the value, at most 1. A
statement adds the error of its value minus the greatest error of its operands.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from taxpr._devices.blocks import Processes
from taxpr._differences.compared import Compared
from taxpr._differences.in_both import InBoth, Numbers
from taxpr._differences.rounding import Key
from taxpr._differences.rows import Difference
from taxpr._differences.sources import HowMade, MadeFrom, sources
from taxpr._programs.program import Program
from taxpr._recordings.axes import placed
from taxpr._untyped import np

# A number that occurs several times, so large, and so many times larger than all others.
_FILL, _BESIDE = 1e4, 100


@dataclasses.dataclass(frozen=True)
class Loss(Difference):
    """A statement that adds error, with its worst value and iteration.

    Attributes:
        adds: How much it adds: in its worst iteration, or in all its iterations and calls together
            if that is more, but no more than the greatest error of its values.
        share: Its part of the sum over all statements.
        error: The error of the value there, including its operands' errors.
    """

    adds: float = 0.0
    share: float = 0.0
    error: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Error:
    """The errors of a value.

    Attributes:
        key: The key of the value.
        axes: The loops and mesh axes around it.
        sizes: The errors, with these axes.
    """

    key: Key
    axes: tuple[str, ...]
    sizes: Any


def losses(program: Program, compared: Compared, together: Processes) -> tuple[list[Loss], float]:
    """Statements by how much error they add, the worst first; and the greatest error of a result.

    Args:
        program: The first of both programs.
        compared: Both runs.
        together: The processes that have parts of their values.
    """
    values, of_out = dict(compared.values()), dict(compared.results())
    keys: list[Key] = [*values.values(), *of_out.values()]
    sizes = errors({key: compared.known[key] for key in keys}, together)
    every = {key: Error(key, compared.known[key].axes, sizes[key]) for key in keys}
    known = {address: every[key] for address, key in values.items()}
    made, of_results = sources(program.jaxpr, known)
    results = {k: every[key] for k, key in of_out.items()}
    found = [
        *((known[address], how) for address, how in made.items()),
        *((results[k], how) for k, how in enumerate(of_results) if k in results),
    ]
    again = _recurrent(made)
    each = [(one, *_added(one, how, known, again, compared.backwards)) for one, how in found]
    ends = max((float(one.sizes.max(initial=0.0)) for one in results.values()), default=0.0)
    return _ranked(each, compared), ends


def errors(of: Mapping[Key, InBoth], together: Processes) -> dict[Key, Any]:
    """For each of the leading axes how far values are apart in both runs, measured by their size.

    A mask or a place has no size: it is how many of its elements are others.

    Args:
        of: The values, by their keys.
        together: The processes that have parts of them.
    """
    tops = together.joined(
        "the greatest numbers", {key: np.float64(_top(one)) for key, one in of.items()}, np.maximum
    )
    beside = {key: _beside(one, tops[key]) for key, one in of.items()}
    beside = together.joined("the numbers beside these", beside, _put_together)
    fills = {
        key: float(tops[key])
        for key, (many, others) in beside.items()
        if tops[key] >= _FILL and 0 < others <= tops[key] / _BESIDE and many > 1
    }
    counted = {key: functools.partial(_counted, fill=fills.get(key)) for key in of}
    most = {
        key: np.float64(
            max((abs(x).max(initial=0) for part in one for x in counted[key](part)), default=0)
        )
        for key, one in of.items()
    }
    most = together.joined("the numbers that count", most, np.maximum)
    own = {key: _sums(one, counted[key], float(most[key]) or 1.0) for key, one in of.items()}
    found = together.joined("sums of errors", own, np.add)
    return {
        key: np.where(one.ran[0] & one.ran[1], _sizes(one, found[key]), 0.0)
        for key, one in of.items()
    }


def _top(one: InBoth) -> float:
    """The greatest size of a finite number of the first run."""
    return max((float(_finite_sizes(part).max(initial=0)) for part in one), default=0.0)


def _finite_sizes(part: Numbers) -> Any:
    return np.where(np.isfinite(part.a), np.abs(part.a), 0)


def _beside(one: InBoth, top: float) -> Any:
    """How often the greatest number occurs, and the greatest of the others."""
    found = np.zeros(2)
    for part in one:
        sizes = _finite_sizes(part)
        found[0] += (sizes == top).sum()
        found[1] = max(found[1], sizes[sizes != top].max(initial=0))
    return found


def _put_together(one: Any, other: Any) -> Any:
    return np.array([one[0] + other[0], max(one[1], other[1])])


def _counted(part: Numbers, fill: float | None) -> tuple[Any, Any]:
    """The numbers of both that count, and zero for the others.

    A huge number that a mask has filled in, such as -1e9, would hide other errors and does not.
    """
    counts = np.isfinite(part.a) & np.isfinite(part.b)
    if fill is not None:
        counts &= _finite_sizes(part) != fill
    return np.where(counts, part.a, 0), np.where(counts, part.b, 0)


def _sums(one: InBoth, counted: Callable[[Numbers], tuple[Any, Any]], most: float) -> Any:
    """For each iteration the sums of squares, of the difference and both, and the lost numbers."""

    def of(part: Numbers) -> list[Any]:
        x, y = (x / most for x in counted(part))  # whose squares are not too large
        # Where one of both has a number that is not finite, what is computed of it is lost.
        lost = np.isfinite(part.a) != np.isfinite(part.b)
        if part.a.dtype.kind in "biu":
            x, y, lost = part.a != part.b, np.zeros(()), np.zeros(part.a.shape, bool)
        squares = (np.broadcast_to(np.abs(each) ** 2, part.a.shape) for each in (x - y, x, y))
        return [each.sum(axis=one.own()) for each in (*squares, lost)]

    return one.table(4, of, float)


def _sizes(one: InBoth, sums: Any) -> Any:
    many = max(math.prod(one.shape[one.lead :]), 1)
    if one.is_exact:
        return sums[0] / many
    off, x, y = np.sqrt(sums[:3] / many)
    size = np.maximum(x, y)
    return np.where(sums[3] > 0, 1.0, np.minimum(off / np.where(size > 0, size, 1.0), 1.0))


def _recurrent(made: Mapping[str, HowMade]) -> set[str]:
    """The values that are made of some of the iteration before, also through others."""
    found = set[str]()
    while True:
        more = {
            address
            for address, how in made.items()
            if any(one.loop is not None or one.address in found for one in how.of)
        }
        if more == found:
            return found
        found = more


def _added(
    error: Error,
    made: HowMade,
    known: Mapping[str, Error],
    again: Container[str],
    backwards: Container[str],
) -> tuple[Any, float]:
    """How much error a value adds to its operands' errors: in each iteration, and in all.

    The next iteration may take away the error that one iteration adds, as with rounding; then it
    does not count in the sum of all. But an error below the error of a new operand, such as a
    number that is added to a sum, always counts.
    """
    if made.of and not made.computed:
        return np.zeros_like(error.sizes), 0.0
    came, carried = np.zeros_like(error.sizes), np.zeros_like(error.sizes)
    for source in made.of:
        seen = _seen(source, known[source.address], error, backwards)
        came = np.maximum(came, seen)
        if not error.axes or source.loop is not None or source.address in again:
            carried = np.maximum(carried, seen)
    more = error.sizes - came
    return more, float(np.where(more > 0, more, np.minimum(error.sizes - carried, 0)).sum())


def _seen(source: MadeFrom, of: Error, by: Error, backwards: Container[str]) -> Any:
    """The errors of a source in the axes of the value made of it; of inner loops the greatest."""
    sizes, axes = of.sizes, of.axes
    if source.loop in axes:  # what the iteration before has handed on; the first has none
        turned = source.loop in backwards
        each = np.moveaxis(sizes, axes.index(source.loop), 0)
        first = np.zeros_like(each[:1])
        each = np.concatenate([each[1:], first] if turned else [first, each[:-1]])
        sizes = np.moveaxis(each, 0, axes.index(source.loop))
    inner = tuple(k for k, axis in enumerate(axes) if axis not in by.axes)
    level = tuple(zip(by.axes, by.sizes.shape, strict=True))
    around = [axis for axis in axes if axis in by.axes]
    return placed(sizes.max(axis=inner, initial=0.0), around, level)


def _ranked(found: Sequence[tuple[Error, Any, float]], compared: Compared) -> list[Loss]:
    statements: dict[Any, list[tuple[Error, Any, float, Difference]]] = {}
    each = compared.rows_at({error.key: _worst(more) for error, more, _ in found if more.size})
    for error, more, whole in found:
        if more.size:
            row = each[error.key]
            key = (row.file, row.line) if row.line else row.address
            statements.setdefault(key, []).append((error, more, whole, row))
    rows = list(map(_loss, statements.values()))
    total = sum(row.adds for row in rows)
    rows = [dataclasses.replace(row, share=row.adds / total) for row in rows if row.adds > 0]
    return sorted(rows, key=lambda row: -row.adds)


def _loss(of: Sequence[tuple[Error, Any, float, Difference]]) -> Loss:
    """The row of a statement: how much error it adds, in all its values."""
    worst, more, _, row = max(of, key=lambda one: one[1].max())
    at = _worst(more)
    most = max(float(error.sizes.max()) for error, *_ in of)
    whole = min(sum(whole for _, _, whole, _ in of), most)
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(Difference)}
    adds = max(float(more[at]), whole, 0.0)
    return Loss(**fields, adds=adds, share=0.0, error=float(worst.sizes[at]))


def _worst(more: Any) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(np.argmax(more)), more.shape)))
