"""`patch`: put values of one run into another run, at one place after the other."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from taxpr._answers.progress import Tells
from taxpr._calls.static import is_traced
from taxpr._compat import Array, PyTree
from taxpr._engine.inject import options_of
from taxpr._errors import ArgumentError, name_of, refuse_no_function, refuse_other_arguments
from taxpr._injectors.plant import plant
from taxpr._jaxprs.trees import named_leaves
from taxpr._programs.program import Program
from taxpr._sites.criteria import Each
from taxpr._sweep.by_edit import NOTE, edited
from taxpr._sweep.many_runs import run_all
from taxpr._sweep.points import AtPoint, fired_at, places_of, points_of
from taxpr._sweep.swept import Swept, answer, axes_of, place_rows, without_idle
from taxpr._sweep.target import (
    CompiledPrograms,
    Metric,
    asked,
    collected,
    counts_of,
    may_idle,
    metric_of,
    of_flat,
    plain_metric,
    sites_at,
    that,
)
from taxpr._transforms.question import question

_RUNS = ("clean", "corrupted")
PLANTED = "planted"  # the values of the other run, beside the place of a run


@question
def patch(
    fun: Any,
    where: Any = None,
    metric: Metric | None = None,
    *,
    sources: tuple[str, ...] | str = _RUNS,
    max_steps: int | None = None,
    memory: float | None = None,
    chunk: int | None = None,
    progress: Tells = None,
    custom_rules: str = "keep",
) -> Callable[..., Swept]:
    """Put values of one run into another, one place after the other, and compare a metric.

    If values of the clean run restore the answer of the corrupted run, they contain the information
    that the answer needs. If values of the corrupted run spoil the clean answer, the answer depends
    on them.

    Args:
        fun: A function of PyTrees of arrays, or a `Program`.
        where: A selector of tags or variables, or `each` of one. Without `each` every tag is a
            place in each iteration of the loops around it.
        metric: As for `sweep`.
        sources: The run that gives the values: ``"clean"``, ``"corrupted"``, or both.
        max_steps: How many iterations of while loops are substituted; see `collect`.
        memory: As for `sweep`; and so are the rest.
        chunk: The most runs at once.
        progress: As for `sweep`.
        custom_rules: As for `inject`.

    Returns:
        A function ``(clean, corrupted)`` of two arguments of ``fun``, of equal shapes; two tuples
        of arguments if ``fun`` takes several. It returns an `Answer`, whose rows have the source,
        the place, the ``metric`` and its ``effect``: 0 if the metric equals the patched run's, 1 if
        it equals the source run's. Both are NaN if a run did not reach the place: a branch, or an
        iteration of a while loop. Its ``values`` are the effects.

    Raises:
        ArgumentError: If the metric is no real scalar, or is the same in both runs; if a place is
            in a while loop, without max_steps.
        SelectorError: If nothing is selected.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def model(x):
        ...     left = jnp.sin(x[0])
        ...     right = jnp.sin(x[1])
        ...     return left + 3 * right
        >>> places = [taxpr.var("left"), taxpr.var("right")]
        >>> found = taxpr.patch(model, places, sources="clean")(jnp.ones(2), jnp.zeros(2))
        >>> [(row["variable"], round(row["effect"], 2)) for row in found.rows]
        [('left', 0.25), ('right', 0.75)]
    """
    options = options_of(custom_rules)
    if not isinstance(fun, Program):
        refuse_no_function("patch", fun)
    if metric is not None:
        refuse_no_function("patch: metric", metric)
    taken = tuple(sources) if isinstance(sources, (list, tuple)) else (sources,)
    if not taken or not {*taken} <= {*_RUNS}:
        raise ArgumentError(f'patch: sources are "clean", "corrupted" or both, not {sources!r}.')
    of = where if isinstance(where, Each) else Each(where)

    kept = CompiledPrograms()

    def patched(program: Program, args: Any, given: dict[str, list[Array]]) -> Swept:
        name, named = program.name, program
        program, _, sites = sites_at("patch", program, of.where, options)
        if max_steps is None and (looped := [s for s in sites if any(t.is_while for t in s.steps)]):
            raise ArgumentError(
                f"patch: the {looped[0]} is in a while loop, whose values are kept for a number of "
                "iterations that must be given: patch(..., max_steps=100)."
            )
        once = functools.partial(kept.once, program)
        count = counts_of(program, sites, options, kept, max_steps)
        counts = {run: count(given[run]) if may_idle(sites) else [] for run in _RUNS}
        either = [a | b for a, b in zip(*counts.values(), strict=True)]
        points = points_of(sites, of, either)
        if not points:
            raise ArgumentError("patch: there is no place: the loop or the axis has length 0.")
        values_of = once("values", lambda: collected(program, sites, max_steps, options))
        values = {run: values_of(given[run]) for run in _RUNS}
        plain = {run: plain_metric("patch", program, given[run], metric, kept) for run in _RUNS}
        if plain["clean"] == plain["corrupted"]:
            raise ArgumentError(
                f"patch: the metric is {plain['clean']} in both runs, so that nothing can be "
                "brought back. Give inputs or a metric= that differ."
            )

        def planting(run: str) -> dict[Any, Any]:
            return {
                that(site): AtPoint.around(plant(value), of, sites)
                for site, value in zip(sites, values[run], strict=True)
            }

        by_edit = edited(
            fun, of.where, named, sites, (of, points), lambda k, place: place[PLANTED][k]
        )
        injected = (
            program if by_edit else program.inject(planting(taken[0]), custom_rules=custom_rules)
        )

        def contexts(run: str) -> PyTree:
            if by_edit:
                return values[run]
            pairs = zip(sites, planting(run).values(), strict=True)
            return {str(site.address): one.initial([site]) for site, one in pairs}

        def run_at(place: dict[str, Any], both: PyTree) -> Any:
            ctx, flat = both
            if by_edit:
                fun_at = by_edit({**place, PLANTED: ctx})
                return metric_of(of_flat(fun_at, named, args, {}), flat, metric)
            moved = {
                key: {**part, "values": {**part["values"], **place}} for key, part in ctx.items()
            }
            return metric_of(injected, [*jax.tree.leaves(moved), *flat], metric)

        into: dict[str, str] = {"clean": "corrupted", "corrupted": "clean"}
        settings = [(contexts(run), given[into[run]]) for run in taken]
        more: dict[str, Any] = {"memory": memory, "chunk": chunk, "progress": progress}
        done = run_all("patch", run_at, places_of(points, sites), settings, once=once, **more)
        if by_edit:
            done = done._replace(notes=(*done.notes, NOTE))
        places = place_rows(sites, points, of)
        axes, found = axes_of(places)
        rows: list[dict[str, Any]] = [{"source": run, **row} for run in taken for row in places]
        for row, value in zip(rows, done.values, strict=False):
            before, whole = plain[into[row["source"]]], plain[row["source"]]
            row |= {"metric": float(value), "effect": (float(value) - before) / (whole - before)}
        both = [all(fired_at(counts[run], point) for run in _RUNS) for point in points]
        done = without_idle(rows, [*both] * len(taken), done)
        axes = {**({"source": list(taken)} if len(taken) > 1 else {}), **axes}
        coordinates = [
            (*((k,) if len(taken) > 1 else ()), *at) for k in range(len(taken)) for at in found
        ]
        return answer(f"patch of {name}", rows, "effect", axes, coordinates, done, plain)

    def ask(*inputs: Any) -> Swept:
        if len(inputs) != 2:
            raise ArgumentError(
                f"patch: it takes two inputs, and was given {len(inputs)}. Give the clean and the "
                f"corrupted one: patch({name_of(fun)}, ...)(clean, corrupted), each a tuple of "
                "all arguments where there are several."
            )
        clean, corrupted = inputs
        given = {"clean": _arguments(clean), "corrupted": _arguments(corrupted)}
        for one in given.values():
            refuse_other_arguments("patch", fun, one, {})
        types = [_types(one) for one in given.values()]
        if types[0] != types[1]:
            raise ArgumentError(f"patch: {_unlike(*types)}. Give two inputs of one kind.")
        first = given["clean"]

        def patched_of(program: Program) -> Swept:
            flat = {"clean": program.flat(first, {})}
            try:
                flat["corrupted"] = program.flat(given["corrupted"], {})
            except ArgumentError as error:
                raise ArgumentError(
                    f"patch: the clean and the corrupted arguments differ in structure: {error}"
                ) from None
            return patched(program, first, flat)

        return asked(fun, of.where, first, {}, patched_of)

    return ask


def _arguments(given: Any) -> Any:
    is_tuple = given.__class__ is tuple
    return given if is_tuple else (given,)


def _types(given: PyTree) -> dict[str, str]:
    """The types of the leaves; weak types do not matter.

    They are not in a tree like the input's, because its classes may accept only arrays.
    """
    return {
        name: jax.typeof(x).str_short() if is_traced(x) else type(x).__name__
        for name, x in named_leaves("", given)
    }


def _unlike(clean: Mapping[str, str], corrupted: Mapping[str, str]) -> str:
    """The first difference between the types of two inputs, in words."""
    types = {name: (clean.get(name), corrupted.get(name)) for name in {**clean, **corrupted}}
    name, (one, two) = next((name, both) for name, both in types.items() if both[0] != both[1])
    return (
        f"the input {name} is {one or 'missing'} in the clean arguments and {two or 'missing'} in "
        "the corrupted"
    )
