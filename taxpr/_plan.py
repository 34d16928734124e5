"""Plans: what is to be done where in a program, as a tree of the jaxprs on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taxpr import _compat
from taxpr._rules import nested_jaxprs, rule_jaxprs
from taxpr._walk import Site, find_sites, tag_key

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


def plan_of_rule(eqn: _compat.JaxprEqn, plans: Mapping[str, Plan], rule: Any) -> Plan:
    """What is to be done in a rule's jaxpr, given what is to be done in the equation's own.

    The same rule is another jaxpr for other inputs, and the function's own tags turn up in it
    as copies. So tags are told by their params and avals: the second one in a rule is the
    second one in the function, and where the rule has more of them the last one stands for
    the rest.
    """
    leaves: dict[Any, list[Leaf]] = {}
    for nested in (*nested_jaxprs(eqn), *rule_jaxprs(eqn)):
        own = set(leaves) if nested.rule else set()
        for site in find_sites(nested.stored, rules=not nested.rule):
            key = tag_key(site.eqn)
            if key not in own:
                leaf = _leaf_at(plans.get(nested.label, {}), site)
                leaves.setdefault(key, []).append(leaf)
    chosen, seen = [], dict.fromkeys(leaves, 0)
    for site in find_sites(rule):
        key = tag_key(site.eqn)
        if key in leaves:
            leaf = leaves[key][min(seen[key], len(leaves[key]) - 1)]
            seen[key] += 1
            if leaf is not _NOT_CHOSEN:
                chosen.append((site, leaf))
    return plan_of(chosen)


def _leaf_at(plan: Plan, site: Site) -> Leaf:
    for position, label in (step.key for step in site.steps):
        plan = plan.get(position, {}).get(label, {})
    return plan.get(site.position, _NOT_CHOSEN)


def is_chosen(plan: Plan, site: Site) -> bool:
    """Whether something is to be done at a site of the jaxpr that the plan is for."""
    return _leaf_at(plan, site) is not _NOT_CHOSEN
