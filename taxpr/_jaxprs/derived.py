"""Find out which results of a jaxpr depend on, or have a derivative for, which inputs."""

from collections.abc import Sequence

import jax.numpy as jnp
from jax.interpreters import partial_eval as pe

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr, Jaxpr, StoredJaxpr, Typed


def derivatives(jaxpr: ClosedJaxpr) -> list[frozenset[int]]:
    """For each result of a jaxpr, the inputs that it has a derivative with respect to.

    If JAX cannot differentiate the jaxpr: all inputs of inexact dtype that the result depends on.
    ``jaxpr`` is closed and has no consts.
    """
    every = inexact(jaxpr.in_avals)
    outs = range(len(jaxpr.out_avals))
    try:
        tangents = tangents_of(jaxpr, every)
    except Exception:  # whatever a primitive or a rule raises
        return [used_by(jaxpr, j).intersection(every) for j in outs]
    n_in = len(jaxpr.in_avals)
    of_tangent = {n_in + k: i for k, i in enumerate(every)}
    return [frozenset(of_tangent[i] for i in used_by(tangents, j) if i >= n_in) for j in outs]


def tangents_of(jaxpr: ClosedJaxpr, group: Sequence[int]) -> ClosedJaxpr:
    """The jvp with respect to the inputs in ``group``, as a jaxpr.

    It goes from ``[*inputs, *tangents of the group]`` to the tangents of all results.
    """
    run = _compat.jaxpr_as_fun(jaxpr)
    n_in = len(jaxpr.in_avals)

    def tangents(*flat: Array) -> list[Array]:
        def of_group(*given: Array) -> list[Array]:
            now = dict(zip(group, given, strict=True))
            return run(*(now.get(i, x) for i, x in enumerate(flat[:n_in])))

        return _compat.jvp(of_group, [flat[i] for i in group], list(flat[n_in:]))[1]

    avals = jaxpr.in_avals
    return _compat.make_jaxpr(tangents)(*avals, *(avals[i] for i in group))


def needed(jaxpr: StoredJaxpr, result: int) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that computes one result, and for each input whether it is used."""
    opened = _compat.open_jaxpr(jaxpr)
    return pe.dce_jaxpr(opened, [k == result for k in range(len(opened.outvars))], False)


def used_by(jaxpr: StoredJaxpr, result: int) -> frozenset[int]:
    """The inputs that a result depends on."""
    return frozenset(i for i, used in enumerate(needed(jaxpr, result)[1]) if used)


def inexact(avals: Sequence[Typed]) -> list[int]:
    """The indices of avals that can have a derivative: their dtype is inexact."""
    return [
        i
        for i, aval in enumerate(avals)
        if isinstance(aval, _compat.ShapedArray) and jnp.issubdtype(aval.dtype, jnp.inexact)
    ]
