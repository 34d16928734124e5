"""Entries of `jax.lax.custom_linear_solve` and `jax.lax.custom_root`.

Both get their derivative by implicit differentiation of the equation that the solution fulfils,
not by differentiating the solve. Injection changes the solve and keeps this derivative, now taken
at the injected solution. Tags in the solve mark the primal and do not fire during differentiation.
The context and collected values are auxiliary outputs: they have zero tangent, and differentiating
with respect to context that goes in is refused.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from taxpr import _compat
from taxpr._compat import Array, Aval, Dot, PyTree, StoredJaxpr
from taxpr._hops.kept import entering, jvp_in, leaving
from taxpr._hops.nested import Nested, plain
from taxpr._hops.protocol import Hop, Made, Thread, Threaded
from taxpr._hops.rebuild import refuse_refs, tags_in, untagged
from taxpr._hops.table import register

_NO_DERIVATIVE = (
    "inject: at {tags}: {place} has a derivative of its own, which does not cover a context. So "
    "nothing can be differentiated with respect to a context that goes through a tag in its solve, "
    'or to a value that an injector there closes over. Give custom_rules="drop" to differentiate '
    "the injected solve itself, select other tags with where=, or use jax.lax.stop_gradient on the "
    "context before the program, or in the injector at an earlier tag that changes it."
)
_NOT_RUN = (
    "{name} is there for derivatives and transposes, and a tag marks the primal only, so that it "
    "never fires there"
)


_NO_DERIVATIVE_OF_STATES = (
    "uncurry: a derivative is taken with respect to a state: {tags}, in {place}. It has a "
    "derivative of its own, which does not cover states. Read the state before, and close over the "
    "value, or end the derivative with jax.lax.stop_gradient."
)


def _refusing(inner: Threaded, thread: Thread, ctx: Sequence[Array]) -> list[Array]:
    text = _NO_DERIVATIVE_OF_STATES if thread.options.states else _NO_DERIVATIVE
    text = text.format(tags=tags_in(thread, "solve"), place=thread.place)
    own, ctx = entering(thread, inner.hoisted[1], ctx, text)
    return [*own, *ctx]


# ---- custom_linear_solve -----------------------------------------------------


def _nested_linear_solve(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    # Only `solve` runs forward. The other jaxprs serve derivatives and transposes.
    jaxprs = eqn.params["jaxprs"]
    return tuple(
        plain(
            name,
            f"custom_linear_solve {name}",
            ("jaxprs", index),
            getattr(jaxprs, name),
            first_operand=None,
            conditional=name != "solve",
            idle=name != "solve",
            refusal=None if name == "solve" else _NOT_RUN.format(name=name),
        )
        for index, name in enumerate(jaxprs._fields)
        if getattr(jaxprs, name) is not None
    )


def _inject_linear_solve(
    eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Thread the context through ``solve`` and keep the derivative of the original equation.

    The jaxprs ``matvec``, ``vecmat`` and ``transpose_solve`` stay as they are: they run only when
    the solution is differentiated, and ``solve`` has its own copy of a matvec that it calls.
    JAX's rule would apply the injected solve to tangents, but an injected solve is not linear.
    So the rule is written out here, with the original solve without its tags.
    """
    inner = thread("solve")
    lengths = eqn.params["const_lengths"]
    n_consts = sum(lengths)
    at_solve = lengths.matvec + lengths.vecmat
    if thread.options.custom_rules == "drop":
        return inner(ctx, [*operands[at_solve : at_solve + lengths.solve], *operands[n_consts:]])
    refuse_refs("custom_linear_solve", thread, inner.hoisted[1])
    jaxpr, own = inner.hoisted
    n_solution = len(operands) - n_consts
    params = untagged(eqn).params
    matvec = _compat.jaxpr_as_fun(_compat.closed(params["jaxprs"].matvec))

    @jax.custom_jvp
    def solved(hidden: list[Array], consts: list[Array], b: list[Array]) -> list[Array]:
        used = consts[at_solve : at_solve + lengths.solve]
        return list(_compat.jaxpr_as_fun(jaxpr)(*hidden, *used, *b))

    def rule(
        primals: tuple[list[Array], list[Array], list[Array]],
        tangents: tuple[list[Dot], list[Dot], list[Dot]],
    ) -> tuple[list[Array], list[Any]]:  # JAX does not declare that there may be symbolic zeros
        _, consts, _ = primals
        _, consts_dot, b_dot = tangents
        flat = solved(*primals)
        x = flat[:n_solution]
        # Differentiate A x = b: A dx = db - dA x.
        rhs = [
            jnp.zeros_like(v) if isinstance(dot, SymbolicZero) else dot
            for v, dot in zip(x, b_dot, strict=True)
        ]
        of_matvec = enumerate(consts_dot[: lengths.matvec])
        moving = {k: dot for k, dot in of_matvec if not isinstance(dot, SymbolicZero)}
        if moving:
            _, change = jvp_in(matvec, [*consts[: lengths.matvec], *x], moving)
            rhs = [db - dax for db, dax in zip(rhs, change, strict=True)]
        x_dot = _compat.bind(eqn.primitive, [*consts, *rhs], params)[:n_solution]
        return flat, [*x_dot, *map(_compat.symbolic_zero, flat[n_solution:])]

    solved.defjvp(rule, symbolic_zeros=True)
    hidden = _refusing(inner, thread, ctx)
    flat = solved(hidden, operands[:n_consts], operands[n_consts:])
    used = operands[at_solve : at_solve + lengths.solve]
    given = [*own, *ctx, *used, *operands[n_consts:]]
    of_ctx = range(len(own), len(own) + len(ctx))
    return leaving(thread, jaxpr, given, of_ctx, inner.unpack(flat))


