"""Edits that keep every type: dissolve tags, add tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import locate
from taxpr._errors import AddressError, RefusedError, TagError
from taxpr._inject import Predicate
from taxpr._plan import Plan, plan_key, plan_of, plan_of_rule
from taxpr._rules import nested_jaxprs, replace_nested, with_rules
from taxpr._splice import rewired, substituted
from taxpr._tag import tag
from taxpr._walk import Site, Step, find_sites


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
            done[key] = _without(stored, plan, dissolved)
        return done[key]

    for site in sites:
        for step in site.steps:
            _refuse_hidden("dissolve_tags", str(site), step)
    return dissolved(jaxpr, plan_of([(site, None) for site in sites]))


def _without(stored: Any, plan: Plan, dissolved: Callable[[Any, Plan], Any]) -> Any:
    inner = _compat.open_jaxpr(stored)
    now: dict[Any, Any] = {}
    eqns = []
    for position, eqn in enumerate(inner.eqns):
        if position not in plan:
            eqns.append(rewired(eqn, now))
        elif isinstance(plan[position], dict):
            below = plan[position]
            held = {nested.label: nested.stored for nested in nested_jaxprs(eqn)}
            new = {k: dissolved(held[k], sub) for k, sub in below.items() if k in held}
            eqn = with_rules(replace_nested(eqn, new), _of_rules(eqn, below, dissolved))
            eqns.append(rewired(eqn, now))
        else:
            now.update(zip(eqn.outvars, substituted(eqn.invars, now), strict=True))
    return _compat.rebuilt(stored, eqns=eqns, outvars=substituted(inner.outvars, now))


def tag_at_address(jaxpr: Any, address: str, params: dict[str, Any]) -> Any:
    """Put a tag on the value at ``address``, the first after what makes it."""
    place = locate(jaxpr, address)
    for step in place.steps:
        _refuse_hidden("tag_at", address, step)
    inner = _compat.open_jaxpr(place.jaxpr)
    if place.kind == "eqn":
        eqn = inner.eqns[place.number]
        if place.out is None and len(eqn.outvars) != 1:
            raise AddressError(
                f"{address!r} has {len(eqn.outvars)} results. Say which one to tag: "
                f"{address}.0, {address}.1, …"
            )
        var = eqn.outvars[place.out or 0]
        after = place.number + 1
    else:
        var = (inner.invars if place.kind == "in" else inner.constvars)[place.number]
        after = 0
    new = _with_tag(place.jaxpr, var, after, params, address)
    for step in reversed(place.steps):
        new = _with_nested(step, new)
    return new


def _with_tag(stored: Any, var: Any, after: int, params: dict[str, Any], address: str) -> Any:
    if not isinstance(var.aval, _compat.ShapedArray):
        raise TagError(
            f"tag_at: the value at {address} is a {type(var.aval).__name__} "
            f"({var.aval}), not an array. Tag a value that is read from it."
        )
    inner = _compat.open_jaxpr(stored)
    eqns = list(inner.eqns)
    traced = _compat.open_jaxpr(jax.make_jaxpr(lambda x: tag(x, **params))(var.aval))
    (template,) = traced.eqns
    if _compat.is_dropped(var):
        # A result that nothing uses has no variable; the tag needs one to read.
        fresh, origin = _compat.fresh_var(var.aval), eqns[after - 1]
        outvars = [fresh if out is var else out for out in origin.outvars]
        eqns[after - 1] = origin.replace(outvars=outvars)
        var = fresh
    tagged = template.replace(invars=[var])
    if after:
        origin = eqns[after - 1]
        tagged = tagged.replace(source_info=origin.source_info, ctx=origin.ctx)
    now = {var: tagged.outvars[0]}
    rest = [rewired(eqn, now) for eqn in eqns[after:]]
    outvars = substituted(inner.outvars, now)
    return _compat.rebuilt(stored, eqns=[*eqns[:after], tagged, *rest], outvars=outvars)


def _with_nested(step: Step, new: Any) -> Any:
    """The jaxpr that holds ``step.eqn``, with one nested jaxpr replaced."""
    home = step.home
    eqns = list(_compat.open_jaxpr(home).eqns)
    eqns[step.position] = replace_nested(step.eqn, {step.nested.label: new})
    return _compat.rebuilt(home, eqns=eqns)


def _of_rules(
    eqn: Any, plans: dict[str, Plan], dissolved: Callable[[Any, Plan], Any]
) -> Callable[[Any], Any]:
    return lambda rule: dissolved(rule, plan_of_rule(eqn, plans, rule))


def _refuse_hidden(what: str, where: str, step: Step) -> None:
    if step.nested.param is None and not step.nested.rule:
        raise RefusedError(
            f"{what}: {where} is in a jaxpr that {step.eqn.primitive.name} ({step.local}) "
            "keeps hidden, and which cannot be replaced."
        )
