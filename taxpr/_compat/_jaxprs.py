"""Read and rebuild jaxprs, open or closed, in one way for all versions of JAX."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from taxpr._compat._avals import ShapedArray, with_weak_type
from taxpr._compat._primitives import add_any_p
from taxpr._compat._private import private
from taxpr._compat._types import (
    AbstractValue,
    Array,
    Atom,
    ClosedJaxpr,
    DropVar,
    J,
    Jaxpr,
    JaxprEqn,
    Literal,
    PyTree,
    StoredJaxpr,
    Var,
)
from taxpr._untyped import jax as _jax

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_core = private("core")
_literals = private("literals")
_source_info_util = private("source_info_util")
_pe = private("interpreters.partial_eval")

# Up to 0.10 `Jaxpr` (open) and `ClosedJaxpr` (with its consts) are two classes. From 0.11 there is
# one class, which may hold consts.
CLOSED: Any = getattr(_core, "ClosedJaxpr", Jaxpr)
ONE_JAXPR_CLASS = Jaxpr is CLOSED

# See `_with_sums`. From 0.8 literals hold arrays of another class.
_SUMS_LACK_LITERALS = hasattr(_literals, "LiteralArray")


# Functions of JAX, with types. `jax.make_jaxpr` is here without and with the shapes of the results.
make_jaxpr: Callable[[Callable[..., object]], Callable[..., ClosedJaxpr]] = _jax.make_jaxpr
make_jaxpr_and_shapes: Callable[..., Callable[..., tuple[ClosedJaxpr, PyTree]]]
make_jaxpr_and_shapes = functools.partial(_jax.make_jaxpr, return_shape=True)
grad: Callable[[Callable[..., object]], Callable[..., Any]] = _jax.grad
jit: Callable[[Callable[..., object]], jax.stages.Wrapped] = _jax.jit
# `jax.jvp` of a function with a list of arrays.
jvp: Callable[..., tuple[list[Array], list[Array]]] = _jax.jvp
optimization_barrier: Callable[[PyTree], PyTree] = _jax.lax.optimization_barrier
# `jax.tree.map` over the leaves of one tree, and over those of two.
map_leaves: Callable[[Callable[[Array], object], PyTree], PyTree] = jax.tree.map
map_pairs: Callable[[Callable[[Array, Array], object], PyTree, PyTree], PyTree] = jax.tree.map


def traced(function: Callable[..., object], *avals: PyTree) -> jax.stages.Traced:
    """A function as `jax.jit` traces it."""
    return _jax.jit(function).trace(*avals)


def is_jaxpr(value: object) -> TypeIs[StoredJaxpr]:
    """Whether ``value`` is a jaxpr, open or closed."""
    return isinstance(value, (Jaxpr, CLOSED))


def open_jaxpr(jaxpr: StoredJaxpr) -> Jaxpr:
    """The open view of a jaxpr: eqns, invars, outvars, constvars."""
    return jaxpr if isinstance(jaxpr, Jaxpr) else jaxpr.jaxpr


def consts_of(jaxpr: StoredJaxpr) -> Sequence[Array]:
    """The values of the constvars; empty for an open jaxpr."""
    # From 0.11 a jaxpr without bound consts has `consts` None or ().
    return getattr(jaxpr, "consts", None) or ()


def without_dead(jaxpr: Any) -> Any:
    """The open jaxpr without equations whose results nobody uses and that have no effect."""
    inner = open_jaxpr(jaxpr)
    return _pe.dce_jaxpr(inner, [True] * len(inner.outvars), instantiate=True)[0]


def used_inputs(jaxpr: Any, first: int) -> list[bool]:
    """Which inputs a jaxpr uses for effects and for its results from number ``first`` on."""
    inner = open_jaxpr(jaxpr)
    wanted = [k >= first for k in range(len(inner.outvars))]
    return list(_pe.dce_jaxpr(inner, wanted, instantiate=False)[1])


def rebuilt(
    jaxpr: J,
    *,
    eqns: Sequence[JaxprEqn],
    invars: Sequence[Var] | None = None,
    outvars: Sequence[Atom] | None = None,
    constvars: Sequence[Var] | None = None,
    consts: Sequence[Array] | None = None,
) -> J:
    """The jaxpr with other parts and recomputed effects. A closed jaxpr stays closed.

    In the debug info new leading arguments get empty names. The results keep their names if their
    number stays the same.
    """
    inner = open_jaxpr(jaxpr)
    replaceable: Any = inner
    invars = list(inner.invars if invars is None else invars)
    outvars = list(inner.outvars if outvars is None else outvars)
    constvars = list(inner.constvars if constvars is None else constvars)
    debug: Any = inner.debug_info
    if debug.arg_names is not None and len(debug.arg_names) != len(invars):
        # Empty strings and not None: the derivative of a while loop appends to these names.
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
        return replaceable.replace(consts=values, **parts)
    new = replaceable.replace(**parts)
    return CLOSED(new, values) if isinstance(jaxpr, CLOSED) else new


def hoisted(jaxpr: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Array]]:
    """A closed jaxpr whose consts became leading arguments, and those consts.

    An injector may close over tracers. These are consts of the rebuilt jaxpr, and must enter a
    call-like equation as operands.
    """
    inner = open_jaxpr(jaxpr)
    consts = list(consts_of(jaxpr))
    if not consts:
        return jaxpr, []
    invars = [*inner.constvars, *inner.invars]
    new = rebuilt(jaxpr, eqns=inner.eqns, invars=invars, constvars=(), consts=())
    return new, consts


def closed(jaxpr: Any, consts: Sequence[Array] = ()) -> ClosedJaxpr:
    """Close an open jaxpr over ``consts``. A closed one stays as it is."""
    if ONE_JAXPR_CLASS:
        return jaxpr.replace(consts=list(consts)) if consts else jaxpr
    return jaxpr if isinstance(jaxpr, CLOSED) else CLOSED(jaxpr, list(consts))


def written_by_jax(jaxpr: StoredJaxpr) -> bool:
    """Whether the function that this jaxpr was traced from is known to belong to JAX."""
    file = open_jaxpr(jaxpr).debug_info.func_filename
    return file is not None and not _source_info_util.is_user_filename(file)


def function_of(jaxpr: StoredJaxpr) -> tuple[str, int] | None:
    """The file and first line of the function that this jaxpr was traced from, if known."""
    debug = open_jaxpr(jaxpr).debug_info
    file, line = debug.func_filename, debug.func_lineno
    return None if file is None or line is None else (file, line)


def as_stored(jaxpr: StoredJaxpr, like: StoredJaxpr) -> StoredJaxpr:
    """A jaxpr without consts, open or closed as ``like`` is, to be stored in the same param."""
    if isinstance(like, CLOSED):
        return jaxpr if isinstance(jaxpr, CLOSED) else CLOSED(jaxpr, ())
    return open_jaxpr(jaxpr)


def is_literal(atom: Any) -> TypeIs[Literal]:
    """Whether an operand is a literal and not a variable.

    Args:
        atom: One of the ``invars`` of an equation, or of the ``outvars`` of a jaxpr.

    Example:
        >>> from taxpr import is_literal, trace
        >>> [eqn] = trace(lambda x: x * 2.0)(1.0).eqns
        >>> [is_literal(atom) for atom in eqn.invars]
        [False, True]
    """
    return isinstance(atom, Literal)


def is_dropped(var: Atom) -> bool:
    """Whether JAX marked a result of an equation as unused.

    Up to 0.8 tracing marks all unused results; from 0.10 only some transformations do. ``print``
    shows unused results as ``_`` either way.

    Args:
        var: One of the ``outvars`` of an equation.

    Example:
        >>> from taxpr import is_dropped, trace
        >>> [eqn] = trace(lambda x: x + 1)(1.0).eqns
        >>> is_dropped(eqn.outvars[0])
        False
    """
    return isinstance(var, DropVar)


def fresh_var(aval: AbstractValue) -> Var:
    """A new variable."""
    return Var(aval)


def static_arguments(fun: object) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The positions and names of static arguments of `jax.jit`; empty for other functions.

    Those of a method are counted without the object that it is of.
    """
    info: Any = getattr(fun, "_jit_info", None)
    if info is None:
        return (), ()
    numbers, names = info.static_argnums, info.static_argnames
    if isinstance(fun, types.MethodType):
        own, *_ = inspect.signature(fun.__func__).parameters
        numbers = tuple(k - (k > 0) for k in numbers if k != 0)
        names = tuple(name for name in names if name != own)
    return numbers, names


