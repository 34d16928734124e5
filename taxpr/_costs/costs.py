"""Estimate the cost of an equation, with its nested jaxprs: operations and bytes moved.

`flops` has the table of first-order primitives. An unknown cost is never taken for 0: its primitive
is in `Cost.unknown`, and the text of such a cost begins with ≥.

Why not JAX's own tools: `jax.experimental.roofline` traces a function instead of reading a jaxpr,
counts one iteration of a scan, and skips while, cond and unknown primitives with a log message.
XLA's `cost_analysis` needs a compiled program and has no numbers for single equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from taxpr import _compat
from taxpr._by_identity import ByIdentity
from taxpr._compat import JaxprEqn
from taxpr._costs import flops as _flops
from taxpr._costs.quantities import quantity, size
from taxpr._hops.nested import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._untyped import lax as _lax

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
        >>> from taxpr import Cost
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

    @classmethod
    def total(cls, costs: Iterable[Cost]) -> Cost:
        """The sum of costs."""
        every = list(costs)
        return _merged(every, sum, any(cost.at_most for cost in every))

    @classmethod
    def dearest(cls, costs: Iterable[Cost]) -> Cost:
        """The maximum of costs, number by number."""
        return _merged(list(costs), lambda numbers: max(numbers, default=0), at_most=True)

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
        """The numbers of one equation, or of several, with notes."""
        text, notes = str(self), list[str]()
        if eqn is not None and eqn.primitive is _compat.while_p:
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


def _merged(every: Sequence[Cost], merge: Callable[[Iterator[int]], int], at_most: bool) -> Cost:
    return Cost(
        merge(cost.flops for cost in every),
        merge(cost.transcendentals for cost in every),
        merge(cost.bytes for cost in every),
        at_most,
        any(cost.loops for cost in every),
        frozenset[str]().union(*(cost.unknown for cost in every)),
    )


class Costs:
    """Computes costs, of each jaxpr once.

    Attributes:
        known: The costs of the jaxprs so far.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import Costs, trace
        >>> x = jnp.ones((8, 8))
        >>> Costs().of_jaxpr(trace(jnp.dot)(x, x)).flops
        1024
    """

    def __init__(self) -> None:
        self.known: ByIdentity[Cost] = ByIdentity()

    def of_jaxpr(self, jaxpr: Any) -> Cost:
        """The cost of running a jaxpr once."""
        return self.known.of(jaxpr, lambda jaxpr: Cost.total(map(self.of_eqn, jaxpr.eqns)))

    def of_eqn(self, eqn: Any) -> Cost:
        """The cost of an equation, with its nested jaxprs."""
        if is_tag(eqn):
            return Cost()
        try:
            operations = _flops.operations(eqn)
            if operations is not None:
                return Cost(*operations, _flops.moved(eqn))
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            # Shapes known only at run time, or params of a later version of JAX.
            return Cost(unknown=frozenset({eqn.primitive.name}))
        return self._nested(eqn)

    def _nested(self, eqn: JaxprEqn) -> Cost:
        if (combinations := _combinations(eqn)) is not None:
            combiners = (eqn.params[name] for name in _COMBINERS if name in eqn.params)
            each = Cost.total(self.of_jaxpr(_compat.open_jaxpr(one)) for one in combiners)
            # The elements that a combiner gets are counted in what the equation moves.
            return replace(each.times(combinations), bytes=_flops.moved(eqn))
        parts = parts_of(eqn)
        if not parts:
            return self._stated(eqn)
        costs = [self.of_jaxpr(part.jaxpr).times(trips) for part, trips in parts]
        if eqn.primitive is _compat.cond_p:
            return Cost.dearest(costs)
        cost = Cost.total(costs)
        return replace(cost, loops=True) if eqn.primitive is _compat.while_p else cost

    def _stated(self, eqn: Any) -> Cost:
        """The user's own estimate for a kernel; otherwise its bytes, and unknown operations."""
        stated = eqn.params.get("cost_estimate")
        try:
            if stated is not None:
                return Cost(stated.flops, stated.transcendentals, stated.bytes_accessed)
            return Cost(bytes=_flops.moved(eqn), unknown=frozenset({eqn.primitive.name}))
        except (TypeError, AttributeError):
            return Cost(unknown=frozenset({eqn.primitive.name}))


def parts_of(eqn: JaxprEqn) -> list[tuple[Nested, int]]:
    """The jaxprs that an equation runs, and how often on all devices, see `trips_of`.

    Each branch of a cond belongs to them. An equation in the table, and a
    reduction, is counted as a whole and has no parts; nor has a kernel, because nobody knows how
    often it runs.
    """
    if _flops.is_known(eqn) or eqn.primitive in _REDUCTIONS:
        return []
    # A linear solve does not run the jaxprs that only its derivative needs.
    all_run = eqn.primitive in (_compat.cond_p, _compat.while_p)
    run = [part for part in nested_jaxprs(eqn) if all_run or not part.conditional]
    parts = [(part, trips) for part in run if (trips := trips_of(eqn, part)) is not None]
    return parts if len(parts) == len(run) else []


def trips_of(eqn: JaxprEqn, nested: Nested) -> int | None:
    """How often an equation runs one of its jaxprs, on all devices.

    The devices along automatic axes of a mesh share one run. A while loop counts as one iteration.

    Args:
        eqn: The equation.
        nested: The jaxpr, as `nested_jaxprs` gives it.

    Returns:
        The number; None if it is not known, as for a kernel, or a scan of symbolic length.

    Example:
        >>> import jax
        >>> from taxpr import nested_jaxprs, trace, trips_of
        >>> [eqn] = trace(lambda x: jax.lax.map(lambda x: x * 2, x))(jax.numpy.ones(5)).eqns
        >>> [trips_of(eqn, nested) for nested in nested_jaxprs(eqn)]
        [5]
    """
    trips = 1 if eqn.primitive is _compat.while_p else nested.trips
    return trips * _devices(eqn.params) if isinstance(trips, int) else None


def _devices(params: Mapping[str, Any]) -> int:
    """The number of instances of an equation's jaxpr that run, on different devices."""
    if "axis_size" in params and "devices" in params:  # pmap, up to 0.8
        return params["axis_size"]
    manual = params.get("newly_manual_axes", params.get("manual_axes", ()))  # the latter up to 0.9
    return math.prod(params["mesh"].shape[name] for name in manual)


# Params of reductions with a jaxpr; `nested_jaxprs` leaves out those of JAX itself.
_REDUCTIONS = _lax.reduce_p, _lax.reduce_window_p, _lax.select_and_scatter_p
_COMBINERS = ("jaxpr", "select_jaxpr", "scatter_jaxpr")


def _combinations(eqn: Any) -> int | None:
    """How often a reduction runs its jaxpr, which combines two elements; None for no reduction."""
    if eqn.primitive not in _REDUCTIONS:
        return None
    ins, outs = size(eqn.invars[0].aval), size(eqn.outvars[0].aval)
    if eqn.primitive is _lax.reduce_p:
        return ins - outs
    window = math.prod(eqn.params["window_dimensions"])
    return outs * (window - 1) if eqn.primitive is _lax.reduce_window_p else ins * window
