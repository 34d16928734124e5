"""Copy buffers that an inner jit would otherwise donate together with a value of an injector.

``jax.jit(f, donate_argnums=...)`` inside a program deletes its operand if the program runs eagerly.
If that operand is a token that is also collected, in the context or closed over, the other owner
would lose its buffer.
"""

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr, StoredJaxpr, Var
from taxpr._hops.table import nested_jaxprs


def donates(jaxpr: StoredJaxpr) -> bool:
    """Whether an equation in a jaxpr, or in one of its nested jaxprs, donates an operand."""
    seen: set[int] = set()

    def below(stored: StoredJaxpr) -> bool:
        inner = _compat.open_jaxpr(stored)
        if id(inner) in seen:
            return False
        seen.add(id(inner))
        return any(
            any(eqn.params.get("donated_invars") or ())
            or any(below(nested.stored) for nested in nested_jaxprs(eqn))
            for eqn in inner.eqns
        )

    return below(jaxpr)


def kept_apart(piece: ClosedJaxpr, n_ctx: int, n_token: int) -> ClosedJaxpr:
    """The replacement of a tag, with a copy of each buffer that would have two owners.

    Args:
        piece: A closed jaxpr from ``[*ctx, *token]`` to ``[*ctx, *token, *emitted]``. A state
            access only takes a token, or only returns one.
        n_ctx: The number of leaves of the context.
        n_token: The number of leaves of the token that it returns.

    Returns:
        A jaxpr of the same type. Each returned leaf of the token is the incoming leaf itself, or an
        array with no other owner. No leaf of the context or of the emitted values shares a buffer
        with a value of the program.
    """
    inner = _compat.open_jaxpr(piece)
    tokens = range(n_ctx, n_ctx + n_token)
    of_others: set[Var] = {*inner.invars, *inner.constvars}
    of_program: set[Var] = set(inner.invars[n_ctx:])
    shared: set[int] = set()
    for k, var in enumerate(inner.outvars):
        if k not in tokens or _compat.is_literal(var):
            continue
        if var in of_others and (k >= len(inner.invars) or var is not inner.invars[k]):
            shared.add(k)
        else:
            of_others.add(var)
            of_program.add(var)
    for k, var in enumerate(inner.outvars):
        if k not in tokens and not _compat.is_literal(var) and var in of_program:
            shared.add(k)
    if not shared:
        return piece

    def run(*flat: Array) -> list[Array]:
        outs = _compat.jaxpr_as_fun(piece)(*flat)
        return [_compat.copied(x) if k in shared else x for k, x in enumerate(outs)]

    return _compat.make_jaxpr(run)(*[var.aval for var in inner.invars])
