"""The context into and out of an equation whose rule for derivatives knows nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from taxpr._hops.protocol import Emits, Thread
from taxpr._jaxprs.derived import derivatives
from taxpr._primitives.guard import ended, guarded, underived


def entering(
    thread: Thread, own: Sequence[Any], ctx: Sequence[Any], message: str
) -> tuple[list[Any], list[Any]]:
    """What goes in beside the operands: what injectors close over, and the context.

    A derivative with respect to it is refused. No result depends on what only serves to look at
    values, which just loses its derivative; what comes of it is refused where it is used, see
    `taxpr._engine.underived`.
    """
    if thread.options.marks_lost:
        return ended(own), ended(ctx)
    guard = [index not in thread.seen for index in thread.used]
    of_ctx = [
        one
        for leaf, changes in zip(ctx, guard, strict=True)
        for one in (guarded([leaf], message) if changes else ended([leaf]))
    ]
    return ended(own) if thread.observes else guarded(own, message), of_ctx


def leaving(
    thread: Thread,
    jaxpr: Any,
    operands: Sequence[Any],
    of_ctx: range,
    results: tuple[Sequence[Any], Sequence[Any], Emits],
) -> tuple[list[Any], list[Any], Emits]:
    """What comes out, in which nothing has a derivative that the rule knows nothing of.

    Args:
        thread: That of the equation.
        jaxpr: What the equation computes, with the context through it and its consts hoisted.
        operands: Those of ``jaxpr``, as they are outside of the equation.
        of_ctx: Where among them the context is.
        results: ``(ctx, outs, emits)`` as the equation gives them.

    Returns:
        ``(ctx, outs, emits)``. Where what is lost is to be marked, each leaf of the context is
        `underived` of the operands of which it has a derivative, and each result of the context;
        the message is the index of the leaf.
    """
    ctx, outs, emits = results
    leaves, tree = jax.tree.flatten(emits)
    emits = jax.tree.unflatten(tree, ended(leaves))
    now = ended(ctx)
    if not thread.options.marks_lost:
        return now, list(outs), emits
    derived = derivatives(jaxpr)
    n_out = len(outs)
    for k, index in enumerate(thread.used):
        now[k] = underived(now[k], [operands[i] for i in derived[n_out + k]], str(index))
    marked = list(outs)
    for j in range(n_out):
        for position, index in zip(of_ctx, thread.used, strict=True):
            if position in derived[j]:
                marked[j] = underived(marked[j], [operands[position]], str(index))
    return now, marked, emits
