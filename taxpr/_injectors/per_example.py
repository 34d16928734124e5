"""`per_example`: let an injector see single examples instead of a batch of `jax.vmap`."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, Dims, PyTree
from taxpr._errors import InjectorError, a_type
from taxpr._injectors.injector import Injector, Report, from_function
from taxpr._injectors.kind import InjectorKind
from taxpr._injectors.site_injector import Firing, SiteInjector, inject_at
from taxpr._jaxprs.prng import one_key
from taxpr._sites.site import Site


def per_example(
    injector: Injector | Callable[..., tuple[PyTree, PyTree]], ctx: PyTree = ()
) -> Injector:
    """An injector that runs for each example of a batch by itself.

    Under a `jax.vmap` in the traced function, a tag marks the whole batch. This injector is mapped
    over the batch axes (`Site.batch`), so each call sees the value of one example. Its whole
    context has these axes in front, the outermost vmap's first: each example has its own parameters
    and state. The initial context repeats one context for all examples. The report has the reports
    of all examples on these axes, or in a list if their shapes differ.

    A declared PRNG key, as in `noise`, differs between examples: the number of the example is
    folded into its key by `jax.random.fold_in`, counted over all batch axes, the last one fastest.
    A key in the ``ctx`` of a function is the same for all examples, unless you change ``ctx``.

    The result equals `jax.vmap` of the injected function, except in loops and branches that vmap
    runs for the whole batch: there all examples fire if one does.

    Args:
        injector: An `Injector` such as ``scale(0.5)``, or a function
            ``(ctx, token, params) -> (token, ctx)`` of one example.
        ctx: For a function: the context of one example, before the first firing.

    Raises:
        InjectorError: When it is attached: if a tag is in no vmap, or tags are in vmaps of
            different sizes. When it is traced: if it makes a part of the token that is the same
            for all examples differ between them.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import per_example, scale, tag, trace
        >>> program = trace(jax.vmap(lambda x: tag(x, name="x") + 1))(jnp.ones(3))
        >>> changed = program.inject({"x": per_example(scale(2.0))})
        >>> ctx = changed.ctx
        >>> ctx["x"]["values"]["factor"] = jnp.asarray([0.0, 1.0, 2.0])
        >>> changed(ctx, jnp.ones(3))[0]
        Array([1., 2., 3.], dtype=float32)
    """
    if isinstance(injector, InjectorKind):
        raise InjectorError(
            f"per_example: {injector.name} is a kind of injector, which needs its values: call it."
        )
    if not callable(injector):
        raise InjectorError(
            f"per_example: {injector!r} is {a_type(injector)}. Give an injector such as "
            "scale(0.5), or a function (ctx, token, params) -> (token, ctx)."
        )
    if isinstance(injector, Injector) and jax.tree.leaves(ctx):
        raise InjectorError(
            f"per_example: {injector} has a context of its own, so leave out ctx: it is the "
            "context of a function."
        )
    one = injector if isinstance(injector, Injector) else from_function(injector, ctx)
    if isinstance(one, SiteInjector) and not one.of_examples:
        raise InjectorError(
            f"per_example: {one.name} depends on its tag and needs the whole batch at once, so it "
            "cannot run on single examples."
        )
    return _PerExample.of(one, name=f"per_example({one.name})", one=one)


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _PerExample(SiteInjector):
    one: Injector

    def at(self, sites: Sequence[Site]) -> Injector:
        if not sites:
            return self
        report = functools.partial(_reported, self.one.report, _sizes(sites[0]))
        return dataclasses.replace(self, report=report)

    def initial(self, sites: Sequence[Site]) -> dict[str, PyTree]:
        sizes = {_sizes(site): site for site in sites}
        if len(sizes) > 1:
            (a, first), (b, second), *_ = sizes.items()
            raise InjectorError(
                f"per_example: the batch is {a} at the {first} and {b} at the {second}. Its "
                "context has the axes of one batch: give each an injector of its own."
            )
        if not sites:  # `maybe` matched nothing
            return self.one.initial(sites)
        [size] = sizes
        ctx = self.one.initial([_example(site) for site in sites])
        return _compat.map_leaves(lambda x: jnp.broadcast_to(x, (*size, *x.shape)), ctx)

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        if isinstance(self.one, SiteInjector):
            return self.one.counted(site, part)
        return super().counted(site, part)

    def fire_at(self, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
        site, inner = at.site, at._replace(site=_example(at.site))
        leaves, tree = jax.tree.flatten(token)
        given, ctx = ctx, {**ctx, "values": self._with_own_keys(ctx["values"], _sizes(site))}

        def call(ctx: PyTree, leaves: list[Array]) -> tuple[PyTree, list[Array]]:
            result = inject_at(self.one, inner, ctx, jax.tree.unflatten(tree, leaves))
            if not (isinstance(result, tuple) and len(result) == 2):
                raise InjectorError(
                    f"{self.name}: it returned {a_type(result)}. An injector returns (token, ctx)."
                )
            if jax.tree.structure(result[0]) != tree:
                raise InjectorError(f"{self.name}: it changed the structure of the token.")
            return result[1], jax.tree.leaves(result[0])

        # Along explicit mesh axes, all mapped arguments need the same sharding of the batch axis.
        batch = _batch_axes(site, leaves)
        ctx = _compat.map_leaves(lambda x: _compat.axes_like(x, batch), ctx)
        for axes in reversed(_axes(site)):
            call = jax.vmap(call, in_axes=(0, axes), out_axes=(0, axes))
        try:
            ctx, leaves = call(ctx, leaves)
        except ValueError as error:
            if "out_axes" not in str(error):
                raise
            raise InjectorError(
                f"{self.name}: a part of the token is the same for all examples, and would differ "
                "between them after this. Tag it apart, or after it has got a batch axis."
            ) from error
        token = token if self.observes else jax.tree.unflatten(tree, leaves)
        return token, {**ctx, "values": given["values"]}

    def _with_own_keys(
        self, values: dict[str, PyTree], sizes: tuple[int, ...]
    ) -> dict[str, PyTree]:
        """The values with the number of the example folded into its keys."""

        def own(key: Array, number: Array) -> Array:
            return jax.random.fold_in(one_key(self.one.name, key), number)

        for _ in sizes:
            own = jax.vmap(own)
        numbers = jnp.arange(math.prod(sizes)).reshape(sizes)
        keys = {name: _compat.whole_axes(values[name], len(sizes)) for name in self.keys}
        return {**values, **{name: own(key, numbers) for name, key in keys.items()}}

    def __repr__(self) -> str:
        return f"per_example({self.one!r})"


def _reported(report: Callable[[PyTree], Report], sizes: tuple[int, ...], state: PyTree) -> PyTree:
    """The reports of all examples, on the axes of the batch if possible."""
    state = _compat.map_leaves(lambda x: _compat.whole_axes(x, len(sizes)), state)
    leaves, tree = jax.tree.flatten(state)
    each = [report(jax.tree.unflatten(tree, [x[k] for x in leaves])) for k in np.ndindex(sizes)]
    try:
        types = {(jax.tree.structure(one), *map(jax.typeof, jax.tree.leaves(one))) for one in each}
    except TypeError:  # a text, say
        return each
    if len(types) != 1:
        return each

    def stacked(*values: ArrayLike) -> Array:
        return jnp.stack([jnp.asarray(x) for x in values]).reshape(*sizes, *jnp.shape(values[0]))

    return jax.tree.map(stacked, *each)


def _vmaps(site: Site) -> list[tuple[int, Dims]]:
    """The size of each vmap that gives the token an axis, and its dims; the outermost first."""
    return [(size, dims) for size, dims in reversed(site.batch) if size is not None]


def _sizes(site: Site) -> tuple[int, ...]:
    """The sizes of the batch, the outermost vmap's first."""
    sizes = tuple(size for size, _ in _vmaps(site))
    if not sizes:
        raise InjectorError(
            f"per_example: the {site} is in no vmap. Without per_example an injector sees the "
            "token as it is."
        )
    return sizes


