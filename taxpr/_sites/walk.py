"""Walk through a program and its nested jaxprs: number equations, find tags."""

import bisect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr import _hops as _hops  # importing it fills the table
from taxpr._address import Address
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr, Var
from taxpr._errors import refuse_function
from taxpr._hops.places import HasEqns, numbered
from taxpr._hops.table import nested_jaxprs, rule_jaxprs
from taxpr._primitives.state_access import access_of, is_access
from taxpr._primitives.tag_equation import is_tag, tag_avals, tag_params, variable_of
from taxpr._sites.site import Site, Step


def local_names(jaxpr: StoredJaxpr, positions: Iterable[int]) -> dict[int, str]:
    """The names of `numbered` for the equations at some positions."""
    eqns = _compat.open_jaxpr(jaxpr).eqns
    at = _tags_of(eqns)
    return {position: _local_name(eqns[position], position, at) for position in sorted(positions)}


class _TagPositions(NamedTuple):
    """The positions of the tags of a jaxpr: of all, and of the program's own."""

    every: list[int]
    own: list[int]


def _tags_of(eqns: Sequence[JaxprEqn]) -> _TagPositions:
    every = [position for position, eqn in enumerate(eqns) if is_tag(eqn)]
    return _TagPositions(every, [position for position in every if not variable_of(eqns[position])])


def _local_name(eqn: JaxprEqn, position: int, at: _TagPositions) -> str:
    """The name of an equation of a jaxpr with these tags."""
    if not is_tag(eqn):
        return f"{position - bisect.bisect_left(at.every, position)}:{eqn.primitive.name}"
    variable = variable_of(eqn)
    return variable.local if variable else f"t{bisect.bisect_left(at.own, position)}"


def is_tag_or_access(eqn: JaxprEqn) -> bool:
    """Whether an equation is a tag or a state access: a handler can be attached to both."""
    return is_tag(eqn) or is_access(eqn)


def find_sites(
    jaxpr: StoredJaxpr, *, rules: bool = True, of: Callable[[JaxprEqn], bool] = is_tag
) -> list[Site]:
    """All tags, or state accesses, of a jaxpr in program order, through every nested jaxpr.

    Includes the rules of custom_jvp and custom_vjp. A tag in a rule with an equal tag in the
    function itself counts as its copy; other tags of a rule are sites of their own.
    """
    found: list[Site] = []
    for home, steps, position, local, eqn, homes in _tags(jaxpr, {}, rules=rules, of=of):
        tag = is_tag(eqn)
        found.append(
            Site(
                address=home / local,
                params=tag_params(eqn) if tag else {},
                avals=tag_avals(eqn) if tag else None,
                value_address=_value_address(eqn, homes, home),
                makers=_makers(eqn, homes),
                batch=eqn.params["batch"] if tag else (),
                steps=steps,
                position=position,
                eqn=eqn,
            )
        )
    return found


def firing(sites: Sequence[Site]) -> list[Site]:
    """The sites that are not idle; if all are idle, all of them, to be refused by name."""
    return [site for site in sites if not site.idle] or list(sites)


# The origin of a value of a jaxpr: its local address, and the equation that made it.
_Home = tuple[str, JaxprEqn | None]


class _TagFound(NamedTuple):
    home: Address
    steps: tuple[Step, ...]
    position: int
    local: str
    eqn: JaxprEqn
    homes: dict[Var, _Home]


def _tags(
    jaxpr: StoredJaxpr,
    seen: dict[tuple[int, bool], tuple[Jaxpr, list[_TagFound]]],
    *,
    rules: bool,
    of: Callable[[JaxprEqn], bool],
) -> list[_TagFound]:
    """The tags below a jaxpr, relative to it. A jaxpr that is used twice is walked once.

    Rules inside a rule are not walked, because a rule often calls its own function, without end.
    """
    inner = _compat.open_jaxpr(jaxpr)
    if (id(inner), rules) in seen:
        return seen[id(inner), rules][1]
    found: list[_TagFound] = []
    at = _tags_of(inner.eqns)
    same = of is is_tag  # avoids another walk over all equations of a large jaxpr
    wanted = set(at.every if same else (p for p, eqn in enumerate(inner.eqns) if of(eqn)))
    # A tag's result comes from its operand, so origins need the tags, too.
    homes = _homes(inner, at, wanted.union(at.every)) if wanted else {}
    for position, eqn in enumerate(inner.eqns):
        if position in wanted:
            local = _local_name(eqn, position, at)
            found.append(_TagFound(Address(), (), position, local, eqn, homes))
            continue
        below = nested_jaxprs(eqn)
        if not below:  # and so no rules either
            continue
        local = _local_name(eqn, position, at)
        own: list[_TagFound] = []
        for nested in below:
            step = Step(position, eqn, local, nested, jaxpr)
            own += _below(step, _tags(nested.stored, seen, rules=rules, of=of))
        for nested in rule_jaxprs(eqn) if rules else ():
            step = Step(position, eqn, local, nested, jaxpr)
            known = {tag_key(tag.eqn) for tag in own}
            tags = _tags(nested.stored, seen, rules=False, of=of)
            own += _below(step, [tag for tag in tags if tag_key(tag.eqn) not in known])
        found += own
    # Keep the jaxpr: a freed rule could have its id reused by another one.
    seen[id(inner), rules] = inner, found
    return found


