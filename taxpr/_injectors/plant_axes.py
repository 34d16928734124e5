"""Interpret the leading axes of the values of `plant`, and refuse values that do not fit.

Only shapes decide: an array has the token's shape, or also the leading axes of collected values, or
also an axis for several tags. A shape with two possible meanings is an error.
"""

import itertools
from collections.abc import Sequence

import jax
import jax.core
import jax.numpy as jnp

from taxpr import _compat
from taxpr._answers.count_of import count_of
from taxpr._compat import Array, JaxprEqn, PyTree
from taxpr._engine.collect import Steps
from taxpr._engine.iterations import loops_around
from taxpr._errors import InjectorError
from taxpr._injectors.injector import Values
from taxpr._sites.site import Site, described

# For each leading axis of the values, the index of a loop around the tag, or the name of a mesh
# axis.
Axes = tuple[int | str, ...]


def mesh_sizes(eqn: JaxprEqn) -> dict[str, int]:
    return _compat.manual_sizes(eqn) if eqn.primitive is _compat.shard_map_p else {}


def _around(site: Site) -> list[tuple[int | str, int | None]]:
    """All axes that collected values of a site may have, with their sizes."""
    loops = itertools.count()
    around: list[tuple[int | str, int | None]] = []
    for step in site.steps:
        if step.is_loop:
            around.append((next(loops), step.nested.trips))
        around += mesh_sizes(step.eqn).items()
    return around


def _fitting(lead: tuple[int, ...], site: Site) -> list[Axes]:
    """The possible meanings of leading axes with these sizes: all loops, some mesh axes."""
    around = _around(site)
    mesh = [name for name, _ in around if isinstance(name, str)]
    n_left_out = len(around) - len(lead)
    found: list[Axes] = []
    for out in itertools.combinations(mesh, n_left_out) if n_left_out >= 0 else ():
        kept = [pair for pair in around if pair[0] not in out]
        if all(size in (None, given) for given, (_, size) in zip(lead, kept, strict=True)):
            found.append(tuple(axis for axis, _ in kept))
    return found


def _readings(value: PyTree, site: Site, parts: int | None) -> set[Axes]:
    """The possible meanings of the leading axes of values at a site, after the axis of parts."""
    readings: set[Axes] | None = None
    for leaf, aval in zip(*map(jax.tree.leaves, (value, site.avals)), strict=True):
        shape = jnp.shape(leaf)
        lead, own = shape[: len(shape) - aval.ndim], shape[max(len(shape) - aval.ndim, 0) :]
        if parts is not None:
            own = own if lead[:1] == (parts,) else None
            lead = lead[1:]
        here = set(_fitting(lead, site)) if own == aval.shape else set[Axes]()
        if own == aval.shape and not lead and parts is None:
            here |= {()}
        readings = here if readings is None else readings & here
    return {()} if readings is None else readings


def leading_axes(value: PyTree, site: Site, n_parts: int) -> Axes:
    """The meaning of the leading axes of checked values, after the axis of parts."""
    pairs = zip(*map(jax.tree.leaves, (value, site.avals)), strict=True)
    for leaf, aval in pairs:
        lead = jnp.shape(leaf)[n_parts : jnp.ndim(leaf) - aval.ndim]
        return _fitting(lead, site)[0] if lead else ()
    return ()


# ---- checks ------------------------------------------------------------------


def check_planted(values: Values, collected: type | None, sites: Sequence[Site]) -> bool:
    """Raise if the values do not fit. Returns whether they have a part for each tag."""
    value, n = values["value"], len(sites)
    for site in sites:
        found, expected = map(jax.tree.structure, (value, site.avals))
        if found != expected:
            raise InjectorError(
                f"plant: the values have the structure {found} and the token {expected}. This is "
                f"for the {site}."
            )
    ways = [None, n] if n > 1 else [None]
    by_site = [{parts: _readings(value, site, parts) for parts in ways} for site in sites]
    for k, site in enumerate(sites):
        fits = [parts for parts in ways if all(readings[parts] for readings in by_site[: k + 1])]
        dtypes = [
            jnp.asarray(leaf).dtype == aval.dtype
            for leaf, aval in zip(*map(jax.tree.leaves, (value, site.avals)), strict=True)
        ]
        if not fits or not all(dtypes):
            raise InjectorError(_misfit(value, site, n))
    fits = [parts for parts in ways if all(readings[parts] for readings in by_site)]
    for readings, site in zip(by_site, sites, strict=True):
        meanings = [(parts, axes) for parts in fits for axes in sorted(readings[parts], key=str)]
        if len(meanings) > 1:
            raise InjectorError(_two_meanings(value, site, meanings))
    parts = n > 1 and fits == [n]
    for site in sites:
        _check_masks(values, collected, site, n if parts else None)
        _check_at(values["at"], site)
    return parts


