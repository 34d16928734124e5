"""`Value`: the values of a program, and selectors that choose them."""

import dataclasses
import fnmatch
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import AbstractValue, JaxprEqn, StoredJaxpr
from taxpr._errors import AddressError, SelectorError
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag import is_tag
from taxpr._sites.criteria import (
    Holding,
    Line,
    Scope,
    Selector,
    answer,
    nearest,
    nearest_lines,
    nearest_scopes,
    united,
)
from taxpr._sites.locate import Place, locate
from taxpr._sites.selectors import same_site
from taxpr._sites.site import Site, Step, described, value_text
from taxpr._sites.skipped import Refusal, Skipped, parted, refusal_of, skipped
from taxpr._sites.walk import find_sites, numbered


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """A value of a program, tagged or not.

    Attributes:
        address: Its address, such as ``"3:scan/body/4:sin.0"``.
        aval: Its aval.
        eqn: The equation that makes it; None for an input or a constant.
        steps: The steps down to it.

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
    place: Place = dataclasses.field(repr=False)

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
            place = Place(steps, stored, kind, k, None)
            yield Value(home / f"{kind}{k}", var.aval, None, steps, place)
    for position, (local, eqn) in enumerate(numbered(inner)):
        if is_tag(eqn):
            continue
        address = home / local
        for nested in nested_jaxprs(eqn):
            step = Step(position, eqn, local, nested, stored)
            yield from _walked(nested.stored, address / nested.label, (*steps, step))
        for k, var in enumerate(eqn.outvars):
            place = Place(steps, stored, "eqn", position, k)
            yield Value(address.value(k), var.aval, eqn, steps, place)


def value_at(jaxpr: StoredJaxpr, address: str) -> Value:
    """The value at an address.

    Raises:
        AddressError: If there is none, or if the address is ambiguous.
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


class SelectedValues(NamedTuple):
    """The values to tag, and the places that were skipped."""

    values: list[Value]
    skipped: tuple[Skipped, ...]


def select_values_to_tag(
    jaxpr: StoredJaxpr, where: Selector, names: Mapping[str, str]
) -> SelectedValues:
    """The chosen values at which a tag can be injected.

    Others are skipped if the selector only describes values and does not name them.
    """
    over: list[tuple[Value, Refusal]] = []

    def left(found: list[Value], may_be_empty: bool) -> list[Value]:
        kept, gone = parted(found, may_be_empty, _refusal_to_tag)
        over.extend(gone)
        return kept

    chosen = select_values(jaxpr, where, names, left)
    taken = {value.address for value in chosen}
    return SelectedValues(chosen, skipped(pair for pair in over if pair[0].address not in taken))


def _refusal_to_tag(value: Value) -> Refusal | None:
    hidden = (Refusal(step, _HIDDEN) for step in value.steps if not step.nested.replaceable)
    return refusal_of(value) or next(hidden, None)


_HIDDEN = "its jaxpr is hidden, and cannot be replaced by one with a tag"


def select_values(
    jaxpr: StoredJaxpr,
    where: Selector,
    names: Mapping[str, str] = types.MappingProxyType({}),
    left: Callable[[list[Value], bool], list[Value]] = lambda found, may_be_empty: found,
) -> list[Value]:
    """The values that a selector chooses, in program order; see `taxpr.find_values`.

    Args:
        jaxpr: The jaxpr.
        where: The selector.
        names: Addresses by alternative names.
        left: ``(found, may_be_empty) -> values``: filters the selection of a selector that
            describes values and does not name one.

    Raises:
        AddressError: If there is no such address.
        SelectorError: If nothing matches and that was not allowed.
    """
    where = names.get(where, where) if isinstance(where, str) else where
    if isinstance(where, str) and not _is_glob(jaxpr, where):
        # Avoid a walk through the whole program in the common case.
        return [value_at(jaxpr, where)]
    values = values_of(jaxpr)

    def one(where: Selector, may_be_empty: bool) -> list[Value]:
        if isinstance(where, str):
            where = names.get(where, where)
        if isinstance(where, Site):
            where = _address_of(jaxpr, where, may_be_empty)
            if where is None:
                return []
        if isinstance(where, str) and not _is_glob(jaxpr, where):
            try:
                return [value_at(jaxpr, where)]
            except AddressError:
                if may_be_empty:
                    return []
                raise
        fits = _test_of(where)
        found = [value for value in values if fits(value)]
        if not found and not may_be_empty:
            raise SelectorError(_nothing_found(values, where))
        return left(found, may_be_empty)

    return united(values, where, one)


def _is_glob(jaxpr: StoredJaxpr, text: str) -> bool:
    if "[" not in text or set("*?") & set(text):
        return bool(set("*?") & set(text))
    try:
        locate(jaxpr, text)
    except AddressError:
        return True
    return False  # labels of nested jaxprs may contain brackets


def _address_of(jaxpr: StoredJaxpr, site: Site, may_be_empty: bool) -> str | None:
    sites = find_sites(jaxpr)
    same = same_site(sites, site)
    found = next((one.address for one in sites if same(one)), None)
    if found is None and not may_be_empty:
        raise SelectorError(
            f"where: this program has no {site}: the site is stale, of another program or of a "
            "tag that was taken out." + nearest(site.address, (one.address for one in sites))
        )
    return found


def _test_of(where: Selector) -> Callable[[Value], bool]:
    if where is None:
        return lambda value: True
    if isinstance(where, str):
        return lambda value: fnmatch.fnmatchcase(value.address, where)
    if isinstance(where, (Scope, Line, Holding)):
        return where.fits
    if isinstance(where, _compat.Primitive):
        return lambda value: value.eqn is not None and value.eqn.primitive is where
    if callable(where):
        return lambda value: value.eqn is not None and answer(where, value.address, value.eqn)
    raise AddressError(
        f"{where!r} is a {type(where).__name__}. An address is a string such as "
        "'3:scan/body/4:sin.0'. Values are selected by an address, a glob of addresses, a Site, "
        "a primitive, a scope(), a line(), a predicate (address, eqn), or a list of these; in a "
        "Program also by a var()."
    )


def _nothing_found(values: Sequence[Value], where: Selector) -> str:
    said = f"where={where!r} matches none of the {len(values)} values."
    if isinstance(where, Scope):
        return said + nearest_scopes(values, where)
    if isinstance(where, Line):
        return said + nearest_lines(values, where)
    if isinstance(where, _compat.Primitive):
        makers = sorted({value.eqn.primitive.name for value in values if value.eqn})
        return f"{said} They are made by {', '.join(makers) or 'no equation'}."
    return said + nearest(str(where), (value.address for value in values))
