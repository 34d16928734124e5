"""Estimate the cost of an equation, with its nested jaxprs: operations and bytes moved.

`flops` has the table of first-order primitives. An unknown cost is never taken for 0: its primitive
is in `Cost.unknown`, and the text of such a cost begins with ≥.

Why not JAX's own tools: `jax.experimental.roofline` traces a function instead of reading a jaxpr,
counts one iteration of a scan, and skips while, cond and unknown primitives with a log message.
XLA's `cost_analysis` needs a compiled program and has no numbers for single equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis import flops as _flops
from taxpr_jupyter._analysis.by_identity import ByIdentity
from taxpr_jupyter._analysis.structural_hash import open_jaxpr
from taxpr_jupyter._text.quantities import quantity, size

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of running an equation or jaxpr once, summed over all devices.

    Attributes:
        flops: Operations, 2 for a multiply-add; also those on integers, as XLA counts.
        transcendentals: Evaluations of functions such as `exp`. They are not in `flops`.
        bytes: Bytes of the operands and results of all first-order equations.
        at_most: Whether it may cost less, as a cond runs only one of its branches.
        loops: Whether it has loops of unknown length, counted with one iteration.
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
        """The cost of so many runs."""
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
        """The numbers of one equation, or of several, and notes on what they include."""
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
    """The sum of costs."""
    every = list(costs)
    return _merged(every, sum, any(cost.at_most for cost in every))


def dearest(costs: Iterable[Cost]) -> Cost:
    """The maximum of costs, number by number."""
    return _merged(list(costs), lambda numbers: max(numbers, default=0), at_most=True)


def _merged(every: Sequence[Cost], merge: Callable[[Iterator[int]], int], at_most: bool) -> Cost:
    return Cost(
        merge(cost.flops for cost in every),
        merge(cost.transcendentals for cost in every),
        merge(cost.bytes for cost in every),
        at_most,
        any(cost.loops for cost in every),
        frozenset().union(*(cost.unknown for cost in every)),
    )


class Costs:
    """Computes costs, of each jaxpr once."""

    def __init__(self) -> None:
        self._known: ByIdentity[Cost] = ByIdentity()

    def of_jaxpr(self, jaxpr: Any) -> Cost:
        """The cost of running a jaxpr once."""
        return self._known.of(jaxpr, lambda jaxpr: total(map(self.of_eqn, jaxpr.eqns)))

    def of_eqn(self, eqn: Any) -> Cost:
        """The cost of an equation, with its nested jaxprs."""
        if introspect.is_tag(eqn):
            return FREE
        try:
            operations = _flops.operations(eqn)
            if operations is not None:
                return Cost(*operations, _flops.moved(eqn))
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            # Shapes known only at run time, or params of a later version of JAX.
            return Cost(unknown=frozenset({eqn.primitive.name}))
        return self._nested(eqn)

    def _nested(self, eqn: Any) -> Cost:
        nested = introspect.nested_jaxprs(eqn)
        if eqn.primitive is p.cond_p:
            return dearest(self.of_jaxpr(branch.jaxpr) for branch in nested)
        if eqn.primitive is p.while_p:
            once = total(self.of_jaxpr(part.jaxpr) for part in nested)
            return replace(once, loops=True)
        if (combinations := _combinations(eqn)) is not None:
            combiners = (eqn.params[name] for name in _COMBINERS if name in eqn.params)
            each = total(self.of_jaxpr(open_jaxpr(one)) for one in combiners)
            # The elements that a combiner gets are counted in what the equation moves.
            return replace(each.times(combinations), bytes=_flops.moved(eqn))
        # A linear solve does not run the jaxprs that only its derivative needs. How often a kernel
        # runs is unknown.
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
    """The number of instances of an equation's jaxpr that run, on different devices.

    The devices along automatic axes of a mesh share one instance.
    """
    params = eqn.params
    if "axis_size" in params and "devices" in params:  # pmap, up to 0.8
        return params["axis_size"]
    manual = params.get("newly_manual_axes", params.get("manual_axes", ()))  # the latter up to 0.9
    return math.prod(params["mesh"].shape[name] for name in manual)


# Params of reductions with a jaxpr; `introspect.nested_jaxprs` leaves out those of JAX itself.
_COMBINERS = ("jaxpr", "select_jaxpr", "scatter_jaxpr")


def _combinations(eqn: Any) -> int | None:
    """How often a reduction runs its jaxpr, which combines two elements; None for no reduction."""
    if eqn.primitive not in (p.reduce_p, p.reduce_window_p, p.select_and_scatter_p):
        return None
    ins, outs = size(eqn.invars[0].aval), size(eqn.outvars[0].aval)
    if eqn.primitive is p.reduce_p:
        return ins - outs
    window = math.prod(eqn.params["window_dimensions"])
    return outs * (window - 1) if eqn.primitive is p.reduce_window_p else ins * window
