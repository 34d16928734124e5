"""The context into and out of an equation whose rule for derivatives knows nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from taxpr._hops.protocol import Emits, Thread
from taxpr._jaxprs.derived import derivatives
from taxpr._primitives.guard import ended, guarded, underived


def entering(thread: Thread, leaves: Sequence[Any], message: str) -> list[Any]:
    """What goes in beside the operands: a derivative with respect to it is refused."""
    return ended(leaves) if thread.options.marks_lost else guarded(leaves, message)


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
