"""`Value`: the values of a program."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import AbstractValue, JaxprEqn, StoredJaxpr
from taxpr._errors import AddressError
from taxpr._hops.places import numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._sites.locate import Located, locate
from taxpr._sites.site import Site, Step, described, value_text
from taxpr._sites.skipped import refusal_of


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """A value of a program, tagged or not.

    Attributes:
        address: Its address, such as ``"3:scan/body/4:sin.0"``.
        aval: Its aval.
        eqn: The equation that makes it; None for an input or a constant.
        steps: The steps down to it.
        tag: The tag that returns it, if a selector of tags means it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import find_values, trace
        >>> program = trace(lambda x: jax.lax.map(jnp.sin, x))(jnp.ones(3))
        >>> [(value.address, str(value.aval)) for value in find_values(program)][2:]
        [('0:scan/body/0:sin.0', 'float32[]'), ('0:scan.0', 'float32[3]')]
    """

    address: Address
    aval: AbstractValue
    eqn: JaxprEqn | None = dataclasses.field(repr=False)
    steps: tuple[Step, ...] = dataclasses.field(repr=False)
    place: Located = dataclasses.field(repr=False)
    tag: Site | None = dataclasses.field(default=None, repr=False)

    @property
    def refusal(self) -> str | None:
        """Why a tag on it could not be injected; None if it could."""
        refusal = refusal_of(self)
        return refusal.reason if refusal else None

    @property
    def source(self) -> _compat.Source | None:
        """The line of the user's code that made it."""
        return _compat.source_of(self.eqn) if self.eqn else None

    def __str__(self) -> str:
        return value_text(self.address, self.eqn)


def values_of(jaxpr: StoredJaxpr) -> list[Value]:
    """All arrays of a jaxpr in program order. Results of tags do not count as values."""
    return [v for v in _walked(jaxpr, Address(), ()) if isinstance(v.aval, _compat.ShapedArray)]


def _walked(stored: StoredJaxpr, home: Address, steps: tuple[Step, ...]) -> Iterator[Value]:
    inner = _compat.open_jaxpr(stored)
    for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
        for k, var in enumerate(variables):
            place = Located(steps, stored, kind, k, None)
            yield Value(home / f"{kind}{k}", var.aval, None, steps, place)
    for position, (local, eqn) in enumerate(numbered(inner)):
        if is_tag(eqn):
            continue
        address = home / local
        for nested in nested_jaxprs(eqn):
            step = Step(position, eqn, local, nested, stored)
            yield from _walked(nested.stored, address / nested.label, (*steps, step))
        for k, var in enumerate(eqn.outvars):
            place = Located(steps, stored, "eqn", position, k)
            yield Value(address.value(k), var.aval, eqn, steps, place)


class _Home(NamedTuple):
    """A jaxpr, the steps down to it, and the positions of its equations by their names."""

    stored: StoredJaxpr
    steps: tuple[Step, ...]
    positions: dict[str, int]


class ByAddress:
    """The equations and values of a jaxpr by their addresses.

    Each of its nested jaxprs is read when one asks for a place in it, so that asking of a few
    places costs little. Tags do not count.

    Args:
        jaxpr: The jaxpr.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import Address, trace
        >>> places = ByAddress(trace(lambda x: jax.lax.map(jnp.sin, x))(jnp.ones(3)).jaxpr)
        >>> places.eqn(Address("0:scan/body/0:sin")).primitive.name
        'sin'
        >>> str(places.value(Address("0:scan.0")).aval)
        'float32[3]'
    """

    def __init__(self, jaxpr: StoredJaxpr) -> None:
        self._homes: dict[Address, _Home | None] = {Address(): _home(jaxpr, ())}

    def eqn(self, address: Address) -> JaxprEqn | None:
        """The equation at an address, or None."""
        home = self._home(address.home)
        position = home.positions.get(address.local) if home else None
        if home is None or position is None:
            return None
        return _compat.open_jaxpr(home.stored).eqns[position]

    def value(self, address: Address) -> Value | None:
        """The value at an address; None if there is no such array."""
        home, kind, number = self._home(address.home), address.kind, address.number
        if home is None:
            return None
        stored, steps, positions = home
        inner = _compat.open_jaxpr(stored)
        eqn, variables = None, inner.invars if kind == "in" else inner.constvars
        place = Located(steps, stored, kind, number, None)
        if kind == "eqn":
            eqn, result = self.eqn(address.eqn), address.result
            if eqn is None or result is None:
                return None
            place = Located(steps, stored, "eqn", positions[address.eqn.local], result)
            variables, number = eqn.outvars, result
        elif kind not in ("in", "const"):
            return None
        aval = variables[number].aval if number < len(variables) else None
        is_array = isinstance(aval, _compat.ShapedArray)
        return Value(address, aval, eqn, steps, place) if is_array else None

    def step(self, home: Address) -> Step:
        """The last step down to a nested jaxpr that there is."""
        found = self._home(home)
        assert found is not None
        return found.steps[-1]

    def _home(self, home: Address) -> _Home | None:
        if home not in self._homes:
            self._homes[home] = self._nested(home)
        return self._homes[home]

    def _nested(self, home: Address) -> _Home | None:
        address = home.home
        above, eqn = self._home(address.home), self.eqn(address)
        if above is None or eqn is None:
            return None
        for nested in nested_jaxprs(eqn):
            if nested.label == home.local:
                position = above.positions[address.local]
                step = Step(position, eqn, address.local, nested, above.stored)
                return _home(nested.stored, (*above.steps, step))
        return None


def _home(stored: StoredJaxpr, steps: tuple[Step, ...]) -> _Home:
    pairs = enumerate(numbered(_compat.open_jaxpr(stored)))
    return _Home(stored, steps, {local: k for k, (local, eqn) in pairs if not is_tag(eqn)})


def value_at(jaxpr: StoredJaxpr, address: str) -> Value:
    """The value at an address.

    Raises:
        AddressError: If there is no such value, or the address is ambiguous.
    """
    place = locate(jaxpr, address)
    inner = _compat.open_jaxpr(place.jaxpr)
    if place.kind != "eqn":
        var = (inner.invars if place.kind == "in" else inner.constvars)[place.number]
        return Value(place.home / f"{place.kind}{place.number}", var.aval, None, place.steps, place)
    eqn = inner.eqns[place.number]
    if place.out is None and len(eqn.outvars) != 1:
        raise AddressError(
            f"{described(address, eqn)} has {len(eqn.outvars)} results. Say which one to tag: "
            f"{address}.0, {address}.1, …"
        )
    out = place.out or 0
    whole = place.home / numbered(inner)[place.number][0]
    return Value(whole.value(out), eqn.outvars[out].aval, eqn, place.steps, place._replace(out=out))


def results_of(jaxpr: StoredJaxpr, site: Site) -> list[Value]:
    """The values that a tag returns: the leaves of its token."""
    home = site.steps[-1].nested.stored if site.steps else jaxpr
    return [
        Value(
            site.address.value(k),
            aval,
            site.eqn,
            site.steps,
            Located(site.steps, home, "eqn", site.position, k),
            site,
        )
        for k, aval in enumerate(jax.tree.leaves(site.avals))
    ]
