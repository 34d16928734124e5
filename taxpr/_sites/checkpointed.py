"""Say of the equations of a checkpointed function from where it was called.

In a derivative the forward equations of `jax.checkpoint` come among the caller's own, but their
frames end at the checkpointed function. The equation that computes them again has the caller's
frames.
"""

import weakref
from collections import defaultdict
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._hops.table import nested_jaxprs, replace_nested

_Function = tuple[str, int]  # the file of a function, and its first line
_DEEP = 8  # checkpointed functions in each other

# JAX returns the same jaxpr when it traces a known function, and what is made of one is cached by
# its identity.
_known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def with_calls(jaxpr: Any) -> Any:
    """The jaxpr with a note of the call in the equations of checkpointed functions.

    Equations keep their frames if calls in several lines may have made them.

    Args:
        jaxpr: The jaxpr of a whole program.
    """
    if jaxpr not in _known:
        calls = _CheckpointedCalls()
        calls.find(jaxpr)
        _known[jaxpr] = calls.noted(jaxpr) if calls.found else jaxpr
    return _known[jaxpr]


class _CheckpointedCall(NamedTuple):
    """A call of a checkpointed function.

    Attributes:
        eqn: Its equation.
        within: The function whose jaxpr has the equation.
    """

    eqn: JaxprEqn
    within: _Function | None


class _CheckpointedCalls:
    """The calls of checkpointed functions in a program.

    Attributes:
        found: Those of each function.
    """

    def __init__(self) -> None:
        self.found: dict[_Function, list[_CheckpointedCall]] = defaultdict(list)
        self._done: dict[int, tuple[Any, Any]] = {}  # by id; a shared jaxpr stays shared

    def find(self, jaxpr: Any) -> None:
        """Look for calls in a jaxpr."""
        seen = set[int]()
        waiting = [_compat.open_jaxpr(jaxpr)]
        for inner in waiting:
            if id(inner) in seen:
                continue
            seen.add(id(inner))
            within = _compat.function_of(inner)
            for eqn in inner.eqns:
                nested = nested_jaxprs(eqn)
                waiting += (one.jaxpr for one in nested)
                if eqn.primitive is _compat.remat_p:
                    function = _compat.function_of(nested[0].jaxpr)
                    if function is not None and function != within:
                        self.found[function].append(_CheckpointedCall(eqn, within))

    def noted(self, jaxpr: Any) -> Any:
        """A jaxpr with notes; itself if no equation gets one."""
        if id(jaxpr) not in self._done:
            inner = _compat.open_jaxpr(jaxpr)
            within = _compat.function_of(inner)
            eqns = [self._eqn(eqn, within) for eqn in inner.eqns]
            same = all(a is b for a, b in zip(eqns, inner.eqns, strict=True))
            made = jaxpr if same else _compat.rebuilt(jaxpr, eqns=eqns)
            self._done[id(jaxpr)] = jaxpr, made
        return self._done[id(jaxpr)][1]

    def _eqn(self, eqn: JaxprEqn, within: _Function | None) -> JaxprEqn:
        held = [one for one in nested_jaxprs(eqn) if one.param is not None]
        new = {one.label: self.noted(one.stored) for one in held}
        if any(new[one.label] is not one.stored for one in held):
            eqn = replace_nested(eqn, new)
        around: list[JaxprEqn] = []
        function = _outermost(eqn)
        while function in self.found and function != within and len(around) < _DEEP:
            calls = self.found[function]
            here = [call for call in calls if call.within == within] or calls
            if len({_frames(call.eqn) for call in here}) > 1:
                return eqn  # it may be of any of them
            around.append(here[0].eqn)
            function = here[0].within
        return _compat.called_by(eqn, around) if around and function == within else eqn


def _frames(eqn: JaxprEqn) -> tuple[tuple[int, int], ...]:
    """The functions around a call, and the instructions, but for JAX's own."""
    pairs = zip(*_compat.frames_of(eqn), strict=True)
    return tuple((id(c), at) for c, at in pairs if _compat.is_outside_jax(c.co_filename))


def _outermost(eqn: JaxprEqn) -> _Function | None:
    """The outermost function that made an equation, but for JAX's own."""
    for code in reversed(_compat.frames_of(eqn)[0]):
        if _compat.is_outside_jax(code.co_filename):
            return code.co_filename, code.co_firstlineno
    return None
