"""`sweep`: one run for each value of an injector's parameter, or for each place."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._answers.charts import number
from taxpr._answers.progress import Tells
from taxpr._compat import Array, PyTree
from taxpr._editing.alteration import has_state
from taxpr._engine.inject import options_of
from taxpr._errors import ArgumentError, InjectorError, name_of, refuse_no_function
from taxpr._injectors.injector import Injector
from taxpr._injectors.kind import InjectorKind
from taxpr._jaxprs.trees import refuse_no_arrays
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as
from taxpr._sites.criteria import Each
from taxpr._sweep.by_edit import NOTE, edited, with_values
from taxpr._sweep.many_runs import run_all
from taxpr._sweep.points import AtPoint, Point, fired_at, places_of, points_of
from taxpr._sweep.swept import Swept, answer, axes_of, place_rows, without_idle
from taxpr._sweep.target import (
    CompiledPrograms,
    Metric,
    asked,
    counts_of,
    metric_of,
    of_flat,
    plain_metric,
    sites_at,
)
from taxpr._transforms.question import question
from taxpr._untyped import np


@question
def sweep(
    fun: Any,
    where: Any,
    injector: Any,
    values: Any = None,
    *,
    metric: Metric | None = None,
    memory: float | None = None,
    chunk: int | None = None,
    progress: Tells = None,
    custom_rules: str = "keep",
) -> Callable[..., Swept]:
    """Run a function once for each value of an injector's parameter, or for each place.

    One compiled program serves all runs. They are mapped by `jax.vmap`, in chunks that fit memory,
    and divided among all devices, also of other processes. With a plain selector the injector acts
    at all selected places; with `each` at one place after the other. Values and places together
    make all pairs.

    Args:
        fun: A function of PyTrees of arrays, or a `Program`.
        where: A selector of tags or variables, or `each` of one.
        injector: A ready injector such as ``taxpr.zero()``, or a kind such as ``taxpr.scale``.
        values: The values of its first parameter, an array or list with one for each run; or a dict
            of these by the parameters' names; all combinations are run. None leaves the parameters
            unchanged.
        metric: ``(out) -> number``, of the result of ``fun``, traced as a part of it. None takes
            the result itself, which must be a scalar then.
        memory: How many bytes the runs may take on a device, beside the arguments; None takes a
            quarter of the free memory. As many are run at once as fit.
        chunk: The most runs at once.
        progress: Called with the number of runs done and the total; False says nothing. None writes
            to stderr after one second.
        custom_rules: As for `inject`.

    Returns:
        A function of the arguments of ``fun`` that returns an `Answer`. Its rows have the
        parameters or the place, the ``metric``, and its ``change`` from the run without
        an injector; both are NaN if that run has no such iteration of a while loop. It has
        ``values``, an array of all numbers, with ``axes``, and ``baseline``. If it is stopped, the
        rows so far are kept. Called again with arrays of the same types it compiles nothing.

    Raises:
        ArgumentError: If the metric is no real scalar; if one run takes more than the memory; if
            there is nothing to run.
        InjectorError: If there is no such parameter, or the injector only looks.
        SelectorError: If nothing is selected.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def loss(x):
        ...     h = jnp.sin(x)
        ...     return jnp.sum(h * h)
        >>> found = taxpr.sweep(loss, taxpr.var("h"), taxpr.scale, [0.0, 0.5, 1.0])(jnp.ones(2))
        >>> found
        sweep of loss: 3 runs
        factor  metric  change
        0       0       -1.416
        0.5     0.354   -1.062
        1       1.416   0
    """
    options = options_of(custom_rules)
    if not isinstance(fun, Program):
        refuse_no_function("sweep", fun)
    if metric is not None:
        refuse_no_function("sweep: metric", metric)
    of = where if isinstance(where, Each) else None
    selector = of.where if of else where
    ready, grid = _ready(injector, values)
    if not (of or grid):
        raise ArgumentError(
            "sweep: that would be a single run. Give values for a parameter, sweep(f, where, "
            "taxpr.scale, [0.0, 0.5]), or places one by one, sweep(f, taxpr.each(where), ...)."
        )

    kept = CompiledPrograms()

    def swept(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Swept:
        named, flat = program, program.flat(args, kwargs)
        program, chosen, sites = sites_at("sweep", program, selector, options)
        looped = any(step.is_while for site in sites for step in site.steps)
        counts = list[Any]()
        if of and of.iterations is not False and looped:  # only a run knows how often
            counts = counts_of(program, sites, options, kept)(flat)
        points = points_of(sites, of, counts) if of else [Point(0)]
        if not points:
            raise ArgumentError("sweep: each has no place: the loop or the axis has length 0.")
        by_edit = None
        if not has_state(ready):
            each_one = (of, points) if of else None
            by_edit = edited(
                fun, selector, named, sites, each_one, lambda _, place: with_values(ready, place)
            )
        acting = AtPoint.around(ready, of, sites) if of else ready
        injected: Any = (
            program if by_edit else program.inject(acting, where=chosen, custom_rules=custom_rules)
        )
        sizes = [len(jax.tree.leaves(one)[0]) for one in grid.values()]
        every = list(itertools.product(range(len(points)), *map(range, sizes)))
        places = places_of([points[k] for k, *_ in every], sites) if of else {}
        for j, (name, one) in enumerate(grid.items()):
            places[name] = _taken(one, [at[j + 1] for at in every])

        def run(place: dict[str, Any], flat: list[Array]) -> Any:
            if by_edit:
                return metric_of(of_flat(by_edit(place), named, args, kwargs), flat, metric)
            ctx = injected.ctx
            ctx["values"] |= place
            return metric_of(injected, [*jax.tree.leaves(ctx), *flat], metric)

        once = functools.partial(kept.once, program)
        more: dict[str, Any] = {"memory": memory, "chunk": chunk, "progress": progress}
        done = run_all("sweep", run, places, [flat], once=once, **more)
        if by_edit:
            done = done._replace(notes=(*done.notes, NOTE))
        plain = plain_metric("sweep", program, flat, metric, kept)
        places = place_rows(sites, points, of) if of else [dict[str, Any]()]
        axes, found = axes_of(places) if of else (dict[str, list[str]](), [()])
        axes |= {name: _labels(one) for name, one in grid.items()}
        rows = [{**places[k], **_setting(grid, at)} for k, *at in every]
        for row, value in zip(rows, done.values, strict=False):
            row |= {"metric": float(value), "change": float(value) - plain}
        if counts:
            fired = [fired_at(counts, point) for point in points]
            done = without_idle(rows, [fired[k] for k, *_ in every], done)
        where_on = [(*found[k], *at) for k, *at in every]
        return answer(f"sweep of {program.name}", rows, "metric", axes, where_on, done, plain)

    def of_arguments(*args: PyTree, **kwargs: PyTree) -> Swept:
        return asked(fun, selector, args, kwargs, lambda program: swept(program, args, kwargs))

    return of_arguments if isinstance(fun, Program) else called_as(fun)(of_arguments)


def _ready(injector: Any, values: Any) -> tuple[Injector, dict[str, PyTree]]:
    """The injector with the first of the values, and all values by name, as arrays."""
    if isinstance(injector, InjectorKind):
        names = list(injector.params)
    elif isinstance(injector, Injector):
        names = list(injector.values)
    else:
        raise ArgumentError(
            f"sweep: {name_of(injector)} is no injector. Give a kind such as taxpr.scale, one such "
            "as taxpr.zero(), or taxpr.from_function(fun, rate=0.5)."
        )
    is_mapping = issubclass(type(values), Mapping)
    if values is not None and not is_mapping and not names:
        raise InjectorError(f"sweep: {injector.name} has no parameter to take values of.")
    given: dict[str, Any] = (
        dict(values or {}) if is_mapping or values is None else {names[0]: values}
    )
    for name in given:
        if name not in names:
            raise InjectorError(
                f"sweep: {injector.name} has no parameter {name!r} whose value is an array. It has "
                f"{', '.join(names) or 'none'}."
            )
    grid = {name: _arrays(name, one) for name, one in given.items()}
    for name, one in grid.items():
        sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(one)}
        if sizes == {(0,)}:
            raise ArgumentError(f"sweep: the list of values of {name} is empty. Give one or more.")
        if len(sizes) != 1 or sizes & {(), (0,)}:
            raise ArgumentError(
                f"sweep: the values of {name} are no list of values, one for each run."
            )
    first = {name: _compat.map_leaves(lambda x: x[0], one) for name, one in grid.items()}
    if isinstance(injector, InjectorKind):
        ready = injector(**first)
    else:
        ready = dataclasses.replace(injector, values={**injector.values, **first})
    if ready.observes:
        raise InjectorError(f"sweep: {ready.name} only looks, and changes nothing.")
    return ready, grid


def _arrays(name: str, values: PyTree) -> PyTree:
    said = f"sweep: {name}={values!r}"
    if any(x is None for x in jax.tree.leaves(values, is_leaf=lambda x: x is None)):
        raise ArgumentError(f"{said}: None is no value.")
    refuse_no_arrays(said, values, ArgumentError)
    try:
        return jax.tree.map(jnp.asarray, values, is_leaf=_is_list)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"sweep: the values of {name} are no array: {error} Give one value for each run, all "
            "of one shape."
        ) from error


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, range))


def _taken(values: PyTree, numbers: Sequence[int]) -> PyTree:
    return _compat.map_leaves(lambda x: x[np.asarray(numbers)], values)


def _labels(values: PyTree) -> list[str]:
    leaves = jax.tree.leaves(values)
    if len(leaves) == 1 and leaves[0].ndim == 1:
        return [_number(x) for x in leaves[0]]
    return [str(k) for k in range(len(leaves[0]))]


def _number(x: Any) -> str:
    return number(x) if jnp.issubdtype(x.dtype, jnp.number) else str(x)


def _setting(grid: Mapping[str, PyTree], at: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (name, every), k in zip(grid.items(), at, strict=True):
        leaves = jax.tree.leaves(every)
        plain = len(leaves) == 1 and leaves[0].ndim == 1
        plain = plain and jnp.issubdtype(leaves[0].dtype, jnp.number)
        found[name] = np.asarray(leaves[0])[k].item() if plain else k
    return found