def jaxpr_as_fun(jaxpr: ClosedJaxpr) -> Callable[..., list[Array]]:
    """A closed jaxpr as a function of flat arguments that always returns arrays."""
    run, outvars = _core.jaxpr_as_fun(_with_sums(jaxpr)), open_jaxpr(jaxpr).outvars

    def as_array(value: Any, aval: Any) -> Any:
        if isinstance(value, jax.Array) or not isinstance(aval, ShapedArray):
            return value
        # For a literal JAX returns the stored value, such as a `TypedFloat` (up to 0.7
        # `LiteralFloat`, without its weak type), for a const a closed-over numpy array.
        return with_weak_type(jnp.asarray(value, aval.dtype), aval.weak_type)

    return lambda *args: [
        as_array(value, atom.aval) for value, atom in zip(run(*args), outvars, strict=True)
    ]


def _with_sums(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with ``add`` instead of ``add_any`` if an operand is a literal.

    Up to 0.7 JAX cannot evaluate ``add_any`` of a literal: its table of array classes lacks the
    class of literals. The derivative of a skip connection has such an equation.
    """
    if not _SUMS_LACK_LITERALS:
        return jaxpr

    def run(eqn: JaxprEqn) -> JaxprEqn:
        lacking = eqn.primitive is add_any_p and isinstance(eqn.invars[0], Literal)
        return eqn.replace(primitive=jax.lax.add_p) if lacking else eqn

    inner = open_jaxpr(jaxpr)
    eqns = [run(eqn) for eqn in inner.eqns]
    changed = any(new is not old for new, old in zip(eqns, inner.eqns, strict=True))
    return rebuilt(jaxpr, eqns=eqns) if changed else jaxpr
