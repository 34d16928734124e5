"""A derivative compared with finite differences, in random directions.

Values that several devices share stay divided; each process compares its parts.
"""

import contextlib
import functools
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from taxpr import _compat
from taxpr._devices.blocks import Processes, by_blocks
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_DIRECTIONS = 3
_AROUND = -1, -0.5, 0, 0.5, 1  # the steps
_ROUNDING = 64  # times the precision of the floats: by how much a result may be off
# By the bytes of a float: the step as a share of the value; by how much two slopes may differ that
# are equal, and two slopes on the two sides of a smooth place.
_STEPS = {8: 1e-5, 4: 1e-2}
_TOLERATED = {8: 1e-3, 4: 5e-2}
_KINK = {8: 1e-2, 4: 0.2}


class NotRunError(Exception):
    """The function, or its derivative, raised an error, which is the cause of this one."""


@contextlib.contextmanager
def _told_apart() -> Generator[None]:
    """Tells an error of the function from a mistake in the comparison itself."""
    try:
        yield
    except Exception as error:
        raise NotRunError(str(error) or type(error).__name__) from error


class Slope(NamedTuple):
    """How a result changes with an operand, in one direction.

    Attributes:
        expected: The slope by finite differences.
        found: The slope by the derivative.
        off: By how much these may differ.
    """

    expected: float
    found: float
    off: float

    @property
    def wrong(self) -> bool:
        """Whether they differ by more."""
        return not abs(self.found - self.expected) <= self.off


class ComparedDerivative(NamedTuple):
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
    narrowest: int = 8,
) -> Iterator[ComparedDerivative]:
    """Compare the derivative of a function with finite differences, by operand and result.

    The function and its derivative are compiled once for all operands. Only where that derivative
    is wrong, it is taken with respect to the operand alone: a derivative that is infinite, times no
    change of another operand, is not a number.

    Args:
        fun: A function of arrays that returns a list.
        operands: Its operands.
        reverse: Whether to ask for the derivative in reverse mode.
        which: The numbers of the operands.
        of: The numbers of the results; None means all.
        narrowest: The bytes of the narrowest floats in it, 4 or 8, by which results are rounded.

    Raises:
        NotRunError: If the function, or its derivative, raises an error.
    """
    with _told_apart():
        outs = _jax.eval_shape(fun, *operands)
    results = [j for j, out in enumerate(outs) if is_float(out) and (of is None or j in of)]
    chosen = [k for k, x in enumerate(operands) if k in which and is_float(x)]
    if not results or not chosen:
        return
    every = _Function(fun, operands, chosen, results)
    derive = every.derivative(reverse)
    for at, k in enumerate(chosen):
        found = _slopes(every, derive, at, narrowest)
        if any(one is not None and one.wrong for each in found for one in each):
            alone = _Function(fun, operands, [k], results)
            found = _slopes(alone, alone.derivative(reverse), 0, narrowest)
        for j, each in zip(results, zip(*found, strict=True), strict=True):
            yield ComparedDerivative(k, j, tuple(one for one in each if one is not None))


class _Function:
    """A function of some of its operands, compiled.

    Args:
        fun: The function.
        operands: All its operands.
        chosen: The numbers of those that change.
        results: The numbers of its results.
    """

    def __init__(
        self,
        fun: Callable[..., Sequence[Any]],
        operands: Sequence[Any],
        chosen: Sequence[int],
        results: Sequence[int],
    ) -> None:
        arrays = {k: x for k, x in enumerate(operands) if hasattr(x, "dtype")}
        self._rest = {k: x for k, x in arrays.items() if k not in chosen}
        self.together = Processes(operands)
        self.values = [
            x if isinstance(x, jax.Array) and len(x.devices()) > 1 else np.asarray(x)
            for x in (operands[k] for k in chosen)
        ]

        def run(values: Sequence[Any], rest: dict[int, Any]) -> list[Any]:
            new = rest | dict(zip(chosen, values, strict=True))
            outs = fun(*(new.get(k, x) for k, x in enumerate(operands)))
            return [outs[j] for j in results]

        self._run, self._jitted = run, _jit(run)

    def at(self, number: int, value: Any) -> list[Any]:
        """The results, with a value for the operand of this number among those that change."""
        values = [*self.values]
        values[number] = value
        with _told_apart():
            return self._jitted(values, self._rest)

    def derivative(self, reverse: bool) -> Callable[[int, Any, Sequence[Any]], list[float]]:
        """A function of such a number, a direction, and weights of the results: weighted slopes."""

        def dots(pairs: Sequence[tuple[Any, Any]]) -> list[float]:
            own = {k: np.float64(0) for k in range(len(pairs))}
            for k, pair in enumerate(pairs):
                for _, parts in self.together.blocks(*pair):
                    u, dot = map(_wide, parts)
                    own[k] += np.sum(u * np.where(u == 0, 0, dot))
            return list(map(float, self.together.joined("slopes", own, np.add).values()))

        def forward(values: Sequence[Any], rest: dict[int, Any], moved: Sequence[Any]) -> Any:
            return _jax.jvp(functools.partial(self._run, rest=rest), (values,), (moved,))[1]

        def backward(values: Sequence[Any], rest: dict[int, Any], given: Sequence[Any]) -> Any:
            return _jax.vjp(functools.partial(self._run, rest=rest), values)[1](given)[0]

        jitted = _told_apart()(_jit(backward if reverse else forward))

        def by_forward(number: int, v: Any, weights: Sequence[Any]) -> list[float]:
            moved = list(map(_zeros, self.values))
            moved[number] = v
            return dots([*zip(weights, jitted(self.values, self._rest, moved), strict=True)])

        def by_reverse(number: int, v: Any, weights: Sequence[Any]) -> list[float]:
            zeros = list(map(_zeros, weights))
            each = (
                [*zeros[:j], weights[j], *zeros[j + 1 :]]  # of one result at a time
                for j in range(len(weights))
            )
            backs = (jitted(self.values, self._rest, given)[number] for given in each)
            return dots([(v, back) for back in backs])

        return by_reverse if reverse else by_forward


