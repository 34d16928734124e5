"""Finding the tags of a program: nested jaxprs, numbers of equations, sites."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from taxpr import _compat, _hops  # noqa: F401  (importing _hops fills the table)
from taxpr._rules import Nested
from taxpr._state_access import access_of, is_access
from taxpr._table import nested_jaxprs, rule_jaxprs
from taxpr._tag import is_tag, tag_avals, tag_params


class Step(NamedTuple):
    """One step down into a nested jaxpr: an equation and the jaxpr's label."""

    position: int
    """Index among all equations of the jaxpr, tags included."""
    eqn: _compat.JaxprEqn
    local: str
    """The equation's own part of the address, such as ``"3:scan"``."""
    nested: Nested
    home: Any
    """The jaxpr that holds the equation, as stored."""

    @property
    def key(self) -> tuple[int, str]:
        """What tells two steps from the same jaxpr apart."""
        return self.position, self.nested.label


@dataclasses.dataclass(frozen=True, eq=False)
class Site:
    """A tag in a program.

    Attributes:
        address: Its address, such as ``"3:scan/body/t0"``. The number of a tag changes when
            a tag is put before it, or taken from there.
        params: The params that the user gave to `tag`.
        avals: The token's avals, in the token's structure.
        value_address: The address of the tagged value; None for a token of several.
        makers: For each leaf of the token the equation that made it, seen through other tags;
            None for inputs, constants and literals.
        batch: One ``(size, dims)`` for each `jax.vmap` around it, innermost first;
            ``dims`` holds the mapped axis of each leaf, or None.
        steps: The way down to it.
        position: Index of its equation in the jaxpr that holds it.
        eqn: Its equation.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import tag, trace
        >>> def f(xs):
        ...     return jax.lax.map(lambda x: tag(jnp.sin(x), name="s", layer=1), xs)
        >>> [site] = trace(f)(jnp.ones(4)).tags()
        >>> site.address, site.value_address, site.params, site.trips
        ('0:scan/body/t0', '0:scan/body/0:sin.0', {'layer': 1, 'name': 's'}, 4)
        >>> site.chain, str(site.avals), site.source.function
        (('0:scan',), 'float32[]', 'f.<locals>.<lambda>')
    """

    address: str
    params: dict[str, Any]
    avals: Any
    value_address: str | None
    makers: tuple[_compat.JaxprEqn | None, ...] = dataclasses.field(repr=False)
    batch: tuple[Any, ...]
    steps: tuple[Step, ...] = dataclasses.field(repr=False)
    position: int = dataclasses.field(repr=False)
    eqn: _compat.JaxprEqn = dataclasses.field(repr=False)

    @property
    def name(self) -> Any:
        """The param ``name``, or None."""
        return self.params.get("name")

    @property
    def source(self) -> _compat.Source | None:
        """Where the user's code made the tag."""
        return _compat.source_of(self.eqn)

    @property
    def chain(self) -> tuple[str, ...]:
        """The addresses of the equations around it, outermost first."""
        names, prefix = [], ""
        for step in self.steps:
            names.append(f"{prefix}{step.local}")
            prefix = f"{names[-1]}/{step.nested.label}/"
        return tuple(names)

    @property
    def trips(self) -> int | None:
        """How often it fires at most; None where only a run can tell."""
        trips = 1
        for step in self.steps:
            if step.nested.trips is None:
                return None
            trips *= step.nested.trips
        return trips

    @property
    def conditional(self) -> bool:
        """Whether some run may pass it over."""
        return any(step.nested.conditional for step in self.steps)

    @property
    def recomputed(self) -> bool:
        """Whether it stands in the part of a backward pass that repeats the forward pass."""
        return any(step.nested.recomputed for step in self.steps)

    @property
    def in_rule(self) -> bool:
        """Whether it fires only when the program is differentiated, by a custom rule."""
        return any(step.nested.rule for step in self.steps)

    @property
    def idle(self) -> bool:
        """Whether it never fires: it is there for derivatives, as in the matvec of a solve.

        `inject`, `collect` and the like pass over such a tag, unless its address selects it or
        nothing else is selected; then they refuse it.
        """
        return any(step.nested.idle for step in self.steps)

    def is_same(self, other: Site) -> bool:
        """Whether both are one tag of one traced program, before and after an edit of it.

        Args:
            other: A tag of the same program or of one made of it.

        Example:
            >>> from taxpr import tag, trace
            >>> program = trace(lambda x: tag(x + 1, name="y"))(1.0)
            >>> more = program.tag_at("in0", name="x")
            >>> [site.is_same(program.tags()[0]) for site in more.tags()]
            [False, True]
        """
        own, others = self.eqn.outvars, other.eqn.outvars
        return (
            bool(own)
            and len(own) == len(others)
            and all(a is b for a, b in zip(own, others, strict=True))
            and self.chain == other.chain
        )

    def __str__(self) -> str:
        source = self.source
        return f"{_named(self.eqn)} at {self.address}" + (f" ({source})" if source else "")


