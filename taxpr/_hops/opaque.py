"""Primitives whose jaxprs are walked and drawn, and refused by `inject`."""

from __future__ import annotations

from taxpr import _compat
from taxpr._rules import Hop, Nested, found_in_params, plain, register, register_when_loaded

_COMBINER = "its jaxpr combines pairs of elements, and XLA chooses in which order and how often"
_NOT_YET = "taxpr has no rule yet that threads a context through it"
_KERNEL = "its jaxpr is a kernel, whose instances run side by side"


def _nested_linear_solve(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    # Only `solve` runs forward; the others serve derivatives and transposes.
    jaxprs = eqn.params["jaxprs"]
    return tuple(
        plain(
            name,
            f"custom_linear_solve {name}",
            ("jaxprs", index),
            getattr(jaxprs, name),
            first_operand=None,
            conditional=name != "solve",
        )
        for index, name in enumerate(jaxprs._fields)
        if getattr(jaxprs, name) is not None
    )


register(_compat.custom_linear_solve_p, Hop(nested=_nested_linear_solve, refusal=_NOT_YET))
for _primitive in _compat.combiners:
    register(_primitive, Hop(nested=found_in_params, refusal=_COMBINER))
for _module, _name in _compat.kernels:
    register_when_loaded(_module, _name, Hop(nested=found_in_params, refusal=_KERNEL))
for _primitive in _compat.other_hops:
    register(_primitive, Hop(nested=found_in_params, refusal=_NOT_YET))
