"""Trace and replace the rules of custom_jvp and custom_vjp; note what they make."""

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax.interpreters.ad import Zero

from taxpr._compat._avals import aval_of, tangent_aval
from taxpr._compat._jaxprs import CLOSED, ONE_JAXPR_CLASS, consts_of, open_jaxpr, rebuilt
from taxpr._compat._primitives import custom_vjp_call_p
from taxpr._compat._private import or_else, private
from taxpr._compat._types import Array, Aval, ClosedJaxpr, JaxprEqn, Literal, Params, is_tuple

_linear_util = private("linear_util")
_source_info_util = private("source_info_util")
_ad = private("interpreters.ad")


def closed_over_error() -> Exception:
    """The error of JAX if a value that a custom_vjp function closed over is differentiated."""
    return _ad.CustomVJPException()


class TracedRule(NamedTuple):
    """A traced rule of an equation.

    Attributes:
        jaxpr: A closed jaxpr. A jvp rule goes from primals and nonzero tangents to primals and
            tangents; a forward rule from primals to residuals and primals.
        out_zeros: For a jvp rule, which output tangents are symbolic zeros and so left out.
    """

    jaxpr: ClosedJaxpr
    out_zeros: Sequence[bool] = ()


def all_differentiated(eqn: JaxprEqn) -> list[bool]:
    """The flags for `jvp_rule` or `fwd_rule` with all differentiable inputs differentiated."""
    avals = [aval_of(atom) for atom in eqn.invars[eqn.params["num_consts"] :]]
    varied = [tangent_aval(aval).dtype != jax.dtypes.float0 for aval in avals]
    if eqn.primitive is custom_vjp_call_p:
        return varied
    # A rule without symbolic zeros gets all tangents, including zeros.
    return [eqn.params["symbolic_zeros"] and not varies for varies in varied]


def jvp_rule(eqn: JaxprEqn, zeros: Sequence[bool]) -> TracedRule:
    """Trace the rule of a custom_jvp; ``zeros`` says which tangents are symbolic zeros."""
    with _lines_of_its_own():
        jaxpr, consts, out_zeros = eqn.params["jvp_jaxpr_fun"].call_wrapped(*zeros)
    return TracedRule(_with_consts(jaxpr, consts), out_zeros)


def fwd_rule(eqn: JaxprEqn, nonzeros: Sequence[bool]) -> TracedRule:
    """Trace the forward rule of a custom_vjp; ``nonzeros`` says which inputs have tangents."""
    if not eqn.params["symbolic_zeros"]:
        # The rule does not look at the flags, so one trace serves all of them.
        nonzeros = [True] * len(nonzeros)
    with _lines_of_its_own():
        return TracedRule(_with_consts(*eqn.params["fwd_jaxpr_thunk"].call_wrapped(*nonzeros)))


@contextlib.contextmanager
def _lines_of_its_own() -> Generator[None, None, None]:
    """Let newly traced equations have their own source lines.

    While JAX evaluates an equation, it gives the line of that equation to all that is traced. No
    public function ends this. The setting belongs to the current thread.
    """
    with _coming_from(lambda before: _source_info_util.SourceInfo(None, before.name_stack)):
        yield


def _info_here() -> Any:
    return _source_info_util.SourceInfo and _source_info_util._source_info_context


@contextlib.contextmanager
def _coming_from(new: Callable[[Any], Any]) -> Generator[None, None, None]:
    """Set the origin of all equations traced now, made of the present origin."""
    here = or_else(_info_here, None)
    if here is None:
        yield
        return
    before = here.context
    here.context = new(before)
    try:
        yield
    finally:
        here.context = before


def origin() -> Any:
    """The origin of an equation that is made now; None if this JAX does not tell."""
    return or_else(lambda: _source_info_util.current(), None)


def coming_from(origin: Any) -> AbstractContextManager[None]:
    """A context that gives all equations this `origin`."""
    return contextlib.nullcontext() if origin is None else _coming_from(lambda before: origin)


def _with_consts(jaxpr: Any, consts: Sequence[Array]) -> ClosedJaxpr:
    return jaxpr.with_consts(consts) if ONE_JAXPR_CLASS else CLOSED(jaxpr, list(consts))


