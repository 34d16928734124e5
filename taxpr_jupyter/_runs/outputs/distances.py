"""How far two arrays of one shape and dtype are apart, in one pass over both.

On the host everything is computed in float64 (integers exactly). Large floats of an accelerator
stay there: XLA sums blocks of them, and the host adds these sums in float64.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_BLOCK = 2**15  # elements that are looked at together: some copies of them fit a cache
_ROW = 2**12  # elements that an accelerator adds up in their own precision
_COPIED = 2**16  # the most bytes of an array that are always copied to the host


class Distance(NamedTuple):
    """How far two arrays are apart.

    Attributes:
        largest: The largest absolute difference; None where no difference is known.
        mean: The mean absolute difference.
        relative: The mean difference as a share of the mean size before; inf if that is 0.
        note: Elements that the numbers leave out, in words.
        equal: Whether all elements are equal (NaN equals NaN).
        others: How many elements of each are not finite.
    """

    largest: float | None
    mean: float | None
    relative: float | None
    note: str
    equal: bool
    others: tuple[int, int] = (0, 0)


class _Sums(NamedTuple):
    """Sums over all elements; ``sizes`` over the finite ones of the first array."""

    largest: float = 0.0
    total: float = 0.0
    known: int = 0
    nan: tuple[int, int] = (0, 0)  # on one side only
    others: tuple[int, int] = (0, 0)
    equal: bool = True
    sizes: float = 0.0
    sized: int = 0


def distance(before: Any, after: Any, sides: tuple[str, str]) -> Distance:
    """How far two arrays are apart; keys by their bits.

    Args:
        before: An array of JAX or NumPy.
        after: Another one of its shape and dtype.
        sides: The names of the two.
    """
    if is_key(after):
        return _keys_differ(host(before), host(after))
    if after.dtype == jax.dtypes.float0 or not after.size:
        return Distance(None, None, None, "" if after.size else "no elements", True)
    far = is_far(before) and is_far(after) and jnp.issubdtype(after.dtype, jnp.floating)
    if far and before.devices() == after.devices() and len(after.devices()) == 1:
        sums = summed_there(before, after)
    else:
        sums = _summed(host(before), host(after))
    notes = [
        f"NaN in {count} of {after.size} places only {where}"
        for count, where in zip(sums.nan[::-1], sides[::-1], strict=True)
        if count
    ]
    words = "; ".join(notes)
    if not sums.known:
        return Distance(None, None, None, words, sums.equal, sums.others)
    mean = sums.total / sums.known
    size = sums.sizes / sums.sized if sums.sized else 0.0
    # Of equal arrays nobody needs their size.
    relative = (mean / size if size else math.inf) if mean and not math.isnan(mean) else mean
    return Distance(sums.largest, mean, relative, words, sums.equal, sums.others)


def is_far(value: Any) -> bool:
    """Whether an array is large, and in the memory of an accelerator."""
    if not isinstance(value, jax.Array) or value.nbytes <= _COPIED:
        return False
    return any(device.platform != "cpu" for device in value.devices())


def is_key(value: Any) -> bool:
    """Whether the value is an array of PRNG keys."""
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def host(value: Any) -> np.ndarray:
    """The value as a NumPy array; a key as its bits."""
    return np.asarray(jax.random.key_data(value) if is_key(value) else value)


def not_finite(array: np.ndarray) -> int:
    """The number of elements that are not finite."""
    if array.dtype == jax.dtypes.float0 or array.dtype.kind in "iub":
        return 0
    if array.dtype.kind == "f" and array.size <= _BLOCK:
        return array.size - int(np.count_nonzero(np.isfinite(array)))
    return sum(int((~np.isfinite(_wide(block))).sum()) for (block,) in _blocks(array))


# ---- on the host -------------------------------------------------------------


def _summed(a: np.ndarray, b: np.ndarray) -> _Sums:
    apart = _integers_apart if a.dtype.kind in "iu" else _numbers_apart
    found, same = _Sums(), list[np.ndarray]()
    for one, two in _blocks(a, b):
        if np.array_equal(one.view(_bits(one)), two.view(_bits(two))):
            same.append(one)
            number = not_finite(one)
            found = _added(found, _Sums(known=one.size, others=(number, number)))
        else:
            found = _added(found, apart(one, two))
    if found.total:
        for block in same:
            sizes, sized = _sizes(block)
            found = _added(found, _Sums(sizes=sizes, sized=sized))
    return found


def _added(a: _Sums, b: _Sums) -> _Sums:
    return _Sums(
        max(a.largest, b.largest),
        a.total + b.total,
        a.known + b.known,
        (a.nan[0] + b.nan[0], a.nan[1] + b.nan[1]),
        (a.others[0] + b.others[0], a.others[1] + b.others[1]),
        a.equal and b.equal,
        a.sizes + b.sizes,
        a.sized + b.sized,
    )


def _integers_apart(a: np.ndarray, b: np.ndarray) -> _Sums:
    """Exact also where float64 is not."""
    one, two = (x.view(f"u{x.dtype.itemsize}") for x in (a, b))
    gap = np.where(a > b, one - two, two - one)
    total = float(gap.sum(dtype=np.float64))
    sizes, sized = _sizes(a)
    largest = float(gap.max(initial=0))
    return _Sums(largest, total, gap.size, equal=False, sizes=sizes, sized=sized)


def _numbers_apart(a: np.ndarray, b: np.ndarray) -> _Sums:
    wide_a, wide_b = _wide(a), _wide(b)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(wide_b - wide_a)
        largest = gap.max()
        if largest < np.inf:  # which is so if all elements are finite
            sizes = float(np.abs(wide_a).sum())
            return _Sums(
                float(largest),
                float(gap.sum()),
                gap.size,
                equal=not largest,
                sizes=sizes,
                sized=gap.size,
            )
        nan_a, nan_b = np.isnan(wide_a), np.isnan(wide_b)
        gap = np.where((wide_a == wide_b) | (nan_a & nan_b), 0.0, gap)
        gap = gap[~np.isnan(gap)]
        sizes, sized = _sizes(a)
        return _Sums(
            float(gap.max(initial=0)),
            float(gap.sum()),
            gap.size,
            (int((nan_a & ~nan_b).sum()), int((nan_b & ~nan_a).sum())),
            (not_finite(a), not_finite(b)),
            equal=gap.size == a.size and not gap.any(),
            sizes=sizes,
            sized=sized,
        )


def _sizes(block: np.ndarray) -> tuple[float, int]:
    """The sum and the number of absolute values that are finite."""
    sizes = np.abs(_wide(block))
    sizes = sizes[np.isfinite(sizes)]
    with np.errstate(over="ignore"):
        return float(sizes.sum()), sizes.size


def _keys_differ(a: np.ndarray, b: np.ndarray) -> Distance:
    """The number of keys that differ (the bits of a key are on the last axis), as a note."""
    differs = (a != b).any(axis=-1)
    words = f"{differs.sum()} of {differs.size} keys differ" if differs.any() else ""
    return Distance(None, None, None, words, not words)


def _wide(array: np.ndarray) -> np.ndarray:
    """Numbers as float64 or complex128."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _bits(array: np.ndarray) -> Any:
    """An integer type of the array's size, whose comparison finds equal NaN, too."""
    size = array.dtype.itemsize
    return np.dtype(f"u{size}") if size <= 8 else np.dtype(("V", size))


