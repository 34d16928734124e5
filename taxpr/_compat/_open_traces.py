"""Read from the frames of a traceback how far JAX had traced when an error stopped it."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, TypeVar

from taxpr._compat._jaxprs import is_jaxpr, open_jaxpr, written_by_jax
from taxpr._compat._private import or_else, private
from taxpr._compat._types import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, StoredJaxpr, Var

_config = private("config")
_core = private("core")
_source_info_util = private("source_info_util")
_traceback_util = private("traceback_util")
_partial_eval = private("interpreters.partial_eval")

T = TypeVar("T")


class RunningCall(NamedTuple):
    """A function that was running when the error was raised.

    Attributes:
        frame: Its frame.
        instruction: The instruction that it had come to.
    """

    frame: FrameType
    instruction: int


class Begun(NamedTuple):
    """A jaxpr as far as it was traced.

    Attributes:
        eqns: Its equations.
        constvars: The variables of the values that its function closed over.
        consts: Their values: arrays, or tracers of a jaxpr around it.
        bare: A jaxpr of the same function with its inputs and nothing else.
    """

    eqns: list[JaxprEqn]
    constvars: list[Var]
    consts: list[Any]
    bare: Jaxpr


def traced_whole(trace: Callable[[], T], failed: Callable[[Exception], object]) -> T:
    """The result of ``trace``. If it raises, ``failed`` sees the error with all its frames.

    The caller gets the error with JAX's filter.
    """
    filtering = or_else(lambda: _config.traceback_filtering, contextlib.nullcontext)

    def run() -> T:
        with filtering("off"):
            try:
                return trace()
            except Exception as error:
                failed(error)
                raise

    filtered: Any = or_else(lambda: _traceback_util.api_boundary, _as_it_is)
    return filtered(run)()


def calls_of(traceback: TracebackType | None) -> Iterator[RunningCall]:
    """The functions of a traceback, outermost first."""
    while traceback is not None:
        yield RunningCall(traceback.tb_frame, traceback.tb_lasti)
        traceback = traceback.tb_next


def trace_of(call: RunningCall) -> Any:
    """The trace of a function of JAX that traces a jaxpr; None of any other."""
    # Their names differ, up to 0.8 `trace_to_jaxpr_dynamic`, then also without the ending.
    if not call.frame.f_code.co_name.startswith("trace_to_jaxpr"):
        return None
    trace = call.frame.f_locals.get("trace")
    return trace if isinstance(trace, _partial_eval.DynamicJaxprTrace) else None


def begun(trace: Any) -> Begun:
    """The jaxpr of a trace as far as it is done."""
    frame = trace.frame
    known = dict(frame.constvar_to_val)
    debug = frame.debug_info._replace(result_paths=None)  # these come when the function returns
    return Begun(
        eqns=frame.get_eqns(),
        constvars=list(known),
        # Up to 0.8 pairs of the value as JAX uses it and as it was given.
        consts=[getattr(value, "canonical", value) for value in known.values()],
        bare=_core.Jaxpr([], list(frame.invars), [], [], set(), debug),
    )


def atom_in(trace: Any, tracer: Any) -> Any:
    """The variable, or literal, of a tracer of this trace; None of any other value."""
    untyped: Any = tracer
    own = isinstance(tracer, _partial_eval.DynamicJaxprTracer) and untyped._trace is trace
    return untyped.val if own else None


def arguments(call: RunningCall) -> list[Any]:
    """The arguments of a call, in order, as the function holds them now."""
    info = inspect.getargvalues(call.frame)
    names = [*info.args, *filter(None, [info.varargs, info.keywords])]
    return [info.locals[name] for name in names if name in info.locals]


def jaxprs_held(call: RunningCall) -> list[ClosedJaxpr]:
    """The closed jaxprs that a function holds, in its variables."""
    held: Any = call.frame.f_locals.items()
    # `cond` holds ``true_jaxpr_``, and then ``true_jaxpr`` with the constants of both branches.
    found = {name.removesuffix("_"): v for name, v in held if is_jaxpr(v) and hasattr(v, "consts")}
    return list(found.values())


def about_jaxpr(debug_info: Any) -> tuple[str, str, str]:
    """The purpose of tracing a function, such as ``"scan"``, its name and its file."""
    name = (debug_info.func_src_info or "").split(" at ")[0]
    return debug_info.traced_for or "", name, debug_info.func_filename or ""


def user_function(jaxpr: StoredJaxpr) -> str:
    """The name of the user's function that this jaxpr was traced from; "" where it has none."""
    _, name, file = about_jaxpr(open_jaxpr(jaxpr).debug_info)
    return name if file and not written_by_jax(jaxpr) else ""


def _as_it_is(function: T) -> T:
    return function


class _Calls:
    """Takes the place of a traceback of JAX, so that an equation's sources can be read from it.

    Args:
        calls: The functions that were running, outermost first.
    """

    def __init__(self, calls: Sequence[RunningCall]) -> None:
        self._codes = [call.frame.f_code for call in reversed(calls)]
        self._instructions = [call.instruction for call in reversed(calls)]

    def raw_frames(self) -> tuple[list[CodeType], list[int]]:
        """The code of the functions, innermost first, and the instructions."""
        return self._codes, self._instructions

    def as_python_traceback(self) -> None:
        """None, for there is no frame to show: JAX asks when running the equation fails."""


def eqn_at(
    calls: Sequence[RunningCall],
    like: JaxprEqn | None,
    operands: Sequence[Any],
    primitive: Primitive,
    params: dict[str, Any],
) -> JaxprEqn:
    """An equation without results that these calls made.

    Args:
        calls: The functions that were running, outermost first.
        like: An equation whose name scopes it has, or None.
        operands: Its variables and literals.
        primitive: Its primitive.
        params: Its params.
    """
    stack: Any = like.source_info.name_stack if like else _source_info_util.NameStack()
    where: Any = _Calls(calls)
    source = _source_info_util.SourceInfo(where, stack)
    return _core.new_jaxpr_eqn(list(operands), [], primitive, params, set(), source)
