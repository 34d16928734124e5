"""Whether a program reads what a variable held before an edit of it.

An edit changes the variable, an injection the value. Both are the same where nothing has the value
from elsewhere, such as a memo. To tell, the edit leaves a tag on the old value.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag, tag_params
from taxpr._source.files import is_user_file

OLD: Any = object()  # the name of such tags
# The instructions of the user's functions that were running, innermost first.
_Key = tuple[tuple[int, int], ...]
_NONE: frozenset[_Key] = frozenset()


def is_old(eqn: JaxprEqn) -> bool:
    """Whether an equation is the tag that an edit has left on an old value."""
    return is_tag(eqn) and tag_params(eqn).get("name") is OLD


def reads_old(jaxpr: StoredJaxpr) -> bool:
    """Whether anything reads an old value, except its tag and its maker's derivative."""
    found = _OldValueWalk()
    return any(found.within(jaxpr, {})) or found.is_read  # a result is read by the caller


class _OldValueWalk:
    """A walk through a jaxpr and those in it.

    Old values are told by the keys of the equations that made them.

    Attributes:
        is_read: Whether an old value is read.
    """

    def __init__(self) -> None:
        self.is_read = False
        self._known: dict[Any, tuple[StoredJaxpr, list[frozenset[_Key]]]] = {}

    def within(
        self, stored: StoredJaxpr, given: Mapping[int, frozenset[_Key]], backward: bool = False
    ) -> list[frozenset[_Key]]:
        """For each result of a jaxpr the old values that it is.

        Args:
            stored: The jaxpr.
            given: The old values that it is given, by the numbers of its inputs.
            backward: Whether an equation of a backward pass has it.
        """
        known = id(stored), frozenset(given.items()), backward
        if known not in self._known:
            self._known[known] = stored, self._walked(stored, given, backward)
        return self._known[known][1]

    def _walked(
        self, stored: StoredJaxpr, given: Mapping[int, frozenset[_Key]], backward: bool
    ) -> list[frozenset[_Key]]:
        inner = _compat.open_jaxpr(stored)
        makers = {var: eqn for eqn in inner.eqns for var in eqn.outvars}
        old = {inner.invars[k]: keys for k, keys in given.items()}
        tagged: dict[Any, int] = {}
        for number, eqn in enumerate(inner.eqns):
            for var in eqn.invars if is_old(eqn) else ():
                if not _compat.is_literal(var):
                    maker, tagged[var] = makers.get(var), number
                    old[var] = old.get(var, _NONE) | {_key(maker) if maker else ()}
        for number, eqn in enumerate(inner.eqns):
            if not is_old(eqn):
                # A derivative is taken right after the value is made, or in a backward pass. What
                # the same line reads later is another value of a loop.
                own = {_key(eqn)} - {()}
                in_backward = backward or _compat.is_transposed(eqn)
                held = [
                    _NONE
                    if _compat.is_literal(var)
                    else old.get(var, _NONE)
                    - (own if in_backward or number < tagged.get(var, -1) else _NONE)
                    for var in eqn.invars
                ]
                for var, keys in zip(eqn.outvars, self._after(eqn, held, in_backward), strict=True):
                    old[var] = old.get(var, _NONE) | keys
        return [_NONE if _compat.is_literal(var) else old.get(var, _NONE) for var in inner.outvars]

    def _after(
        self, eqn: JaxprEqn, held: Sequence[frozenset[_Key]], backward: bool
    ) -> list[frozenset[_Key]]:
        """For each result of an equation the old values that it is."""
        if is_tag(eqn):
            return list(held)
        results = [_NONE] * len(eqn.outvars)
        entered: set[int] = set()
        for nested in nested_jaxprs(eqn):
            if nested.rule or nested.idle:
                continue
            given = {k: held[at] for k, at in enumerate(nested.operands) if at is not None}
            entered.update(at for at in nested.operands if at is not None)
            outs = self.within(nested.stored, given, backward)
            while (
                more := {**given, **{to: given.get(to, _NONE) | outs[at] for at, to in nested.back}}
            ) != given:
                given = more
                outs = self.within(nested.stored, given, backward)
            for keys, at in zip(outs, nested.results, strict=True):
                if at is not None:
                    results[at] |= keys
        # What no jaxpr of it reads is read by the equation itself.
        self.is_read = self.is_read or any(keys for k, keys in enumerate(held) if k not in entered)
        return results


def _key(eqn: JaxprEqn) -> _Key:
    codes, instructions = _compat.frames_of(eqn)
    pairs = zip(codes, instructions, strict=True)
    return tuple((id(code), at) for code, at in pairs if is_user_file(code.co_filename))
