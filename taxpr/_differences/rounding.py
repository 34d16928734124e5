"""Tell which differences of two runs are more than rounding.

A sum whose terms cancel is rounding alone: another order of the terms gives another number, which
may be far from the first one, and a quotient by it further still. So both runs are repeated several
times, with arguments moved a little. Rounding then makes another difference each time, while a
wrong line makes about the same difference; or the same share of the value, if the value itself
changes each time, as at the end of a chaotic loop.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from taxpr._compat import PyTree, map_leaves
from taxpr._devices.blocks import Processes, by_blocks
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

SAMPLES = 4
_SHARE = 1 / 4  # of a difference, by which it may change and be the same one
_RATIO = 1 / 64  # of its share of the value; less, since some is the same by chance
_ONE = jax.tree.structure(0)
OF = 16  # one of so many numbers that differ must do so by more than rounding

Key = int | str
# Of each pair the numbers in both runs, by the places where their parts begin.
BlockKey = tuple[Key, tuple[int, ...]]
BlockPairs = Mapping[BlockKey, tuple[Any, Any]]


def moved(given: PyTree, number: int) -> Any:
    """Arguments whose floats are a little smaller, each by a share of its own.

    Whole numbers stay, since a mask, a label or a zero means just that number.
    """
    counter = itertools.count()  # so that equal arguments move in different ways

    def of(x: Any) -> Any:
        if not isinstance(x, float | complex) and jax.tree.structure(x) != _ONE:
            # A number of Python in an object, such as a rate of dropout, is no argument.
            return map_leaves(lambda y: of(y) if hasattr(y, "dtype") else y, x)
        if not _jnp.issubdtype(getattr(x, "dtype", x.__class__), _jnp.inexact):
            return x
        dtype = _jnp.result_type(x)  # of a double its type in JAX
        is_complex = _jnp.issubdtype(dtype, _jnp.complexfloating)
        count = next(counter)

        def of_part(begin: tuple[int, ...], part: Any) -> Any:
            wide = np.asarray(part).astype(np.complex128 if is_complex else np.float64)
            # The root moves what is added to a larger number, too, and leaves what is sound alone.
            rng = np.random.default_rng([number, count, *begin])
            share = rng.uniform(0.25, 1.0, wide.shape) * float(_jnp.finfo(dtype).eps) ** 0.5
            with np.errstate(all="ignore"):
                return np.where(wide == np.round(wide), wide, wide * (1 - share)).astype(dtype)

        return by_blocks(of_part, x)

    # Of plain containers, within which numbers are arguments.
    return jax.tree.map(of, given, is_leaf=lambda x: type(x) not in (tuple, list, dict))


def lasting(
    found: BlockPairs, again: Callable[[int], BlockPairs], together: Processes
) -> dict[BlockKey, Any]:
    """For each number of each pair whether its difference stays when the arguments move.

    Args:
        found: Pairs of arrays.
        again: The pairs of the same keys, of runs whose arguments have moved for the given time. A
            while loop may have had another number of iterations in them.
        together: The processes that have parts of these.
    """
    first = {key: _between(*pair) for key, pair in found.items()}
    shares = {key: _share(x, found[key]) for key, x in first.items()}
    stays = {key: np.ones(x.shape, bool) for key, x in first.items()}
    for number in range(SAMPLES):
        here = any(one.any() for one in stays.values())
        if not together.some("which differences are more than rounding", here):
            break
        now = again(number)
        for key, x in first.items():
            other = _between(*now[key])
            both = tuple(map(slice, map(min, x.shape, other.shape)))
            with np.errstate(all="ignore"):  # what is not finite stays
                changed = np.abs(other[both] - x[both]) > _SHARE * np.abs(x[both])
                before, after = shares[key][both], _share(other, now[key])[both]
                changed &= ~(np.abs(after - before) <= _RATIO * np.abs(before))
            stays[key][both] &= ~changed
    return stays


def _share(difference: Any, pair: tuple[Any, Any]) -> Any:
    """A difference as a share of the value; NaN where one of both is zero, which may be exact."""
    both = tuple(map(slice, difference.shape))
    a, b = (np.asarray(one[both], difference.dtype) for one in pair)
    with np.errstate(all="ignore"):
        return np.where((a != 0) & (b != 0), difference / a, np.nan)


def _between(a: Any, b: Any) -> Any:
    both = tuple(map(slice, map(min, a.shape, b.shape)))
    with np.errstate(all="ignore"):
        return np.subtract(a[both], b[both], dtype=np.result_type(a, b, np.float64))
