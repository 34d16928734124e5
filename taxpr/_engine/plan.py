"""Plans: trees that say which handler replaces which tag of a program.

A plan follows the nesting of jaxprs. Invariant: it has an entry only for chosen tags and for
equations that hold one, so everything without an entry is kept as it is. Plans for derivative rules
are derived from the function's plan, by matching copies of its tags.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._engine.handler import Handler
from taxpr._hops.table import nested_jaxprs, rule_jaxprs
from taxpr._sites.site import Site
from taxpr._sites.walk import find_sites, is_tag_or_access, tag_key

# Maps the position of an equation to its handler, or to the plans of its nested jaxprs by label.
Plan: TypeAlias = "dict[int, Handler | dict[str, Plan]]"


def plan_of(chosen: Iterable[tuple[Site, Handler]]) -> Plan:
    """Arrange chosen sites and their handlers as a tree."""
    plan: Plan = {}
    for site, handler in chosen:
        here = plan
        for position, label in (step.key for step in site.steps):
            below = here.setdefault(position, {})
            assert isinstance(below, dict), "nothing is in a tag"
            here = below.setdefault(label, {})
        here[site.position] = handler
    return plan


def plan_key(plan: Plan) -> Hashable:
    """A hashable key of a plan. For one jaxpr, equal keys mean equal work."""
    return tuple(
        (position, tuple((label, plan_key(sub)) for label, sub in step.items()))
        if isinstance(step, dict)
        else (position, id(step))
        for position, step in plan.items()
    )


def handlers_of(plan: Plan) -> Iterator[Handler]:
    """The handlers of a plan, one for each place."""
    for step in plan.values():
        if isinstance(step, dict):
            for below in step.values():
                yield from handlers_of(below)
        else:
            yield step


def with_handlers(plan: Plan, change: Callable[[Handler], Handler | None]) -> Plan:
    """Replace the handlers of a plan; None removes one."""
    new: Plan = {}
    for position, step in plan.items():
        if isinstance(step, dict):
            below = {label: with_handlers(sub, change) for label, sub in step.items()}
            changed = {label: sub for label, sub in below.items() if sub} or None
        else:
            changed = change(step)
        if changed is not None:
            new[position] = changed
    return new


class Unclear(NamedTuple):
    """A chosen tag that cannot be identified in a rule."""

    site: Site
    handler: Handler
    of_rule: bool  # whether only the rule has it


def plan_of_rule(
    eqn: JaxprEqn, plans: Mapping[str, Plan], rule: StoredJaxpr
) -> tuple[Plan, list[Unclear]]:
    """Derive the plan for a rule's jaxpr from the plans of the equation's own jaxprs.

    JAX traces a rule into a new jaxpr for each combination of differentiated inputs, and a rule
    that calls the function has copies of its tags. So a copy is identified by params and avals.
    That is safe only if the rule has as many tags with these as the function, and all of them have
    the same handler. `tags_of_rule` identifies the tags that only the rule has.

    Returns:
        The plan, and the chosen tags that cannot be identified.
    """
    own: dict[Hashable, list[tuple[Handler | None, Site]]] = {}
    for nested in nested_jaxprs(eqn):
        for site in find_sites(nested.stored, of=is_tag_or_access):
            handler = handler_at(plans.get(nested.label, {}), site)
            own.setdefault(tag_key(site.eqn), []).append((handler, site))
    copies: dict[Hashable, list[Site]] = {}
    chosen: list[tuple[Site, Handler]] = []
    unclear: list[Unclear] = []
    for site, maybe, _ in tags_of_rule(eqn, rule):
        key = tag_key(site.eqn)
        copies.setdefault(key, []).append(site)
        if key in own:
            handlers = [own[key][min(len(copies[key]), len(own[key])) - 1][0]]
        else:
            handlers = [handler_at(plans.get(label, {}), one) for label, one in maybe]
        first = handlers[0] if handlers else None
        if any(handler is not first for handler in handlers):
            unclear += [
                Unclear(one, handler, True)
                for handler, (_, one) in zip(handlers, maybe, strict=True)
                if handler
            ]
        elif first:
            chosen.append((site, first))
    for key, tags in own.items():
        same = len(copies.get(key, ())) == len(tags) and all(one is tags[0][0] for one, _ in tags)
        if not same:
            unclear += [Unclear(site, handler, False) for handler, site in tags if handler]
    return plan_of(chosen), unclear


class _OfRule(NamedTuple):
    """A tag in one form of a rule, and the known tags, with labels, that it may be."""

    site: Site
    maybe: list[tuple[str, Site]]
    told: bool  # whether identified by position or source line


def tags_of_rule(eqn: JaxprEqn, rule: StoredJaxpr) -> list[_OfRule]:
    """The tags of a rule's jaxpr, each with the known tags that it may be.

    Known tags are those that the rule has if all inputs are differentiated. A rule with symbolic
    zeros may have others for other inputs, in another order. So a tag is identified by params,
    avals and source line, and by position only if the rule does not depend on the inputs. If the
    line does not decide, it may be any tag with its params and avals.
    """
    known: dict[Hashable, list[tuple[str, Site]]] = {}
    for nested in rule_jaxprs(eqn):
        for site in find_sites(nested.stored, rules=False, of=is_tag_or_access):
            known.setdefault(tag_key(site.eqn), []).append((nested.label, site))
    found = find_sites(rule, of=is_tag_or_access)
    # Tags in rules inside this rule matter only for a second differentiation.
    direct: dict[Hashable, list[Site]] = {}
    for site in found:
        if not site.in_rule:
            direct.setdefault(tag_key(site.eqn), []).append(site)
    out: list[_OfRule] = []
    for site in found:
        key = tag_key(site.eqn)
        maybe, beside = known.get(key, []), direct.get(key, [])
        same = [id(one.eqn) for _, one in maybe] == [id(one.eqn) for one in beside]
        fixed = not eqn.params["symbolic_zeros"] and len(maybe) == len(beside)
        if not site.in_rule and (same or fixed):
            out.append(_OfRule(site, [maybe[beside.index(site)]], True))
            continue
        line = _line_of(eqn, site)
        there = [pair for pair in maybe if line and _line_of(eqn, pair[1]) == line]
        out.append(_OfRule(site, there or maybe, bool(there)))
    return out


def keys_in_rule(eqn: JaxprEqn, rule: StoredJaxpr) -> tuple[dict[str, str], list[Site]]:
    """Map tags in a rule's jaxpr to known tags, both by label and address, where unambiguous.

    Also returns the known tags that may be in the rule but cannot be identified.
    """
    claims: dict[str, list[tuple[bool, str]]] = {}
    maybe_there: dict[str, Site] = {}
    for site, maybe, told in tags_of_rule(eqn, rule):
        if site.in_rule:
            continue
        maybe_there |= {Address(label) / known.address: known for label, known in maybe}
        if len(maybe) == 1:
            [(label, known)] = maybe
            claim = (told, Address(label) / site.address)
            claims.setdefault(Address(label) / known.address, []).append(claim)
    keys: dict[str, str] = {}
    for key, of_key in claims.items():
        best = [one for told, one in of_key if told] or [one for _, one in of_key]
        if len(best) == 1:
            keys[best[0]] = key
    sure = set(keys.values())
    return keys, [known for key, known in maybe_there.items() if key not in sure]


def _line_of(eqn: JaxprEqn, site: Site) -> _compat.Source | None:
    """The source line of a tag in a rule; None if it may be the line of an enclosing equation.

    JAX gives the line of an equation to everything that it traces while evaluating the equation.
    """
    evaluated = [eqn, *(step.eqn for step in site.steps if step.nested.rule)]
    return None if site.source in map(_compat.source_of, evaluated) else site.source


def handler_at(plan: Plan, site: Site) -> Handler | None:
    """The handler of a site in a plan, or None."""
    for position, label in (step.key for step in site.steps):
        below = plan.get(position)
        plan = below.get(label, {}) if isinstance(below, dict) else {}
    found = plan.get(site.position)
    return found if isinstance(found, Handler) else None
