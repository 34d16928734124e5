"""Plans: what is to be done where in a program, as a tree of the jaxprs on the way."""

from __future__ import annotations

from typing import Any

from taxpr._walk import Site

Leaf = Any
Plan = dict[int, Any]


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
