"""A program as far as it was traced when an error ended the trace.

The functions of the traceback show each jaxpr that JAX had begun, the calls that began it, and the
call that failed. The finished part of each jaxpr becomes its equations. After these comes an
equation for the call that was being traced, or that failed.
"""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from taxpr import _compat
from taxpr._compat import ClosedJaxpr, RunningCall, Source
from taxpr._errors import ArgumentError, a_type
from taxpr._places import with_cells
from taxpr._primitives.unfinished import Failure, failed_p, unfinished_p
from taxpr._programs.program import Program
from taxpr._source.files import is_users
from taxpr._source.own_modules import OwnModules
from taxpr._source.parsed import parsed_of

_KEPT_IN = "__taxpr_until__"


def until_error(error: BaseException) -> Program | None:
    """The program as far as it was traced when `trace` raised an error.

    Its last equation is the failure: see `failure_of`. If that happened in a loop, a branch or a
    jitted function, it is inside of that, and each program around it ends with an equation that is
    called unfinished. The program has no results and cannot run.

    Args:
        error: The error that `trace`, or another function that traces, raised.

    Returns:
        The program; None if nothing was being traced.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return jax.lax.map(lambda row: row @ y, x)
        >>> try:
        ...     taxpr.trace(f)(jnp.ones((2, 3)))
        ... except TypeError as error:
        ...     program = taxpr.until_error(error)
        >>> [address for address, _ in taxpr.introspect.iter_eqns(program)]
        ['0:sin', '1:unfinished', '1:unfinished/body/0:failed']
    """
    if not isinstance(error, BaseException):
        raise ArgumentError(
            f"until_error: {error!r} is {a_type(error)}, not an error. Give what `except "
            "Exception as error` caught."
        )
    return getattr(error, _KEPT_IN, None)


def keep_until(
    error: Exception, make: Callable[[ClosedJaxpr], Program], own: OwnModules | None = None
) -> None:
    """Keep the program so far with an error, for `until_error`.

    Args:
        error: The error, with the traceback of all functions that it went through.
        make: Makes a program of its jaxpr.
        own: Libraries whose functions count as the user's.
    """
    # An error of this must not take the place of the user's own; nor need it be kept in one
    # whose class has slots.
    with contextlib.suppress(Exception):
        jaxpr = _jaxpr_until(error, own)
        if jaxpr is not None:
            setattr(error, _KEPT_IN, make(jaxpr))


class _Open(NamedTuple):
    """A jaxpr that was being traced.

    Attributes:
        trace: JAX's trace.
        at: The number of the function that traces it, in the traceback.
    """

    trace: Any
    at: int


def _jaxpr_until(error: Exception, own: OwnModules | None) -> ClosedJaxpr | None:
    calls = list(_compat.calls_of(error.__traceback__))
    found = [_Open(trace, k) for k, c in enumerate(calls) if (trace := _compat.trace_of(c))]
    if not found:
        return None
    site = _site(calls, found[0].at + 1, len(calls), own)
    # What is traced for a function of JAX's own, such as `jnp.matmul`, is part of what failed.
    opened = [one for one in found if one.at <= (site or 0) or _is_outside(one.trace, own)]
    opened = [found[0], *(one for one in opened if one is not found[0])]
    return _Until(error, calls, opened, own).jaxpr()


def _is_outside(trace: Any, own: OwnModules | None) -> bool:
    file = _compat.about_jaxpr(_compat.begun(trace).bare.debug_info)[2]
    return is_users(file, own)


def _site(
    calls: Sequence[RunningCall], start: int, stop: int, own: OwnModules | None
) -> int | None:
    """The innermost function of the user among some calls, else of a library that is not JAX."""
    files = [calls[k].frame.f_code.co_filename for k in range(start, stop)]
    for wanted in (functools.partial(is_users, own=own), _compat.is_outside_jax):
        found = [start + k for k, file in enumerate(files) if wanted(file)]
        if found:
            return found[-1]
    return None


