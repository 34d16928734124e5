"""The calls of the user's functions in which equations were made."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from taxpr import introspect

_COMPREHENSIONS = "<listcomp>", "<setcomp>", "<dictcomp>"  # functions for Python 3.11 only

Owner = tuple[str, int, str]  # as `Variable.owner`: file, first line, qualified name


class SourceFrame(NamedTuple):
    """A call of a function of the user's.

    Attributes:
        owner: The function.
        calls: The calls on the way to it, outermost first: of each the function, and the place.
    """

    owner: Owner
    calls: tuple[tuple[Owner, Any], ...] = ()

    @property
    def name(self) -> str:
        """The name of the function; of a module its class, "" of a lambda."""
        around, _, name = self.owner[2].rpartition("<locals>.")[2].rpartition(".")
        if name == "__call__" and around:
            return around
        return name if name.isidentifier() else ""

    def hiding(self, owner: Owner) -> Sequence[Owner] | None:
        """The functions between this one and one around it, whose variables hide its variables.

        None if the other one is not around: it neither calls this one nor has its `def` in it.
        """
        around = [self.owner, *(function for function, _ in reversed(self.calls))]
        if owner in around:
            return around[: around.index(owner)]
        nested = self.owner[0] == owner[0] and self.owner[2].startswith(f"{owner[2]}.<locals>.")
        return around[:1] if nested else None

    def is_in(self, frame: SourceFrame) -> bool:
        """Whether another call is this one, or called it."""
        called = self.calls[len(frame.calls) :]
        same = self.calls[: len(frame.calls)] == frame.calls
        return same and frame.owner == (called[0][0] if called else self.owner)


def frames_of(eqn: introspect.JaxprEqn) -> tuple[SourceFrame, ...]:
    """The calls of the user's functions that were running, outermost first."""
    frames: list[SourceFrame] = []
    calls: tuple[tuple[Owner, Any], ...] = ()
    for one in reversed(introspect.statements_of(eqn)):
        if one.function.endswith(_COMPREHENSIONS):
            continue
        frames.append(frame := SourceFrame((one.file, one.begins, one.function), calls))
        calls = (*calls, (frame.owner, (one.line, one.place, one.part)))
    return tuple(frames)


def frames_around(eqns: Iterable[introspect.JaxprEqn]) -> tuple[SourceFrame, ...]:
    """The calls that made all of some equations, outermost first.

    Those do not count that JAX has moved there, out of the body of a loop.
    """
    # Many equations have equal tracebacks, and to read the frames of one takes long. Name stacks
    # tell apart the equations of different derivative rules.
    infos = ((eqn.source_info, eqn) for eqn in eqns)
    distinct = {(info.traceback, info.name_stack): eqn for info, eqn in infos}
    stacks = dict.fromkeys(filter(None, map(frames_of, distinct.values())))
    if not stacks:
        return ()
    [(root, _)] = Counter(stack[0] for stack in stacks).most_common(1)
    shared, *others = (stack for stack in stacks if stack[0] == root)
    for stack in others:
        pairs = zip(shared, stack, strict=False)
        shared = tuple(one for one, _ in itertools.takewhile(lambda two: two[0] == two[1], pairs))
    return shared