def _blocks(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """The elements of arrays of one size, as many at a time as fit the processor's cache."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield tuple(array[start : start + _BLOCK] for array in flat)


# ---- on an accelerator -------------------------------------------------------


def summed_there(before: Any, after: Any) -> _Sums:
    """The sums of two arrays of floats that share a device, computed there.

    Example:
        >>> summed_there(jnp.zeros(5), jnp.arange(5.0)).total
        10.0
    """
    rows, largest, counts, equal = map(np.asarray, _rows(before, after))
    total, sizes = (float(one) for one in rows.astype(np.float64).sum(-1))
    known, nan_before, nan_after, others_before, others_after, sized = map(
        int, counts.astype(np.int64).sum(-1)
    )
    nan, others = (nan_before, nan_after), (others_before, others_after)
    return _Sums(float(largest), total, known, nan, others, bool(equal), sizes, sized)


@jax.jit
def _rows(before: Any, after: Any) -> Any:
    """The sums and counts of each row, the largest difference, and whether all is equal."""
    kind = after.dtype if after.dtype.itemsize > 4 else jnp.float32
    missing = -after.size % _ROW

    def in_rows(x: Any, fill: float) -> Any:
        return jnp.pad(x.reshape(-1), (0, missing), constant_values=fill).reshape(-1, _ROW)

    # What is added at the end is NaN on both sides, and so known to no sum.
    a, b = (in_rows(x, jnp.nan).astype(kind) for x in (before, after))
    there = in_rows(jnp.ones(after.shape, bool), False)
    nan_a, nan_b = jnp.isnan(a), jnp.isnan(b)
    gap = jnp.where((a == b) | (nan_a & nan_b), 0, jnp.abs(b - a))
    known = there & ~jnp.isnan(gap)
    gap = jnp.where(known, gap, 0)
    finite_a, finite_b = jnp.isfinite(a), jnp.isfinite(b)
    sums = [gap, jnp.where(finite_a & there, jnp.abs(a), 0)]
    counts = [
        known,
        there & nan_a & ~nan_b,
        there & nan_b & ~nan_a,
        there & ~finite_a,
        there & ~finite_b,
        there & finite_a,
    ]
    equal = (known | ~there).all() & ~gap.any()
    return (
        jnp.stack([one.sum(-1) for one in sums]),
        gap.max(),
        jnp.stack([one.sum(-1, dtype=jnp.int32) for one in counts]),
        equal,
    )
