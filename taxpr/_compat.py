"""What differs between JAX versions, and all that is private in JAX.

No other module of taxpr imports ``jax._src``. Supported: jax 0.7.2 and newer.
Where a difference exists a sentence says what changed and when; features are
tested for, not version numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
from jax._src import ad_checkpoint as _ad_checkpoint
from jax._src import ad_util as _ad_util
from jax._src import config as _config
from jax._src import core as _core
from jax._src import custom_derivatives as _custom_derivatives
from jax._src import effects as _effects
from jax._src import linear_util as _linear_util
from jax._src import pjit as _pjit
from jax._src import sharding_impls as _sharding_impls
from jax._src import source_info_util as _source_info_util
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import partial_eval as _pe
from jax._src.lax import lax as _lax
from jax._src.lax.control_flow import loops as _loops
from jax._src.state import types as _state_types

# `jax.extend.core` has these, too, but from 0.12 importing it imports Pallas.
Jaxpr = _core.Jaxpr
ClosedJaxpr: Any = getattr(_core, "ClosedJaxpr", Jaxpr)
JaxprEqn = _core.JaxprEqn
Literal = _core.Literal
Primitive = _core.Primitive
Var = _core.Var
ShapedArray = jax.core.ShapedArray

# Until 0.10 an open `Jaxpr` and a `ClosedJaxpr` (one that holds its consts) are
# two classes. From 0.11 they are one, which holds the consts.
ONE_JAXPR_CLASS = Jaxpr is ClosedJaxpr

UNSPECIFIED: Any = _sharding_impls.UNSPECIFIED  # pyright: ignore[reportPrivateImportUsage]
AbstractRef = _state_types.AbstractRef
DropVar = _core.DropVar
device_memory: Any = ShapedArray((), jnp.float32).memory_space

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


def _hijax_class(module: str, name: str) -> Any:
    return _found(module, name, type)


def primitive_if_loaded(module: str, name: str) -> Primitive | None:
    """The primitive ``name`` of a JAX module that is imported already, or None."""
    return primitive(module, name) if module in sys.modules else None


# `eval_jaxpr_p` moved from the loops module to core in 0.11; from 0.12 `call_p` and
# `closed_call_p` are other names of it. xla_pmap went in 0.9.
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
# custom_transpose went in 0.9 or 0.10.
custom_transpose_p = primitive("jax._src.custom_transpose", "custom_transpose_p")
run_state_p = primitive("jax._src.state.discharge", "run_state_p")
fused_call_p = primitive("jax.experimental.fused", "fused_p")
# compute_on is an equation from 0.8, program_order from 0.12. xla_metadata_call came with
# 0.8 in scheduling_groups and moved to xla_metadata in 0.12.
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
combiners = tuple(
    primitive(module, name)
    for module, name in (
        (_LAX, "reduce_p"),
        (_WINDOWS, "reduce_window_p"),
        (_WINDOWS, "select_and_scatter_p"),
        (_SLICING, "scatter_p"),
        (_SLICING, "scatter_add_p"),
        (_SLICING, "scatter_sub_p"),
        (_SLICING, "scatter_mul_p"),
        (_SLICING, "scatter_min_p"),
        (_SLICING, "scatter_max_p"),
    )
)

# Some functions of JAX are classes (hijax), which all share one primitive and keep what they
# are in an object of theirs. From 0.12 it has another base class.
_HIJAX_BASES = tuple(
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

# What tells the entries of the table of higher-order primitives apart.
Kind = Primitive | type


def kind_of(eqn: JaxprEqn) -> Kind:
    """The primitive of an equation; of a hijax one the class."""
    if eqn.primitive is call_hi_primitive_p:
        return type(eqn.params["_prim"])
    return eqn.primitive


def is_jaxpr(value: Any) -> bool:
    """Whether ``value`` is a jaxpr, open or closed."""
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def open_jaxpr(jaxpr: Any) -> Jaxpr:
    """The open view of a jaxpr: something with eqns, invars and outvars."""
    return jaxpr if isinstance(jaxpr, Jaxpr) else jaxpr.jaxpr


# The param with the object in which an equation hides what it holds.
HIDING_PARAM = "_prim"


def hidden(eqn: JaxprEqn) -> dict[str, Any]:
    """What an equation keeps in an object and not in its params, by attribute name.

    From 0.12 custom_root keeps its jaxpr so, and JAX means to move remat, scan and the
    custom rules there too; these keep a traced function.
    """
    held = eqn.params.get(HIDING_PARAM)
    return {} if held is None else _held_by(held)


def _held_by(holder: Any) -> dict[str, Any]:
    def shown(value: Any) -> Any:
        if isinstance(value, jax.stages.Traced):
            return value.jaxpr
        # Up to 0.11 the batched version of such an object holds the object.
        return _held_by(value) if isinstance(value, _HIJAX_BASES) else value

    # Its `params` repeat its attributes.
    return {key: shown(value) for key, value in vars(holder).items() if key != "params"}


def consts_of(jaxpr: Any) -> Sequence[Any]:
    """The values of the constvars; empty for an open jaxpr."""
    # From 0.11 a jaxpr without bound consts has `consts` None or ().
    return getattr(jaxpr, "consts", None) or ()


def rebuilt(
    jaxpr: Any,
    *,
    eqns: Sequence[JaxprEqn],
    invars: Sequence[Any] | None = None,
    outvars: Sequence[Any] | None = None,
    constvars: Sequence[Any] | None = None,
    consts: Sequence[Any] | None = None,
) -> Any:
    """``jaxpr`` with other parts and fitting effects; closed stays closed.

    In its debug info new arguments, which come first, have empty names. The names of
    results are kept where their number still fits and dropped otherwise.
    """
    inner = open_jaxpr(jaxpr)
    invars = list(inner.invars if invars is None else invars)
    outvars = list(inner.outvars if outvars is None else outvars)
    constvars = list(inner.constvars if constvars is None else constvars)
    debug: Any = inner.debug_info
    if debug.arg_names is not None and len(debug.arg_names) != len(invars):
        # Not None: the derivative of a while loop adds to these names.
        more = len(invars) - len(debug.arg_names)
        names = ("",) * more + tuple(debug.arg_names) if more > 0 else ("",) * len(invars)
        debug = debug._replace(arg_names=names)
    if debug.result_paths is not None and len(debug.result_paths) != len(outvars):
        debug = debug._replace(result_paths=None)
    parts: dict[str, Any] = {
        "constvars": constvars,
        "invars": invars,
        "outvars": outvars,
        "eqns": list(eqns),
        "effects": _pe.make_jaxpr_effects(constvars, invars, outvars, eqns),
        "debug_info": debug,
    }
    values = list(consts_of(jaxpr) if consts is None else consts)
    if ONE_JAXPR_CLASS:
        # `Jaxpr(constvars, ...)` without `consts=` loses them; `replace` does not.
        return inner.replace(consts=values, **parts)
    new = inner.replace(**parts)
    return ClosedJaxpr(new, values) if isinstance(jaxpr, ClosedJaxpr) else new


def hoisted(jaxpr: Any) -> tuple[Any, list[Any]]:
    """A closed jaxpr whose consts are leading arguments, and those consts.

    Consts of a rebuilt jaxpr may be tracers (an injector that closes over them), and
    these must reach a call-like equation as operands.
    """
    inner = open_jaxpr(jaxpr)
    consts = list(consts_of(jaxpr))
    if not consts:
        return jaxpr, []
    invars = [*inner.constvars, *inner.invars]
    new = rebuilt(jaxpr, eqns=inner.eqns, invars=invars, constvars=(), consts=())
    return new, consts


def closed(jaxpr: Any, consts: Sequence[Any] = ()) -> Any:
    """An open jaxpr closed over ``consts``; a closed one as it is."""
    if ONE_JAXPR_CLASS:
        return jaxpr.replace(consts=list(consts)) if consts else jaxpr
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, list(consts))


def as_stored(jaxpr: Any, like: Any) -> Any:
    """A jaxpr without consts in the class that ``like``, a param, is stored in."""
    if isinstance(like, ClosedJaxpr):
        return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
    return open_jaxpr(jaxpr)


def jaxpr_as_fun(jaxpr: Any) -> Callable[..., list[Any]]:
    """A closed jaxpr as a function of flat arguments, which returns arrays."""
    run, outvars = _core.jaxpr_as_fun(jaxpr), open_jaxpr(jaxpr).outvars

    def as_array(value: Any, aval: Any) -> Any:
        if isinstance(value, jax.Array) or not isinstance(aval, ShapedArray):
            return value
        # Of a literal JAX returns what it holds, such as a `TypedFloat` (up to 0.7
        # `LiteralFloat`, whose weak type is lost), and of a closed-over numpy array that.
        return with_weak_type(jnp.asarray(value, aval.dtype), aval.weak_type)

    return lambda *args: [
        as_array(value, atom.aval) for value, atom in zip(run(*args), outvars, strict=True)
    ]


def copied(x: Any) -> Any:
    """``x`` in a buffer of its own."""
    return _lax.copy_p.bind(x)


def is_extended(dtype: Any) -> bool:
    """Whether it is a dtype without arithmetic, such as that of PRNG keys."""
    return jnp.issubdtype(dtype, jax.dtypes.extended)


def is_literal(atom: Any) -> bool:
    """Whether an operand is a literal and not a variable."""
    return isinstance(atom, Literal)


def is_dropped(var: Any) -> bool:
    """Whether a result of an equation is not used, shown as ``_``."""
    return isinstance(var, DropVar)


def fresh_var(aval: Any) -> Var:
    """A new variable."""
    return Var(aval)


def memory_space_of(atom: Any) -> Any:
    """The memory space of a variable or literal."""
    return atom.aval.memory_space


def key_impl(dtype: Any) -> str:
    """The name of the implementation of a PRNG key dtype."""
    return dtype._impl.name


def scan_counts(eqn: JaxprEqn) -> tuple[int, int]:
    """``(num_consts, num_carry)`` of a scan."""
    params = eqn.params
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    # From 0.11 the split of the operands is a flat tree, (consts, carry, xs).
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def scan_options(eqn: JaxprEqn) -> dict[str, Any]:
    """The keywords with which `jax.lax.scan` rebuilds this scan.

    ``linear`` (up to 0.8), a hint that JAX ignores and later dropped, is not
    among them. ``_split_transpose`` exists up to 0.8.
    """
    names = ("length", "reverse", "unroll", "_split_transpose")
    return {name: eqn.params[name] for name in names if name in eqn.params}


# ---- mesh axes ----------------------------------------------------------------


def manual_axes(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes that a shard_map maps over."""
    # "manual_axes" up to 0.9.
    names = "newly_manual_axes" if "newly_manual_axes" in eqn.params else "manual_axes"
    return frozenset(eqn.params[names])


