"""Interchange: plant the values that one run collected into another run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.core
import jax.numpy as jnp

from taxpr._collect import Last, Masked, Steps
from taxpr._errors import InjectorError
from taxpr._injector import Injector
from taxpr._iterations import loops_around
from taxpr._site_injector import SiteInjector
from taxpr._walk import Site
from taxpr._zeros import zeros


def plant(values: Any, at: Any = None, mask: Any = None) -> Injector:
    """An injector that puts values, such as `collect` returns, in the place of the token.

    Values, ``at`` and ``mask`` are leaves of its context: changing them never compiles again.

    Args:
        values: A tree with the token's structure and dtypes. Each array has the token's shape,
            and is planted whenever the tag fires; or it has the shape of collected values, with
            one leading axis for each loop around the tag, and each firing gets its own. Where
            several tags are selected there may be one more axis, in front, with one part for
            each tag in program order. A `Masked` or `Steps` is planted where its mask holds. A
            loop that goes on beyond the values goes on with its own.
        at: In which iteration to plant, counted along the axis of collected values: a number,
            or a list or array of them. For nested loops a tuple with one of these, or None for
            all, for each loop, the outermost first. None plants in all.
        mask: Where to plant, bool, with the leading axes of collected values or some of the
            first of them.

    Raises:
        InjectorError: If ``mask`` is not bool, or the values are a `Last`. When it is
            attached: if structure, shapes or dtypes do not fit the tags, or ``at`` does not
            fit the loops.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import plant, tag, trace
        >>> def f(xs):
        ...     return jax.lax.scan(lambda c, x: (tag(c + x, name="c"), None), 0.0, xs)[0]
        >>> program = trace(f)(jnp.ones(3))
        >>> clean = program.collect()(jnp.ones(3))[1]["c"]
        >>> patched = program.inject({"c": plant(clean, at=1)})
        >>> patched(patched.ctx, 10 * jnp.ones(3))[0]
        Array(12., dtype=float32)
    """
    masks = [] if mask is None else [mask]
    if isinstance(values, Last):
        raise InjectorError(
            "plant: a Last has the value of one iteration only. Collect with max_steps=, or plant "
            "its .value, which puts it at every iteration, or at those that at= names."
        )
    if isinstance(values, (Masked, Steps)):
        masks.append(values.mask)
        values = values.value
    for one in masks:
        if jnp.asarray(one).dtype != bool:
            raise InjectorError(f"plant: the mask is {jnp.asarray(one).dtype}, not bool.")
    each = at if isinstance(at, tuple) else () if at is None else (at,)
    numbers = tuple(None if one is None else jnp.asarray(one) for one in each)
    for one in numbers:
        if one is not None and not jnp.issubdtype(one.dtype, jnp.integer):
            raise InjectorError(f"plant: at={at!r} is {one.dtype}, not a number of an iteration.")
    return _Plant(
        "plant",
        {"value": values, "at": numbers, "mask": tuple(masks)},
        fire=_not_without_site,
        new_state=lambda site: (),
        report=lambda state: {},
    )


def _not_without_site(*_: Any) -> Any:
    raise InjectorError("plant: it runs at the tags of a program; attach it with inject.")


@dataclasses.dataclass(frozen=True, repr=False)
class _Plant(SiteInjector):
    """Its state is the number of the tag among those that are selected."""

    indexed: ClassVar[bool] = True

    def initial(self, sites: Sequence[Site]) -> dict[str, Any]:
        for site in sites:
            _check(self.values, site, len(sites))
        numbers = {site.address: jnp.int32(k) for k, site in enumerate(sites)}
        return {**super().initial(sites), "state": numbers}

    def fire_at(
        self, site: Site, index: Sequence[Any], ctx: Any, token: Any, params: dict[str, Any]
    ) -> tuple[Any, Any]:
        values, place = ctx["values"], [ctx["state"], *index]
        first = 0 if _stacked(values["value"], site) else 1
        conditions = []
        for one in values["mask"]:
            conditions += [_within(one, place[first:]), _at(one, place[first:])]
        for one, here in zip(values["at"], index, strict=bool(values["at"])):
            if one is not None:
                conditions.append(jnp.any(one == here))

        def planted(leaf: Any, x: Any) -> Any:
            where = list(conditions)
            if leaf.ndim > x.ndim:
                where.append(_within(leaf, place[first:]))
                leaf = _at(leaf, place[first:])
            return jnp.where(functools.reduce(jnp.logical_and, where), leaf, x) if where else leaf

        return jax.tree.map(planted, values["value"], token), ctx

    def __repr__(self) -> str:
        return "plant(...)"


def _at(array: Any, place: Sequence[Any]) -> Any:
    """The part of an array with leading axes that belongs to this firing."""
    place = place[: array.ndim]
    if 0 in array.shape[: len(place)]:
        # A loop of no iterations is traced, too.
        return zeros(array.shape[len(place) :], array.dtype)
    return array[tuple(place)]


def _within(array: Any, place: Sequence[Any]) -> Any:
    """Whether the array goes so far; a while loop may go on beyond it."""
    inside = [k < size for k, size in zip(place, array.shape, strict=False)]
    return functools.reduce(jnp.logical_and, inside, jnp.bool_(True))


def _stacked(value: Any, site: Site) -> bool:
    """Whether the values have one axis more than those of one tag, for several tags."""
    leading = len(loops_around(site))
    pairs = zip(jax.tree.leaves(value), jax.tree.leaves(site.avals), strict=True)
    return any(jnp.ndim(leaf) == leading + aval.ndim + 1 for leaf, aval in pairs)


def _check(values: Any, site: Site, n_sites: int) -> None:
    """Raise where what is planted does not fit a site."""
    loops = loops_around(site)
    sizes = tuple(step.nested.trips for _, step in loops)
    named = "".join(f", {address}" for address, _ in loops)
    found, expected = map(jax.tree.structure, (values["value"], site.avals))
    if found != expected:
        raise InjectorError(
            f"plant: the values have the structure {found} and the token {expected}. This is for "
            f"the {site}."
        )
    stacked = _stacked(values["value"], site)
    if stacked:
        sizes = (n_sites, *sizes)
    for leaf, aval in zip(*map(jax.tree.leaves, (values["value"], site.avals)), strict=True):
        leaf = jnp.asarray(leaf)
        lead, own = _split(leaf.shape, aval.ndim)
        fits = own == aval.shape and (not lead or (len(lead) == len(sizes) and _fit(lead, sizes)))
        if not fits or leaf.dtype != aval.dtype or (stacked and n_sites == 1):
            raise InjectorError(
                f"plant: the value is {_short(leaf)} and the token {_short(aval)}. Give it the "
                f"token's shape, or collect's, with a leading axis for each loop{named}, and the "
                f"token's dtype. This is for the {site}."
            )
    for mask in values["mask"]:
        if not _fit(jnp.shape(mask), sizes):
            raise InjectorError(
                f"plant: the mask has shape {jnp.shape(mask)}, and its axes are those of the "
                f"loops{named}. This is for the {site}."
            )
    if values["at"] and len(values["at"]) != len(loops):
        raise InjectorError(
            f"plant: at= is for {len(values['at'])} loops, and around the {site} there are "
            f"{len(loops)}{named}. Give a tuple with one entry for each, the outermost first."
        )
    for one, (address, step) in zip(values["at"], loops, strict=bool(values["at"])):
        _check_at(one, address, step.nested.trips)


def _check_at(numbers: Any, address: str, length: int | None) -> None:
    if numbers is None or isinstance(numbers, jax.core.Tracer):
        return
    outside = [k for k in numbers.ravel().tolist() if k < 0 or (length is not None and k >= length)]
    if outside:
        has = "which counts from 0" if length is None else f"which has {length} iterations"
        raise InjectorError(f"plant: at={outside[0]} is no iteration of {address}, {has}.")


def _split(shape: tuple[int, ...], own: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    lead = max(len(shape) - own, 0)
    return shape[:lead], shape[lead:]


def _fit(shape: tuple[int, ...], sizes: Sequence[int | None]) -> bool:
    """Whether a shape is the first of some sizes; a while loop has any."""
    return len(shape) <= len(sizes) and all(
        size in (None, given) for given, size in zip(shape, sizes, strict=False)
    )


def _short(aval: Any) -> str:
    return f"{aval.dtype}[{','.join(map(str, aval.shape))}]"
