"""`sweep`: an injector's parameter over a range, or its place over many, one run for each."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from taxpr import _compat
from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Heat, Lines, number
from taxpr._answers.progress import Tells
from taxpr._answers.question import question
from taxpr._compat import PyTree
from taxpr._engine.inject import options_of, sites_of
from taxpr._errors import ArgumentError, InjectorError, SelectorError, name_of, refuse_no_function
from taxpr._hops.protocol import Options
from taxpr._injectors.collect import collection
from taxpr._injectors.injector import Injector
from taxpr._injectors.kind import InjectorKind
from taxpr._places import place_text
from taxpr._programs.functions import called_as, telling_of, trace
from taxpr._programs.named import names_for, tagged, telling
from taxpr._programs.program import Injected, Program
from taxpr._sites.selectors import select_to_inject
from taxpr._sites.site import Site
from taxpr._sweep.lanes import Done, check_number, run_lanes
from taxpr._sweep.points import (
    INDEX,
    ITERATION,
    SITE,
    AtPoint,
    Each,
    Point,
    depth_of,
    fired_at,
    points_of,
)

np: Any = numpy  # which leaves types of arrays unknown
_jax: Any = jax

Metric = Callable[[Any], Any]
Coordinate = tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Swept(Answer):
    """What `sweep` and `patch` found: a number for each run.

    Attributes:
        axes: For each axis of ``values`` its name and the labels along it.
        values: The numbers, an array of NumPy with these axes; NaN where nothing was run.
        baseline: The number without any change; of `patch` those of both runs, by name.
    """

    axes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict[str, Any])
    values: Any = None
    baseline: Any = 0.0

    def chart(self) -> Chart | None:
        """A heat map over the last two axes; a line where there is one."""
        if not self.rows:
            return None
        names, labels = list(self.axes), list(self.axes.values())
        values = np.asarray(self.values)
        if values.ndim == 1:
            return Lines({"metric": values}, labels[0], names[0])
        lead = [", ".join(one) for one in itertools.product(*labels[:-1])]
        return Heat(
            values.reshape(-1, values.shape[-1]), lead, labels[-1], ", ".join(names[:-1]), names[-1]
        )


@question
def sweep(
    target: Any,
    where: Any,
    injector: Any,
    values: Any = None,
    *,
    metric: Metric | None = None,
    memory: int | None = None,
    chunk: int | None = None,
    progress: Tells = None,
    custom_rules: str = "keep",
) -> Callable[..., Swept]:
    """Run a function once for each value of an injector's parameter, or for each place.

    One compiled program serves all runs. They are mapped by `jax.vmap`, in chunks that fit memory,
    and divided among all devices, also those of other processes. With a plain selector the injector
    acts at all that it selects; with `each` at one place after the other. Values and places
    together make all pairs.

    Args:
        target: A function of PyTrees of arrays, or a `Program`.
        where: A selector of tags or variables, or `each` of one.
        injector: A ready injector such as ``taxpr.zero()``, or a kind such as ``taxpr.scale``.
        values: The values of its first parameter, an array or list with one for each run; or a dict
            of these by the parameters' names, of which all combinations are run. None leaves the
            parameters as they are.
        metric: ``(out) -> number``, of the result of the target, traced as a part of it. None takes
            the result itself, which is a scalar then.
        memory: How many bytes the runs may take on a device, beside the arguments; None takes a
            quarter of what is free. So many are run at once as fit.
        chunk: The most runs at once.
        progress: Called with the numbers of runs that are done and of all; False says nothing. None
            writes to stderr what takes longer than a second.
        custom_rules: As for `inject`.

    Returns:
        A function of the target's arguments that returns an `Answer`. Its rows have the parameters
        or the place, the ``metric``, and its ``change`` from the run without an injector; both are
        NaN where that run has no such iteration of a while loop. It has
        ``values``, an array of all numbers, with ``axes``, and ``baseline``. Where it is stopped,
        what is done is kept.

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
    if not isinstance(target, Program):
        refuse_no_function("sweep", target)
    if metric is not None:
        refuse_no_function("sweep: metric", metric)
    of = where if isinstance(where, Each) else None
    selector = of.where if of else where
    ready, grid = _ready(injector, values)
    if not (of or grid):
        raise ArgumentError(
            "sweep: there is one run only. Give values for a parameter, sweep(f, where, "
            "taxpr.scale, [0.0, 0.5]), or places one by one, sweep(f, taxpr.each(where), ...)."
        )

    def swept(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Swept:
        program, chosen, sites = sites_at(program, selector, options)
        points = points_of(sites, of) if of else [Point(0)]
        if not points:
            raise ArgumentError("sweep: each has no place: the loop or the axis has length 0.")
        acting = AtPoint.around(ready, of, sites) if of else ready
        injected = program.inject(acting, where=chosen, custom_rules=custom_rules)
        counts = [len(jax.tree.leaves(one)[0]) for one in grid.values()]
        every = list(itertools.product(range(len(points)), *map(range, counts)))
        lanes = places_of([points[k] for k, *_ in every], sites) if of else {}
        for j, (name, one) in enumerate(grid.items()):
            lanes[name] = _taken(one, [at[j + 1] for at in every])

        def run(lane: dict[str, Any], args: PyTree) -> Any:
            ctx = injected.ctx
            ctx["values"] |= lane
            return metric_of(injected, (ctx, *args[0]), args[1], metric)

        more = {"memory": memory, "chunk": chunk}
        done = run_lanes("sweep", run, lanes, [(args, kwargs)], progress=progress, **more)
        plain = plain_metric("sweep", program, args, kwargs, metric)
        places = place_rows(sites, points, of) if of else [dict[str, Any]()]
        axes, found = axes_of(places) if of else (dict[str, list[str]](), [()])
        axes |= {name: _labels(one) for name, one in grid.items()}
        rows = [{**places[k], **_setting(grid, at)} for k, *at in every]
        for row, value in zip(rows, done.values, strict=False):
            row |= {"metric": float(value), "change": float(value) - plain}
        if of and not isinstance(of.iterations, bool):
            fired = _fired(program, sites, points, max(of.iterations, default=0) + 1, options)(
                args, kwargs
            )
            done = without_idle(rows, [fired[k] for k, *_ in every], done)
        where_on = [(*found[k], *at) for k, *at in every]
        return answer(f"sweep of {program.name}", rows, "metric", axes, where_on, done, plain)

    def of_arguments(*args: PyTree, **kwargs: PyTree) -> Swept:
        return asked(target, selector, args, kwargs, lambda program: swept(program, args, kwargs))

    return of_arguments if isinstance(target, Program) else called_as(target)(of_arguments)


def _fired(
    program: Program, sites: Sequence[Site], points: Sequence[Point], most: int, options: Options
) -> Callable[..., list[bool]]:
    """For each place whether the plain run comes to it; only a run knows that of while loops."""
    if not any(step.is_while for site in sites for step in site.steps):
        return lambda *_: [True] * len(points)
    found = collection(program.jaxpr, program.out_tree, sites, most, True, options)
    run: Any = _compat.jit(_compat.jaxpr_as_fun(found.jaxpr))
    tree = jax.tree.structure(found.shapes)

    def fired(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[bool]:
        _, values = jax.tree.unflatten(tree, run(*program.flat(args, kwargs)))
        of = found.of_sites(values)
        return [fired_at(of[sites[point.site].address], point) for point in points]

    return fired


def _ready(injector: Any, values: Any) -> tuple[Injector, dict[str, PyTree]]:
    """The injector with the first of the values, and all values by name, as arrays."""
    if isinstance(injector, InjectorKind):
        names = list(injector.params)
    elif isinstance(injector, Injector):
        names = list(injector.values)
    else:
        raise ArgumentError(
            f"sweep: {name_of(injector)} is no injector. Give a kind such as taxpr.scale, one such "
            "as taxpr.zero(), or taxpr.from_function(fn, rate=0.5)."
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
    grid = {name: jax.tree.map(jnp.asarray, one, is_leaf=_is_list) for name, one in given.items()}
    for name, one in grid.items():
        sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(one)}
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


# ---- what sweep and patch share ----------------------------------------------


def asked(
    target: Any, where: Any, args: Any, kwargs: Any, ask: Callable[[Program], Swept]
) -> Swept:
    """The answer of a target's program, traced with these arguments."""
    if isinstance(target, Program):
        return ask(target)
    program = trace(target, names=names_for(where))(*args, **kwargs)
    with telling_of(target, args, kwargs, where):
        return ask(program)


def sites_at(program: Program, where: Any, options: Any) -> tuple[Program, Any, list[Site]]:
    """The program with tags where a selector asks for variables, and the tags that it means."""
    if (variables := tagged(program, where)) is not None:
        program, where = variables.program, variables.where
    with telling(program, where):
        sites = select_to_inject(sites_of(program.jaxpr, options), where).sites
    if not sites:
        raise SelectorError("sweep: nothing is selected.")
    return program, where, sites


def metric_of(program: Program, args: Any, kwargs: Any, metric: Metric | None) -> Any:
    """The metric of a run, as an array."""
    out = program(*args, **kwargs)
    out = out[0] if isinstance(program, Injected) else out
    return _compat.map_leaves(jnp.asarray, out if metric is None else metric(out))


def plain_metric(
    what: str, program: Program, args: Any, kwargs: Any, metric: Metric | None
) -> float:
    """The metric without a change."""

    def run(args: Any, kwargs: Any) -> Any:
        return metric_of(program, args, kwargs, metric)

    check_number(what, _jax.eval_shape(run, args, kwargs))
    return float(_jax.jit(run)(args, kwargs))


def places_of(points: Sequence[Point], sites: Sequence[Site]) -> dict[str, Any]:
    """The parameters of `AtPoint` for each place, along a leading axis."""
    depth = depth_of(sites)
    turns = [(*point.iteration, *(-1,) * (depth - len(point.iteration))) for point in points]
    return {
        SITE: jnp.asarray([point.site for point in points], jnp.int32),
        ITERATION: jnp.asarray(turns, jnp.int32).reshape(len(points), depth),
        INDEX: jnp.asarray([point.part for point in points], jnp.int32),
    }


def without_idle(rows: Sequence[dict[str, Any]], fired: Sequence[bool], done: Done) -> Done:
    """Put NaN into the rows of places that a run did not come to, and a note that says so."""
    idle = [row for row, one in zip(rows, fired, strict=True) if not one and "metric" in row]
    for row in idle:
        row |= {key: np.nan for key in ("metric", "effect", "change") if key in row}
    if not idle:
        return done
    note = f"{len(idle)} places were not computed: a branch not taken, or no such iteration."
    return done._replace(notes=(*done.notes, note))


def place_rows(sites: Sequence[Site], points: Sequence[Point], of: Each) -> list[dict[str, Any]]:
    """For each place what a row says of it."""
    rows: list[dict[str, Any]] = []
    for point in points:
        site = sites[point.site]
        turns = [k for k in point.iteration if k >= 0]
        row: dict[str, Any] = {"variable": _site_name(site)}
        if turns:
            row["iteration"] = turns[0] if len(turns) == 1 else tuple(turns)
        if of.axis is not None:
            row["index"] = point.part
        row["line"] = site.variable.place if site.variable else _line(site)
        row["address"] = str(site.address)
        rows.append(row)
    return rows


def _site_name(site: Site) -> str:
    return str(site.variable.name if site.variable else site.name or site.address)


def _line(site: Site) -> str:
    source = site.source
    return place_text(source.file, source.line) if source else ""


def axes_of(places: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[str]], list[Coordinate]]:
    """The axes of places, without those of one label, and where on them each place is."""
    tags = [f"{row['variable']} {row['address']}" for row in places]
    every = {
        "variable": [str(row["variable"]) for row in places],
        "iteration": [str(row.get("iteration", "")) for row in places],
        "index": [str(row.get("index", "")) for row in places],
    }
    if len({*every["variable"]}) < len({*tags}):
        every["variable"] = tags
    axes = {name: list(dict.fromkeys(labels)) for name, labels in every.items()}
    axes = {name: labels for name, labels in axes.items() if len(labels) > 1}
    axes = axes or {"variable": every["variable"][:1]}
    numbers = [[labels.index(one) for one in every[name]] for name, labels in axes.items()]
    return axes, list(zip(*numbers, strict=True))


def answer(
    headline: str,
    rows: list[dict[str, Any]],
    key: str,
    axes: Mapping[str, Sequence[str]],
    where: Sequence[Coordinate],
    done: Done,
    plain: Any,
) -> Swept:
    """The answer, with a row for each run that was done, of which ``key`` is drawn."""
    values = np.full([len(labels) for labels in axes.values()], np.nan)
    ready = [row for row in rows if key in row]
    for at, row in zip(where, ready, strict=False):
        values[at] = row[key]
    n = f"{len(ready)} run{'s' if len(ready) != 1 else ''}"
    last = ("line", "address")
    ordered = [
        {k: row[k] for k in (*(k for k in row if k not in last), *(k for k in last if k in row))}
        for row in ready
    ]
    return Swept(f"{headline}: {n}", ordered, done.notes, done.complete, axes, values, plain)
