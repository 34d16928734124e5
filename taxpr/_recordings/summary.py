"""Statistics of values: by NumPy on the host, on a device by one program for each shape."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from taxpr import _compat
from taxpr._compat import Array
from taxpr._devices.by_parts import by_parts
from taxpr._devices.fetched import is_shared, on_all_devices
from taxpr._primitives.by_numpy import by_numpy
from taxpr._recordings.blocks import BINS, numbers
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp, np

_FIELDS = ("mean", "std", "min", "max", "norm", "zeros", "nan", "posinf", "neginf", "finite")
WIDTH = len(_FIELDS) + BINS  # numbers of one summary


_NOTHING: tuple[float, ...] = (math.nan,) * 4 + (0.0,) * (WIDTH - 4)  # of no elements


@dataclasses.dataclass(frozen=True)
class Stats:
    """Statistics of a recorded value.

    Each is a number, or with ``each=True`` an array with the axes of the loops and devices. Complex
    numbers count by their absolute values; they are NaN if a part is, else -inf if a part is. If no
    element is finite, the first five are NaN; of no elements the norm is 0.

    Attributes:
        mean: The mean of the finite elements.
        std: Their standard deviation.
        min: The minimum of the finite elements.
        max: The maximum of the finite elements.
        norm: The square root of the sum of their squares.
        zeros: The share of zeros among all elements.
        nan: The share of NaN.
        posinf: The share of +inf.
        neginf: The share of -inf.
        size: The number of elements.
        histogram: How many finite elements are in each of 16 equally wide bins from the minimum to
            the maximum. If only statistics of several iterations or devices were kept, it assumes
            that elements lie evenly in their bins.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.log(x)
        ...     return y
        >>> stats = taxpr.watch(f)(jnp.array([0.0, 1.0, 1.0, jnp.e]))["y"].stats()
        >>> print(stats.neginf, stats.zeros, stats.max)
        0.25 0.5 1.0
    """

    mean: Any
    std: Any
    min: Any
    max: Any
    norm: Any
    zeros: Any
    nan: Any
    posinf: Any
    neginf: Any
    size: int
    histogram: Any

    @property
    def nonfinite(self) -> Any:
        """The share of NaN and infinities."""
        return self.nan + self.posinf + self.neginf


def has_stats(dtype: Any) -> bool:
    """Whether a dtype has statistics: PRNG keys and float0 have not."""
    return not _compat.is_extended(dtype) and dtype != _jax.dtypes.float0


def summary(x: Any, axes: int, of: Any) -> Any:
    """The numbers of `Stats` on a last axis.

    Args:
        x: The value, of any dtype.
        axes: The number of leading axes that stay.
        of: NumPy, which computes in float64, or `jax.numpy`, which computes in float32 unless the
            value is float64.
    """
    lead, wide = x.shape[:axes], of is np or x.dtype in (np.float64, np.complex128)
    dtype = of.float64 if wide else of.float32
    x = _size(x, of) if of.issubdtype(x.dtype, of.complexfloating) else x
    x = x.reshape((*lead, math.prod(x.shape[axes:])))
    if of is np and x.shape[-1]:
        rows = x.reshape((-1, x.shape[-1]))
        table, right = numbers(rows)
        if not right.all():
            with np.errstate(over="ignore"):  # the norm may be no number of float64
                table[~right] = _of_rows(rows[~right], np, np.float64)
        return table.reshape((*lead, WIDTH))
    return _of_rows(x, of, dtype)


def summarized(value: Any, axes: int) -> Any:
    """The `summary` of an array of JAX or NumPy, made on the host if all of it is here."""
    if is_shared(value):
        return np.asarray(on_all_devices(of_each(summary, axes), [value])[0])
    return summary(np.asarray(value), axes, np)


def _size(x: Any, of: Any) -> Any:
    """Absolute values of complex numbers; those that are not finite keep their kind."""
    below = (x.real == -of.inf) | (x.imag == -of.inf)
    return of.where(of.isnan(x), of.nan, of.where(below, -of.inf, of.abs(x)))


def _of_rows(x: Any, of: Any, dtype: Any) -> Any:
    """The numbers of each row; a row is the last axis."""
    lead = x.shape[:-1]
    zero = _is_zero(x, of)
    x = x.astype(dtype)
    if not x.shape[-1]:
        return of.broadcast_to(of.asarray(_NOTHING, dtype), (*lead, WIDTH))
    finite = of.isfinite(x)
    many = finite.sum(-1, keepdims=True).astype(dtype)
    count = of.maximum(many, 1)
    low = of.where(finite, x, of.inf).min(-1, keepdims=True)
    high = of.where(finite, x, -of.inf).max(-1, keepdims=True)
    most = of.maximum(of.abs(low), of.abs(high))
    most = of.where((many > 0) & (most > 0), most, 1)
    # A compiler may multiply by 1 / most, which is none of the numbers where most is very large.
    down = of.where(most > 1, 2.0**-20, 1).astype(dtype)
    unit = most * down
    x_1 = of.where(finite, x, 0) * down / unit  # whose squares do not overflow
    low_1, high_1 = low * down / unit, high * down / unit
    mean = x_1.sum(-1, keepdims=True) / count
    spread = of.where(finite, x_1 - mean, 0)
    std = of.sqrt((spread * spread).sum(-1, keepdims=True) / count) * most
    norm = of.sqrt((x_1 * x_1).sum(-1, keepdims=True)) * most
    numbers = [of.where(many > 0, one, of.nan) for one in (mean * most, std, low, high, norm)]
    shares = zero, of.isnan(x), x == of.inf, x == -of.inf, finite
    numbers += [one.astype(dtype).mean(-1, keepdims=True) for one in shares]
    width = of.where(high > low, high_1 - low_1, 1)
    part = of.where(finite, (x_1 - low_1) / width, -1)
    bins = of.where(finite, of.clip(of.floor(part * BINS), 0, BINS - 1), -1)
    numbers += [(bins == k).sum(-1, keepdims=True).astype(dtype) for k in range(BINS)]
    return of.concatenate(numbers, -1)


def _is_zero(x: Any, of: Any) -> Any:
    """Which elements are zero; by their bits if a device may flush the least numbers to zero."""
    if of is np or not of.issubdtype(x.dtype, of.floating) or x.dtype.itemsize < 2:
        return x.astype(np.float64 if of is np else np.float32) == 0
    bits = jax.lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")
    return bits << 1 == 0


def array_stats(value: Array) -> Stats | None:
    """Statistics of an array, computed on the host; None for PRNG keys and float0.

    Args:
        value: The array, of JAX or NumPy. If other processes have parts of it, they must call this,
            too.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> stats = taxpr.questions.array_stats(jnp.array([1.0, 3.0, jnp.nan, jnp.inf]))
        >>> stats.mean, stats.nan, stats.nonfinite
        (2.0, 0.25, 0.5)
    """
    if not has_stats(value.dtype):
        return None
    return each_of(summarized(value, 0), value.size)


class Reduction(NamedTuple):
    """A reduction that is kept in place of values, such as statistics.

    Attributes:
        of: ``(x, axes, module)``: computes it of a value with as many leading axes, by NumPy or
            `jax.numpy`.
        shape: The shape of its result for a value without leading axes.
        takes: Whether it can reduce a dtype; other values are kept whole.
        joined: The result for a whole, made from the results for its parts of one size. They are
            on one further axis before `shape`, and zeros count as no part. None if it cannot be
            made from parts.
        batch_axes: The axes of a value that it leaves, which come first in ``shape``.
    """

    of: Callable[[Any, int, Any], Any]
    shape: tuple[int, ...]
    takes: Callable[[Any], bool]
    joined: Callable[[Any], Any] | None = None
    batch_axes: tuple[int, ...] = ()


def _takes_none(dtype: Any) -> bool:
    del dtype
    return False


WHOLE = Reduction(summary, (WIDTH,), _takes_none)


@functools.cache
def by_batch(batch_axes: tuple[int, ...], shape: tuple[int, ...]) -> Reduction:
    """Statistics of each batch element apart, in values of one shape; the value if that is smaller.

    Args:
        batch_axes: The axes of a value that are batch axes, the outermost first.
        shape: The shape of a value.
    """
    many = math.prod(shape[k] for k in batch_axes)
    if math.prod(shape) <= WIDTH * many:
        return WHOLE

    def of_batch(x: Any, axes: int, of: Any) -> Any:
        n = axes + len(batch_axes)
        return summary(of.moveaxis(x, [axes + k for k in batch_axes], range(axes, n)), n, of)

    def joined_batch(table: Any) -> Any:
        return joined(np.moveaxis(table, -2 - len(batch_axes), -2))

    whole = (*(shape[k] for k in batch_axes), WIDTH)
    return Reduction(of_batch, whole, has_stats, joined_batch, batch_axes)


@functools.cache
def of_each(of: Callable[[Any, int, Any], Any], axes: int) -> Any:
    """A reduction of a list of values of one shape and dtype."""

    def run(values: list[Array]) -> list[Array]:
        return [of(one, axes, jnp) for one in values]

    return run


@functools.cache
def on_device(of: Callable[[Any, int, Any], Any], axes: int) -> Any:
    """The same, compiled."""
    return _jax.jit(of_each(of, axes))


@functools.cache
def beside(reduction: Reduction, mesh: Mesh | None) -> Any:
    """A reduction of one value, to be computed in the program that makes it.

    Each device of a mesh reduces its own part; the results are on a further axis before the shape.
    In a `jax.shard_map` there is no such axis: a device has only its part.
    """

    def of_all(x: Array) -> Array:
        return reduction.of(x, 0, jnp)

    of_parts = None
    if mesh is not None and reduction.joined is not None:
        of_parts = by_parts(of_all, mesh, reduction.batch_axes)

    def run(x: Array) -> Array:
        if of_parts is None or _compat.is_manual(x):
            return _compat.on_automatic_axes(of_all, x)
        return _compat.on_automatic_axes(of_parts, x, leading=True)

    return run


@functools.cache
def by_host(reduction: Reduction) -> Any:
    """A reduction of one value by NumPy while the program runs, on one CPU."""

    def of_all(x: Any, of: Any) -> Any:
        return reduction.of(x, 0, of)

    return functools.partial(by_numpy, of_all)


def stats_of(table: Any, size: int, fired: Any = None) -> Stats:
    """One `Stats` of summaries on any leading axes.

    Args:
        table: The summaries.
        size: The number of elements behind each.
        fired: Which of them count, of the shape of the leading axes; None for all.
    """
    rows = np.asarray(table, np.float64).reshape(-1, WIDTH)
    if fired is not None:
        rows = rows[np.asarray(fired, bool).reshape(-1)]
    return each_of(rows[0] if len(rows) == 1 else joined(rows), size * len(rows))


def joined(table: Any) -> Any:
    """One summary of several, on the last axis but one, of as many elements each.

    A row of zeros summarises no elements, and does not count. Elements count as evenly spread in
    bins.
    """
    table = np.array(table, np.float64)
    by_name = dict(zip(_FIELDS, np.moveaxis(table, -1, 0), strict=False))
    share = by_name["finite"]
    is_live, total = share > 0, share.sum(-1)
    many = (table[..., _FIELDS.index("nan") : len(_FIELDS)].sum(-1) > 0).sum(-1)
    parts = np.maximum(many, 1)
    shares = [by_name[name].sum(-1) / parts for name in _FIELDS[5:]]
    weight = share / np.where(total > 0, total, 1)[..., None]
    low = np.where(is_live, by_name["min"], np.inf).min(-1, initial=np.inf)
    high = np.where(is_live, by_name["max"], -np.inf).max(-1, initial=-np.inf)
    most = np.where(total > 0, np.maximum(np.abs(low), np.abs(high)), 0)
    unit = np.exp2(np.frexp(most)[1] - 1.0)  # so that no square overflows
    table[..., :5] /= unit[..., None, None]
    mean, std, norm = (np.where(is_live, by_name[name], 0) for name in ("mean", "std", "norm"))
    middle = (mean * weight).sum(-1)
    spread = (std**2 + (mean - middle[..., None]) ** 2) * weight
    with np.errstate(over="ignore"):  # of the norm
        norm = np.sqrt((norm**2).sum(-1)) * unit
    numbers = middle * unit, np.sqrt(spread.sum(-1)) * unit, low, high, norm
    numbers = [np.where(total > 0, one, np.nan) for one in numbers]
    numbers[-1] = np.where((many == 0) & (share.shape[-1] > 0), 0.0, numbers[-1])
    histogram = _rebinned(table, low / unit, high / unit)
    return np.stack([*numbers, *shares, *histogram], -1)


def _stats(numbers: Sequence[Any], size: int, histogram: Any) -> Stats:
    by_name = {
        name: float(x) if np.ndim(x) == 0 else x for name, x in zip(_FIELDS, numbers, strict=False)
    }
    return Stats(**by_name, size=size, histogram=histogram)


def _rebinned(table: Any, low: Any, high: Any) -> Any:
    """How many numbers are in each bin between two numbers, if they lie evenly in their bins."""
    counts = table[..., len(_FIELDS) :]
    least, greatest = table[..., 2:3], table[..., 3:4]
    steps = np.arange(BINS + 1) / BINS
    # Where there are no numbers, or numbers of a part are very near each other.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        edges = (low[..., None] + (high - low)[..., None] * steps)[..., None, :]
        share = np.where(greatest > least, (edges - least) / (greatest - least), edges > least)
        at = np.nan_to_num(share).clip(0, 1) * BINS
    at[..., -1] = BINS
    at[..., 1:] = np.where((low == high)[..., None, None], BINS, at[..., 1:])  # all in the first
    bins = at.astype(np.int64)
    below = np.concatenate([np.zeros_like(counts[..., :1]), counts.cumsum(-1)], -1)
    more = np.concatenate([counts, np.zeros_like(counts[..., :1])], -1)
    found = np.take_along_axis(below, bins, -1) + (at - bins) * np.take_along_axis(more, bins, -1)
    return np.moveaxis(np.diff(np.rint(found.sum(-2)), axis=-1), -1, 0)


STATS = Reduction(summary, (WIDTH,), has_stats, joined)


def each_of(table: Any, size: int, fired: Any = None) -> Stats:
    """The `Stats` of each summary; NaN, and no counts, if it did not fire."""
    table = np.asarray(table, np.float64)
    live = np.True_ if fired is None else np.asarray(fired, bool)
    numbers = [np.where(live, table[..., k], np.nan)[()] for k in range(9)]
    return _stats(numbers, size, (table[..., len(_FIELDS) :] * live[..., None]).astype(np.int64))
