"""What the rules that are kept lose of the derivatives of a function that uses states.

A value that is written to a state inside of a function with a rule of its own has a derivative
of which the rule says nothing. It is looked for once, when the function is uncurried: in a copy
of the program all that the rules lose is marked, JAX's forward mode carries the marks to the
results, and `taxpr._underived` refuses the derivatives of these at the end of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval as pe

from taxpr import _compat
from taxpr._guard import refused_p, underived_p
from taxpr._walk import find_sites


def derivatives(jaxpr: Any) -> list[frozenset[int]]:
    """For each result of a closed jaxpr without consts, the inputs of which it has a derivative.

    Where JAX cannot differentiate it, the inputs on which the result depends.
    """
    every = _inexact(jaxpr.in_avals)
    outs = range(len(jaxpr.out_avals))
    try:
        tangents = _tangents(jaxpr, every)
    except Exception:  # whatever a primitive or a rule raises
        return [_used(jaxpr, j).intersection(every) for j in outs]
    n_in = len(jaxpr.in_avals)
    of_tangent = {n_in + k: i for k, i in enumerate(every)}
    return [frozenset(of_tangent[i] for i in _used(tangents, j) if i >= n_in) for j in outs]


def lost(marked: Any) -> dict[tuple[int, int], set[int]]:
    """By result and input of a program the leaves of the context by which a derivative is lost.

    Args:
        marked: A closed jaxpr without consts, threaded with ``marks_lost``.
    """
    every = _inexact(marked.in_avals)
    if not every or _lost_by(marked, every) == {}:
        return {}
    # Inputs of which the same results have a derivative are looked at together.
    derived = derivatives(marked)
    alike: dict[Any, list[int]] = {}
    for i in every:
        alike.setdefault(tuple(i in inputs for inputs in derived), []).append(i)
    found: dict[tuple[int, int], set[int]] = {}
    for group in alike.values():
        of_group = _lost_by(marked, group)
        for one in [group] if of_group is not None else [[i] for i in group]:
            of_one = of_group if of_group is not None else _lost_by(marked, one)
            if of_one is None:
                of_one = {j: _marks(marked, underived_p) for j in _dependent(marked, one[0])}
            found |= {(j, i): leaves for j, leaves in of_one.items() for i in one}
    return found


def _lost_by(marked: Any, group: Sequence[int]) -> dict[int, set[int]] | None:
    """By result the leaves by which a derivative with respect to one of a group is lost.

    None where JAX cannot differentiate the program with respect to all of the group.
    """
    try:
        tangents = _tangents(marked, group)
    except Exception:  # whatever a primitive or a rule raises
        return None
    if not _marks(tangents, refused_p):
        return {}
    each = {j: _marks(_needed(tangents, j)[0], refused_p) for j in range(len(marked.out_avals))}
    return {j: leaves for j, leaves in each.items() if leaves}


def _dependent(jaxpr: Any, i: int) -> list[int]:
    return [j for j in range(len(jaxpr.out_avals)) if i in _used(jaxpr, j)]


def _marks(jaxpr: Any, primitive: Any) -> set[int]:
    sites = find_sites(jaxpr, rules=False, of=lambda eqn: eqn.primitive is primitive)
    return {int(site.eqn.params["message"]) for site in sites}


def _tangents(jaxpr: Any, group: Sequence[int]) -> Any:
    """From ``[*inputs, *tangents of the group]`` to the tangents of all results."""
    run = _compat.jaxpr_as_fun(jaxpr)
    n_in = len(jaxpr.in_avals)

    def tangents(*flat: Any) -> Any:
        def of_group(*given: Any) -> Any:
            now = dict(zip(group, given, strict=True))
            return run(*(now.get(i, x) for i, x in enumerate(flat[:n_in])))

        return jax.jvp(of_group, [flat[i] for i in group], list(flat[n_in:]))[1]

    avals = jaxpr.in_avals
    return jax.make_jaxpr(tangents)(*avals, *(avals[i] for i in group))


def _needed(jaxpr: Any, result: int) -> tuple[Any, list[bool]]:
    opened = _compat.open_jaxpr(jaxpr)
    return pe.dce_jaxpr(opened, [k == result for k in range(len(opened.outvars))], False)


def _used(jaxpr: Any, result: int) -> frozenset[int]:
    return frozenset(i for i, used in enumerate(_needed(jaxpr, result)[1]) if used)


def _inexact(avals: Sequence[Any]) -> list[int]:
    return [i for i, aval in enumerate(avals) if jnp.issubdtype(aval.dtype, jnp.inexact)]
