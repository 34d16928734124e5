"""`plant`: substitute values, such as another run collected, for the tagged ones."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, PyTree
from taxpr._engine.collect import Last, Masked, Steps
from taxpr._engine.iterations import loops_around
from taxpr._errors import InjectorError
from taxpr._injectors.injector import Injector
from taxpr._injectors.plant_axes import check_planted, leading_axes, mesh_sizes
from taxpr._injectors.site_injector import Firing, SiteInjector, without_site
from taxpr._jaxprs.trees import refuse_no_arrays
from taxpr._jaxprs.zeros import zeros
from taxpr._sites.site import Site

# The iterations of a loop in which to plant; None for all.
At = int | list[int] | Array | None


def _becomes_array(x: Any) -> bool:
    """Whether it is a tree that can be an array, such as a value of a recording."""
    return hasattr(x, "__jax_array__") and not isinstance(x, jax.Array)


def _plain(x: Any) -> Any:
    return x.__jax_array__() if _becomes_array(x) else x


def plant(
    values: PyTree, at: At | tuple[At, ...] = None, mask: ArrayLike | None = None
) -> Injector:
    """An injector that substitutes values, such as `collect` returns, for the tagged ones.

    Values, ``at`` and ``mask`` are leaves of its context: changing them never compiles again.

    The shape of the values decides how they are used, in the same way for all arrays of a tagged
    value and all tags. It must be one of these:

    * the tagged value's own shape: one value, for all iterations or the iterations of ``at``;
    * the shape of collected values, with one leading axis for each loop around the tag, the
      outermost first, and in a `jax.shard_map` one for each mesh axis, as `Program.axes` says:
      each firing gets its own. Axes of the mesh along which values do not differ may be left out,
      if the others tell which they are;
    * for several tags, the shape of collected values with another leading axis: one part for each
      tag in program order, as ``collect(stack=True)`` returns.

    An ambiguous shape is an error, for example if an axis of size two may belong to two tags or to
    two devices.

    Args:
        values: A tree with the tagged value's structure and dtypes. A `Masked` or `Steps` is
            substituted where its mask is true. A while loop that runs beyond the values continues
            with its own.
        at: The iteration to change, counted along the axis of collected values: a number, or a list
            or array of them. For nested loops a tuple with one of these, or None for all, for each
            loop, the outermost first. None means all iterations.
        mask: Which values to substitute, bool, with the leading axes of the values or some of the
            first of them; for one value, with the axes of the loops.

    Raises:
        InjectorError: If ``mask`` is not bool, or the values are a `Last`. When it is
            attached: if structure, shapes or dtypes do not fit the tags, or ``at`` does not
            fit the loops.
        RefusedError: When it is attached: if it must know its iteration of a loop, and other code
            may run in place of the loop, such as a custom rule that is kept.

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
    collected = type(values) if isinstance(values, (Masked, Steps)) else None
    if isinstance(values, Last):
        raise InjectorError(
            "plant: a Last has the value of one iteration only. Collect with max_steps=, or plant "
            "its .value, which puts it at every iteration, or at those that at= names."
        )
    if isinstance(values, (Masked, Steps)):
        masks.append(values.mask)
        values = values.value
    values = jax.tree.map(_plain, values, is_leaf=_becomes_array)
    for said, one in {f"{values!r}": values, f"mask={mask!r}": mask, f"at={at!r}": at}.items():
        refuse_no_arrays(f"plant: {said}", one)
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
        fire=without_site("plant"),
        new_state=lambda site: (),
        report=lambda state: {},
        collected=collected,
    )


@dataclasses.dataclass(frozen=True, repr=False)
class _Plant(SiteInjector):
    """The injector of `plant`. Its state is the tag's number if values have tag parts, else ().

    Attributes:
        collected: The class of the values if it is `Masked` or `Steps`; its mask is the last mask.
    """

    keeps_state: ClassVar[bool] = True
    collected: type | None = None

    def initial(self, sites: Sequence[Site]) -> dict[str, PyTree]:
        parts = check_planted(self.values, self.collected, sites)
        numbers = {s.address: jnp.int32(k) if parts else () for k, s in enumerate(sites)}
        return {**super().initial(sites), "state": numbers}

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        n_parts = _n_parts(part["state"])
        axes = leading_axes(self.values["value"], site, n_parts)
        needed = set(axes)
        for one in self.values["mask"]:
            needed |= set(
                (axes or range(len(loops_around(site))))[: max(jnp.ndim(one) - n_parts, 0)]
            )
        for k, one in enumerate(self.values["at"]):
            needed |= {k} if one is not None else set()
        return [k in needed for k in range(len(loops_around(site)))]

    def fire_at(self, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
        values, number, (site, index, _) = ctx["values"], ctx["state"], at
        n_parts = _n_parts(number)
        axes = leading_axes(values["value"], site, n_parts)

        def planted(leaf: Array, x: Array) -> Array:
            place = [number] * n_parts
            place += [_device(site, k, x) if isinstance(k, str) else index[k] for k in axes]
            # The mask of a single value has the axes of the loops.
            of_mask = place if axes else [*place, *index]
            where: list[Array] = []
            for one in values["mask"]:
                where += [_within(one, of_mask), _at(one, of_mask)]
            for one, here in zip(values["at"], index, strict=bool(values["at"])):
                if one is not None:
                    where.append(jnp.any(one == here))
            if place:
                where.append(_within(leaf, place))
                leaf = _at(leaf, place)
            leaf = _compat.resharded(leaf, x)
            return jnp.where(functools.reduce(jnp.logical_and, where), leaf, x) if where else leaf

        return _compat.map_pairs(planted, values["value"], token), ctx

    def __repr__(self) -> str:
        return "plant(...)"


def _n_parts(state: PyTree) -> int:
    """The number of leading axes for parts of tags: one or none."""
    return 0 if isinstance(state, tuple) else 1


def _at(array: Array, place: Sequence[Array | None]) -> Array:
    """The part of an array with leading axes that belongs to this firing."""
    place = place[: array.ndim]
    if 0 in array.shape[: len(place)]:
        # A loop without iterations is traced, too.
        return zeros(array.shape[len(place) :], array.dtype)
    return _compat.whole_axes(array, len(place))[tuple(place)]


def _within(array: Array, place: Sequence[Array | None]) -> Array:
    """Whether the array has this index; a while loop may run beyond its end."""
    inside = [k < size for k, size in zip(place, array.shape, strict=False) if k is not None]
    return functools.reduce(jnp.logical_and, inside, jnp.bool_(True))


def _device(site: Site, name: str, x: Array) -> Array:
    """The index of this device along a mesh axis; arbitrary if the leaf is equal on all devices."""
    [step] = [step for step in site.steps if name in mesh_sizes(step.eqn)]
    same = step.eqn.params["check_vma"] and name not in _compat.varying(x)
    return jnp.int32(0) if same else jax.lax.axis_index(name)
