"""Reduce a jaxpr to the equations that some of its results need."""

from collections.abc import Sequence

from jax.interpreters import partial_eval as pe

from taxpr import _compat


def pruned(jaxpr: _compat.ClosedJaxpr, results: Sequence[int]) -> _compat.ClosedJaxpr:
    """The jaxpr with only these results, all inputs, and no equation after the last result.

    The cut removes later equations even if they have effects. From the others JAX's dead code
    elimination removes those that no result needs, also in nested jaxprs that it has a rule for.
    It keeps equations with effects.
    """
    inner = _compat.open_jaxpr(jaxpr)
    outvars = [inner.outvars[k] for k in results]
    wanted = {atom for atom in outvars if not _compat.is_literal(atom)}
    ends = [k for k, eqn in enumerate(inner.eqns) if wanted & set(eqn.outvars)]
    eqns = inner.eqns[: max(ends, default=-1) + 1]
    cut = _compat.rebuilt(jaxpr, eqns=eqns, outvars=outvars)
    return without_dead_code(cut, range(len(outvars)))


def without_dead_code(jaxpr: _compat.ClosedJaxpr, results: Sequence[int]) -> _compat.ClosedJaxpr:
    """Like `pruned`, but keeps all equations with effects, also after the last result."""
    inner = _compat.open_jaxpr(jaxpr)
    outvars = [inner.outvars[k] for k in results]
    hoisted, consts = _compat.hoisted(_compat.rebuilt(jaxpr, eqns=inner.eqns, outvars=outvars))
    n = len(consts)
    opened = _compat.open_jaxpr(hoisted)
    needed, used = pe.dce_jaxpr(
        opened, [True] * len(outvars), [False] * n + [True] * len(inner.invars)
    )
    kept = [value for value, one in zip(consts, used[:n], strict=True) if one]
    return _compat.rebuilt(
        jaxpr,
        eqns=needed.eqns,
        constvars=needed.invars[: len(kept)],
        invars=needed.invars[len(kept) :],
        outvars=needed.outvars,
        consts=kept,
    )
