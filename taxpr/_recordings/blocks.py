"""Statistics of numbers by NumPy, in blocks that stay in the processor's caches."""

from typing import Any

from taxpr._untyped import np

BINS = 16  # of a histogram
_PLACES = BINS + 1  # the greatest number comes after them

_BLOCK = 1 << 16
_LONG = 1 << 13  # so many numbers take longer than all pairs of bins
_SHORT = 1 << 13  # so few numbers NumPy multiplies without threads, for which they are too few
_LEAST, _MOST = 1e-140, 1e140  # whose squares and sums have no overflow
_READY = "float32", "float64"  # whose least and greatest number NumPy finds quickly


def numbers(rows: Any) -> tuple[Any, Any]:
    """The numbers of `Stats` of each row, and which of them are right.

    A row has wrong ones if the square of its greatest absolute value is too large or too small for
    float64.

    Args:
        rows: Real numbers, which have two axes. The last one is reduced, and is not of length 0.
    """
    count, size = rows.shape
    low, high, total, squares, zeros = np.zeros((5, count))
    right, counts = np.ones(count, bool), np.zeros((count, _PLACES), np.int64)
    kinds = np.zeros((3, count))  # how many are NaN, inf, -inf
    some = max(_BLOCK // size, 1)
    for begin in range(0, count, some):
        now = slice(begin, begin + some)
        each = rows[now] if rows.dtype.name in _READY else rows[now].astype(np.float64)
        least, greatest = np.stack([each.min(-1), each.max(-1)]).astype(np.float64)
        if not (ok := _right(least, greatest)).all():
            each, least, greatest, kinds[:, now] = _finite(each)
            right[now] = ok = _right(least, greatest)
            each = np.where(ok[:, None], each, 0)
            least, greatest = np.where(ok, (least, greatest), 0)
        low[now], high[now] = least, greatest
        sums = _sums(each, low[now, None], high[now, None])
        total[now], squares[now], zeros[now], counts[now] = sums
    counts[:, BINS - 1] += counts[:, BINS]
    # NaN and infinities were counted as the least number.
    without = kinds.sum(0)
    many = size - without
    counts[:, 0] -= without.astype(np.int64)
    zeros -= without * (low == 0)
    # The least number is one of them, so that their variance and their norm are not small beside
    # its distance from the others, and little is lost.
    of = np.maximum(many, 1)
    square = squares + (2 * total + many * low) * low
    columns = np.stack(
        (
            low + total / of,
            np.sqrt(np.maximum(squares - total * total / of, 0) / of),
            low,
            high,
            np.sqrt(np.maximum(square, 0)),
        )
    )
    columns[:, many == 0] = np.nan
    shares = np.stack((zeros, *kinds, many)) / size
    return np.concatenate([columns, shares, counts[:, :BINS].T]).T, right


def _right(low: Any, high: Any) -> Any:
    """Whether the squares of the numbers between these two are numbers."""
    most = np.maximum(abs(low), abs(high))
    return (most < _MOST) & ((most > _LEAST) | (most == 0))


def _finite(rows: Any) -> tuple[Any, Any, Any, Any]:
    """Put the minimum for NaN and infinities; also return it, the maximum, and `kinds`."""
    whole = np.isfinite(rows)
    low = np.where(whole, rows, np.inf).min(-1)
    high = np.where(whole, rows, -np.inf).max(-1)
    low, high = np.where(whole.any(-1), (low, high), 0).astype(np.float64)
    kinds = [_count(one) for one in (np.isnan(rows), rows == np.inf, rows == -np.inf)]
    return np.where(whole, rows, low.astype(rows.dtype)[:, None]), low, high, kinds


def _sums(rows: Any, low: Any, high: Any) -> tuple[Any, Any, Any, Any]:
    """For each row: sum of its numbers less the minimum, sum of their squares, zeros, and bins.

    Args:
        rows: One long row, or rows which fit in a block.
        low: Their least numbers.
        high: Their greatest numbers.
    """
    (count, size), width = rows.shape, np.where(high > low, high - low, 1.0) / BINS
    total = squares = zeros = counts = 0
    held = np.empty((count, min(_BLOCK, size)), np.float64)
    at = np.empty(held.shape, np.uint8)
    for begin in range(0, size, _BLOCK):
        block = rows[:, begin : begin + _BLOCK]
        many = block.shape[1]
        above, bins = held[:, :many], at[:, :many]
        np.subtract(block, low, out=above, dtype=np.float64)
        total = total + above.sum(-1)
        for k in range(0, many, _SHORT):
            some = above[:, k : k + _SHORT]
            if count == 1:  # the same, and quicker
                squares = squares + np.vdot(some, some)
            else:
                squares = squares + (some[:, None, :] @ some[:, :, None])[:, 0, 0]
        zeros = zeros + _count(block == 0)
        above /= width
        np.copyto(bins, above, casting="unsafe")
        counts = counts + _histograms(bins)
    return total, squares, zeros, counts


def _histograms(bins: Any) -> Any:
    """How often each bin is in each row."""
    count, size = bins.shape
    if count == 1 and size >= _LONG and size % 2 == 0:  # by how often each two are side by side
        pairs = np.bincount(bins[0].view(np.uint16), minlength=256 * _PLACES).reshape(-1, 256)
        return pairs.sum(1) + pairs.sum(0)[:_PLACES]
    of_row = bins + _PLACES * np.arange(count)[:, None]
    return np.bincount(of_row.ravel(), minlength=count * _PLACES).reshape(count, _PLACES)


def _count(which: Any) -> Any:
    """How many are true in each row."""
    if len(which) == 1 or not which.any():  # which is found much more quickly
        return np.full(len(which), np.count_nonzero(which))
    return which.sum(-1, dtype=np.uint32)
