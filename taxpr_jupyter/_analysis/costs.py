"""Estimate the cost of equations with their nested jaxprs: operations and bytes moved.

`flops` has the table of first-order primitives. An unknown cost never counts as 0 silently: its
primitive is in `Cost.unknown`, and the text of such a cost begins with ≥.

`jax.experimental.roofline` was tried and is not used: it traces a function again in place of taking
a jaxpr, counts one iteration of a scan, and skips while, cond and unknown primitives with a log
message. XLA's `cost_analysis` needs a compiled program and says nothing of single equations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax.extend.core.primitives as p

import taxpr
from taxpr_jupyter._analysis import flops as _flops
from taxpr_jupyter._text.quantities import quantity, size

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run of an equation or jaxpr, on all devices together.

    Attributes:
        flops: Operations, 2 for a multiply-add; of integers, too, as XLA counts.
        transcendentals: Evaluations of functions such as `exp`, which are not in `flops`.
        bytes: Bytes of operands and results, of each first-order equation.
        at_most: Whether some of it may be passed over: the branches of a cond.
        loops: Whether it holds loops of unknown length, of which it has one iteration.
        unknown: Primitives whose operations are not counted.

    Example:
        >>> str(Cost(flops=65536, bytes=12288))
        '65.5 kFLOP · 12.3 kB moved'
    """

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0
    at_most: bool = False
    loops: bool = False
    unknown: frozenset[str] = _NONE

    @property
    def operations(self) -> int:
        """Plain and transcendental operations."""
        return self.flops + self.transcendentals

    def times(self, number: int) -> Cost:
        """That many of it."""
        return replace(
            self,
            flops=self.flops * number,
            transcendentals=self.transcendentals * number,
            bytes=self.bytes * number,
        )

    def __str__(self) -> str:
        words = [quantity(self.flops, "FLOP")]
        if self.transcendentals:
            words.append(f"{quantity(self.transcendentals, '')} transcendental")
        words.append(f"{quantity(self.bytes, 'B')} moved")
        before = "≥ " if self.unknown else "at most " if self.at_most else ""
        return before + " · ".join(words)

    def lines(self, eqn: Any = None) -> tuple[str, ...]:
        """The numbers, and what must be said beside them.

        Args:
            eqn: The equation that costs this, where it is one.
        """
        text, notes = str(self), []
        if eqn is not None and eqn.primitive is p.while_p:
            text += " each iteration"
        elif self.loops:
            notes.append("with one iteration of each while loop")
        if self.at_most:
            notes.append("with the dearest branch of each cond")
        if self.unknown:
            names = sorted(self.unknown)
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            notes.append(f"without the operations of {', '.join(names[:4])}{more}, not known")
        return (text, *notes)


FREE = Cost()


def total(costs: Iterable[Cost]) -> Cost:
    """The sum."""
    flops = transcendentals = n_bytes = 0
    at_most = loops = False
    unknown: set[str] = set()
    for cost in costs:
        flops += cost.flops
        transcendentals += cost.transcendentals
        n_bytes += cost.bytes
        at_most |= cost.at_most
        loops |= cost.loops
        unknown |= cost.unknown
    return Cost(flops, transcendentals, n_bytes, at_most, loops, frozenset(unknown))


def dearest(costs: Iterable[Cost]) -> Cost:
    """Not less than any of them, in any number."""
    every = list(costs)
    return Cost(
        max((cost.flops for cost in every), default=0),
        max((cost.transcendentals for cost in every), default=0),
        max((cost.bytes for cost in every), default=0),
        True,
        any(cost.loops for cost in every),
        frozenset().union(*(cost.unknown for cost in every)),
    )


class Costs:
    """Finds costs; each jaxpr is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Cost]] = {}

    def of_jaxpr(self, jaxpr: Any) -> Cost:
        """The cost of a jaxpr, once."""
        known = self._known.get(id(jaxpr))
        if known is None:
            # The jaxpr is kept, so that its id stays its own.
            known = self._known[id(jaxpr)] = (jaxpr, self.of_eqns(jaxpr.eqns))
        return known[1]

    def of_eqns(self, eqns: Iterable[Any]) -> Cost:
        """The cost of equations, together."""
        return total(map(self.of_eqn, eqns))

    def of_eqn(self, eqn: Any) -> Cost:
        """The cost of an equation, with its nested jaxprs."""
        if taxpr.is_tag(eqn):
            return FREE
        try:
            operations = _flops.operations(eqn)
            if operations is not None:
                return Cost(*operations, _flops.moved(eqn))
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            # Shapes that are not known yet, or params of a version to come.
            return Cost(unknown=frozenset({eqn.primitive.name}))
        return self._nested(eqn)

    def _nested(self, eqn: Any) -> Cost:
        nested = taxpr.nested_jaxprs(eqn)
        if eqn.primitive is p.cond_p:
            return dearest(self.of_jaxpr(branch.jaxpr) for branch in nested)
        if eqn.primitive is p.while_p:
            once = total(self.of_jaxpr(part.jaxpr) for part in nested)
            return replace(once, loops=True)
        if (combinations := _combinations(eqn)) is not None:
            combiners = (eqn.params[name] for name in _COMBINERS if name in eqn.params)
            each = total(self.of_jaxpr(getattr(one, "jaxpr", one)) for one in combiners)
            # What goes through a combiner are elements of what the equation moves.
            return replace(each.times(combinations), bytes=_flops.moved(eqn))
        # Of a linear solve, what only its derivative needs does not run; of a kernel nobody knows
        # how often it runs.
        run = [(part, part.trips) for part in nested if not part.conditional]
        if run and all(isinstance(trips, int) for _, trips in run):
            parts = (self.of_jaxpr(part.jaxpr).times(trips or 0) for part, trips in run)
            return total(parts).times(devices_of(eqn))
        return self._stated(eqn)

    def _stated(self, eqn: Any) -> Cost:
        """The user's own estimate for a kernel; otherwise its bytes, and unknown operations."""
        stated = eqn.params.get("cost_estimate")
        try:
            if stated is not None:
                return Cost(stated.flops, stated.transcendentals, stated.bytes_accessed)
            return Cost(bytes=_flops.moved(eqn), unknown=frozenset({eqn.primitive.name}))
        except (TypeError, AttributeError):
            return Cost(unknown=frozenset({eqn.primitive.name}))


def devices_of(eqn: Any) -> int:
    """How many devices run the jaxpr of an equation, each its own instance.

    Over axes of the mesh that stay automatic, the devices share one instance.
    """
    params = eqn.params
    if "axis_size" in params and "devices" in params:  # pmap, up to 0.8
        return params["axis_size"]
    manual = params.get("newly_manual_axes", params.get("manual_axes", ()))  # the latter up to 0.9
    return math.prod(params["mesh"].shape[name] for name in manual)


# Of an equation that reduces, the params with a jaxpr; JAX's own are not among the nested ones.
_COMBINERS = ("jaxpr", "select_jaxpr", "scatter_jaxpr")


def _combinations(eqn: Any) -> int | None:
    """How often an equation that reduces by a jaxpr of its own runs that; None for others."""
    if eqn.primitive not in (p.reduce_p, p.reduce_window_p, p.select_and_scatter_p):
        return None
    ins, outs = size(eqn.invars[0].aval), size(eqn.outvars[0].aval)
    if eqn.primitive is p.reduce_p:
        return ins - outs
    window = math.prod(eqn.params["window_dimensions"])
    return outs * (window - 1) if eqn.primitive is p.reduce_window_p else ins * window
