"""The meaning of texts in a program: a tag, else a variable, else an address."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from taxpr._address import Address
from taxpr._compat import StoredJaxpr, is_sequence
from taxpr._errors import AddressError, SelectorError
from taxpr._hops.places import addresses_of
from taxpr._sites.criteria import Each, Every, Maybe, Places, Selector, Untagged, nearest
from taxpr._sites.site import Site, home_of
from taxpr._sites.values import Value, value_at, values_of
from taxpr._sites.walk import find_sites
from taxpr._variables.cotangent import Cotangent
from taxpr._variables.select import Var, chosen, matching, named_var
from taxpr._variables.table import Variables
from taxpr._variables.variable import Variable
from taxpr._where.pick import no_match, pick_values, telling_of_tuples

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Names = bool | Literal["cotangents"]
UNNAMED = (
    " Its variables are not known: to select one, trace the function with taxpr.trace(fun, "
    "names=True), or give the function itself."
)


class NamedProgram(Protocol):
    """A program, as far as selecting goes; see `Traced`."""

    @property
    def jaxpr(self) -> StoredJaxpr: ...
    @property
    def addresses(self) -> Mapping[str, str]: ...
    @property
    def named(self) -> Variables | None: ...
    @property
    def used(self) -> Sequence[str]: ...


class OfJaxpr(NamedTuple):
    """A jaxpr, which has no names but the tags'."""

    jaxpr: StoredJaxpr
    addresses: Mapping[str, str] = {}
    named: Variables | None = None
    used: Sequence[str] = ()


# ---- selectors with names in them ---------------------------------------------------------------


def replaced(where: Any, held: Callable[[Any, bool], Any], may_be_empty: bool = False) -> Any:
    """The selector with ``held(one, may_be_empty)`` in place of each text and variable."""
    if isinstance(where, (str, Var, Cotangent, Untagged)):
        return held(where, may_be_empty)
    if isinstance(where, Maybe):
        return Maybe(replaced(where.where, held, True))
    if isinstance(where, Each):
        return dataclasses.replace(where, where=replaced(where.where, held, may_be_empty))
    if is_sequence(where):
        found = [replaced(one, held, may_be_empty) for one in where]
        return tuple(found) if isinstance(where, tuple) else found
    return where


def names_in(where: Any) -> list[tuple[Any, bool]]:
    """The texts and variables in a selector, and whether they may match nothing."""
    found: list[tuple[Any, bool]] = []

    def note(one: Any, may_be_empty: bool) -> None:
        found.append((one, may_be_empty))

    replaced(where, note)
    return found


def is_mapping(where: object) -> TypeIs[Mapping[Any, Any]]:
    """Whether it is a mapping, of any types."""
    return isinstance(where, Mapping)


def names_for(*where: Any) -> Names:
    """The ``names`` of `trace` that the variables in selectors need."""
    asked = [one for some in where for one, _ in names_in(some)]
    if any(isinstance(one, Cotangent) or str(one).startswith("∂ ") for one in asked):
        return "cotangents"
    return any(isinstance(one, Var) for one in asked)


def may_be_variables(program: NamedProgram, *where: Any) -> bool:
    """Whether texts in selectors are no tags and no addresses, so that variables may be meant."""
    texts = [one for some in where for one, _ in names_in(some) if isinstance(one, str)]
    sites = find_sites(program.jaxpr) if texts else []
    return any(
        _may_be_variable(text)
        and (text in program.addresses or not _is_place(program, text, sites))
        for text in texts
    )


def _is_place(program: NamedProgram, text: str, sites: Sequence[Site]) -> bool:
    return isinstance(meant(program, text, Site, sites), Places)


def _may_be_variable(text: str) -> bool:
    # What is before a bracket is the variable; addresses of equations have a colon.
    begins = re.match(r"[^\W\d]|[*?]", text) and not isinstance(text, Address)
    return bool(begins) and ":" not in text.partition("[")[0]


# ---- what one text means ------------------------------------------------------------------------


