"""Compare two arrays, and summarize an array in one line.

Everything is computed on the host in float64 (integers exactly), so that it works for every dtype
of JAX: integers, booleans, bfloat16 and smaller floats, complex numbers, PRNG keys, float0.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._text.short import aval_text

_SHOWN = 6  # elements of an array in a short text
_BLOCK = 2**15  # elements that are looked at together: some copies of them fit a cache
_COPIED = 2**16  # the most bytes of an array that `glance` copies to the host
NOT_FINITE = ("nan", "+inf", "-inf", "nonfinite")  # counted by `stats`; the last one is the sum
GONE = "–"  # an output that one of two programs has
LOSS = re.compile(r"b?f\d+\[\]")  # the type of a single float
SIDES = "without the changes", "with the changes"  # of the two that are compared
_OF_FINITE = ("mean", "std", "min", "max", "norm")  # told by `stats` where something is finite


@dataclasses.dataclass(frozen=True)
class ArrayDifference:
    """How one output differs between the untouched run and the run with injectors.

    Attributes:
        name: The output's name, such as ``out['loss']``.
        aval: Its dtype and shape, with the axes of the mesh that divide it.
        max: Largest absolute difference; None if dtype or size have none. For booleans 1 if any
            element differs.
        mean: Mean absolute difference; for booleans the fraction that differs.
        relative: The mean absolute difference as a share of the mean absolute value before; inf if
            that is 0. None as for ``max``.
        equal: Whether all elements are equal (NaN equals NaN).
        note: Elements that max and mean leave out, such as NaN on one side only; may be empty.
        before: Short text of the untouched value.
        after: Short text of the value with injectors.
        compared: Whether all elements were compared. If not, ``equal`` compares the short texts.
        not_finite: The number and side of non-finite elements, in words; else empty. If not all
            elements were compared, it is about the first ones.
    """

    name: str
    aval: str
    max: float | None
    mean: float | None
    equal: bool
    note: str
    before: str
    after: str
    compared: bool = True
    not_finite: str = ""
    relative: float | None = None

    def __str__(self) -> str:
        head = f"{self.name} {self.aval}"
        if self.equal:
            same = "unchanged" if self.compared else "the same first elements"
            return ", ".join(filter(None, [f"{head}: {same}", self.after, self.not_finite]))
        apart = []
        if self.max is not None and self.mean is not None:
            apart.append(f"max |Δ| {self.max:.6g}, mean |Δ| {self.mean:.6g}")
        apart += filter(None, [self.note, self.not_finite])
        words = f" ({'; '.join(apart)})" if apart else ""
        return f"{head}: {self.before} → {self.after}{words}"

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to look at: it is equal, and finite as far as is known."""
        return self.equal and not self.not_finite

    @property
    def scalar(self) -> bool:
        """Whether the output is a single number."""
        return self.aval.endswith("[]")


class Differing:
    """Two results of a program, next to each other.

    Attributes:
        differences: The difference of each output.
    """

    differences: tuple[ArrayDifference, ...]

    @property
    def by_interest(self) -> tuple[ArrayDifference, ...]:
        """The differences: first what changed, most first, or is not finite."""
        return by_interest(self.differences)

    @property
    def headline(self) -> ArrayDifference | None:
        """The first output that is a single float, as a loss is; None without one."""
        return next((row for row in self.differences if LOSS.match(row.aval)), None)


def by_interest(rows: Iterable[ArrayDifference]) -> tuple[ArrayDifference, ...]:
    """First the outputs that changed or are not finite: single numbers, then what changed most."""
    return tuple(sorted(rows, key=lambda row: (row.quiet, not row.scalar, -(row.relative or 0))))


def glance(name: str, before: Any, after: Any, sides: tuple[str, str] = SIDES) -> ArrayDifference:
    """Like `compare` for a single number; of a larger array only the first elements count."""
    if getattr(after, "size", 1) == 1 or not _alike(before, after):
        return compare(name, before, after, sides)
    firsts = [_first_elements(value) for value in (before, after)]
    texts = ["…" if first is None else value_text(first) for first in firsts]
    known = [_host(first).reshape(-1)[:_SHOWN] for first in firsts if first is not None]
    return ArrayDifference(
        name=name,
        aval=_both_types(before, after),
        max=None,
        mean=None,
        equal=texts[0] == texts[1],
        note="only glanced at",
        before=texts[0],
        after=texts[1],
        compared=False,
        not_finite=_not_finite(*known, of=after.size, sides=sides) if len(known) == 2 else "",
    )