def described(address: str, eqn: _compat.JaxprEqn) -> str:
    """A tag equation, or an access of a state, at an address, for messages."""
    source = _compat.source_of(eqn)
    return f"{_named(eqn)}, {address}" + (f" ({source})" if source else "")


def _named(eqn: _compat.JaxprEqn) -> str:
    if is_access(eqn):
        access = access_of(eqn)
        return f"{access.op} of {access.state.shown}"
    params = tag_params(eqn)
    return f"tag {params['name']!r}" if "name" in params else f"tag {params}"


def numbered(jaxpr: Any) -> list[tuple[str, _compat.JaxprEqn]]:
    """The equations of one jaxpr with their own part of the address.

    Args:
        jaxpr: An open or closed jaxpr, or anything with ``eqns``.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import numbered, tag, trace
        >>> program = trace(lambda x: tag(jnp.sin(x), name="h") * 2)(1.0)
        >>> [local for local, eqn in numbered(program)]
        ['0:sin', 't0', '1:mul']
    """
    eqns = jaxpr.eqns if hasattr(jaxpr, "eqns") else _compat.open_jaxpr(jaxpr).eqns
    at = [position for position, eqn in enumerate(eqns) if is_tag(eqn)]
    return [(_local_name(eqn, position, at), eqn) for position, eqn in enumerate(eqns)]


def local_names(jaxpr: Any, positions: Iterable[int]) -> dict[int, str]:
    """The names that `numbered` gives, of the equations at some positions."""
    eqns = _compat.open_jaxpr(jaxpr).eqns
    at = [position for position, eqn in enumerate(eqns) if is_tag(eqn)]
    return {position: _local_name(eqns[position], position, at) for position in sorted(positions)}


def _local_name(eqn: _compat.JaxprEqn, position: int, at: list[int]) -> str:
    """The name of an equation; ``at`` has the positions of all tags of its jaxpr."""
    tags = bisect.bisect_left(at, position)
    return f"t{tags}" if is_tag(eqn) else f"{position - tags}:{eqn.primitive.name}"


def is_tag_or_access(eqn: _compat.JaxprEqn) -> bool:
    """Whether an equation is what a program can be injected at."""
    return is_tag(eqn) or is_access(eqn)


def find_sites(
    jaxpr: Any, *, rules: bool = True, of: Callable[[_compat.JaxprEqn], bool] = is_tag
) -> list[Site]:
    """All tags of a jaxpr, or accesses, in program order, through every nested jaxpr.

    Rules of custom_jvp and custom_vjp are looked into as well. A tag in a rule that has a like
    in the function itself is that tag, seen when the program is differentiated; the others
    are sites of their own.
    """
    found: list[Site] = []
    for prefix, steps, position, local, eqn, homes in _tags(jaxpr, {}, rules=rules, of=of):
        tag = is_tag(eqn)
        found.append(
            Site(
                address=f"{prefix}{local}",
                params=tag_params(eqn) if tag else {},
                avals=tag_avals(eqn) if tag else None,
                value_address=_value_address(eqn, homes, prefix),
                makers=_makers(eqn, homes),
                batch=eqn.params["batch"] if tag else (),
                steps=steps,
                position=position,
                eqn=eqn,
            )
        )
    return found


def firing(sites: Sequence[Site]) -> list[Site]:
    """The sites that are not idle; all of them where each is, to be refused by name."""
    return [site for site in sites if not site.idle] or list(sites)


# Where a value of a jaxpr comes from: its local address, and the equation that made it.
_Home = tuple[str, "_compat.JaxprEqn | None"]


class _Found(NamedTuple):
    prefix: str
    steps: tuple[Step, ...]
    position: int
    local: str
    eqn: _compat.JaxprEqn
    homes: dict[Any, _Home]


