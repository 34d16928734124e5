"""Variables of functions that equations hide, as in a linear solve of lineax.

Such a function is traced when somebody looks into its equation. While variables are watched that
leaves marks, and an equation that holds the marked jaxpr takes the place of the one that hides it.
"""

import weakref
from typing import Any

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._primitives.cotangent import token_of
from taxpr._watching.mark import mark_p

# JAX returns the same jaxpr when it traces a known function, and what is made of one is cached by
# its identity.
_shown: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def with_hidden(jaxpr: Any) -> Any:
    """The jaxpr with marks in functions that its equations hide; itself if it has none.

    To be called while variables are watched.
    """
    new = _shown.get(jaxpr)
    if new is None:
        new = _Shown().of(jaxpr)
        if new is not jaxpr:
            _shown[jaxpr] = new
    return new


class _Shown:
    """Jaxprs and their new versions, by id; a nested jaxpr that they share stays shared."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}
        self._marked: dict[int, tuple[Any, bool]] = {}

    def of(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._done:
            eqns = _compat.open_jaxpr(jaxpr).eqns
            new = [self._eqn(eqn) for eqn in eqns]
            changed = any(a is not b for a, b in zip(eqns, new, strict=True))
            self._done[id(jaxpr)] = jaxpr, _compat.rebuilt(jaxpr, eqns=new) if changed else jaxpr
        return self._done[id(jaxpr)][1]

    def _eqn(self, eqn: Any) -> Any:
        changed: dict[str, Any] = {}
        for one in nested_jaxprs(eqn):
            new = self.of(one.stored)
            hidden = one.param is None and one.rebuilt is not None and self._has_marks(new)
            if hidden or (new is not one.stored and one.replaceable):
                changed[one.label] = new
        if not changed:
            return eqn
        eqn = replace_nested(eqn, changed)
        # What holds a mark must not be taken for dead.
        marked = any(_compat.tag_effect in one.jaxpr.effects for one in nested_jaxprs(eqn))
        return eqn.replace(effects={*eqn.effects, _compat.tag_effect}) if marked else eqn

    def _has_marks(self, jaxpr: Any) -> bool:
        if id(jaxpr) not in self._marked:
            found = any(
                eqn.primitive is mark_p
                or token_of(eqn) is not None
                or any(self._has_marks(one.stored) for one in nested_jaxprs(eqn))
                for eqn in _compat.open_jaxpr(jaxpr).eqns
            )
            self._marked[id(jaxpr)] = jaxpr, found
        return self._marked[id(jaxpr)][1]