def with_known_residuals(new: TracedRule, old: TracedRule, n_out: int) -> TracedRule:
    """The new forward rule, with those residuals of the old rule that are known at trace time.

    JAX gives such residuals to the backward rule as Python values or NumPy arrays, and the rule may
    branch on them, for example on a bool that says what is differentiated. ``n_out`` is the number
    of results of the old rule that are no residuals.
    """
    inner, known = open_jaxpr(new.jaxpr), open_jaxpr(old.jaxpr)
    consts = dict(zip(known.constvars, consts_of(old.jaxpr), strict=True))
    outvars = list(inner.outvars)
    for k, atom in enumerate(known.outvars[: len(known.outvars) - n_out]):
        if isinstance(atom, Literal) or atom in consts:
            outvars[k] = atom
    used = [var for var in consts if any(var is atom for atom in outvars)]
    jaxpr = rebuilt(
        new.jaxpr,
        eqns=inner.eqns,
        outvars=outvars,
        constvars=[*inner.constvars, *used],
        consts=[*consts_of(new.jaxpr), *(consts[var] for var in used)],
    )
    return new._replace(jaxpr=jaxpr)


def jvp_params(params: Params, rule: Callable[..., TracedRule]) -> Params:
    """The params of a custom_jvp that hold its rule."""

    def thunk(*zeros: bool) -> Any:
        jaxpr, out_zeros = rule(*zeros)
        return open_jaxpr(jaxpr), consts_of(jaxpr), list(out_zeros)

    info = params["jvp_jaxpr_fun"].debug_info
    return {"jvp_jaxpr_fun": _linear_util.wrap_init(_memoized(thunk), debug_info=info)}


def fwd_params(params: Params, rule: Callable[..., TracedRule]) -> Params:
    """The params of a custom_vjp that hold its forward rule."""

    def thunk(*nonzeros: bool) -> Any:
        jaxpr, _ = rule(*nonzeros)
        return open_jaxpr(jaxpr), consts_of(jaxpr)

    info = params["fwd_jaxpr_thunk"].debug_info
    return {"fwd_jaxpr_thunk": _linear_util.wrap_init(_memoized(thunk), debug_info=info)}


def vjp_params(
    params: Params,
    rule: Callable[..., TracedRule],
    *,
    more_in: Sequence[Aval],
    n_more_out: int,
) -> Params:
    """The params of a custom_vjp that hold its rules, for a longer signature.

    Args:
        params: The present params.
        rule: The new forward rule.
        more_in: The avals of new leading operands, which get no cotangents.
        n_more_out: The number of new trailing results, whose cotangents are dropped.
    """
    n_consts = params["num_consts"]
    old_trees, old_bwd = params["out_trees"], params["bwd"]

    def out_trees() -> Any:
        out_tree, res_tree, forwarded = old_trees()
        # A residual that is an input is given as the index of the operand.
        shift = len(more_in) - n_consts
        return out_tree, res_tree, [k if k is None else k + shift for k in forwarded]

    def bwd(*residuals_and_cotangents: Any) -> Any:
        kept = residuals_and_cotangents[: len(residuals_and_cotangents) - n_more_out]
        out = old_bwd.call_wrapped(*kept)
        zeros: list[Any] = [Zero(tangent_aval(aval)) for aval in more_in]
        # From 0.12 a backward rule also returns its logs.
        if is_tuple(out) and len(out) == 2 and isinstance(out[0], (list, tuple)):
            return [*zeros, *out[0]], out[1]
        return [*zeros, *out]

    return {
        **fwd_params(params, rule),
        "out_trees": out_trees,
        "bwd": _linear_util.wrap_init(bwd, debug_info=old_bwd.debug_info),
    }


def bwd_params(params: Params, around: Callable[[], AbstractContextManager[None]]) -> Params:
    """The params of a custom_vjp whose backward rule runs inside the context ``around()``."""
    old = params["bwd"]

    def bwd(*residuals_and_cotangents: Any) -> Any:
        with around():
            return old.call_wrapped(*residuals_and_cotangents)

    return {"bwd": _linear_util.wrap_init(bwd, debug_info=old.debug_info)}


def rule_names(eqn: JaxprEqn) -> tuple[tuple[str, str], ...]:
    """The rules of a custom_jvp or custom_vjp, each with the name of the user's function."""
    params = {"jvp": "jvp_jaxpr_fun", "fwd": "fwd_jaxpr_thunk", "bwd": "bwd"}
    infos = (
        (kind, getattr(eqn.params.get(param), "debug_info", None)) for kind, param in params.items()
    )
    return tuple((kind, info.func_name) for kind, info in infos if info is not None)