def manual_sizes(eqn: JaxprEqn) -> dict[str, int]:
    """The sizes of the mesh axes that a shard_map maps over, in the order of the mesh."""
    manual = manual_axes(eqn)
    return {name: n for name, n in eqn.params["mesh"].shape.items() if name in manual}


def varying(x: Any) -> frozenset[str]:
    """The mesh axes over which a value, or an aval, is known to vary in a shard_map."""
    aval = x if isinstance(x, jax.core.AbstractValue) else jax.typeof(x)
    # `vma` up to 0.11; from 0.12 `mat` says more, `varying` among it.
    mat = getattr(aval, "mat", None)
    return frozenset(mat.varying if mat is not None else getattr(aval, "vma", ()))


def pvary(x: Any, axes: Sequence[str]) -> Any:
    """``x`` as a value that may vary over some more mesh axes."""
    return _core.pvary(x, tuple(axes)) if axes else x


def resharded(x: Any, aval: Any) -> Any:
    """``x`` with the sharding of an aval, where mesh axes are explicit and part of the type."""
    found, expected = jax.typeof(x).sharding, aval.sharding
    if found == expected or found.spec == expected.spec:
        return x
    mesh = found.mesh if expected.mesh.empty else expected.mesh
    return jax.sharding.reshard(x, jax.sharding.NamedSharding(mesh, expected.spec))


