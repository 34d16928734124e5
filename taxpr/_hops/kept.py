"""The context at an equation that keeps a derivative rule, which has no tangent for the context.

Used by the entries of custom_jvp, custom_vjp, the solvers, and `traced`.
"""

from collections.abc import Callable, Mapping, Sequence

import jax

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr
from taxpr._hops.protocol import Emits, Made, Thread
from taxpr._jaxprs.derived import derivatives
from taxpr._primitives.guard import ended, guarded, underived


def jvp_in(
    function: Callable[..., list[Array]], primals: Sequence[Array], moving: Mapping[int, Array]
) -> tuple[list[Array], list[Array]]:
    """`jax.jvp` of a function with the tangents ``moving``, by position; others are zero."""

    def of_moving(*moved: Array) -> list[Array]:
        now = dict(zip(moving, moved, strict=True))
        return function(*(now.get(k, x) for k, x in enumerate(primals)))

    return _compat.jvp(of_moving, [primals[k] for k in moving], [*moving.values()])


def entering(
    thread: Thread, own: Sequence[Array], ctx: Sequence[Array], message: str
) -> tuple[list[Array], list[Array]]:
    """The consts of injectors and the context, as extra operands of the equation.

    Differentiating with respect to them raises ``message``. Leaves that only observe values are an
    exception: no result depends on them, so they just lose their derivative. Using the derivative
    of such a leaf later is refused by `taxpr._engine.underived`.
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
    jaxpr: ClosedJaxpr,
    operands: Sequence[Array],
    of_ctx: range,
    results: tuple[Sequence[Array], Sequence[Array], Emits],
) -> Made:
    """The results of the equation, with derivatives of the context and the emissions ended.

    Args:
        thread: The thread of the equation.
        jaxpr: The computation of the equation, with the context threaded and consts hoisted.
        operands: The operands of ``jaxpr``, as they are outside of the equation.
        of_ctx: The positions of the context among ``operands``.
        results: ``(ctx, outs, emits)`` from the equation.

    Returns:
        ``(ctx, outs, emits)``. With the option ``marks_lost``, `underived` marks each lost
        dependence: each context leaf on the operands, and each result on the context. The message
        of a mark is the index of the leaf.
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
