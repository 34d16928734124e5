"""Selectors by variables: what is asked for, what stands for it, what errors say of it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from taxpr._compat import Primitive, is_sequence
from taxpr._errors import AddressError, SelectorError
from taxpr._programs.traced import Traced
from taxpr._sites.criteria import Holding, Line, Maybe, Scope, Selector
from taxpr._sites.values import select_values
from taxpr._sites.walk import find_sites
from taxpr._variables.cotangent import Cotangent, cotangents
from taxpr._variables.select import Var, chosen, named_var

if TYPE_CHECKING:
    from typing_extensions import TypeIs

P = TypeVar("P", bound=Traced)
Names = bool | Literal["cotangents"]


def names_for(*where: Any) -> Names:
    """What is to be noted while tracing for selectors, or mappings from them; see `trace`."""
    asked = [one for some in where for one, _ in variables_in(some)]
    return "cotangents" if any(isinstance(one, Cotangent) for one in asked) else bool(asked)


def with_addresses(program: Traced, where: Selector) -> Selector:
    """A selector of values in which the addresses of what they held stand for variables."""

    def held(one: Var | Cotangent, may_be_empty: bool) -> Any:
        if isinstance(one, Cotangent):
            found = cotangents(program.named, one, may_be_empty)
        else:
            found = chosen(program.variables(), one, may_be_empty)
        return Holding(repr(one), frozenset(each.address for each in found))

    return replaced(where, held)


def as_collected(program: Traced, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """A mapping in which names that `collect` gives to variables are selectors of these.

    The names of the program's own tags, and whatever else is no such name, stay.
    """
    sites = find_sites(program.jaxpr) if program.named else []
    own = {key for site in sites for key in (site.name, site.address, site.value_address)}
    return {
        _variable_of(program, key) if isinstance(key, str) and key not in own else key: value
        for key, value in values.items()
    }


def _variable_of(program: Traced, label: str) -> Any:
    back, name = label.startswith("∂ "), label.removeprefix("∂ ")
    if program.named is None or not name.strip():
        return label
    try:
        where = named_var(name)
        found = chosen(program.named.table, where, may_be_empty=True)
    except SelectorError:  # of several functions: another message says so
        return label
    return (Cotangent(where) if back else where) if found else label


@contextlib.contextmanager
def telling(program: Any, *where: Any) -> Generator[None, None, None]:
    """A context for selecting: errors say which tags are used up, and what is a variable."""
    try:
        yield
    except (SelectorError, AddressError) as error:
        gone = [repr(one) for one in where if isinstance(one, str) and one in program.used]
        more = meant(program, where, error)
        if gone:
            more = (
                f" The tag {', '.join(gone)} was used up by an injection before. Several "
                "injectors run in turn where they are given as a list: [scale(3.0), record()]."
            )
        if not more:
            raise
        raise type(error)(f"{error}{more}") from None


def meant(program: Any, where: Any, error: Exception) -> str:
    """The end of a message that nothing was found, where variables or values are what is meant."""
    for one in _each(where):
        if repr(one) not in str(error):
            continue
        if isinstance(one, str) and _is_one(program, one):
            return f" {one!r} is a variable: select it by taxpr.{Var(one)!r}."
        if isinstance(one, (Scope, Line, Primitive)):
            return "".join(said for said in _untagged(program, one) if said not in str(error))
    return ""


def _each(where: Any) -> Iterator[Any]:
    if is_sequence(where) or is_mapping(where):
        for one in where:
            yield from _each(one)
    else:
        yield where


def _untagged(program: Any, where: Scope | Line | Primitive) -> Iterator[str]:
    """How to have values without a tag, if there are some."""
    try:
        at = {value.address for value in select_values(program.jaxpr, where)}
        names = dict.fromkeys(one.name for one in program.variables() if one.address in at)
    except SelectorError:
        return
    written = "where" if isinstance(where, Primitive) else f"taxpr.{where!r}"
    yield f" To have what has no tag, tag it first: taxpr.trace(fun)(*args).tag_at({written})."
    if names:
        shown = ", ".join(f"taxpr.{Var(name)!r}" for name in itertools.islice(names, 3))
        yield f" Or select variables, such as {shown}."


def _is_one(program: Any, text: str) -> bool:
    try:
        return bool(text.strip() and chosen(program.variables(), Var(text), True))
    except SelectorError:  # of several functions, which its own message says
        return True


def variables_in(where: Any, may_be_empty: bool = False) -> Iterator[tuple[Var | Cotangent, bool]]:
    """The selectors by variables in a selector or mapping, and whether they may match nothing."""
    if isinstance(where, (Var, Cotangent)):
        yield where, may_be_empty
    elif isinstance(where, Maybe):
        yield from variables_in(where.where, True)
    elif is_sequence(where) or is_mapping(where):
        for one in where:
            yield from variables_in(one, may_be_empty)


def replaced(
    where: Any, held: Callable[[Var | Cotangent, bool], Any], may_be_empty: bool = False
) -> Any:
    """A selector, or a mapping, in which ``held`` says what stands for those by variables."""
    if isinstance(where, (Var, Cotangent)):
        return held(where, may_be_empty)
    if isinstance(where, Maybe):
        return Maybe(replaced(where.where, held, True))
    if is_sequence(where):
        found = [replaced(one, held, may_be_empty) for one in where]
        return tuple(found) if isinstance(where, tuple) else found
    if is_mapping(where):
        return {replaced(key, held, may_be_empty): one for key, one in where.items()}
    return where


def is_mapping(where: object) -> TypeIs[Mapping[Any, Any]]:
    """Whether it is one, of any types."""
    return isinstance(where, Mapping)
