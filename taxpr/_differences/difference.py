"""`first_difference`: where two runs stop agreeing."""

import dataclasses
import linecache
import math
from collections.abc import Callable, Container, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.question import question
from taxpr._compat import PyTree
from taxpr._differences.aligned import aligned, order_of, reversed_loops, turns_of
from taxpr._differences.precision import EPS, Tolerance
from taxpr._differences.runs import Run, Way, way_of
from taxpr._errors import (
    ArgumentError,
    name_of,
    refuse_no_function,
    refuse_other_arguments,
)
from taxpr._jaxprs.trees import named_leaves
from taxpr._programs.functions import called_as
from taxpr._programs.program import Program
from taxpr._recordings.recorded import Part
from taxpr._sites.criteria import Selector

np: Any = numpy  # which leaves types of arrays unknown
_jnp: Any = jnp


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value that differs between two runs.

    Attributes:
        variable: The variable, or the address of the value; ``out`` is the result.
        iteration: The iteration of the loops around it that ran first of those in which it differs.
        line: The line that made it.
        index: Where in the value the difference is greatest.
        a: The number there in the first run.
        b: The number there in the second run.
        difference: The greatest difference, in that iteration.
        what: What differs, where that is not a number.
        statement: The text of the line.
        file: The file.
        address: The address in the first run.
    """

    variable: str
    iteration: tuple[int, ...] | None
    line: str
    index: tuple[int, ...]
    a: Any
    b: Any
    difference: float
    what: str
    statement: str
    file: str
    address: str


class Differences(Answer):
    """What `first_difference` found: all that differs, in the order of execution."""

    _columns = (
        *("variable", "iteration", "line", "index", "a", "b", "difference", "what"),
        "statement",
    )

    @property
    def first(self) -> Difference | None:
        """The first difference; None where both runs agree."""
        return self.rows[0] if self.rows else None

    def chart(self) -> Chart | None:
        """The differences, in the order of execution."""
        sizes = [row.difference for row in self.rows]
        return Lines({"difference": np.array(sizes)}, xlabel="values in order") if sizes else None


@question
def first_difference(
    a: Any,
    b: Any = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    where: Selector = None,
    memory: int | None = None,
) -> Callable[..., Differences]:
    """Say where two runs stop agreeing, in the order of execution.

    Both are recorded by `watch`, and the variables of one name are compared, in each iteration of
    each loop. Programs whose variables are not known are compared equation by equation.

    Args:
        a: A function of PyTrees of arrays, or a `Program`.
        b: What it is compared with: another function, or a program made by an edit, called with the
            same arguments; ``"op by op"`` for the same function without a compiler, each
            equation by itself, but loops and branches as one each, which a note names; a dtype such
            as ``"bfloat16"`` for the same function with all arrays of floats among its arguments
            cast; a device. None compares two inputs.
        atol: Numbers may differ by ``atol + rtol * abs(b)``. None of both tolerates 16 times the
            precision of the coarsest type that the value was computed in, of its greatest number.
        rtol: See ``atol``; one of them alone has 0 for the other.
        where: What is compared, as for `watch`; None means all variables.
        memory: As for `watch`.

    Returns:
        A function of the arguments of ``a``; without ``b`` of two inputs, each a tuple for a
        function with several arguments, and arguments by name that are those of both. It returns an
        `Answer` with a row for each value that differs, the first difference first (``.first``),
        and behind it what follows from it, and what only one of both results has. It is false where
        both agree.

    Raises:
        ArgumentError: If ``b`` is none of these; if it is a dtype, and no argument is an array of
            floats of another; if both have no value in common.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def before(x):
        ...     mean = jnp.mean(x)
        ...     centred = x - mean
        ...     return centred / jnp.std(x)
        >>> def after(x):
        ...     mean = jnp.median(x)
        ...     centred = x - mean
        ...     return centred / jnp.std(x)
        >>> found = taxpr.first_difference(before, after)(jnp.asarray([1.0, 2.0, 6.0]))
        >>> found.first.variable, found.first.a, found.first.b
        ('mean', 3.0, 2.0)
        >>> [row.variable for row in found.rows]
        ['mean', 'centred', 'out']
        >>> bool(taxpr.first_difference(before, "op by op")(jnp.arange(3.0)))
        False
    """
    if not isinstance(a, Program):
        refuse_no_function("first_difference", a)
    of_b = Way("another input", a) if b is None else way_of(a, b)
    tolerance = Tolerance(atol, rtol)

    def of(first: tuple[Any, ...], second: tuple[Any, ...], kwargs: dict[str, Any]) -> Differences:
        runs = Run(Way("a", a), first, kwargs), Run(of_b, second, kwargs)
        known = all(run.program.variables() for run in runs)
        chosen = where if where is not None or known else "*"
        (one, out, said), (two, other, more) = (run.record(chosen, memory) for run in runs)
        if not known:  # of one alone they would keep its values from their partners
            one, two = ([dataclasses.replace(p, variable=None) for p in of] for of in (one, two))
        pairs = aligned(one, two)
        if not pairs:
            raise ArgumentError(
                "first_difference: the two have no variable in common, and no equation of one "
                "line. Give functions whose variables have the same names."
            )
        backwards = reversed_loops(runs[0].program)
        dtypes = [tuple(map(Run.precision, runs, pair)) for pair in pairs]
        compared = (
            _compared(*pair, tolerance, of, backwards)
            for pair, of in zip(pairs, dtypes, strict=True)
        )
        found = [row for row in compared if row is not None]
        found.sort(key=lambda pair: pair[0])
        rows = _without_copies([row for _, row in found])
        results = _of_results(runs, (out, other), tolerance)
        alone = len(one) + len(two) - 2 * len(pairs)
        notes = (f"Values in one of them only: {alone}.",) if alone else ()
        least = tolerance.coarsest([dtype for of in dtypes for dtype in of])
        if least is not None and _jnp.finfo(least).bits < 32:
            share = EPS * float(_jnp.finfo(least).eps)
            notes = (
                f"Tolerated in {least} are differences of {share:.3g} of the greatest number of a "
                "value, 16 times its precision, also in what is computed from it; atol= and rtol= "
                "say otherwise.",
                *notes,
            )
        among = f"{len(rows) or 'none'} of {len(pairs)} values differ"
        among += ", only the result" if results and not rows else ""
        headline = f"first difference of {name_of(a)} and {of_b.name}: {among}"
        rows += results
        return Differences(headline, rows, (*notes, *dict.fromkeys((*said, *more))))

    if b is None:

        def two_inputs(*inputs: Any, **kwargs: PyTree) -> Differences:
            if len(inputs) != 2:
                raise ArgumentError(
                    "first_difference: without b it takes two inputs, and was given "
                    f"{len(inputs)}. Give first_difference(f)(one, other), or b, as "
                    'first_difference(f, "op by op").'
                )
            first, second = inputs
            for given in inputs:
                refuse_other_arguments("first_difference", a, _arguments(given), kwargs)
            return of(_arguments(first), _arguments(second), kwargs)

        return two_inputs

    def same(*args: PyTree, **kwargs: PyTree) -> Differences:
        return of(args, args, kwargs)

    return same if isinstance(a, Program) else called_as(a)(same)


def _arguments(given: Any) -> Any:
    is_tuple = given.__class__ is tuple
    return given if is_tuple else (given,)


def _numbers(x: Any) -> Any:
    """An array of NumPy that can be compared; keys as their words."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _compared(
    one: Part,
    two: Part,
    tolerance: Tolerance,
    dtypes: Sequence[Any],
    backwards: Container[str],
) -> tuple[tuple[float, ...], Difference] | None:
    """How two values differ, and when that was computed; None where they do not."""

    def row(at: tuple[int, ...], what: str, *numbers: Any) -> tuple[tuple[float, ...], Difference]:
        return order_of(one, at, backwards), _row(one, at, what, *numbers)

    values = [_numbers(part.whole()) for part in (one, two)]
    lead = len(one.kept.axes)
    if one.kept.shape != two.kept.shape or lead != len(two.kept.axes):
        shapes = [f"{p.kept.dtype}{list(p.kept.shape)}" for p in (one, two)]
        return row((0,) * lead, f"{shapes[0]} and {shapes[1]}")
    loops = [x.shape[:lead] for x in values]
    common = tuple(map(min, *loops)) if lead else ()
    inside = tuple(map(slice, common))
    a, b = (x[inside] for x in values)
    ran = [
        np.ones(common, bool) if part.kept.fired is None else part.kept.fired[inside]
        for part in (one, two)
    ]
    wrong = _differ(a, b, tolerance, dtypes)
    own = tuple(range(lead, wrong.ndim))
    bad = np.where(ran[0] & ran[1], wrong.any(axis=own), ran[0] != ran[1])
    if not bad.any():
        if loops[0] == loops[1]:
            return None
        k = next(k for k in range(lead) if loops[0][k] != loops[1][k])
        at = tuple(common[j] if j == k else 0 for j in range(lead))
        return row(at, f"ran {loops[0][k]} and {loops[1][k]} times")
    every = [tuple(map(int, at)) for at in np.argwhere(bad)]
    at = min(every, key=lambda at: turns_of(one, at, backwards))
    if not (ran[0][at] and ran[1][at]):
        return row(at, f"was computed in {'a' if ran[0][at] else 'b'} only")
    return row(at, "", a[at], b[at])


