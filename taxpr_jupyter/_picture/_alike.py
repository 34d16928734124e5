"""Which equations are the same but for their values, and where a sequence repeats itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.extend.core.primitives as p
import numpy as np

import taxpr

_CANDIDATES = 8  # distances that are tried as the length of a period
_LEAST = 3  # times; twice is a pair, which is drawn as one


# Params that say where in an array a slice lies, and not how large it is; to transpose a slice is
# to pad.
_WHERE = {
    (p.slice_p, "start_indices"),
    (p.slice_p, "limit_indices"),
    (p.pad_p, "padding_config"),
}


class Repeat(NamedTuple):
    """Where a sequence repeats itself: `times` times `period` elements, from `start`."""

    start: int
    period: int
    times: int

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + self.period * self.times


def repeat_in(keys: Sequence[int]) -> Repeat | None:
    """The repeat that covers most of a sequence; None where nothing comes three times in a row.

    Of those that cover about the same, the one with the shortest period. Takes time linear in the
    length.
    """
    if len(keys) < _LEAST:
        return None
    values = np.asarray(keys)
    # How far is it to the next equal element? A period shows as a frequent distance.
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, key in enumerate(keys):
        if key in last:
            distances[i - last[key]] += 1
        last[key] = i
    best: Repeat | None = None
    for period, _ in distances.most_common(_CANDIDATES):
        start, length = _longest_true(values[:-period] == values[period:])
        found = Repeat(start, period, (length + period) // period)
        if found.times < _LEAST:
            continue
        covered, known = found.times * period, best.times * best.period if best else 0
        shorter = best is not None and period < best.period
        if covered > 1.05 * known or (shorter and covered > 0.95 * known):
            best = found
    return best


def _longest_true(values: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], values, [False])).astype(np.int8)))
    if not edges.size:
        return 0, 0
    starts, stops = edges[::2], edges[1::2]
    longest = int(np.argmax(stops - starts))
    return int(starts[longest]), int(stops[longest] - starts[longest])


class Alike:
    """Gives equations numbers: the same for those that compute the same way.

    The same are primitive, types, literals, params and nested jaxprs. Variables and functions
    among the params are left out, and so is which slice of an array is taken: that of a layer, of
    weights that are stacked.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._jaxprs: dict[int, tuple[Any, int]] = {}

    def number(self, key: Any) -> int:
        """The number of anything hashable."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of_eqn(self, eqn: Any) -> int:
        """The number of an equation."""
        operands = tuple(
            (atom.aval, str(atom.val)) if taxpr.is_literal(atom) else atom.aval
            for atom in eqn.invars
        )
        results = tuple(var.aval for var in eqn.outvars)
        params = tuple(
            (name, self._of_param(value))
            for name, value in eqn.params.items()
            if (eqn.primitive, name) not in _WHERE
        )
        return self.number((eqn.primitive, operands, results, params))

    def _of_param(self, value: Any) -> Any:
        if hasattr(value, "eqns"):
            return self._of_jaxpr(value)
        if isinstance(value, tuple):
            return tuple(map(self._of_param, value))
        if callable(value) and not isinstance(value, type):
            return None
        try:
            hash(value)
        except TypeError:
            return str(value)
        return value

    def _of_jaxpr(self, jaxpr: Any) -> int:
        known = self._jaxprs.get(id(jaxpr))
        if known is None:
            inner = getattr(jaxpr, "jaxpr", jaxpr)
            number = self.number(tuple(map(self.of_eqn, inner.eqns)))
            # The jaxpr is kept, so that its id stays its own.
            known = self._jaxprs[id(jaxpr)] = jaxpr, number
        return known[1]
