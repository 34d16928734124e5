"""Entries of scan and while. `jax.lax.fori_loop` and `jax.lax.map` become one of these."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Emits, Hop, Made, Thread
from taxpr._hops.rebuild import before_loop, later, select, slotted
from taxpr._hops.table import register

# ---- scan --------------------------------------------------------------------


def _nested_scan(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    n_consts, n_carry = _compat.scan_counts(eqn)
    stored = eqn.params["jaxpr"]
    inner = _compat.open_jaxpr(stored)
    n_in, n_out = len(inner.invars), len(inner.outvars)
    length = eqn.params["length"]
    facts: dict[str, Any] = {"length": length}
    if eqn.params["reverse"]:
        facts["reverse"] = True
    if eqn.params["unroll"] != 1:
        facts["unroll"] = eqn.params["unroll"]
    return (
        Nested(
            label="body",
            title="scan body",
            param=("jaxpr",),
            stored=stored,
            operands=tuple(range(n_in)),
            in_roles=("const",) * n_consts
            + ("carry",) * n_carry
            + ("x",) * (n_in - n_consts - n_carry),
            results=tuple(range(n_out)),
            out_roles=("carry",) * n_carry + ("y",) * (n_out - n_carry),
            back=tuple((k, n_consts + k) for k in range(n_carry)),
            trips=length,
            reverse=eqn.params["reverse"],
            facts=facts,
        ),
    )


def _inject_scan(
    eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Scan with the context at the front of the carry.

    Context leaves that injectors only read stay outside the carry: reverse-mode differentiation
    would store a copy of each carried leaf for every iteration.
    """
    n_consts, n_carry = _compat.scan_counts(eqn)
    consts = operands[:n_consts]
    carry = operands[n_consts : n_consts + n_carry]
    xs = operands[n_consts + n_carry :]
    n_xs = len(xs)
    body = thread("body")
    changing, merged = _changing(ctx, thread)

    def step(
        loop: tuple[list[Array], list[Array]], x: list[Array]
    ) -> tuple[tuple[list[Array], list[Array]], tuple[list[Array], Emits]]:
        now, carry = loop
        new, outs, emits = body(merged(now), [*consts, *carry, *x[:n_xs]])
        return (changing(new), outs[:n_carry]), (outs[n_carry:], emits)

    options = _compat.scan_options(eqn)
    if not isinstance(eqn.params["length"], int):
        # `jax.lax.scan` accepts a symbolic length only from its xs. This array has no elements.
        del options["length"]
        xs = xs or [jnp.zeros((eqn.params["length"], 0), bool)]
    (now, carry), (ys, emits) = jax.lax.scan(step, (changing(ctx), carry), xs, **options)
    return merged(now), [*carry, *ys], emits


_Leaves = Callable[[Sequence[Array]], list[Array]]


def _changing(ctx: list[Array], thread: Thread) -> tuple[_Leaves, _Leaves]:
    """Two functions: one selects the context leaves that may change, one puts the rest back."""
    fixed = [k in thread.options.read_only for k in thread.used]

    def changing(ctx: Sequence[Array]) -> list[Array]:
        return [x for x, same in zip(ctx, fixed, strict=True) if not same]

    def merged(now: Sequence[Array]) -> list[Array]:
        rest = iter(now)
        return [x if same else next(rest) for x, same in zip(ctx, fixed, strict=True)]

    return changing, merged


# ---- while -------------------------------------------------------------------


