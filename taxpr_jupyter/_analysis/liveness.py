"""Find the values that go into and out of a run of consecutive equations."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import taxpr
from taxpr_jupyter._analysis.graph import Graph

Eqns = Sequence[tuple[taxpr.Address, Any]]  # with their addresses


def pass_of(eqn: Any) -> str:
    """`"backward"` for what JAX made by transposing, `"forward"` for what it differentiated."""
    transformations = taxpr.transformations_of(eqn)
    if "transpose" in transformations:
        return "backward"
    return "forward" if "jvp" in transformations else ""


@dataclass(frozen=True)
class Ends:
    """The values that go into and out of consecutive equations.

    Attributes:
        ins: Variables that they use but do not make.
        outs: Addresses and variables of values that they make and others use.
        results: Those of `outs` that the forward pass does not only keep for the backward pass.
    """

    ins: Sequence[Any]
    outs: Eqns
    results: Sequence[Any]


class Flow:
    """Finds the values that go in and out of consecutive equations of one jaxpr, and caches them.

    Args:
        jaxpr: The jaxpr.
        within_backward: Whether it is nested in an equation of a backward pass.

    Attributes:
        graph: Where the values of the jaxpr are made and used.
    """

    def __init__(self, jaxpr: Any, within_backward: bool) -> None:
        self.graph = Graph(jaxpr)
        self._within_backward = within_backward
        # By id; the equations are kept, so that their id stays their own.
        self._known: dict[int, tuple[Eqns, Ends]] = {}

    def ends(self, eqns: Eqns, stop: int, others: Iterable[Any] = ()) -> Ends:
        """The values that go in and out of some equations.

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
        eqns, used = self.graph.eqns, self.graph.used
        passes = [pass_of(eqn) for eqn in eqns]
        if self._within_backward or not {"forward", "backward"} <= set(passes):
            return set()
        start, end = passes.index("forward"), len(passes) - passes[::-1].index("backward")

        def is_taken_forward(eqn: Any) -> bool:
            users = (i for var in eqn.outvars for i in used.get(var, ()) if i < end)
            return any(passes[i] == "forward" for i in users)

        # What depends on nothing that is differentiated, such as a mask, has no pass, either.
        found = (eqns[i] for i in range(start, end) if not passes[i])
        return {id(eqn) for eqn in found if not is_taken_forward(eqn)}

    def is_unused(self, eqn: Any) -> bool:
        """Whether an equation makes something, and nothing uses it, and it does nothing else."""
        unused = self.graph.used.keys().isdisjoint(eqn.outvars)
        return unused and bool(eqn.outvars) and not eqn.effects

    def _ends(self, eqns: Eqns, stop: int, others: Iterable[Any]) -> Ends:
        made = {var for _, eqn in eqns for var in eqn.outvars}
        ins = dict.fromkeys(
            atom
            for _, eqn in eqns
            for atom in eqn.invars
            if not taxpr.is_literal(atom) and atom not in made
        )
        shown = {atom for eqn in others for atom in eqn.invars if not taxpr.is_literal(atom)}
        outs: list[tuple[taxpr.Address, Any]] = []
        results: list[Any] = []
        for address, eqn in eqns:
            for k, var in enumerate(eqn.outvars):
                uses = self.graph.used.get(var, ())
                if var in shown or (uses and uses[-1] >= stop):
                    outs.append((address.value(k), var))
                    results += [var] if self._last_use(eqn, uses) >= stop else []
        return Ends(tuple(ins), outs, results)

    def _last_use(self, eqn: Any, uses: Sequence[int]) -> int:
        """The last use of what an equation makes, before those of which the forward pass keeps it.

        -1 where there is none.
        """
        eqns, kept = self.graph.eqns, len(uses)
        returned = bool(uses) and uses[-1] == len(eqns)
        if not self._within_backward and not returned and pass_of(eqn) == "forward":
            backward = (k for k, i in enumerate(uses) if pass_of(eqns[i]) == "backward")
            kept = next(backward, kept)
        return uses[kept - 1] if kept else -1
