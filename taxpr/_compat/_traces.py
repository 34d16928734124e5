"""The traces and transformations that are active now in this thread."""

import functools
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import jax.core
from jax.interpreters.ad import Zero as _Zero

from taxpr._compat._names import Source, source_in
from taxpr._compat._private import or_else, private
from taxpr._compat._types import Effects, Primitive

_config = private("config")
_core = private("core")
_source_info_util = private("source_info_util")
_ad = private("interpreters.ad")
_batching = private("interpreters.batching")
_partial_eval = private("interpreters.partial_eval")
_pjit = private("pjit")

_HOME = os.path.dirname(jax.__file__) + os.sep


class Layer(NamedTuple):
    """One active transformation.

    Attributes:
        kind: ``"jaxpr"`` for tracing to a jaxpr, ``"ad"``, ``"batch"``, or ``"other"``.
        name: For a jaxpr its purpose, such as ``"scan"``; otherwise the class name of the trace.
        trace: JAX's trace object.
    """

    kind: str
    name: str
    trace: Any


def _kinds() -> Iterator[tuple[type, str]]:
    yield _partial_eval.DynamicJaxprTrace, "jaxpr"
    yield _ad.JVPTrace, "ad"
    yield _ad.LinearizeTrace, "ad"
    yield _batching.BatchTrace, "batch"


def current_trace() -> Any:
    """The trace that would process the next equation; None if JAX would run it eagerly."""
    trace = _core.trace_ctx.trace
    return None if isinstance(trace, _core.EvalTrace) else trace


def layers(until: Any = None) -> list[Layer]:
    """The active transformations, innermost first, up to the trace ``until``.

    Empty if JAX runs equations eagerly.
    """
    found: list[Layer] = []
    trace, callers = current_trace(), None
    if trace is None:
        return found
    while until is None or trace is not until:
        if trace is None or isinstance(trace, _core.EvalTrace):
            # While JAX traces the function of a custom_jvp, custom_vjp or shard_map, the new trace
            # has no link to the outer one. Find that among the callers.
            callers = _traces_of_callers() if callers is None else callers
            seen = [layer.trace for layer in found]
            trace = next((one for one in callers if all(one is not old for old in seen)), None)
            if trace is None:
                break
            continue
        found.append(Layer(_kind(trace), _name(trace), trace))
        trace = getattr(trace, "parent_trace", None)
    return found


def mapped(x: Any) -> bool | None:
    """Whether `jax.vmap` maps a value; None if it may: a jaxpr that it maps is made first."""
    tracer: type[Any] = jax.core.Tracer
    while isinstance(x, tracer):
        if isinstance(x, _batching.BatchTracer):
            return True
        if isinstance(current_trace(), _partial_eval.DynamicJaxprTrace):
            return None if any(layer.kind == "batch" for layer in layers()) else False
        x = getattr(x, "primal", None)  # while it is differentiated
    return False


def _kind(trace: Any) -> str:
    return next((kind for cls, kind in _kinds() if isinstance(trace, cls)), "other")


def _name(trace: Any) -> str:
    info = getattr(getattr(trace, "frame", None), "debug_info", None)
    return getattr(info, "traced_for", None) or type(trace).__name__


def in_forward_rule() -> bool:
    """Whether JAX is running the forward rule of a custom_vjp to differentiate its function."""
    return any(_kind(trace) == "ad" for trace in _traces_of_callers("process_custom_vjp_call"))


def _traces_of_callers(method: str = "process_") -> list[Any]:
    found: list[Any] = []
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_name.startswith(method):
            trace = frame.f_locals.get("self")
            if isinstance(trace, _core.Trace) and not isinstance(trace, _core.EvalTrace):
                found.append(trace)
        frame = frame.f_back
    return found


def with_axes(axis_env: Sequence[tuple[Hashable, int]]) -> AbstractContextManager[None]:
    """A context with these named axes, so that collectives along them can be traced."""
    return _core.extend_axis_env_nd(axis_env)


def source_here() -> Source | None:
    """The line of the user's code that is running."""
    return source_in(_source_info_util.current().traceback)


def is_tracer(x: object) -> bool:
    """Whether a value is a tracer."""
    return isinstance(x, jax.core.Tracer)


def is_traced_now(x: object) -> bool:
    """Whether a value is a tracer of the trace that would process the next equation."""
    untyped: Any = x
    return isinstance(x, jax.core.Tracer) and untyped._trace is current_trace()


def trace_key() -> Hashable:
    """The settings of JAX that affect tracing, hashable, for use in cache keys."""
    return or_else(lambda: _config.trace_context, object)()


def user_context() -> Callable[[Hashable], AbstractContextManager[None]]:
    """Makes contexts whose value JAX includes in the keys of its tracing caches."""
    untyped: Any = jax
    return untyped.make_user_context(None)


@functools.cache
def code_of_lookups() -> types.CodeType | None:
    """The code of JAX's function that looks up what a jitted function was traced to.

    All versions call it `_infer_params` and hand it the function as ``fun``, and ``args`` and
    ``kwargs``.
    """
    found: Any = or_else(lambda: _pjit._infer_params, None)
    return getattr(found, "__code__", None)


def is_jax_file(file: str) -> bool:
    """Whether a file belongs to JAX."""
    return file.startswith(_HOME)


def is_tracer_type(kind: type) -> bool:
    """Whether values of a class are tracers."""
    return issubclass(kind, jax.core.Tracer)


def innermost_jaxpr_trace(trace: Any = None) -> Any:
    """The trace whose jaxpr gets the next equation, of another trace or now; None without one."""
    trace = current_trace() if trace is None else trace
    while trace is not None and not isinstance(trace, _partial_eval.DynamicJaxprTrace):
        trace = getattr(trace, "parent_trace", None)
    return trace


def traced_value(tracer: Any) -> tuple[Any, list[int], bool]:
    """The tracer of a jaxpr's variable beneath a tracer, its primal for a derivative.

    With it come the axes that `jax.vmap` has put into it, the innermost first, and whether it is
    differentiated. It is None if there is no such tracer, or it is no array.
    """
    axes: list[int] = []
    differentiated = False
    while not isinstance(tracer, _partial_eval.DynamicJaxprTracer):
        untyped: Any = tracer
        if isinstance(tracer, (_ad.JVPTracer, _ad.LinearizeTracer)):
            differentiated = differentiated or not isinstance(untyped.tangent, _Zero)
            tracer = untyped.primal
        elif isinstance(tracer, _batching.BatchTracer) and isinstance(
            untyped.batch_dim, int | None
        ):
            axes += [] if untyped.batch_dim is None else [untyped.batch_dim]
            tracer = untyped.val
        else:
            return None, [], False
    is_array = isinstance(tracer.aval, jax.core.ShapedArray)
    return tracer if is_array else None, axes, differentiated


def record(
    trace: Any,
    primitive: Primitive,
    values: Sequence[Any],
    params: dict[str, Any],
    effects: Effects,
) -> None:
    """Put an equation without results into the jaxpr of a trace, whatever is transformed within it.

    Args:
        trace: The trace.
        primitive: The equation's primitive.
        values: The operands, which are tracers of this trace.
        params: The equation's params.
        effects: The equation's effects. JAX is not asked for them, because it would keep a cache
            entry for params that no other equation has.
    """
    trace.emit_eqn(values, [], primitive, params, effects, _source_info_util.current())
