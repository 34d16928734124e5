"""Find the values that go into and out of a run of consecutive equations."""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse

Eqns = Sequence[tuple[taxpr.Address, Any]]  # with their addresses


def pass_of(eqn: introspect.JaxprEqn) -> str:
    """`"backward"` if transposing made an equation, `"forward"` if only `jvp` did, else ""."""
    transformations = introspect.transformations_of(eqn)
    if "transpose" in transformations:
        return "backward"
    return "forward" if "jvp" in transformations else ""


@dataclass(frozen=True)
class InsAndOuts:
    """The values that go into and out of consecutive equations.

    Attributes:
        ins: Variables that they use but do not make.
        outs: Addresses and variables of the values that they make and others use.
        results: The variables of `outs` except residuals, which only the backward pass uses.
    """

    ins: Sequence[Any]
    outs: Eqns
    results: Sequence[Any]


class Flow:
    """Finds the values that go into and out of consecutive equations of one jaxpr, and caches them.

    Args:
        jaxpr: The jaxpr.
        within_backward: Whether it is nested in an equation of a backward pass.
        wanted: Gives the numbers of its outputs that are used; None if all are.

    Attributes:
        graph: Where the values of the jaxpr are made and used.
        within_backward: The argument.
    """

    def __init__(
        self,
        jaxpr: Any,
        within_backward: bool,
        wanted: Callable[[], Collection[int]] | None = None,
    ) -> None:
        self.graph = DefUse(jaxpr, wanted)
        self.within_backward = within_backward
        self._known: introspect.ByIdentity[InsAndOuts] = introspect.ByIdentity()

    def ends(self, eqns: Eqns, stop: int, others: Iterable[Any] = ()) -> InsAndOuts:
        """The values that go into and out of some equations.

        Args:
            eqns: The equations, with their addresses. The other arguments must follow from them.
            stop: The position after the last one.
            others: Equations before that position that do not belong to them.
        """
        return self._known.of(eqns, lambda eqns: self._ends(eqns, stop, others))

    @functools.cached_property
    def _passes(self) -> Sequence[str]:
        """The pass of each equation."""
        return list(map(pass_of, self.graph.eqns))

    def is_between(self, eqns: Eqns) -> bool:
        """Whether equations between a forward and its backward pass are for the latter.

        They make its initial cotangents, as the caller of `jax.vjp` does.
        """
        return all(id(eqn) in self._between for _, eqn in eqns)

    @functools.cached_property
    def _between(self) -> set[int]:
        eqns, used = self.graph.eqns, self.graph.taken
        passes = self._passes
        if self.within_backward or not {"forward", "backward"} <= set(passes):
            return set()
        start, end = passes.index("forward"), len(passes) - passes[::-1].index("backward")

        def is_taken_forward(eqn: introspect.JaxprEqn) -> bool:
            users = (i for var in eqn.outvars for i in used.get(var, ()) if i < end)
            return any(passes[i] == "forward" for i in users)

        # Equations that depend on nothing differentiated, such as a mask, have no pass either.
        found = (eqns[i] for i in range(start, end) if not passes[i])
        return {id(eqn) for eqn in found if not is_taken_forward(eqn)}

    def is_unused(self, eqns: Iterable[introspect.JaxprEqn]) -> bool:
        """Whether no output that is used, and no effect, depends on any of some equations.

        Where tracing failed, nobody knows what would have been used.
        """
        if self.graph.is_unfinished:
            return False
        needed = self.graph.needed
        return all(
            eqn.outvars
            and not eqn.effects
            and not introspect.is_tag(eqn)
            and needed.isdisjoint(eqn.outvars)
            for eqn in eqns
        )

    def _ends(self, eqns: Eqns, stop: int, others: Iterable[Any]) -> InsAndOuts:
        made = {var for _, eqn in eqns for var in eqn.outvars}
        ins = dict.fromkeys(
            atom
            for _, eqn in eqns
            for atom in eqn.invars
            if not introspect.is_literal(atom) and atom not in made
        )
        shown = {atom for eqn in others for atom in eqn.invars if not introspect.is_literal(atom)}
        outs: list[tuple[taxpr.Address, Any]] = []
        results: list[Any] = []
        for address, eqn in eqns:
            for k, var in enumerate(eqn.outvars):
                drawn = self.graph.used.get(var, ())  # also by a tag of which nobody takes anything
                uses = self.graph.taken.get(var) or drawn
                if var in shown or max((*drawn, *uses), default=-1) >= stop:
                    outs.append((address.value(k), var))
                    results += [var] if self._last_use(eqn, uses) >= stop else []
        return InsAndOuts(tuple(ins), outs, results)

    def _last_use(self, eqn: introspect.JaxprEqn, uses: Sequence[int]) -> int:
        """The last use of an equation's result, without uses as a residual; -1 without one."""
        kept = len(uses)
        returned = bool(uses) and uses[-1] == len(self.graph.eqns)
        if not self.within_backward and not returned and pass_of(eqn) == "forward":
            backward = (k for k, i in enumerate(uses) if self._passes[i] == "backward")
            kept = next(backward, kept)
        return uses[kept - 1] if kept else -1
