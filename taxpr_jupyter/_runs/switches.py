"""One compiled program for the run with the injectors and the one without: each has a switch."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

import taxpr
from taxpr import introspect
from taxpr_jupyter._edits.attached import Attached

_ON = "on"  # the parameter that `taxpr.switched` adds

# The contexts of the injectors at each site, by its `taxpr.Address`.
Contexts = Mapping[Any, tuple[Any, ...]]


def with_switch(attached: Attached, site: taxpr.program.Site) -> taxpr.injectors.Injector:
    """The injector for a site; it has a switch if it changes values, and can have one."""
    injector = attached.injector.at([site])
    return taxpr.switched(injector) if _has_switch(attached) else injector


def switched_off(ctx: Contexts, attached: Mapping[str, Attached]) -> Contexts | None:
    """The contexts with all injectors off; None if one that changes values has no switch.

    Args:
        ctx: The contexts; the injectors' own come first at each site.
        attached: The injectors by the address of their site.
    """
    if any(not (_has_switch(one) or one.injector.observes) for one in attached.values()):
        return None
    off = {address for address, one in attached.items() if _has_switch(one)}
    return {address: _off(row) if address in off else row for address, row in ctx.items()}


def values_of(attached: Attached, ctx: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the injector itself in its final context."""
    hidden = {_ON} if _has_switch(attached) else set[str]()
    return {name: value for name, value in ctx["values"].items() if name not in hidden}


def calls_out(program: taxpr.Program) -> int:
    """The number of equations that call the host, as `jax.debug.print` does, or hold one."""
    return sum(
        bool(eqn.effects) or eqn.primitive in introspect.callbacks  # a pure one has no effect
        for _, eqn in introspect.iter_eqns(program)
    )


def _has_switch(attached: Attached) -> bool:
    injector = attached.injector
    return not injector.observes and _ON not in injector.values


def _off(row: Sequence[Any]) -> tuple[Any, ...]:
    own, *others = row
    values = {**own["values"], _ON: jnp.zeros_like(own["values"][_ON])}
    return ({**own, "values": values}, *others)