# ---- custom_root -------------------------------------------------------------
# Up to 0.11 custom_root traces to a custom_jvp.


def _nested_root(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    # JAX traces the function and its tangent solve only when it differentiates.
    jaxpr = eqn.params["_prim"].solve_jaxpr
    return (plain("solve", "custom_root solve", None, jaxpr, rebuilt=_with_solve),)


def _with_solve(eqn: _compat.JaxprEqn, jaxpr: StoredJaxpr) -> _compat.JaxprEqn:
    old = eqn.params["_prim"]

    def solve(consts: PyTree, guess: PyTree) -> PyTree:
        flat = _compat.jaxpr_as_fun(_compat.closed(jaxpr))(*jax.tree.leaves((consts, guess)))
        return jax.tree.unflatten(old.out_tree, flat)

    new = _with_another(old, solve, old.in_avals, old.has_aux)
    return eqn.replace(params={**eqn.params, "_prim": new}, effects=new.effects)


def _with_another(old: Any, solve: Callable[..., Any], avals: Sequence[Aval], has_aux: bool) -> Any:
    traced = _compat.traced(solve, *avals[:2])
    return type(old)(old.f, solve, old.tangent_solve, traced, avals, has_aux=has_aux)


def _inject_root(
    eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Rebuild the object with an injected solve, whose aux output has the context."""
    inner = thread("solve")
    if thread.options.custom_rules == "drop":
        return inner(ctx, operands[: len(eqn.params["_prim"].solve_jaxpr.invars)])
    refuse_refs("custom_root", thread, inner.hoisted[1])
    jaxpr, own = inner.hoisted
    old = eqn.params["_prim"]
    solve_consts, *others = jax.tree.unflatten(old.in_tree, operands)

    def solve(consts: PyTree, guess: PyTree) -> tuple[PyTree, PyTree]:
        hidden, used = consts
        flat = _compat.jaxpr_as_fun(jaxpr)(*hidden, *jax.tree.leaves((used, guess)))
        ctx, outs, emits = inner.unpack(flat)
        found = jax.tree.unflatten(old.out_tree, outs)
        root, aux = found if old.has_aux else (found, ())
        return root, (aux, ctx, emits)

    hidden = _refusing(inner, thread, ctx)
    args = ((hidden, solve_consts), *others)
    new = _with_another(old, solve, jax.tree.map(jax.typeof, args), has_aux=True)
    given = [*own, *ctx, *jax.tree.leaves((solve_consts, *others))]
    of_ctx = range(len(own), len(own) + len(ctx))
    root, (aux, ctx, emits) = new(*args)
    found = (root, aux) if old.has_aux else root
    # The operands of the solve come first.
    given = given[: len(jaxpr.in_avals)]
    return leaving(thread, jaxpr, given, of_ctx, (ctx, jax.tree.leaves(found), emits))


register(
    _compat.custom_linear_solve_p,
    Hop(nested=_nested_linear_solve, inject=_inject_linear_solve, own_derivative=True),
)
register(_compat.CustomRoot, Hop(nested=_nested_root, inject=_inject_root, own_derivative=True))
