"""Which primitives and hijax classes this JAX has."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import jax
from jax._src import ad_checkpoint as _ad_checkpoint
from jax._src import core as _core
from jax._src import custom_derivatives as _custom_derivatives
from jax._src import pjit as _pjit
from jax._src.lax.control_flow import loops as _loops

from taxpr._compat._jaxprs import Primitive

jit_p = _pjit.jit_p
scan_p = jax.lax.scan_p
while_p = jax.lax.while_p
cond_p = jax.lax.cond_p
remat_p = _ad_checkpoint.remat_p


def _found(module: str, name: str, kind: Any) -> Any:
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if isinstance(found, kind) else None


def primitive(module: str, name: str) -> Primitive | None:
    """The primitive ``name`` of a JAX module, or None where this JAX has none."""
    return _found(module, name, Primitive)


def primitive_if_loaded(module: str, name: str) -> Primitive | None:
    """The primitive ``name`` of a JAX module that is imported already, or None."""
    return primitive(module, name) if module in sys.modules else None


# How `jax.experimental.jet` takes derivatives, by primitive: ``(primals, series, **params)`` to
# primals and series. It is experimental, so that a version to come may lack it.
jet_rules: dict[Any, Any] = _found("jax.experimental.jet", "jet_rules", dict) or {}


def _hijax_class(module: str, name: str) -> Any:
    return _found(module, name, type)


# `eval_jaxpr_p` moved from the loops module to core in 0.11; from 0.12 `call_p` and
# `closed_call_p` are other names of it. xla_pmap went in 0.10, and in 0.8.3 pmap is a jit already.
core_call_p = primitive("jax._src.core", "call_p")
closed_call_p = primitive("jax._src.core", "closed_call_p")
eval_jaxpr_p = getattr(_core, "eval_jaxpr_p", None) or getattr(_loops, "eval_jaxpr_p", None)
custom_jvp_call_p = _custom_derivatives.custom_jvp_call_p
custom_vjp_call_p = _custom_derivatives.custom_vjp_call_p
shard_map_p = primitive("jax._src.shard_map", "shard_map_p")
xla_pmap_p = primitive("jax._src.interpreters.pxla", "xla_pmap_p")
custom_linear_solve_p = primitive("jax._src.lax.control_flow.solves", "linear_solve_p")
custom_vmap_call_p = primitive("jax._src.custom_batching", "custom_vmap_p")
linear_call_p = primitive("jax._src.custom_derivatives", "linear_call_p")
composite_p = primitive("jax._src.lax.lax", "composite_p")
custom_partitioning_p = primitive("jax._src.custom_partitioning", "custom_partitioning_p")
# custom_transpose went in 0.10.
custom_transpose_p = primitive("jax._src.custom_transpose", "custom_transpose_p")
run_state_p = primitive("jax._src.state.discharge", "run_state_p")
fused_call_p = primitive("jax.experimental.fused", "fused_p")
# compute_on is an equation from 0.8, program_order from 0.12. xla_metadata_call came with
# 0.8 in scheduling_groups and moved to xla_metadata in 0.11.
compute_on_p = primitive("jax._src.compute_on", "compute_on_p")
program_order_p = primitive("jax._src.program_order", "program_order_p")
xla_metadata_call_p = primitive("jax._src.xla_metadata", "xla_metadata_call_p") or primitive(
    "jax.experimental.scheduling_groups", "xla_metadata_call_p"
)
# By module and name: Pallas takes longer to import than all of taxpr, and a program has a
# kernel only after somebody else imported it.
pallas_call = ("jax._src.pallas.pallas_call", "pallas_call_p")
core_map = ("jax._src.pallas.core", "core_map_p")
mpmd_map = ("jax._src.pallas.mpmd", "mpmd_map_p")
run_scoped = ("jax._src.pallas.primitives", "run_scoped_p")

_LAX = "jax._src.lax.lax"
_SLICING = "jax._src.lax.slicing"
_WINDOWS = "jax._src.lax.windowed_reductions"


def _all_of(*names: tuple[str, str]) -> tuple[Primitive, ...]:
    found = (primitive(module, name) for module, name in names)
    return tuple(one for one in found if one is not None)


# What combines pairs of elements by a jaxpr. That of these is what their names say: only JAX
# writes it.
named_combiners = _all_of(
    (_SLICING, "scatter_add_p"),
    (_SLICING, "scatter_sub_p"),
    (_SLICING, "scatter_mul_p"),
    (_SLICING, "scatter_min_p"),
    (_SLICING, "scatter_max_p"),
)
# That of these is given by who calls them, JAX's own functions among these.
combiners = _all_of(
    (_LAX, "reduce_p"), (_WINDOWS, "reduce_window_p"), (_WINDOWS, "select_and_scatter_p")
)
scatter_p = primitive(_SLICING, "scatter_p")

# Some functions of JAX are classes (hijax), which all share one primitive and keep what they
# are in an object of theirs. From 0.12 it has another base class.
hijax_bases = tuple(
    base
    for base in (
        _hijax_class("jax._src.hijax", "HiPrim"),
        _hijax_class("jax._src.hijax", "VJPHiPrimitive"),
    )
    if base is not None
)
call_hi_primitive_p = primitive("jax._src.hijax", "call_hi_primitive_p")
call_hi_primitive_linearized_p = primitive("jax._src.hijax", "call_hi_primitive_linearized_p")
# custom_root, up to 0.11 a custom_jvp; then what the flags jax_remat3, jax_custom_vjp3 and
# jax_scan3, in 0.10 or before, and jax_custom_jvp3, later, switch on.
CustomRoot = _hijax_class("jax._src.lax.control_flow.solves", "CustomRoot")
RematTraced = _hijax_class("jax._src.ad_checkpoint", "RematTraced")
CustomJVPTraced = _hijax_class("jax._src.hijax", "CustomJVPTraced")
CustomVJPTraced = _hijax_class("jax._src.hijax", "CustomVJPTraced")
Scan3 = _hijax_class("jax._src.lax.control_flow.loops", "Scan3")
