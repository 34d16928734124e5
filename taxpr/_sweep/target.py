"""The program that `sweep` and `patch` run: its tags, its metric, and its collected values."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat
from taxpr._calls.door import door_of
from taxpr._compat import Array, PyTree
from taxpr._engine.collect import collection
from taxpr._engine.inject import sites_of
from taxpr._errors import SelectorError
from taxpr._hops.protocol import Options
from taxpr._injectors.probes import count
from taxpr._programs.placed import tagged
from taxpr._programs.program import Injected, Program
from taxpr._programs.trace import Tracing
from taxpr._recent import Recent
from taxpr._sites.criteria import TagsOf
from taxpr._sites.site import Site
from taxpr._sweep.many_runs import check_number
from taxpr._untyped import jax as _jax
from taxpr._where.pick import pick_tags
from taxpr._where.select import telling

Metric = Callable[[Any], Any]
T = TypeVar("T")
_KEPT = 8  # programs of a question
_ROWS = 16  # iterations of while loops that are counted at first


def asked(fun: Any, where: Any, args: Any, kwargs: Any, ask: Callable[[Program], T]) -> T:
    """The answer of a function's program, traced with these arguments."""
    if isinstance(fun, Program):
        return ask(fun)
    return Tracing(fun, where).ask(ask, args, kwargs)


def sites_at(
    what: str, program: Program, where: Any, options: Options
) -> tuple[Program, Any, list[Site]]:
    """The program with tags where a selector asks for variables, and the tags that it means."""
    program, where = tagged(program, where)
    with telling(program, where):
        sites = pick_tags(sites_of(program.jaxpr, options), where, change=True).found
    if not sites:
        raise SelectorError(f"{what}: nothing is selected.")
    return program, where, sites


class CompiledPrograms:
    """The compiled programs of a question, so that its next call compiles nothing."""

    def __init__(self) -> None:
        self._made = Recent[Any](_KEPT)

    def once(self, program: Program, what: Hashable, make: Callable[[], T]) -> T:
        """Make something of a program's jaxpr under JAX's settings, once."""
        return self._made.once((program.jaxpr, what, _compat.trace_key()), make)


def of_flat(
    fun: Callable[..., Any], program: Program, args: Any, kwargs: Any
) -> Callable[[Sequence[Array]], Any]:
    """A function as one of the flat inputs of a program that was traced with these arguments."""
    door = door_of(fun, args, kwargs)

    def call(flat: Sequence[Array]) -> Any:
        own, words = jax.tree.unflatten(program.in_tree, flat)
        return fun(*own, **words) if door is None else door.result(door.fun(*own, **words))

    return call


def metric_of(
    program: Program | Callable[[Sequence[Array]], Any],
    flat: Sequence[Array],
    metric: Metric | None,
) -> Any:
    """The metric of a run with flat inputs, as an array."""
    is_program = isinstance(program, Program)
    out = program.result(program.outputs(flat)) if is_program else program(flat)
    out = out[0] if isinstance(program, Injected) else out
    return _compat.map_leaves(jnp.asarray, out if metric is None else metric(out))


def plain_metric(
    what: str,
    program: Program,
    flat: Sequence[Array],
    metric: Metric | None,
    kept: CompiledPrograms,
) -> float:
    """The metric without a change."""

    def run(flat: Sequence[Array]) -> Any:
        return metric_of(program, flat, metric)

    check_number(what, _jax.eval_shape(run, flat))
    compiled = kept.once(program, "plain", lambda: _jax.jit(run))
    return float(compiled(flat))


def may_idle(sites: Sequence[Site]) -> bool:
    """Whether only a run tells how often tags fire: those in branches and while loops."""
    return any(site.conditional or site.trips is None for site in sites)


def counts_of(
    program: Program,
    sites: Sequence[Site],
    options: Options,
    kept: CompiledPrograms,
    most: int | None = None,
) -> Callable[[Sequence[Array]], list[Any]]:
    """A function of flat inputs that returns how often each tag fired in each iteration.

    There is an axis for each loop around the tag; for a while loop it has ``most`` iterations, or
    as many as there were.
    """

    def counts(flat: Sequence[Array]) -> list[Any]:
        rows = most or _ROWS
        while True:
            run = kept.once(program, ("counts", rows), functools.partial(_counting, rows))
            states = run(flat)
            found = [states[site.address] for site in sites]
            if most or not any(int(one.get("beyond", 0)) for one in found):
                return [np.asarray(one["rows"]) for one in found]
            rows *= _ROWS

    def _counting(rows: int) -> Any:
        counter = count(per="iteration", max_steps=rows)
        injected = program.inject(
            counter,
            where=[that(site) for site in sites],
            custom_rules=options.custom_rules,
            shards="psum",
        )

        def run(flat: Sequence[Array]) -> Any:
            outs = injected.outputs([*jax.tree.leaves(injected.ctx), *flat])
            return injected.result(outs)[1]["state"]

        return _jax.jit(run)

    return counts


def that(site: Site) -> Any:
    """The selector of one tag."""
    return TagsOf(site.address, frozenset({site.address})) if site.variable else site


def collected(
    program: Program, sites: list[Site], max_steps: int | None, options: Options
) -> Callable[[Sequence[Array]], list[PyTree]]:
    """A function of flat inputs that returns the value of each tag in one run."""
    found = collection(program.jaxpr, program.out_tree, sites, max_steps, True, options)
    run: Any = _compat.jit(_compat.jaxpr_as_fun(found.jaxpr))
    tree = jax.tree.structure(found.shapes)

    def values(flat: Sequence[Array]) -> list[PyTree]:
        _, by_name = jax.tree.unflatten(tree, run(*flat))
        of = found.of_sites(by_name)
        return [of[site.address] for site in sites]

    return values
