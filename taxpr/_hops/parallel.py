"""shard_map and pmap.

In a shard_map each device runs the body on its own shard. The context enters replicated.
Where it leaves the same on all devices, it is one context again; where it differs along some
mesh axes, the caller of `inject` says how these become one, or is asked to.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from taxpr import _compat
from taxpr._errors import InjectorError, RefusedError
from taxpr._hops._varying import varying_axes
from taxpr._rules import Emission, Emits, Hop, Nested, Thread, plain, register

_PMAP = (
    "each device would hold a context of its own; from jax 0.9 pmap is a shard_map, "
    "into which taxpr does inject"
)


def _nested_shard_map(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    mesh = eqn.params["mesh"]
    axes = ", ".join(f"{name}: {size}" for name, size in mesh.shape.items())
    facts = {
        "mesh": axes,
        "in_specs": tuple(map(str, eqn.params["in_specs"])),
        "out_specs": tuple(map(str, eqn.params["out_specs"])),
    }
    return (plain("body", "shard_map body", ("jaxpr",), eqn.params["jaxpr"], facts=facts),)


def _inject_shard_map(
    eqn: _compat.JaxprEqn, ctx: list[Any], operands: list[Any], thread: Thread
) -> tuple[list[Any], list[Any], Emits]:
    """The body is mapped again; what is emitted gets a leading axis for each axis it varies on."""
    params = eqn.params
    manual = _compat.manual_axes(eqn)
    axes = tuple(_compat.manual_sizes(eqn))
    placed: list[tuple[str, ...]] = []
    tree: Any = None

    def body(ctx: list[Any], operands: list[Any]) -> Any:
        nonlocal tree
        threaded = thread("body", ctx=ctx)
        new, outs, emits = threaded(ctx, operands)
        if params["check_vma"]:
            varies = [_compat.varying(x) for x in threaded.jaxpr.out_avals]
        else:
            sharded = [frozenset(), *map(_axes_of, params["in_specs"])]
            given = [*[sharded[0]] * len(ctx), *sharded[1:]]
            varies = varying_axes(threaded.jaxpr, given)
        by_axes: dict[tuple[str, ...], list[Any]] = {key: [] for key in _subsets(axes)}

        def place(value: Any, over: frozenset[str]) -> None:
            key = tuple(name for name in axes if name in over)
            missing = [name for name in key if name not in _compat.varying(value)]
            value = _compat.pvary(value, missing) if params["check_vma"] else value
            by_axes[key].append(jnp.expand_dims(value, tuple(range(len(key)))))
            placed.append(key)

        n_out, n_ctx = len(outs), len(ctx)
        placed.clear()
        for old, value, over in zip(ctx, new, varies[n_out : n_out + n_ctx], strict=True):
            merged, left = _merged(eqn, thread, old, value, over)
            place(merged, left)
        rest = iter(varies[n_out + n_ctx :])
        for emission in emits.values():
            leaves = jax.tree.leaves(emission)
            over = frozenset().union(*[next(rest) for _ in leaves])
            for leaf in leaves:
                place(leaf, over)
        tree = jax.tree.structure(emits)
        return outs, by_axes

    mapped = jax.shard_map(
        body,
        mesh=params["mesh"],
        in_specs=([PartitionSpec()] * len(ctx), list(params["in_specs"])),
        out_specs=(
            list(params["out_specs"]),
            {key: PartitionSpec(*key) for key in _subsets(axes)},
        ),
        axis_names=manual,
        check_vma=params["check_vma"],
    )
    outs, by_axes = mapped(ctx, operands)
    queues = {key: iter(values) for key, values in by_axes.items()}
    flat = [next(queues[key]) for key in placed]
    emits: dict[str, Emission] = jax.tree.unflatten(tree, flat[len(ctx) :])
    return flat[: len(ctx)], list(outs), emits


def _merged(
    eqn: _compat.JaxprEqn, thread: Thread, old: Any, new: Any, over: frozenset[str]
) -> tuple[Any, frozenset[str]]:
    """A leaf of the context as it leaves the body, and the axes over which it still varies."""
    policy = thread.options.shards
    names = tuple(name for name in eqn.params["mesh"].axis_names if name in over)
    if not names:
        return new, over
    if policy is None:
        raise RefusedError(_differs(eqn, thread, new, names))
    if policy == "stack":
        return new, over
    if _compat.is_extended(new.dtype) or (policy == "psum" and new.dtype == bool):
        raise InjectorError(
            f"inject: the ctx of an injector in {thread.address} has a leaf of {new.dtype}, and "
            f'there is no {policy} of that. Use shards="stack", or a function.'
        )
    if policy == "psum":
        merged = old + jax.lax.psum(new - old, names)
    elif policy == "pmax":
        number = new.astype(jnp.uint8) if new.dtype == bool else new
        merged = jax.lax.pmax(number, names).astype(new.dtype)
    else:
        merged = _by_function(thread, policy, new, names)
    return _compat.with_weak_type(merged, jax.typeof(old).weak_type), frozenset()


def _by_function(thread: Thread, policy: Any, new: Any, names: tuple[str, ...]) -> Any:
    merged = jnp.asarray(policy(new, names))
    if (merged.shape, merged.dtype) != (new.shape, new.dtype):
        raise InjectorError(
            f"inject: the function shards= made {jax.typeof(merged).str_short()} of a ctx leaf "
            f"{jax.typeof(new).str_short()} in {thread.address}. It must keep shape and dtype."
        )
    if left := _compat.varying(merged):
        raise InjectorError(
            f"inject: what the function shards= returned in {thread.address} still differs along "
            f"{', '.join(sorted(left))}. Reduce over all of axis_names, as jax.lax.psum does."
        )
    return merged


def _differs(eqn: _compat.JaxprEqn, thread: Thread, new: Any, names: tuple[str, ...]) -> str:
    source = _compat.source_of(eqn)
    tags = thread.selected("body")
    shown = ", ".join(tags[:3]) + (f" and {len(tags) - 3} more" if len(tags) > 3 else "")
    unchecked = (
        ""
        if eqn.params["check_vma"]
        else " (check_vma is off, so all that depends on sharded values counts as different)"
    )
    return (
        f"inject: a ctx leaf {new.dtype}{list(new.shape)} of the injector at {shown} differs "
        f"between the devices along {', '.join(names)}{unchecked} when it leaves {thread.address}"
        + (f" ({source})" if source else "")
        + '. Say how these become one: shards="psum" adds up what each device changed, "pmax" '
        'takes the greatest, "stack" keeps all on a new leading axis, and a function '
        "(ctx, axis_names) -> ctx does what you like."
    )


def _axes_of(spec: Any) -> frozenset[str]:
    names: set[str] = set()
    for entry in spec:
        names.update(entry if isinstance(entry, tuple) else () if entry is None else (entry,))
    return frozenset(names)


def _subsets(axes: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [key for n in range(len(axes) + 1) for key in itertools.combinations(axes, n)]


def _nested_pmap(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    facts = {"axis": f"{eqn.params['axis_name']}: {eqn.params['axis_size']}"}
    return (plain("body", "pmap body", ("call_jaxpr",), eqn.params["call_jaxpr"], facts=facts),)


register(_compat.shard_map_p, Hop(nested=_nested_shard_map, inject=_inject_shard_map))
# From 0.9 pmap is a jit around a shard_map.
register(_compat.xla_pmap_p, Hop(nested=_nested_pmap, refusal=_PMAP))
