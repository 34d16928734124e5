"""Calls of the user's functions, and the uses of a value in them.

The traceback of an equation has all functions that were running when it was made. So it tells
whether one of them was the call that bound a variable.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._watching.mark import Binding

# The function, then what called it: each function that was running, and where it was.
_Key = tuple[int | tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class BindingCall:
    """A call of a function that bound a variable.

    Calls from one place, as in a Python loop, are not told apart and are equal.

    Attributes:
        key: Identifies it.
        within: Whether one of the user's functions called it in the same jaxpr. Else the results of
            the jaxpr are its own.
        source: The source of the equation that marks the variable.
    """

    key: _Key
    within: bool = dataclasses.field(compare=False)
    source: Any = dataclasses.field(compare=False, repr=False)

    def made(self, eqn: JaxprEqn) -> bool:
        """Whether an equation was made while the function ran."""
        codes, instructions = _compat.frames_of(eqn)
        begin = len(codes) - len(self.key)
        if begin < 0 or id(codes[begin]) != self.key[0]:
            return False
        return self.key[1:] == _where(codes, instructions, begin + 1)


def call_of(mark: JaxprEqn, binding: Binding) -> BindingCall | None:
    """The call of the function that a mark is of; None where the traceback does not tell."""
    codes, instructions = _compat.frames_of(mark)
    wanted = binding.function, binding.file, binding.first
    for k, code in enumerate(codes):
        if (code.co_qualname, code.co_filename, code.co_firstlineno) == wanted:
            key = id(code), *_where(codes, instructions, k + 1)
            return BindingCall(key, binding.within, mark.source_info)
    return None


def _where(codes: Sequence[Any], instructions: Sequence[int], begin: int) -> _Key:
    return tuple(zip(map(id, codes[begin:]), instructions[begin:], strict=True))


class ReadingEquation(NamedTuple):
    """An equation, or the results, that read a value.

    Attributes:
        position: The position of the equation; for the results, one after the last.
        read: The operand: the value's variable, or the result of a tag on it.
        inside: Whether it is read in one of the calls.
        elsewhere: The equations that read it elsewhere: itself or, if only a part of it does,
            equations in it; None means a result.
    """

    position: int
    read: tuple[Any, ...]
    inside: bool
    elsewhere: tuple[JaxprEqn | None, ...]


def uses_of(
    stored: StoredJaxpr, value: Any, calls: Sequence[BindingCall]
) -> Iterator[ReadingEquation]:
    """The uses of a variable of a jaxpr, in its order; tags hand the value on."""
    inner = _compat.open_jaxpr(stored)
    same: set[Any] = {value}
    for position, eqn in enumerate(inner.eqns):
        held = [var for var in eqn.invars if not _compat.is_literal(var) and var in same]
        read = tuple(dict.fromkeys(held))
        if not read:
            continue
        if any(call.made(eqn) for call in calls):
            yield ReadingEquation(position, read, True, ())
        elif is_tag(eqn):
            pairs = zip(eqn.invars, eqn.outvars, strict=True)
            same.update(new for old, new in pairs if not _compat.is_literal(old) and old in same)
        else:
            operands = [k for k, var in enumerate(eqn.invars) if var in read]
            inside, elsewhere = _within(eqn, operands, calls)
            whole = elsewhere if inside else (eqn,) * bool(elsewhere)
            yield ReadingEquation(position, read, inside, whole)
    own = not all(call.within for call in calls)
    for var in inner.outvars:
        if not _compat.is_literal(var) and var in same:
            yield ReadingEquation(len(inner.eqns), (var,), own, () if own else (None,))


def _within(
    eqn: JaxprEqn, operands: Sequence[int], calls: Sequence[BindingCall]
) -> tuple[bool, tuple[JaxprEqn | None, ...]]:
    """Whether calls in the jaxprs of an equation read its operands, and the other readers."""
    inside, elsewhere, entered = False, list[JaxprEqn | None](), set[int]()
    for nested in nested_jaxprs(eqn):
        if nested.rule or nested.idle:
            continue
        for k in operands:
            for var in _fed(nested, k):
                entered.add(k)
                for use in uses_of(nested.stored, var, calls):
                    inside = inside or use.inside
                    elsewhere += [one or eqn for one in use.elsewhere]
    # What no jaxpr of it reads is used by the equation itself.
    if not entered.issuperset(operands):
        elsewhere.append(eqn)
    return inside, tuple(elsewhere)


def _fed(nested: Nested, operand: int) -> list[Any]:
    pairs = zip(nested.jaxpr.invars, nested.operands, strict=True)
    return [var for var, at in pairs if at == operand]