def rule_places(eqn: JaxprEqn) -> list[tuple[str, str, int]]:
    """The rules of a custom_jvp or custom_vjp: the name, the file and the line of each."""
    found: list[tuple[str, str, int]] = []
    for param in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd"):
        info = getattr(eqn.params.get(param), "debug_info", None)
        name, _, place = (getattr(info, "func_src_info", None) or "").partition(" at ")
        file, _, line = place.rpartition(":")
        if name and line.isdigit():
            found.append((name, file, int(line)))
    return found


def _memoized(thunk: Callable[..., Any]) -> Callable[..., Any]:
    """Trace each rule only once for the same flags, so that its jaxpr keeps its identity."""
    done: dict[Any, Any] = {}

    def once(*flags: bool) -> Any:
        if flags not in done:
            new = thunk(*flags)
            done.setdefault(flags, new)  # another thread may have been faster
        return done[flags]

    return once


class RanIn:
    """In the name stack of an equation: the functions that ran for a rule of the user's.

    JAX gives the equations of a rule such as ``bwd`` the traceback of the call that has the rule. A
    name stack follows an equation through all transformations; if a jaxpr replaces its equation,
    both name stacks are joined.

    Args:
        traceback: The traceback of the equation.
        count: How many frames there are since the rule began.
        run: An object shared by all equations of one run of the rule.
        stack: The name stack around the rule.
    """

    __slots__ = ("_count", "_traceback", "run", "transposed")
    name = ""  # which scopes and transformations have

    def __init__(self, traceback: Any, count: int, run: object, stack: Any) -> None:
        self._traceback, self._count = traceback, count
        self.run, self.transposed = run, transposed(stack)

    def wrap(self, stack: list[str]) -> None:
        """Written in a name stack, it is nothing."""

    def frames(self) -> tuple[Sequence[CodeType], Sequence[int]]:
        """The functions of the rule that ran, innermost first, and the instructions."""
        codes, instructions = self._traceback.raw_frames()
        return codes[: self._count], instructions[: self._count]


def transposed(stack: Any) -> int:
    """How many transpositions a name stack has."""
    return sum(one.name == "transpose" and type(one) is not RanIn for one in stack.stack)


@contextlib.contextmanager
def rules_noted() -> Generator[None, None, None]:
    """While something is traced in this context, equations of rules get a `RanIn`."""

    def noting(before: Any) -> Any:
        inner = before.traceback is not None or isinstance(before, _Noting)
        return before if inner else _Noting(before.name_stack, None, None, None)

    with _coming_from(noting):
        yield


if TYPE_CHECKING:
    from jax._src.source_info_util import SourceInfo as _SourceInfo
else:
    _SourceInfo = getattr(_source_info_util, "SourceInfo", object)


class _Noting(_SourceInfo):
    """The origin of the equations traced now; JAX asks `replace` for each equation.

    Attributes:
        called: The traceback of the equation that JAX makes all equations from now, and that may
            have a rule of the user's; None while it makes them of running code.
    """

    __slots__ = ("_begun", "_run", "called")

    def __init__(self, stack: Any, called: Any, begun: FrameType | None, run: object) -> None:
        super().__init__(None, stack)  # so that the traceback is taken anew each time
        self.called, self._begun, self._run = called, begun, run

    def replace(self, **given: Any) -> Any:
        stack = given.get("name_stack")
        stack = self.name_stack if stack is None else stack
        if "name_stack" not in given:
            return self._of_eqn(given["traceback"])
        if given.get("traceback") is None:
            return _Noting(stack, self.called, self._begun, self._run)
        enter = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        return _Noting(stack, given["traceback"], enter.f_back, object())

    def _of_eqn(self, traceback: Any) -> Any:
        if self.called is None:
            return _source_info_util.SourceInfo(traceback, self.name_stack)
        count = 0
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame is not self._begun and not _jits(frame):
            count, frame = count + 1, frame.f_back
        if frame is not self._begun:  # others will call this function from other lines
            return _source_info_util.SourceInfo(traceback, self.name_stack)
        codes, stack = traceback.raw_frames()[0][:count], self.name_stack
        if any(_source_info_util.is_user_filename(code.co_filename) for code in codes):
            note: Any = RanIn(traceback, count, self._run, stack)
            stack = _source_info_util.NameStack((*stack.stack, note))
        return _source_info_util.SourceInfo(self.called, stack)


def _jits(frame: FrameType) -> bool:
    """Whether a function is traced for `jax.jit`, which others will call, too."""
    if not frame.f_code.co_name.startswith("trace_to_jaxpr"):
        return False
    info = getattr(getattr(frame.f_locals.get("trace"), "frame", None), "debug_info", None)
    return getattr(info, "traced_for", None) == "jit"
