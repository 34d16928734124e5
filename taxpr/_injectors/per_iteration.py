"""Injectors that keep a state for each iteration of the loops around a tag, or act in some only."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, PyTree
from taxpr._engine.iterations import loops_around
from taxpr._errors import ArgumentError, InjectorError
from taxpr._injectors.injector import Injector, Report
from taxpr._injectors.kind import InjectorKind
from taxpr._injectors.site_injector import Firing, SiteInjector, without_site
from taxpr._injectors.switched import Gated
from taxpr._sites.site import Site, described


def by_iteration(kind: InjectorKind) -> InjectorKind:
    """A decorator that adds the options ``per`` and ``max_steps`` to an injector kind.

    With ``per="iteration"`` an injector keeps one state for each iteration of the loops around a
    tag. Its report must work on states with leading axes.
    """
    return kind.finished(_per_iteration, per=None, max_steps=None)


def _per_iteration(one: Injector) -> Injector:
    per, max_steps = one.options.get("per"), one.options.get("max_steps")
    if per not in (None, "iteration"):
        raise InjectorError(
            f'{one.name}: per={per!r}; it is "iteration", for one row for each iteration of the '
            "loops around a tag, or None, for all firings together."
        )
    if max_steps is not None and (type(max_steps) is not int or max_steps < 1):
        raise InjectorError(
            f"{one.name}: max_steps={max_steps!r}; it is a number from 1 on, or None."
        )
    if per is None:
        if max_steps is None:
            return one
        raise InjectorError(
            f"{one.name}: max_steps={max_steps} says how many iterations of while loops have a "
            f'row, and there are rows with per="iteration" only: {one.name}(per="iteration", '
            f"max_steps={max_steps})."
        )
    rows = _PerIteration.of(one, one=one)
    return dataclasses.replace(
        rows,
        fire=without_site(one.name),
        new_state=rows.new_rows,
        report=rows.report_of_rows,
    )


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _PerIteration(SiteInjector):
    """An injector with the state ``{"rows": states}``, with a leading axis for each loop.

    If one of the loops is a while loop, the state also has ``beyond``: the number of firings in
    iterations without a row.
    """

    of_examples: ClassVar[bool] = True
    one: Injector

    def report_of_rows(self, state: dict[str, PyTree]) -> Report:
        beyond = {name: value for name, value in state.items() if name != "rows"}
        return {**self.one.report(state["rows"]), **beyond}

    def new_rows(self, site: Site | None) -> dict[str, PyTree]:
        assert site is not None
        sizes = self._sizes(site)
        first = jax.tree.map(jnp.asarray, self.one.new_state(site))
        rows = _compat.map_leaves(lambda x: jnp.broadcast_to(x, (*sizes, *x.shape)), first)
        return {"rows": rows, **({"beyond": 0} if _open_ended(site) else {})}

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        del part
        return [True] * len(loops_around(site))

    def fire_at(self, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
        state, sizes = ctx["state"], self._sizes(at.site)
        place = tuple(k for k in at.places if k is not None)  # all are counted
        if 0 in sizes:  # a loop of no iterations is traced, too
            return token, ctx
        row = _compat.map_leaves(lambda x: x[place], state["rows"])
        token, after = self.one({**ctx, "state": row}, token, at.params)
        rows = _compat.map_pairs(
            lambda x, new: x.at[place].set(new, mode="drop"), state["rows"], after["state"]
        )
        new = {"rows": rows}
        if _open_ended(at.site):
            outside = [k >= size for k, size in zip(place, sizes, strict=True)]
            new["beyond"] = state["beyond"] + jnp.any(jnp.stack(outside)).astype(jnp.int32)
        return token, {**ctx, "state": new}

    def _sizes(self, site: Site) -> tuple[int, ...]:
        """How many rows there are for each loop around a site."""
        sizes: list[int] = []
        for address, step in loops_around(site):
            trips, limit = step.nested.trips, self.options.get("max_steps")
            size = trips if isinstance(trips, int) else limit
            if size is None:
                raise InjectorError(
                    f"{self.name}: the {site} is in the loop {described(address, step.eqn)}, and "
                    "only a run can tell how often that iterates. Say how many iterations have a "
                    f'row, the first ones: {self.name}(per="iteration", max_steps=100); or select '
                    "other tags with where=."
                )
            sizes.append(size)
        return tuple(sizes)


def in_iterations(one: Injector, iterations: tuple[int, ...]) -> Injector:
    """An injector that acts in some iterations of each loop around a tag only."""
    return _InIterations.of(one, fire=without_site(one.name), one=one, iterations=iterations)


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _InIterations(Gated):
    iterations: tuple[int, ...]

    def initial(self, sites: Sequence[Site]) -> dict[str, PyTree]:
        for site in sites:
            if not loops_around(site):
                raise ArgumentError(
                    f"each: iterations={list(self.iterations)}, and the {site} is in no loop. "
                    "Leave out iterations, or select the tags in a loop alone."
                )
            refuse_beyond(site, self.iterations)
        return self.inner.initial(sites)

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        del part
        return [True] * len(loops_around(site))

    def is_on(self, at: Firing, ctx: PyTree) -> Array:
        del ctx
        wanted = jnp.asarray(self.iterations, jnp.int32)
        places = [k for k in at.places if k is not None]  # all are counted
        return jnp.all(jnp.stack([jnp.any(wanted == k) for k in places]))


def refuse_beyond(site: Site, iterations: Iterable[int]) -> None:
    """Raise if a loop around a tag has no such iteration.

    Raises:
        ArgumentError: If it has not.
    """
    for address, step in loops_around(site):
        trips = step.nested.trips
        beyond = [k for k in iterations if isinstance(trips, int) and k >= trips]
        if beyond:
            raise ArgumentError(
                f"each: iterations has {beyond[0]}, and the loop {described(address, step.eqn)} "
                f"has {trips}, counted from 0. This is for the {site}."
            )


def _open_ended(site: Site) -> bool:
    """Whether a loop around a site has a length that only a run can tell."""
    return any(not isinstance(step.nested.trips, int) for _, step in loops_around(site))