def _axes(site: Site) -> list[list[int | None]]:
    """For each vmap, the outermost first, the axis of each leaf when outer ones are taken off."""
    levels: list[list[int | None]] = []
    taken = [list[int]() for _ in jax.tree.leaves(site.avals)]
    for _, dims in _vmaps(site):
        level: list[int | None] = []
        for dim, before in zip(dims, taken, strict=True):
            level.append(None if dim is None else dim - sum(other < dim for other in before))
            if dim is not None:
                before.append(dim)
        levels.append(level)
    return levels


def _batch_axes(site: Site, leaves: Sequence[Array]) -> list[tuple[Array, int]]:
    """For each vmap, the outermost first, a leaf of the token and its axis of the batch."""
    return [
        next((leaf, dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None)
        for _, dims in _vmaps(site)
    ]


def _example(site: Site) -> Site:
    """The site as one example sees it."""
    leaves, tree = jax.tree.flatten(site.avals)
    batch = {k: {dims[k] for _, dims in site.batch} for k in range(len(leaves))}
    own = [
        _compat.ShapedArray(
            tuple(size for dim, size in enumerate(aval.shape) if dim not in batch[k]), aval.dtype
        )
        for k, aval in enumerate(leaves)
    ]
    return dataclasses.replace(site, avals=jax.tree.unflatten(tree, own), batch=())