def _nested_while(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    n_carry = len(eqn.invars) - n_cond - n_body
    carry = tuple(range(n_cond + n_body, len(eqn.invars)))
    return (
        Nested(
            label="cond",
            title="while condition",
            param=("cond_jaxpr",),
            stored=eqn.params["cond_jaxpr"],
            operands=(*range(n_cond), *carry),
            in_roles=("const",) * n_cond + ("carry",) * n_carry,
            results=(None,),
            out_roles=("predicate",),
            trips=None,
        ),
        Nested(
            label="body",
            title="while body",
            param=("body_jaxpr",),
            stored=eqn.params["body_jaxpr"],
            operands=(*range(n_cond, n_cond + n_body), *carry),
            in_roles=("const",) * n_body + ("carry",) * n_carry,
            results=tuple(range(n_carry)),
            out_roles=("carry",) * n_carry,
            back=tuple((k, n_body + k) for k in range(n_carry)),
            trips=None,
            conditional=True,
        ),
    )


# The predicate, if it is carried, the changing context, the carry, emissions, and the number of the
# iteration, if an emission has slots for iterations.
_Loop = tuple[Array | None, list[Array], list[Array], Emits, Array | None]


def _inject_while(
    eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Run the condition before the loop and at the end of each iteration, and carry the predicate.

    So the tags of the condition fire n + 1 times, as in the original loop, and can change the
    context. A predicate that `jax.vmap` has batched keeps the loop running while any batch element
    continues. Elements that have ended keep their carry. An injector sees the whole batch at once.
    """
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond_consts = operands[:n_cond]
    body_consts = operands[n_cond : n_cond + n_body]
    carry = operands[n_cond + n_body :]
    condition, body = thread("cond"), thread("body")
    changing, merged = _changing(ctx, thread)

    def check(ctx: list[Array], carry: list[Array]) -> tuple[Array, list[Array], Emits]:
        ctx, (pred,), emits = condition(merged(ctx), [*cond_consts, *carry])
        return pred, changing(ctx), emits

    def step(loop: _Loop) -> _Loop:
        pred, ctx, carry, seen, index = loop
        ctx, new, now = body(merged(ctx), [*body_consts, *carry])
        ctx = changing(ctx)
        if pred is not None and pred.ndim:
            new = select(pred, new, carry)
        for key, emission in now.items():
            seen = {**seen, key: later(seen[key], emission, index)}
        index = None if index is None else index + 1
        if pred is not None:
            pred, ctx, now = check(ctx, new)
            for key, emission in now.items():
                seen = {**seen, key: later(seen[key], emission, index)}
        return pred, ctx, new, seen, index

    def goes_on(loop: _Loop) -> Array:
        pred, ctx, carry, *_ = loop
        if pred is None:
            pred, _, _ = check(ctx, carry)
        return jnp.any(pred) if pred.ndim else pred

    emitted = {**body.emitted(), **condition.emitted()}
    seen = {key: before_loop(aval) for key, aval in emitted.items()}
    index = jnp.int32(0) if any(map(slotted, emitted.values())) else None
    batched = bool(condition.jaxpr.out_avals[0].ndim)
    now = changing(ctx)
    if batched or condition.touched:
        pred, now, first = check(now, carry)
        seen |= {key: later(seen[key], emission, index) for key, emission in first.items()}
    else:
        # Keep the original condition, from which XLA can derive the trip count.
        pred = None
    _, now, carry, emits, _ = _bound_while(eqn, goes_on, step, (pred, now, carry, seen, index))
    return merged(now), carry, emits


def _bound_while(
    eqn: _compat.JaxprEqn,
    goes_on: Callable[[_Loop], Array],
    step: Callable[[_Loop], _Loop],
    init: _Loop,
) -> _Loop:
    """Like `jax.lax.while_loop`, which would drop unused tags from the condition."""
    flat, tree = jax.tree.flatten(init)

    def over_leaves(fun: Callable[[_Loop], object]) -> tuple[ClosedJaxpr, list[Array]]:
        def run(*flat: Array) -> list[Array]:
            return jax.tree.leaves(fun(jax.tree.unflatten(tree, flat)))

        return _compat.hoisted(_compat.make_jaxpr(run)(*flat))

    condition, cond_consts = over_leaves(goes_on)
    body, body_consts = over_leaves(step)
    params = {
        "cond_jaxpr": _compat.as_stored(condition, eqn.params["cond_jaxpr"]),
        "cond_nconsts": len(cond_consts),
        "body_jaxpr": _compat.as_stored(body, eqn.params["body_jaxpr"]),
        "body_nconsts": len(body_consts),
    }
    out = _compat.bind(eqn.primitive, [*cond_consts, *body_consts, *flat], eqn.params | params)
    return jax.tree.unflatten(tree, out)


register(_compat.scan_p, Hop(nested=_nested_scan, inject=_inject_scan, loops=True))
register(_compat.while_p, Hop(nested=_nested_while, inject=_inject_while, loops=True))
