"""Changes of variables that are differentiated: by `edit`, so that the derivative changes, too."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, PyTree
from taxpr._editing.alteration import Alteration, Bound, alteration
from taxpr._editing.edited import edit
from taxpr._injectors.injector import Injector
from taxpr._programs.program import Program
from taxpr._sites.criteria import Each
from taxpr._sites.site import Site
from taxpr._sweep.points import INDEX, SITE, Point
from taxpr._variables.select import Var, chosen

NOTE = (
    "The program differentiates the changed value, so the source is edited there (taxpr.edit): "
    "the derivative is the changed function's."
)

# What `edit` takes for the variable of a number, given the parameters of a run.
Change = Callable[[int, Mapping[str, Any]], Any]


def edited(
    fun: Any,
    where: Any,
    program: Program,
    sites: Sequence[Site],
    of: tuple[Each, Sequence[Point]] | None,
    change: Change,
) -> Callable[[Mapping[str, Any]], Callable[..., Any]] | None:
    """A function that returns the edited function for the parameters of a run.

    None if the changes are injections: if nothing is differentiated there, or a place is a single
    iteration of a loop, which has no line of its own.

    Args:
        fun: The function.
        where: The selector of variables.
        program: Its program, which knows them.
        sites: The tags at them.
        of: The places one by one, if there are several.
        change: The change of the values.
    """
    every = [where] if isinstance(where, (str, Var)) else where
    if isinstance(fun, Program) or not _compat.is_sequence(every) or program.named is None:
        return None
    stale = program.named.differentiated
    of_variables = all(isinstance(one, (str, Var)) for one in every)
    if not (of_variables and all(site.variable for site in sites)) or stale.isdisjoint(
        site.value_address for site in sites
    ):
        return None
    variables = [Var(one) if isinstance(one, str) else one for one in every]
    numbers = dict.fromkeys(variables, 0)
    if of is not None:
        addresses = [site.value_address for site in sites]
        for one in variables:
            at = {each.address for each in chosen(program.variables(), one, may_be_empty=True)}
            if len(at) != 1:
                return None
            numbers[one] = addresses.index(at.pop())
        if any(number >= 0 for point in of[1] for number in point.iteration):
            return None

    def changed(one: Var, place: Mapping[str, Any]) -> Alteration:
        number, new = numbers[one], alteration(change(numbers[one], place))
        if of is None:
            return new
        axis = of[0].axis

        def at_the_place(bound: Bound) -> Any:
            return _here(number, place, axis, bound.value, new.of(bound))

        return dataclasses.replace(new, make=at_the_place)

    return lambda place: edit(fun, {one: changed(one, place) for one in variables})


def with_values(ready: Injector, place: Mapping[str, Any]) -> Injector:
    """The injector with the parameters of a run."""
    values = {name: place.get(name, one) for name, one in ready.values.items()}
    return dataclasses.replace(ready, values=values)


def _here(
    number: int, place: Mapping[str, Any], axis: int | None, value: PyTree, other: PyTree
) -> PyTree:
    """The other value, if the run is of this place, and only at its part along the axis."""
    here = place[SITE] == number

    def one(old: Array, new: Array) -> Array:
        mask = here
        if axis is not None:
            indices = jnp.arange(old.shape[axis]) == place[INDEX]
            mask = here & indices.reshape(-1, *(1,) * (old.ndim - 1 - axis % old.ndim))
        return jnp.where(mask, new, old)

    return jax.tree.map(one, value, other)