@contextlib.contextmanager
def as_traced(eqn: JaxprEqn) -> Iterator[None]:
    """What surrounded the equation when it was traced: the mesh, and in a shard_map its axes.

    A rule of custom_jvp or custom_vjp is traced when it is first asked for, and kept: outside of
    the shard_map that it is in its collectives would have no axes, and its types would be wrong.
    """
    mesh = eqn.ctx.cur_abstract_mesh
    if mesh.empty:
        yield
        return
    sizes = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    manual = [(name, size) for name, size, kind in sizes if kind == jax.sharding.AxisType.Manual]
    checked = any(varying(atom.aval) for atom in eqn.invars if not is_literal(atom))
    with (
        eqn.ctx.manager,
        _core.extend_axis_env_nd(manual),
        _config._check_vma(checked or _config._check_vma.value),
    ):
        yield


_PARALLEL = "jax._src.lax.parallel"
# Those that JAX takes to be the same on all devices. `all_gather` is not among them: in a
# shard_map its result counts as one that may differ.
_EQUALISING = tuple(
    primitive(_PARALLEL, name)
    for name in ("psum_p", "psum_invariant_p", "pmax_p", "pmin_p", "all_gather_invariant_p")
)
# Primitives of which each result depends on its own operand only.
side_by_side = (
    *_EQUALISING,
    primitive("jax._src.core", "pvary_p"),
    primitive("jax._src.lax.lax", "optimization_barrier_p"),
)


