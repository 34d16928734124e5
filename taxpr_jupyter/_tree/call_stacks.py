"""The equations of one jaxpr with their scopes and call stacks, by which they are grouped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import taxpr
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._text import short
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.tree import Item


class Units:
    """Units: equations that are no tags, each with the tags behind it.

    Args:
        items: An item for each equation.
        keys: Numbers equations.

    Attributes:
        eqns: The equation of each unit.
        starts: The position in the items where each unit starts, and at last where they end.
        passes: Of each unit "forward" or "backward", see `pass_of`, or "".
        scopes: The scopes of each unit, outermost first.
    """

    def __init__(self, items: Sequence[Item], keys: Keys) -> None:
        self._items = items
        self._keys = keys
        self.starts = [i for i, item in enumerate(items) if not taxpr.is_tag(item.eqn)]
        self.eqns = [items[i].eqn for i in self.starts]
        self.starts.append(len(items))
        self.passes = _passes(self.eqns, bool(items) and items[0].within_backward)
        self.scopes = [_scopes(eqn) for eqn in self.eqns]
        self._numbers: list[int] = []
        self._calls: list[tuple[taxpr.Source, ...] | None] = [None] * len(self.eqns)

    def __len__(self) -> int:
        return len(self.eqns)

    def items(self, start: int, stop: int) -> list[Item]:
        """The items of some units, tags included."""
        return list(self._items[self.starts[start] : self.starts[stop]])

    def key(self, unit: int) -> int:
        """A number that units share which compute the same way."""
        return self.keys(unit, unit + 1)[0]

    def keys(self, start: int, stop: int) -> list[int]:
        """That of some units: groups are looked for at many levels."""
        if not self._numbers:
            self._numbers = [self._keys.alike(eqn) for eqn in self.eqns]
        return self._numbers[start:stop]

    def common_depth(self, start: int, stop: int, depth: int) -> int:
        """How many scopes all have in common."""
        first = self.scopes[start]
        while depth < len(first) and all(
            scopes[depth : depth + 1] == first[depth : depth + 1]
            for scopes in self.scopes[start:stop]
        ):
            depth += 1
        return depth

    def filling(self, unit: int) -> str:
        """`broadcast_in_dim(0.0)`, of an equation that fills an array with a number; else ""."""
        eqn = self.eqns[unit]
        if taxpr.is_hop(eqn) or eqn.effects or not eqn.invars:
            return ""
        return labels.operation_lines(eqn)[0] if all(map(taxpr.is_literal, eqn.invars)) else ""

    # --- calls ------------------------------------------------------------------------------------

    def call(self, unit: int, depth: int) -> tuple[str, str, int] | None:
        """The call of that depth in which an equation was made: its function, file and line.

        None for what stands in the function itself. `called` says it in words.
        """
        calls = self.calls(unit)
        if depth >= len(calls):
            return None
        if not depth:
            return calls[0].function, "", 0
        return calls[depth].function, calls[depth - 1].file, calls[depth - 1].line

    def called(self, unit: int, depth: int) -> tuple[str, str]:
        """The function of that call, and from where it was called, which may be empty."""
        calls = self.calls(unit)
        where = _place(calls[depth - 1]) if depth else ""
        return short.function_name(calls[depth]), where

    def calls(self, unit: int) -> tuple[taxpr.Source, ...]:
        """The calls that led to an equation, outermost first."""
        calls = self._calls[unit]
        if calls is None:
            calls = self._calls[unit] = taxpr.sources_of(self.eqns[unit])[::-1]
        return calls

    def sources(self, start: int, stop: int) -> list[taxpr.Source]:
        """Where equations were made, as far as it is known."""
        found = map(self.calls, range(start, stop))
        return [calls[-1] for calls in found if calls]

    def function(self, start: int, stop: int) -> str:
        """The function that most of some equations are from."""
        names = Counter(map(short.function_name, self.sources(start, stop)))
        return names.most_common(1)[0][0] if names else "equations"

    def common_function(self, start: int, stop: int) -> str:
        """The innermost function in a call of which all of some equations were made."""
        calls = [self.calls(unit) for unit in range(start, stop)]
        name = ""
        for frames in zip(*calls, strict=False):
            if len({(frame.file, frame.function) for frame in frames}) > 1:
                break
            name = short.function_name(frames[0])
            if len({frame.line for frame in frames}) > 1:  # what they call are different calls
                break
        return name or self.function(start, stop)

    def place(self, unit: int) -> tuple[Any, ...]:
        """From where an equation is, from the coarse to the fine: scopes, function, line."""
        source = next(iter(self.sources(unit, unit + 1)), None)
        return self.scopes[unit], source and source.function, source and source.line


def _passes(eqns: Sequence[Any], within_backward: bool) -> list[str]:
    """The pass of each equation; none of those that are in one of a backward pass."""
    if within_backward:
        return [""] * len(eqns)
    passes = [pass_of(eqn) for eqn in eqns]
    if "backward" in passes:  # what differentiated its result is no forward pass of it
        end = len(passes) - passes[::-1].index("backward")
        passes[end:] = [""] * (len(passes) - end)
    return passes


def _place(frame: taxpr.Source) -> str:
    """`from layers.py:14`, or `called in line 14` of a cell of a notebook.

    The name of a cell is a new one in each kernel.
    """
    name = PurePath(frame.file).name
    told = name.endswith(".py") and "ipykernel_" not in frame.file
    return f"from {name}:{frame.line}" if told else f"called in line {frame.line}"


def _scopes(eqn: Any) -> tuple[str, ...]:
    """The scopes that people set: not those of `jax.numpy.einsum`, such as `ij,jk->ik`."""
    return tuple(name for name in taxpr.scopes_of(eqn) if "->" not in name)
