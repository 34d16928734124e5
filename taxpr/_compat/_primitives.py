"""JAX's higher-order primitives and hijax classes; None for those that this version lacks."""

import importlib
import sys
from typing import Any

import jax

from taxpr._compat._private import private
from taxpr._compat._types import Primitive

_core = private("core")
_loops = private("lax.control_flow.loops")

scan_p = jax.lax.scan_p
while_p = jax.lax.while_p
cond_p = jax.lax.cond_p


def _found(module: str, name: str, kind: Any) -> Any:
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if isinstance(found, kind) else None


def primitive(module: str, name: str) -> Primitive | None:
    """The primitive ``name`` of a JAX module; None if this version has none."""
    return _found(module, name, Primitive)


def primitive_if_loaded(module: str, name: str) -> Primitive | None:
    """The primitive ``name`` of a JAX module; None if the module is not imported yet."""
    return primitive(module, name) if module in sys.modules else None


# The rules of `jax.experimental.jet` by primitive: ``(primals, series, **params)`` to primals and
# series. The module is experimental, so a later version may lack it.
jet_rules: dict[Any, Any] = _found("jax.experimental.jet", "jet_rules", dict) or {}


def _hijax_class(module: str, name: str) -> Any:
    return _found(module, name, type)


# `eval_jaxpr_p` moved from the loops module to core in 0.11. From 0.12 `call_p` and `closed_call_p`
# are other names of it. xla_pmap was removed in 0.10; pmap is a jit from 0.8.
jit_p = primitive("jax._src.pjit", "jit_p")
remat_p = primitive("jax._src.ad_checkpoint", "remat_p")
core_call_p = primitive("jax._src.core", "call_p")
closed_call_p = primitive("jax._src.core", "closed_call_p")
eval_jaxpr_p = getattr(_core, "eval_jaxpr_p", None) or getattr(_loops, "eval_jaxpr_p", None)
custom_jvp_call_p = primitive("jax._src.custom_derivatives", "custom_jvp_call_p")
custom_vjp_call_p = primitive("jax._src.custom_derivatives", "custom_vjp_call_p")
shard_map_p = primitive("jax._src.shard_map", "shard_map_p")
sharding_constraint_p = primitive("jax._src.pjit", "sharding_constraint_p")
reshard_p = primitive("jax._src.pjit", "reshard_p")
xla_pmap_p = primitive("jax._src.interpreters.pxla", "xla_pmap_p")
custom_linear_solve_p = primitive("jax._src.lax.control_flow.solves", "linear_solve_p")
custom_vmap_call_p = primitive("jax._src.custom_batching", "custom_vmap_p")
linear_call_p = primitive("jax._src.custom_derivatives", "linear_call_p")
composite_p = primitive("jax._src.lax.lax", "composite_p")
custom_partitioning_p = primitive("jax._src.custom_partitioning", "custom_partitioning_p")
# custom_transpose was removed in 0.10.
custom_transpose_p = primitive("jax._src.custom_transpose", "custom_transpose_p")
if custom_transpose_p is not None:
    # JAX's own check says that it never has effects. It has those of its body, such as a mark's.
    def _check_transposed(*_: Any, out_types: Any, call_jaxpr: Any, **__: Any) -> Any:
        return out_types, call_jaxpr.effects

    _core.custom_typechecks[custom_transpose_p] = _check_transposed
run_state_p = primitive("jax._src.state.discharge", "run_state_p")
fused_call_p = primitive("jax.experimental.fused", "fused_p")
# compute_on is an equation from 0.8, program_order from 0.12. xla_metadata_call came with
# 0.8 in scheduling_groups and moved to xla_metadata in 0.11.
compute_on_p = primitive("jax._src.compute_on", "compute_on_p")
program_order_p = primitive("jax._src.program_order", "program_order_p")
xla_metadata_call_p = primitive("jax._src.xla_metadata", "xla_metadata_call_p") or primitive(
    "jax.experimental.scheduling_groups", "xla_metadata_call_p"
)
# Given by module and name, because importing Pallas takes longer than importing taxpr. A program
# can have a kernel only if Pallas is already imported.
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


def is_of_jax(primitive: Primitive) -> bool:
    """Whether a primitive belongs to JAX, and not to another library.

    JAX has no list of them: they are variables of its modules.
    """
    if id(primitive) not in _of_jax:
        modules = [one for name, one in sys.modules.items() if name.startswith(("jax.", "jaxlib."))]
        every = (value for module in modules for value in list(vars(module).values()))
        _of_jax.update((id(one), one) for one in every if isinstance(one, Primitive))
    return id(primitive) in _of_jax


_of_jax: dict[int, Primitive] = {}

# Primitives that combine pairs of elements by a jaxpr. The jaxpr of these is always written by JAX.
named_combiners = _all_of(
    (_SLICING, "scatter_add_p"),
    (_SLICING, "scatter_sub_p"),
    (_SLICING, "scatter_mul_p"),
    (_SLICING, "scatter_min_p"),
    (_SLICING, "scatter_max_p"),
)
# The jaxpr of these comes from the caller, who may be a function of JAX.
combiners = _all_of(
    (_LAX, "reduce_p"), (_WINDOWS, "reduce_window_p"), (_WINDOWS, "select_and_scatter_p")
)
scatter_p = primitive(_SLICING, "scatter_p")

_CALLBACK, _DEBUGGING = "jax._src.callback", "jax._src.debugging"
# debug_print is a primitive of its own from 0.8.
callbacks = _all_of(
    (_CALLBACK, "pure_callback_p"),
    (_CALLBACK, "io_callback_p"),
    (_DEBUGGING, "debug_callback_p"),
    (_DEBUGGING, "debug_print_p"),
)
add_any_p = primitive("jax._src.ad_util", "add_jaxvals_p")  # of cotangents
stop_gradient_p = primitive("jax._src.ad_util", "stop_gradient_p")
name_p = primitive("jax._src.ad_checkpoint", "name_p")  # of `checkpoint_name`
pvary_p = primitive("jax._src.core", "pvary_p")
# Of random numbers; JAX moved the module in 0.12.
random_bits = _all_of(("jax._src.prng", "random_bits_p"), ("jax._src.random.prng", "random_bits_p"))

# Hijax primitives are classes: all share one primitive, and an equation holds an instance. The base
# class has another name from 0.12.
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
# custom_root is a class from 0.12; before, it traces to a custom_jvp. The others come with flags:
# jax_remat3, jax_custom_vjp3 and jax_scan3 (0.10 or earlier), jax_custom_jvp3 (later).
CustomRoot = _hijax_class("jax._src.lax.control_flow.solves", "CustomRoot")
RematTraced = _hijax_class("jax._src.ad_checkpoint", "RematTraced")
CustomJVPTraced = _hijax_class("jax._src.hijax", "CustomJVPTraced")
CustomVJPTraced = _hijax_class("jax._src.hijax", "CustomVJPTraced")
Scan3 = _hijax_class("jax._src.lax.control_flow.loops", "Scan3")
