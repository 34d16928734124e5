"""Edits that keep every type: dissolve tags, add tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._engine.inject import Predicate
from taxpr._engine.plan import Plan, plan_key, plan_of, plan_of_rule
from taxpr._errors import AddressError, RefusedError, TagError, refuse_function
from taxpr._hops.table import nested_jaxprs, replace_nested, with_rules
from taxpr._jaxprs.splice import rewired, substituted, without
from taxpr._primitives.tag import tag
from taxpr._sites.site import Site, Step
from taxpr._sites.skipped import Skipped
from taxpr._sites.values import select_values_to_tag
from taxpr._sites.walk import find_sites


def iter_tags(jaxpr: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """The tags of a jaxpr, in program order, through every nested jaxpr.

    Args:
        jaxpr: An open or closed jaxpr.

    Yields:
        ``(params, avals)``: the user's params, and the token's avals in the token's own
        structure.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import iter_tags, tag
        >>> jaxpr = jax.make_jaxpr(lambda x: tag({"a": x, "b": (x, x)}, id=7))(jnp.int32(1))
        >>> [(params, jax.tree.map(str, avals)) for params, avals in iter_tags(jaxpr)]
        [({'id': 7}, {'a': 'int32[]', 'b': ('int32[]', 'int32[]')})]
    """
    refuse_function("iter_tags", jaxpr)
    for site in find_sites(jaxpr):
        yield site.params, site.avals


def dissolve_tags(jaxpr: Any, predicate: Predicate | None = None) -> Any:
    """Remove tags from a jaxpr and all of its nested jaxprs.

    Tags in the rules of `jax.custom_jvp` and in the forward rules of `jax.custom_vjp` go with
    them. Those in a backward rule are not in the program before it is differentiated.

    Args:
        jaxpr: An open or closed jaxpr.
        predicate: ``(params, aval_tree) -> bool``, asked at every tag, nested ones too;
            None removes all.

    Returns:
        A jaxpr of the same class and type without those tags.

    Raises:
        RefusedError: If a tag is in a jaxpr that its equation keeps hidden.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import dissolve_tags, tag
        >>> jaxpr = jax.make_jaxpr(lambda x: tag(jnp.sin(tag(x, name="x")), name="y"))(1.0)
        >>> len(jaxpr.eqns), len(dissolve_tags(jaxpr).eqns)
        (3, 1)
    """
    refuse_function("dissolve_tags", jaxpr)
    sites = [
        site
        for site in find_sites(jaxpr)
        if predicate is None or predicate(site.params, site.avals)
    ]
    return dissolve_sites(jaxpr, sites)


def dissolve_sites(jaxpr: Any, sites: Sequence[Site]) -> Any:
    """Remove the given tags."""
    done: dict[Any, Any] = {}

    def dissolved(stored: Any, plan: Plan) -> Any:
        key = (id(stored), plan_key(plan))
        if key not in done:
            # With what its key has the ids of: rules are traced anew, and freed.
            done[key] = stored, plan, _without(stored, plan, dissolved)
        return done[key][-1]

    for site in sites:
        for step in site.steps:
            _refuse_hidden("dissolve_tags", str(site), step)
    return dissolved(jaxpr, plan_of([(site, None) for site in sites]))


def _without(stored: Any, plan: Plan, dissolved: Callable[[Any, Plan], Any]) -> Any:
    def kept(position: int, eqn: Any) -> Any:
        if position not in plan:
            return eqn
        below = plan[position]
        if not isinstance(below, dict):
            return None
        held = {nested.label: nested.stored for nested in nested_jaxprs(eqn)}
        new = {k: dissolved(held[k], sub) for k, sub in below.items() if k in held}
        return with_rules(replace_nested(eqn, new), _of_rules(eqn, below, dissolved))

    return without(stored, kept)


def tag_where(
    jaxpr: Any, where: Any, params: dict[str, Any], names: Mapping[str, str] | None = None
) -> tuple[Any, tuple[Skipped, ...]]:
    """Put a tag on each value that is selected, the first after what makes it.

    ``names`` has addresses by other names for them. With the new jaxpr comes what was passed over.
    """
    if where is None:
        raise AddressError("tag_at: say which values. A predicate that is always true means all.")
    values, skipped = select_values_to_tag(jaxpr, where, names or {})
    plan: dict[Any, Any] = {}
    for value in values:
        for step in value.steps:
            _refuse_hidden("tag_at", value.address, step)
        here = plan
        for step in value.steps:
            here = here.setdefault(step.key, {})
        here[value.place.kind, value.place.number, value.place.out] = value.address
    done: dict[Any, Any] = {}

    def tagged(stored: Any, plan: dict[Any, Any]) -> Any:
        key = (id(stored), _frozen(plan))
        if key not in done:
            done[key] = _with_tags(stored, plan, params, tagged)
        return done[key]

    return tagged(jaxpr, plan), skipped


def _frozen(plan: dict[Any, Any]) -> Any:
    # Addresses are for messages; two calls of one jaxpr differ only in these.
    return frozenset(
        (key, _frozen(sub) if isinstance(sub, dict) else None) for key, sub in plan.items()
    )


def _with_tags(
    stored: Any,
    plan: dict[Any, Any],
    params: dict[str, Any],
    tagged: Callable[[Any, dict[Any, Any]], Any],
) -> Any:
    inner = _compat.open_jaxpr(stored)
    now: dict[Any, Any] = {}
    eqns: list[Any] = []

    def put(var: Any, slot: tuple[str, int, int | None], origin: Any) -> None:
        if slot in plan:
            eqns.append(_tag_eqn(inner, var, params, plan[slot], origin))
            now[var] = eqns[-1].outvars[0]

    for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
        for k, var in enumerate(variables):
            put(var, (kind, k, None), None)
    below: dict[int, dict[str, Any]] = {}
    for key, sub in plan.items():
        if isinstance(sub, dict):
            below.setdefault(key[0], {})[key[1]] = sub
    for position, eqn in enumerate(inner.eqns):
        eqn = rewired(eqn, now)
        if position in below:
            held = {nested.label: nested.stored for nested in nested_jaxprs(eqn)}
            new = {label: tagged(held[label], sub) for label, sub in below[position].items()}
            eqn = replace_nested(eqn, new)
        slots = [("eqn", position, k) for k in range(len(eqn.outvars))]
        # A result that nothing uses has no variable; the tag needs one to read.
        outvars = [
            _compat.fresh_var(var.aval) if slot in plan and _compat.is_dropped(var) else var
            for var, slot in zip(eqn.outvars, slots, strict=True)
        ]
        if any(new is not old for new, old in zip(outvars, eqn.outvars, strict=True)):
            eqn = eqn.replace(outvars=outvars)
        eqns.append(eqn)
        for var, slot in zip(outvars, slots, strict=True):
            put(var, slot, eqn)
    return _compat.rebuilt(stored, eqns=eqns, outvars=substituted(inner.outvars, now))


def _tag_eqn(
    jaxpr: _compat.Jaxpr, var: Any, params: dict[str, Any], address: str, origin: Any
) -> Any:
    """A tag equation that reads ``var``; it has the source and scope of what makes it."""
    if not isinstance(var.aval, _compat.ShapedArray):
        raise TagError(
            f"tag_at: the value at {address} is a {type(var.aval).__name__} "
            f"({var.aval}), not an array. Tag a value that is read from it."
        )
    with _compat.under(_compat.mesh_of_input(jaxpr, var)):
        traced = _compat.open_jaxpr(jax.make_jaxpr(lambda x: tag(x, **params))(var.aval))
    (template,) = traced.eqns
    tagged = template.replace(invars=[var])
    if origin is None:
        return tagged
    return tagged.replace(source_info=origin.source_info, ctx=origin.ctx)


def _of_rules(
    eqn: Any, plans: dict[str, Plan], dissolved: Callable[[Any, Plan], Any]
) -> Callable[[Any], Any]:
    return lambda rule: dissolved(rule, plan_of_rule(eqn, plans, rule)[0])


def _refuse_hidden(what: str, where: str, step: Step) -> None:
    if not (step.nested.replaceable or step.nested.rule):
        raise RefusedError(
            f"{what}: {where} is in a jaxpr that {step.eqn.primitive.name} ({step.local}) "
            "keeps hidden, and which cannot be replaced."
        )