def _first_elements(value: Any) -> Any:
    """The array; None if it is too large to copy from an accelerator."""
    large = getattr(value, "nbytes", 0) > _COPIED and isinstance(value, jax.Array)
    on_host = not large or all(device.platform == "cpu" for device in value.devices())
    return value if on_host else None


def compare(name: str, before: Any, after: Any, sides: tuple[str, str] = SIDES) -> ArrayDifference:
    """The difference of two arrays, by the words of both sides; if types differ, only that."""
    if not _alike(before, after):
        other = alone(name, after, before)
        return dataclasses.replace(other, aval=_both_types(before, after), note="")
    a, b = _host(before), _host(after)
    apart = _keys_differ(a, b) if is_key(after) else _distance(a, b, sides)
    return ArrayDifference(
        name=name,
        aval=_both_types(before, after),
        max=apart.largest,
        mean=apart.mean,
        equal=apart.equal,
        note=apart.note,
        before=value_text(before),
        after=value_text(after),
        not_finite=_not_finite(a, b, of=b.size, sides=sides),
        relative=_relative(apart.mean, a),
    )


def _relative(apart: float | None, before: np.ndarray) -> float | None:
    """A mean difference as a share of the mean size of the finite elements before."""
    if not apart or math.isnan(apart):  # of equal arrays nobody needs their size
        return apart
    total, known = 0.0, 0
    for (block,) in _blocks(before):
        sizes = np.abs(_wide(block))
        sizes = sizes[np.isfinite(sizes)]
        with np.errstate(over="ignore"):
            total, known = total + float(sizes.sum()), known + sizes.size
    size = total / known if known else 0.0
    return apart / size if size else math.inf


def alone(name: str, after: Any, before: Any = None) -> ArrayDifference:
    """An array that one of two runs has, or that is another kind of array in each."""
    texts = [GONE if one is None else value_text(one) for one in (before, after)]
    return ArrayDifference(
        name=name,
        aval=_type_text(before if after is None else after),
        max=None,
        mean=None,
        equal=False,
        note="gone" if after is None else "new",
        before=texts[0],
        after=texts[1],
    )


def division_of(value: Any) -> introspect.Division | None:
    """How an array is divided among devices; None on one device."""
    return introspect.division_of(jax.typeof(value), getattr(value, "sharding", None))


def _type_text(value: Any) -> str:
    divided = division_of(value)
    return divided.type if divided else aval_text(jax.typeof(value))


def _both_types(before: Any, after: Any) -> str:
    """The type of two arrays; both where they are not alike."""
    return " → ".join(dict.fromkeys(map(_type_text, (before, after))))


def _alike(before: Any, after: Any) -> bool:
    types = [jax.typeof(one) for one in (before, after)]
    return types[0].shape == types[1].shape and types[0].dtype == types[1].dtype


class _Distance(NamedTuple):
    """How far two arrays are apart; see `ArrayDifference`."""

    largest: float | None
    mean: float | None
    note: str
    equal: bool


def stats(value: Any) -> dict[str, float]:
    """Mean, std, min, max and norm of the finite elements, and counts of the others.

    Counts as `taxpr.check_finite` does. Empty if the value holds no numbers (PRNG keys, float0, no
    elements).
    """
    found = taxpr.questions.array_stats(value)
    if found is None or not found.size:
        return {}
    shares = found.nan, found.posinf, found.neginf, found.nonfinite
    counts = dict(zip(NOT_FINITE, (float(round(x * found.size)) for x in shares), strict=True))
    shown = () if counts["nonfinite"] == found.size else _OF_FINITE
    return {**{name: getattr(found, name) for name in shown}, **counts}


def value_text(value: Any) -> str:
    """An array in at most about 60 characters: its first elements."""
    array = _host(value)
    if array.dtype == jax.dtypes.float0 or not array.size:
        return aval_text(jax.typeof(value))
    flat = array.reshape(-1)
    shown = ", ".join(_number(element) for element in flat[:_SHOWN])
    if array.ndim == 0:
        return shown
    return f"[{shown}{', …' if flat.size > _SHOWN else ''}]"


