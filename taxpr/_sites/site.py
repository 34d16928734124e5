"""`Site`: a tag in a program, and the steps down to it through nested jaxprs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, PyTree, StoredJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.table import in_loop, injectable, is_brought, is_loop, nested_jaxprs
from taxpr._places import place_note, place_text
from taxpr._primitives.state_access import access_of, is_access
from taxpr._primitives.tag_equation import AtVariable, Batch, is_tag, tag_params, variable_of


class Step(NamedTuple):
    """One step down into a nested jaxpr: an equation and the jaxpr's label."""

    position: int
    """Index among all equations of the jaxpr, tags included."""
    eqn: JaxprEqn
    local: str
    """The equation's own part of the address, such as ``"3:scan"``."""
    nested: Nested
    home: StoredJaxpr
    """The jaxpr that holds the equation, as stored."""

    @property
    def is_loop(self) -> bool:
        """Whether each iteration of a loop, such as a scan or a while loop, runs the jaxpr."""
        return in_loop(self.eqn, self.nested)

    @property
    def is_while(self) -> bool:
        """Whether the equation is a loop whose trip count only a run can tell."""
        return self.nested.trips is None and self.is_loop

    @property
    def refusal(self) -> str | None:
        """Why `inject` refuses tags in this jaxpr; None if it does not."""
        return injectable(self.eqn, self.nested)

    @property
    def key(self) -> tuple[int, str]:
        """A key that distinguishes steps from the same jaxpr."""
        return self.position, self.nested.label


@dataclasses.dataclass(frozen=True, eq=False)
class Site:
    """A tag in a program.

    Attributes:
        address: Its address, such as ``"3:scan/body/t0"``. The number of a tag changes when
            an earlier tag is added or removed.
        params: The params that the user gave to `tag`.
        avals: The avals of the tagged value, in its structure.
        value_address: The address of the tagged value; None if it is several arrays.
        makers: For each leaf of the tagged value, the equation that made it, looking through other
            tags; None for inputs, constants and literals.
        batch: One ``(size, dims)`` for each `jax.vmap` around it, innermost first;
            ``dims`` holds the mapped axis of each leaf, or None.
        steps: The steps down to it.
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

    address: Address
    params: dict[str, Any]
    avals: PyTree
    value_address: Address | None
    makers: tuple[JaxprEqn | None, ...] = dataclasses.field(repr=False)
    batch: Batch
    steps: tuple[Step, ...] = dataclasses.field(repr=False)
    position: int = dataclasses.field(repr=False)
    eqn: JaxprEqn = dataclasses.field(repr=False)

    @property
    def name(self) -> Any:
        """The param ``name``, or None."""
        return self.params.get("name")

    @property
    def variable(self) -> AtVariable | None:
        """The variable that a selector has put it for; None for the program's own tags."""
        return variable_of(self.eqn)

    @property
    def source(self) -> _compat.Source | None:
        """The line of the user's code that made the tag."""
        return _compat.source_of(self.eqn)

    @property
    def chain(self) -> tuple[Address, ...]:
        """The addresses of the equations around it, outermost first."""
        return tuple(address for address, _ in around(self.steps))

    @property
    def trips(self) -> int | None:
        """The most times that it fires in a run; None if only the run can tell."""
        trips = 1
        for step in self.steps:
            if not isinstance(step.nested.trips, int):
                return None
            trips *= step.nested.trips
        return trips

    @property
    def conditional(self) -> bool:
        """Whether a run may skip it."""
        return any(step.nested.conditional for step in self.steps)

    @property
    def recomputed(self) -> bool:
        """Whether it is in a part of a backward pass that repeats the forward pass."""
        return any(step.nested.recomputed for step in self.steps)

    @property
    def in_rule(self) -> bool:
        """Whether it fires only when the program is differentiated, by a custom rule."""
        return any(step.nested.rule for step in self.steps)

    @property
    def idle(self) -> bool:
        """Whether it never fires, because its jaxpr only serves derivatives: the matvec of a solve.

        `inject`, `collect` and the like skip such a tag. They refuse it if it is selected by its
        address, or if nothing else is selected.
        """
        return any(step.nested.idle for step in self.steps)

    @property
    def refusal(self) -> str | None:
        """Why `inject`, `collect` and the like refuse it; None if they do not.

        They skip it if a selector only describes it, see `find_tags`.
        """
        return next((step.refusal for step in self.steps if step.refusal), None)

    def is_same(self, other: Site) -> bool:
        """Whether both are the same tag of one traced program, before and after an edit of it.

        Args:
            other: A tag of the same program or of an edited version.

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
        return described(self.address, self.eqn)


def runs_once(eqn: JaxprEqn, nested: Nested) -> bool:
    """Whether a nested jaxpr runs once, in the same place, whenever its equation does."""
    again = nested.conditional or nested.idle or nested.rule or is_loop(eqn)
    apart = eqn.primitive is _compat.shard_map_p or is_brought(eqn)
    return nested.trips == 1 and not again and not apart


def around(steps: Sequence[Step]) -> list[tuple[Address, Step]]:
    """The addresses of the equations of steps, outermost first, each with its step."""
    return [(home_of(steps[:k]) / step.local, step) for k, step in enumerate(steps)]


def home_of(steps: Iterable[Step]) -> Address:
    """The address of the jaxpr that steps lead to."""
    return Address("/".join(part for s in steps for part in (s.local, s.nested.label)))


def described(address: str, eqn: JaxprEqn) -> str:
    """An equation for messages: ``scan of step (model.py:12 in f, at 3:scan)``.

    A tag is called by its name, and a use of a state by the state's name.
    """
    if variable := variable_of(eqn):
        at = Address(address).home / variable.value
        return f"variable {variable.name}{place_note(variable.place, at)}"
    source, called = _compat.source_of(eqn), _called(eqn)
    if source or called is None or not _compat.user_function(called.stored):
        return f"{_named(eqn)}{_compat.source_note(source, address)}"
    line = place_text(*(_compat.function_of(called.stored) or (None, None)))  # of its definition
    return f"{_named(eqn)}{place_note(line, address)}"


def value_text(address: str, eqn: JaxprEqn | None) -> str:
    """A value and the equation that makes it, for messages; None makes inputs and constants."""
    if eqn is not None:
        return f"result of {described(address, eqn)}"
    local = Address(address)
    return f"{_ENTERING.get(local.kind, 'value')} {local.number}{place_note('', address)}"


_ENTERING = {"in": "input", "const": "constant"}


def _named(eqn: JaxprEqn) -> str:
    if is_access(eqn):
        access = access_of(eqn)
        return f"{access.op} of {access.state.shown}"
    if is_tag(eqn):
        params = tag_params(eqn)
        return f"tag {params['name']!r}" if "name" in params else f"tag {params}"
    kind, called = eqn.primitive.name, _called(eqn)
    if called is None:
        return kind
    function = called.facts.get("name") or _compat.user_function(called.stored)
    if _compat.HIDING_PARAM in eqn.params:  # one primitive for all
        kind = called.title.partition(" ")[0]
    return f"{kind} of {function}" if function and "<" not in function else kind


def _called(eqn: JaxprEqn) -> Nested | None:
    """The jaxpr of the function that an equation calls, or of the body of a loop; else None."""
    nested = nested_jaxprs(eqn)
    looped = [one for one in nested if in_loop(eqn, one)]
    return nested[0] if len(nested) == 1 else looped[-1] if looped else None
