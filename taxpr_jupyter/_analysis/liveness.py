"""Which values go into and out of equations in a row."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import taxpr

_END = 1 << 62  # where the jaxpr's results are used
Eqns = Sequence[tuple[taxpr.Address, Any]]  # with their addresses


def pass_of(eqn: Any) -> str:
    """`"backward"` for what JAX made by transposing, `"forward"` for what it differentiated."""
    transformations = taxpr.transformations_of(eqn)
    if "transpose" in transformations:
        return "backward"
    return "forward" if "jvp" in transformations else ""


@dataclass(frozen=True)
class Ends:
    """What goes into and out of equations in a row.

    Attributes:
        ins: Variables that they use and do not make.
        outs: Addresses and variables of what they make and something else uses.
        results: Those of `outs` that are not only kept by the forward pass for the backward pass.
    """

    ins: Sequence[Any]
    outs: Eqns
    results: Sequence[Any]


class Flow:
    """The uses of the values of one jaxpr, found once.

    Args:
        jaxpr: The jaxpr.
        within_backward: Whether it is nested in an equation of a backward pass.
    """

    def __init__(self, jaxpr: Any, within_backward: bool) -> None:
        self._jaxpr = jaxpr
        self._within_backward = within_backward
        # By id; the equations are kept, so that their id stays their own.
        self._known: dict[int, tuple[Eqns, Ends]] = {}

    def ends(self, eqns: Eqns, stop: int, others: Iterable[Any] = ()) -> Ends:
        """What goes in and out.

        Args:
            eqns: The equations, with their addresses. The other arguments follow from them.
            stop: The position behind the last one.
            others: Equations before it that are none of them.
        """
        known = self._known.get(id(eqns))
        if known is None:
            known = self._known[id(eqns)] = eqns, self._ends(eqns, stop, others)
        return known[1]

    def is_between(self, eqns: Eqns) -> bool:
        """Whether equations stand between a forward and its backward pass, and are for the latter.

        They make what the backward pass begins with, as does the caller of `jax.vjp`.
        """
        return all(id(eqn) in self._between for _, eqn in eqns)

    @functools.cached_property
    def _between(self) -> set[int]:
        passes = [pass_of(eqn) for eqn in self._jaxpr.eqns]
        if self._within_backward or not {"forward", "backward"} <= set(passes):
            return set()
        start, end = passes.index("forward"), len(passes) - passes[::-1].index("backward")
        eqns = list(zip(passes, self._jaxpr.eqns, strict=True))[start:end]
        # What depends on nothing that is differentiated, such as a mask, has no pass, either.
        used = {
            atom
            for name, eqn in eqns
            if name == "forward"
            for atom in eqn.invars
            if not taxpr.is_literal(atom)
        }
        return {id(eqn) for name, eqn in eqns if not name and used.isdisjoint(eqn.outvars)}

    def is_unused(self, eqn: Any) -> bool:
        """Whether an equation makes something, and nothing uses it, and it does nothing else."""
        last, _ = self._last_uses
        return bool(eqn.outvars) and not eqn.effects and last.keys().isdisjoint(eqn.outvars)

    def _ends(self, eqns: Eqns, stop: int, others: Iterable[Any]) -> Ends:
        made = {var for _, eqn in eqns for var in eqn.outvars}
        ins = dict.fromkeys(
            atom
            for _, eqn in eqns
            for atom in eqn.invars
            if not taxpr.is_literal(atom) and atom not in made
        )
        shown = {atom for eqn in others for atom in eqn.invars if not taxpr.is_literal(atom)}
        last, kept = self._last_uses
        outs = [
            (address.value(k), var)
            for address, eqn in eqns
            for k, var in enumerate(eqn.outvars)
            if last.get(var, -1) >= stop or var in shown
        ]
        results = [var for _, var in outs if kept.get(var, last.get(var, -1)) >= stop]
        return Ends(tuple(ins), outs, results)

    @functools.cached_property
    def _last_uses(self) -> tuple[dict[Any, int], dict[Any, int]]:
        """The position of the last use of each variable.

        And, of what the forward pass makes and the backward pass uses, of the last use before it.
        """
        last: dict[Any, int] = {}
        before: dict[Any, int] = {}
        eqns = () if self._within_backward else self._jaxpr.eqns
        forward = {var for eqn in eqns if pass_of(eqn) == "forward" for var in eqn.outvars}
        for i, eqn in enumerate(self._jaxpr.eqns):
            backward = bool(forward) and pass_of(eqn) == "backward"
            for atom in eqn.invars:
                if taxpr.is_literal(atom):
                    continue
                if backward and atom in forward:
                    before.setdefault(atom, last.get(atom, -1))
                last[atom] = i
        for atom in self._jaxpr.outvars:
            if not taxpr.is_literal(atom):
                last[atom] = _END
                before.pop(atom, None)
        return last, before
