"""custom_jvp and custom_vjp."""

from __future__ import annotations

from taxpr import _compat
from taxpr._rules import Hop, Nested, plain, register

_REFUSAL = (
    "its derivative comes from a rule of its own, which would have to be injected as well; "
    "otherwise a gradient would be taken of the function without the injection"
)


def _nested(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    # custom_jvp keeps its name in the debug info, custom_vjp in a param or there.
    stored = eqn.params["call_jaxpr"]
    name = eqn.params.get("name") or _traced_name(stored)
    kind = eqn.primitive.name.removesuffix("_call")
    return (plain("call", f"{kind} {name}", ("call_jaxpr",), stored, facts={"name": name}),)


def _traced_name(stored: object) -> str:
    info = _compat.open_jaxpr(stored).debug_info.func_src_info or ""
    return info.split(" at ")[0]


for _primitive in (_compat.custom_jvp_call_p, _compat.custom_vjp_call_p):
    register(_primitive, Hop(nested=_nested, refusal=_REFUSAL))