def made_equal(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which a collective leaves the same on all devices."""
    if eqn.primitive not in _EQUALISING or eqn.params.get("axis_index_groups") is not None:
        return frozenset()
    return _axis_names(eqn)


def made_different(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes that an equation names without making devices equal, as axis_index does."""
    return _axis_names(eqn) - made_equal(eqn)


# Those that name mesh axes and wait for no other device.
_WAITING_FOR_NONE = (
    primitive(_PARALLEL, "axis_index_p"),
    primitive("jax._src.core", "pvary_p"),
)


def waits_for(eqn: JaxprEqn) -> frozenset[str]:
    """The mesh axes along which an equation waits for all devices, as a collective does."""
    return frozenset() if eqn.primitive in _WAITING_FOR_NONE else _axis_names(eqn)


def _axis_names(eqn: JaxprEqn) -> frozenset[str]:
    found = [eqn.params[key] for key in ("axes", "axis_name") if key in eqn.params]
    names = [name for one in found for name in (one if isinstance(one, tuple) else (one,))]
    # `axes` also holds the numbers of positional axes, in a collective and elsewhere.
    return frozenset(name for name in names if isinstance(name, str))


# ---- rules of custom_jvp and custom_vjp ---------------------------------------


class Rule(NamedTuple):
    """A rule of an equation, traced.

    Attributes:
        jaxpr: Closed. Of a jvp: from primals and the tangents that are not zero to primals and
            tangents. Of a fwd: from primals to residuals and primals.
        out_zeros: Of a jvp: which of the tangents that come out are zero, and so left out.
    """

    jaxpr: Any
    out_zeros: Sequence[bool] = ()


# What JAX raises when a value that a custom_vjp function closed over is differentiated.
CustomVJPException = _ad.CustomVJPException


def tangent_aval(aval: Any) -> Any:
    """The aval of the tangents of a value; of dtype float0 where it has none."""
    return aval.to_tangent_aval()


def all_differentiated(eqn: JaxprEqn) -> list[bool]:
    """The argument of `jvp_rule` or `fwd_rule` when all inputs that can be are differentiated."""
    avals = [atom.aval for atom in eqn.invars[eqn.params["num_consts"] :]]
    varied = [tangent_aval(aval).dtype != jax.dtypes.float0 for aval in avals]
    if eqn.primitive is custom_vjp_call_p:
        return varied
    # A rule without symbolic zeros gets all tangents, those without a value as well.
    return [eqn.params["symbolic_zeros"] and not varies for varies in varied]


def jvp_rule(eqn: JaxprEqn, zeros: Sequence[bool]) -> Rule:
    """The rule of a custom_jvp when some of the tangents are symbolic zeros."""
    jaxpr, consts, out_zeros = eqn.params["jvp_jaxpr_fun"].call_wrapped(*zeros)
    return Rule(_with_consts(jaxpr, consts), out_zeros)


def fwd_rule(eqn: JaxprEqn, nonzeros: Sequence[bool]) -> Rule:
    """The forward rule of a custom_vjp when some of the inputs are differentiated."""
    return Rule(_with_consts(*eqn.params["fwd_jaxpr_thunk"].call_wrapped(*nonzeros)))


def _with_consts(jaxpr: Any, consts: Sequence[Any]) -> Any:
    return jaxpr.with_consts(consts) if ONE_JAXPR_CLASS else ClosedJaxpr(jaxpr, list(consts))


def jvp_params(params: dict[str, Any], rule: Callable[..., Rule]) -> dict[str, Any]:
    """The params of a custom_jvp that say what its rule is."""

    def thunk(*zeros: bool) -> Any:
        jaxpr, out_zeros = rule(*zeros)
        return open_jaxpr(jaxpr), consts_of(jaxpr), list(out_zeros)

    info = params["jvp_jaxpr_fun"].debug_info
    return {"jvp_jaxpr_fun": _linear_util.wrap_init(_memoized(thunk), debug_info=info)}


def fwd_params(params: dict[str, Any], rule: Callable[..., Rule]) -> dict[str, Any]:
    """The params of a custom_vjp that say what its forward rule is."""

    def thunk(*nonzeros: bool) -> Any:
        jaxpr, _ = rule(*nonzeros)
        return open_jaxpr(jaxpr), consts_of(jaxpr)

    info = params["fwd_jaxpr_thunk"].debug_info
    return {"fwd_jaxpr_thunk": _linear_util.wrap_init(_memoized(thunk), debug_info=info)}


def vjp_params(
    params: dict[str, Any],
    rule: Callable[..., Rule],
    *,
    more_in: Sequence[Any],
    n_more_out: int,
) -> dict[str, Any]:
    """The params of a custom_vjp that say what its rules are, when it gets a longer signature.

    Args:
        params: The params as they are.
        rule: The new forward rule.
        more_in: The avals of the operands that come before those which the rules are about;
            these get no cotangents.
        n_more_out: The number of results that follow; their cotangents are dropped.
    """
    n_consts = params["num_consts"]
    old_trees, old_bwd = params["out_trees"], params["bwd"]

    def out_trees() -> Any:
        out_tree, res_tree, forwarded = old_trees()
        # Residuals that are inputs are given as the number of the operand.
        shift = len(more_in) - n_consts
        return out_tree, res_tree, [k if k is None else k + shift for k in forwarded]

    def bwd(*residuals_and_cotangents: Any) -> Any:
        kept = residuals_and_cotangents[: len(residuals_and_cotangents) - n_more_out]
        out = old_bwd.call_wrapped(*kept)
        zeros: list[Any] = [_ad_util.Zero(tangent_aval(aval)) for aval in more_in]
        # From 0.12 a backward rule also returns its logs.
        if isinstance(out, tuple) and len(out) == 2 and isinstance(out[0], (list, tuple)):
            return [*zeros, *out[0]], out[1]
        return [*zeros, *out]

    return {
        **fwd_params(params, rule),
        "out_trees": out_trees,
        "bwd": _linear_util.wrap_init(bwd, debug_info=old_bwd.debug_info),
    }


def _memoized(thunk: Callable[..., Any]) -> Callable[..., Any]:
    """Each rule is traced once, so that its jaxpr keeps its identity."""
    done: dict[Any, Any] = {}

    def once(*flags: bool) -> Any:
        if flags not in done:
            done[flags] = thunk(*flags)
        return done[flags]

    return once


def bind(prim: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Bind a call-like primitive with eqn params; always a list of results."""
    bound = prim.get_bind_params(params)
    # Until 0.10 `get_bind_params` returns (subfuns, params), later only params.
    subfuns, bind_params = bound if isinstance(bound, tuple) else ([], bound)
    out = prim.bind(*subfuns, *operands, **bind_params)
    return list(out) if prim.multiple_results else [out]


class _TagEffect(_effects.Effect):
    """Marks a kept tag, so that dead code elimination leaves it in place."""

    def __repr__(self) -> str:
        return "taxpr.keep"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TagEffect)

    def __hash__(self) -> int:
        return hash(_TagEffect)


tag_effect = _TagEffect()

# Each of these sets names the effects that one part of JAX lets through.
for _allowed in (
    _effects.lowerable_effects,
    _effects.control_flow_allowed_effects,
    _effects.custom_derivatives_allowed_effects,
    _effects.remat_allowed_effects,
):
    _allowed.add_type(_TagEffect)


class Source(NamedTuple):
    """A place in the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def source_of(eqn: JaxprEqn) -> Source | None:
    """Where the user's code made this equation; None when it is not known."""
    frame = _source_info_util.user_frame(eqn.source_info.traceback)
    if frame is None:
        return None
    return Source(frame.file_name, frame.start_line, frame.function_name)


def scope_of(eqn: JaxprEqn) -> str:
    """The name stack of an equation, such as ``"block_0/attention"``."""
    return str(eqn.source_info.name_stack)


def scope_parts(eqn: JaxprEqn) -> list[tuple[str, str]]:
    """The components of `scope_of`, each as it is shown and without transformations.

    For ``"jvp(block_0)/attention"`` these are ``("jvp(block_0)", "block_0")`` and
    ``("attention", "attention")``.
    """
    parts: list[tuple[str, str]] = []
    around: list[str] = []
    for element in eqn.source_info.name_stack.stack:
        if not isinstance(element, _source_info_util.Scope):
            around.append(element.name)
            continue
        for name in element.name.split("/"):
            shown = name
            for transformation in reversed(around):
                shown = f"{transformation}({shown})"
            parts.append((shown, name))
            around = []
    return parts


_source_info_util.register_exclusion(os.path.dirname(__file__))


_printing = threading.Lock()


def var_names(jaxpr: Any) -> dict[Var, str]:
    """The letters with which ``print(jaxpr)`` shows the variables of a program or jaxpr."""
    inner = open_jaxpr(getattr(jaxpr, "jaxpr", jaxpr))
    made: list[Any] = []

    class Context(_core.JaxprPpContext):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    # The printer keeps the letters in a context that it makes itself. Which letters it
    # gives depends on which nested jaxprs it lists first, and that differs by version.
    with _printing:
        original, _core.JaxprPpContext = _core.JaxprPpContext, Context
        try:
            _core.pp_toplevel_jaxpr(inner)
        finally:
            _core.JaxprPpContext = original
    return {var: str(name) for var, name in made[0].var_names.items()}


def moved_effects(effects: Any, now: Mapping[Any, Any]) -> Any:
    """The effects of an equation whose variables are replaced.

    From 0.10 an effect on a Ref names the variable of the Ref; before, its position.
    """

    def moved(effect: Any) -> Any:
        var = getattr(effect, "input", None)
        return effect.replace(now[var]) if isinstance(var, Var) and var in now else effect

    return {moved(effect) for effect in effects} if effects else effects


def strong(aval: Any) -> Any:
    """The aval without its weak type."""
    return aval.update(weak_type=False) if getattr(aval, "weak_type", False) else aval


def with_weak_type(x: Any, weak: bool) -> Any:
    """``x`` with the given weak type; its dtype stays."""
    if bool(getattr(jax.typeof(x), "weak_type", False)) == weak:
        return x
    if not weak:
        return jax.lax.convert_element_type(x, jax.typeof(x).dtype)
    return jax.lax.convert_element_type_p.bind(
        x, new_dtype=jax.typeof(x).dtype, weak_type=True, sharding=None
    )
