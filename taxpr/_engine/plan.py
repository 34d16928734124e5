"""Plans: what is to be done where in a program, as a tree of the jaxprs on the way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._engine.handler import Handler
from taxpr._hops.table import nested_jaxprs, rule_jaxprs
from taxpr._sites.site import Site
from taxpr._sites.walk import find_sites, is_tag_or_access, tag_key

# By the position of an equation what takes its place, or by label the plans for its jaxprs.
Plan: TypeAlias = "dict[int, Handler | dict[str, Plan]]"


def plan_of(chosen: Iterable[tuple[Site, Handler]]) -> Plan:
    """Selected sites, with what is to be done there, as a tree."""
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
    """A plan as something hashable; equal plans of one jaxpr ask for the same work."""
    return tuple(
        (position, tuple((label, plan_key(sub)) for label, sub in step.items()))
        if isinstance(step, dict)
        else (position, id(step))
        for position, step in plan.items()
    )


def handlers_of(plan: Plan) -> Iterator[Handler]:
    """What is to be done in a jaxpr, once for each place."""
    for step in plan.values():
        if isinstance(step, dict):
            for below in step.values():
                yield from handlers_of(below)
        else:
            yield step


def with_handlers(plan: Plan, change: Callable[[Handler], Handler | None]) -> Plan:
    """A plan with other handlers; without those in place of which is None."""
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
    """A chosen tag of which it cannot be said where it is in a rule, or whether it is there."""

    site: Site
    handler: Handler
    of_rule: bool  # whether only the rule has it


def plan_of_rule(
    eqn: JaxprEqn, plans: Mapping[str, Plan], rule: StoredJaxpr
) -> tuple[Plan, list[Unclear]]:
    """What is to be done in a rule's jaxpr, given what is to be done in the equation's own.

    The same rule is another jaxpr for other inputs, and the function's own tags turn up in it
    as copies. So tags are told by params and avals, which says enough where the rule has just
    as many of them as the function, and the same is to be done at each. Those that only the
    rule has are told by `tags_of_rule`.

    Returns:
        The plan, and the chosen tags of which that cannot be said.
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
    """A tag of a rule's jaxpr, and the known ones that it may be, each with its label."""

    site: Site
    maybe: list[tuple[str, Site]]
    told: bool  # by its place or its line


def tags_of_rule(eqn: JaxprEqn, rule: StoredJaxpr) -> list[_OfRule]:
    """The tags of a rule's jaxpr, each with the known ones that it may be.

    Those are the tags that only the rule has when all inputs are differentiated. A rule with
    symbolic zeros may have others for other inputs, in another order. So a tag is told by its
    params, its avals and its line, and by its place only where the rule is the same for all
    inputs. Where its line says nothing, it may be any one with its params and avals.
    """
    known: dict[Hashable, list[tuple[str, Site]]] = {}
    for nested in rule_jaxprs(eqn):
        for site in find_sites(nested.stored, rules=False, of=is_tag_or_access):
            known.setdefault(tag_key(site.eqn), []).append((nested.label, site))
    found = find_sites(rule, of=is_tag_or_access)
    # Those in rules of its own are seen when it is differentiated again.
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
    """By label and address of a tag in a rule's jaxpr those of the known tag that it is.

    Only where that is sure for the one and no other may be it. Second, the known tags that may be
    in there and of which it is not sure.
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
    """The line of a tag in a rule; None where it may be that of an equation with rules.

    What JAX traced while it evaluated an equation has the line of that.
    """
    evaluated = [eqn, *(step.eqn for step in site.steps if step.nested.rule)]
    return None if site.source in map(_compat.source_of, evaluated) else site.source


def handler_at(plan: Plan, site: Site) -> Handler | None:
    """What is to be done at a site of the jaxpr that the plan is for; None where nothing is."""
    for position, label in (step.key for step in site.steps):
        below = plan.get(position)
        plan = below.get(label, {}) if isinstance(below, dict) else {}
    found = plan.get(site.position)
    return found if isinstance(found, Handler) else None