def is_key(value: Any) -> bool:
    """Whether the value is an array of PRNG keys."""
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _host(value: Any) -> np.ndarray:
    """The value as a NumPy array; a key as its bits."""
    return np.asarray(jax.random.key_data(value) if is_key(value) else value)


def _wide(array: np.ndarray) -> np.ndarray:
    """Numbers as float64 or complex128."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _blocks(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """The elements of arrays of one size, as many at a time as fit the processor's cache."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield tuple(array[start : start + _BLOCK] for array in flat)


def _others(array: np.ndarray) -> int:
    """The number of elements that are not finite."""
    if array.dtype == jax.dtypes.float0 or array.dtype.kind in "iub":
        return 0
    return sum(int((~np.isfinite(_wide(block))).sum()) for (block,) in _blocks(array))


def _not_finite(a: np.ndarray, b: np.ndarray, of: int, sides: tuple[str, str]) -> str:
    """How many elements are not finite, in words; of arrays with ``of`` elements in all."""
    before, after = map(_others, (a, b))
    if not before and not after:
        return ""
    most = count_of(b.size, "element")
    places = f"{after or before} of {most if of == b.size else f'the first {most}'}"
    if before == after:
        return f"not finite: {places}"
    if not before or not after:
        return f"not finite: {places} {sides[bool(after)]}"
    return f"not finite: {places} {sides[1]}, {before} {sides[0]}"


def _keys_differ(a: np.ndarray, b: np.ndarray) -> _Distance:
    """The number of keys that differ (the bits of a key are on the last axis), as a note."""
    differs = (a != b).any(axis=-1)
    note = f"{differs.sum()} of {differs.size} keys differ" if differs.any() else ""
    return _Distance(None, None, note, not note)


def _distance(a: np.ndarray, b: np.ndarray, sides: tuple[str, str]) -> _Distance:
    """How far two arrays of one shape and dtype are apart."""
    if a.dtype == jax.dtypes.float0 or not a.size:
        return _Distance(None, None, "" if a.size else "no elements", True)
    apart = _integers_apart if a.dtype.kind in "iu" else _numbers_apart
    largest, total, known, nan_before, nan_after = 0.0, 0.0, 0, 0, 0
    equal = True
    for one, two in _blocks(a, b):
        if np.array_equal(one.view(_bits(one)), two.view(_bits(two))):
            known += one.size
            continue
        gap, only_before, only_after = apart(one, two)
        nan_before, nan_after = nan_before + only_before, nan_after + only_after
        equal = equal and gap.size == one.size and not gap.any()
        known += gap.size
        largest = max(largest, float(gap.max(initial=0)))
        with np.errstate(over="ignore"):
            total += float(gap.sum(dtype=np.float64))
    notes = [
        f"NaN in {count} of {a.size} places only {where}"
        for count, where in ((nan_after, sides[1]), (nan_before, sides[0]))
        if count
    ]
    if not known:
        return _Distance(None, None, "; ".join(notes), equal)
    return _Distance(largest, total / known, "; ".join(notes), equal)


def _bits(array: np.ndarray) -> Any:
    """An integer type of the array's size, whose comparison finds equal NaN, too."""
    size = array.dtype.itemsize
    return np.dtype(f"u{size}") if size <= 8 else np.dtype(("V", size))


def _integers_apart(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Exact also where float64 is not."""
    one, two = (x.view(f"u{x.dtype.itemsize}") for x in (a, b))
    return np.where(a > b, one - two, two - one), 0, 0


def _numbers_apart(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The distances that are known, and the numbers of NaN on one side only."""
    wide_a, wide_b = _wide(a), _wide(b)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(wide_b - wide_a)
    if gap.max() < np.inf:  # which is so for no NaN
        return gap, 0, 0
    nan_a, nan_b = np.isnan(wide_a), np.isnan(wide_b)
    gap = np.where((wide_a == wide_b) | (nan_a & nan_b), 0.0, gap)
    return gap[~np.isnan(gap)], int((nan_a & ~nan_b).sum()), int((nan_b & ~nan_a).sum())


def _number(element: Any) -> str:
    if isinstance(element, np.bool_):
        return str(bool(element))
    if isinstance(element, np.integer):
        return str(int(element))
    if isinstance(element, np.complexfloating):
        return f"{complex(element):.6g}"
    return f"{float(element):.6g}"