def _tags(
    jaxpr: Any,
    seen: dict[Any, tuple[Any, list[_Found]]],
    *,
    rules: bool,
    of: Callable[[_compat.JaxprEqn], bool],
) -> list[_Found]:
    """The tags below a jaxpr, relative to it; a jaxpr used twice is walked once.

    A rule often calls the function that it belongs to, so rules in a rule are left alone:
    they are looked into when they are needed.
    """
    inner = _compat.open_jaxpr(jaxpr)
    if (id(inner), rules) in seen:
        return seen[id(inner), rules][1]
    found: list[_Found] = []
    at = [position for position, eqn in enumerate(inner.eqns) if is_tag(eqn)]
    wanted = {position for position, eqn in enumerate(inner.eqns) if of(eqn)}
    # What is seen through a tag comes from what that takes.
    homes = _homes(inner, at, wanted.union(at)) if wanted else {}
    for position, eqn in enumerate(inner.eqns):
        if position in wanted:
            local = _local_name(eqn, position, at)
            found.append(_Found("", (), position, local, eqn, homes))
            continue
        own: list[_Found] = []
        for nested in nested_jaxprs(eqn):
            local = _local_name(eqn, position, at)
            step = Step(position, eqn, local, nested, jaxpr)
            own += _below(step, _tags(nested.stored, seen, rules=rules, of=of))
        for nested in rule_jaxprs(eqn) if rules else ():
            local = _local_name(eqn, position, at)
            step = Step(position, eqn, local, nested, jaxpr)
            known = {tag_key(tag.eqn) for tag in own}
            below = _tags(nested.stored, seen, rules=False, of=of)
            own += _below(step, [tag for tag in below if tag_key(tag.eqn) not in known])
        found += own
    # With the jaxpr itself: a rule is traced anew, and where it was freed another may come to be.
    seen[id(inner), rules] = inner, found
    return found


def _below(step: Step, tags: list[_Found]) -> list[_Found]:
    prefix = f"{step.local}/{step.nested.label}/"
    return [tag._replace(prefix=f"{prefix}{tag.prefix}", steps=(step, *tag.steps)) for tag in tags]


def tag_key(eqn: _compat.JaxprEqn) -> Any:
    """What tells by itself that a tag in a rule is a copy of one of the function's own.

    Not its source: what is traced while JAX evaluates an equation has the equation's.
    """
    if is_access(eqn):
        return access_of(eqn).op, access_of(eqn).state
    avals: list[Any] = [atom.aval for atom in eqn.invars]
    types = tuple((aval.shape, aval.dtype) for aval in avals)
    return eqn.params["user"], eqn.params["tree"], types


def _homes(jaxpr: Any, at: list[int], wanted: Iterable[int]) -> dict[Any, _Home]:
    """Where the values come from that the equations at the positions ``wanted`` take.

    ``at`` has the positions of the tags. Other values may be left out.
    """
    homes: dict[Any, _Home] = {var: (f"in{k}", None) for k, var in enumerate(jaxpr.invars)}
    homes |= {var: (f"const{k}", None) for k, var in enumerate(jaxpr.constvars)}
    atoms = [atom for position in wanted for atom in jaxpr.eqns[position].invars]
    tagged = {atom for atom in atoms if not isinstance(atom, _compat.Literal)}
    for position, eqn in enumerate(jaxpr.eqns):
        if not tagged.isdisjoint(eqn.outvars):
            local = _local_name(eqn, position, at)
            makers = _makers(eqn, homes) if is_tag(eqn) else (eqn,) * len(eqn.outvars)
            made = zip(eqn.outvars, makers, strict=True)
            homes |= {var: (f"{local}.{k}", maker) for k, (var, maker) in enumerate(made)}
    return homes


def _makers(eqn: _compat.JaxprEqn, home: dict[Any, _Home]) -> tuple[_compat.JaxprEqn | None, ...]:
    return tuple(
        None if isinstance(atom, _compat.Literal) else home[atom][1] for atom in eqn.invars
    )


def _value_address(eqn: _compat.JaxprEqn, home: dict[Any, _Home], prefix: str) -> str | None:
    if len(eqn.invars) != 1 or isinstance(eqn.invars[0], _compat.Literal):
        return None
    return f"{prefix}{home[eqn.invars[0]][0]}"


def iter_eqns(jaxpr: Any, prefix: str = "") -> Iterator[tuple[str, _compat.JaxprEqn]]:
    """Every equation of a program with its whole address, nested ones after their own.

    Args:
        jaxpr: An open or closed jaxpr, or a `Program`.
        prefix: What the addresses begin with.

    Yields:
        ``(address, eqn)``.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import iter_eqns, trace
        >>> program = trace(lambda x: jax.lax.map(jnp.sin, x) * 2)(jnp.ones(3))
        >>> [address for address, eqn in iter_eqns(program)]
        ['0:scan', '0:scan/body/0:sin', '1:mul']
    """
    for local, eqn in numbered(jaxpr):
        yield f"{prefix}{local}", eqn
        for nested in nested_jaxprs(eqn):
            yield from iter_eqns(nested.stored, f"{prefix}{local}/{nested.label}/")
