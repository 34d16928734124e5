"""Pair the items of two sequences, such as inputs, outputs or operands."""

import bisect
import difflib
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

QUADRATIC = 250_000  # the most comparisons for two sequences

Pairs = dict[int, int]
Both = Sequence[Sequence[Hashable]]  # before and after


def in_order(before: Sequence[Hashable], after: Sequence[Hashable]) -> Pairs:
    """Pair equal items of two sequences in order: many pairs, but not always the most possible.

    For long sequences, pair only items that occur exactly once in both, as patience diff does.
    """
    if len(before) * len(after) > QUADRATIC:
        return dict(_unique_in_order(before, after))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return {a + n: b + n for a, b, size in matcher.get_matching_blocks() for n in range(size)}


def ends(types: Both, names: Both = ((), ()), known: Pairs | None = None) -> Pairs:
    """Pair inputs or outputs: known pairs first, then equal names that occur once in both.

    If equally many are left on both sides, pair these in order; otherwise pair equal types in
    order.

    Args:
        types: The type of each, on both sides.
        names: The name of each, on both sides; nothing if they have none.
        known: The known pairs.
    """
    pairs = dict(known or {})
    taken = set(pairs.values())
    once_before, once_after = map(_once, names)
    for name, a in once_before.items():
        b = once_after.get(name)
        if b is not None and a not in pairs and b not in taken:
            pairs[a] = b
            taken.add(b)
    left = [a for a in range(len(types[0])) if a not in pairs]
    free = [b for b in range(len(types[1])) if b not in taken]
    if len(left) == len(free):
        return pairs | dict(zip(left, free, strict=True))
    typed = in_order([types[0][a] for a in left], [types[1][b] for b in free])
    return pairs | {left[a]: free[b] for a, b in typed.items()}


def _once(items: Sequence[Hashable]) -> dict[Hashable, int]:
    count = Counter(items)
    return {item: k for k, item in enumerate(items) if count[item] == 1 and item is not None}


def _unique_in_order(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> Iterator[tuple[int, int]]:
    """As many pairs as possible in order, among items that occur once in both sequences.

    This is the longest increasing subsequence, found by patience sorting.
    """
    once = _once(after)
    pairs = [(a, once[item]) for item, a in _once(before).items() if item in once]
    tails: list[int] = []  # for each length, the smallest last partner of a chain of that length
    ends_at: list[int] = []
    came_from: list[int | None] = []
    for n, (_, b) in enumerate(pairs):
        length = bisect.bisect_left(tails, b)
        if length == len(tails):
            tails.append(b)
            ends_at.append(n)
        else:
            tails[length], ends_at[length] = b, n
        came_from.append(ends_at[length - 1] if length else None)
    n = ends_at[-1] if ends_at else None
    while n is not None:
        yield pairs[n]
        n = came_from[n]
