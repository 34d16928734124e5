"""Take the marks out of a jaxpr that was traced with names."""

from collections.abc import Mapping
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._compat import Token
from taxpr._hops.table import is_loop, nested_jaxprs, replace_nested
from taxpr._jaxprs.splice import rewired, substituted
from taxpr._primitives.cotangent import token_of
from taxpr._primitives.tag_equation import AtVariable, is_tag
from taxpr._watching.mark import mark_p


class Unmarked:
    """Jaxprs with marks and without; those that share a nested jaxpr share it afterwards.

    Args:
        chosen: The marks of cotangents that become tags, by their tokens.

    Attributes:
        reads_unused: Whether a mark reads a value that no equation and no result is made of, or
            may do so, as in a loop, which hands on what only its next iteration reads.
    """

    def __init__(self, chosen: Mapping[Token, AtVariable]) -> None:
        self._chosen = chosen
        self._done: dict[int, tuple[Any, Any, bool]] = {}
        self.reads_unused = False

    def of(self, jaxpr: Any) -> Any:
        """The jaxpr without its marks; itself where it has none."""
        if id(jaxpr) not in self._done:
            self._done[id(jaxpr)] = (jaxpr, *self._cleaned(jaxpr))
        return self._done[id(jaxpr)][1]

    def marked(self, jaxpr: Any) -> bool:
        """Whether there are marks in a jaxpr, at any depth."""
        return self.of(jaxpr) is not jaxpr

    def _cleaned(self, jaxpr: Any) -> tuple[Any, bool]:
        inner, changed = _compat.open_jaxpr(jaxpr), False
        eqns: list[Any] = []
        read: set[int] = set()
        used: set[int] = set()
        now: dict[Any, Any] = {}
        for eqn in inner.eqns:
            eqn = rewired(eqn, now)
            if eqn.primitive is mark_p:
                changed = True
                read.update(map(id, eqn.invars))
                continue
            if (token := token_of(eqn)) is not None:
                changed = True
                variable = self._chosen.get(token) if is_tag(eqn) else None
                if is_tag(eqn) and _compat.is_literal(eqn.invars[0]):
                    # What flows back is a number, as to a result: an equation gives it an address.
                    held: list[Any] = [_compat.fresh_var(eqn.outvars[0].aval)]
                    eqns.append(_copied(eqn, held))
                    eqn = eqn.replace(invars=held)
                if variable is None:
                    now.update(zip(eqn.outvars, eqn.invars, strict=True))
                    continue
                more = {"user": (("name", variable.name),), "variable": variable}
                eqn = eqn.replace(params={**eqn.params, **more})
            used.update(map(id, eqn.invars))
            nested = [
                one for one in nested_jaxprs(eqn) if one.replaceable and self.marked(one.stored)
            ]
            if nested:
                changed = True
                self.reads_unused = self.reads_unused or is_loop(eqn)
                eqn = replace_nested(eqn, {one.label: self.of(one.stored) for one in nested})
            eqns.append(eqn)
        # JAX gives all branches of a condition the effects of any.
        marked = any(_compat.tag_effect in eqn.effects for eqn in eqns)
        changed = changed or (_compat.tag_effect in inner.effects and not marked)
        outvars = substituted(inner.outvars, now)
        self.reads_unused = self.reads_unused or not read <= used.union(map(id, outvars))
        return (
            (_compat.rebuilt(jaxpr, eqns=eqns, outvars=outvars), True)
            if changed
            else (jaxpr, False)
        )


def _copied(eqn: Any, outvars: list[Any]) -> Any:
    """An equation that copies what this one reads."""
    copy_p: Any = lax.copy_p
    return eqn.replace(primitive=copy_p, params={}, outvars=outvars)
