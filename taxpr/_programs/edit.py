"""Edit programs without changing a type: add tags, remove tags."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from taxpr import _compat
from taxpr._compat import Array, Atom, J, Jaxpr, JaxprEqn, PyTree, StoredJaxpr, Var
from taxpr._engine.handler import NOTHING
from taxpr._engine.inject import Predicate
from taxpr._engine.plan import Plan, plan_key, plan_of, plan_of_rule
from taxpr._errors import RefusedError, TagError, refuse_function, refuse_no_function
from taxpr._hops.nested import Change
from taxpr._hops.table import nested_jaxprs, replace_nested, with_rules
from taxpr._jaxprs.splice import rewired, substituted, without
from taxpr._primitives.cotangent import tag_cotangent
from taxpr._primitives.tag import tag
from taxpr._primitives.tag_equation import AtVariable
from taxpr._programs.inside import InCalls, TagFacts, in_calls
from taxpr._sites.site import Site, around, described, value_text
from taxpr._sites.values import Value
from taxpr._sites.walk import find_sites
from taxpr._watching.frames import unwatched

K = TypeVar("K", bound=StoredJaxpr)
_Slot = tuple[str, int, int | None]


class Dissolved(Protocol):
    """Removes tags from a jaxpr of any class."""

    def __call__(self, stored: J, plan: Plan, /) -> J: ...


def iter_tags(jaxpr: StoredJaxpr) -> Iterator[tuple[dict[str, Any], PyTree]]:
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


def dissolve_tags(jaxpr: J, predicate: Predicate | None = None) -> J:
    """Remove tags from a jaxpr and all of its nested jaxprs.

    Tags in the rules of `jax.custom_jvp` and in the forward rules of `jax.custom_vjp` go with
    them. Tags in a backward rule are not in the program before it is differentiated.

    Args:
        jaxpr: An open or closed jaxpr.
        predicate: ``(params, aval_tree) -> bool``, called for every tag, also nested ones; None
            removes all.

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
    if predicate is not None:
        refuse_no_function("dissolve_tags: predicate", predicate)
    sites = [
        site
        for site in find_sites(jaxpr)
        if predicate is None or predicate(site.params, site.avals)
    ]
    return dissolve_sites(jaxpr, sites)


def dissolve_sites(jaxpr: J, sites: Sequence[Site]) -> J:
    """Remove the given tags."""
    done: dict[Hashable, tuple[Any, Plan, Any]] = {}

    def dissolved(stored: K, plan: Plan) -> K:
        key = (id(stored), plan_key(plan))
        if key not in done:
            # Keep the objects whose ids are in the key, as rules are traced again and freed.
            done[key] = stored, plan, _without(stored, plan, dissolved)
        return done[key][-1]

    for site in sites:
        _refuse_hidden("dissolve_tags", site)
    return dissolved(jaxpr, plan_of((site, NOTHING) for site in sites))


def _without(stored: J, plan: Plan, dissolved: Dissolved) -> J:
    def kept(position: int, eqn: JaxprEqn) -> JaxprEqn | None:
        if position not in plan:
            return eqn
        below = plan[position]
        if not isinstance(below, dict):
            return None
        held = {nested.label: nested.stored for nested in nested_jaxprs(eqn)}
        new = {k: dissolved(held[k], sub) for k, sub in below.items() if k in held}
        return with_rules(replace_nested(eqn, new), _of_rules(eqn, below, dissolved))

    return without(stored, kept)


# The params of tags, or for the address of a value the variable for which its tag stands.
TagParams = dict[str, Any] | Callable[[str], AtVariable | dict[str, Any]]


_NOTHING = TagFacts()


def tag_values(
    jaxpr: J,
    values: Sequence[Value],
    params: TagParams,
    known: Callable[[str], TagFacts] = lambda address: _NOTHING,
    *,
    cotangents: bool = False,
) -> J:
    """Put a tag on each value, directly after the equation that makes it.

    ``known`` says more of the value at an address. With ``cotangents`` it tags the cotangents, as
    `tag_cotangent` does.
    """
    plan = _NewTags()
    for value in values:
        _refuse_hidden("tag_at", value)
        here = plan
        for step in value.steps:
            here = here.below.setdefault(step.key, _NewTags())
        own = params(value.address) if callable(params) else params
        slot = value.place.kind, value.place.number, value.place.out
        here.at[slot] = _New(value.address, own, known(value.address), cotangents)
    done: dict[Hashable, Any] = {}

    def tagged(stored: K, plan: _NewTags) -> K:
        key = (id(stored), plan.key)
        if key not in done:
            done[key] = _with_tags(stored, plan, tagged)
        return done[key]

    return tagged(jaxpr, plan)


class _New(NamedTuple):
    """A tag to put: the address of its value, its params, facts about the value.

    Or a tag of its cotangent.
    """

    address: str
    params: dict[str, Any] | AtVariable
    known: TagFacts
    cotangent: bool


