"""Injectors that act at one of many places, and the places."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, PyTree
from taxpr._engine.iterations import loops_around
from taxpr._errors import ArgumentError, RefusedError
from taxpr._injectors.injector import Injector
from taxpr._injectors.per_iteration import refuse_beyond
from taxpr._injectors.site_injector import Firing, SiteInjector, inject_at
from taxpr._sites.criteria import Each
from taxpr._sites.site import Site
from taxpr._untyped import np

# The parameters of an injector that say where it acts.
SITE, ITERATION, INDEX = "at site", "at iteration", "at index"


class Point(NamedTuple):
    """One place.

    Attributes:
        site: The number of its tag among those selected.
        iteration: The iteration of each loop around it, outermost first; -1 means all.
        part: The index along the axis; -1 means all.
    """

    site: int
    iteration: tuple[int, ...] = ()
    part: int = -1


def points_of(sites: Sequence[Site], of: Each, counts: Sequence[Any]) -> list[Point]:
    """All places, in program order.

    Args:
        sites: The tags.
        of: Which places of them.
        counts: For each tag how often it fired, with an axis for each loop around it. Only these
            tell the iterations of while loops.

    Raises:
        ArgumentError: If a token has no such axis, or a loop no such iteration.
        RefusedError: If a token is divided among devices.
    """
    found: list[Point] = []
    for number, site in enumerate(sites):
        trips = [step.nested.trips for _, step in loops_around(site)]
        parts = [-1] if of.axis is None else range(_size(site, of.axis))
        if of.iterations is False:
            iterations = [(-1,) * len(trips)]
        elif of.iterations is not True:
            if not any(map(loops_around, sites)):
                raise ArgumentError(
                    f"each: iterations={list(of.iterations)}, and the {site} is in no loop. Leave "
                    "out iterations=."
                )
            refuse_beyond(site, of.iterations)
            iterations = itertools.product(*[of.iterations for _ in trips])
        elif all(isinstance(n, int) for n in trips):
            iterations = itertools.product(*[range(n) for n in trips if isinstance(n, int)])
        else:
            iterations = [tuple(map(int, iteration)) for iteration in np.argwhere(counts[number])]
        found += [Point(number, iteration, part) for iteration in iterations for part in parts]
    return found


def fired_at(counts: Sequence[Any], point: Point) -> bool:
    """Whether a tag fired at a place; see `points_of`."""
    if not len(counts):
        return True
    count = counts[point.site]
    for k in point.iteration:
        if k >= len(count):
            return False
        count = count.any(axis=0) if k < 0 else count[k]
    return bool(count.any())


def depth_of(sites: Sequence[Site]) -> int:
    """The greatest number of loops around a tag."""
    return max((len(loops_around(site)) for site in sites), default=0)


def places_of(points: Sequence[Point], sites: Sequence[Site]) -> dict[str, Any]:
    """The parameters of `AtPoint` for each place, along a leading axis."""
    depth = depth_of(sites)
    iterations = [(*point.iteration, *(-1,) * (depth - len(point.iteration))) for point in points]
    return {
        SITE: jnp.asarray([point.site for point in points], jnp.int32),
        ITERATION: jnp.asarray(iterations, jnp.int32).reshape(len(points), depth),
        INDEX: jnp.asarray([point.part for point in points], jnp.int32),
    }


def _size(site: Site, axis: int) -> int:
    if any(step.eqn.primitive is _compat.shard_map_p for step in site.steps):
        raise RefusedError(
            f"each: the {site} is in a shard_map, where each device has a part of its own, so that "
            f"axis={axis} counts on each device anew. Sweep over whole values: each(where)."
        )
    sizes = {
        aval.shape[axis] if -aval.ndim <= axis < aval.ndim else None
        for aval in jax.tree.leaves(site.avals)
    }
    [size] = sizes if len(sizes) == 1 else [None]
    if size is None:
        types = ", ".join(aval.str_short() for aval in jax.tree.leaves(site.avals))
        raise ArgumentError(f"each: axis={axis} is no axis of the {site}, which is {types}.")
    return size


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class AtPoint(SiteInjector):
    """An injector that acts at one place; which one is among its parameters.

    Attributes:
        one: The injector.
        axis: The axis along which it acts at one index.
        depth: The greatest number of loops around a tag.
        numbers: The number of each tag by its address.
    """

    one: Injector
    axis: int | None
    depth: int
    numbers: Mapping[str, int]

    @staticmethod
    def around(one: Injector, of: Each, sites: Sequence[Site]) -> AtPoint:
        """The injector at one of the places of some tags."""
        return AtPoint.of(
            one,
            one=one,
            axis=of.axis,
            depth=depth_of(sites),
            numbers={site.address: k for k, site in enumerate(sites)},
        )

    def initial(self, sites: Sequence[Site]) -> dict[str, PyTree]:
        ctx = self.one.initial(sites)
        iterations = jnp.zeros(self.depth, jnp.int32)
        place = {SITE: jnp.int32(0), ITERATION: iterations, INDEX: jnp.int32(0)}
        return {**ctx, "values": {**ctx["values"], **place}}

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        return [True] * len(loops_around(site))

    def fire_at(self, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
        values: dict[str, Any] = dict(ctx["values"])
        number, iteration, part = (values.pop(name) for name in (SITE, ITERATION, INDEX))
        changed, own = inject_at(self.one, at, {**ctx, "values": values}, token)
        here = number == self.numbers[at.site.address]
        for k, now in enumerate(at.places):
            here &= (iteration[k] < 0) | (iteration[k] == now)

        def one(old: Array, new: Array) -> Array:
            mask = here
            if self.axis is not None:
                axis = self.axis % old.ndim
                numbers = jnp.arange(old.shape[axis])
                mask = here & (numbers == part).reshape(-1, *(1,) * (old.ndim - 1 - axis))
            return jnp.where(mask, new, old)

        token = _compat.map_pairs(one, token, changed)
        return token, {**own, "values": ctx["values"]}
