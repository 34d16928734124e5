"""The tangents of values while JAX differentiates: put an identity where one begins.

`jax.grad` and the like trace a linear program of tangents beside the values, and transpose it: what
flows back through an equation of it is a cotangent. A value of a jitted function or of a loop has
no tangent while it is traced; then the identity is put at the value itself.
"""

import bisect
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from taxpr._compat._own import ManyResults
from taxpr._compat._private import or_else, private
from taxpr._compat._traces import current_trace, innermost_jaxpr_trace, traced_value

_ad = private("interpreters.ad")
_batching = private("interpreters.batching")
_partial_eval = private("interpreters.partial_eval")
_util = private("util")


class Token:
    """The name of an identity, which JAX's transformations keep.

    Attributes:
        primal: Gives the value while it is traced.
    """

    def __init__(self) -> None:
        self.primal: Callable[[], Any] = lambda: None


# JAX keeps the types of results by the params of equations, and what is in this set only weakly.
or_else(lambda: _util.weakref_cache_key_types, set[type]()).add(Token)


class Identity(NamedTuple):
    """An identity: its primitives, at values and at tangents, and its params for a token."""

    at_value: ManyResults
    at_tangent: ManyResults
    params: Callable[[Token], dict[str, Any]]
    token: Callable[[dict[str, Any]], Token | None]


class Tangents:
    """Puts identities where the tangents of values begin.

    Several values may share a tangent, as ``x`` and ``x + 1`` do, so an equation that reads it does
    not tell which value it uses. Only its position tells: `look` notes how many equations there
    are. An equation that came after the value was made may be a use of it.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        # For each derivative, from time to time, the numbers of equations: of values, of tangents.
        self._counts: weakref.WeakKeyDictionary[Any, list[tuple[int, int]]]
        self._counts = weakref.WeakKeyDictionary()

    def look(self) -> None:
        """Note how many equations there are now."""
        trace: Any = current_trace()
        while trace is not None:
            if isinstance(trace, _ad.LinearizeTrace):
                counts = self._counts.setdefault(trace, [(0, 0)])
                now = _size(innermost_jaxpr_trace(trace)), _size(trace.tangent_trace)
                if now != counts[-1]:
                    counts.append(now)
            trace = getattr(trace, "parent_trace", None)

    def mark(self, tracer: Any) -> Token | bool:
        """Put an identity where the tangent of a value begins, unless it has one.

        Returns:
            The token of the one that is there. Without one, True where equations may have used the
            value before, and False where it has no tangent.
        """
        while isinstance(tracer, _batching.BatchTracer):
            untyped: Any = tracer
            tracer = untyped.val
        if isinstance(tracer, _ad.LinearizeTracer):
            return self._mark_tangent(tracer)
        return self._mark_value(tracer) if _is_in_jaxpr(tracer) else False

    def _mark_tangent(self, value: Any) -> Token | bool:
        tangent, one = value.tangent, self._identity
        if traced_value(value)[0] is None or not _is_in_jaxpr(tangent):
            return False
        if (known := self._known(tangent, one.at_tangent)) and known.primal() is value.primal:
            return known
        untyped: Any = tangent
        trace: Any = untyped._trace
        since = trace.frame.tracing_eqns[self._begun(value) :]
        if any(x is tangent for eqn in map(_eqn, since) if eqn for x in eqn.in_tracers):
            return True
        token = Token()
        token.primal = weakref.ref(value.primal)
        [value.tangent] = trace.process_primitive(one.at_tangent, (tangent,), one.params(token))
        return token

    def _begun(self, value: Any) -> int:
        """A number of equations of tangents that there were when a value was not yet made."""
        primal: Any = traced_value(value)[0]
        trace: Any = value._trace
        counts = self._counts.get(trace, [(0, 0)])
        if primal.parent is None or primal._trace is not innermost_jaxpr_trace(trace):
            return 0
        eqns: Sequence[Any] = primal._trace.frame.tracing_eqns
        at = next(k for k in reversed(range(len(eqns))) if _eqn(eqns[k]) is primal.parent)
        return counts[bisect.bisect_right(counts, at, key=operator.itemgetter(0)) - 1][1]

    def _mark_value(self, value: Any) -> Token:
        """All equations read the tracer, so that those that came before read what it becomes."""
        one = self._identity
        if known := self._known(value, one.at_value):
            return known
        trace, token = value._trace, Token()
        tracer = _partial_eval.DynamicJaxprTracer
        before = tracer(trace, value.aval, value.val, value._line_info, value.parent)
        eqns: list[Any] = trace.frame.tracing_eqns
        [after] = trace.process_primitive(one.at_value, (before,), one.params(token))
        found = (k for k in reversed(range(len(eqns))) if _eqn(eqns[k]) is value.parent)
        at = 0 if value.parent is None else next(found) + 1
        eqns.insert(at, eqns.pop())
        value.val, value.parent = after.val, after.parent
        for trace_of, counts in self._counts.items():
            if innermost_jaxpr_trace(trace_of) is trace:
                counts[:] = [(n + (n > at), m) for n, m in counts]
        return token

    def _known(self, tracer: Any, primitive: ManyResults) -> Token | None:
        eqn = tracer.parent
        if eqn is None or eqn.primitive is not primitive:
            return None
        return self._identity.token(eqn.params)


def _is_in_jaxpr(tracer: Any) -> bool:
    return isinstance(tracer, _partial_eval.DynamicJaxprTracer)


def _eqn(entry: Any) -> Any:
    """An equation of a trace, which may be only a reference; None if it is gone."""
    return entry if isinstance(entry, _partial_eval.TracingEqn) else entry()


def _size(trace: Any) -> int:
    return 0 if trace is None else len(trace.frame.tracing_eqns)
