"""Hear of each trace and compile, and find the call of a jitted function that needed it.

JAX tells of both by `jax.monitoring`, but not whose call it was. The running frames say that:
frames of the function `cache_miss` of `jax.jit`, and the like.
"""

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import jax
import jax.monitoring

from taxpr._untyped import jax as _jax

_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
_HELLO = "/taxpr/hello"
_INNER = "call_impl_cache_miss"  # which a call that is differentiated or mapped has within it
_CALLS = "cache_miss", "jit_trace", "jit_lower", _INNER
_HOME = os.path.dirname(jax.__file__) + os.sep

_NO_OPTIONS = "fun_sourceinfo", "fun_signature", "use_resource_env"


def computes_checkpoints_once() -> bool:
    """Whether XLA computes once what `jax.checkpoint` computes again, outside of loops.

    On CPUs XLA dropped the barrier that keeps both apart before it merged equal instructions, up to
    0.11.0; from 0.11.1 it drops it later.
    """
    return jax.default_backend() == "cpu" and jax.__version_info__ < (0, 11, 1)


class JittedCall(NamedTuple):
    """A call of a jitted function that is running.

    Attributes:
        fun: The function that was jitted; None for JAX's own functions, as its transpose.
        args: Its arguments.
        kwargs: Its keyword arguments.
        options: The options of `jax.jit`, such as ``static_argnums``.
        key: A number that no other call has at the same time.
        caller: The frame that called it.
    """

    fun: Callable[..., Any] | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    key: int
    caller: FrameType | None


class Stage(NamedTuple):
    """Something that JAX has traced, lowered or compiled.

    Attributes:
        kind: ``"trace"``, ``"lower"`` or ``"compile"``.
        seconds: How long it took.
        name: JAX's name of the function.
        call: The outermost running call of a jitted function, or None.
        failed: Whether it raised.
    """

    kind: str
    seconds: float
    name: str
    call: JittedCall | None
    failed: bool = False


@functools.cache
def hands_on_donated() -> bool:
    """Whether XLA may use a donated argument for a result of another shape, or another dtype.

    Before 0.8 JAX handed XLA only those that a result of the same type takes, and warned of others.
    """
    reshape = _jax.jit(functools.partial(_jax.numpy.reshape, shape=4), donate_argnums=0)
    with jax.disable_jit(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return "jax.buffer_donor" in reshape.lower(_jax.numpy.zeros((2, 2))).as_text()


_listeners: list[Callable[[Stage], None]] = []
_heard: list[str] = []


def hear(listener: Callable[[Stage], None]) -> None:
    """Call a function after each trace, lowering and compile, until `hear_no_more`.

    Traces within the call of a jitted function, for its equations, are not told.
    """
    if listener not in _listeners:
        _listeners.append(listener)
    _heard.clear()
    jax.monitoring.record_event_duration_secs(_HELLO, 0.0)
    if not _heard:  # the first time, or somebody has taken all listeners away
        jax.monitoring.register_event_duration_secs_listener(_on_event)


def hear_no_more(listener: Callable[[Stage], None]) -> None:
    """End what `hear` began; JAX goes on to tell this module, which older ones cannot take back."""
    if listener in _listeners:
        _listeners.remove(listener)


def _on_event(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event == _HELLO:
        _heard.append(event)
    kind = _STAGES.get(event)
    if kind is None or not _listeners:
        return
    frames = _frames()
    if any(frame.f_code.co_name != _INNER for frame in frames[:-1]):
        return  # within the call of another one
    call = _call_of(frames[-1]) if frames else None
    stage = Stage(kind, duration_secs, str(kwargs.get("fun_name", "")), call, _has_raised(frames))
    for listener in list(_listeners):
        listener(stage)


def _frames() -> list[FrameType]:
    """The running calls of jitted functions, innermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = frame.f_code.co_name
        if name in _CALLS and frame.f_code.co_filename.startswith(_HOME):
            if name == "jit_lower" and found and found[-1].f_code.co_name == "jit_trace":
                found.pop()  # which it calls
            found.append(frame)
        frame = frame.f_back
    return found


def _has_raised(calls: Sequence[FrameType]) -> bool:
    """Whether the traced function raised: JAX tells its time in a ``finally``, too.

    An error that the user handles around the call came through other frames.
    """
    error, frame = sys.exception(), sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    through = {id(one) for one, _ in traceback.walk_tb(error.__traceback__ if error else None)}
    while frame is not None and frame not in calls:
        if id(frame) in through:
            return True
        frame = frame.f_back
    return False


def _call_of(frame: FrameType) -> JittedCall:
    known: Any = frame.f_locals
    jitted = known.get("jit_func")
    fun = known.get("fun") if jitted is None else getattr(jitted, "_fun", None)
    info: Any = known.get("jit_info") if jitted is None else getattr(jitted, "_jit_info", None)
    return JittedCall(
        fun if frame.f_code.co_name != _INNER else None,
        known.get("args", known.get("args_", ())),
        known.get("kwargs", known.get("kwargs_", {})),
        _options(info),
        id(frame),
        frame.f_back,
    )


def call_of_jitted(
    jitted: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> JittedCall | None:
    """A call as `hear` tells it, of a function of `jax.jit`; None of another function."""
    if not hasattr(jitted, "_cache_size"):
        return None
    info: Any = getattr(jitted, "_jit_info", None)
    return JittedCall(jitted.__wrapped__, args, kwargs, _options(info), 0, None)


def _options(info: Any) -> dict[str, Any]:
    fields = info._asdict() if hasattr(info, "_asdict") else dict(getattr(info, "__dict__", {}))
    return {name: value for name, value in fields.items() if name not in _NO_OPTIONS}


_KINDS = {
    "JVPTracer": "a derivative",
    "LinearizeTracer": "a derivative",
    "BatchTracer": "jax.vmap",
}


def without_transformations(x: Any) -> tuple[Any, tuple[str, ...]]:
    """A value, and the transformations under which a call got it, outermost last.

    Example:
        >>> import jax
        >>> seen = []
        >>> _ = jax.vmap(lambda x: seen.append(without_transformations(x)) or x)(jax.numpy.ones(3))
        >>> seen[0][0].shape, seen[0][1]
        ((3,), ('jax.vmap',))
    """
    names: list[str] = []
    while isinstance(x, _jax.core.Tracer):
        names.append(_KINDS.get(type(x).__name__, type(x).__name__))
        inner = getattr(x, "primal", getattr(x, "val", None))
        if inner is None:
            break
        x = inner
    return x, tuple(names)
