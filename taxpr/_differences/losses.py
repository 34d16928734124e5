"""Find where a run in another precision loses most: how much error each statement adds.

The error of a value is the RMS of the difference divided by the RMS of the value, at most 1. A
statement adds the error of its value minus the greatest error of its operands.
"""

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from taxpr._differences.compared import Compared, Numbers
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

    adds: float
    share: float
    error: float


@dataclasses.dataclass(frozen=True, eq=False)
class Error:
    """The errors of a value.

    Attributes:
        axes: The loops and mesh axes around it.
        sizes: The errors, with these axes.
        row: The `Difference` in one iteration.
    """

    axes: tuple[str, ...]
    sizes: Any
    row: Callable[[tuple[int, ...]], Difference]


def losses(program: Program, compared: Compared) -> tuple[list[Loss], float]:
    """Statements by how much error they add, the worst first; and the greatest error of a result.

    Args:
        program: The first of both programs.
        compared: Both runs.
    """
    known = {address: _error(given) for address, given in compared.values()}
    made, of_results = sources(program.jaxpr, known)
    results = {k: _error(given) for k, given in compared.results(program)}
    found = [
        *((known[address], how) for address, how in made.items()),
        *((results[k], how) for k, how in enumerate(of_results) if k in results),
    ]
    again = _recurrent(made)
    each = [(one, *_added(one, how, known, again, compared.backwards)) for one, how in found]
    ends = max((float(one.sizes.max(initial=0.0)) for one in results.values()), default=0.0)
    return _ranked(each), ends


def _error(of: Numbers) -> Error:
    return Error(of.axes, np.where(of.ran, errors(of.a, of.b, len(of.axes)), 0.0), of.row)


def errors(a: Any, b: Any, lead: int) -> Any:
    """For each of the leading axes how far two arrays are apart, measured by their size."""
    own = tuple(range(lead, a.ndim))
    if a.dtype.kind in "biu" or not a.size:  # a mask or a place has no size: how many are others
        return (a != b).mean(axis=own) if a.size else np.zeros(a.shape[:lead])
    counts = np.isfinite(a) & np.isfinite(b) & ~_filled(a)
    most = max(np.abs(np.where(counts, one, 0)).max() for one in (a, b)) or 1.0
    x, y = (np.where(counts, one, 0) / most for one in (a, b))  # whose squares are not too large
    off, *both = (np.sqrt((np.abs(one) ** 2).mean(axis=own)) for one in (x - y, x, y))
    size = np.maximum(*both)
    # Where one of both has a number that is not finite, what is computed of the value is lost.
    lost = (np.isfinite(a) != np.isfinite(b)).any(axis=own)
    return np.where(lost, 1.0, np.minimum(off / np.where(size > 0, size, 1.0), 1.0))


def _filled(x: Any) -> Any:
    """The elements that a mask has filled with a huge number that would hide other errors."""
    sizes = np.where(np.isfinite(x), np.abs(x), 0)
    most = sizes.max()
    filled = sizes == most
    others = sizes[~filled].max(initial=0)
    far = most >= _FILL and 0 < others <= most / _BESIDE and filled.sum() > 1
    return filled if far else np.zeros(x.shape, bool)


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


def _ranked(found: Sequence[tuple[Error, Any, float]]) -> list[Loss]:
    statements: dict[Any, list[tuple[Error, Any, float, Difference]]] = {}
    for error, more, whole in found:
        if more.size:
            row = error.row(_worst(more))
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
