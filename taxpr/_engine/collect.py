"""`collect`: make a program return the values of its tags."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import itertools
from collections.abc import Container, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr, PyTree, TreeDef
from taxpr._engine.handler import Handled, Handler
from taxpr._engine.memo import made_of
from taxpr._engine.thread import thread
from taxpr._engine.underived import without_derivatives
from taxpr._errors import ArgumentError, SelectorError
from taxpr._hops.protocol import Emission, Options
from taxpr._hops.rebuild import Slots, slotted
from taxpr._jaxprs.splice import followed_by
from taxpr._primitives.tag_equation import tag_p
from taxpr._sites.site import Site


class Masked(NamedTuple):
    """The value of a tag that may not fire.

    For example a tag in a branch of cond or switch, or one that only a rule of `jax.custom_jvp` or
    `jax.custom_vjp` has, which fires only if the program is differentiated.

    Attributes:
        value: The value; zeros if the tag did not fire.
        mask: Bool, whether the tag fired; it has the leading axes of scans.

    Example:
        >>> import jax
        >>> from taxpr import collect, tag
        >>> def f(x):
        ...     return jax.lax.cond(x > 0, lambda x: tag(2 * x, name="up"), lambda x: x, x)
        >>> collect(f)(-1.0)[1]["up"].mask
        Array(False, dtype=bool)
    """

    value: PyTree
    mask: Array


class Last(NamedTuple):
    """The value of a tag in a while loop.

    If `jax.vmap` inside the traced function mapped the loop, batch elements that have ended are
    still computed while others run, and count here, too.

    Attributes:
        value: The value at the last firing; zeros if the tag never fired.
        count: int32, the number of firings for each iteration of the scans around it. Trailing
            axes, along which all iterations fire equally often, are left out.

    Example:
        >>> import jax
        >>> from taxpr import collect, tag
        >>> def f(x):
        ...     return jax.lax.while_loop(lambda x: x < 9, lambda x: tag(2 * x, name="x"), x)
        >>> collect(f)(1)[1]["x"]
        Last(value=Array(16, dtype=int32), count=Array(4, dtype=int32))
    """

    value: PyTree
    count: Any  # an array; `tuple` has a method of that name


class Steps(NamedTuple):
    """The values of a tag in a while loop, for collection with ``max_steps``.

    Each loop around the tag adds a leading axis, the outermost first: a scan of its length, a while
    loop of ``max_steps``. Slot k holds the value of iteration k. A tag in a condition fires once
    more than the loop iterates. Iterations beyond ``max_steps`` are dropped; then ``count`` is
    larger than the sum of ``mask`` over the axes of while loops.

    Attributes:
        value: The value with the leading axes; zeros if the tag did not fire.
        mask: Bool, with the shape of the leading axes: whether the tag fired.
        count: int32, the number of firings, kept or dropped; as in `Last`.

    Example:
        >>> import jax
        >>> from taxpr import collect, tag
        >>> def f(x):
        ...     return jax.lax.while_loop(lambda x: x < 9, lambda x: tag(2 * x, name="x"), x)
        >>> steps = collect(f, max_steps=6)(1)[1]["x"]
        >>> steps.value[steps.mask]
        Array([ 2,  4,  8, 16], dtype=int32)
    """

    value: PyTree
    mask: Array
    count: Any  # an array; `tuple` has a method of that name


def collector(size: int | None = None, *, stays: bool = False) -> Handler:
    """A handler that emits the value and changes nothing.

    Args:
        size: The number of iterations of while loops to keep; None keeps the last one.
        stays: Whether the tag stays in the program; then the emitted values have the types of its
            results, weak ones included.
    """

    def hand_out(
        address: str, eqn: _compat.JaxprEqn, ctx: list[Array], token: list[Array]
    ) -> Handled:
        del address
        if stays:
            after, leaves = tag_p.bind(*token, **eqn.params), token
        else:
            whole = [_compat.whole(leaf) for leaf in token]
            after, leaves = token, [_compat.with_weak_type(leaf, False) for leaf in whole]
        return ctx, after, leaves if size is None else [Slots(leaves, jnp.bool_(True), size)]

    return Handler(hand_out, uses=(), observes=True, emits=True)


def collected(site: Site, emission: Emission) -> PyTree:
    """The value that `collect` returns for a site."""
    tree = jax.tree.structure(site.avals)
    if emission.fired is None:
        return jax.tree.unflatten(tree, emission.value)
    if slotted(emission):
        [slots] = emission.value
        return Steps(jax.tree.unflatten(tree, slots.leaves), slots.fired, emission.fired)
    value = jax.tree.unflatten(tree, emission.value)
    if any(step.is_while for step in site.steps):
        return Last(value, emission.fired)
    return Masked(value, emission.fired > 0)


@dataclasses.dataclass(frozen=True)
class Collection:
    """A jaxpr that also returns the values of tags.

    Attributes:
        jaxpr: The jaxpr from the arguments to the leaves of ``shapes``.
        shapes: ``(out, values)`` as `jax.ShapeDtypeStruct`.
        sites: The tags by name.
        stacked: The names whose values are stacked.
        mesh: For each tag, by address, the mesh axes that are axes of its values.
    """

    jaxpr: ClosedJaxpr
    shapes: tuple[PyTree, dict[str, PyTree]]
    sites: dict[str, list[Site]]
    stacked: set[str]
    mesh: dict[str, Container[str]]

    def in_order(self, values: dict[str, PyTree]) -> dict[str, PyTree]:
        """The values in the order of execution; JAX sorts a dict by its keys."""
        return {name: values[name] for name in self.sites}

    def of_sites(self, values: dict[str, PyTree]) -> dict[str, PyTree]:
        """The value of each tag, by address."""
        of: dict[str, PyTree] = {}
        for name, group in self.sites.items():
            every: Any = values[name]
            for k, site in enumerate(group):
                if name in self.stacked:
                    of[site.address] = _part(every, k)
                else:
                    of[site.address] = every if len(group) == 1 else every[k]
        return of


def _part(every: PyTree, number: int) -> PyTree:
    return _compat.map_leaves(lambda x: x[number], every)


def collection(
    jaxpr: ClosedJaxpr,
    out_tree: TreeDef,
    sites: Sequence[Site],
    max_steps: int | None,
    stack: bool,
    options: Options,
) -> Collection:
    """Collect the values of tags; see `Program.collect`."""
    if max_steps is not None and (not isinstance(max_steps, int) or max_steps < 1):
        raise ArgumentError(f"collect: max_steps={max_steps!r}; it is a number from 1 on, or None.")
    named = by_name("collect", sites, stack)
    # The names depend on `stack`, if a tag of a rule has the name of another tag.
    names = tuple((name, tuple(site.address for site in group)) for name, group in named.items())
    key = ("collect", out_tree, max_steps, options.custom_rules, names)
    return made_of(
        jaxpr, sites, key, lambda: _collection(jaxpr, out_tree, sites, named, max_steps, options)
    )


def _collection(
    jaxpr: ClosedJaxpr,
    out_tree: TreeDef,
    sites: Sequence[Site],
    named: dict[str, list[Site]],
    max_steps: int | None,
    options: Options,
) -> Collection:
    plain, kept = collector(), collector(max_steps)
    chosen = [(s, kept if any(step.is_while for step in s.steps) else plain) for s in sites]
    threaded = thread(jaxpr, chosen, [], options)
    stacked: set[str] = set()
    mesh: dict[str, Container[str]] = {}

    def split(*flat: Array) -> tuple[PyTree, dict[str, PyTree]]:
        _, outs, emits = threaded.unpack(flat)
        mesh.update({address: emission.mesh or () for address, emission in emits.items()})
        values: dict[str, PyTree] = {}
        for name, group in named.items():
            each = [collected(site, emits[site.address]) for site in group]
            values[name], is_stacked = together(each)
            if is_stacked:
                stacked.add(name)
        return jax.tree.unflatten(out_tree, outs), values

    piece, shapes = _compat.make_jaxpr_and_shapes(split)(*threaded.jaxpr.out_avals)
    new = followed_by(without_derivatives(threaded, chosen, options), piece)
    return Collection(new, shapes, named, stacked, mesh)


def by_name(what: str, sites: Sequence[Site], several: bool) -> dict[str, list[Site]]:
    """The sites by their key among collected values: the name, or the address without one."""
    named: dict[str, list[Site]] = {}
    for site in sites:
        key = str(site.name) if site.name is not None else site.address
        if not several and any(_stands_for(site, one) for one in named.get(key, ())):
            continue
        if key in named and not several:
            raise SelectorError(
                f"{what}: two tags have the name {key!r}: the {named[key][0]} and the {site}. "
                "Select one of them by address, or take both with stack=True."
            )
        named.setdefault(key, []).append(site)
    for group in named.values():
        if several and all(site.variable for site in group):  # which may swap values
            group.sort(key=lambda site: site.variable.occurrence if site.variable else 0)
    return named


def _stands_for(site: Site, other: Site) -> bool:
    """Whether a tag belongs to the derivative rule of the function that holds the other tag."""
    ruled = [k for k, step in enumerate(site.steps) if step.nested.rule]
    return any(
        site.chain[: k + 1] == other.chain[: k + 1] and not other.steps[k].nested.rule
        for k in ruled
    )


def together(values: Sequence[PyTree]) -> tuple[PyTree, bool]:
    """The values of all tags of one name, and whether they are stacked."""
    if len(values) == 1:
        return values[0], False
    if len({_type(value) for value in values}) == 1:
        return jax.tree.map(_stacked, *values), True
    return tuple(values), False


def _stacked(first: Array, *rest: Array) -> Array:
    """Stack values on a new axis, all with the sharding of the first if it is part of the type."""
    return jnp.stack([first, *(_compat.resharded(x, first) for x in rest)])


def _type(value: PyTree) -> Hashable:
    leaves, tree = jax.tree.flatten(value)
    return tree, tuple((x.shape, x.dtype) for x in leaves)


# ---- axes --------------------------------------------------------------------


def axes_of(found: Collection, max_steps: int | None) -> dict[str, PyTree]:
    """Describe the axes of collected values; see `Program.axes`."""
    out: dict[str, PyTree] = {}
    for name, sites in found.sites.items():
        trees = [jax.tree.structure(site.avals) for site in sites]
        each = [_axes(site, max_steps, found.mesh[site.address]) for site in sites]
        if name in found.stacked:
            joined = [("stack", *map(_joined, *of)) for of in zip(*each, strict=True)]
            out[name] = jax.tree.unflatten(trees[0], joined)
        else:
            every = tuple(map(jax.tree.unflatten, trees, each))
            out[name] = every[0] if len(every) == 1 else every
    return out


def _axes(site: Site, max_steps: int | None, mesh: Container[str]) -> list[tuple[str, ...]]:
    """The names of the axes of each leaf of the value; ``mesh`` has the mesh axes that count."""
    leading: list[str] = []
    for address, step in zip(site.chain, site.steps, strict=True):
        if step.is_loop and (max_steps is not None or not step.is_while):
            leading.append(address)
        if step.eqn.primitive is _compat.shard_map_p:
            leading += [f"mesh {name}" for name in _compat.manual_sizes(step.eqn) if name in mesh]
    described: list[tuple[str, ...]] = []
    for number, aval in enumerate(jax.tree.leaves(site.avals)):
        # The vmaps around a tag, the outermost one first.
        mapped = [dims[number] for _, dims in reversed(site.batch)]
        names = {dim: f"vmap {k}" for k, dim in enumerate(mapped) if dim is not None}
        own = itertools.count()
        token = [names.get(dim) or f"token {next(own)}" for dim in range(aval.ndim)]
        described.append((*leading, *token))
    return described


def _joined(*names: str) -> str:
    return " | ".join(dict.fromkeys(names))
