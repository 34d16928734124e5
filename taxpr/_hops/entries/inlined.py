"""Entries of calls whose special rule gets lost: injection replaces them by their jaxpr.

``drops`` names the lost rule; it says nothing about a context.
"""

import functools

from taxpr import _compat
from taxpr._compat import Array
from taxpr._hops.entries.calls import nested_call
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Hop, Made, Thread
from taxpr._hops.table import register


def _nested(eqn: _compat.JaxprEqn, *, params: tuple[str, ...]) -> tuple[Nested, ...]:
    [param] = [name for name in params if name in eqn.params]
    return nested_call(eqn, title=eqn.primitive.name.removesuffix("_call"), param=param)


def _inject(eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread) -> Made:
    """Evaluate the jaxpr in place of the equation."""
    return thread("call")(ctx, operands)


# composite stores its jaxpr under "jaxpr" up to 0.11 and under "call_jaxpr" from 0.12.
for _primitive, _params, _drops in (
    (_compat.custom_vmap_call_p, ("call",), "its own rule for jax.vmap"),
    (_compat.linear_call_p, ("callee",), "its own transpose"),
    (_compat.custom_transpose_p, ("call_jaxpr",), "its own transpose"),
    (_compat.composite_p, ("jaxpr", "call_jaxpr"), "its name for a compiler"),
    (_compat.custom_partitioning_p, ("call",), "its own way to be partitioned"),
):
    register(
        _primitive,
        Hop(nested=functools.partial(_nested, params=_params), inject=_inject, drops=_drops),
    )