def _below(step: Step, tags: list[_TagFound]) -> list[_TagFound]:
    home = Address(step.local) / step.nested.label
    return [tag._replace(home=home / tag.home, steps=(step, *tag.steps)) for tag in tags]


def tag_key(eqn: JaxprEqn) -> Hashable:
    """A key that is equal for a tag in a rule and its original in the function.

    It does not contain the source: equations traced while JAX evaluates another one have that one's
    source.
    """
    if is_access(eqn):
        return access_of(eqn).op, access_of(eqn).state
    avals = map(_compat.aval_of, eqn.invars)
    types = tuple((aval.shape, aval.dtype) for aval in avals)
    return eqn.params["user"], eqn.params["tree"], types, variable_of(eqn)


def _homes(jaxpr: Jaxpr, at: _TagPositions, wanted: Iterable[int]) -> dict[Var, _Home]:
    """The origins of the operands of the equations at the positions ``wanted``.

    The result may also lack other values.
    """
    homes: dict[Var, _Home] = {var: (f"in{k}", None) for k, var in enumerate(jaxpr.invars)}
    homes |= {var: (f"const{k}", None) for k, var in enumerate(jaxpr.constvars)}
    atoms = [atom for position in wanted for atom in jaxpr.eqns[position].invars]
    tagged = {atom for atom in atoms if not isinstance(atom, _compat.Literal)}
    for position, eqn in enumerate(jaxpr.eqns):
        if not tagged.isdisjoint(eqn.outvars):
            local = _local_name(eqn, position, at)
            makers = _makers(eqn, homes) if is_tag(eqn) else (eqn,) * len(eqn.outvars)
            for k, (var, maker) in enumerate(zip(eqn.outvars, makers, strict=True)):
                value = variable_of(eqn)
                homes[var] = value.value if value else f"{local}.{k}", maker
    return homes


def _makers(eqn: JaxprEqn, home: dict[Var, _Home]) -> tuple[JaxprEqn | None, ...]:
    return tuple(
        None if isinstance(atom, _compat.Literal) else home[atom][1] for atom in eqn.invars
    )


def _value_address(eqn: JaxprEqn, homes: dict[Var, _Home], home: Address) -> Address | None:
    if len(eqn.invars) != 1 or isinstance(eqn.invars[0], _compat.Literal):
        return None
    return home / homes[eqn.invars[0]][0]


def iter_eqns(jaxpr: HasEqns, prefix: str = "") -> Iterator[tuple[Address, JaxprEqn]]:
    """Every equation of a program with its full address; nested ones follow their equation.

    Args:
        jaxpr: An open or closed jaxpr, or a `Program`.
        prefix: The beginning of all addresses.

    Yields:
        ``(address, eqn)``.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import iter_eqns, trace
        >>> program = trace(lambda x: jax.lax.map(jnp.sin, x) * 2)(jnp.ones(3))
        >>> [address for address, eqn in iter_eqns(program)]
        ['0:scan', '0:scan/body/0:sin', '1:mul']
    """
    refuse_function("iter_eqns", jaxpr)
    return _every(jaxpr, prefix)


def _every(jaxpr: HasEqns, prefix: str) -> Iterator[tuple[Address, JaxprEqn]]:
    for local, eqn in numbered(jaxpr):
        address = Address(f"{prefix}{local}")
        yield address, eqn
        for nested in nested_jaxprs(eqn):
            yield from _every(nested.stored, f"{address}/{nested.label}/")