def _jit(fun: Callable[..., Any]) -> Any:
    """A function of few runs, whose compiling would take longer than these."""
    return _jax.jit(fun, compiler_options=_compat.quick_compile())


def _zeros(x: Any) -> Any:
    def zeros(begin: tuple[int, ...], part: Any) -> Any:
        del begin
        return np.zeros_like(part)

    return by_blocks(zeros, x)


def _slopes(
    fun: _Function,
    derive: Callable[[int, Any, Sequence[Any]], list[float]],
    number: int,
    narrowest: int,
) -> list[list[Slope | None]]:
    """For each direction the slope of each result; None if it cannot be known."""
    x = fun.values[number]
    wide = min(x.dtype.itemsize, narrowest)
    h, kind = x.dtype.type(_STEPS[wide]), x.dtype.type
    own = np.float64(sum(np.square(_wide(part)).sum() for _, [part] in fun.together.blocks(x)))
    squares = fun.together.joined("the size of an operand", {number: own}, np.add)[number]
    mean = np.sqrt(squares / x.size)

    def weight(k: int, begin: tuple[int, ...], *around: Any) -> Any:
        _, ok, _ = _numeric(around, float(h), wide)
        random = np.random.default_rng([k, *begin]).normal(size=np.shape(ok))
        return np.where(ok, random, 0).astype(around[0].dtype)

    found: list[list[Slope | None]] = []
    for nth in range(_DIRECTIONS):

        def direction(begin: tuple[int, ...], part: Any, nth: int = nth) -> Any:
            size = np.abs(part) + 1e-2 * mean
            size = np.where(np.isfinite(size) & (size > 0), size, 1)
            random = np.random.default_rng([nth, *begin]).normal(size=np.shape(part))
            return np.asarray(random * size, part.dtype)

        v = by_blocks(direction, x)
        around = [fun.at(number, _moved(x, kind(s) * h, v)) for s in _AROUND]
        results = list(zip(*around, strict=True))
        weights = [
            by_blocks(functools.partial(weight, _DIRECTIONS + k), *each)
            for k, each in enumerate(results)
        ]
        tables = {k: np.zeros(4) for k in range(len(results))}
        for k, each in enumerate(results):
            for _, (u, *parts) in fun.together.blocks(weights[k], *each):
                slope, ok, off = _numeric(parts, float(h), wide)
                terms = _wide(u) * np.where(ok, slope, 0)
                sums = terms.sum(), np.abs(terms).sum(), np.sum(np.abs(u) * off), np.sum(ok)
                tables[k] += sums
        tables = fun.together.joined("finite differences", tables, np.add)
        derived = derive(number, v, weights)
        each_slope: list[Slope | None] = []
        for (expected, most, off, known), rule in zip(tables.values(), derived, strict=True):
            tolerated = _TOLERATED[wide] * most + off
            one = Slope(float(expected), rule, float(tolerated))
            each_slope.append(one if known else None)
        found.append(each_slope)
    return found


def _moved(x: Any, by: Any, v: Any) -> Any:
    return np.asarray(x + by * v, x.dtype) if isinstance(x, np.ndarray) else x + by * v


def _wide(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _numeric(around: Sequence[Any], h: float, wide: int) -> tuple[Any, Any, Any]:
    """Slopes by finite differences, whether they agree from all points, and the rounding error.

    Args:
        around: The results at `_AROUND`.
        h: The step.
        wide: The bytes of a float.
    """
    low, left, here, right, high = map(_wide, around)
    eps = np.finfo(np.float64 if wide == 8 else np.float32).eps
    with np.errstate(all="ignore"):
        before, after, both = (here - low) / h, (high - here) / h, (high - low) / (2 * h)
        near = (right - left) / h
        off = _ROUNDING * eps / h * (np.abs(low) + np.abs(high)) + np.finfo(np.float32).tiny
        most = _KINK[wide] * (np.abs(after) + np.abs(before)) + off
        smooth = (np.abs(after - before) <= most) & (np.abs(near - both) <= most)
    return both, smooth & np.isfinite(both), np.where(np.isfinite(off), off, 0)