@dataclasses.dataclass
class _NewTags:
    """The values to tag in a jaxpr and its nested jaxprs.

    Attributes:
        at: The tags, by kind, number and result of their values as in a `Located`.
        below: The same for nested jaxprs, by position of the equation and label.
    """

    at: dict[_Slot, _New] = dataclasses.field(default_factory=dict["_Slot", "_New"])
    below: dict[tuple[int, str], _NewTags] = dataclasses.field(
        default_factory=dict["tuple[int, str]", "_NewTags"]
    )

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal work. It has no addresses, which only messages need."""
        # By identity: params that are not hashable are refused where the tag is made.
        at = frozenset((slot, id(one.params), *one[2:]) for slot, one in self.at.items())
        return at, frozenset((key, sub.key) for key, sub in self.below.items())


def _with_tags(
    stored: J,
    plan: _NewTags,
    tagged: Callable[[Any, _NewTags], Any],
) -> J:
    inner = _compat.open_jaxpr(stored)
    now: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    # What only some equations read in the place of a value: by their position.
    own: dict[int, dict[Var, Atom]] = {}
    late: dict[int, list[tuple[_New, InCalls, JaxprEqn | None]]] = {}

    def put(var: Var, slot: _Slot, origin: JaxprEqn | None) -> None:
        if slot not in plan.at:
            return
        new = plan.at[slot]
        if new.known.calls:
            found = in_calls(stored, var, new.known.calls, value_text(new.address, origin))
            late.setdefault(found.after, []).append((new, found, origin))
        else:
            eqns.append(_tag_eqn(inner, var, new, origin))
            now[var] = eqns[-1].outvars[0]

    def put_late(position: int) -> None:
        for new, found, origin in late.get(position, ()):
            eqns.append(_tag_eqn(inner, found.read, new, origin))
            for user in found.users:
                own.setdefault(user, {})[found.read] = eqns[-1].outvars[0]

    for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
        for k, var in enumerate(variables):
            put(var, (kind, k, None), None)
    put_late(-1)
    below: dict[int, dict[str, _NewTags]] = {}
    for (position, label), sub in plan.below.items():
        below.setdefault(position, {})[label] = sub
    for position, eqn in enumerate(inner.eqns):
        eqn = rewired(eqn, {**now, **own[position]} if position in own else now)
        if position in below:
            held = {nested.label: nested.stored for nested in nested_jaxprs(eqn)}
            new = {label: tagged(held[label], sub) for label, sub in below[position].items()}
            eqn = replace_nested(eqn, new)
        slots: list[_Slot] = [("eqn", position, k) for k in range(len(eqn.outvars))]
        # An unused result may be a DropVar; the tag needs a variable to read.
        outvars = [
            _compat.fresh_var(var.aval) if slot in plan.at and _compat.is_dropped(var) else var
            for var, slot in zip(eqn.outvars, slots, strict=True)
        ]
        if any(new is not old for new, old in zip(outvars, eqn.outvars, strict=True)):
            eqn = eqn.replace(outvars=outvars)
        eqns.append(eqn)
        for var, slot in zip(outvars, slots, strict=True):
            put(var, slot, eqn)
        put_late(position)
    now |= own.get(len(inner.eqns), {})
    return _compat.rebuilt(stored, eqns=eqns, outvars=substituted(inner.outvars, now))


def _tag_eqn(jaxpr: Jaxpr, var: Var, new: _New, origin: JaxprEqn | None) -> JaxprEqn:
    """A tag equation that reads ``var``, with source and scope of the equation that makes it."""
    variable = new.params if isinstance(new.params, AtVariable) else None
    params = new.params if isinstance(new.params, dict) else {"name": new.params.name}
    if not isinstance(var.aval, _compat.ShapedArray):
        raise TagError(
            f"tag_at: the {value_text(new.address, origin)} is a {type(var.aval).__name__} "
            f"({var.aval}), not an array. Tag a value that is read from it."
        )

    def tagging(x: Array) -> Array:
        return tag_cotangent(x, **params) if new.cotangent else tag(x, **params)

    with unwatched(), _compat.under(_compat.mesh_of_input(jaxpr, var)):
        (template,) = _compat.make_jaxpr(tagging)(var.aval).eqns
    known = new.known
    more = {
        "variable": variable,
        "differentiated": known.differentiated,
        "elsewhere": known.elsewhere,
    }
    more = {name: value for name, value in more.items() if value}
    tagged = template.replace(invars=[var], params={**template.params, **more})
    if origin is not None:
        tagged = tagged.replace(source_info=origin.source_info, ctx=origin.ctx)
    # Inside a call it is a part of it, also for those who look for the uses in another one.
    return tagged.replace(source_info=known.calls[0].source) if known.calls else tagged


def _of_rules(eqn: JaxprEqn, plans: dict[str, Plan], dissolved: Dissolved) -> Change:
    return lambda rule: dissolved(rule, plan_of_rule(eqn, plans, rule)[0])


def _refuse_hidden(what: str, place: Site | Value) -> None:
    for address, step in around(place.steps):
        if not (step.nested.replaceable or step.nested.rule):
            raise RefusedError(
                f"{what}: the {place} is in a jaxpr that {described(address, step.eqn)} keeps "
                "hidden, and which cannot be replaced. Select other places with where=."
            )