def _misfit(value: PyTree, site: Site, n_sites: int) -> str:
    around = _around(site)
    sizes = tuple("k" if size is None else size for _, size in around)
    said = (
        f"plant: the value is {_shown(value)} and the token {_shown(site.avals)}. Right are "
        f"{_shown(site.avals)}, one value"
    )
    if around:
        what = ", ".join(_named(axis, site) for axis, _ in around)
        said += f" for all, or {_shown(site.avals, sizes)}, with a leading axis for each of {what}"
    if "k" in sizes:
        said += ", k any number"
    if n_sites > 1:
        said += (
            f"; or {_shown(site.avals, (n_sites, *sizes))}, with one more axis, for the tags. "
            f"All {n_sites} tags that are selected read the values in one way; otherwise give each "
            "a plant of its own"
        )
    return f"{said}. This is for the {site}."


def _two_meanings(value: PyTree, site: Site, meanings: Sequence[tuple[int | None, Axes]]) -> str:
    read = [
        ", ".join([*(["the tags"] if parts else []), *(_named(axis, site) for axis in axes)])
        for parts, axes in meanings
    ]
    return (
        f"plant: the given value is {_shown(value)} and the tagged value {_shown(site.avals)}. Its "
        f"leading axes may be {', or '.join(read)}. Give the value all of the mesh axes, as by "
        f"jnp.broadcast_to, or each tag a plant of its own. This is for the {site}."
    )


def _named(axis: int | str, site: Site) -> str:
    if isinstance(axis, str):
        return f"mesh axis {axis!r}"
    address, step = loops_around(site)[axis]
    return f"loop {described(address, step.eqn)}"


def _check_masks(values: Values, collected: type | None, site: Site, parts: int | None) -> None:
    leaves = jax.tree.leaves(values["value"])
    n_parts = 0 if parts is None else 1
    axes = leading_axes(values["value"], site, n_parts)
    if axes:
        lead = jnp.shape(leaves[0])[: n_parts + len(axes)]
    else:
        lead = (parts,) * n_parts + tuple(step.nested.trips for _, step in loops_around(site))
    for mask in values["mask"]:
        shape = jnp.shape(mask)
        if not _begins(lead, shape):
            shown = ", ".join("k" if size is None else str(size) for size in lead)
            raise InjectorError(
                f"plant: the mask has shape {shape}, and must have the first axes of ({shown}), "
                f"the leading axes of the values or of the loops. This is for the {site}."
            )
    if collected is None or not leaves:
        return
    shape = jnp.shape(values["mask"][-1])
    whole = lead if axes else lead[:n_parts]
    if len(shape) > len(whole) or (collected is Steps and len(shape) < len(whole)):
        raise InjectorError(
            f"plant: the {collected.__name__} has a value {_shown(values['value'])} and a mask of "
            f"shape {shape}, which is not of the value's leading axes. This is for the {site}."
        )


def _begins(lead: Sequence[int | None], shape: Sequence[int]) -> bool:
    """Whether a shape is a prefix of some sizes; the size of a while loop is arbitrary."""
    return len(shape) <= len(lead) and all(
        size in (None, given) for given, size in zip(shape, lead, strict=False)
    )


def _check_at(at: Sequence[Array | None], site: Site) -> None:
    loops = loops_around(site)
    if at and len(at) != len(loops):
        named = "".join(f", {described(address, step.eqn)}" for address, step in loops)
        raise InjectorError(
            f"plant: at= is for {count_of(len(at), 'loop')}, and around the {site} there are "
            f"{len(loops)}{named}. Give a tuple with one entry for each, the outermost first."
        )
    for numbers, (address, step) in zip(at, loops, strict=bool(at)):
        if numbers is None or isinstance(numbers, jax.core.Tracer):
            continue
        length = step.nested.trips
        outside = [
            k
            for k in numbers.ravel().tolist()
            if k < 0 or (isinstance(length, int) and k >= length)
        ]
        if outside:
            has = (
                "which counts from 0"
                if length is None
                else f"which has {count_of(length, 'iteration')}"
            )
            raise InjectorError(
                f"plant: at={outside[0]} is no iteration of {described(address, step.eqn)}, {has}."
            )


def _shown(tree: PyTree, leading: Sequence[object] = ()) -> str:
    """The types of the leaves, with more axes in front."""
    leaves = [x if hasattr(x, "shape") else jnp.asarray(x) for x in jax.tree.leaves(tree)]
    each = [f"{x.dtype}[{','.join(map(str, (*leading, *x.shape)))}]" for x in leaves]
    return ", ".join(each) or "nothing"
