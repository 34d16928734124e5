"""Injection: run a function at each selected tag, with a context threaded through."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import (
    Array,
    ArrayLike,
    Aval,
    ClosedJaxpr,
    JaxprEqn,
    PyTree,
    StoredJaxpr,
    TreeDef,
)
from taxpr._engine.handler import Handled, Handler
from taxpr._engine.thread import thread
from taxpr._errors import (
    ArgumentError,
    InjectorError,
    a_type,
    name_of,
    refuse_no_function,
    say_where,
)
from taxpr._hops.protocol import Options, Shards
from taxpr._jaxprs.trees import named_leaves
from taxpr._primitives.tag_equation import tag_params, tag_tree
from taxpr._sites.site import Site, described
from taxpr._sites.walk import find_sites, firing

InjectorFn = Callable[[PyTree, PyTree, dict[str, Any]], tuple[PyTree, PyTree]]
# JAX raises these if Python code needs the value of a tracer.
_NEEDS_A_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
Predicate = Callable[[dict[str, Any], PyTree], bool]


def inject_jaxpr(
    closed_jaxpr: ClosedJaxpr,
    injector: InjectorFn,
    ctx: PyTree,
    predicate: Predicate | None,
    options: Options,
) -> ClosedJaxpr:
    """`taxpr.inject` of a jaxpr, with one injector at all tags that fulfil the predicate."""
    refuse_no_function("inject", injector)
    if predicate is not None:
        refuse_no_function("inject: predicate", predicate)
    sites = [
        site
        for site in find_sites(closed_jaxpr)
        if predicate is None or predicate(site.params, site.avals)
    ]
    leaves, tree = jax.tree.flatten(ctx)
    handler = handler_for(injector, tree)
    chosen = [(site, handler) for site in firing(sites)]
    return thread(closed_jaxpr, chosen, [ctx_aval(leaf) for leaf in leaves], options).jaxpr


def options_of(custom_rules: str, shards: Shards = None) -> Options:
    """The options of `inject`, checked."""
    if custom_rules not in ("keep", "drop"):
        raise ArgumentError(f'inject: custom_rules is "keep" or "drop", not {custom_rules!r}.')
    if not (shards is None or callable(shards) or shards in ("psum", "pmax", "stack")):
        raise ArgumentError(
            'inject: shards is None, "psum", "pmax", "stack" or a function '
            f"(ctx, axis_names) -> ctx, not {shards!r}."
        )
    return Options(custom_rules, shards)


def sites_of(jaxpr: StoredJaxpr, options: Options) -> list[Site]:
    """The tags; without those in rules if rules are dropped."""
    keep = options.custom_rules == "keep"
    return [site for site in find_sites(jaxpr) if keep or not site.in_rule]


def ctx_aval(leaf: ArrayLike | jax.ShapeDtypeStruct | Aval) -> Aval:
    """The strong aval of a leaf of a context."""
    if isinstance(leaf, (jax.ShapeDtypeStruct, _compat.ShapedArray)):
        return _compat.aval_on_mesh_here(_compat.ShapedArray(leaf.shape, leaf.dtype))
    try:
        return _compat.aval_on_mesh_here(_compat.strong(jax.typeof(leaf)))
    except TypeError:
        raise InjectorError(
            f"inject: the ctx holds {a_type(leaf)}, {leaf!r}. A ctx is a PyTree of "
            "arrays and numbers; anything else belongs in the injector itself."
        ) from None
    except OverflowError:
        raise InjectorError(
            f"inject: the ctx holds the int {leaf}, which does not fit into "
            f"{jnp.asarray(0).dtype}, the type that JAX gives to an int. Give a float, or an array "
            "of the dtype that it shall have; for 64 bits set jax_enable_x64."
        ) from None


def handler_for(
    injector: InjectorFn,
    ctx_tree: TreeDef,
    uses: tuple[int, ...] | None = None,
    observes: bool = False,
) -> Handler:
    """An injector as a `Handler` that checks its results.

    ``ctx_tree`` is the structure of the part of the context that it ``uses``. ``observes`` says
    that it returns the token unchanged.
    """
    name = name_of(injector)

    def handle(address: str, eqn: JaxprEqn, ctx: list[Array], token: list[Array]) -> Handled:
        params = tag_params(eqn)
        where = f"the injector {name!r} at {described(address, eqn)}"
        # The injector sees an unreduced token as an ordinary value.
        token, parts = [_compat.whole(leaf) for leaf in token], token
        try:
            result = injector(
                jax.tree.unflatten(ctx_tree, ctx),
                jax.tree.unflatten(tag_tree(eqn), token),
                params,
            )
        except InjectorError as error:
            raise InjectorError(f"{error} This is at {described(address, eqn)}.") from error
        except Exception as error:
            say_where(error, f"raised by {where}" + _fix(error, token))
            raise
        if not _is_pair(result):
            raise InjectorError(
                f"inject: {where} returned {a_type(result)}. An injector returns (token, ctx)."
            )
        new_token, new_ctx = result
        expected = [jax.typeof(leaf) for leaf in token]
        ctx_avals = [jax.typeof(leaf) for leaf in ctx]
        try:
            checked = _checked("token", new_token, tag_tree(eqn), expected, where)
            return (
                _checked("ctx", new_ctx, ctx_tree, ctx_avals, where),
                [
                    divided(*leaf, f"inject: {where} changed")
                    for leaf in zip(checked, token, parts, strict=True)
                ],
                None,
            )
        except InjectorError as error:
            if _swapped(new_token, new_ctx, tag_tree(eqn), expected, ctx_tree, ctx_avals):
                raise InjectorError(
                    f"inject: {where} returned (ctx, token). An injector returns (token, ctx)."
                ) from error
            raise

    injects = inspect.unwrap(getattr(injector, "fire", injector))
    seen = uses or () if observes else ()
    return Handler(handle, uses, injects=injects, observes=observes, seen=seen)


def _is_pair(result: Any) -> TypeGuard[tuple[PyTree, PyTree]]:
    return issubclass(type(result), tuple) and len(result) == 2


def _fix(error: Exception, token: Sequence[Array]) -> str:
    if _compat.is_sharding_error(error):
        shown = ", ".join(jax.typeof(x).str_short(short_dtypes=False) for x in token)
        return (
            f", where the token is {shown}. On a mesh with explicit axes the sharding is part of "
            "the type: give the result's sharding by out_sharding=, or change the token's by "
            "jax.sharding.reshard."
        )
    if not isinstance(error, _NEEDS_A_VALUE):
        return "."
    return (
        ", which is called while the program is traced: token and ctx have shapes and dtypes, and "
        "no values yet. Use jnp.where or jax.lax.cond in place of `if`, and jnp in place of float, "
        "int, bool and numpy."
    )


def _checked(
    what: str, value: PyTree, tree: TreeDef, avals: Sequence[Aval], where: str
) -> list[Array]:
    """The leaves of ``value`` as arrays of the expected types, weak types included."""
    found = jax.tree.structure(value)
    if found != tree:
        raise InjectorError(
            f"inject: {where} changed the structure of the {what}: expected {tree}, got "
            f"{found}. Return the {what} with the structure that it came with."
        )
    out: list[Array] = []
    for (place, leaf), aval in zip(named_leaves(what, value), avals, strict=True):
        try:
            array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
        except TypeError:
            raise InjectorError(
                f"inject: {where} returned {a_type(leaf)} as {place}, where "
                f"{_compat.type_text(aval)} is expected."
            ) from None
        if (array.shape, array.dtype) != (aval.shape, aval.dtype):
            fix = (
                f"Convert it: x.astype({aval.dtype})."
                if array.shape == aval.shape
                else "The program goes on with it and needs the shape that it was traced with."
            )
            raise InjectorError(
                f"inject: {where} changed {place}: expected {_compat.type_text(aval)}, got "
                f"{_compat.type_text(jax.typeof(array))}. {fix}"
            )
        array = _compat.with_weak_type(array, aval.weak_type)
        if what == "token":
            array = _as_varying(place, array, aval, where)
        out.append(_compat.resharded(array, aval))
    return out


def divided(new: Array, seen: Array, before: Array, what: str) -> Array:
    """A leaf of the token converted back to its original type; unchanged leaves stay as they were.

    ``seen`` is the leaf that the injector got. ``what`` begins the error message.
    """
    if new is seen:
        return before
    if not _compat.divides(before):
        axes = ", ".join(sorted(_compat.in_parts(before)))
        raise InjectorError(
            f"{what} a value that is the sum of one part for each device along {axes}, which JAX "
            "calls unreduced. Tag the sum itself, as jax.sharding.reshard returns it."
        )
    return _compat.with_parts(new, before)


def _as_varying(place: str, array: Array, aval: Aval, where: str) -> Array:
    """In a shard_map: the value cast to vary over the mesh axes that the aval varies over."""
    found, expected = _compat.varying(array), _compat.varying(aval)
    if more := found - expected:
        raise InjectorError(
            f"inject: {where} changed {place}: it was the same on all devices along "
            f"{', '.join(sorted(more))}, and now it may differ. Make what it is computed from the "
            "same on all devices, as by jax.lax.psum."
        )
    return _compat.pvary(array, sorted(expected - found))


def _swapped(
    first: PyTree,
    second: PyTree,
    tree: TreeDef,
    avals: Sequence[Aval],
    ctx_tree: TreeDef,
    ctx_avals: Sequence[Aval],
) -> bool:
    try:
        _checked("ctx", first, ctx_tree, ctx_avals, "")
        _checked("token", second, tree, avals, "")
    except InjectorError:
        return False
    return True
