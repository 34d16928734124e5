"""Entries of primitives that are walked and drawn, but into which `inject` refuses to go.

A combiner that JAX wrote itself, such as the ``add`` of a scatter-add, is not part of the user's
program: it is neither walked nor drawn.
"""

import functools

from taxpr import _compat
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Hop
from taxpr._hops.table import found_in_params, register, register_when_loaded
from taxpr._primitives.tag_equation import is_tag

_COMBINER = "its jaxpr combines pairs of elements, and XLA chooses their order and number"
_HIJAX = (
    "it is made by the flag {flag}, and its derivative is a function that JAX does not trace "
    "before it differentiates; without the flag it is an ordinary {name}"
)

_REFUSALS = {
    _compat.scatter_p: _COMBINER,  # that of `jax.numpy.ndarray.at[...].apply`
    _compat.call_hi_primitive_linearized_p: (
        "it is a derivative that JAX has yet to transpose, and a tag marks the primal only"
    ),
    _compat.CustomJVPTraced: _HIJAX.format(flag="jax_custom_jvp3", name="custom_jvp"),
    _compat.CustomVJPTraced: _HIJAX.format(flag="jax_custom_vjp3", name="custom_vjp"),
    _compat.Scan3: (
        "the flag jax_scan3 makes a loop that this JAX has not finished: it goes forward where "
        "reverse=True was asked for; without the flag it is an ordinary scan"
    ),
}
_OF_PALLAS = {
    _compat.pallas_call: "its jaxpr is a kernel, whose instances run side by side",
    _compat.core_map: "each core of the device runs its jaxpr, side by side with the others",
    _compat.mpmd_map: "its jaxprs are kernels, which run side by side",
    _compat.run_scoped: "it is a part of a kernel, and its memory exists only in there",
}


def _given_combiners(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    return tuple(one for one in found_in_params(eqn) if not _is_jax_s_own(one))


def _is_jax_s_own(nested: Nested) -> bool:
    """Whether a combiner is JAX's own, and not a wrapper of JAX around the user's function."""
    flat = not any(is_tag(eqn) or found_in_params(eqn) for eqn in nested.jaxpr.eqns)
    return flat and _compat.written_by_jax(nested.stored)


for _kind in _compat.named_combiners:
    register(_kind, Hop(nested=lambda eqn: ()))
for _kind in _compat.combiners:
    register(_kind, Hop(nested=_given_combiners, refusal=_COMBINER))
for _kind, _reason in _REFUSALS.items():
    register(_kind, Hop(nested=found_in_params, refusal=_reason))


def _of_pallas(module: str, name: str, reason: str) -> dict[_compat.Kind, Hop] | None:
    kind = _compat.primitive_if_loaded(module, name)
    return None if kind is None else {kind: Hop(nested=found_in_params, refusal=reason)}


for (_module, _name), _reason in _OF_PALLAS.items():
    register_when_loaded(functools.partial(_of_pallas, _module, _name, _reason))