def _apart(a: Any, b: Any) -> Any:
    """How far two arrays of numbers are apart; exactly for integers."""
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        left, right = (x.astype(np.uint64) for x in (a, b))  # differences are right modulo 2**64
        return np.where(a > b, left - right, right - left)
    return np.abs(np.subtract(a, b, dtype=np.result_type(a, b, np.float64)))


def _differ(a: Any, b: Any, tolerance: Tolerance, dtypes: Sequence[Any]) -> Any:
    """For each number whether two arrays of one shape differ."""
    with np.errstate(all="ignore"):
        far = _apart(a, b) > tolerance.of(a, b, dtypes)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    return ~same & (far | ~finite)


def _row(part: Part, at: tuple[int, ...], what: str, a: Any = None, b: Any = None) -> Difference:
    place = _worst(a, b) if a is not None else ((), None, None, math.nan)
    index, left, right, size = place
    file = part.file or ""
    each = list(zip(part.kept.axes, at, strict=False))
    lanes = tuple(k for axis, k in each if axis.startswith("vmap "))
    return Difference(
        part.name + part.path,
        tuple(k for axis, k in each if not axis.startswith("vmap ")) or None,
        part.place,
        (*lanes, *index),
        left,
        right,
        size,
        what,
        linecache.getline(file, part.line or 0).strip() if file else "",
        file,
        str(part.address),
    )


