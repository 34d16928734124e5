"""Values of one name in two runs: which of them is which where there are several."""

import difflib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from taxpr._devices.blocks import Processes
from taxpr._differences.numbers import comparable, words
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


def kinds(groups: Sequence[Sequence[Part]], together: Processes) -> Mapping[int, int]:
    """For the values of each group numbers that are equal where they agree, by their ids.

    Args:
        groups: The values.
        together: The processes that have parts of them.
    """
    found: dict[int, int] = {}
    every = _features([part for parts in groups for part in parts], together)
    for parts in groups:
        firsts: dict[Hashable, list[int]] = {}
        features = np.array([every[id(part)] for part in parts])
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


def _features(parts: Sequence[Part], together: Processes) -> dict[int, Any]:
    """The size of each value, and two sums that are others where it has other numbers, by id."""
    arrays = {id(part): words(part.whole()) for part in parts}

    def blocks(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        for at, (part,) in together.blocks(x):
            wide = np.nan_to_num(comparable(part).astype(np.complex128))
            yield tuple(one.start or 0 for one in at), wide

    def most(x: Any) -> Any:
        sizes = (np.abs(part).max(initial=0) for _, part in blocks(x))
        return np.float64(max(map(float, sizes), default=0.0))

    def sums(x: Any, most: float) -> Any:
        found = np.zeros(3, np.complex128)
        for begin, part in blocks(x):
            numbers = np.zeros(part.shape)  # of its places among all
            for k, start in enumerate(begin):
                at = np.arange(start, start + part.shape[k]) * math.prod(x.shape[k + 1 :])
                numbers += at.reshape(-1, *(1,) * (part.ndim - k - 1))
            part = part / most
            found += (np.abs(part) ** 2).sum(), part.sum(), (part * np.cos(numbers)).sum()
        return found

    sizes = {key: most(x) for key, x in arrays.items()}
    sizes = together.joined("how large values are", sizes, np.maximum)
    with np.errstate(all="ignore"):
        own = {key: sums(x, float(sizes[key]) or 1.0) for key, x in arrays.items()}
    every = together.joined("sums of values", own, np.add)
    found: dict[int, Any] = {}
    for key, x in arrays.items():
        squares, total, weighted = every[key]
        unit, many = float(sizes[key]) or 1.0, max(x.size, 1)
        found[key] = [
            unit * one for one in (np.sqrt(squares / many), total / many, weighted / many)
        ]
    return found
