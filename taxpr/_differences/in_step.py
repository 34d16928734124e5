"""Values of one name in two runs: which of them is which where there are several."""

import difflib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from taxpr._differences.numbers import numbers
from taxpr._differences.precision import EPS, coarsest
from taxpr._recordings.part import Part
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

Pair = tuple[Part, Part]
Label = Callable[[Part], Hashable]
_MOST = 1 << 18  # pairs of labels that are compared for the longest sequence; else a long one


def in_step(a: Sequence[Part], b: Sequence[Part], label: Label) -> Iterator[tuple[Pair, bool]]:
    """Values that belong together in their order, and whether their labels are equal.

    As many equal ones as can be in one order belong together, and between two of these others do
    where as many are on both sides. Else nobody can tell which is which.
    """
    labels = [list(map(label, of)) for of in (a, b)]
    i = j = 0
    for k, at in (*_matches(*labels), (len(a), len(b))):
        if k - i == at - j:
            yield from ((pair, False) for pair in zip(a[i:k], b[j:at], strict=True))
        if k < len(a):
            yield (a[k], b[at]), True
        i, j = k + 1, at + 1


def _matches(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest sequence of places, rising in both, that have equal labels."""
    if len(a) * len(b) > _MOST:
        blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        return [(i + k, j + k) for i, j, size in blocks for k in range(size)]
    longest = np.zeros((len(a) + 1, len(b) + 1), int)  # of what begins at these places
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            on = longest[i + 1, j + 1] + 1 if a[i] == b[j] else 0
            longest[i, j] = max(on, longest[i + 1, j], longest[i, j + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j] and longest[i, j] == longest[i + 1, j + 1] + 1:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1, j] >= longest[i, j + 1]:
            i += 1
        else:
            j += 1
    return found


def kinds(groups: Sequence[Sequence[Part]]) -> Mapping[int, int]:
    """For the values of each group numbers that are equal where they agree, by their ids."""
    found: dict[int, int] = {}
    for parts in groups:
        firsts: dict[Hashable, list[int]] = {}
        features = np.array(list(map(_features, parts)))
        for k, part in enumerate(parts):
            known = firsts.setdefault(np.shape(part.whole()), [])
            least = coarsest([part.kept.dtype])
            share = 0.0 if least is None else EPS * float(_jnp.finfo(least).eps)
            close = np.abs(features[known] - features[k]) <= share * np.abs(features[k, :1])
            at: list[int] = np.flatnonzero(close.all(axis=1)).tolist()
            first = known[at[0]] if at else k
            found[id(part)] = id(parts[first])
            known += [] if at else [k]
    return found


def _features(part: Part) -> list[complex]:
    """The size of a value, and two sums that are others where it has other numbers."""
    x = np.nan_to_num(numbers(part.whole()).astype(np.complex128)).ravel()
    if not x.size:
        return [0, 0, 0]
    with np.errstate(all="ignore"):
        most = np.abs(x).max() or 1.0  # squares may be too large
        x = x / most
        weights = np.cos(np.arange(x.size))
        size = np.sqrt(np.mean(np.abs(x) ** 2))
        return [most * one for one in (size, np.mean(x), np.mean(x * weights))]