def said(program: NamedProgram, where: Selector, of: type[Site] | type[Value]) -> Any:
    """The selector with the meanings of texts in their place.

    Args:
        program: The program.
        where: The selector.
        of: Whether tags or values are selected, which tells what a glob of addresses means.

    Raises:
        SelectorError: If a text means nothing, or two things.
        AddressError: If an address is of no value.
    """
    texts = [one for one, _ in names_in(where) if isinstance(one, str)]
    sites = find_sites(program.jaxpr) if texts else []

    def meaning(one: Any, may_be_empty: bool) -> Any:
        if not isinstance(one, str):
            return one
        found = meant(program, one, of, sites, sure=not may_be_empty)
        if found is None and not may_be_empty:
            raise _nothing(program, one, of)
        return found or Places(one, frozenset(), "tag")

    given: Any = where
    with telling_of_tuples(where, sites if given.__class__ is tuple else ()):
        return replaced(where, meaning)


def meant(
    program: NamedProgram,
    text: str,
    of: type[Site] | type[Value],
    sites: Sequence[Site],
    *,
    sure: bool = False,
) -> Places | Var | Cotangent | None:
    """The meaning of a text, or None.

    Args:
        program: The program.
        text: The text.
        of: Whether tags or values are selected.
        sites: All tags.
        sure: Whether it is an error anyway if it is an address of nothing.

    Raises:
        SelectorError: If it means two things.
    """
    sites = [site for site in sites if site.variable is None]
    if text == "*":
        return Every(text, frozenset(), "glob")
    is_address = isinstance(text, Address)  # which no variable or tag has as its name
    plain = is_address or (":" in text and all(site.name != text for site in sites))
    if sure and plain and of is Value and Address(text).kind and not set("*?[") & set(text):
        return Places(text, frozenset({text}), "address")  # maybe one of many: no look-up here
    if is_address:
        return _at(program, sites, text, of)
    exact = bool(program.named and text.strip() and not set("*?") & set(text))
    held = matching(program.named.table, Var(text)) if program.named and exact else []
    at_held = {one.address for one in held}
    if tags := [site for site in sites if site.name == text]:
        if held and not _marked(program, tags) <= at_held:
            # Else the tag is on what the variable held, and says which of its values is meant.
            raise _two(text, f"the {tags[0]}", f"{{'name': {text!r}}}", held)
        return Places(text, _addresses(tags), "tag")
    place = _at(program, sites, text, of)
    if held:
        if place is not None and not _values_at(program, sites, place) <= at_held:
            raise _two(text, f"the address {text}", f"taxpr.Address({text!r})", held)
        return Var(text)
    if place is None and text in program.addresses:
        place = _at(program, sites, program.addresses[text], of)
    return place or _of_result(program, text) or _of_glob(program, sites, text, of)


def _addresses(sites: Sequence[Site]) -> frozenset[str]:
    return frozenset(site.address for site in sites)


def _at(
    program: NamedProgram, sites: Sequence[Site], text: str, of: type[Site] | type[Value]
) -> Places | None:
    """The meaning of an address: a tag, a value or an equation with one result."""
    if of is Site and (found := [s for s in sites if text in (s.address, s.value_address)]):
        return Places(text, _addresses(found), "address")
    if not Address(text).kind:
        return None
    try:
        value = value_at(program.jaxpr, text)
    except AddressError:
        return None
    if of is Value:
        return Places(text, frozenset({value.address}), "address")
    found = [site for site in sites if site.value_address == value.address]
    if found:
        return Places(text, _addresses(found), "address")
    return Untagged(text, frozenset({value.address}), "address")


def _of_result(program: NamedProgram, text: str) -> Var | Cotangent | None:
    """The meaning of a name that values have in results, such as ``"h#1"`` or ``"∂ h"``."""
    back, name = text.startswith("∂ "), text.removeprefix("∂ ").strip()
    if program.named is None or not name:
        return None
    one = named_var(name)
    if matching(program.named.table, one):
        return Cotangent(one) if back else one if one.text != text else None
    marked = back and any(mark.name == name for mark in program.named.marks)
    return Cotangent(name) if marked else None


