"""Compare two arrays, and summarize an array in one line.

It works for every dtype of JAX: integers, booleans, bfloat16 and smaller floats, complex numbers,
PRNG keys, float0.
"""

import dataclasses
import re
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.outputs.distances import distance, host, is_far, not_finite
from taxpr_jupyter._text.short import aval_text

_SHOWN = 6  # elements of an array in a short text
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
    old = _known_glimpse(before)
    new = _glimpse(after, old)
    known = [one.others for one in (old, new) if one.others is not None]
    return ArrayDifference(
        name=name,
        aval=_both_types(old.type, new.type),
        max=None,
        mean=None,
        equal=old.text == new.text,
        note="only glanced at",
        before=old.text,
        after=new.text,
        compared=False,
        not_finite=_not_finite(known, _SHOWN, after.size, sides) if len(known) == 2 else "",
    )


class _Glimpse(NamedTuple):
    """The type and the first elements of an array.

    Attributes:
        type: Its type.
        text: Its first elements.
        others: How many of these are not finite; None if they are not on the host.
        bits: These elements, as bytes; None likewise.
        sharding: How the array is divided among devices.
    """

    type: str
    text: str
    others: int | None
    bits: bytes | None
    sharding: Any


# Of arrays of JAX, which do not change: each run of Live has the same ones on one side.
_glimpses: dict[int, tuple[weakref.ref[Any], _Glimpse]] = {}


def _known_glimpse(value: Any) -> _Glimpse:
    found = _glimpses.get(id(value))
    if found is not None and found[0]() is value:
        return found[1]
    made = _glimpse(value)
    if isinstance(value, jax.Array):
        key = id(value)
        _glimpses[key] = weakref.ref(value, lambda _: _glimpses.pop(key, None)), made
    return made


def _glimpse(value: Any, like: _Glimpse | None = None) -> _Glimpse:
    """Looks at an array; much of it is known from another one of its shape and dtype."""
    sharding = getattr(value, "sharding", None)
    alike = like is not None and like.sharding == sharding
    kind = like.type if like and alike else _type_text(value)
    if is_far(value):
        return _Glimpse(kind, "…", None, None, sharding)
    first = host(value).reshape(-1)[:_SHOWN]
    bits = first.tobytes()
    if like is not None and like.bits == bits:
        return _Glimpse(kind, like.text, like.others, bits, sharding)
    return _Glimpse(kind, value_text(value), not_finite(first), bits, sharding)


def compare(name: str, before: Any, after: Any, sides: tuple[str, str] = SIDES) -> ArrayDifference:
    """The difference of two arrays, by the words of both sides; if types differ, only that."""
    if not _alike(before, after):
        other = alone(name, after, before)
        return dataclasses.replace(
            other, aval=_both_types(*map(_type_text, (before, after))), note=""
        )
    apart = distance(before, after, sides)
    return ArrayDifference(
        name=name,
        aval=_both_types(*map(_type_text, (before, after))),
        max=apart.largest,
        mean=apart.mean,
        equal=apart.equal,
        note=apart.note,
        before=value_text(before),
        after=value_text(after),
        not_finite=_not_finite(apart.others, after.size, after.size, sides),
        relative=apart.relative,
    )


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
    sharding = getattr(value, "sharding", None)
    if not isinstance(sharding, jax.sharding.NamedSharding):  # no other one divides by axes
        return None
    return introspect.division_of(jax.typeof(value), sharding)


def _type_text(value: Any) -> str:
    divided = division_of(value)
    return divided.type if divided else aval_text(jax.typeof(value))


def _both_types(*types: str) -> str:
    """The type of two arrays; both where they are not alike."""
    return " → ".join(dict.fromkeys(types))


def _alike(before: Any, after: Any) -> bool:
    both = before, after
    if not all(isinstance(one, jax.Array | np.ndarray) for one in both):
        both = tuple(map(jax.typeof, both))
    return both[0].shape == both[1].shape and both[0].dtype == both[1].dtype


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
    if is_far(value):
        return _elements_text(host(value.reshape(-1)[:_SHOWN]), value.size)
    array = host(value)
    if array.dtype == jax.dtypes.float0 or not array.size:
        return aval_text(jax.typeof(value))
    if array.ndim == 0:
        return _number(array[()])
    return _elements_text(array.reshape(-1)[:_SHOWN], array.size)


def _elements_text(first: np.ndarray, size: int) -> str:
    """The first elements of an array with so many in all."""
    if first.dtype.kind == "f":  # the usual one, quickly
        numbers = [f"{one:.6g}" for one in first.tolist()]
    else:
        numbers = [_number(one) for one in first]
    return f"[{', '.join(numbers)}{', …' if size > _SHOWN else ''}]"


def _not_finite(numbers: Sequence[int], known: int, of: int, sides: tuple[str, str]) -> str:
    """How many elements are not finite before and after, in words; ``known`` of all are known."""
    before, after = numbers
    if not before and not after:
        return ""
    most = count_of(min(known, of), "element")
    places = f"{after or before} of {most if known >= of else f'the first {most}'}"
    if before == after:
        return f"not finite: {places}"
    if not before or not after:
        return f"not finite: {places} {sides[bool(after)]}"
    return f"not finite: {places} {sides[1]}, {before} {sides[0]}"


def _number(element: Any) -> str:
    if isinstance(element, np.bool_):
        return str(bool(element))
    if isinstance(element, np.integer):
        return str(int(element))
    if isinstance(element, np.complexfloating):
        return f"{complex(element):.6g}"
    return f"{float(element):.6g}"
