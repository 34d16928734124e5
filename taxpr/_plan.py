"""Plans: what is to be done where in a program, as a tree of the jaxprs on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taxpr import _compat
from taxpr._site import Site
from taxpr._table import nested_jaxprs, rule_jaxprs
from taxpr._walk import find_sites, is_tag_or_access, tag_key

Leaf = Any
Plan = dict[int, Any]

_NOT_CHOSEN: Any = object()


def plan_of(chosen: list[tuple[Site, Leaf]]) -> Plan:
    """Selected sites as a tree: position to leaf, or to {label: plan} for a step down."""
    plan: Plan = {}
    for site, leaf in chosen:
        here = plan
        for position, label in (step.key for step in site.steps):
            here = here.setdefault(position, {}).setdefault(label, {})
        here[site.position] = leaf
    return plan


def plan_key(plan: Plan) -> Any:
    """A plan as something hashable; equal plans of one jaxpr ask for the same work."""
    return tuple(
        (position, tuple((label, plan_key(sub)) for label, sub in step.items()))
        if isinstance(step, dict)
        else (position, id(step))
        for position, step in plan.items()
    )


def plan_of_rule(
    eqn: _compat.JaxprEqn, plans: Mapping[str, Plan], rule: Any
) -> tuple[Plan, list[Site]]:
    """What is to be done in a rule's jaxpr, given what is to be done in the equation's own.

    The same rule is another jaxpr for other inputs, and the function's own tags turn up in it
    as copies. So tags are told by params and avals, which says enough where the rule has just
    as many of them as the function, and the same is to be done at each.

    Returns:
        The plan, and the chosen tags of the function of which that cannot be said.
    """
    own: dict[Any, list[tuple[Leaf, Site]]] = {}
    for nested in nested_jaxprs(eqn):
        for site in find_sites(nested.stored, of=is_tag_or_access):
            leaf = _leaf_at(plans.get(nested.label, {}), site)
            own.setdefault(tag_key(site.eqn), []).append((leaf, site))
    of_rule: dict[Any, list[Leaf]] = {}
    for nested in rule_jaxprs(eqn):
        for site in find_sites(nested.stored, rules=False, of=is_tag_or_access):
            leaf = _leaf_at(plans.get(nested.label, {}), site)
            of_rule.setdefault(tag_key(site.eqn), []).append(leaf)
    copies: dict[Any, list[Site]] = {}
    for site in find_sites(rule, of=is_tag_or_access):
        copies.setdefault(tag_key(site.eqn), []).append(site)
    chosen: list[tuple[Site, Leaf]] = []
    unclear: list[Site] = []
    for key, sites in copies.items():
        leaves = [leaf for leaf, _ in own[key]] if key in own else of_rule.get(key, [_NOT_CHOSEN])
        last = len(leaves) - 1
        pairs = [(site, leaves[min(k, last)]) for k, site in enumerate(sites)]
        chosen += [pair for pair in pairs if pair[1] is not _NOT_CHOSEN]
    for key, tags in own.items():
        leaves = [leaf for leaf, _ in tags]
        same = len(copies.get(key, ())) == len(tags) and all(one is leaves[0] for one in leaves)
        unclear += [site for leaf, site in tags if leaf is not _NOT_CHOSEN and not same]
    return plan_of(chosen), unclear


def _leaf_at(plan: Plan, site: Site) -> Leaf:
    for position, label in (step.key for step in site.steps):
        plan = plan.get(position, {}).get(label, {})
    return plan.get(site.position, _NOT_CHOSEN)


def is_chosen(plan: Plan, site: Site) -> bool:
    """Whether something is to be done at a site of the jaxpr that the plan is for."""
    return _leaf_at(plan, site) is not _NOT_CHOSEN
