"""Programs for the picture of the higher-order primitives that the shared table has none of.

Most of these hold no tag that could be injected: kernels, what combines pairs of elements, what
only a flag of JAX makes.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas
from jax.experimental.pallas import tpu

import taxpr
from taxpr import _compat
from taxpr._errors import name_of
from taxpr._hops.table import registered

V = np.asarray([0.3, -0.8, 1.1], np.float32)

# By the name of the primitive: a function that makes the program.
HOPS: dict[str, Callable[[], Any]] = {}
# Of the others: a program of `drawn_programs`.
SHARED = {
    "CustomRoot": "root_of_a_cube",
    "closed_call": "eval_call",
    "composite": "composite",
    "compute_on": "compute_on_host",
    "cond": "cond_true",
    "custom_jvp_call": "custom_jvp",
    "custom_linear_solve": "linear_solve",
    "custom_partitioning": "partitioned",
    "custom_transpose_call": "transposed",
    "custom_vjp_call": "custom_vjp",
    "custom_vmap_call": "custom_vmap",
    "eval_jaxpr": "eval_call",
    "jit": "jit_twice",
    "linear_call": "linear_call",
    "pallas_call": "kernel",
    "program_order": "order_enforced",
    "reduce": "reduce",
    "remat2": "remat",
    "run_state": "state",
    "scan": "scan_reverse",
    "shard_map": "shard_map",
    "while": "while_body",
    "xla_metadata_call": "metadata",
}


def hop(name: str, *args: Any, flag: str = "") -> Callable[..., Any]:
    """Adds a program; ``flag`` is a setting of JAX that is on while it is traced."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        def make() -> Any:
            with switched(flag) if flag else contextlib.nullcontext():
                return taxpr.trace(fn)(*args)

        if not flag or hasattr(jax.config, flag):
            HOPS[name] = make
        return fn

    return add


@contextlib.contextmanager
def switched(flag: str) -> Any:
    jax.config.update(flag, True)
    try:
        yield
    finally:
        jax.config.update(flag, False)


# ---- kernels -----------------------------------------------------------------


@hop("run_scoped", V)
def scratch_memory(v):
    def kernel(source, target):
        def with_scratch(scratch):
            scratch[...] = source[...] * 2
            target[...] = scratch[...] + 1

        pallas.run_scoped(with_scratch, tpu.VMEM(v.shape, v.dtype))

    return pallas.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(v.shape, v.dtype))(v)


# ---- what combines pairs of elements -----------------------------------------


@hop("reduce_window", V)
def window(v):
    return lax.reduce_window(v, np.float32(0), lambda a, b: a + b * b, (2,), (1,), "VALID")


def _scatters(method: str) -> Callable[..., Any]:
    def scattered(v):
        return getattr(jnp.zeros(5, v.dtype).at[jnp.arange(3)], method)(v)

    scattered.__name__ = f"scatter_{method}"
    return scattered


for _name, _method in {
    "scatter": "set",
    "scatter-add": "add",
    "scatter-sub": "subtract",
    "scatter-mul": "multiply",
    "scatter-min": "min",
    "scatter-max": "max",
}.items():
    hop(_name, V)(_scatters(_method))


# ---- what a flag makes -------------------------------------------------------


@hop("CustomJVPTraced", V, flag="jax_custom_jvp3")
def new_custom_jvp(v):
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(v)


@hop("CustomVJPTraced", V, flag="jax_custom_vjp3")
def new_custom_vjp(v):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    return f(v)


@hop("Scan3", V, flag="jax_scan3")
def new_scan(v):
    return lax.scan(lambda c, x: (c + x, c), jnp.float32(0), v)


@hop("RematTraced", V, flag="jax_remat3")
def new_remat(v):
    return jax.checkpoint(lambda x: jnp.sin(jnp.cos(x)))(v)


FLAGGED = ("CustomJVPTraced", "CustomVJPTraced", "RematTraced", "Scan3")  # not in every JAX

# ---- what only other machines, or the inside of JAX, make --------------------


# Params without which these cannot be printed, or their costs not be counted.
PARAMS: dict[str, dict[str, Any]] = {
    "call_hi_primitive_linearized": {
        "nz_in_flat": (True,),
        "nz_out_flat": (True,),
        "has_sres": False,
        "_prim": None,
    },
    "select_and_scatter": {"window_dimensions": (2,)},
    "xla_pmap": {"axis_name": "i", "axis_size": 8},
}


def made_up(name: str) -> Callable[[], Any]:
    """An equation of this primitive that holds a jaxpr."""

    def make() -> Any:
        kind = next(kind for kind in registered() if name_of(kind) == name)
        inner = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(V)
        program = taxpr.trace(lambda v: jnp.cos(v))(V)
        [eqn] = program.eqns
        param = "call_jaxpr" if name in ("call", "fused_call", "xla_pmap") else "jaxpr"
        params = {param: _compat.open_jaxpr(inner), **PARAMS.get(name, {})}
        eqn = eqn.replace(primitive=kind, params=params)
        return dataclasses.replace(program, jaxpr=_compat.rebuilt(program.jaxpr, eqns=[eqn]))

    return make


MADE_UP = (
    "call",
    "call_hi_primitive_linearized",
    "core_map",
    "fused_call",
    "mpmd_map",
    "select_and_scatter",
    "xla_pmap",
)
_known = {name_of(kind) for kind in registered()}
HOPS |= {name: made_up(name) for name in MADE_UP if name in _known}
