"""Entries of calls: jit, remat, and other primitives that evaluate one jaxpr exactly once.

They differ in the params that have one entry for each operand or result. The ``_pad_`` functions
extend these params for the context.
"""

import functools
from collections.abc import Callable
from typing import Any

from taxpr import _compat
from taxpr._compat import Array, Params
from taxpr._hops.nested import Nested, plain
from taxpr._hops.protocol import Hop, Made, Thread
from taxpr._hops.table import register


def _param(eqn: _compat.JaxprEqn) -> str:
    # eval_jaxpr stores its jaxpr under "jaxpr" up to 0.11 and under "call_jaxpr" from 0.12.
    # The other primitives did not change.
    return "jaxpr" if "jaxpr" in eqn.params else "call_jaxpr"


def nested_call(eqn: _compat.JaxprEqn, *, title: str, param: str = "") -> tuple[Nested, ...]:
    """The jaxpr of a call, which may have a name."""
    name, param = eqn.params.get("name"), param or _param(eqn)
    facts = {"name": name} if name else {}
    shown = f"{title} {name}" if name else title
    return (plain("call", shown, (param,), eqn.params[param], facts=facts),)


def _nested_remat(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    recomputed = bool(eqn.params.get("differentiated"))
    facts: dict[str, Any] = {"differentiated": True} if recomputed else {}
    if eqn.params.get("policy") is not None:
        policy = eqn.params["policy"]
        # Some of jax.checkpoint_policies are objects without a name in 0.10 and 0.11.
        facts["policy"] = getattr(policy, "__name__", type(policy).__name__)
    stored = eqn.params["jaxpr"]
    title = "remat (recomputed)" if recomputed else "remat"
    return (plain("call", title, ("jaxpr",), stored, recomputed=recomputed, facts=facts),)


def _inject_call(
    eqn: _compat.JaxprEqn,
    ctx: list[Array],
    operands: list[Array],
    thread: Thread,
    *,
    pad: Callable[[Params, int, int], Params] | None = None,
) -> Made:
    inner = thread("call")
    jaxpr, consts = inner.hoisted
    param = _param(eqn)
    params = {**eqn.params, param: _compat.as_stored(jaxpr, eqn.params[param])}
    if pad is not None:
        opened = _compat.open_jaxpr(jaxpr)
        more_in = len(opened.invars) - len(eqn.invars)
        more_out = len(opened.outvars) - len(eqn.outvars)
        params = pad(params, more_in, more_out)
    return inner.unpack(_compat.bind(eqn.primitive, [*consts, *ctx, *operands], params))


def _pad_jit(params: Params, more_in: int, more_out: int) -> Params:
    """The context has no sharding or layout and is never donated."""
    return {
        **params,
        "in_shardings": (_compat.unspecified(),) * more_in + tuple(params["in_shardings"]),
        "in_layouts": (None,) * more_in + tuple(params["in_layouts"]),
        "donated_invars": (False,) * more_in + tuple(params["donated_invars"]),
        "out_shardings": tuple(params["out_shardings"]) + (_compat.unspecified(),) * more_out,
        "out_layouts": tuple(params["out_layouts"]) + (None,) * more_out,
    }


def _pad_remat(params: Params, more_in: int, more_out: int) -> Params:
    del more_out
    if isinstance(params["prevent_cse"], tuple):  # from 0.11 there may be one for each operand
        return {**params, "prevent_cse": (True,) * more_in + params["prevent_cse"]}
    return params


def _pad_compute_on(params: Params, more_in: int, more_out: int) -> Params:
    """Each context leaf stays in its memory space."""
    del more_in
    outvars = _compat.open_jaxpr(params["jaxpr"]).outvars
    added = tuple(map(_compat.memory_space_of, outvars[len(outvars) - more_out :]))
    return {**params, "out_memory_spaces": tuple(params["out_memory_spaces"]) + added}


def _pad_fused(params: Params, more_in: int, more_out: int) -> Params:
    """The context comes out in device memory.

    Inside, values have the memory space ``any``. JAX combines these with scalars of another space
    but not with arrays, so an injector that computes with an array of its context fails.
    """
    del more_in
    added = (_compat.device_memory,) * more_out
    return {**params, "out_spaces": tuple(params["out_spaces"]) + added}


def _pad_program_order(params: Params, more_in: int, more_out: int) -> Params:
    """The context takes part in the program order: it is not excluded."""
    del more_out
    return {**params, "exclude_mask": (False,) * more_in + tuple(params["exclude_mask"])}


def _nested_remat_traced(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    return (plain("call", "remat", None, eqn.params["_prim"].jaxpr),)


def _inject_remat_traced(
    eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Inject into the remat of the flag jax_remat3, a callable object instead of a primitive."""
    inner = thread("call")
    jaxpr, consts = inner.hoisted
    old = eqn.params["_prim"]
    # In 0.10 and 0.11 the object has no prevent_cse.
    options = {key: value for key, value in old.params.items() if key != "jaxpr"}
    if isinstance(options.get("prevent_cse"), tuple):
        options["prevent_cse"] = (True,) * (len(consts) + len(ctx)) + options["prevent_cse"]
    new = type(old)(_compat.as_stored(jaxpr, old.jaxpr), **options)
    return inner.unpack(new(*consts, *ctx, *operands))


for _primitive, _title, _pad in (
    (_compat.jit_p, "jit", _pad_jit),
    (_compat.compute_on_p, "compute_on", _pad_compute_on),
    (_compat.fused_call_p, "fused_call", _pad_fused),
    (_compat.program_order_p, "program_order", _pad_program_order),
    (_compat.xla_metadata_call_p, "xla_metadata_call", None),
    # From 0.12 these three are one primitive, eval_jaxpr.
    (_compat.core_call_p, "call", None),
    (_compat.closed_call_p, "closed call", None),
    (_compat.eval_jaxpr_p, "eval_jaxpr", None),
):
    register(
        _primitive,
        Hop(
            nested=functools.partial(nested_call, title=_title),
            inject=functools.partial(_inject_call, pad=_pad),
        ),
    )
register(
    _compat.remat_p,
    Hop(nested=_nested_remat, inject=functools.partial(_inject_call, pad=_pad_remat)),
)
register(_compat.RematTraced, Hop(nested=_nested_remat_traced, inject=_inject_remat_traced))
