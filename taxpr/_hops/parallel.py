"""shard_map and pmap."""

from __future__ import annotations

from taxpr import _compat
from taxpr._rules import Hop, Nested, plain, register

_REFUSAL = "each device would hold a context of its own, and nothing says yet how these become one"


def _nested_shard_map(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    mesh = eqn.params["mesh"]
    axes = ", ".join(f"{name}: {size}" for name, size in mesh.shape.items())
    facts = {
        "mesh": axes,
        "in_specs": tuple(map(str, eqn.params["in_specs"])),
        "out_specs": tuple(map(str, eqn.params["out_specs"])),
    }
    return (plain("body", "shard_map body", ("jaxpr",), eqn.params["jaxpr"], facts=facts),)


def _nested_pmap(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    facts = {"axis": f"{eqn.params['axis_name']}: {eqn.params['axis_size']}"}
    return (plain("body", "pmap body", ("call_jaxpr",), eqn.params["call_jaxpr"], facts=facts),)


register(_compat.shard_map_p, Hop(nested=_nested_shard_map, refusal=_REFUSAL))
# From 0.9 pmap is a jit around a shard_map.
register(_compat.xla_pmap_p, Hop(nested=_nested_pmap, refusal=_REFUSAL))