def _worst(a: Any, b: Any) -> tuple[tuple[int, ...], Any, Any, float]:
    """Where two arrays differ most, both numbers, and by how much."""
    with np.errstate(all="ignore"):
        size = _apart(a, b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    size = np.where(same, 0.0, np.where(np.isnan(size), np.inf, size))
    at = np.unravel_index(int(np.argmax(size)), size.shape)
    return tuple(map(int, at)), a[at].item(), b[at].item(), float(size[at])


def _without_copies(rows: Sequence[Difference]) -> list[Difference]:
    """One row for each value, whatever names it has."""
    first: dict[str, Difference] = {}
    for row in rows:
        first.setdefault(row.address, row)
    return list(first.values())


def _of_results(
    runs: Sequence[Run], outs: Sequence[PyTree], tolerance: Tolerance
) -> list[Difference]:
    found: list[Difference] = []
    own, others = (dict(named_leaves("out", of)) for of in outs)
    precise = [
        dict(zip(of, run.results, strict=False))  # an injected program has its ctx, too
        for run, of in zip(runs, (own, others), strict=True)
    ]
    for name in dict.fromkeys((*own, *others)):
        if not (name in own and name in others):
            what = f"is in {'a' if name in own else 'b'} only"
            found.append(Difference(name, None, "", (), None, None, math.nan, what, "", "", name))
            continue
        leaves = [jnp.asarray(of[name]) for of in (own, others)]
        (a, b), dtypes = map(_numbers, leaves), [of.get(name) for of in precise]
        end = (name, None, "")
        if a.shape != b.shape:
            what = f"{list(a.shape)} and {list(b.shape)}"
            found.append(Difference(*end, (), None, None, math.nan, what, "", "", name))
        elif _differ(a, b, tolerance, dtypes).any():
            found.append(Difference(*end, *_worst(a, b), "", "", "", name))
    return found