class _Until:
    """Makes a jaxpr of the jaxprs that were open when an error was raised.

    Args:
        error: The error.
        calls: The functions of its traceback, outermost first.
        opened: The open jaxprs, outermost first.
        own: Libraries whose functions count as the user's.
    """

    def __init__(
        self,
        error: Exception,
        calls: Sequence[RunningCall],
        opened: Sequence[_Open],
        own: OwnModules | None,
    ) -> None:
        self._error = error
        self._calls = calls
        self._opened = opened
        self._own = own

    def jaxpr(self) -> ClosedJaxpr:
        """The outermost jaxpr."""
        body, free = self._body(0)
        inner = _compat.open_jaxpr(body)
        invars = inner.invars[len(free) :]
        constvars = [*inner.constvars, *inner.invars[: len(free)]]
        consts = [*_compat.consts_of(body), *free]
        return _closed(inner, inner.eqns, invars, constvars, consts)

    def _body(self, k: int) -> tuple[ClosedJaxpr, list[Any]]:
        """An open jaxpr, closed, and its first inputs: the tracers of outer jaxprs."""
        trace, at = self._opened[k]
        begun = _compat.begun(trace)
        last = k + 1 == len(self._opened)
        stop = len(self._calls) if last else self._opened[k + 1].at
        site = _site(self._calls, at + 1, stop, self._own)
        given = self._given(trace, at, site, stop)
        if last:
            primitive, more = failed_p, []
            jaxprs = self._finished(site)
            failure = self._failure(site, given, begun)
        else:
            primitive, failure = unfinished_p, None
            body, more = self._body(k + 1)
            jaxprs = (body,)
        atoms = _Atoms(trace, begun)
        operands = [atoms.of(value) for value in (*more, *given)]
        first = len(more)
        feeds = tuple(
            (
                *range(first),
                *_feeds(operands[first:], _compat.open_jaxpr(one).invars[first:], first),
            )
            for one in jaxprs
        )
        if not last:  # what chooses a branch, and the like, is left out
            operands = [operands[k] for k in feeds[0] if k is not None]
            number = iter(range(len(operands)))
            feeds = (tuple(None if k is None else next(number) for k in feeds[0]),)
        codes = self._calls[at + 1 : (len(self._calls) - 1 if site is None else site) + 1]
        here = self._calls[site].frame.f_code if site is not None else None
        made_there = (e for e in reversed(begun.eqns) if here in _compat.frames_of(e)[0])
        params = {"jaxprs": jaxprs, "feeds": feeds, "failure": failure}
        eqn = _compat.eqn_at(codes, next(made_there, None), operands, primitive, params)
        free = [(v, c) for v, c in atoms.consts if _compat.is_tracer(c)]
        own = [(v, c) for v, c in atoms.consts if not _compat.is_tracer(c)]
        invars = [*(var for var, _ in free), *begun.bare.invars]
        own_vars, own_consts = [var for var, _ in own], [const for _, const in own]
        made = _closed(begun.bare, [*begun.eqns, eqn], invars, own_vars, own_consts)
        return made, [tracer for _, tracer in free]

    def _given(self, trace: Any, at: int, site: int | None, stop: int) -> list[Any]:
        """The arrays that the user's function gave to the function that it called.

        If no function of the user's was running, the arrays of a function of JAX.
        """
        if site is not None:
            return _arrays(self._calls[site + 1]) if site + 1 < stop else []
        found = (_arrays(call) for call in reversed(self._calls[at + 1 : stop]))
        own = ([x for x in arrays if _atom(trace, x) is not None] for arrays in found)
        nothing: list[Any] = []
        return next(filter(None, own), nothing)

    def _finished(self, site: int | None) -> tuple[ClosedJaxpr, ...]:
        """The jaxprs that the failed function had already traced, as a scan its body."""
        after = self._calls[len(self._calls) if site is None else site + 1 :]
        return next(filter(None, (tuple(_compat.jaxprs_held(call)) for call in after)), ())

    def _failure(self, site: int | None, given: Sequence[Any], begun: _compat.Begun) -> Failure:
        message = with_cells(str(self._error).strip())
        kind = type(self._error)
        types = [jax.typeof(value).str_short(short_dtypes=True) for value in given]
        if site is None:  # of what the function returned
            _, function, file = _compat.about_jaxpr(begun.bare.debug_info)
            line = (_compat.function_of(begun.bare) or ("", 0))[1]
            source = Source(file, line, function) if is_users(file, self._own) else None
            return Failure(kind, message, "", tuple(("", text) for text in types), source)
        frame, instruction = self._calls[site]
        code = frame.f_code
        known = {**frame.f_globals, **frame.f_locals}
        names = {id(value): name for name, value in known.items()}
        operands = [(names.get(id(v), ""), text) for v, text in zip(given, types, strict=True)]
        line, text = _expression(code, instruction)
        source = Source(code.co_filename, line, code.co_qualname)
        return Failure(kind, message, text, tuple(operands), source)


