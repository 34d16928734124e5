"""Entries of shard_map and pmap.

In a shard_map each device runs the body on its own shard. The context enters replicated. A
context leaf that is still equal on all devices leaves as it is. If it differs along mesh axes, the
option ``shards`` of `inject` says how to merge the values of the devices; without it, `inject`
raises an error. Leaves that injectors only read bypass the body's results.
"""

import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, Aval, StoredJaxpr
from taxpr._errors import InjectorError, RefusedError
from taxpr._hops.nested import Nested, plain
from taxpr._hops.protocol import Emits, Hop, Made, Thread
from taxpr._hops.rebuild import tags_in
from taxpr._hops.table import register
from taxpr._hops.varying import varying_axes, waiting

_PMAP = (
    "each device would hold a context of its own; from jax 0.8 pmap is a shard_map, "
    "into which taxpr does inject"
)
_NONE: frozenset[str] = frozenset()
# The dtypes that have no sum, or no maximum.
_LACKING = {"psum": jnp.bool_, "pmax": jnp.complexfloating}


def _nested_shard_map(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    mesh = eqn.params["mesh"]
    axes = ", ".join(f"{name}: {size}" for name, size in mesh.shape.items())
    facts = {
        "mesh": axes,
        "in_specs": tuple(map(_compat.spec_text, eqn.params["in_specs"])),
        "out_specs": tuple(map(_compat.spec_text, eqn.params["out_specs"])),
    }
    return (plain("body", "shard_map body", ("jaxpr",), eqn.params["jaxpr"], facts=facts),)


def _inject_shard_map(
    eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Map the body again. An emission gets a leading axis for each mesh axis it varies over."""
    params = eqn.params
    manual = _compat.manual_axes(eqn)
    axes = tuple(_compat.manual_sizes(eqn))
    placed: list[tuple[str, ...]] = []
    tree = jax.tree.structure({})  # of the emissions, once the body is traced

    def body(
        ctx: list[Array], operands: list[Array]
    ) -> tuple[list[Array], dict[tuple[str, ...], list[Array]]]:
        nonlocal tree
        threaded = thread("body", ctx=ctx)
        new, outs, emits = threaded(ctx, operands)
        sharded = [*map(_axes_of, params["in_specs"])]
        # In a nested shard_map a value may also differ along mesh axes of the outer one.
        differs = [
            tuple(name for name in axes if name in over)
            for over in varying_axes(threaded.jaxpr, [*[_NONE] * len(ctx), *sharded])
        ]
        _check_results(eqn, thread, varying_axes(params["jaxpr"], sharded), differs)
        _check_waiting(thread, params["jaxpr"], threaded.jaxpr, [*[_NONE] * len(ctx), *sharded])
        by_axes: dict[tuple[str, ...], list[Array]] = {key: [] for key in _subsets(axes)}

        def place(value: Array, along: tuple[str, ...]) -> None:
            missing = [name for name in along if name not in _compat.varying(value)]
            value = _compat.pvary(value, missing) if params["check_vma"] else value
            by_axes[along].append(jnp.expand_dims(value, tuple(range(len(along)))))
            placed.append(along)

        n_out, n_ctx = len(outs), len(ctx)
        placed.clear()
        for k, old, value, along in zip(
            thread.used, ctx, new, differs[n_out : n_out + n_ctx], strict=True
        ):
            if k in thread.options.unchanged:
                continue
            if not along or thread.options.shards == "stack":
                place(value, along)
            else:
                _refuse_if_no_sum(thread, thread.options.no_sums.get(k))
                place(_merged(eqn, thread, old, value, along), ())
        rest = iter(differs[n_out + n_ctx :])
        for key, emission in emits.items():
            leaves = jax.tree.leaves(emission)
            every = {name for _ in leaves for name in next(rest)}
            for leaf in leaves:
                place(leaf, tuple(name for name in axes if name in every))
            emits[key] = emission._replace(mesh={**(emission.mesh or {}), **dict.fromkeys(every)})
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
    entering = [_compat.whole_over(value, manual) for value in ctx]
    outs, by_axes = mapped(entering, operands)
    queues = {key: iter(values) for key, values in by_axes.items()}
    rest = iter([next(queues[key]) for key in placed])
    new: list[Array] = []
    for k, value in zip(thread.used, ctx, strict=True):
        now = value if k in thread.options.unchanged else next(rest)
        # A leaf that was not stacked keeps the sharding with which it entered.
        new.append(_compat.resharded(now, value) if now.ndim == value.ndim else now)
    emits: Emits = jax.tree.unflatten(tree, list(rest))
    return new, list(outs), emits


def _check_results(
    eqn: _compat.JaxprEqn,
    thread: Thread,
    before: Sequence[frozenset[str]],
    after: Sequence[tuple[str, ...]],
) -> None:
    """Raise if a result that out_specs declares equal on all devices may now differ."""
    for k, spec in enumerate(eqn.params["out_specs"]):
        if more := [n for n in after[k] if n not in before[k] | _axes_of(spec)]:
            raise InjectorError(
                f"inject: the injector at {tags_in(thread, 'body')} changed result {k} of "
                f"{thread.place}: by out_specs it is the same on all devices along "
                f"{', '.join(more)}, and now it may differ. Make what it is computed from the same "
                "on all devices, as by jax.lax.psum."
            )


def _check_waiting(
    thread: Thread, old: StoredJaxpr, new: StoredJaxpr, given: Sequence[frozenset[str]]
) -> None:
    """Raise if devices may now take different ways through a loop or branch with a collective."""
    before = waiting(old, given[len(given) - len(_compat.open_jaxpr(old).invars) :])
    for key, (eqn, along) in waiting(new, given).items():
        more = along - (before[key][1] if key in before else _NONE)
        if more:
            source = _compat.source_of(eqn)
            raise RefusedError(
                f"inject: with the injector at {tags_in(thread, 'body')} the devices along "
                f"{', '.join(sorted(more))} may no longer go the same way through the "
                f"{eqn.primitive.name}{_compat.source_note(source)} in {thread.place}. A "
                "collective in it waits for all devices: the program would hang. Make what it "
                "depends on the same on all devices, as by jax.lax.psum or jax.lax.pmax in the "
                "injector, or select other tags with where=."
            )


def _merged(
    eqn: _compat.JaxprEqn, thread: Thread, old: Array, new: Array, along: tuple[str, ...]
) -> Array:
    """Merge a context leaf that differs along mesh axes, as the option ``shards`` says."""
    policy = thread.options.shards
    if policy is None:
        raise RefusedError(_differs(thread, new, along))
    if callable(policy):
        merged = _by_function(thread, policy, new, along)
    elif _compat.is_extended(new.dtype) or jnp.issubdtype(new.dtype, _LACKING[policy]):
        raise InjectorError(
            f"inject: the ctx of an injector in {thread.place} has a leaf of {new.dtype}, and "
            f'there is no {policy} of that. Use shards="stack", or a function.'
        )
    elif policy == "psum":
        merged = old + _compat.psum(new - old, along)
    else:
        number = new.astype(jnp.uint8) if new.dtype == bool else new
        merged = _compat.pmax(number, along).astype(new.dtype)
    return _compat.with_weak_type(merged, jax.typeof(old).weak_type)


def _refuse_if_no_sum(thread: Thread, name: str | None) -> None:
    policy = thread.options.shards
    if name is not None and isinstance(policy, str):
        raise InjectorError(
            f"inject: {name} in {thread.place} has a state that is no sum, so shards={policy!r} "
            'would merge the states of the devices into wrong numbers. Give shards="stack" to '
            "report each device by itself, or a function of your own."
        )


def _by_function(
    thread: Thread,
    policy: Callable[[Array, tuple[str, ...]], ArrayLike],
    new: Array,
    along: tuple[str, ...],
) -> Array:
    def merge(leaf: Array) -> Array:
        return jnp.asarray(policy(leaf, along))

    traced = _compat.make_jaxpr(merge)(new)
    merged: Aval = traced.out_avals[0]
    if (merged.shape, merged.dtype) != (new.shape, new.dtype):
        raise InjectorError(
            f"inject: the function shards= made {merged.str_short()} of a ctx leaf "
            f"{jax.typeof(new).str_short()} in {thread.place}. It must keep shape and dtype."
        )
    (over,) = varying_axes(traced, [frozenset(along)])
    if left := [name for name in along if name in over]:
        raise InjectorError(
            f"inject: what the function shards= returned in {thread.place} still differs along "
            f"{', '.join(left)}. Reduce over all of axis_names by jax.lax.psum, pmean, pmax or "
            "pmin, whose results JAX takes to be the same on all devices."
        )
    return _compat.jaxpr_as_fun(traced)(new)[0]


def _differs(thread: Thread, new: Array, along: tuple[str, ...]) -> str:
    return (
        f"inject: a ctx leaf {new.dtype}{list(new.shape)} of the injector at "
        f"{tags_in(thread, 'body')} differs between the devices along {', '.join(along)} when it "
        f"leaves {thread.place}"
        '. Say how these become one: shards="psum" adds up what each device changed, "pmax" '
        'takes the greatest, "stack" keeps all, with a new leading axis for each of these, and '
        "a function (ctx, axis_names) -> ctx does what you like."
    )


def _axes_of(spec: PartitionSpec) -> frozenset[str]:
    """The mesh axes along which each device holds a part of a value: a shard or a summand."""
    names: set[str] = set(getattr(spec, "unreduced", ()))
    for entry in _compat.spec_entries(spec):
        names.update(entry if isinstance(entry, tuple) else () if entry is None else (entry,))
    return frozenset(names)


def _subsets(axes: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [key for n in range(len(axes) + 1) for key in itertools.combinations(axes, n)]


def _nested_pmap(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    facts = {"axis": f"{eqn.params['axis_name']}: {eqn.params['axis_size']}"}
    return (plain("body", "pmap body", ("call_jaxpr",), eqn.params["call_jaxpr"], facts=facts),)


register(_compat.shard_map_p, Hop(nested=_nested_shard_map, inject=_inject_shard_map))
# From 0.8 pmap is a jit around a shard_map.
register(_compat.xla_pmap_p, Hop(nested=_nested_pmap, refusal=_PMAP))
