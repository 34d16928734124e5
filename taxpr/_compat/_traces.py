"""What is being traced, by which transformations, at the moment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from jax._src import config as _config
from jax._src import core as _core
from jax._src import source_info_util as _source_info_util
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import partial_eval as _partial_eval

from taxpr._compat._names import Source


class Layer(NamedTuple):
    """One transformation under way.

    Attributes:
        kind: ``"jaxpr"`` where a jaxpr is made, ``"ad"``, ``"batch"``, or ``"other"``.
        name: Of a jaxpr what it is made for, such as ``"scan"``; else the name of the class.
        trace: JAX's own object.
    """

    kind: str
    name: str
    trace: Any


_KINDS = (
    (_partial_eval.DynamicJaxprTrace, "jaxpr"),
    (_ad.JVPTrace, "ad"),
    (_ad.LinearizeTrace, "ad"),
    (_batching.BatchTrace, "batch"),
)


def current_trace() -> Any:
    """What the next equation would be given to; None where JAX runs it at once."""
    trace = _core.trace_ctx.trace
    return None if isinstance(trace, _core.EvalTrace) else trace


def layers(until: Any = None) -> list[Layer]:
    """The transformations under way, innermost first, as far as the trace ``until``.

    None where JAX runs what it is given at once.
    """
    found: list[Layer] = []
    trace, callers = current_trace(), None
    if trace is None:
        return found
    while until is None or trace is not until:
        if trace is None or isinstance(trace, _core.EvalTrace):
            # While JAX traces the function of a custom_jvp or custom_vjp, or a shard_map, the new
            # trace does not know of the outer one, which is among the callers.
            callers = _traces_of_callers() if callers is None else callers
            seen = [layer.trace for layer in found]
            trace = next((one for one in callers if all(one is not old for old in seen)), None)
            if trace is None:
                break
            continue
        found.append(Layer(_kind(trace), _name(trace), trace))
        trace = getattr(trace, "parent_trace", None)
    return found


def _kind(trace: Any) -> str:
    return next((kind for cls, kind in _KINDS if isinstance(trace, cls)), "other")


def _name(trace: Any) -> str:
    info = getattr(getattr(trace, "frame", None), "debug_info", None)
    return getattr(info, "traced_for", None) or type(trace).__name__


def in_forward_rule() -> bool:
    """Whether JAX runs the forward rule of a custom_vjp, as it differentiates the function."""
    return any(_kind(trace) == "ad" for trace in _traces_of_callers("process_custom_vjp_call"))


def _traces_of_callers(method: str = "process_") -> list[Any]:
    found, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name.startswith(method):
            trace = frame.f_locals.get("self")
            if isinstance(trace, _core.Trace) and not isinstance(trace, _core.EvalTrace):
                found.append(trace)
        frame = frame.f_back
    return found


def with_axes(axis_env: Sequence[tuple[Any, int]]) -> Any:
    """A context in which collectives along these named axes can be traced."""
    return _core.extend_axis_env_nd(axis_env)


def source_here() -> Source | None:
    """The line of the user's code that is being run."""
    frame = _source_info_util.user_frame(_source_info_util.current().traceback)
    return Source(frame.file_name, frame.start_line, frame.function_name) if frame else None


def is_tracer(x: Any) -> bool:
    """Whether a value stands for another one, in some trace."""
    return isinstance(x, _core.Tracer)


def trace_key() -> Any:
    """The settings on which it depends what a function is traced to; hashable."""
    return _config.trace_context()
