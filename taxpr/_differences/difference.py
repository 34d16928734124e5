"""`first_difference`: find the first difference of two runs."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.count_of import count_of
from taxpr._compat import PyTree
from taxpr._devices.blocks import Processes
from taxpr._differences.aligned import aligned
from taxpr._differences.compared import Compared
from taxpr._differences.losses import Loss, losses
from taxpr._differences.precision import EPS, Tolerance, not_cast
from taxpr._differences.rounding import BlockPairs, lasting, moved
from taxpr._differences.rows import Difference, without_copies
from taxpr._differences.runs import Run, Way, way_of
from taxpr._editing.edited import edits_of
from taxpr._errors import (
    ArgumentError,
    name_of,
    refuse_no_function,
    refuse_other_arguments,
)
from taxpr._keeping.wanted import EVERY_VARIABLE
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as
from taxpr._sites.criteria import Selector
from taxpr._transforms.question import question
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

_NUMBERS = "index", "a", "b", "difference"


class Differences(Answer):
    """The answer of `first_difference`: all values that differ, in the order of execution."""

    _columns = ("variable", "iteration", "line", *_NUMBERS, "what", "statement")

    @property
    def first(self) -> Difference | None:
        """The first difference; None if both runs agree."""
        return self.rows[0] if self.rows else None

    def chart(self) -> Chart | None:
        """The differences, in the order of execution."""
        sizes = np.array([row.difference for row in self.rows], np.float64)  # None is NaN
        return Lines({"difference": sizes}, xlabel="values in order") if self.rows else None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Losses(Differences):
    """The answer for two precisions: statements by the error that each adds.

    It is false if all differences are within the tolerance.

    Attributes:
        differences: The values that differ by more, in the order of execution.
        error: The greatest error of a result.
    """

    differences: Sequence[Difference] = ()
    error: float = 0.0

    _columns = ("variable", "iteration", "line", "adds", "share", "error", *_NUMBERS, "statement")

    def __bool__(self) -> bool:
        return bool(self.differences)

    def chart(self) -> Chart | None:
        """The errors that statements add, the worst first."""
        adds = [row.adds for row in self.rows if isinstance(row, Loss)]
        return Lines({"adds": np.array(adds)}, xlabel="statements") if adds else None


_LEFT_OUT = (
    "By rounding alone {count} more differ, {first} first: by another number each time that the "
    "arguments move a little. atol= and rtol= compare them, too."
)
_NAN = (
    "NaN in both counts as equal: {first}{more}. find_nan finds its origin; values computed "
    "from it are not compared."
)
_ONE_CLASS = (
    "Both ran the methods of one object, of the class {model}. Two versions of a class are two "
    "inputs: first_difference(loss)(old, new), where loss(model) calls the model."
)
_WORST = "where {dtype} hurts most in {name}: "


@question
def first_difference(
    fun: Any,
    other: Any = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    where: Selector = EVERY_VARIABLE,
    memory: float | None = None,
) -> Callable[..., Differences]:
    """Find the differences of two runs, in the order of execution.

    `watch` records both, and variables of one name are compared, in each iteration of each loop.
    Programs whose variables are not known are compared equation by equation. A difference made by
    rounding alone, as in a sum whose terms cancel, is left out: if numbers differ in one precision,
    both run four times more, with arguments that are moved a little.

    For another precision, such as ``"bfloat16"``, the question is where it hurts most. The rows are
    then statements by the error that they add, the worst first, unless ``atol`` or ``rtol`` sets a
    tolerance. The error of a value is the RMS of the difference divided by the RMS of the value, at
    most 1. ``adds`` is the error less the greatest error of the operands, and ``share`` its part of
    the sum over all statements.

    Args:
        fun: A function of PyTrees of arrays, or a `Program`.
        other: The other run: another function, or a program made by an edit, called with the same
            arguments; ``"op by op"`` for the same function without compiling it, except that loops
            and branches are each compiled as one, as a note says; a dtype such as ``"bfloat16"``
            for the same function with all float arrays among its arguments cast; a device. None
            compares two inputs.
        atol: Numbers may differ by ``atol + rtol * abs(other)``. Without both, the tolerance is 16
            times the eps of the lowest precision used, times the greatest absolute value;
            differences that change erratically when the arguments move are ignored as rounding.
        rtol: See ``atol``; if only one is given, the other is 0.
        where: The values to compare, as for `watch`; by default all variables.
        memory: As for `watch`. If it is too little, the host keeps the values, and each runs in up
            to 8 passes, on a CPU in one.

    Returns:
        A function of the arguments of ``fun``. Without ``other`` it takes two inputs, each a tuple
        if the function has several arguments; both share the keyword arguments. It returns an
        `Answer` with a row for each value that differs, the first difference first (``.first``),
        then its consequences, and results that only one of them has. It is false if both agree. For
        another precision, its ``.differences`` are the values beyond the tolerance, in the order of
        execution, and it is false if there are no such values.

    Raises:
        ArgumentError: If ``other`` is something else; if it is a dtype, and no argument is a float
            array of another dtype; if both have no value in common; if the host has no room for the
            values.

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
        >>> found = taxpr.first_difference(before, "bfloat16")(jnp.asarray([999.1, 1000.2, 1001.7]))
        >>> found.first.variable, found.first.share > 0.9
        ('centred', True)
    """
    if not isinstance(fun, Program):
        refuse_no_function("first_difference", fun)
    of_b = Way("another input", fun) if other is None else way_of(fun, other)
    tolerance = Tolerance(atol, rtol)

    def of(first: tuple[Any, ...], second: tuple[Any, ...], kwargs: dict[str, Any]) -> Differences:
        runs = Run(Way("a", fun), first, kwargs), Run(of_b, second, kwargs)
        known = all(run.program.variables() for run in runs)
        chosen = where if where != EVERY_VARIABLE or known else "*"
        both = [run.record(chosen, memory) for run in runs]
        parts = [one.parts for one in both]
        if not known:  # of one alone they would keep its values from their partners
            parts = [[dataclasses.replace(p, variable=None) for p in of] for of in parts]
            both = [dataclasses.replace(one, parts=of) for one, of in zip(both, parts, strict=True)]
        together = Processes([x for one in both for x in one.arrays()])
        pairs = aligned(parts[0], parts[1], (runs[0].choices, runs[1].choices), together)
        if not pairs:
            raise ArgumentError(
                "first_difference: the two have no variable in common, and no equation of one "
                "line. Give functions whose variables have the same names."
            )
        compared = Compared(runs, both, pairs, tolerance, together)
        found = compared.rows()
        again = [run.again for run in runs if run.again is not None]
        may_round = first is second and len(again) == 2 and not tolerance.asked
        doubtful = compared.doubtful(found) if may_round else []
        notes = list[str]()
        if doubtful:

            def of_moved(number: int) -> BlockPairs:
                given = moved((first, kwargs), number)
                return compared.numbers(
                    [run.record(chosen, memory, given) for run in again], doubtful
                )

            every = found
            stays = lasting(compared.numbers(both, doubtful), of_moved, together)
            found = compared.rows(stays, doubtful)
            left = without_copies({k: row for k, row in every.items() if k not in found})
            notes += [_LEFT_OUT.format(count=len(left), first=_named(left[0]))] if left else []
        alone = sum(map(len, parts)) - 2 * len(pairs)
        notes += [f"Values in one of them only: {alone}."] if alone else []
        least = tolerance.coarsest([one for of in compared.dtypes.values() for one in of])
        if least is not None and _jnp.finfo(least).bits < 32:
            share = EPS * float(_jnp.finfo(least).eps)
            notes.insert(
                0,
                f"Differences of up to {share:.3g} of the greatest number of a value are tolerated "
                f"in {least} (16 times its precision), and in all values computed from it. "
                "atol= and rtol= set other limits.",
            )
        rows = without_copies(found)
        values = len(without_copies({k: row for k, row in found.items() if isinstance(k, int)}))
        among = f"{values or 'none'} of {count_of(len(pairs), 'value')} differ"
        among += ", only the result" if rows and not values else ""
        headline = f"first difference of {name_of(fun)} and {of_b.name}: {among}"
        if nan := compared.nan_in_both():
            more = f" first, {len(nan)} in all" if len(nan) > 1 else ""
            notes.append(_NAN.format(first=_named(nan[0]), more=more))
        notes += dict.fromkeys(note for one in both for note in one.notes)
        if not rows and first is second:
            notes += _one_class(fun, of_b.target, first)
        notes += not_cast(both[1].parts, of_b.dtype)
        if of_b.dtype is None or tolerance.asked:
            return Differences(headline, rows, tuple(notes))
        first_of = f", {_named(rows[0])} first" if rows else ""
        notes.insert(0, f"By more than is tolerated, {among}{first_of}.")
        worst, error = losses(runs[0].program, compared, together)
        headline = _WORST.format(dtype=of_b.name, name=name_of(fun))
        if worst:
            by = worst[0]
            share = f"{by.share:.0%} of the sum over all {len(worst)} statements"
            share = share if len(worst) > 1 else "and no other statement adds any"
            headline += f"{_named(by)} adds {by.adds:.2g} of its size, {share}; "
            headline += f"the result is off by {error:.2g} of its size"
        else:
            headline += "nothing adds an error"
        return Losses(headline, worst, tuple(notes), differences=rows, error=error)

    if other is None:

        def two_inputs(*inputs: Any, **kwargs: PyTree) -> Differences:
            if len(inputs) != 2:
                raise ArgumentError(
                    "first_difference: without `other` it takes two inputs, and was given "
                    f"{len(inputs)}. Give first_difference(f)(one, other), or `other`, as "
                    'first_difference(f, "op by op").'
                )
            first, second = inputs
            for given in inputs:
                refuse_other_arguments("first_difference", fun, _arguments(given), kwargs)
            return of(_arguments(first), _arguments(second), kwargs)

        return two_inputs

    def same(*args: PyTree, **kwargs: PyTree) -> Differences:
        return of(args, args, kwargs)

    return same if isinstance(fun, Program) else called_as(fun)(same)


def _one_class(fun: Any, other: Any, args: tuple[Any, ...]) -> list[str]:
    """A note if two functions were given that call the same code by necessity."""
    if fun is other or edits_of(fun) or edits_of(other):
        return []  # two precisions, or ways to run; an edit changes the methods of one object
    models = [
        type(x).__name__
        for x in (getattr(fun, "__self__", None), *args)
        if callable(x) and not isinstance(x, type) and not hasattr(x, "__code__")
    ]
    return [_ONE_CLASS.format(model=models[0])] if models else []


def _arguments(given: Any) -> Any:
    is_tuple = given.__class__ is tuple
    return given if is_tuple else (given,)


def _named(row: Difference) -> str:
    return f"{row.variable} ({row.line})" if row.line else row.variable
