"""The entry of `run_state`, which runs a jaxpr on Refs: operands are first values, results last.

It is the primitive behind `jax.experimental.state.run_state`.
"""

import jax

from taxpr import _compat
from taxpr._compat import Array
from taxpr._hops.nested import Nested, plain
from taxpr._hops.protocol import Hop, Made, Thread
from taxpr._hops.table import register
from taxpr._jaxprs.zeros import zeros_of

_OUTER_REF = (
    "it uses a Ref from outside and returns it, and JAX does not trace a function that returns a "
    "Ref of its caller"
)


def _nested(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    # The operand is the first value of a Ref, the result its last. The jaxpr returns nothing.
    stored = eqn.params["jaxpr"]
    outer = any(_compat.is_ref(atom.aval) for atom in eqn.invars)
    refusal = _OUTER_REF if outer else None
    return (plain("body", "run_state body", ("jaxpr",), stored, role="ref", refusal=refusal),)


def _inject(eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread) -> Made:
    """Add a leading Ref for each leaf of the context and of the emissions."""
    inner = thread("body")
    jaxpr, consts = inner.hoisted
    emitted, tree = jax.tree.flatten(inner.emitted())
    started = [*consts, *ctx, *map(zeros_of, emitted)]
    n_consts, n_ctx, n_more = len(consts), len(ctx), len(started)

    def body(*refs: Array) -> list[Array]:
        values = [ref[...] for ref in refs[: n_consts + n_ctx]]
        now, _, emits = inner.unpack(_compat.jaxpr_as_fun(jaxpr)(*values, *refs[n_more:]))
        for ref, value in zip(refs[n_consts:n_more], [*now, *jax.tree.leaves(emits)], strict=True):
            ref[...] = value
        return []

    own = [var.aval for var in _compat.open_jaxpr(eqn.params["jaxpr"]).invars]
    avals = [*(_compat.ref_to(jax.typeof(x)) for x in started), *own]
    params = {
        **eqn.params,
        "jaxpr": _compat.as_stored(_compat.make_jaxpr(body)(*avals), eqn.params["jaxpr"]),
        "which_linear": (False,) * n_more + tuple(eqn.params["which_linear"]),
        "is_initialized": (True,) * n_more + tuple(eqn.params["is_initialized"]),
    }
    out = _compat.bind(eqn.primitive, [*started, *operands], params)
    ctx, leaves = out[n_consts : n_consts + n_ctx], out[n_consts + n_ctx : n_more]
    return ctx, out[n_more:], jax.tree.unflatten(tree, leaves)


register(_compat.run_state_p, Hop(nested=_nested, inject=_inject))
