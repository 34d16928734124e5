"""Injectors that act at one of many places, and the places: `each`."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, PyTree
from taxpr._engine.iterations import loops_around
from taxpr._errors import ArgumentError, RefusedError
from taxpr._given import listed
from taxpr._injectors.collect import Masked, Steps
from taxpr._injectors.injector import Injector
from taxpr._injectors.site_injector import Firing, SiteInjector, inject_at
from taxpr._sites.criteria import Selector
from taxpr._sites.site import Site, Step, described

np: Any = numpy  # which leaves types of arrays unknown

# The parameters of an injector that say where it acts.
SITE, ITERATION, INDEX = "at site", "at iteration", "at index"


@dataclasses.dataclass(frozen=True)
class Each:
    """A selector that means its places one by one; `each` makes it."""

    where: Selector
    axis: int | None = None
    iterations: bool | tuple[int, ...] = True


def each(
    where: Selector = None, *, axis: int | None = None, iterations: bool | Iterable[int] = True
) -> Each:
    """The places of a selector one by one, for `sweep` and `patch`.

    These are its tags or variables, each in every iteration of the loops around it, and each part
    of the value along an axis.

    Args:
        where: A selector, as for `inject`.
        axis: The axis of the value whose parts are taken one by one, such as that of the heads;
            None takes the whole value.
        iterations: Whether each iteration of a scan is a place of its own; or the numbers of those
            to take. With False, and around while loops, all of them are one place.

    Raises:
        ArgumentError: If axis or iterations are no numbers.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def f(x):
        ...     heads = jnp.sin(x)  # f32[3,2]
        ...     return jnp.sum(heads)
        >>> x = jnp.asarray([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
        >>> found = taxpr.sweep(f, taxpr.each(taxpr.var("heads"), axis=0), taxpr.zero())(x)
        >>> [(row["index"], round(row["change"], 2)) for row in found.rows]
        [(0, 0.0), (1, -1.68), (2, -1.82)]
    """
    if axis is not None and type(axis) is not int:
        raise ArgumentError(f"each: axis={axis!r} is no number of an axis.")
    if not isinstance(iterations, bool):
        numbers = listed(iterations)
        if numbers is None or not all(type(k) is int and k >= 0 for k in numbers):
            raise ArgumentError(
                f"each: iterations={iterations!r} are no numbers of iterations. Give a list of "
                "them, from 0 on, True or False."
            )
        iterations = tuple(numbers)
    return Each(where, axis, iterations)


class Point(NamedTuple):
    """One place.

    Attributes:
        site: The number of its tag among those selected.
        iteration: The iteration of each loop around it, outermost first; -1 stands for all.
        part: The index along the axis; -1 stands for all.
    """

    site: int
    iteration: tuple[int, ...] = ()
    part: int = -1


def points_of(sites: Sequence[Site], of: Each) -> list[Point]:
    """All places, in program order.

    Raises:
        ArgumentError: If a token has no such axis, or a loop no such iteration.
        RefusedError: If a token is divided among devices.
    """
    found: list[Point] = []
    for number, site in enumerate(sites):
        turns = [_iterations(site, at, step, of) for at, step in loops_around(site)]
        parts = [-1] if of.axis is None else range(_size(site, of.axis))
        for *iteration, part in itertools.product(*turns, parts):
            found.append(Point(number, tuple(iteration), part))
    return found


def fired_at(collected: PyTree, point: Point) -> bool:
    """Whether a tag fired at a place, in the run whose values `collect` returned."""
    if not isinstance(collected, (Masked, Steps)):
        return True
    mask = np.asarray(collected.mask)
    if mask.ndim > len(point.iteration):  # devices, too
        return bool(mask.any())
    for k in point.iteration[: mask.ndim]:
        if k >= len(mask):
            return False
        mask = mask.any(axis=0) if k < 0 else mask[k]
    return bool(mask.any())


def depth_of(sites: Sequence[Site]) -> int:
    """The greatest number of loops around a tag."""
    return max((len(loops_around(site)) for site in sites), default=0)


def places_of(points: Sequence[Point], sites: Sequence[Site]) -> dict[str, Any]:
    """The parameters of `AtPoint` for each place, along a leading axis."""
    depth = depth_of(sites)
    turns = [(*point.iteration, *(-1,) * (depth - len(point.iteration))) for point in points]
    return {
        SITE: jnp.asarray([point.site for point in points], jnp.int32),
        ITERATION: jnp.asarray(turns, jnp.int32).reshape(len(points), depth),
        INDEX: jnp.asarray([point.part for point in points], jnp.int32),
    }


def _iterations(site: Site, address: Address, step: Step, of: Each) -> Sequence[int]:
    trips = step.nested.trips
    if of.iterations is False or (of.iterations is True and not isinstance(trips, int)):
        return [-1]
    if of.iterations is True:
        return range(trips or 0)
    beyond = [k for k in of.iterations if isinstance(trips, int) and k >= trips]
    if beyond:
        raise ArgumentError(
            f"each: iterations has {beyond[0]}, and the loop {described(address, step.eqn)} has "
            f"{trips}, counted from 0. This is for the {site}."
        )
    return of.iterations


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
        turns = jnp.zeros(self.depth, jnp.int32)
        place = {SITE: jnp.int32(0), ITERATION: turns, INDEX: jnp.int32(0)}
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
