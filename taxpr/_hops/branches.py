"""cond and switch, which are one primitive."""

from __future__ import annotations

from typing import Any

import jax

from taxpr import _compat
from taxpr._hops._rebuild import counted, never
from taxpr._rules import Emits, Hop, Nested, Thread, Threaded, plain
from taxpr._table import register


def _nested(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    branches = eqn.params["branches"]
    platforms = eqn.params.get("branches_platforms")

    def title(index: int) -> str:
        if platforms is not None:
            return f"on {' or '.join(platforms[index] or ('any other platform',))}"
        if len(branches) == 2:
            return f"branch {index} ({'true' if index else 'false'})"
        return f"branch {index}"

    return tuple(
        plain(
            f"branch{index}",
            title(index),
            ("branches", index),
            stored,
            first_operand=1,
            conditional=True,
            facts={"index": index},
        )
        for index, stored in enumerate(branches)
    )


def _inject(
    eqn: _compat.JaxprEqn,
    ctx: list[Any],
    operands: list[Any],
    thread: Thread,
) -> tuple[list[Any], list[Any], Emits]:
    index, *rest = operands
    stored = eqn.params["branches"]
    branches = [thread(f"branch{i}") for i in range(len(stored))]
    emitted = {key: aval for branch in branches for key, aval in branch.emitted().items()}
    if emitted:
        # Every branch must hand out the same things: what it does not reach did not fire.
        avals = [jax.typeof(x) for x in (*ctx, *rest)]
        jaxprs = [_handing_out(branch, emitted, len(ctx), avals) for branch in branches]
    else:
        jaxprs = [branch.jaxpr for branch in branches]
    closed, consts = _with_common_consts(jaxprs)
    params = {
        **eqn.params,
        "branches": tuple(
            _compat.as_stored(new, old) for new, old in zip(closed, stored, strict=True)
        ),
    }
    out = _compat.bind(eqn.primitive, [index, *consts, *ctx, *rest], params)
    n_out, n_ctx = len(eqn.outvars), len(ctx)
    tree = jax.tree.structure({key: counted(value) for key, value in emitted.items()})
    emits = jax.tree.unflatten(tree, out[n_out + n_ctx :])
    return out[n_out : n_out + n_ctx], out[:n_out], emits


def _handing_out(branch: Threaded, emitted: Emits, n_ctx: int, avals: list[Any]) -> Any:
    def run(*args: Any) -> list[Any]:
        ctx, outs, emits = branch(args[:n_ctx], args[n_ctx:])
        every = {
            key: counted(emits[key]) if key in emits else never(aval)
            for key, aval in emitted.items()
        }
        return [*outs, *ctx, *jax.tree.leaves(every)]

    return jax.make_jaxpr(run)(*avals)


def _with_common_consts(jaxprs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Closed jaxprs that all take the consts of all of them as leading arguments."""
    all_consts = [list(_compat.consts_of(jaxpr)) for jaxpr in jaxprs]
    new = []
    for index, jaxpr in enumerate(jaxprs):
        inner, own = _compat.hoisted(jaxpr)
        opened = _compat.open_jaxpr(inner)
        before = [c for consts in all_consts[:index] for c in consts]
        after = [c for consts in all_consts[index + 1 :] for c in consts]
        invars = [
            *(_compat.fresh_var(jax.typeof(c)) for c in before),
            *opened.invars[: len(own)],
            *(_compat.fresh_var(jax.typeof(c)) for c in after),
            *opened.invars[len(own) :],
        ]
        new.append(_compat.rebuilt(inner, eqns=opened.eqns, invars=invars))
    return new, [c for consts in all_consts for c in consts]


register(_compat.cond_p, Hop(nested=_nested, inject=_inject))