def _of_glob(
    program: NamedProgram, sites: Sequence[Site], text: str, of: type[Site] | type[Value]
) -> Places | Var | None:
    if not set("*?[") & set(text):
        return None
    named = [s for s in sites if isinstance(s.name, str) and fnmatch.fnmatchcase(s.name, text)]
    if named:
        return Places(text, _addresses(named), "glob")
    if program.named and matching(program.named.table, Var(text)):
        return Var(text)
    # Addresses of equations contain a colon, so a glob with a colon is one of addresses.
    if of is Site and ":" not in text:
        return None
    if of is Site and (found := [s for s in sites if fnmatch.fnmatchcase(s.address, text)]):
        return Places(text, _addresses(found), "glob")
    values = [one for one in values_of(program.jaxpr) if fnmatch.fnmatchcase(one.address, text)]
    found = Places(text, frozenset(one.address for one in values), "glob")
    if of is Site and values:  # where a tag can be put and injected
        values = pick_values(program.jaxpr, found, change=True).found
        return Untagged(text, frozenset(one.address for one in values), "glob")
    return found if values else None


def _values_at(program: NamedProgram, sites: Sequence[Site], place: Places) -> set[str]:
    """The addresses of the values at an address."""
    tags = [site for site in sites if site.address in place.addresses]
    return _marked(program, tags) if tags else set(place.addresses)


def _marked(program: NamedProgram, sites: Sequence[Site]) -> set[str]:
    """The addresses of the values that tags mark, looking through other tags."""
    found: set[str] = set()
    for site in sites:
        stored = site.steps[-1].nested.stored if site.steps else program.jaxpr
        at = addresses_of(stored, home_of(site.steps))
        found.update(at[id(atom)] for atom in site.eqn.invars if id(atom) in at)
    return found


# ---- errors -------------------------------------------------------------------------------------


def _two(text: str, other: str, by: str, held: Sequence[Variable]) -> SelectorError:
    one = held[0]
    return SelectorError(
        f"where={text!r} is {other} and the variable {one.short} ({one.place}), and they hold "
        f"different values. Say which: {by}, or taxpr.{Var(text)!r}."
    )


def variables_of(program: NamedProgram, where: Var, may_be_empty: bool) -> list[Variable]:
    """The variables that a selector means.

    Raises:
        SelectorError: As for `chosen`; it also says what has the name and holds no tracer.
    """
    try:
        return chosen(program.named.table if program.named else (), where, may_be_empty)
    except SelectorError as error:
        if not (program.named and (more := _untraced(program.named, where.text))):
            raise
        raise SelectorError(f"{error}{more}") from None


def _untraced(named: Variables, text: str) -> str:
    """In words, the value of a variable that is no array of the program."""
    for (function, name), (file, line, said) in named.untraced.items():
        one = Variable(name, "", function, file, 0, line, 0, Address(), None)
        if text.strip() and matching([one], Var(text)):
            return (
                f" {one.short} holds {said} ({one.place}), which is not in the program: make it "
                "an argument of the function to select it."
            )
    return ""


class _NothingError(AddressError, SelectorError):
    """A text that could be an address or a name, but means nothing."""


# What people see of an error is its name.
_NothingError.__qualname__ = _NothingError.__name__ = SelectorError.__name__
_NothingError.__module__ = SelectorError.__module__


def _nothing(program: NamedProgram, text: str, of: type[Site] | type[Value]) -> LookupError:
    """The error that a text means nothing: what is near, and how variables come to be known."""
    sites = [site for site in find_sites(program.jaxpr) if site.variable is None]
    table = program.named.table if program.named else ()
    known = [one.short if "." in text else one.text for one in table]
    where = Places(text, frozenset(), "tag")
    more = ""
    if text in program.used:
        more = (
            f" The tag {text!r} was used up by an injection before. Several injectors run in turn "
            "if they are given as a list: [scale(3.0), record()]."
        )
    elif program.named is not None:
        more = _untraced(program.named, text)
    elif _may_be_variable(text):
        more = UNNAMED
    if of is Site or set("*?[") & set(text):
        return SelectorError(no_match(program.jaxpr, of, where, known) + more)
    try:
        value_at(program.jaxpr, text)
    except AddressError as error:
        if not _may_be_variable(text) or Address(text).kind:
            return AddressError(f"{error}{more}")
        near = nearest(text, sorted({*known, *(str(s.name) for s in sites if s.name is not None)}))
        near = near if near.startswith(" Nearest") else f" {error}{near}"
        said = f"where={text!r}: no variable or tag has that name, and no value that address."
        return _NothingError(said + near + more)
    raise AssertionError(text)
