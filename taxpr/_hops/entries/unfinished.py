"""The entry of equations that an error has cut off. They can only be looked at."""

import dataclasses

from taxpr import _compat
from taxpr._hops.nested import Nested, plain
from taxpr._hops.protocol import Hop
from taxpr._hops.table import register
from taxpr._primitives.unfinished import failed_p, unfinished_p

_REFUSAL = "tracing it failed, so it cannot run"


def _nested(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    found: list[Nested] = []
    jaxprs = eqn.params["jaxprs"]
    for k, (stored, feeds) in enumerate(zip(jaxprs, eqn.params["feeds"], strict=True)):
        label = "body" if len(jaxprs) == 1 else f"body{k}"
        kind, name, _ = _compat.about_jaxpr(_compat.open_jaxpr(stored).debug_info)
        title = " ".join(filter(None, (kind, name)))
        if eqn.primitive is unfinished_p:
            title += " (unfinished)"
        nested = plain(label, title, ("jaxprs", k), stored, first_operand=None)
        found.append(dataclasses.replace(nested, operands=feeds, facts={"unfinished": True}))
    return tuple(found)


for _primitive in (failed_p, unfinished_p):
    register(_primitive, Hop(nested=_nested, refusal=_REFUSAL))
