"""A derivative compared with finite differences, in random directions."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy
import numpy

np: Any = numpy  # which leaves types of arrays unknown
_jax: Any = jax  # which declares no types of functions that it makes
_jnp: Any = jax.numpy

_DIRECTIONS = 3
_AROUND = -1, -0.5, 0, 0.5, 1  # the steps
_ROUNDING = 64  # times the precision of the floats: by how much a result may be off
# By the bytes of a float: the step as a share of the value; by how much two slopes may differ that
# are equal, and two slopes on the two sides of a smooth place.
_STEPS = {8: 1e-5, 4: 1e-2}
_TOLERATED = {8: 1e-3, 4: 5e-2}
_KINK = {8: 1e-2, 4: 0.2}


class Slope(NamedTuple):
    """How a result changes with an operand, in one direction.

    Attributes:
        expected: What finite differences say.
        found: What the derivative says.
        off: By how much these may differ.
    """

    expected: float
    found: float
    off: float

    @property
    def wrong(self) -> bool:
        """Whether they differ by more."""
        return not abs(self.found - self.expected) <= self.off


class Compared(NamedTuple):
    """A derivative beside finite differences.

    Attributes:
        operand: The number of the operand.
        result: The number of the result.
        slopes: In each direction; none where finite differences tell nothing: at a kink, or where
            the function is not finite.
    """

    operand: int
    result: int
    slopes: tuple[Slope, ...]

    @property
    def wrong(self) -> bool:
        """Whether they differ."""
        return any(one.wrong for one in self.slopes)

    @property
    def worst(self) -> Slope:
        """The slope that differs most."""
        return max(self.slopes, key=lambda one: abs(one.found - one.expected) / (one.off or 1.0))

    @property
    def hint(self) -> str:
        """In which way it is wrong; "" where that cannot be said in short."""
        found = np.array([one.found for one in self.slopes])
        expected = np.array([one.expected for one in self.slopes])
        if not np.isfinite(found).all():
            return "is not finite"
        if not found.any():
            return "is zero"
        if all(abs(one.expected) <= one.off for one in self.slopes):
            return "should be zero"
        ratios = found[expected != 0] / expected[expected != 0]
        if np.ptp(ratios) <= 1e-2 * abs(ratios.mean()):
            return f"is {ratios.mean():.3g} times what it should be"
        return ""


def is_float(x: Any) -> bool:
    """Whether something is an array of real floats of 32 or 64 bits, with an element at least."""
    return getattr(x, "dtype", None) in (np.float32, np.float64) and bool(np.size(x))


def compare(
    fun: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    reverse: bool,
    which: Container[int],
    of: Container[int] | None = None,
) -> list[Compared]:
    """Compare the derivative of a function with finite differences, by operand and result.

    Args:
        fun: A function of arrays that returns a list.
        operands: Its operands.
        reverse: Whether to ask for the derivative in reverse mode.
        which: The numbers of the operands.
        of: The numbers of the results; all if there are none.
    """
    found: list[Compared] = []
    outs = fun(*operands)
    results = [j for j, out in enumerate(outs) if is_float(out) and (of is None or j in of)]
    for k, x in enumerate(operands):
        if k not in which or not is_float(x) or not results:
            continue

        def of_one(value: Any, k: int = k) -> list[Any]:
            every = fun(*operands[:k], value, *operands[k + 1 :])
            return [every[j] for j in results]

        directions = _slopes(_jax.jit(of_one), np.asarray(x), reverse)
        for j, each in zip(results, zip(*directions, strict=True), strict=True):
            found.append(Compared(k, j, tuple(one for one in each if one is not None)))
    return found


def _slopes(fun: Callable[..., list[Any]], x: Any, reverse: bool) -> list[list[Slope | None]]:
    """For each direction the slope of each result; None where there is none to be known."""
    random, wide = np.random.default_rng(0), x.dtype.itemsize
    h = x.dtype.type(_STEPS[wide])
    size = np.abs(x) + 1e-2 * np.sqrt(np.mean(np.square(x)))
    size = np.where(np.isfinite(size) & (size > 0), size, 1)
    found: list[list[Slope | None]] = []
    for _ in range(_DIRECTIONS):
        v = (random.normal(size=x.shape) * size).astype(x.dtype)
        around = [fun(_jnp.asarray(x + x.dtype.type(s) * h * v)) for s in _AROUND]
        known = [
            _numeric([_wide(one) for one in each], float(h), wide)
            for each in zip(*around, strict=True)
        ]
        weights = [np.where(ok, random.normal(size=np.shape(ok)), 0) for _, ok, _ in known]
        derive = _reverse if reverse else _forward
        derived = derive(fun, _jnp.asarray(x), _jnp.asarray(v), weights)
        each: list[Slope | None] = []
        for u, (slope, ok, off), rule in zip(weights, known, derived, strict=True):
            terms = u * np.where(ok, slope, 0)
            most = np.abs(terms).sum()
            tolerated = _TOLERATED[wide] * most + np.sum(np.abs(u) * off)
            each.append(Slope(float(terms.sum()), rule, float(tolerated)) if ok.any() else None)
        found.append(each)
    return found


def _forward(fun: Any, x: Any, v: Any, weights: Sequence[Any]) -> list[float]:
    _, moved = _jax.jvp(fun, (x,), (v,))
    pairs = zip(weights, map(_wide, moved), strict=True)
    return [float(np.sum(u * np.where(u == 0, 0, dot))) for u, dot in pairs]


def _reverse(fun: Any, x: Any, v: Any, weights: Sequence[Any]) -> list[float]:
    outs, back = _jax.vjp(fun, x)
    found: list[float] = []
    for j in range(len(outs)):
        given = [
            _jnp.asarray(u if k == j else np.zeros(out.shape), out.dtype)
            for k, (u, out) in enumerate(zip(weights, outs, strict=True))
        ]
        found.append(float(np.sum(_wide(back(given)[0]) * _wide(v))))
    return found


def _wide(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _numeric(around: Sequence[Any], h: float, wide: int) -> tuple[Any, Any, Any]:
    """Slopes by finite differences, where they are the same from all points, and what is rounded.

    Args:
        around: The results at `_AROUND`.
        h: The step.
        wide: The bytes of a float.
    """
    low, left, here, right, high = around
    eps = np.finfo(np.float64 if wide == 8 else np.float32).eps
    with np.errstate(all="ignore"):
        before, after, both = (here - low) / h, (high - here) / h, (high - low) / (2 * h)
        near = (right - left) / h
        off = _ROUNDING * eps / h * (np.abs(low) + np.abs(high)) + np.finfo(np.float32).tiny
        most = _KINK[wide] * (np.abs(after) + np.abs(before)) + off
        smooth = (np.abs(after - before) <= most) & (np.abs(near - both) <= most)
    return both, smooth & np.isfinite(both), np.where(np.isfinite(off), off, 0)
