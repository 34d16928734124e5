"""Count the iterations of loops, for injectors that need the iteration number.

A counter is an additional leaf of the context. Invariant: it is zero whenever its loop begins. It
is incremented at the end of the loop's body, and reset at the end of the jaxpr that holds the loop.
Tags without a token mark these ends; they come after all other equations and so change no address.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Aval, ClosedJaxpr, J, JaxprEqn
from taxpr._engine.handler import Handled, Handler
from taxpr._errors import RefusedError
from taxpr._hops.protocol import NO_OPTIONS, Options
from taxpr._hops.table import has_rules, in_loop, nested_jaxprs, replace_nested
from taxpr._primitives.tag import tag
from taxpr._sites.site import Site, Step, around, described

COUNTER = _compat.ShapedArray((), jnp.dtype(jnp.int32))


@dataclasses.dataclass(frozen=True)
class LoopAround:
    """One loop around a site.

    Attributes:
        address: Its address.
        length: The trip count, which may be a symbolic dimension; None for a while loop.
        reverse: Whether it is a scan that begins at the end.
        counter: The index of its counter in the context.
    """

    address: str
    length: int | None
    reverse: bool
    counter: int

    def index(self, counter: Array) -> Array:
        """The position of this iteration on the axis of collected values."""
        if self.reverse and self.length is not None:
            return jnp.asarray(self.length - 1, jnp.int32) - counter
        return counter


def loops_around(site: Site) -> list[tuple[Address, Step]]:
    """The addresses and steps of the loops around a site, outermost first."""
    return [(address, step) for address, step in around(site.steps) if step.is_loop]


def runs_plainly(step: Step, options: Options = NO_OPTIONS) -> bool:
    """Whether an equation always runs its jaxpr, and never a derivative rule in its place."""
    return options.custom_rules == "drop" or not has_rules(step.eqn)


def refuse_unless_plain(what: str, site: Site, depth: int, options: Options) -> None:
    """Raise if one of the outermost ``depth`` equations around a site may run another jaxpr.

    For example, a kept rule of `jax.custom_vjp` runs instead of the function when the program is
    differentiated.
    """
    for address, step in around(site.steps[:depth]):
        if not runs_plainly(step, options):
            raise RefusedError(
                f"{what}: the {site} is inside {described(address, step.eqn)}, and "
                f"{step.eqn.primitive.name} may run other code instead of its own jaxprs. Give "
                'custom_rules="drop", select other tags with where=, or move the tag out of it.'
            )


def _refuse_hidden(site: Site, depth: int) -> None:
    for address, step in around(site.steps[:depth]):
        if not step.nested.replaceable:
            raise RefusedError(
                f"counting iterations: the {site} is inside {described(address, step.eqn)}, which "
                "keeps its jaxpr hidden, so that no counter can be put there. Select other tags "
                "with where=, or move the tag out of it."
            )


class Counters:
    """The counters of some loops, which follow ``n_ctx`` other leaves in the context."""

    def __init__(self, n_ctx: int, options: Options = NO_OPTIONS):
        self._n_ctx = n_ctx
        self._options = options
        self._loops: dict[str, tuple[LoopAround, tuple[Step, ...]]] = {}
        self._of_changes: set[str] = set()  # loops counted for injectors that change a value

    def of(self, site: Site, counted: Sequence[bool], observes: bool) -> list[LoopAround | None]:
        """The loops around a site, outermost first; None for those not to be counted.

        An injector with ``observes`` may be in a function with a derivative rule.
        """
        out: list[LoopAround | None] = []
        for (address, step), wanted in zip(loops_around(site), counted, strict=True):
            if not wanted:
                out.append(None)
                continue
            depth = site.chain.index(address)
            if not observes or any(step.nested.rule for step in site.steps[:depth]):
                refuse_unless_plain("counting iterations", site, depth, self._options)
                self._of_changes.add(address)
            if address not in self._loops:
                _refuse_hidden(site, depth)
                loop = LoopAround(
                    address,
                    step.nested.trips,
                    step.nested.reverse,
                    self._n_ctx + len(self._loops),
                )
                self._loops[address] = loop, site.steps[: depth + 1]
            out.append(self._loops[address][0])
        return out

    @property
    def avals(self) -> list[Aval]:
        """One aval for each counter."""
        return [_compat.aval_on_mesh_here(COUNTER)] * len(self._loops)

    @property
    def leaves(self) -> range:
        """The indices of the counters in the context."""
        return range(self._n_ctx, self._n_ctx + len(self._loops))

    def installed(self, jaxpr: J) -> tuple[J, list[tuple[Site, Handler]]]:
        """The jaxpr with tags that count, and these tags with their handlers."""
        chosen: list[tuple[Site, Handler]] = []
        ends = _LoopEnds()
        for address, (loop, steps) in self._loops.items():
            *outer, step = steps
            observes = address not in self._of_changes
            body = [one for one in nested_jaxprs(step.eqn) if in_loop(step.eqn, one)][-1]
            inside = (*outer, step._replace(nested=body))
            chosen.append((_end_of(inside, ends), _going_up(loop.counter, observes)))
            if outer:
                back = _back_to_zero(loop.counter, observes)
                chosen.append((_end_of(tuple(outer), ends), back))
        return (_with_ends(jaxpr, ends) if chosen else jaxpr), chosen

    def closed(self, jaxpr: ClosedJaxpr) -> ClosedJaxpr:
        """The threaded jaxpr with counters starting at zero and removed from the results."""
        if not self._loops:
            return jaxpr
        avals, n = list(jaxpr.in_avals), len(self._loops)
        del avals[self._n_ctx : self._n_ctx + n]

        def run(*flat: Array) -> list[Array]:
            zeros = [jnp.int32(0)] * n
            flat = (*flat[: self._n_ctx], *zeros, *flat[self._n_ctx :])
            return _compat.jaxpr_as_fun(jaxpr)(*flat)[:-n]

        return _compat.make_jaxpr(run)(*avals)


def _going_up(counter: int, observes: bool) -> Handler:
    def run(address: str, eqn: JaxprEqn, ctx: list[Array], token: list[Array]) -> Handled:
        del address, eqn
        return [ctx[0] + 1], token, None

    return _counting(run, counter, observes)


def _back_to_zero(counter: int, observes: bool) -> Handler:
    def run(address: str, eqn: JaxprEqn, ctx: list[Array], token: list[Array]) -> Handled:
        del address, eqn, ctx
        return [jnp.int32(0)], token, None

    return _counting(run, counter, observes)


def _counting(run: Callable[..., Handled], counter: int, observes: bool) -> Handler:
    seen = (counter,) if observes else ()
    return Handler(run, uses=(counter,), observes=observes, seen=seen)


@dataclasses.dataclass
class _LoopEnds:
    """The number of tags to add at the end of a jaxpr and of its nested jaxprs."""

    tags: int = 0
    below: dict[tuple[int, str], _LoopEnds] = dataclasses.field(
        default_factory=dict["tuple[int, str]", "_LoopEnds"]
    )


def _end_of(steps: tuple[Step, ...], ends: _LoopEnds) -> Site:
    """A new tag at the end of a nested jaxpr; counts it in ``ends``."""
    here = ends
    for step in steps:
        here = here.below.setdefault(step.key, _LoopEnds())
    position = len(steps[-1].nested.jaxpr.eqns) + here.tags
    here.tags += 1
    return Site(
        address=Address(),
        params={},
        avals=(),
        value_address=None,
        batch=(),
        steps=steps,
        position=position,
        eqn=_mark(),
        makers=(),
    )


def _mark() -> JaxprEqn:
    [eqn] = _compat.open_jaxpr(_compat.make_jaxpr(lambda: tag((), name="end of a loop"))()).eqns
    return eqn


def _with_ends(stored: J, ends: _LoopEnds, around: JaxprEqn | None = None) -> J:
    eqns = list(_compat.open_jaxpr(stored).eqns)
    around = eqns[-1] if eqns else around
    for (position, label), below in ends.below.items():
        held = {n.label: n.stored for n in nested_jaxprs(eqns[position])}[label]
        new = _with_ends(held, below, eqns[position])
        eqns[position] = replace_nested(eqns[position], {label: new})
    if ends.tags:
        assert around is not None, "only nested jaxprs have such tags"
        # In a shard_map all equations have its mesh, so take the context of the equation.
        eqns += [_mark().replace(ctx=around.ctx)] * ends.tags
    return _compat.rebuilt(stored, eqns=eqns)
