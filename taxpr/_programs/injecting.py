"""The steps of `Program.inject`: attach injectors, thread the context, make the report."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, ClosedJaxpr, PyTree
from taxpr._engine.inject import ctx_aval
from taxpr._engine.thread import thread
from taxpr._engine.underived import without_derivatives
from taxpr._errors import ArgumentError
from taxpr._given import NOT_GIVEN
from taxpr._hops.protocol import Options
from taxpr._injectors.as_injector import Given, as_injector, in_some
from taxpr._injectors.attach import Attached, attach_function, attach_one
from taxpr._injectors.injector import Injector
from taxpr._sites.criteria import Selector
from taxpr._sites.site import Site
from taxpr._where.pick import pick_tags


def refuse_more(ctx: PyTree, where: Selector) -> None:
    """Raise if a context or a selector is given beside a mapping of injectors."""
    if ctx is not NOT_GIVEN or where is not None:
        raise ArgumentError(
            "inject: with a mapping, neither ctx nor where is given. Its keys are the "
            "selectors, and a function gets a context by from_function(fun, ctx)."
        )


def attached_at(
    sites: Sequence[Site], injector: Given, ctx: PyTree, where: Selector, options: Options
) -> Attached:
    """Attach what was given to `Program.inject`; ``sites`` are those that can be injected."""
    if isinstance(ctx, str):
        raise ArgumentError(
            f"inject: the ctx is the str {ctx!r}. A selector is given by its keyword: "
            f"where={ctx!r}."
        )
    where, injector = in_some(where, injector)
    ready = as_injector(injector)
    # That there is nothing to select is an error also where all tags are meant.
    chosen, over = pick_tags(sites, where, change=True)
    if not isinstance(injector, (Injector, Sequence)):
        attached = attach_function(injector, () if ctx is NOT_GIVEN else ctx, chosen)
    elif ctx is not NOT_GIVEN:
        raise ArgumentError(
            f"inject: {injector} has a context of its own; leave out ctx. In a list a "
            "function gets one by from_function(fun, ctx)."
        )
    else:
        attached = attach_one(ready, chosen, options)
    return attached._replace(skipped=over)


def threaded(jaxpr: ClosedJaxpr, attached: Attached, options: Options) -> ClosedJaxpr:
    """The jaxpr with the context threaded through it, from its flat leaves and the inputs."""
    counters, read_only = attached.counters, attached.read_only
    options = dataclasses.replace(
        options,
        no_sums=attached.no_sums,
        unchanged=read_only.union(counters.leaves),
        read_only=read_only,
    )
    counting, ends = counters.installed(jaxpr)
    avals = [*map(ctx_aval, jax.tree.leaves(attached.ctx)), *counters.avals]
    result = thread(counting, [*attached.chosen, *ends], avals, options)
    return counters.closed(without_derivatives(result, attached.chosen, options))


def report_of(name: str, attached: Attached, options: Options) -> Callable[[PyTree], PyTree]:
    """The `report` of an `Injected`."""
    ctx, tree, told = attached.ctx, jax.tree.structure(attached.ctx), attached.report

    def report(final: PyTree) -> PyTree:
        if jax.tree.structure(final) != tree:
            raise ArgumentError(
                f"report: the ctx has the structure {jax.tree.structure(final)}, and the ctx of "
                f"{name} has {tree}. Give the ctx that a run returned: out, ctx = "
                "injected(injected.ctx, ...). With an edit around that, put it around report, "
                "too: taxpr.edit(injected.report, where, change)(ctx, *args)."
            )
        return told(final, ctx if options.shards == "stack" else None)

    return report


def check_ctx(name: str, args: Sequence[PyTree], ctx: PyTree, call: str, why: str = "") -> None:
    """Raise if the first argument does not have the structure of the context.

    Args:
        name: The name of the program.
        args: The arguments.
        ctx: The context.
        call: The call as it should be.
        why: Why another context may have been given.

    Raises:
        ArgumentError: If it has not.
    """
    given = jax.tree.structure(args[0]) if args else None
    if not args or given != jax.tree.structure(ctx):
        raise ArgumentError(
            f"{name} was injected, so that it takes its context first: {call}. "
            + (
                f"The first argument has the structure {given}, and the context has "
                f"{jax.tree.structure(ctx)}.{why}"
                if args
                else ""
            )
        )


def names_of(sites: Iterable[Site]) -> dict[str, None]:
    """The names and addresses of the program's own tags."""
    own = [site for site in sites if site.variable is None]
    keys = [key for site in own for key in (site.name, site.address, site.value_address)]
    return dict.fromkeys(key for key in keys if isinstance(key, str))


def strong_array(leaf: ArrayLike) -> Array | jax.ShapeDtypeStruct:
    """A leaf of a context as the array, or the type, that the program takes."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    return _compat.with_weak_type(jnp.asarray(leaf), False)