def _closed(like: Any, eqns: Any, invars: Any, constvars: Any, consts: Any) -> ClosedJaxpr:
    made = _compat.rebuilt(like, eqns=eqns, invars=invars, constvars=constvars, consts=consts)
    return _compat.closed(made, consts)


def _arrays(call: RunningCall) -> list[Any]:
    """The arrays among the arguments of a function."""
    leaves = jax.tree.leaves(_compat.arguments(call))
    return [leaf for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray)]


def _atom(trace: Any, value: Any) -> Any:
    """The variable or literal of a value in a trace; None if it comes from outside."""
    if not _compat.is_tracer(value):
        return None
    # Within a derivative or a vmap, the tracer of the jaxpr is that of the primal.
    tracer = _compat.traced_value(value)[0]
    return _compat.atom_in(trace, value if tracer is None else tracer)


class _Atoms:
    """The variables of an open jaxpr, and its constants.

    Attributes:
        consts: The variables of the constants, and their values.
    """

    def __init__(self, trace: Any, begun: _compat.Begun) -> None:
        self.consts = list(zip(begun.constvars, begun.consts, strict=True))
        self._trace = trace

    def of(self, value: Any) -> Any:
        """The variable or literal of a value; a new constant if it comes from outside."""
        atom = _atom(self._trace, value)
        if atom is None:
            atom = next((var for var, known in self.consts if known is value), None)
        if atom is None:
            atom = _compat.fresh_var(jax.typeof(value))
            self.consts.append((atom, value))
        return atom


def _feeds(operands: Sequence[Any], invars: Sequence[Any], first: int) -> list[int | None]:
    """The operand that feeds each input of a function, as far as the types tell.

    The last operands of a loop or a call are the arguments of its function, a loop's ``xs`` with
    one axis more.
    """
    before = len(operands) - len(invars)

    def fits(operand: Any, var: Any) -> bool:
        outer, inner = (getattr(one.aval, "shape", None) for one in (operand, var))
        return outer is not None and inner in (outer, outer[1:])

    if before < 0:
        return [None] * len(invars)
    pairs = zip(operands[before:], invars, strict=True)
    return [first + before + k if fits(*pair) else None for k, pair in enumerate(pairs)]


def _expression(code: Any, instruction: int) -> tuple[int, str]:
    """The line of an instruction, from 1, and the text of its expression, or ""."""
    found = list(code.co_positions())[instruction // 2]
    line = found[0] or code.co_firstlineno
    parsed = parsed_of(code)
    if None in found or parsed is None:
        return line, ""
    begin, end, column, end_column = found
    encoded = [text.encode() for text in parsed.lines[begin - 1 : end]]
    encoded[-1] = encoded[-1][:end_column]
    encoded[0] = encoded[0][column:]
    return line, " ".join(part.decode().strip() for part in encoded)
