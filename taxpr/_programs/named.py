"""Selectors by variables: the values that these held get tags, and the selector means the tags."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from taxpr._compat import is_sequence
from taxpr._programs.edit import tag_where
from taxpr._programs.traced import Traced
from taxpr._sites.criteria import Holding, Maybe, Selector
from taxpr._sites.walk import find_sites
from taxpr._variables.select import Var, chosen, labels
from taxpr._variables.table import Variable

if TYPE_CHECKING:
    from typing_extensions import TypeIs

P = TypeVar("P", bound=Traced)
_VAR = "var"  # the param by which these tags are known


def has_variables(where: Any) -> bool:
    """Whether a selector, or a mapping from selectors, asks for variables."""
    return any(True for _ in _variables(where))


def with_addresses(program: Traced, where: Selector) -> Selector:
    """A selector of values in which the addresses of what they held stand for variables."""

    def held(one: Var, may_be_empty: bool) -> Any:
        found = chosen(program.variables(), one, may_be_empty)
        return Holding(repr(one), frozenset(variable.address for variable in found))

    return _replaced(where, held)


class Tagged(NamedTuple, Generic[P]):
    """A program with tags at variables, and the selector of tags in which these stand for them."""

    program: P
    where: Any


def tagged(program: P, where: Any) -> Tagged[P] | None:
    """The `Program` with tags at the variables in a selector; None where there are none."""
    wanted = dict(_variables(where))
    if not wanted:
        return None
    found = {one: chosen(program.variables(), one, empty) for one, empty in wanted.items()}
    every = list(dict.fromkeys(variable for held in found.values() for variable in held))
    names = dict(zip(every, labels(every), strict=True))
    keys = {variable: f"{variable.address} {name}" for variable, name in names.items()}
    by_address: dict[str, list[Variable]] = {}
    for variable in every:
        by_address.setdefault(variable.address, []).append(variable)

    def params(address: str, k: int) -> dict[str, Any]:
        variable = by_address[address][k]
        return {"name": names[variable], _VAR: keys[variable]}

    jaxpr = program.jaxpr
    for k in range(max(map(len, by_address.values()), default=0)):
        here: list[Selector] = [one for one, held in by_address.items() if len(held) > k]
        jaxpr, _ = tag_where(jaxpr, here, lambda address, k=k: params(address, k))
    at = {site.params[_VAR]: site.address for site in find_sites(jaxpr) if _VAR in site.params}

    def held(one: Var, may_be_empty: bool) -> Any:
        del may_be_empty
        text = names[found[one][0]] if len(found[one]) == 1 else one.text
        return Holding(text, frozenset(at[keys[variable]] for variable in found[one]))

    # The new tags count in addresses, so one of a tag that was there stands for the tag itself.
    tags = find_sites(program.jaxpr)
    names_of_tags = {site.name for site in tags}
    sites: dict[str, Any] = {
        site.address: site for site in tags if site.address not in names_of_tags
    }
    return Tagged(dataclasses.replace(program, jaxpr=jaxpr), _replaced(where, held, sites))


def _variables(where: Any, may_be_empty: bool = False) -> Iterator[tuple[Var, bool]]:
    if isinstance(where, Var):
        yield where, may_be_empty
    elif isinstance(where, Maybe):
        yield from _variables(where.where, True)
    elif is_sequence(where) or is_mapping(where):
        for one in where:
            yield from _variables(one, may_be_empty)


def _replaced(
    where: Any,
    held: Callable[[Var, bool], Any],
    sites: Mapping[str, Any] = MappingProxyType({}),
    may_be_empty: bool = False,
) -> Any:
    if isinstance(where, Var):
        return held(where, may_be_empty)
    if isinstance(where, Maybe):
        return Maybe(_replaced(where.where, held, sites, True))
    if is_sequence(where):
        found = [_replaced(one, held, sites, may_be_empty) for one in where]
        return tuple(found) if isinstance(where, tuple) else found
    if is_mapping(where):
        return {_replaced(key, held, sites, may_be_empty): one for key, one in where.items()}
    return sites.get(where, where) if isinstance(where, str) else where


def is_mapping(where: object) -> TypeIs[Mapping[Any, Any]]:
    """Whether it is one, of any types."""
    return isinstance(where, Mapping)
