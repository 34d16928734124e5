"""Note in each equation which libraries' functions count as the user's.

Who is asked about one equation, such as `statements_of`, then knows it, and two programs that were
traced with other libraries do not get in each other's way.
"""

import weakref
from collections.abc import Hashable
from typing import Any

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._source.own_modules import OwnModules

# JAX returns the same jaxpr when it traces a known function, and what is made of one is cached by
# its identity.
_owned: weakref.WeakKeyDictionary[Any, dict[OwnModules, Any]] = weakref.WeakKeyDictionary()


def with_own(jaxpr: Any, own: OwnModules) -> Any:
    """The jaxpr with the note in all of its equations."""
    known = _owned.setdefault(jaxpr, {})
    if own not in known:
        known[own] = _Owned(own).of(jaxpr)
    return known[own]


def files_in(jaxpr: Any) -> set[str]:
    """The files of all functions that made equations."""
    found, known = set[str](), set[Hashable]()
    waiting = [_compat.open_jaxpr(jaxpr)]
    for inner in waiting:
        for eqn in inner.eqns:
            waiting += (one.jaxpr for one in nested_jaxprs(eqn))
            if (frames := _compat.frames_key(eqn)) not in known:
                known.add(frames)
                found.update(code.co_filename for code in _compat.frames_of(eqn)[0])
    return found


class _Owned:
    """Jaxprs and their new versions, by id; a nested jaxpr that they share stays shared."""

    def __init__(self, own: OwnModules) -> None:
        self._own = own
        self._done: dict[int, tuple[Any, Any]] = {}

    def of(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._done:
            eqns = map(self._eqn, _compat.open_jaxpr(jaxpr).eqns)
            self._done[id(jaxpr)] = jaxpr, _compat.rebuilt(jaxpr, eqns=list(eqns))
        return self._done[id(jaxpr)][1]

    def _eqn(self, eqn: Any) -> Any:
        # A hidden jaxpr is left as it is: another equation would have to take the place of its own.
        held = [one for one in nested_jaxprs(eqn) if one.param is not None]
        if held:
            eqn = replace_nested(eqn, {one.label: self.of(one.stored) for one in held})
        return _compat.with_said(eqn, self._own)
