"""Entries of the linear solves of lineax, which optimistix and diffrax use.

A `linear_solve` equation hides its solver in a Python object. Its params also hold jaxprs of
functions that the solver calls, as in a `FunctionLinearOperator`; these run only as part of the
solve. `jax.vmap` turns the equation into another primitive's, with the first one as a param. The
entries are registered once lineax is imported.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence

from taxpr import _compat
from taxpr._compat import Array
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Hop
from taxpr._hops.table import found_in_params, register_when_loaded
from taxpr._hops.traced import Run, traced

_PART = (
    "it is a part of the function that {name} calls and does not run by itself; what runs is in "
    "solve, too: tag it there"
)
_STOPPED = "lineax stops the derivative of the solver's state, so that the solve itself has none"
_UNKNOWN = "it maps a primitive of equinox, and taxpr has no rule for it"


def _entries() -> Mapping[_compat.Kind, Hop] | None:
    # These are private names, so another version of the library may lack them.
    primitives = sys.modules.get("equinox.internal._primitive")
    solve = getattr(sys.modules.get("lineax._solve"), "linear_solve_p", None)
    mapped = getattr(primitives, "_vprim_p", None)
    if solve is None or mapped is None:
        return None
    rules = getattr(primitives, "_vprim_impl_registry", {})
    if solve not in rules or mapped not in rules:
        return {}  # a version with other internals
    # Each equation has its own `flatten` object, to which tracing writes the output tree.
    entry = functools.partial(
        traced, label="solve", others=_parts, undroppable=_STOPPED, ignored=("flatten",)
    )
    of_mapped = entry(_running(rules[mapped]))
    return {
        solve: entry(_running(rules[solve])),
        mapped: dataclasses.replace(
            of_mapped, nested=functools.partial(_nested_mapped, solve, of_mapped.nested)
        ),
    }


def _running(rule: Callable[..., Sequence[Array]]) -> Run:
    return lambda eqn: functools.partial(rule, **eqn.params)


def _parts(eqn: _compat.JaxprEqn) -> list[Nested]:
    reason = _PART.format(name=eqn.primitive.name)
    return [
        dataclasses.replace(one, idle=True, refusal=reason)
        for one in found_in_params(eqn)
        if one.param is not None and one.param[0] != "held_jaxpr"
    ]


def _nested_mapped(
    solve: _compat.Primitive,
    nested: Callable[[_compat.JaxprEqn], Sequence[Nested]],
    eqn: _compat.JaxprEqn,
) -> Sequence[Nested]:
    """The jaxprs of a primitive under equinox's vmap; inject refuses any but a solve."""
    params = dict(eqn.params)
    while "prim" in params:
        if params["prim"] is solve:
            return nested(eqn)
        params = dict(params["params"])
    return [dataclasses.replace(one, refusal=_UNKNOWN) for one in found_in_params(eqn)]


register_when_loaded(_entries)
