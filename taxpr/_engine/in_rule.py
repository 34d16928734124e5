"""Decide what to do at tags of a function when a derivative rule runs in its place.

A handler that changes a value must also run in the rule, so it raises an error if its tag cannot be
identified there. A handler that only observes must not change the rule: if its tag cannot be
identified there, it observes the function itself, which then runs next to the rule.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, ClosedJaxpr, JaxprEqn
from taxpr._engine.dropped import warn_of_unobserved
from taxpr._engine.handler import NOTHING, Handled, Handler
from taxpr._engine.plan import (
    Plan,
    Unclear,
    handler_at,
    handlers_of,
    keys_in_rule,
    plan_of_rule,
    with_handlers,
)
from taxpr._errors import RefusedError
from taxpr._hops.silent import silent
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.state_access import is_access
from taxpr._sites.site import Site, described


class InRule(NamedTuple):
    """The work at the tags of a function, for one form of its rule.

    Attributes:
        plan: The plan for the jaxpr of the rule.
        keys: The keys of emissions in the rule, mapped to the keys of the function's tags.
        beside: The plan for the function, to run next to the rule; empty if nothing observes it.
        seen: The indices of the context leaves that ``beside`` computes.
    """

    plan: Plan
    keys: Mapping[str, str]
    beside: Plan
    seen: frozenset[int]


def in_rule(
    eqn: JaxprEqn, plans: Mapping[str, Plan], label: str, rule: ClosedJaxpr, address: Address
) -> InRule:
    """Translate the plans of an equation's own jaxprs to the jaxpr of its rule.

    Raises:
        RefusedError: If a tag with a changing handler cannot be identified in the rule.

    Warns:
        UnobservedWarning: If a tag with an observing handler, which only the rule has, cannot be
            identified in this form of the rule.
    """
    [own] = (nested.label for nested in nested_jaxprs(eqn))
    handlers = set(handlers_of(plans.get(own, {})))
    unclear = plan_of_rule(eqn, plans, rule)[1]
    missed = {one.handler for one in unclear if one.handler.observes and not one.of_rule}
    missed = _with_sharing(missed, handlers)
    # A rule may call the function on other values, so emit the values of the function itself.
    beside = missed | {handler for handler in handlers if handler.emits}
    chosen = plans.get(own, {})
    left = {**plans, own: with_handlers(chosen, lambda h: NOTHING if h in beside else h)}
    plan, unclear = plan_of_rule(eqn, left, rule)
    for one in unclear:
        if not (one.handler.observes or one.handler is NOTHING):
            raise RefusedError(_refusal(address, label, eqn, one))
    keys, untold = keys_in_rule(eqn, rule)
    of_label = plans.get(label, {})
    unseen = [one.site for one in unclear if one.of_rule]
    unseen += [site for site in untold if (it := handler_at(of_label, site)) and it.emits]
    tags = [_described(address, label, site) for site in unseen]
    warn_of_unobserved(tags, label, described(address, eqn))
    quiet = {handler: _quiet(handler) for handler in handlers if not handler.observes}
    quiet |= {handler: handler for handler in beside}
    return InRule(
        plan,
        keys,
        with_handlers(chosen, quiet.get) if beside else {},
        frozenset(index for handler in beside for index in handler.uses or ()),
    )


def _with_sharing(some: set[Handler], handlers: set[Handler]) -> set[Handler]:
    """Add the observers of context leaves that these handlers make, such as a loop counter."""
    made: set[int] = set()
    while more := {index for one in some for index in one.uses or ()} - made:
        made |= more
        looking = (one for one in handlers if one.observes)
        some = some | {one for one in looking if not made.isdisjoint(one.uses or ())}
    return some


def _quiet(handler: Handler) -> Handler:
    """The handler without effects, because these happen in the rule."""

    def run(address: str, eqn: JaxprEqn, ctx: list[Array], token: list[Array]) -> Handled:
        def call(ctx: list[Array], token: list[Array]) -> Handled:
            return handler.run(address, eqn, ctx, token)

        jaxpr, shapes = _compat.make_jaxpr_and_shapes(call)(ctx, token)
        flat = _compat.jaxpr_as_fun(silent(jaxpr))(*ctx, *token)
        return jax.tree.unflatten(jax.tree.structure(shapes), flat)

    return dataclasses.replace(handler, run=run)


def _described(address: Address, label: str, site: Site) -> str:
    return described(address / label / site.address, site.eqn)


def _refusal(address: Address, label: str, eqn: JaxprEqn, unclear: Unclear) -> str:
    site, ruled = unclear.site, described(address, eqn)
    if is_access(site.eqn):
        return (
            f"uncurry: the {site}, in {ruled}, is not in the {label} rule that takes the "
            "function's place when it is differentiated, or another number of times. So the "
            "state would become different in the two. Let the rule use the states as the "
            "function does, as by calling it."
        )
    if unclear.of_rule:
        return (
            f"inject: the {_described(address, label, site)}, which only the {label} rule of "
            f"{ruled} has, cannot be told from the others there with its params and shapes: the "
            "rule may have other tags for other inputs that are differentiated, and the lines "
            "of the source do not tell them apart. The injection would be in the wrong place. "
            "Give these tags names of their own, or select all of them, with one injector."
        )
    return (
        f"inject: the {_described(address, nested_jaxprs(eqn)[0].label, site)}, in {ruled}, "
        f"cannot be told for sure in the {label} rule that takes the function's place when it is "
        "differentiated: the rule has no such tag, or another number of tags with these params "
        "and shapes, or not all of them are selected. The injection would be lost or in the "
        'wrong place. Give custom_rules="drop" to differentiate the injected function itself, '
        "or give the tags of function and rule names of their own. An injector that only looks "
        "at the token is not refused if it says so, by observes=True."
    )
